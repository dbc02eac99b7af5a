//! Phone numbers: in international form, in that of North America, with a trunk prefix, and any other beside a word such as `phone`.

use std::ops::Range;

use crate::number::{BREAKS_MAX, may_begin};
use crate::text::{Gap, Text};

/// Digits of the longest number (ITU-T E.164).
const DIGITS_MAX: usize = 15;
/// Groups of digits in one number.
const GROUPS_MAX: usize = 8;
/// Bytes of a number before a line break, at most.
const LINE_BYTES_MAX: usize = 64;
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
    groups: [Group; GROUPS_MAX],
    count: usize,
    /// The sign between the first two groups; all others are the same, or a bracket or a line break is beside it.
    separator: u8,
    /// Line breaks in it.
    breaks: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Group {
    end: usize,
    /// Digits in it.
    length: u8,
    /// Line breaks between them.
    breaks: u8,
    /// The first two digits.
    first: [u8; 2],
}

impl Groups {
    /// Digits of the first `count` groups.
    fn digits(&self, count: usize) -> usize {
        self.lengths(count).sum()
    }

    fn lengths(&self, count: usize) -> impl Iterator<Item = usize> {
        self.groups[..count].iter().map(|group| usize::from(group.length))
    }

    fn end(&self, count: usize) -> usize {
        self.groups[count - 1].end
    }
}

/// The meaning of a line break without a sign beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    /// The number ends, with or without a sign.
    End,
    /// The group goes on.
    Join,
    /// Another group begins.
    Separate,
}

/// The phone number whose first character, `+`, `(` or a digit, is at `start`.
pub(crate) fn phone(text: &Text, start: usize) -> Option<Range<usize>> {
    if !may_begin(text, start) || text.before(start) == b'+' {
        return None;
    }
    let end = end(text, start, Breaks::End).or_else(|| {
        let is_part = |byte: u8| {
            byte.is_ascii_digit() || matches!(byte, b' ' | b'\t' | b'-' | b'.' | b'/' | b'(' | b')')
        };
        let line_end = text.run(start + 1, LINE_BYTES_MAX, is_part);
        let next_line = text.line_break_end(line_end).filter(|next| is_part(text.at(*next)))?;
        // A line that was wrapped, if neither it nor the next one has a number of its own.
        if text.bytes[start] != b'+' && end(text, next_line, Breaks::End).is_some() {
            return None;
        }
        let wrapped = [Breaks::Join, Breaks::Separate].map(|breaks| end(text, start, breaks));
        wrapped.into_iter().flatten().max()
    })?;
    Some(start..extension_end(text, end))
}

/// Where the number ends.
fn end(text: &Text, start: usize, breaks: Breaks) -> Option<usize> {
    if text.bytes[start] == b'+' {
        return international(text, start + 1, breaks);
    }
    let groups = read_groups(text, start, breaks)?;
    if breaks != Breaks::End
        && (groups.breaks == 0
            || (groups.separator == 0 && text.is_in_column(start, groups.end(groups.count))))
    {
        return None;
    }
    trunk_or_north_american(text, start, &groups).or_else(|| local(text, start, &groups))
}

/// Reads groups of digits: one may be in brackets, and between two there is one of ` -./`, or nothing beside a bracket, or a line break.
fn read_groups(text: &Text, start: usize, breaks: Breaks) -> Option<Groups> {
    let mut read = Groups { groups: [Group::default(); GROUPS_MAX], count: 0, separator: 0, breaks: 0 };
    let (mut at, mut digits) = (start, 0);
    loop {
        let opens = text.at(at) == b'(';
        let group = read_group(text, at + usize::from(opens), breaks);
        digits += usize::from(group.length);
        if group.length == 0 || digits > DIGITS_MAX || (opens && text.at(group.end) != b')') {
            break;
        }
        read.breaks += usize::from(group.breaks);
        read.groups[read.count] = group;
        read.count += 1;
        if read.count == GROUPS_MAX || read.breaks > BREAKS_MAX {
            break;
        }
        at = group.end + usize::from(opens);
        match next_group(text, at, breaks) {
            Some(gap) if gap.fits(read.separator) => {
                if !opens && gap.separator != 0 {
                    read.separator = gap.separator;
                }
                read.breaks += usize::from(gap.has_break);
                at = gap.end;
            }
            Some(_) => break,
            None if !opens && text.at(at) != b'(' => break,
            None => {}
        }
    }
    (read.count > 0).then_some(read)
}

/// Reads the digits of one group.
fn read_group(text: &Text, start: usize, breaks: Breaks) -> Group {
    let mut group = Group { end: start, ..Group::default() };
    while usize::from(group.length) <= DIGITS_MAX && usize::from(group.breaks) <= BREAKS_MAX {
        let next = match breaks {
            Breaks::Join if group.length > 0 => text.digit(group.end),
            Breaks::End | Breaks::Join | Breaks::Separate => Some((text.at(group.end), group.end + 1)),
        };
        let Some((digit, end)) = next.filter(|(byte, _)| byte.is_ascii_digit()) else { break };
        group.breaks += u8::from(end > group.end + 1);
        if let Some(slot) = group.first.get_mut(usize::from(group.length)) {
            *slot = digit;
        }
        (group.length, group.end) = (group.length + 1, end);
    }
    group
}

/// The gap after a group, behind which a bracket or a digit may follow.
fn next_group(text: &Text, start: usize, breaks: Breaks) -> Option<Gap> {
    let is_separator = |byte: u8| matches!(byte, b' ' | b'-' | b'.' | b'/');
    let byte = text.at(start);
    let wrapped = (breaks != Breaks::End).then(|| text.gap(start, is_separator)).flatten();
    wrapped
        .or_else(|| is_separator(byte).then_some(Gap { separator: byte, has_break: false, end: start + 1 }))
}

/// Whether a phone number may end here: not in the middle of a number or a word, but for its extension.
fn is_whole(text: &Text, end: usize) -> bool {
    let goes_on =
        matches!(text.at(end), b'.' | b'-' | b'/' | b',' | b':') && text.at(end + 1).is_ascii_digit();
    !goes_on && (!text.is_joined_after(end) || extension_end(text, end) > end)
}

/// `+`, a country code, and 8 to 15 digits in all, as many groups as fit.
fn international(text: &Text, start: usize, breaks: Breaks) -> Option<usize> {
    if !matches!(text.at(start), b'1'..=b'9') {
        return None;
    }
    let groups = read_groups(text, start, breaks)?;
    (1..=groups.count)
        .rev()
        .find(|&count| groups.digits(count) >= 8 && is_whole(text, groups.end(count)))
        .map(|c| groups.end(c))
}

/// Forms that are phone numbers without a word beside them.
fn trunk_or_north_american(text: &Text, start: usize, groups: &Groups) -> Option<usize> {
    let is_bracketed = text.bytes[start] == b'(';
    let digit = |group: usize, index: usize| groups.groups[group].first[index];
    let lengths = groups.groups.map(|group| usize::from(group.length));
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
