//! Numbers with a form and a check: payment cards, social security numbers, IPv4 addresses, bank accounts.

use crate::text::Text;

/// Digits of the longest card number (ISO/IEC 7812).
const CARD_DIGITS_MAX: usize = 19;
/// Digits of the shortest: Maestro.
const CARD_DIGITS_MIN: usize = 12;

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
    loop {
        let byte = text.at(at);
        if byte.is_ascii_digit() {
            if count == CARD_DIGITS_MAX {
                return None;
            }
            digits[count] = byte - b'0';
            (count, group, at) = (count + 1, group + 1, at + 1);
            continue;
        }
        let joins = matches!(byte, b' ' | b'-') && (separator == 0 || separator == byte);
        // Four digits first, and never fewer than two: not a list of years or ordinals.
        if !joins
            || count < 4
            || (separator == 0 && count != 4)
            || group < 2
            || !text.at(at + 1).is_ascii_digit()
        {
            break;
        }
        if count == CARD_DIGITS_MAX || (count >= CARD_DIGITS_MIN && is_card(&digits[..count]) && byte == b' ')
        {
            break;
        }
        (separator, group, at) = (byte, 0, at + 1);
    }
    (count >= CARD_DIGITS_MIN && is_card(&digits[..count]) && may_end(text, at)).then_some(at)
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
    let is_digits = |from: usize, count: usize| (from..from + count).all(|at| text.at(at).is_ascii_digit());
    if !is_digits(start, 3) {
        return None;
    }
    let separator = text.at(start + 3);
    if !matches!(separator, b'-' | b' ' | b'.') || !is_digits(start + 4, 2) || text.at(start + 6) != separator
    {
        return None;
    }
    if !is_digits(start + 7, 4) || !may_end(text, start + 11) {
        return None;
    }
    let (area, group, serial) = (
        &text.bytes[start..start + 3],
        &text.bytes[start + 4..start + 6],
        &text.bytes[start + 7..start + 11],
    );
    let is_given = area != b"000" && area != b"666" && area[0] != b'9' && group != b"00" && serial != b"0000";
    is_given.then_some(start + 11)
}

/// Where the IPv4 address from `start` on ends: four numbers up to 255 without leading zeros.
pub(crate) fn ipv4(text: &Text, start: usize) -> Option<usize> {
    let mut at = start;
    for part in 0..4 {
        if part > 0 {
            if text.at(at) != b'.' {
                return None;
            }
            at += 1;
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

/// Where the bank account number from `start` on ends: a country's length, check digits by mod 97, in one piece or in groups of four.
pub(crate) fn iban(text: &Text, start: usize) -> Option<usize> {
    let country = [text.at(start).to_ascii_uppercase(), text.at(start + 1).to_ascii_uppercase()];
    if !text.at(start + 2).is_ascii_digit() || !text.at(start + 3).is_ascii_digit() {
        return None;
    }
    let length = IBAN_LENGTHS[IBAN_LENGTHS.binary_search_by_key(&country, |row| *row.0).ok()?].1;
    let separator = match text.at(start + 4) {
        byte @ (b' ' | b'-') => Some(byte),
        _ => None,
    };
    let mut characters = [0u8; 33];
    let mut at = start;
    for (index, character) in characters[..length].iter_mut().enumerate() {
        if index > 0
            && index % 4 == 0
            && let Some(separator) = separator
        {
            if text.at(at) != separator {
                return None;
            }
            at += 1;
        }
        *character = text.at(at);
        if !character.is_ascii_alphanumeric() {
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
