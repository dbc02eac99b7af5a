//! Models in service: embedding, reranking, and the scheduler of their threads.

#![forbid(unsafe_code)]

mod admission;
mod cache;
mod estimate;
mod fair_queue;
mod input;
mod max_sim;
mod memory_budget;
mod models;
mod normalise;
mod pool;
mod progress;
mod pseudo;
mod request;
mod rerank;
mod rows;
mod scheduler;
mod task;
mod thread_priority;
mod token_decoder;
mod upstream;
mod waiting;

pub use self::thread_priority::{serving_runtime, set_background_priority, set_compute_priority};
pub use input::Input;
pub use memory_budget::{BudgetError, MemoryBudget, MemoryLimitError, Reservation};
pub use models::{Embedder, LoadedModel, ModelError, Models, encoder_precision, reranks};
pub use normalise::l2_normalise;
pub use pseudo::Pseudo;
pub use request::{Caching, EmbedOptions, Embedded, Flow, InferenceError, Lane, Truncation};
pub use rerank::{RerankInput, Reranker};
pub use rows::Rows;
pub use scheduler::Scheduler;
pub use token_decoder::TokenDecoder;
pub use upstream::Upstream;
pub use weir_encoder::Token;
pub use weir_upstream::UpstreamError;
