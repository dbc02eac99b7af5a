//! Characters and the direction of scripts.

use unicode_normalization::UnicodeNormalization;

/// Whether a character belongs to a script that is written from right to left.
pub(super) fn is_right_to_left(character: char) -> bool {
    matches!(u32::from(character), 0x590..=0x8FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFF | 0x1_0800..=0x1_0FFF | 0x1_E800..=0x1_EFFF)
}

/// Whether a character is of a script without spaces between words: Chinese and Japanese.
pub(super) fn is_ideographic(character: char) -> bool {
    matches!(u32::from(character), 0x2E80..=0x2FDF | 0x3001..=0x30FF | 0x3400..=0x9FFF | 0xF900..=0xFAFF | 0xFF01..=0xFF60 | 0x2_0000..=0x3_FFFF)
}

/// Appends text without control characters, with ligatures and forms of Arabic letters as their letters.
pub(super) fn fold(text: &str, out: &mut String) {
    for character in text.chars() {
        match u32::from(character) {
            0..=8 | 0xB..=0x1F | 0x7F..=0x9F | 0xFEFF | 0xFFFD..=0xFFFF | 0x200B => {}
            0xFB00..=0xFB06 | 0xFB13..=0xFB17 | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFC => {
                out.extend(character.nfkc())
            }
            0xA0 | 0x2000..=0x200A | 0x202F => out.push(' '),
            // the bullets of the font Symbol
            0xF0B7 | 0xF0A7 => out.push('•'),
            _ => out.push(character),
        }
    }
}

/// The combining mark of an accent that old fonts set as a glyph of its own.
pub(super) fn combining_mark(text: &str) -> Option<char> {
    Some(match text {
        "`" => '\u{300}',
        "´" => '\u{301}',
        "ˆ" | "^" => '\u{302}',
        "˜" | "~" => '\u{303}',
        "¯" => '\u{304}',
        "˘" => '\u{306}',
        "˙" => '\u{307}',
        "¨" => '\u{308}',
        "˚" => '\u{30a}',
        "˝" => '\u{30b}',
        "ˇ" => '\u{30c}',
        "¸" => '\u{327}',
        "˛" => '\u{328}',
        _ => return None,
    })
}

/// A letter with a combining mark.
pub(super) fn compose(letter: &str, mark: char) -> Box<str> {
    let letter = if letter == "ı" { "i" } else { letter };
    letter.chars().chain([mark]).nfc().collect::<String>().into()
}

/// The text of pieces that are sorted from left to right, in the order of reading: runs of right-to-left letters are turned
/// around, numbers and Latin words are not.
pub(super) fn logical_order(pieces: &[String]) -> String {
    let right = pieces.iter().filter(|piece| piece.chars().any(is_right_to_left)).count();
    let is_left = |character: char| character.is_alphabetic() && !is_right_to_left(character);
    let left = pieces.iter().filter(|piece| piece.chars().any(is_left)).count();
    let is_base_right = right >= left;
    let directions = directions(pieces, is_base_right);
    let mut runs: Vec<(bool, Vec<&str>)> = Vec::new();
    for (piece, direction) in pieces.iter().zip(directions) {
        match runs.last_mut() {
            Some((last, run)) if *last == direction => run.push(piece),
            _ => runs.push((direction, vec![piece])),
        }
    }
    if is_base_right {
        runs.reverse();
    }
    let mut out = String::new();
    for (is_right, run) in runs {
        if is_right {
            run.iter().rev().for_each(|piece| push_mirrored(piece, &mut out));
        } else {
            out.extend(run);
        }
    }
    out
}

/// Whether each piece is read from right to left. Spaces and punctuation follow their neighbours if these agree, else the base.
fn directions(pieces: &[String], is_base_right: bool) -> Vec<bool> {
    let strong = |piece: &String| {
        let is_right = piece.chars().any(|character| is_right_to_left(character) && !character.is_numeric());
        (is_right || piece.chars().any(char::is_alphanumeric)).then_some(is_right)
    };
    let mut following = vec![None; pieces.len()];
    let mut next = None;
    for (place, piece) in following.iter_mut().zip(pieces).rev() {
        next = strong(piece).or(next);
        *place = next;
    }
    let mut last = None;
    let direction = |(piece, next): (&String, Option<bool>)| {
        let own = strong(piece);
        last = own.or(last);
        own.or(last.filter(|_| last == next)).unwrap_or(is_base_right)
    };
    pieces.iter().zip(following).map(direction).collect()
}

fn push_mirrored(piece: &str, out: &mut String) {
    let mut characters = piece.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else {
        out.push_str(piece);
        return;
    };
    out.push(match character {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        '}' => '{',
        '«' => '»',
        '»' => '«',
        '<' => '>',
        '>' => '<',
        other => other,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(visual: &str, expected: &str) {
        let pieces: Vec<String> = visual.chars().map(String::from).collect();
        assert_eq!(logical_order(&pieces), expected, "{visual}");
    }

    #[test]
    fn right_to_left_text_is_turned_to_the_order_of_reading() {
        check("רהנה", "הנהר");
        check("םימ 25 אשונ רהנה", "הנהר נושא 25 מים");
        check("(םימ)", "(מים)");
        check("weir אוה רכס", "סכר הוא weir");
        check("the weir holds א water", "the weir holds א water");
        check(".לזרב 12 ,ץע", "עץ, 12 ברזל.");
    }

    #[test]
    fn ligatures_and_forms_are_folded_and_other_characters_kept() {
        let mut out = String::new();
        fold("e\u{fb03}cient \u{fefb}\u{a0}x²½\u{0}\u{f0b7}", &mut out);
        assert_eq!(out, "efficient لا x²½•");
    }
}
