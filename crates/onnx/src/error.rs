//! Errors of ONNX models, with the remedy.

use std::path::PathBuf;

/// The runtime, a file or a run failed.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// No library is configured.
    #[error(
        "models of kind `onnx` need ONNX Runtime; set `onnx.library` to its shared library: \
         `pip install onnxruntime` installs one, onnxruntime/capi/libonnxruntime.so.VERSION"
    )]
    NoLibrary,
    /// The library can't be loaded.
    #[error(
        "ONNX Runtime can't be loaded from {} (`onnx.library`): {reason}; name the shared library of ONNX Runtime 1.17 or newer: \
         `pip install onnxruntime` installs one, onnxruntime/capi/libonnxruntime.so.VERSION", path.display()
    )]
    Library {
        /// The file.
        path: PathBuf,
        /// The runtime's error.
        reason: String,
    },
    /// The folder has no ONNX file.
    #[error(
        "{} holds neither model.onnx nor onnx/model.onnx; export the model, for instance with \
         `optimum-cli export onnx --model NAME {}`", folder.display(), folder.display()
    )]
    NoNetwork {
        /// The folder.
        folder: PathBuf,
    },
    /// A configuration file of the folder is missing or invalid.
    #[error(transparent)]
    Folder(#[from] weir_encoder::LoadError),
    /// The inputs or outputs of the network are not those of an encoder.
    #[error("{} is not an encoder that Weir can run: {reason}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The difference.
        reason: String,
    },
    /// The files need more memory than a model may have.
    #[error(
        "{} and its data have {bytes} bytes, more than the {limit} of `inference.model_bytes_max`; set the limit higher, or use a smaller \
         model", path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes of the network's files.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The results are not numbers.
    #[error("{} gives embeddings that are not finite numbers; export the model again", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
    },
    /// The runtime failed.
    #[error("ONNX Runtime failed on {}: {reason}", path.display())]
    Run {
        /// The file.
        path: PathBuf,
        /// The runtime's error.
        reason: String,
    },
}
