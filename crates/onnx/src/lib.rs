//! Embedding models in ONNX files, run by an installed ONNX Runtime.
//!
//! Only [`Runtime::load`] opens the shared library, when a model needs it. [`OnnxModel`] runs the network; tokenizer and pooling are those
//! of [`weir_encoder::ExternalModel`].
//!
//! Texts run one at a time, so that **an embedding does not depend on other texts of its batch**: padding would change it slightly, and
//! strongly in models that quantize activations at run time. The runtime computes a text that is alone on several threads of its own, and texts
//! side by side on the threads of their callers.

#![forbid(unsafe_code)]

mod error;
mod model;
mod runtime;

pub use error::OnnxError;
pub use model::{Lane, OnnxModel};
pub use runtime::Runtime;
