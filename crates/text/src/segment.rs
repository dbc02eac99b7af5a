//! Splits a text into sentences, each with the border that follows it.
//!
//! Rule-based; a missed border makes a sentence longer, a false one shorter. The time is linear.

use std::ops::Range;

/// The separation of two neighbouring pieces of text, from weakest to strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Border {
    /// None: within a word.
    Inside,
    /// White space.
    Word,
    /// A line break within a paragraph.
    Line,
    /// The end of a sentence.
    Sentence,
    /// A blank line, or the end of the text.
    Paragraph,
}

/// A sentence, trimmed of white space, and the border after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) span: Range<usize>,
    pub(crate) border: Border,
}

/// A longer sentence is split at white space, or within a word if there is none.
pub(crate) const SEGMENT_BYTES_MAX: usize = 16 * 1024;

/// Abbreviations, whose full stop does not end a sentence; lower case, without the stop.
const ABBREVIATIONS: [&str; 44] = [
    "al", "approx", "art", "bzw", "ca", "cf", "ch", "col", "corp", "dept", "dr", "ed", "eds", "eq", "eqs",
    "est", "etc", "fig", "figs", "ft", "gen", "gov", "hr", "inc", "jr", "lt", "ltd", "mr", "mrs", "ms", "mt",
    "nr", "pp", "prof", "ref", "refs", "rep", "resp", "rev", "sen", "sr", "st", "vol", "vs",
];
/// Bytes before a full stop that are searched for an abbreviation.
const ABBREVIATION_BYTES_MAX: usize = 12;

/// The sentences of a text, in order. Together they contain every character that is not white space.
pub(crate) fn segments(text: &str) -> Segments<'_> {
    Segments { text, at: leading_space(text) }
}

/// Iterator of [`segments`].
pub(crate) struct Segments<'a> {
    text: &'a str,
    /// Start of the next sentence.
    at: usize,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if self.at >= self.text.len() {
            return None;
        }
        let start = self.at;
        let (length, border) = sentence(&self.text[start..]);
        let end = start + length;
        let gap = leading_space(&self.text[end..]);
        self.at = end + gap;
        let border = if self.at == self.text.len() {
            Border::Paragraph
        } else {
            border.max(gap_border(&self.text[end..self.at]))
        };
        Some(Segment { span: start..end, border })
    }
}

/// The border that a gap of white space makes; [`Border::Inside`] if it is empty.
pub(crate) fn gap_border(gap: &str) -> Border {
    let lines = gap.chars().filter(|c| matches!(c, '\n' | '\u{2028}')).count();
    match lines {
        _ if gap.contains(['\u{2029}', '\u{c}']) => Border::Paragraph,
        2.. => Border::Paragraph,
        1 => Border::Line,
        _ if gap.is_empty() => Border::Inside,
        _ => Border::Word,
    }
}

/// Bytes of the first sentence of `text`, which begins without white space, and the border after it.
fn sentence(text: &str) -> (usize, Border) {
    let mut last_space = None; // start of the last run of white space
    let mut previous_is_space = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if at + c.len_utf8() > SEGMENT_BYTES_MAX {
            return last_space.map_or((at, Border::Inside), |space| (space, Border::Word));
        }
        if c.is_whitespace() {
            if !previous_is_space {
                last_space = Some(at);
                if starts_blank_line(&text[at..]) {
                    return (at, Border::Paragraph);
                }
            }
            previous_is_space = true;
            continue;
        }
        previous_is_space = false;
        if !is_terminator(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        let (mut spaced, mut only_stops) = (is_spaced_terminator(c), c == '.');
        let is_within = |at: usize, c: char| at + c.len_utf8() <= SEGMENT_BYTES_MAX;
        while let Some((next_at, next)) =
            chars.next_if(|&(at, c)| is_within(at, c) && (is_terminator(c) || is_closer(c)))
        {
            end = next_at + next.len_utf8();
            spaced &= is_spaced_terminator(next) || is_closer(next);
            only_stops &= next == '.' || is_closer(next);
        }
        let rest = &text[end..];
        if spaced && !rest.starts_with(char::is_whitespace) {
            continue;
        }
        if !(only_stops && continues_after_stop(&text[..at], rest)) {
            return (end, Border::Sentence);
        }
    }
    (text.trim_end().len(), Border::Paragraph)
}

/// Whether the white space at the start of `text` holds a blank line.
fn starts_blank_line(text: &str) -> bool {
    gap_border(&text[..leading_space(text)]) == Border::Paragraph
}

/// Whether the sentence continues after a full stop between `before` and `rest`: after an abbreviation or an initial, or
/// if `rest` begins with a lower-case letter.
fn continues_after_stop(before: &str, rest: &str) -> bool {
    if rest.trim_start().starts_with(char::is_lowercase) {
        return true;
    }
    let nearby = &before[before.ceil_char_boundary(before.len().saturating_sub(ABBREVIATION_BYTES_MAX))..];
    let word = nearby.rsplit(|c: char| !c.is_alphanumeric() && c != '.').next().unwrap_or_default();
    let is_initial = word.chars().count() == 1 && word.chars().all(|c| c.is_uppercase() && c != 'I');
    let has_inner_stop = word.contains('.') && word.chars().all(|c| c.is_alphabetic() || c == '.');
    is_initial || has_inner_stop || ABBREVIATIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn is_terminator(c: char) -> bool {
    is_spaced_terminator(c) || matches!(c, '。' | '！' | '？' | '｡' | '．')
}

/// A terminator that ends a sentence only before white space.
fn is_spaced_terminator(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '؟' | '۔' | '।' | '॥' | '։' | '።' | '‼' | '⁇' | '⁈' | '⁉')
}

/// Closing quotes, brackets and emphasis marks, which belong to the sentence before them.
fn is_closer(c: char) -> bool {
    matches!(c, '"' | '\'' | ')' | ']' | '}' | '”' | '’' | '»' | '」' | '』' | '）' | '】' | '》' | '*' | '_')
}

fn leading_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::{Border, SEGMENT_BYTES_MAX, segments};

    /// `expected`: the sentences, each followed by the mark of its border: `¶` paragraph, `|` sentence.
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = segments(text)
            .map(|segment| {
                let mark = match segment.border {
                    Border::Paragraph => '¶',
                    Border::Sentence => '|',
                    Border::Line => '/',
                    Border::Word => '_',
                    Border::Inside => '-',
                };
                format!("{}{mark}", &text[segment.span])
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn sentences_end_at_stops_and_paragraphs_at_blank_lines() {
        check("One. Two!  Three?\n\nFour", &["One.|", "Two!|", "Three?¶", "Four¶"]);
        check("A title\r\n \r\nText\nwrapped.", &["A title¶", "Text\nwrapped.¶"]);
        check(" \n ", &[]);
    }

    #[test]
    fn closing_marks_belong_to_their_sentence() {
        check("He said \"no.\" (Really?!) Yes...", &["He said \"no.\"|", "(Really?!)|", "Yes...¶"]);
    }

    #[test]
    fn abbreviations_initials_and_numbers_do_not_end_a_sentence() {
        check(
            "Dr. J. Smith et al. found 3.5 mg, e.g. in Fig. 2.",
            &["Dr. J. Smith et al. found 3.5 mg, e.g. in Fig. 2.¶"],
        );
        check("It is approx. ten. See www.x.org now.", &["It is approx. ten.|", "See www.x.org now.¶"]);
        check("After 3 sec. more. Then", &["After 3 sec. more.|", "Then¶"]);
        check("So am I. Good.", &["So am I.|", "Good.¶"]);
    }

    #[test]
    fn full_width_stops_end_a_sentence_without_a_space() {
        check("一。二！「三。」四", &["一。|", "二！|", "「三。」|", "四¶"]);
    }

    #[test]
    fn a_very_long_sentence_is_split_at_white_space_or_within_a_word() {
        let words = "word ".repeat(10_000);
        let spans: Vec<_> = segments(&words).map(|segment| (segment.span.len(), segment.border)).collect();
        assert_eq!(spans[0], (SEGMENT_BYTES_MAX - 5, Border::Word));
        let one = "é".repeat(10_000);
        let spans: Vec<_> = segments(&one).map(|segment| (segment.span.len(), segment.border)).collect();
        assert_eq!(
            spans,
            [(SEGMENT_BYTES_MAX, Border::Inside), (20_000 - SEGMENT_BYTES_MAX, Border::Paragraph)]
        );
    }

    #[test]
    fn a_million_stops_or_spaces_take_linear_time() {
        for pattern in [".", ". ", "\n \n", "\n ", "a.", " ", "。", "a.)"] {
            let text = pattern.repeat(1_000_000);
            assert!(segments(&text).all(|segment| segment.span.len() <= SEGMENT_BYTES_MAX), "{pattern:?}");
        }
    }
}
