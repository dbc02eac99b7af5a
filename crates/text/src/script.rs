//! Character classes, which determine word boundaries.

use unicode_normalization::char::is_combining_mark;

/// The class of a character with respect to words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharClass {
    /// A letter or digit of a script with spaces between words.
    Spaced,
    /// A letter of a script without spaces between words (Han, Kana, Thai, …), or of Hangul, which has long compounds.
    Unspaced,
    /// A combining mark or an invisible joiner: belongs to the preceding character.
    Extender,
    /// Everything else: space, punctuation, symbols, control characters.
    Separator,
}

/// The class of a character.
pub(crate) fn char_class(c: char) -> CharClass {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() { CharClass::Spaced } else { CharClass::Separator };
    }
    if is_combining_mark(c) || is_ignorable(c) || is_kana_voice_mark(c) {
        return CharClass::Extender;
    }
    if !c.is_alphanumeric() {
        return CharClass::Separator;
    }
    if is_unspaced(c) { CharClass::Unspaced } else { CharClass::Spaced }
}

/// Invisible characters that are removed from words: soft hyphen, joiners, direction marks, variation selectors, Hangul
/// fillers. The zero-width space is not among them, because it separates words.
pub(crate) fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}'
        | '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{e0100}'..='\u{e01ef}')
}

/// Han and Hangul syllables: a single character of them is often a word.
pub(crate) fn is_word_character(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' | '\u{ac00}'..='\u{d7a3}')
}

/// The zeros of the decimal digits in the Basic Multilingual Plane, each followed by its nine other digits; ascending.
const ZEROS: [char; 37] = [
    '\u{30}', '\u{660}', '\u{6f0}', '\u{7c0}', '\u{966}', '\u{9e6}', '\u{a66}', '\u{ae6}', '\u{b66}',
    '\u{be6}', '\u{c66}', '\u{ce6}', '\u{d66}', '\u{de6}', '\u{e50}', '\u{ed0}', '\u{f20}', '\u{1040}',
    '\u{1090}', '\u{17e0}', '\u{1810}', '\u{1946}', '\u{19d0}', '\u{1a80}', '\u{1a90}', '\u{1b50}',
    '\u{1bb0}', '\u{1c40}', '\u{1c50}', '\u{a620}', '\u{a8d0}', '\u{a900}', '\u{a9d0}', '\u{a9f0}',
    '\u{aa50}', '\u{abf0}', '\u{ff10}',
];

/// The ASCII digit with the value of a decimal digit of any script; `None` for other characters.
pub(crate) fn decimal_digit(c: char) -> Option<char> {
    let zero = ZEROS[ZEROS.partition_point(|&zero| zero <= c).checked_sub(1)?];
    char::from_digit(c as u32 - zero as u32, 10)
}

/// A Hangul vowel or final consonant, which composes with the preceding jamo.
pub(crate) fn is_hangul_tail(c: char) -> bool {
    matches!(c, '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}')
}

/// Half-width voicing marks: letters in Unicode, but they compose with the preceding kana.
fn is_kana_voice_mark(c: char) -> bool {
    matches!(c, '\u{ff9e}' | '\u{ff9f}')
}

/// Letters of scripts without spaces between words, by block. Requires an alphanumeric `c`.
fn is_unspaced(c: char) -> bool {
    match c {
        // Thai, Lao, Myanmar, Khmer; their digits form words, as ASCII digits do.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => !c.is_numeric(),
        '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}' => !c.is_numeric(),
        // Hangul: jamo, compatibility jamo, extensions and syllables.
        '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{a960}'..='\u{a97f}' => true,
        '\u{ac00}'..='\u{d7ff}' => true,
        // Iteration marks, ideographic zero and numerals, kana, bopomofo.
        '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{303c}' | '\u{3041}'..='\u{312f}' => true,
        '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}' | '\u{1aff0}'..='\u{1b16f}' => true,
        // Han, with the compatibility blocks and the supplementary planes.
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => true,
        '\u{20000}'..='\u{3ffff}' => true,
        // Half-width kana and Hangul.
        '\u{ff66}'..='\u{ffdc}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{CharClass, ZEROS, char_class, decimal_digit};

    #[test]
    fn decimal_digits_of_all_scripts_have_their_value() {
        for digits in [
            "0123456789",
            "٠١٢٣٤٥٦٧٨٩",
            "۰۱۲۳۴۵۶۷۸۹",
            "०१२३४५६७८९",
            "০১২৩৪৫৬৭৮৯",
            "๐๑๒๓๔๕๖๗๘๙",
            "０１２３４５６７８９",
        ] {
            let found: String = digits.chars().filter_map(decimal_digit).collect();
            assert_eq!(found, "0123456789", "{digits}");
        }
        assert!(
            ZEROS.is_sorted()
                && ZEROS.iter().all(|zero| zero.is_numeric() && char_class(*zero) == CharClass::Spaced)
        );
        assert!("/:a٪٫aكक़½Ⅳ²〇".chars().all(|c| decimal_digit(c).is_none()));
    }

    #[test]
    fn characters_have_their_class() {
        for (characters, expected) in [
            ("aZ5éßÆжאك०²½ⅣＡ", CharClass::Spaced),
            ("漢ひカー々〇한ㄱｱไက", CharClass::Unspaced),
            ("\u{301}\u{94d}\u{200d}\u{ad}\u{fe0f}ﾞ", CharClass::Extender),
            (" .,'’_-\u{0}\u{200b}\n€😀。、「㈱", CharClass::Separator),
        ] {
            for c in characters.chars() {
                assert_eq!(char_class(c), expected, "{c:?}");
            }
        }
    }
}
