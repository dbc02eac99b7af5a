//! How documents are prepared for an index: split into chunks, and how far that is.

#![forbid(unsafe_code)]

mod chunker;
mod progress;

pub use chunker::{Chunker, TextChunk};
pub use progress::{IngestProgress, Preparation, Rate};
