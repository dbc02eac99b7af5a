//! Analysis: the terms of a text, as the lexical index stores them and queries look them up.
//!
//! A word is a run of letters, digits and combining marks. It is normalised, stemmed and folded ([`crate::fold`]).
//! Scripts without spaces between words yield overlapping bigrams of characters instead; a single character yields
//! itself. The work per character is bounded, so analysis takes linear time for any input.

use crate::Language;
use crate::fold::{fold, normalise};
use crate::script::{CharClass, char_class, is_hangul_tail};
use crate::stem::CachedStemmer;

/// Longer words are split into pieces of this many characters: a word of 100,000 characters stays searchable by its
/// pieces and produces no term that is too long for a term dictionary.
const WORD_CHARS_MAX: usize = 64;
/// A CJK or Thai cluster (a character and its combining marks) is cut off after this many characters.
const CLUSTER_CHARS_MAX: usize = 16;

/// A term and the span of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The term: normalised, stemmed and folded. Never empty, and without white space.
    pub text: &'a str,
    /// First byte of the word in the input.
    pub start: usize,
    /// One past the last byte of the word in the input.
    pub end: usize,
}

/// Analyses texts of one language; reuses its buffers and its cache of stems from text to text.
#[derive(Debug)]
pub struct Analyser {
    language: Language,
    stemmer: CachedStemmer,
    /// The normalised word, before stemming.
    word: String,
    /// The term, or the first cluster of a bigram.
    term: String,
    /// Output buffer of folding; swapped with `word` or `term`.
    folded: String,
}

/// Analyses one text. For many texts, [`Analyser::analyse`] is faster.
pub fn analyse(text: &str, language: Language, on_token: impl FnMut(Token<'_>)) {
    Analyser::new(language).analyse(text, on_token);
}

impl Analyser {
    /// An analyser for texts of `language`.
    pub fn new(language: Language) -> Analyser {
        let stemmer = CachedStemmer::new(language);
        Analyser { language, stemmer, word: String::new(), term: String::new(), folded: String::new() }
    }

    /// Calls `on_token` for every term of `text`, in document order.
    ///
    /// Starts and ends of tokens never decrease; only bigrams overlap. Stop words are not removed here: documents
    /// keep them, [`crate::query_terms`] drops them.
    pub fn analyse(&mut self, text: &str, mut on_token: impl FnMut(Token<'_>)) {
        self.analyse_words(text, &mut |token: Token<'_>, _: &str| on_token(token));
    }

    /// As [`Analyser::analyse`], and also passes the word before stemming.
    pub(crate) fn analyse_words(&mut self, text: &str, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                at += 1;
            }
            if at < bytes.len() && !bytes[at].is_ascii() {
                at = self.unicode_run(text, start, on_word);
            } else {
                self.ascii_word(text, start, at, on_word);
                at += 1; // the separator, which is one byte
            }
        }
    }

    /// Emits the ASCII word at `start..end`; nothing if it is empty.
    fn ascii_word(
        &mut self,
        text: &str,
        start: usize,
        end: usize,
        on_word: &mut impl FnMut(Token<'_>, &str),
    ) {
        for start in (start..end).step_by(WORD_CHARS_MAX) {
            let end = end.min(start + WORD_CHARS_MAX);
            let raw = &text[start..end];
            if self.is_possessive(text, start, raw) {
                continue;
            }
            self.word.clear();
            self.word.push_str(raw);
            if self.language == Language::Turkish {
                self.word.clear();
                normalise(raw, true, &mut self.word);
            } else {
                self.word.make_ascii_lowercase();
            }
            self.emit_stemmed(start, end, on_word);
        }
    }

    /// Emits the run of word characters at `start`, of which some are not ASCII; or skips one separator.
    /// Returns the offset after the run and at most one separator.
    fn unicode_run(&mut self, text: &str, start: usize, on_word: &mut impl FnMut(Token<'_>, &str)) -> usize {
        let mut part: Option<(usize, CharClass)> = None; // start and class of the current part
        for (offset, c) in text[start..].char_indices() {
            let at = start + offset;
            let class = char_class(c);
            if class == CharClass::Extender || part.is_some_and(|(_, current)| current == class) {
                continue;
            }
            if let Some((part_start, part_class)) = part {
                self.emit_part(text, part_start, at, part_class, on_word);
            }
            if class == CharClass::Separator {
                return at + c.len_utf8();
            }
            part = Some((at, class));
        }
        if let Some((part_start, part_class)) = part {
            self.emit_part(text, part_start, text.len(), part_class, on_word);
        }
        text.len()
    }

    fn emit_part(
        &mut self,
        text: &str,
        start: usize,
        end: usize,
        class: CharClass,
        on_word: &mut impl FnMut(Token<'_>, &str),
    ) {
        let part = &text[start..end];
        if class == CharClass::Unspaced {
            self.bigrams(text, start, end, on_word);
        } else if part.is_ascii() {
            self.ascii_word(text, start, end, on_word);
        } else {
            self.unicode_word(text, start, end, on_word);
        }
    }

    fn unicode_word(
        &mut self,
        text: &str,
        start: usize,
        end: usize,
        on_word: &mut impl FnMut(Token<'_>, &str),
    ) {
        let mut at = start;
        while at < end {
            let rest = &text[at..end];
            let length = rest.char_indices().nth(WORD_CHARS_MAX).map_or(rest.len(), |(length, _)| length);
            self.word.clear();
            normalise(&rest[..length], self.language == Language::Turkish, &mut self.word);
            self.emit_stemmed(at, at + length, on_word);
            at += length;
        }
    }

    /// Stems and folds `self.word` and emits the term unless it is empty.
    fn emit_stemmed(&mut self, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
        // The English stemmer expects words without accents; all others depend on them.
        let fold_first = matches!(self.language, Language::English | Language::None);
        if fold_first && !self.word.is_ascii() {
            self.folded.clear();
            fold(&self.word, &mut self.folded);
            std::mem::swap(&mut self.word, &mut self.folded);
        }
        self.term.clear();
        self.stemmer.stem(&self.word, &mut self.term);
        if !fold_first && !self.term.is_ascii() {
            self.folded.clear();
            fold(&self.term, &mut self.folded);
            std::mem::swap(&mut self.term, &mut self.folded);
        }
        if !self.term.is_empty() {
            on_word(Token { text: &self.term, start, end }, &self.word);
        }
    }

    /// Emits the overlapping bigrams of the clusters (a character and its marks) at `start..end`, or a single cluster.
    fn bigrams(&mut self, text: &str, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let mut at = start;
        let mut previous_start: Option<usize> = None; // start of the cluster in `term`
        let mut has_bigram = false;
        let mut last_end = start;
        self.term.clear();
        while at < end {
            let cluster_start = at;
            at += cluster_length(&text[at..end]);
            self.word.clear();
            normalise(bounded_cluster(&text[cluster_start..at]), false, &mut self.word);
            if self.word.is_empty() {
                continue;
            }
            let previous_length = self.term.len();
            self.term.push_str(&self.word);
            if let Some(start) = previous_start {
                on_word(Token { text: &self.term, start, end: at }, &self.term);
                has_bigram = true;
            }
            self.term.drain(..previous_length);
            previous_start = Some(cluster_start);
            last_end = at;
        }
        if let (Some(start), false) = (previous_start, has_bigram) {
            on_word(Token { text: &self.term, start, end: last_end }, &self.term);
        }
    }

    /// Whether the word `raw` at `start` is the `s` of an English possessive, which carries no meaning.
    fn is_possessive(&self, text: &str, start: usize, raw: &str) -> bool {
        self.language == Language::English
            && matches!(raw, "s" | "S")
            && text[..start]
                .strip_suffix(['\'', '’'])
                .and_then(|before| before.chars().next_back())
                .is_some_and(char::is_alphanumeric)
    }
}

/// Bytes of the first cluster: the first character and its extenders, or a decomposed Hangul syllable.
fn cluster_length(text: &str) -> usize {
    let mut chars = text.char_indices();
    let starts_hangul =
        chars.next().is_some_and(|(_, c)| matches!(c, '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{d7ff}'));
    chars
        .find(|&(_, c)| char_class(c) != CharClass::Extender && !(starts_hangul && is_hangul_tail(c)))
        .map_or(text.len(), |(at, _)| at)
}

/// The first [`CLUSTER_CHARS_MAX`] characters of a cluster.
fn bounded_cluster(cluster: &str) -> &str {
    let length = cluster.char_indices().nth(CLUSTER_CHARS_MAX).map_or(cluster.len(), |(at, _)| at);
    &cluster[..length]
}

#[cfg(test)]
mod tests {
    use super::analyse;
    use crate::Language;

    /// `expected`: the terms with their words, as `term=word`, separated by space.
    fn check(language: Language, text: &str, expected: &str) {
        let mut found = Vec::new();
        analyse(text, language, |token| {
            found.push(format!("{}={}", token.text, &text[token.start..token.end]))
        });
        assert_eq!(found.join(" "), expected, "{text:?}");
    }

    #[test]
    fn words_are_lower_cased_and_stemmed() {
        check(Language::English, "Running QUICKLY, ran.", "run=Running quick=QUICKLY ran=ran");
        check(Language::None, "Running QUICKLY", "running=Running quickly=QUICKLY");
    }

    #[test]
    fn letters_and_digits_form_words_and_other_characters_separate_them() {
        check(
            Language::None,
            "covid19 foo_bar 3.14 a-b",
            "covid19=covid19 foo=foo bar=bar 3=3 14=14 a=a b=b",
        );
        check(Language::None, "\0a\0😀b", "a=a b=b");
        check(Language::None, " .,;\n", "");
        check(Language::None, "", "");
    }

    #[test]
    fn words_that_differ_in_accents_have_the_same_term() {
        check(Language::English, "naïve café Cafe\u{301}s", "naiv=naïve cafe=café cafe=Cafe\u{301}s");
        check(Language::French, "étudiantes etudiantes", "etudi=étudiantes etudi=etudiantes");
        check(Language::German, "Häuser Straße STRASSE", "haus=Häuser strass=Straße strass=STRASSE");
    }

    #[test]
    fn the_english_possessive_s_is_dropped() {
        check(Language::English, "Crohn's disease’s", "crohn=Crohn diseas=disease");
        check(Language::English, "s 's' X's", "s=s s=s x=X");
        check(Language::French, "l's", "l=l s=s");
    }

    #[test]
    fn scripts_without_spaces_yield_bigrams() {
        check(Language::English, "東京都", "東京=東京 京都=京都");
        check(Language::English, "茶", "茶=茶");
        check(Language::English, "abc東京2024年", "abc=abc 東京=東京 2024=2024 年=年");
        check(Language::English, "カタカナ", "カタ=カタ タカ=タカ カナ=カナ");
        check(Language::English, "한국어", "한국=한국 국어=국어");
        check(Language::English, "ไทย", "ไท=ไท ทย=ทย");
    }

    #[test]
    fn decomposed_and_half_width_forms_yield_the_same_bigrams_as_composed_ones() {
        check(Language::English, "ｶﾞｽ", "ガス=ｶﾞｽ");
        check(Language::English, "カ\u{3099}ス", "ガス=カ\u{3099}ス");
        check(
            Language::English,
            "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
            "한국=\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
        );
    }

    #[test]
    fn combining_marks_do_not_split_a_word() {
        check(Language::None, "हिन्दी", "हिन्दी=हिन्दी");
        check(Language::None, "co\u{ad}op 1\u{fe0f}\u{20e3}", "coop=co\u{ad}op 1=1\u{fe0f}\u{20e3}");
    }

    #[test]
    fn a_very_long_word_is_split_into_pieces() {
        for letter in ["a", "é", "漢", "\u{301}", "e\u{301}"] {
            let text = letter.repeat(100_000);
            let (mut longest, mut covered) = (0, 0);
            analyse(&text, Language::English, |token| {
                longest = longest.max(token.text.chars().count());
                assert!(token.start <= covered);
                covered = token.end;
            });
            assert!(longest <= 64, "{letter}");
            assert_eq!(covered, if letter == "\u{301}" { 0 } else { text.len() }, "{letter}");
        }
    }

    #[test]
    fn turkish_lower_cases_both_letters_i_before_folding() {
        check(Language::Turkish, "DIŞ İzmir", "dis=DIŞ izmir=İzmir");
    }
}
