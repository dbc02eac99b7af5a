//! The languages of collections.

use snowball_stemmers_rs::Algorithm;

/// One row per language: variant, name, ISO 639-1 code, stemming algorithm.
macro_rules! languages {
    ($($variant:ident, $name:literal, $code:literal;)*) => {
        /// The language of a collection's texts, which determines the stemmer and the stop words.
        ///
        /// Texts in any script are analysed in every language.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        pub enum Language {
            /// No stemming and no stop words: for code, identifiers and mixed languages.
            None,
            /// English, by the second Porter stemmer.
            #[default]
            English,
            $(#[doc = concat!("Stemmed by the Snowball algorithm for ", $name, ".")] $variant,)*
        }

        impl Language {
            /// The language with this name (`"english"`) or ISO 639-1 code (`"en"`), ignoring case; `None` if unknown.
            pub fn parse(name: &str) -> Option<Language> {
                match name.to_ascii_lowercase().as_str() {
                    "none" => Some(Language::None),
                    "english" | "en" => Some(Language::English),
                    $($name | $code => Some(Language::$variant),)*
                    _ => None,
                }
            }

            /// The English name in lower case, which [`Language::parse`] accepts.
            pub fn name(self) -> &'static str {
                match self {
                    Language::None => "none",
                    Language::English => "english",
                    $(Language::$variant => $name,)*
                }
            }

            /// The ISO 639-1 code; `None` for [`Language::None`].
            pub fn code(self) -> Option<&'static str> {
                match self {
                    Language::None => None,
                    Language::English => Some("en"),
                    $(Language::$variant => Some($code),)*
                }
            }

            /// Every language: `none`, `english`, then by name.
            pub fn all() -> &'static [Language] {
                &[Language::None, Language::English, $(Language::$variant,)*]
            }

            pub(crate) fn algorithm(self) -> Option<Algorithm> {
                match self {
                    Language::None => None,
                    Language::English => Some(Algorithm::English),
                    $(Language::$variant => Some(Algorithm::$variant),)*
                }
            }
        }
    };
}

languages! {
    Arabic, "arabic", "ar";
    Armenian, "armenian", "hy";
    Basque, "basque", "eu";
    Catalan, "catalan", "ca";
    Czech, "czech", "cs";
    Danish, "danish", "da";
    Dutch, "dutch", "nl";
    Esperanto, "esperanto", "eo";
    Estonian, "estonian", "et";
    Finnish, "finnish", "fi";
    French, "french", "fr";
    German, "german", "de";
    Greek, "greek", "el";
    Hindi, "hindi", "hi";
    Hungarian, "hungarian", "hu";
    Indonesian, "indonesian", "id";
    Irish, "irish", "ga";
    Italian, "italian", "it";
    Lithuanian, "lithuanian", "lt";
    Nepali, "nepali", "ne";
    Norwegian, "norwegian", "no";
    Persian, "persian", "fa";
    Polish, "polish", "pl";
    Portuguese, "portuguese", "pt";
    Romanian, "romanian", "ro";
    Russian, "russian", "ru";
    Serbian, "serbian", "sr";
    Spanish, "spanish", "es";
    Swedish, "swedish", "sv";
    Tamil, "tamil", "ta";
    Turkish, "turkish", "tr";
    Ukrainian, "ukrainian", "uk";
    Yiddish, "yiddish", "yi";
}

#[cfg(test)]
mod tests {
    use super::Language;

    #[test]
    fn every_name_and_code_parses_back_in_any_case() {
        for &language in Language::all() {
            assert_eq!(Language::parse(&language.name().to_uppercase()), Some(language));
            if let Some(code) = language.code() {
                assert_eq!(Language::parse(code), Some(language));
            }
        }
        assert_eq!(Language::all().len(), 35);
    }

    #[test]
    fn unknown_names_are_rejected() {
        assert_eq!(Language::parse("klingon"), None);
        assert_eq!(Language::parse(""), None);
    }
}
