//! The content hash of a text.

/// BLAKE3 hash of the text's UTF-8 bytes, without normalisation. It is the key of stored embeddings.
pub fn text_hash(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::text_hash;

    #[test]
    fn the_empty_text_has_the_published_blake3_hash() {
        let published = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        let hex: String = text_hash("").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, published);
    }

    #[test]
    fn texts_that_look_alike_hash_differently() {
        assert_ne!(text_hash("caf\u{e9}"), text_hash("cafe\u{301}"));
    }
}
