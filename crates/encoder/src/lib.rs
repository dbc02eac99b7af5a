//! Embeddings and classification by models of the BERT family, on the CPU.
//!
//! [`Model::load`] reads a folder in the Hugging Face layout. [`Tokenizer::encode`] converts a text to token ids, and [`Model::embed`] these
//! to one vector, or [`Model::embed_tokens`] to one vector per token, for late interaction ([`Model::max_sim`]). A model with a
//! classification head reads pairs of texts ([`Tokenizer::encode_pair`]) and returns logits ([`Model::classify`]). Batches are
//! packed: the tokens of all sequences are rows of one matrix without padding, and attention runs per sequence.
//!
//! **An embedding does not depend on its batch, bit for bit.** Every number is computed by the same chain of operations in any batch.
//!
//! An [`ExternalModel`] is a model folder without weights; another engine runs its network.
//!
//! No async, no network, no clock, no threads: the caller owns the threads and passes each a [`Scratch`]. Several threads may compute
//! one short text together ([`ParallelPass`]).

#![forbid(unsafe_code)]

mod config;
mod error;
mod external;
mod forward;
mod model;
mod network;
mod output;
mod parallel;
mod precision;
mod tokenizer;
mod weights;

pub use config::{Pooling, Prompts};
pub use error::LoadError;
pub use external::ExternalModel;
pub use forward::Scratch;
pub use model::{MODEL_BYTES_MAX, Model, ModelInfo};
pub use parallel::{ParallelPass, ParallelScratch};
pub use precision::Precision;
pub use tokenizer::{Encoded, EncodedPair, Token, Tokenizer};
pub use weir_kernels::{Isa, Kernels};
