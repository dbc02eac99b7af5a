//! How documents are prepared for an index: split into chunks, with the embeddings that some bring, and how far that is.

#![forbid(unsafe_code)]

mod chunker;
pub mod own_vectors;
mod progress;

pub use chunker::{Chunker, TextChunk};
pub use progress::{IngestProgress, Preparation, Rate};
