//! Embedding models in ONNX files, run by an installed ONNX Runtime.
//!
//! Only [`Runtime::load`] opens the shared library: a gateway without such a model never touches it. [`OnnxModel`] runs the network;
//! tokenizer and pooling are those of [`weir_encoder::ExternalModel`].
//!
//! Texts run one at a time, so that **an embedding does not depend on the rest of its batch**: padding would change it slightly, and
//! much in models that quantize activations at run time. The threads of one text are those of the runtime.

#![forbid(unsafe_code)]

mod error;
mod model;
mod runtime;

pub use error::OnnxError;
pub use model::{Lane, OnnxModel};
pub use runtime::Runtime;
