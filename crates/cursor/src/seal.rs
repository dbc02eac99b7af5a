//! Bytes that only the holders of a key can make and read.
//!
//! They are authenticated with keyed BLAKE3 behind a random salt, and encrypted with a BLAKE3 stream whose synthetic nonce is the tag (SIV: Rogaway
//! and Shrimpton, 2006).

const TAG_BYTES: usize = 32;
/// Random bytes before the content, so that equal contents have different bytes.
const SALT_BYTES: usize = 16;
/// Separates the key of the encryption from that of the tags. Cursors were the first to be sealed.
const ENCRYPTION: &str = "weir 2026-11 encryption of cursors";

/// A key that signs, encrypts and verifies.
#[derive(PartialEq, Eq)]
pub struct Seal {
    tags: [u8; 32],
    encryption: [u8; 32],
}

impl Seal {
    /// Bytes that a content takes beside its own.
    pub const OVERHEAD_BYTES: usize = SALT_BYTES + TAG_BYTES;

    /// With this key.
    pub fn new(key: [u8; 32]) -> Seal {
        Seal { encryption: blake3::derive_key(ENCRYPTION, &key), tags: key }
    }

    /// `content`, signed together with `context`, and encrypted. The contexts of one key have one length.
    pub fn seal(&self, context: &[u8], content: &[u8]) -> Vec<u8> {
        let salt: [u8; SALT_BYTES] = rand::random();
        let mut bytes = Vec::with_capacity(content.len() + Seal::OVERHEAD_BYTES);
        bytes.extend(salt);
        bytes.extend(content);
        let tag = self.tag(context, &bytes);
        self.encrypt(&tag, &mut bytes);
        bytes.extend(tag.as_bytes());
        bytes
    }

    /// The content of what was sealed with this context; `None` if any byte of it is another one.
    pub fn open(&self, context: &[u8], mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        let content = bytes.len().checked_sub(TAG_BYTES).filter(|content| *content >= SALT_BYTES)?;
        let tag = blake3::Hash::from_slice(&bytes[content..]).ok()?;
        bytes.truncate(content);
        self.encrypt(&tag, &mut bytes);
        // compares in constant time
        (self.tag(context, &bytes) == tag).then(|| bytes.split_off(SALT_BYTES))
    }

    fn tag(&self, context: &[u8], bytes: &[u8]) -> blake3::Hash {
        blake3::Hasher::new_keyed(&self.tags).update(context).update(bytes).finalize()
    }

    /// Encrypts or decrypts: XOR with the stream of `tag`.
    fn encrypt(&self, tag: &blake3::Hash, bytes: &mut [u8]) {
        let mut stream = vec![0; bytes.len()];
        blake3::Hasher::new_keyed(&self.encryption).update(tag.as_bytes()).finalize_xof().fill(&mut stream);
        bytes.iter_mut().zip(stream).for_each(|(byte, stream)| *byte ^= stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_read_with_its_key_and_context_alone() {
        let (seal, context) = (Seal::new([1; 32]), [7; 32]);
        let sealed = seal.seal(&context, b"content");
        assert_eq!(sealed.len(), 7 + Seal::OVERHEAD_BYTES);
        assert!(!sealed.windows(7).any(|part| part == b"content"));
        assert_eq!(seal.open(&context, sealed.clone()).unwrap(), b"content");
        assert!(seal.open(&[8; 32], sealed.clone()).is_none());
        assert!(Seal::new([2; 32]).open(&context, sealed.clone()).is_none());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(seal.open(&context, changed).is_none(), "byte {at}");
            assert!(seal.open(&context, sealed[..at].to_vec()).is_none(), "{at} bytes");
        }
    }
}
