//! Phone numbers: in international form, in that of North America, with a trunk prefix, and any other beside a word such as `phone`.

use std::ops::Range;

use crate::number::may_begin;
use crate::text::Text;

/// Digits of the longest number (ITU-T E.164).
const DIGITS_MAX: usize = 15;
/// Groups of digits in one number.
const GROUPS_MAX: usize = 8;
/// Digits of the shortest number that a word beside it makes a phone number.
const LOCAL_DIGITS_MIN: usize = 7;
/// Digits of the longest such number.
const LOCAL_DIGITS_MAX: usize = 12;
/// Bytes before a number in which such a word is looked for.
pub(crate) const CONTEXT_BYTES: usize = 40;
/// Words that stand before phone numbers; lower case, ASCII.
#[rustfmt::skip]
const WORDS_BEFORE: [&str; 40] = [
    "phone", "phones", "telephone", "tel", "mobile", "cell", "cellphone", "fax", "call", "called", "calling", "dial", "desk", "office", "hotline",
    "helpline", "landline", "text", "sms", "whatsapp", "signal", "reach", "contact", "ring", "answering", "answer", "messages", "voicemail",
    "telefon", "handy", "mobil", "rufnummer", "anrufen", "appel", "portable", "telefono", "movil", "llamar", "celular", "telefone",
];
/// Words that stand after them.
const WORDS_AFTER: [&str; 9] = ["office", "fax", "mobile", "cell", "home", "desk", "phone", "tel", "direct"];

/// A number as it is written: groups of digits with signs between them.
struct Groups {
    /// Positions of the groups.
    groups: [(usize, usize); GROUPS_MAX],
    count: usize,
    /// The sign between the first two groups; all others are the same, or a bracket is beside it.
    separator: u8,
}

impl Groups {
    /// Digits of the first `count` groups.
    fn digits(&self, count: usize) -> usize {
        self.groups[..count].iter().map(|(start, end)| end - start).sum()
    }

    fn lengths(&self, count: usize) -> impl Iterator<Item = usize> {
        self.groups[..count].iter().map(|(start, end)| end - start)
    }

    fn end(&self, count: usize) -> usize {
        self.groups[count - 1].1
    }
}

/// The phone number whose first character, `+`, `(` or a digit, is at `start`.
pub(crate) fn phone(text: &Text, start: usize) -> Option<Range<usize>> {
    if !may_begin(text, start) || text.before(start) == b'+' {
        return None;
    }
    let end = match text.bytes[start] {
        b'+' => international(text, start + 1)?,
        _ => {
            let groups = read_groups(text, start)?;
            trunk_or_north_american(text, start, &groups).or_else(|| local(text, start, &groups))?
        }
    };
    Some(start..extension_end(text, end))
}

/// Reads groups of digits: one may be in brackets, and between two there is one of ` -./`, or nothing beside a bracket.
fn read_groups(text: &Text, start: usize) -> Option<Groups> {
    let mut read = Groups { groups: [(0, 0); GROUPS_MAX], count: 0, separator: 0 };
    let (mut at, mut digits) = (start, 0);
    loop {
        let opens = text.at(at) == b'(';
        let group = at + usize::from(opens);
        let end = text.run(group, DIGITS_MAX + 1, |byte| byte.is_ascii_digit());
        digits += end - group;
        if end == group || digits > DIGITS_MAX || (opens && text.at(end) != b')') {
            break;
        }
        read.groups[read.count] = (group, end);
        read.count += 1;
        if read.count == GROUPS_MAX {
            break;
        }
        at = end + usize::from(opens);
        let separator = text.at(at);
        if matches!(separator, b' ' | b'-' | b'.' | b'/') {
            let is_same = read.separator == 0 || read.separator == separator;
            if !is_same {
                break;
            }
            if !opens {
                read.separator = separator;
            }
            at += 1;
        } else if !opens && separator != b'(' {
            break;
        }
    }
    (read.count > 0).then_some(read)
}

/// Whether a phone number may end here: not in the middle of a number or a word, but for its extension.
fn is_whole(text: &Text, end: usize) -> bool {
    let goes_on =
        matches!(text.at(end), b'.' | b'-' | b'/' | b',' | b':') && text.at(end + 1).is_ascii_digit();
    !goes_on && (!text.is_joined_after(end) || extension_end(text, end) > end)
}

/// `+`, a country code, and 8 to 15 digits in all, as many groups as fit.
fn international(text: &Text, start: usize) -> Option<usize> {
    if !matches!(text.at(start), b'1'..=b'9') {
        return None;
    }
    let groups = read_groups(text, start)?;
    (1..=groups.count)
        .rev()
        .find(|&count| groups.digits(count) >= 8 && is_whole(text, groups.end(count)))
        .map(|c| groups.end(c))
}

/// Forms that are phone numbers without a word beside them.
fn trunk_or_north_american(text: &Text, start: usize, groups: &Groups) -> Option<usize> {
    let is_bracketed = text.bytes[start] == b'(';
    let digit = |group: usize, index: usize| text.bytes[groups.groups[group].0 + index];
    let lengths: [usize; GROUPS_MAX] = std::array::from_fn(|index| {
        let (start, end) = groups.groups[index];
        end - start
    });
    let ends = |count: usize| (is_whole(text, groups.end(count))).then(|| groups.end(count));
    match lengths {
        // (212) 555-0123, 212-555-0123, 212.555.0123
        [3, 3, 4, ..] if groups.count >= 3 && digit(0, 0) >= b'2' => ends(3),
        // 1-212-555-0123
        [1, 3, 3, 4, ..] if groups.count >= 4 && digit(0, 0) == b'1' && digit(1, 0) >= b'2' => ends(4),
        _ if groups.count < 2 || digit(0, 0) != b'0' => None,
        // 001-212-555-0123, 0049 30 1234567: the prefix for calls abroad
        [length, ..] if length >= 2 && digit(0, 1) == b'0' => {
            (2..=groups.count)
                .rev()
                .find(|&count| groups.digits(count) >= 10 && is_whole(text, groups.end(count)))
        }
        .filter(|_| length > 2 || groups.count > 2)
        .map(|count| groups.end(count)),
        // 030 1234567, (0123) 456 789, 01.23.45.67.89: the prefix for calls to another area
        [first, ..] if first >= 2 || is_bracketed => (2..=groups.count)
            .rev()
            .find(|&count| {
                (9..=11).contains(&groups.digits(count))
                    && groups.lengths(count).skip(1).all(|length| length >= 2)
                    && is_whole(text, groups.end(count))
            })
            .map(|count| groups.end(count)),
        _ => None,
    }
}

/// 7 to 12 digits beside a word that says what they are.
fn local(text: &Text, start: usize, groups: &Groups) -> Option<usize> {
    let count = (1..=groups.count).rev().find(|&count| {
        (LOCAL_DIGITS_MIN..=LOCAL_DIGITS_MAX).contains(&groups.digits(count))
            && groups.lengths(count).all(|length| length >= 2)
            && is_whole(text, groups.end(count))
    })?;
    if is_date(groups, count) {
        return None;
    }
    let end = groups.end(count);
    (has_word_before(text, start) || has_word_after(text, end)).then_some(end)
}

/// Whether groups are those of a date: a year and two short ones, or two short ones and a year.
fn is_date(groups: &Groups, count: usize) -> bool {
    let lengths: Vec<usize> = groups.lengths(count).collect();
    matches!(lengths[..], [4, 1 | 2, 1 | 2] | [1 | 2, 1 | 2, 4])
}

fn has_word_before(text: &Text, start: usize) -> bool {
    let before = &text.bytes[start.saturating_sub(CONTEXT_BYTES)..start];
    has_word(before, &WORDS_BEFORE)
}

fn has_word_after(text: &Text, end: usize) -> bool {
    if !matches!(text.at(end), b' ' | b'-' | b'(') {
        return false;
    }
    let word = end + 1;
    let word_end = text.run(word, 7, |byte| byte.is_ascii_alphabetic());
    has_word(&text.bytes[word..word_end], &WORDS_AFTER)
}

/// Whether one of the words is among those of some bytes.
fn has_word(bytes: &[u8], words: &[&str]) -> bool {
    let is_one = |found: &[u8]| words.iter().any(|word| word.as_bytes().eq_ignore_ascii_case(found));
    bytes.split(|byte| !byte.is_ascii_alphabetic()).any(|found| found.len() >= 3 && is_one(found))
}

/// The end of an extension after a number: `x123`, ` ext. 123`; `end` when there is none.
fn extension_end(text: &Text, end: usize) -> usize {
    let mut at = end;
    if text.at(at) == b' ' {
        at += 1;
    }
    if text.has(at, b"ext") {
        at += 3;
        if text.at(at) == b'.' {
            at += 1;
        }
        if text.at(at) == b' ' {
            at += 1;
        }
    } else if text.has(at, b"x") {
        at += 1;
    } else {
        return end;
    }
    let last = text.run(at, 7, |byte| byte.is_ascii_digit());
    if last == at || last - at > 6 || text.is_joined_after(last) { end } else { last }
}
