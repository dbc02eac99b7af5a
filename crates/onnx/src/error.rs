//! Why an ONNX model can't be used, with the remedy.

use std::path::PathBuf;

/// A runtime, a file or a run that failed.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// No library is configured.
    #[error(
        "models of kind `onnx` need ONNX Runtime; set `onnx.library` to its shared library: \
         `pip install onnxruntime` brings one, onnxruntime/capi/libonnxruntime.so.VERSION"
    )]
    NoLibrary,
    /// The library can't be loaded.
    #[error(
        "ONNX Runtime can't be loaded from {} (`onnx.library`): {reason}; name the shared library of ONNX Runtime 1.17 or newer: \
         `pip install onnxruntime` brings one, onnxruntime/capi/libonnxruntime.so.VERSION", path.display()
    )]
    Library {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// The folder has no network.
    #[error(
        "{} holds neither model.onnx nor onnx/model.onnx; export the model, for instance with \
         `optimum-cli export onnx --model NAME {}`", folder.display(), folder.display()
    )]
    NoNetwork {
        /// The folder.
        folder: PathBuf,
    },
    /// The small files of the folder are not right.
    #[error(transparent)]
    Folder(#[from] weir_encoder::LoadError),
    /// The network takes or gives something else than an encoder does.
    #[error("{} is no encoder that Weir can run: {reason}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The runtime failed.
    #[error("ONNX Runtime failed on {}: {reason}", path.display())]
    Run {
        /// The file.
        path: PathBuf,
        /// What the runtime says.
        reason: String,
    },
}
