//! Errors of loading a model, with the remedy.

use std::path::PathBuf;

/// A model folder can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A required file is missing.
    #[error(
        "model file {} is missing; a model is a folder in the Hugging Face layout: \
         `weir model pull all-MiniLM-L6-v2` downloads one; or name another folder with --model", path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file can't be read.
    #[error("model file {} can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The contents of a file are invalid or incomplete.
    #[error("model file {} is damaged: {reason}; fetch the model again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The model needs more memory than it may have.
    #[error(
        "model {} needs {needed} bytes of memory, more than the {limit} of `inference.model_bytes_max`; set the limit higher, or use a \
         smaller model", folder.display()
    )]
    TooLarge {
        /// The folder.
        folder: PathBuf,
        /// Bytes of packed weights, of the working memory for a text of full length, and of the largest tensor while it is packed.
        needed: u128,
        /// The limit.
        limit: u64,
    },
    /// Weir does not support this kind of model.
    #[error("model {}: {what} is `{value}`, but Weir supports {accepted}", path.display())]
    Unsupported {
        /// The file with the property.
        path: PathBuf,
        /// The property.
        what: &'static str,
        /// Its value.
        value: String,
        /// The values that are supported.
        accepted: &'static str,
    },
    /// A declared dimension is 0 or larger than the model's.
    #[error(
        "embeddings of {full} floats can't be cut to {dimension}: `dimensions` are integers from 1 to {full}"
    )]
    Dimension {
        /// The declared dimension.
        dimension: usize,
        /// The dimension of the model.
        full: usize,
    },
}
