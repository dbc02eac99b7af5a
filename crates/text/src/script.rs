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
    use super::{CharClass, char_class};

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
