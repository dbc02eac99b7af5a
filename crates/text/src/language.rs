//! Stub.
/// The language of a collection's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// No stemming.
    None,
}
impl Language {
    /// Parses a name or code.
    pub fn parse(name: &str) -> Option<Language> {
        match name.to_ascii_lowercase().as_str() {
            "english" | "en" => Some(Language::English),
            "none" => Some(Language::None),
            _ => None,
        }
    }
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Language::English => "english",
            Language::None => "none",
        }
    }
    /// All of them.
    pub fn all() -> &'static [Language] {
        &[Language::English, Language::None]
    }
}
