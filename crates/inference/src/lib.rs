//! Where embeddings are made, and texts scored: the models that are served, and the scheduler that owns the cores.

#![forbid(unsafe_code)]

mod admission;
mod cache;
mod estimate;
mod input;
mod max_sim;
mod memory;
mod models;
mod pool;
mod pseudo;
mod rerank;
mod scheduler;
mod standing;
mod upstream;

pub use input::{Input, Truncation};
pub use memory::{Memory, MemoryError, NoPlace, Place};
pub use models::{Embedder, LoadedModel, ModelError, Models, encoder_precision, scale_to_length_one};
pub use pseudo::Pseudo;
pub use rerank::{RerankInput, Reranker};
pub use scheduler::{Caching, EmbedOptions, Embedded, InferenceError, Lane, Scheduler};
pub use standing::{stand_back, stand_by};
pub use upstream::Upstream;
pub use weir_upstream::UpstreamError;
