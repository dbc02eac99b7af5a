//! Where embeddings are made: the models that are served, and the scheduler that owns the cores.

mod cache;
mod input;
mod models;
mod pool;
mod pseudo;
mod scheduler;

pub use input::{Input, Truncation};
pub use models::{Embedder, LoadedModel, Models};
pub use pool::stand_back;
pub use pseudo::Pseudo;
pub use scheduler::{Caching, InferenceError, Lane, Scheduler};
