//! Embedders whose network is an ONNX file, run by the ONNX Runtime that is installed.
//!
//! [`Runtime::load`] opens the shared library, which nothing else does: a gateway without such a model never touches it.
//! [`OnnxModel`] has the network alone; token ids before it and pooling behind it are [`weir_encoder::Outline`]'s.
//!
//! Texts run one at a time, so that **an embedding does not depend on its batch-mates** here either: padding would shift it a
//! little, and a lot in a file that finds the scale of its numbers while it runs. The threads of one text are those of the runtime.

mod error;
mod model;
mod runtime;

pub use error::OnnxError;
pub use model::{Lane, OnnxModel};
pub use runtime::Runtime;
