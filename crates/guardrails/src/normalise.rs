//! Text as its readers take it: what looks like ASCII is ASCII, and what is not shown is left out.
//!
//! A text without such characters is scanned as it is, without a copy. Normalised text has no map of its positions: [`locate`] reads the
//! original once more, and only if something was found, so that memory stays that of the text.
//!
//! The normalised form of a character depends on the one before it alone, never on one after it: the normalised beginning of a stream does not
//! change when more arrives.

use std::ops::Range;

use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Byte for byte.
    Original,
    /// As it is shown.
    Shown,
    /// As it is shown, with tag characters as the ASCII that they encode. No reader sees them, but a model may read them.
    Tagged,
}

/// A text that was changed.
#[derive(Debug)]
pub(crate) struct Normalised {
    pub(crate) text: String,
    /// The position in it that was asked for.
    pub(crate) position: usize,
}

/// Where a byte of a normalised text is in the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The start of its character.
    pub(crate) start: usize,
    /// The start as well, or the end of its character if the byte is not its first.
    pub(crate) end: usize,
}

/// A range of the original text and its normalised form.
enum Part<'n> {
    /// The same bytes.
    Same(Range<usize>),
    /// These bytes, or none, for one character.
    Changed(Range<usize>, &'n [u8]),
}

/// Normalises `text`, and finds the position of its byte `from`.
pub(crate) fn normalise(text: &str, view: View, from: usize) -> Normalised {
    let mut normalised = String::with_capacity(text.len());
    let mut position = None;
    walk(text, view, |part| {
        let (range, is_same) = match &part {
            Part::Same(range) => (range, true),
            Part::Changed(range, _) => (range, false),
        };
        if position.is_none() && range.end > from {
            let inside = if is_same { from.saturating_sub(range.start) } else { 0 };
            position = Some(normalised.len() + inside);
        }
        match part {
            Part::Same(range) => normalised.push_str(&text[range]),
            Part::Changed(_, ascii) => normalised.extend(ascii.iter().map(|byte| char::from(*byte))),
        }
        true
    });
    let position = position.unwrap_or(normalised.len());
    Normalised { text: normalised, position }
}

/// Whether a text has tag characters that encode ASCII.
pub(crate) fn has_tags(text: &str) -> bool {
    !text.is_ascii() && text.chars().any(|character| tag(character).is_some())
}

/// The text as it is shown, if that is another one.
pub(crate) fn shown(text: &str) -> Option<String> {
    has_change(text, 0).then(|| normalise(text, View::Shown, 0).text)
}

/// Places of the bytes at `positions`, which ascend, of the normalised text. The end of that text is the end of `text`.
pub(crate) fn locate(text: &str, view: View, positions: &[usize]) -> Vec<Place> {
    let mut places = Vec::with_capacity(positions.len());
    let mut written = 0;
    walk(text, view, |part| {
        let (range, length, is_same) = match part {
            Part::Same(range) => (range.clone(), range.len(), true),
            Part::Changed(range, ascii) => (range, ascii.len(), false),
        };
        while let Some(inside) =
            positions.get(places.len()).and_then(|position| position.checked_sub(written))
            && inside < length
        {
            places.push(match (is_same, inside) {
                (true, _) => Place { start: range.start + inside, end: range.start + inside },
                (false, 0) => Place { start: range.start, end: range.start },
                (false, _) => Place { start: range.start, end: range.end },
            });
        }
        written += length;
        places.len() < positions.len()
    });
    places.resize(positions.len(), Place { start: text.len(), end: text.len() });
    places
}

/// The start of the text that is needed so that `count` characters before `position` are shown. Looks back `bytes_max` bytes at most.
pub(crate) fn shown_before(text: &str, position: usize, count: usize, bytes_max: usize) -> usize {
    let bytes = &text.as_bytes()[position.saturating_sub(count)..position];
    if !bytes.iter().any(|byte| is_special(*byte)) {
        return position - bytes.len();
    }
    let mut start = position;
    let mut shown = 0;
    for character in text[..position].chars().rev() {
        if shown == count || position - start + character.len_utf8() > bytes_max {
            break;
        }
        start -= character.len_utf8();
        shown +=
            usize::from(!(character.is_control() || is_invisible(character) || is_combining_mark(character)));
    }
    start
}

/// The text with one of several characters in a row that are not shown, if it has other characters than ASCII. No view finds another thing
/// after it.
pub(crate) fn without_repeated_invisible(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let mut was_invisible = false;
    let is_kept = |character: &char| {
        let is_first = !was_invisible;
        was_invisible = is_invisible(*character) || is_combining_mark(*character);
        is_first || !was_invisible
    };
    Some(text.chars().filter(is_kept).collect())
}

/// Whether [`View::Shown`] may be another text, of which the first `unchanged` bytes are not.
pub(crate) fn has_change(text: &str, unchanged: usize) -> bool {
    let (before, rest) = text.split_at(unchanged);
    let last = before.chars().next_back().unwrap_or('\0');
    let mut is_changed = false;
    walk_after(last, rest, View::Shown, |part| {
        is_changed = matches!(part, Part::Changed(..));
        !is_changed
    });
    is_changed
}

/// Calls `visit` with the parts of a text in their order, until it returns false.
fn walk(text: &str, view: View, visit: impl FnMut(Part<'_>) -> bool) {
    walk_after('\0', text, view, visit);
}

/// The same for a text that follows a character.
fn walk_after(mut last: char, text: &str, view: View, mut visit: impl FnMut(Part<'_>) -> bool) {
    let bytes = text.as_bytes();
    let (mut at, mut same) = (0, 0);
    loop {
        let special = next_special(bytes, at);
        if special > at {
            last = char::from(bytes[special - 1]);
        }
        let Some(character) = text[special..].chars().next() else { break };
        let after = special + character.len_utf8();
        let form = Form::of(character, last, view);
        if let Form::Same(shown) = form {
            (last, at) = (shown, after);
            continue;
        }
        if same < special && !visit(Part::Same(same..special)) {
            return;
        }
        let mut ascii = [0; 4];
        let length = match form {
            Form::Ascii(bytes, length) => {
                ascii = bytes;
                last = char::from(bytes[length - 1]);
                length
            }
            Form::Same(_) | Form::Dropped => 0,
        };
        if !visit(Part::Changed(special..after, &ascii[..length])) {
            return;
        }
        (at, same) = (after, after);
    }
    if same < text.len() {
        visit(Part::Same(same..text.len()));
    }
}

/// Whether a byte begins a character that may be changed: all but those of ASCII that are shown, blanks and line breaks.
#[inline(always)]
fn is_special(byte: u8) -> bool {
    (byte.wrapping_sub(b' ') >= 0x5F) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')
}

/// The first position from `start` on at which there is such a byte; the end if there is none.
#[inline]
fn next_special(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    // Without a branch for each byte, so that the compiler makes vector instructions of it.
    while let Some(block) = bytes.get(at..at + 32) {
        if block.iter().fold(false, |found, byte| found | is_special(*byte)) {
            break;
        }
        at += 32;
    }
    bytes[at..].iter().position(|byte| is_special(*byte)).map_or(bytes.len(), |offset| at + offset)
}

/// The normalised form of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The character itself; with the mark that it is, the character before it is this one.
    Same(char),
    /// Up to four bytes of ASCII, and how many.
    Ascii([u8; 4], usize),
    Dropped,
}

const fn ascii(byte: u8) -> Form {
    Form::Ascii([byte, 0, 0, 0], 1)
}

impl Form {
    /// The form of a character after `last`, the character that was written before it.
    fn of(character: char, last: char, view: View) -> Form {
        match character {
            '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}' => ascii(b'\n'),
            '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}' => Form::Dropped,
            // Letters of most texts, so that these cost little.
            'À'..='ÿ' | 'Ѐ'..='ҁ' | 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '㐀'..='鿿' | '가'..='힣' => {
                Form::Same(character)
            }
            // Signs of prose of which nothing is made up that is looked for.
            '…' | '™' | '℠' => Form::Same(character),
            '\u{3002}' | '\u{FF61}' if last.is_ascii_alphanumeric() => ascii(b'.'),
            'ー' | 'ｰ' if last.is_ascii_digit() => ascii(b'-'),
            _ if is_blank(character) => ascii(b' '),
            _ if is_dash(character) => ascii(b'-'),
            _ => match (tag(character), view) {
                (Some(byte), View::Tagged) => ascii(byte),
                _ if is_invisible(character) => Form::Dropped,
                _ if is_combining_mark(character) => Form::of_mark(character, last),
                _ => Form::of_look_alike(character),
            },
        }
    }

    /// A mark stays if it makes a letter of its own with the one before it (`e` with an acute), or belongs to a script that has such
    /// marks. Others decorate: a keycap around a digit, a line through a letter.
    fn of_mark(mark: char, last: char) -> Form {
        if last.is_alphabetic()
            && let Some(composed) = compose(last, mark)
        {
            return Form::Same(composed);
        }
        let decorates = matches!(mark, '\u{300}'..='\u{36F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}' | '\u{FE20}'..='\u{FE2F}');
        if decorates || last.is_ascii() { Form::Dropped } else { Form::Same(mark) }
    }

    /// A digit of any script, a letter in a circle, a sign, or what Unicode calls compatible with a few characters of ASCII.
    fn of_look_alike(character: char) -> Form {
        let code = u32::from(character);
        let offset = |first: u8, start: u32| ascii(first + (code - start) as u8);
        match code {
            0x1F1E6..=0x1F1FF => return offset(b'A', 0x1F1E6), // regional indicators
            0x1F150..=0x1F169 => return offset(b'A', 0x1F150), // negative circled
            0x1F170..=0x1F189 => return offset(b'A', 0x1F170), // negative squared
            0x24F5..=0x24FD => return offset(b'1', 0x24F5),    // double circled
            0x2776..=0x277E => return offset(b'1', 0x2776),    // negative circled
            0x2780..=0x2788 => return offset(b'1', 0x2780),    // circled, sans serif
            0x278A..=0x2792 => return offset(b'1', 0x278A),    // negative circled, sans serif
            0x24FF | 0x1F10B | 0x1F10C => return ascii(b'0'),
            0x277F | 0x2789 | 0x2793 | 0x24FE => return Form::Ascii(*b"10\0\0", 2),
            0x2044 | 0x2215 => return ascii(b'/'),
            0x2236 | 0xA789 => return ascii(b':'),
            0x2795 => return ascii(b'+'),
            _ => {}
        }
        if let Some(digit) = digit(code) {
            return ascii(b'0' + digit);
        }
        let (mut bytes, mut length) = ([0; 4], 0);
        decompose_compatible(character, |part| {
            // More than four bytes, or one that is not ASCII, is the mark of another form.
            if let Some(slot) = bytes.get_mut(length)
                && part.is_ascii()
            {
                *slot = part as u8;
                length += 1;
            } else {
                length = usize::MAX;
            }
        });
        if length <= bytes.len() { Form::Ascii(bytes, length) } else { Form::Same(character) }
    }
}

/// The ASCII byte that a tag character encodes.
fn tag(character: char) -> Option<u8> {
    matches!(character, '\u{E0020}'..='\u{E007E}').then(|| (u32::from(character) - 0xE0000) as u8)
}

/// Whether a character is not shown: joiners, directions, variation selectors, tags, fillers, the soft hyphen.
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
        | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether a reader sees a character, if only as a space on its line: no control character, no line break, nothing that is left out when a
/// text is shown.
pub fn is_shown(character: char) -> bool {
    !(character.is_control()
        || is_invisible(character)
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{2800}'))
}

/// Whether a character is a blank of some width (general category Zs, and the empty pattern of Braille).
fn is_blank(character: char) -> bool {
    matches!(
        character,
        '\u{A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{2800}' | '\u{3000}'
    )
}

/// Whether a character is a dash (general category Pd), or looks like one: minus signs, a bullet, a modifier.
fn is_dash(character: char) -> bool {
    matches!(
        character,
        '\u{2D7}' | '\u{58A}' | '\u{5BE}' | '\u{1400}' | '\u{1806}' | '\u{2010}'
            ..='\u{2015}'
                | '\u{2043}'
                | '\u{2053}'
                | '\u{207B}'
                | '\u{208B}'
                | '\u{2212}'
                | '\u{2796}'
                | '\u{2E17}'
                | '\u{2E1A}'
                | '\u{2E3A}'
                | '\u{2E3B}'
                | '\u{2E40}'
                | '\u{2E5D}'
                | '\u{301C}'
                | '\u{3030}'
                | '\u{30A0}'
                | '\u{FE31}'
                | '\u{FE32}'
                | '\u{FE58}'
                | '\u{FE63}'
                | '\u{FF0D}'
                | '\u{10EAD}'
    )
}

/// The value of a decimal digit (general category Nd) that is not ASCII.
fn digit(code: u32) -> Option<u8> {
    let zero = DIGIT_ZEROS[DIGIT_ZEROS.partition_point(|zero| *zero <= code).checked_sub(1)?];
    u8::try_from(code - zero).ok().filter(|value| *value < 10)
}

/// The zeros of all sets of decimal digits (Unicode 16), after each of which the other nine follow.
#[rustfmt::skip]
const DIGIT_ZEROS: [u32; 73] = [
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0,
    0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x10D30, 0x10D40, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x116D0, 0x116DA, 0x11730,
    0x118E0, 0x11950, 0x11BF0, 0x11C50, 0x11D50, 0x11DA0, 0x11F50, 0x16A60, 0x16AC0, 0x16B50, 0x1CCF0, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC,
    0x1D7F6, 0x1E140, 0x1E2F0, 0x1E4F0, 0x1E5F1, 0x1E950, 0x1FBF0,
];
