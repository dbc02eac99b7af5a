//! Sets and rankings of chunks and documents, and what is computed from them. Pure: equal input gives equal output, bit for bit.
//!
//! - [`Tombstones`], [`Selection`]: the chunks that are deleted, and those that pass a filter; [`Visible`]: those that a search may show
//! - [`ScoredChunk`], [`TopK`], [`best_chunks`]: the ranking of one retriever
//! - [`fusion`] of rankings; [`smoothing`] of their scores over similar documents
//! - [`relevance`]: the probability that a hit answers its query

#![forbid(unsafe_code)]

mod chunks;
pub mod fusion;
pub mod relevance;
mod retrieval_mode;
mod selection;
pub mod smoothing;
mod tombstones;
mod top_k;

pub use chunks::{BestChunk, ScoredChunk, SharedThreshold, best_chunks};
pub use retrieval_mode::RetrievalMode;
pub use selection::{Selection, Visible, set_bits};
pub use tombstones::Tombstones;
pub use top_k::TopK;
