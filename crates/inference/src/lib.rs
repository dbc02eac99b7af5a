//! Where embeddings are made, and texts scored: the models that are served, and the scheduler that owns the cores.

mod admission;
mod cache;
mod coalescing;
mod estimate;
mod input;
mod likeness;
mod memory;
mod models;
mod pool;
mod pseudo;
mod rerank;
mod scheduler;
mod standing;
mod upstream;

pub use coalescing::Coalescing;
pub use input::{Input, Truncation};
pub use memory::{Memory, MemoryError, NoPlace, Place};
pub use models::{Embedder, LoadedModel, ModelError, Models, encoder_precision, scale_to_length_one};
pub use pseudo::Pseudo;
pub use rerank::{RerankInput, Reranker};
pub use scheduler::{Caching, Embedded, InferenceError, Lane, Scheduler, Terms};
pub use standing::{stand_back, stand_by};
pub use upstream::{Upstream, UpstreamError};
