//! Floats in JSON, each with the fewest digits that parse to the same float.
//!
//! Floats from [`SMALLEST`] to 1, which are nearly all of an embedding's, are written by the algorithm of Giulietti, "The Schubfach way to
//! render doubles", 2020. There it needs no approximation: such a float is `significand * 2^-u` with a `u` of 24 to 39, and with the fewest
//! decimals for which `10^decimals >= 2^u` the product `significand * 5^decimals` has at most 52 bits. `zmij` writes all others. Both write
//! the same text; this one takes half the time, because it has no branch that depends on the digits, and writes to where they belong.

use std::hint::select_unpredictable;

/// Appends a list; `null` for what is no number.
pub(super) fn push_list(text: &mut Vec<u8>, floats: &[f32]) {
    let mut staged = [0; (BLOCK + 1) * FLOAT_BYTES];
    text.push(b'[');
    for block in floats.chunks(BLOCK) {
        let mut length = 0;
        for float in block {
            let Some(to) = staged[length..].first_chunk_mut::<FLOAT_BYTES>() else { break };
            let written = match write_small(*float, to) {
                Some(written) => written,
                None => write_any(*float, to),
            };
            to[written] = b',';
            length += written + 1;
        }
        text.extend_from_slice(&staged[..length]);
    }
    if !floats.is_empty() {
        text.pop(); // the last comma
    }
    text.push(b']');
}

/// Floats that are written at once: their text fits the first-level cache.
const BLOCK: usize = 128;

/// Space for the text of any float and its comma; the longest one is like `-1.23456789e-38`.
const FLOAT_BYTES: usize = 24;

/// Bits of a float's significand that are stored.
const SIGNIFICAND_BITS: u32 = f32::MANTISSA_DIGITS - 1;
/// The stored exponent of 1.
const EXPONENT_OF_ONE: u32 = (f32::MAX_EXP - 1) as u32;
/// Powers of two from one to the next of which floats are small.
const BINADES: u32 = 16;

/// Constants of the floats from one power of two to the next.
#[derive(Clone, Copy)]
struct Binade {
    /// `5^decimals`.
    five: u64,
    /// Bits behind the point of `significand * five`, which is the float times `10^decimals`.
    fraction_bits: u32,
    /// Digits behind the point, of which the float needs all or one less.
    decimals: u32,
}

/// Beginning with the smallest floats.
static BY_EXPONENT: [Binade; BINADES as usize] = binades();

const fn binades() -> [Binade; BINADES as usize] {
    let mut all = [Binade { five: 0, fraction_bits: 0, decimals: 0 }; BINADES as usize];
    let mut exponent = 0;
    while exponent < BINADES {
        let bits = BINADES - exponent + SIGNIFICAND_BITS;
        let mut decimals = 0;
        while 10u64.pow(decimals) < 1 << bits {
            decimals += 1;
        }
        all[exponent as usize] =
            Binade { five: 5u64.pow(decimals), fraction_bits: bits - decimals, decimals };
        exponent += 1;
    }
    all
}

/// Writes a float of less than 1. `None` for floats that are not below 1 or below 2^-16, and for powers of two, whose neighbours are not
/// equally far.
#[inline]
fn write_small(float: f32, to: &mut [u8; FLOAT_BYTES]) -> Option<usize> {
    let bits = float.to_bits();
    let magnitude = bits & (u32::MAX >> 1);
    let stored = magnitude & ((1 << SIGNIFICAND_BITS) - 1);
    if stored == 0 {
        return None;
    }
    let exponent = (magnitude >> SIGNIFICAND_BITS).wrapping_sub(EXPONENT_OF_ONE - BINADES);
    let Binade { five, fraction_bits, decimals } = *BY_EXPONENT.get(exponent as usize)?;
    let digits = shortest(u64::from(stored | 1 << SIGNIFICAND_BITS) * five, five, fraction_bits);

    let (first, rest) = (digits / 100_000_000, decimal_digits(digits % 100_000_000));
    let sign = (bits >> 31) as usize;
    // the first of nine digits is the `decimals - 8`th behind the point
    let zeros = (decimals - 8) as usize;
    to[0] = b'-';
    let to: &mut [u8; FLOAT_BYTES - 1] = to[sign..].first_chunk_mut()?;
    to[2..10].copy_from_slice(b"00000000");
    to[1 + zeros] = b'0' + first as u8;
    to[2 + zeros..10 + zeros].copy_from_slice(&(rest | ZEROS).to_be_bytes());
    to[..2].copy_from_slice(b"0."); // over the first digit where there are eight decimals, when it is 0
    let trailing = (rest.trailing_zeros() / u8::BITS) as usize;
    Some(sign + 10 + zeros - trailing)
}

/// The decimal next to `scaled / 2^fraction_bits` with one digit less, if it is nearer than half of `width`, the distance of the float's
/// neighbours in units of `scaled`; else the next whole number. Only one such decimal is that near, as `width` is less than ten units.
#[inline]
fn shortest(scaled: u64, width: u64, fraction_bits: u32) -> u64 {
    let whole = scaled >> fraction_bits;
    let fraction = scaled & ((1 << fraction_bits) - 1);
    // half way, to the even number
    let nearest = whole + u64::from(2 * fraction + (whole & 1) > 1 << fraction_bits);
    let below = whole / 10 * 10;
    // twice the distances, which are even, while `width` is odd: never equal
    let from_below = 2 * (scaled - (below << fraction_bits));
    let from_above = (20 << fraction_bits) - from_below;
    let shorter = select_unpredictable(from_above < width, below + 10, below);
    select_unpredictable(from_below.min(from_above) < width, shorter, nearest)
}

/// `0` in each byte.
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// The eight decimal digits of a number in a byte each, the first one in the uppermost byte. Halves are divided by 10,000, 100 and 10 in one
/// register: adding `quotient * (2^n - divisor)` leaves the quotient in the upper half and the remainder in the lower one.
#[inline]
fn decimal_digits(number: u64) -> u64 {
    let fours = number + ((1 << 32) - 10_000) * ((number * 109_951_163) >> 40);
    let twos = fours + ((1 << 16) - 100) * (((fours * 5_243) >> 19) & 0x7f_0000_007f);
    twos + ((1 << 8) - 10) * (((twos * 103) >> 10) & 0x000f_000f_000f_000f)
}

#[cold]
fn write_any(float: f32, to: &mut [u8; FLOAT_BYTES]) -> usize {
    let mut buffer = zmij::Buffer::new();
    let text = if float.is_finite() { buffer.format_finite(float) } else { "null" };
    to[..text.len()].copy_from_slice(text.as_bytes());
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of small floats and of other finite ones among `bits`; each text must be that of `zmij`.
    fn check(bits: impl Iterator<Item = u32>) -> (usize, usize) {
        let (mut small, mut other) = (0, 0);
        for float in bits.map(f32::from_bits).filter(|float| float.is_finite()) {
            let mut to = [0; FLOAT_BYTES];
            let Some(written) = write_small(float, &mut to) else {
                other += 1;
                continue;
            };
            small += 1;
            let mut buffer = zmij::Buffer::new();
            assert_eq!(to[..written].escape_ascii().to_string(), buffer.format_finite(float));
        }
        (small, other)
    }

    #[test]
    fn a_small_float_is_written_as_any_other() {
        // a prime, so that all exponents and low bits occur
        let (small, other) = check((0..=u32::MAX).step_by(4_093));
        assert!(small > 60_000 && other > 900_000, "{small} {other}");
        let ends = (0..=BINADES).flat_map(|binade| {
            let power = (EXPONENT_OF_ONE - binade) << SIGNIFICAND_BITS;
            (power - 2_000..power + 2_000).flat_map(|bits| [bits, bits | 1 << 31])
        });
        assert_eq!(check(ends), (2 * (2_000 + 15 * 3_999 + 1_999), 2 * (2_000 + 15 + 2_001)));
    }

    /// `cargo test --release -p weir-server -- --ignored every_float`: half a minute.
    #[test]
    #[ignore = "four thousand million floats"]
    fn every_float_is_written_as_zmij_writes_it() {
        let (small, other) = check(0..=u32::MAX);
        assert_eq!(small, 2 * BINADES as usize * ((1 << SIGNIFICAND_BITS) - 1));
        assert_eq!(small + other, (2 * 255) << SIGNIFICAND_BITS);
    }

    #[test]
    fn lists_are_those_of_serde() {
        let check = |floats: &[f32]| {
            let mut text = b"x".to_vec();
            push_list(&mut text, floats);
            let expected = format!("x{}", serde_json::to_string(floats).unwrap());
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        };
        check(&[]);
        check(&[
            f32::NAN,
            f32::INFINITY,
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            f32::MAX,
            f32::MIN,
            -f32::MIN_POSITIVE,
            1e-45,
        ]);
        check(&[0.1, -0.1, 0.999_999_94, 0.3, 1.525_879e-5, 257.0 / 512.0, 0.001, -0.012345679]);
        for length in [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let floats: Vec<f32> = (0..length).map(|at| (at as f32 * 0.37).sin() / 20.0).collect();
            check(&floats);
        }
        check(&[f32::MIN_POSITIVE * -1.05; 2 * BLOCK]);
    }
}
