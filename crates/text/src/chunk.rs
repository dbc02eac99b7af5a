//! Stub.
use std::ops::Range;
/// How long chunks may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunking {
    /// Most tokens per chunk.
    pub max_tokens: usize,
    /// Tokens repeated.
    pub overlap_tokens: usize,
    /// Most bytes per chunk.
    pub max_bytes: usize,
}
impl Default for Chunking {
    fn default() -> Chunking {
        Chunking { max_tokens: 200, overlap_tokens: 32, max_bytes: 8192 }
    }
}
/// Cuts a text into chunks.
pub fn chunk(
    text: &str,
    chunking: &Chunking,
    _token_offsets: &mut dyn FnMut(&str) -> Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let end = text.floor_char_boundary(start + chunking.max_bytes.max(4));
        chunks.push(start..end);
        start = end;
    }
    chunks
}
