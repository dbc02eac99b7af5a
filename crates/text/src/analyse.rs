//! Text to terms: what the lexical index stores of a document and looks up for a query.
//!
//! A word is a run of letters, digits and their marks. It is brought to one spelling ([`crate::fold`]) and
//! stemmed. Scripts without space between words give overlapping pairs of characters instead; a character that
//! stands alone gives itself. Every character costs a bounded amount of work, whatever stands around it.

use crate::Language;
use crate::fold::{fold, normalise};
use crate::script::{Role, is_hangul_tail, role};
use crate::stem::Stemming;

/// A word of more characters is cut into pieces of this many: 100,000 characters without a space stay findable
/// by their pieces and make no term that a term dictionary chokes on.
const WORD_CHARS_MAX: usize = 64;
/// Marks beyond this many characters of one CJK or Thai cluster are skipped.
const CLUSTER_CHARS_MAX: usize = 16;

/// A term and where its word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The term: normalised, folded and stemmed. Never empty, and without white space.
    pub text: &'a str,
    /// First byte of the word in the input.
    pub start: usize,
    /// One past the last byte of the word in the input.
    pub end: usize,
}

/// Analyses texts of one language; its buffers and its memory of stems serve from text to text.
#[derive(Debug)]
pub struct Analyser {
    language: Language,
    stemming: Stemming,
    /// The word as it is before stemming.
    word: String,
    /// The term, or the first of a pair of characters.
    term: String,
    /// Room for a step between the two.
    spare: String,
}

/// Analyses one text; see [`Analyser::analyse`], which is faster for many.
pub fn analyse(text: &str, language: Language, on_token: impl FnMut(Token<'_>)) {
    Analyser::new(language).analyse(text, on_token);
}

impl Analyser {
    /// An analyser for texts of `language`.
    pub fn new(language: Language) -> Analyser {
        let stemming = Stemming::new(language);
        Analyser { language, stemming, word: String::new(), term: String::new(), spare: String::new() }
    }

    /// Calls `on_token` for every term of `text`, in order of place.
    ///
    /// Starts and ends of tokens never descend; only pairs of characters overlap. Stop words are terms like any
    /// other: a query drops them ([`crate::query_terms`]), a document keeps them.
    pub fn analyse(&mut self, text: &str, mut on_token: impl FnMut(Token<'_>)) {
        self.analyse_words(text, &mut |token: Token<'_>, _: &str| on_token(token));
    }

    /// As [`Analyser::analyse`], and also hands over the word as it was before stemming.
    pub(crate) fn analyse_words(&mut self, text: &str, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                at += 1;
            }
            if at < bytes.len() && !bytes[at].is_ascii() {
                at = self.wide_run(text, start, on_word);
            } else {
                self.ascii_word(text, start, at, on_word);
                at += 1; // the separator, which is one byte
            }
        }
    }

    /// The word at `start..end`, all ASCII, or nothing when that is empty.
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

    /// The run of word characters from `start` on, of which some are not ASCII, or one separator.
    /// Returns where to go on: past the run and at most one separator.
    fn wide_run(&mut self, text: &str, start: usize, on_word: &mut impl FnMut(Token<'_>, &str)) -> usize {
        let mut part: Option<(usize, Role)> = None; // where the current part began, and its kind
        for (offset, c) in text[start..].char_indices() {
            let at = start + offset;
            let role = role(c);
            if role == Role::Extender || part.is_some_and(|(_, kind)| kind == role) {
                continue;
            }
            if let Some((part_start, kind)) = part {
                self.emit_part(text, part_start, at, kind, on_word);
            }
            if role == Role::Separator {
                return at + c.len_utf8();
            }
            part = Some((at, role));
        }
        if let Some((part_start, kind)) = part {
            self.emit_part(text, part_start, text.len(), kind, on_word);
        }
        text.len()
    }

    fn emit_part(
        &mut self,
        text: &str,
        start: usize,
        end: usize,
        kind: Role,
        on_word: &mut impl FnMut(Token<'_>, &str),
    ) {
        let part = &text[start..end];
        if kind == Role::Unspaced {
            self.pairs(text, start, end, on_word);
        } else if part.is_ascii() {
            self.ascii_word(text, start, end, on_word);
        } else {
            self.wide_word(text, start, end, on_word);
        }
    }

    fn wide_word(&mut self, text: &str, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
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

    /// Stems and folds `self.word` and hands it over, unless nothing is left of it.
    fn emit_stemmed(&mut self, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
        // The English stemmer knows no accents; all others want to see them.
        let fold_first = matches!(self.language, Language::English | Language::None);
        if fold_first && !self.word.is_ascii() {
            self.spare.clear();
            fold(&self.word, &mut self.spare);
            std::mem::swap(&mut self.word, &mut self.spare);
        }
        self.term.clear();
        self.stemming.stem(&self.word, &mut self.term);
        if !fold_first && !self.term.is_ascii() {
            self.spare.clear();
            fold(&self.term, &mut self.spare);
            std::mem::swap(&mut self.term, &mut self.spare);
        }
        if !self.term.is_empty() {
            on_word(Token { text: &self.term, start, end }, &self.word);
        }
    }

    /// Overlapping pairs of the clusters (a character and its marks) at `start..end`, or the only one.
    fn pairs(&mut self, text: &str, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let mut at = start;
        let mut first: Option<(usize, usize)> = None; // where the last cluster began; its length in `term`
        let mut has_pair = false;
        let mut last_end = start;
        self.term.clear();
        while at < end {
            let cluster_start = at;
            at += cluster_length(&text[at..end]);
            self.word.clear();
            normalise(bounded(&text[cluster_start..at]), false, &mut self.word);
            if self.word.is_empty() {
                continue;
            }
            let first_length = self.term.len();
            self.term.push_str(&self.word);
            if let Some((pair_start, _)) = first {
                on_word(Token { text: &self.term, start: pair_start, end: at }, &self.term);
                has_pair = true;
            }
            self.term.drain(..first_length);
            first = Some((cluster_start, self.term.len()));
            last_end = at;
        }
        if let (Some((start, _)), false) = (first, has_pair) {
            on_word(Token { text: &self.term, start, end: last_end }, &self.term);
        }
    }

    /// Whether the word `raw` at `start` is the `s` of an English possessive, which says nothing.
    fn is_possessive(&self, text: &str, start: usize, raw: &str) -> bool {
        self.language == Language::English
            && matches!(raw, "s" | "S")
            && text[..start]
                .strip_suffix(['\'', '’'])
                .and_then(|before| before.chars().next_back())
                .is_some_and(char::is_alphanumeric)
    }
}

/// Bytes of the first character with what belongs to it.
fn cluster_length(text: &str) -> usize {
    let mut chars = text.char_indices();
    let starts_hangul =
        chars.next().is_some_and(|(_, c)| matches!(c, '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{d7ff}'));
    chars
        .find(|&(_, c)| role(c) != Role::Extender && !(starts_hangul && is_hangul_tail(c)))
        .map_or(text.len(), |(at, _)| at)
}

/// The first characters of a cluster, so that a heap of marks costs no more than a few.
fn bounded(cluster: &str) -> &str {
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
    fn letters_and_digits_make_one_word_and_all_else_separates() {
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
    fn accents_do_not_tell_words_apart() {
        check(Language::English, "naïve café Cafe\u{301}s", "naiv=naïve cafe=café cafe=Cafe\u{301}s");
        check(Language::French, "étudiantes etudiantes", "etudi=étudiantes etudi=etudiantes");
        check(Language::German, "Häuser Straße STRASSE", "haus=Häuser strass=Straße strass=STRASSE");
    }

    #[test]
    fn the_possessive_s_is_no_term_in_english() {
        check(Language::English, "Crohn's disease’s", "crohn=Crohn diseas=disease");
        check(Language::English, "s 's' X's", "s=s s=s x=X");
        check(Language::French, "l's", "l=l s=s");
    }

    #[test]
    fn scripts_without_space_give_pairs() {
        check(Language::English, "東京都", "東京=東京 京都=京都");
        check(Language::English, "茶", "茶=茶");
        check(Language::English, "abc東京2024年", "abc=abc 東京=東京 2024=2024 年=年");
        check(Language::English, "カタカナ", "カタ=カタ タカ=タカ カナ=カナ");
        check(Language::English, "한국어", "한국=한국 국어=국어");
        check(Language::English, "ไทย", "ไท=ไท ทย=ทย");
    }

    #[test]
    fn decomposed_and_half_width_forms_pair_like_the_composed_ones() {
        check(Language::English, "ｶﾞｽ", "ガス=ｶﾞｽ");
        check(Language::English, "カ\u{3099}ス", "ガス=カ\u{3099}ス");
        check(
            Language::English,
            "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
            "한국=\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
        );
    }

    #[test]
    fn marks_stay_within_their_word() {
        check(Language::None, "हिन्दी", "हिन्दी=हिन्दी");
        check(Language::None, "co\u{ad}op 1\u{fe0f}\u{20e3}", "coop=co\u{ad}op 1=1\u{fe0f}\u{20e3}");
    }

    #[test]
    fn a_word_without_end_is_cut_into_pieces() {
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
    fn turkish_keeps_its_two_letters_i_until_they_fold() {
        check(Language::Turkish, "DIŞ İzmir", "dis=DIŞ izmir=İzmir");
    }
}
