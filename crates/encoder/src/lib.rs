//! Model files in, embeddings out: a BERT-family encoder on the CPU.
//!
//! [`Model::load`] reads a folder in the Hugging Face layout. A text becomes token ids ([`Tokenizer::encode`]), ids
//! become a unit vector ([`Model::embed`]) or one for each token ([`Model::embed_tokens`]), which two texts can be compared by
//! ([`Model::compare_tokens`]). A model with a classification
//! head reads pairs of texts ([`Tokenizer::encode_pair`]) and gives logits ([`Model::classify`]). Batches are packed: the tokens of all sequences stand one after the
//! other in one matrix without padding, and attention walks the sequences one by one.
//!
//! **An embedding does not depend on its batch-mates, bit for bit.** Every number of a sequence is computed by the same
//! chain of operations whatever stands beside it.
//!
//! An [`Outline`] is a folder without its weights, for a network that another engine runs.
//!
//! No async, no network, no clock, no threads: the caller owns the cores and hands each of them a [`Scratch`]. A short text
//! may be worked on by several of the caller's threads at once ([`Split`]).

mod config;
mod error;
mod forward;
mod model;
mod outline;
mod output;
mod split;
mod tokenizer;
mod weights;

pub use config::{Pooling, Prompts};
pub use error::LoadError;
pub use forward::Scratch;
pub use model::{Model, ModelInfo, Precision};
pub use outline::Outline;
pub use split::{Split, SplitScratch};
pub use tokenizer::{Encoded, EncodedPair, Tokenizer};
pub use weir_kernels::{Isa, Kernels};
