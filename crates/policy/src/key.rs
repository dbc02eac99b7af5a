//! API keys: their form, and what is kept of them.
//!
//! A key is `weir_`, eight characters that name it in lists and logs, 32 secret characters and a checksum of six, all letters and digits:
//! `weir_1a2B3c4D…`. By the checksum a mistyped key is recognised, and by a scanner of secrets a real one, without a look at the store. Only the hash of the
//! key is kept: keys are random, so that a fast hash is as safe as a slow one.

use std::fmt;

/// The text before every key.
pub const KEY_START: &str = "weir_";
/// Characters of a key that are shown: [`KEY_START`] and its name.
pub const PREFIX_LENGTH: usize = KEY_START.len() + NAME_LENGTH;
/// Random bytes that a new key needs.
pub const RANDOM_BYTES: usize = NAME_LENGTH + SECRET_LENGTH;

const NAME_LENGTH: usize = 8;
const SECRET_LENGTH: usize = 32;
const CHECKSUM_LENGTH: usize = 6;
const LENGTH: usize = KEY_START.len() + NAME_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The hash of a key, by which it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub [u8; 32]);

/// A key as it is shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// A new key of random bytes. The remainder of 256 by 62 makes the first eight characters of the alphabet a fifth likelier, which costs a
    /// key of 32 characters less than one of its 190 bits.
    pub fn new(random: &[u8; RANDOM_BYTES]) -> KeyText {
        let mut text = KEY_START.to_owned();
        text.extend(random.iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])));
        let checksum = checksum(&text);
        text.extend(checksum.map(char::from));
        KeyText(text)
    }

    /// The hash of a text, if it has the form and the checksum of a key.
    pub fn hash_of(text: &str) -> Option<KeyHash> {
        let is_key = text.len() == LENGTH
            && text.starts_with(KEY_START)
            && text[KEY_START.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric())
            && text.as_bytes().ends_with(&checksum(&text[..LENGTH - CHECKSUM_LENGTH]));
        is_key.then(|| KeyHash(*blake3::hash(text.as_bytes()).as_bytes()))
    }

    /// The text, for the one reply that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The characters that are shown in lists and logs.
    pub fn prefix(&self) -> &str {
        &self.0[..PREFIX_LENGTH]
    }

    /// The hash by which the key is found.
    pub fn hash(&self) -> KeyHash {
        KeyHash(*blake3::hash(self.0.as_bytes()).as_bytes())
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.prefix())
    }
}

/// Six characters of a CRC-32.
fn checksum(text: &str) -> [u8; CHECKSUM_LENGTH] {
    let mut rest = crc32fast::hash(text.as_bytes()) as usize;
    std::array::from_fn(|_| {
        let digit = ALPHABET[rest % ALPHABET.len()];
        rest /= ALPHABET.len();
        digit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> KeyText {
        KeyText::new(&std::array::from_fn(|index| seed.wrapping_mul(31).wrapping_add((7 * index) as u8)))
    }

    #[test]
    fn a_key_is_recognised_and_every_other_text_is_not() {
        let text = key(1).reveal().to_owned();
        assert_eq!(text.len(), LENGTH);
        assert_eq!(KeyText::hash_of(&text), Some(key(1).hash()));
        for index in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[index] = if wrong[index] == b'a' { b'b' } else { b'a' };
            assert_eq!(KeyText::hash_of(&String::from_utf8(wrong).unwrap()), None, "character {index}");
            assert_eq!(KeyText::hash_of(&text[..index]), None);
        }
        let umlaut = text.replacen(char::is_alphanumeric, "ü", 1);
        for wrong in ["", "weir_", &format!("{text}0"), &umlaut, &"ü".repeat(LENGTH)] {
            assert_eq!(KeyText::hash_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn keys_differ_and_do_not_print_their_secret() {
        assert_ne!(key(1).hash(), key(2).hash());
        assert_eq!(key(1).hash(), key(1).hash());
        let (shown, whole) = (format!("{:?}", key(1)), key(1));
        assert_eq!(shown, format!("{}…", whole.prefix()));
        assert!(!shown.contains(&whole.reveal()[PREFIX_LENGTH..PREFIX_LENGTH + 4]));
    }
}
