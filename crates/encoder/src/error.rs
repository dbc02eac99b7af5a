//! Why a model can't be loaded, with the remedy.

use std::path::PathBuf;

/// A model folder that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file that must be there is not.
    #[error(
        "model file {} is missing; a model is a folder in the Hugging Face layout: \
         run `make setup`, `weir model pull NAME`, or name another folder with --model", path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file is there and can't be read.
    #[error("model file {} can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what it should be: cut short, or changed.
    #[error("model file {} is damaged: {reason}; fetch the model again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The model is of a kind that Weir does not run.
    #[error("model {}: {what} is `{value}`, and Weir runs {accepted}", path.display())]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// The property.
        what: &'static str,
        /// Its value.
        value: String,
        /// The values that would do.
        accepted: &'static str,
    },
    /// A length is declared that embeddings can't be cut to.
    #[error(
        "embeddings of {whole} floats can't be cut to {dimension}: `dimensions` are whole numbers from 1 to {whole}"
    )]
    Dimension {
        /// The length.
        dimension: usize,
        /// The length of a whole embedding.
        whole: usize,
    },
}
