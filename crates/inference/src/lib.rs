//! Models in service: embedding and reranking, and the scheduler of the cores that they share.

#![forbid(unsafe_code)]

mod admission;
mod cache;
mod estimate;
mod input;
mod max_sim;
mod memory_budget;
mod models;
mod pool;
mod pseudo;
mod rerank;
mod scheduler;
mod thread_priority;
mod upstream;

pub use self::thread_priority::{set_background_priority, set_compute_priority};
pub use input::{Input, Truncation};
pub use memory_budget::{BudgetError, MemoryBudget, MemoryLimitError, Reservation};
pub use models::{Embedder, LoadedModel, ModelError, Models, encoder_precision, l2_normalise, reranks};
pub use pseudo::Pseudo;
pub use rerank::{RerankInput, Reranker};
pub use scheduler::{Caching, EmbedOptions, Embedded, InferenceError, Lane, Scheduler};
pub use upstream::Upstream;
pub use weir_upstream::UpstreamError;
