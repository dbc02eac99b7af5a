//! Reduces the spellings of a word to one: composed, lower case, without accents and invisible characters.
//!
//! Two steps, because most stemmers depend on accents: [`normalise`] runs before stemming, [`fold`] after it (before
//! it in English, whose stemmer expects none). Together they are close to Lucene's `ICUFoldingFilter`.

use crate::script::{decimal_digit, is_ignorable};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::decompose_canonical;

/// Appends `word` in NFKC and lower case, without ignorable characters, diacritics that have no composed form, vowel
/// points of Hebrew and Arabic and the nukta of Devanagari; with ASCII digits, and with the anusvara for each nasal that it
/// may replace in Devanagari.
///
/// `dotless_i`: `I` is lower-cased to `ı`, as in Turkish.
pub(crate) fn normalise(word: &str, dotless_i: bool, out: &mut String) {
    for c in word.nfkc() {
        match c {
            'I' if dotless_i => out.push('ı'),
            'İ' => out.push('i'),
            'A'..='Z' => out.push(c.to_ascii_lowercase()),
            '\0'..='\x7f' => push_unless_space(c, out),
            '\u{900}'..='\u{96f}' => push_devanagari(c, out),
            _ if is_ignorable(c) || is_removable_mark(c) => {}
            _ if let Some(digit) = decimal_digit(c) => out.push(digit),
            _ => c.to_lowercase().for_each(|lower| push_unless_space(lower, out)),
        }
    }
}

/// Appends a character of Devanagari. Spellings differ in the nukta (`ज़` and `ज`), in candrabindu and anusvara (`चाँद` and
/// `चांद`), and in the nasal before a consonant of its class (`हिन्दी` and `हिंदी`).
fn push_devanagari(c: char, out: &mut String) {
    const VIRAMA: char = '\u{94d}';
    const ANUSVARA: char = '\u{902}';
    let c = match c {
        '\u{93c}' => return,
        '\u{901}' => ANUSVARA,
        // letters that NFKC composes with a nukta
        '\u{929}' => '\u{928}',
        '\u{931}' => '\u{930}',
        '\u{934}' => '\u{933}',
        _ => decimal_digit(c).unwrap_or(c),
    };
    let nasal = match c {
        'क'..='घ' => 'ङ',
        'च'..='झ' => 'ञ',
        'ट'..='ढ' => 'ण',
        'त'..='ध' => 'न',
        'प'..='भ' => 'म',
        _ => return out.push(c),
    };
    let before = out.strip_suffix(VIRAMA).and_then(|before| before.strip_suffix(nasal));
    if let Some(length) = before.map(str::len) {
        out.truncate(length);
        out.push(ANUSVARA);
    }
    out.push(c);
}

/// Appends `word` with Latin and Greek letters reduced to their base (`é` to `e`, `ß` to `ss`, `ø` to `o`), and Arabic letters to one
/// of the forms that writers use alike.
///
/// Other scripts are unchanged: there, a diacritic usually makes a different letter (`й`, `が`).
pub(crate) fn fold(word: &str, out: &mut String) {
    for c in word.chars() {
        match c {
            '\0'..='\x7f' => out.push(c),
            // alef with hamza, madda or wasla
            '\u{622}' | '\u{623}' | '\u{625}' | '\u{671}' => out.push('\u{627}'),
            // alef maqsura and Farsi yeh, keheh, teh marbuta
            '\u{649}' | '\u{6cc}' => out.push('\u{64a}'),
            '\u{6a9}' => out.push('\u{643}'),
            '\u{629}' => out.push('\u{647}'),
            '\u{80}'..='\u{24f}' | '\u{370}'..='\u{3ff}' | '\u{1e00}'..='\u{1fff}' => fold_letter(c, out),
            _ => out.push(c),
        }
    }
}

fn fold_letter(c: char, out: &mut String) {
    let mut base = None;
    decompose_canonical(c, |part| {
        base.get_or_insert(part);
    });
    match base.unwrap_or(c) {
        'ß' => out.push_str("ss"),
        'æ' => out.push_str("ae"),
        'œ' => out.push_str("oe"),
        'þ' => out.push_str("th"),
        'ø' => out.push('o'),
        'đ' | 'ð' => out.push('d'),
        'ħ' => out.push('h'),
        'ı' => out.push('i'),
        'ȷ' => out.push('j'),
        'ł' => out.push('l'),
        'ŋ' => out.push('n'),
        'ŧ' => out.push('t'),
        'ς' => out.push('σ'),
        letter => out.push(letter),
    }
}

fn push_unless_space(c: char, out: &mut String) {
    // A few ligatures expand to a phrase; a term must not contain a space.
    if !c.is_whitespace() && !is_removable_mark(c) {
        out.push(c);
    }
}

/// Marks that do not distinguish words: diacritics that NFKC did not compose with a letter, Hebrew and Arabic vowel
/// points, the Arabic tatweel.
fn is_removable_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c4}'..='\u{5c5}' | '\u{5c7}'
        | '\u{610}'..='\u{61a}' | '\u{640}' | '\u{64b}'..='\u{652}' | '\u{656}'..='\u{65f}' | '\u{670}'
        | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}' | '\u{6e7}'..='\u{6e8}' | '\u{6ea}'..='\u{6ed}')
}

#[cfg(test)]
mod tests {
    use super::{fold, normalise};

    fn check(word: &str, normalised: &str, folded: &str) {
        let (mut first, mut second) = (String::new(), String::new());
        normalise(word, false, &mut first);
        fold(&first, &mut second);
        assert_eq!((first.as_str(), second.as_str()), (normalised, folded), "{word:?}");
    }

    #[test]
    fn accents_survive_normalising_and_go_in_folding() {
        check("Café", "café", "cafe");
        check("Cafe\u{301}", "café", "cafe");
        check("STRAẞE", "straße", "strasse");
        check("Ærøskøbing", "ærøskøbing", "aeroskobing");
        check("Łódź", "łódź", "lodz");
        check("Việt", "việt", "viet");
        check("ΣΊΣΥΦΟΣ", "σίσυφοσ", "σισυφοσ");
        check("Σίσυφος", "σίσυφος", "σισυφοσ");
    }

    #[test]
    fn compatibility_forms_become_plain_ones() {
        check("ﬁle", "file", "file");
        check("ＡＢＣ１", "abc1", "abc1");
        check("m²", "m2", "m2");
        check("ｶﾞ", "ガ", "ガ");
        check("ﷺ", "صلىاللهعليهوسلم", "صلياللهعليهوسلم");
        check("½", "1⁄2", "1⁄2");
    }

    #[test]
    fn letters_that_differ_in_their_script_stay_apart() {
        check("мой", "мой", "мой");
        check("が", "が", "が");
        check("ҫ", "ҫ", "ҫ");
    }

    #[test]
    fn spellings_of_devanagari_become_one() {
        check("ज़रूर", "जरूर", "जरूर");
        check("क़", "क", "क");
        check("\u{929}", "न", "न");
        for (one, other) in [
            ("हिन्दी", "हिंदी"),
            ("सम्बन्ध", "संबंध"),
            ("पञ्जाब", "पंजाब"),
            ("अण्डा", "अंडा"),
            ("गङ्गा", "गंगा"),
            ("चाँद", "चांद"),
        ] {
            check(one, other, other);
        }
        for word in ["जन्म", "अन्न", "उन्नति", "न्याय"] {
            check(word, word, word);
        }
    }

    #[test]
    fn arabic_letters_that_are_written_alike_become_one() {
        check("أحمد", "أحمد", "احمد");
        check("إسلام آية ٱلله", "إسلامآيةٱلله", "اسلامايهالله");
        check("على", "على", "علي");
        check("ایران", "ایران", "ايران");
    }

    #[test]
    fn digits_become_ascii_digits() {
        for digits in ["٢٠٢٤", "۲۰۲۴", "२०२४", "２０２４"] {
            check(digits, "2024", "2024");
        }
    }

    #[test]
    fn invisible_characters_and_vowel_points_go() {
        check("co\u{ad}op", "coop", "coop");
        check("1\u{fe0f}\u{20e3}", "1", "1");
        check("שָׁלוֹם", "שלום", "שלום");
        check("مُحَمَّد", "محمد", "محمد");
        check("за\u{301}мок", "замок", "замок");
    }

    #[test]
    fn the_capital_i_is_dotless_in_turkish_alone() {
        let mut turkish = String::new();
        normalise("IĞDIR İzmir", true, &mut turkish);
        assert_eq!(turkish, "ığdırizmir");
        check("İzmir", "izmir", "izmir");
    }
}
