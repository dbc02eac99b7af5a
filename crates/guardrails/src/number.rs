//! Numbers with a form and a check: payment cards, social security numbers, IPv4 addresses, bank accounts.
//!
//! A line break may stand between two digits or beside a sign, because lines are wrapped. If line breaks are all that is between the groups,
//! the number must not be a part of a column of numbers.

use crate::text::Text;

/// Digits of the longest card number (ISO/IEC 7812).
const CARD_DIGITS_MAX: usize = 19;
/// Digits of the shortest: Maestro.
const CARD_DIGITS_MIN: usize = 12;

/// Line breaks in one number, at most: more are those of a list.
pub(crate) const BREAKS_MAX: usize = 4;

/// Whether a number may begin here: it continues no word, and no number in which a sign joins digits.
pub(crate) fn may_begin(text: &Text, start: usize) -> bool {
    let joins = matches!(text.before(start), b'.' | b'-' | b'/' | b':' | b',');
    !(text.is_joined_before(start) || joins && start >= 2 && text.bytes[start - 2].is_ascii_digit())
}

/// Whether a number may end here.
pub(crate) fn may_end(text: &Text, end: usize) -> bool {
    !(text.is_joined_after(end)
        || matches!(text.at(end), b'.' | b'-' | b'/' | b',') && text.at(end + 1).is_ascii_digit())
}

/// Where the card number from `start` on ends: an issuer's prefix with a length that it gives, and a Luhn digit; in one piece or in
/// groups, of which the first has four digits, with the same space or hyphen between them.
pub(crate) fn card(text: &Text, start: usize) -> Option<usize> {
    let mut digits = [0u8; CARD_DIGITS_MAX];
    let (mut count, mut group, mut separator, mut at) = (0, 0, 0, start);
    let (mut breaks, mut is_broken_after_four) = (0, false);
    // Where a number ends that a line break follows: the next line may be another one.
    let mut ended = None;
    loop {
        let byte = text.at(at);
        if byte.is_ascii_digit() {
            if count == CARD_DIGITS_MAX {
                return ended;
            }
            digits[count] = byte - b'0';
            (count, group, at) = (count + 1, group + 1, at + 1);
            continue;
        }
        let Some(gap) = text.gap(at, |byte| matches!(byte, b' ' | b'-')).filter(|gap| gap.fits(separator))
        else {
            break;
        };
        let is_whole = count >= CARD_DIGITS_MIN && is_card(&digits[..count]);
        if gap.has_break {
            if is_whole && !(separator == 0 && breaks > 0 && text.is_in_column(start, at)) {
                ended = Some(at);
            }
            (breaks, is_broken_after_four) = (breaks + 1, is_broken_after_four || count == 4);
        }
        // Four digits first, and never fewer than two: not a list of years or ordinals.
        let is_first = gap.separator != 0 && separator == 0;
        if (is_first && count != 4 && !is_broken_after_four) || (gap.separator != 0 && group < 2) {
            break;
        }
        if count == CARD_DIGITS_MAX || breaks > BREAKS_MAX || (is_whole && gap.separator == b' ') {
            break;
        }
        if gap.separator != 0 {
            (separator, group) = (gap.separator, 0);
        }
        at = gap.end;
    }
    let is_column = breaks > 0 && separator == 0 && text.is_in_column(start, at);
    let is_whole = count >= CARD_DIGITS_MIN && is_card(&digits[..count]) && may_end(text, at) && !is_column;
    if is_whole { Some(at) } else { ended }
}

/// Whether these digits have an issuer's prefix, a length that it gives, and a Luhn digit.
fn is_card(digits: &[u8]) -> bool {
    let first =
        |count: usize| digits[..count].iter().fold(0u32, |value, digit| 10 * value + u32::from(*digit));
    let lengths = match (first(2), first(3), first(4)) {
        (40..=49, _, _) => [13, 16, 19].as_slice(),     // Visa
        (34 | 37, _, _) => &[15],                       // American Express
        (51..=55, _, _) | (_, _, 2221..=2720) => &[16], // Mastercard
        (_, 300..=305 | 309, _) | (36 | 38 | 39, _, _) => &[14, 15, 16, 17, 18, 19], // Diners Club
        (_, _, 1800 | 2131) => &[15],                   // JCB
        (_, _, 3528..=3589) => &[16, 17, 18, 19],       // JCB
        (65, _, _) | (_, 644..=649, _) | (_, _, 6011) => &[16, 17, 18, 19], // Discover
        (62 | 81 | 82 | 60, _, _) => &[16, 17, 18, 19], // UnionPay, RuPay
        (_, _, 2200..=2204 | 9792) => &[16],            // Mir, Troy
        (50 | 56 | 57 | 58 | 67, _, _) | (_, _, 6304 | 6390) => &[12, 13, 14, 15, 16, 17, 18, 19], // Maestro
        (63, _, _) => &[16],                            // Elo, InstaPayment
        _ => &[],
    };
    lengths.contains(&digits.len()) && luhn(digits)
}

/// Whether the last digit is that of Luhn's formula (ISO/IEC 7812-1, annex B).
fn luhn(digits: &[u8]) -> bool {
    let doubled = |digit: u8| if digit >= 5 { 2 * digit - 9 } else { 2 * digit };
    let digit =
        |(index, digit): (usize, &u8)| u32::from(if index % 2 == 1 { doubled(*digit) } else { *digit });
    digits.iter().rev().enumerate().map(digit).sum::<u32>() % 10 == 0
}

/// Where the social security number from `start` on ends: `123-45-6789`, with the same hyphen, space or dot twice, and none of the
/// areas, groups and serial numbers that are never given (000, 666, from 900; 00; 0000).
pub(crate) fn ssn(text: &Text, start: usize) -> Option<usize> {
    let is_separator = |byte: u8| matches!(byte, b'-' | b' ' | b'.');
    let mut digits = [0u8; 9];
    let (mut at, mut separator) = (start, 0);
    for (index, digit) in digits.iter_mut().enumerate() {
        if matches!(index, 3 | 5) {
            let gap = text.gap(at, is_separator).filter(|gap| gap.fits(separator))?;
            separator = if gap.separator == 0 { separator } else { gap.separator };
            at = gap.end;
        }
        (*digit, at) = text.digit(at)?;
    }
    if !may_end(text, at) || (separator == 0 && text.is_in_column(start, at)) {
        return None;
    }
    let (area, group, serial) = (&digits[..3], &digits[3..5], &digits[5..]);
    let is_given = area != b"000" && area != b"666" && area[0] != b'9' && group != b"00" && serial != b"0000";
    is_given.then_some(at)
}

/// Where the IPv4 address from `start` on ends: four numbers up to 255 without leading zeros. A line may be wrapped beside a dot.
pub(crate) fn ipv4(text: &Text, start: usize) -> Option<usize> {
    let mut at = start;
    for part in 0..4 {
        if part > 0 {
            at = text.gap(at, |byte| byte == b'.').filter(|gap| gap.separator == b'.')?.end;
        }
        let end = text.run(at, 4, |byte| byte.is_ascii_digit());
        let octet = &text.bytes[at..end];
        let value = octet.iter().fold(0u32, |value, digit| 10 * value + u32::from(digit - b'0'));
        if octet.is_empty() || value > 255 || (octet.len() > 1 && octet[0] == b'0') {
            return None;
        }
        at = end;
    }
    may_end(text, at).then_some(at)
}

/// Lengths of bank account numbers by country (the IBAN registry of SWIFT, release 99).
#[rustfmt::skip]
const IBAN_LENGTHS: [(&[u8; 2], usize); 88] = [
    (b"AD", 24), (b"AE", 23), (b"AL", 28), (b"AT", 20), (b"AZ", 28), (b"BA", 20), (b"BE", 16), (b"BG", 22), (b"BH", 22), (b"BI", 27), (b"BR", 29),
    (b"BY", 28), (b"CH", 21), (b"CR", 22), (b"CY", 28), (b"CZ", 24), (b"DE", 22), (b"DJ", 27), (b"DK", 18), (b"DO", 28), (b"EE", 20), (b"EG", 29),
    (b"ES", 24), (b"FI", 18), (b"FK", 18), (b"FO", 18), (b"FR", 27), (b"GB", 22), (b"GE", 22), (b"GI", 23), (b"GL", 18), (b"GR", 27), (b"GT", 28),
    (b"HN", 28), (b"HR", 21), (b"HU", 28), (b"IE", 22), (b"IL", 23), (b"IQ", 23), (b"IS", 26), (b"IT", 27), (b"JO", 30), (b"KW", 30), (b"KZ", 20),
    (b"LB", 28), (b"LC", 32), (b"LI", 21), (b"LT", 20), (b"LU", 20), (b"LV", 21), (b"LY", 25), (b"MC", 27), (b"MD", 24), (b"ME", 22), (b"MK", 19),
    (b"MN", 20), (b"MR", 27), (b"MT", 31), (b"MU", 30), (b"NI", 28), (b"NL", 18), (b"NO", 15), (b"OM", 23), (b"PK", 24), (b"PL", 28), (b"PS", 29),
    (b"PT", 25), (b"QA", 29), (b"RO", 24), (b"RS", 22), (b"RU", 33), (b"SA", 24), (b"SC", 31), (b"SD", 18), (b"SE", 24), (b"SI", 19), (b"SK", 24),
    (b"SM", 27), (b"SO", 23), (b"ST", 25), (b"SV", 28), (b"TL", 23), (b"TN", 24), (b"TR", 26), (b"UA", 29), (b"VA", 22), (b"VG", 24), (b"XK", 20),
];

/// Where the bank account number from `start` on ends: a country's length, check digits by mod 97, in one piece or in groups of four. In
/// a wrapped line a break may stand for a space, or between two other characters after the first digit.
pub(crate) fn iban(text: &Text, start: usize) -> Option<usize> {
    if !text.at(start + 2).is_ascii_digit() {
        return None;
    }
    let country = [text.at(start).to_ascii_uppercase(), text.at(start + 1).to_ascii_uppercase()];
    let length = IBAN_LENGTHS[IBAN_LENGTHS.binary_search_by_key(&country, |row| *row.0).ok()?].1;
    let mut characters = [0u8; 33];
    characters[..2].copy_from_slice(&country);
    let (mut at, mut separator, mut has_break) = (start + 2, 0, false);
    for (index, character) in characters.iter_mut().enumerate().take(length).skip(2) {
        let is_group = index % 4 == 0 && (index == 4 || separator != 0 || has_break);
        match text.any_gap(at, |byte| matches!(byte, b' ' | b'-')) {
            Some(gap) if gap.fits(separator) && (is_group || gap.separator == 0) => {
                separator = separator.max(gap.separator);
                has_break |= gap.has_break;
                at = gap.end;
            }
            Some(_) => return None,
            None if is_group && separator != 0 => return None,
            None => {}
        }
        *character = text.at(at);
        if !character.is_ascii_alphanumeric() || (index < 4 && !character.is_ascii_digit()) {
            return None;
        }
        at += 1;
    }
    (mod_97(&characters[..length]) == 1 && !text.is_joined_after(at)).then_some(at)
}

/// The remainder of ISO 7064: the first four characters last, letters as 10 to 35.
fn mod_97(characters: &[u8]) -> u32 {
    let rotated = characters[4..].iter().chain(&characters[..4]);
    rotated.fold(0, |remainder, character| match character {
        b'0'..=b'9' => (10 * remainder + u32::from(character - b'0')) % 97,
        _ => (100 * remainder + u32::from(character.to_ascii_uppercase() - b'A') + 10) % 97,
    })
}
