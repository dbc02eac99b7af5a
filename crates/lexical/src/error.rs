//! Errors of the lexical index.

use std::path::{Path, PathBuf};

use tantivy::TantivyError;
use tantivy::directory::error::{OpenDirectoryError, OpenReadError};
use weir_mapped::{MappedError, is_sign_of_damage};

/// The result of a call to the lexical index.
pub type Result<T, E = LexicalError> = std::result::Result<T, E>;

/// Why a call to the lexical index failed.
#[derive(Debug, thiserror::Error)]
pub enum LexicalError {
    /// A call to Tantivy failed.
    #[error(
        "the lexical index could not {doing}: check free space, or remove the index folder to rebuild it"
    )]
    Tantivy {
        /// The attempted action.
        doing: &'static str,
        /// The error of Tantivy.
        source: Box<TantivyError>,
    },
    /// The bytes of a mapped file differ from those written.
    #[error(transparent)]
    Mapped(#[from] MappedError),
    /// The files are not those of an index of ours.
    #[error("index folder `{}` is damaged ({what}): remove it to rebuild it from the store", folder.display())]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// The inconsistency.
        what: &'static str,
    },
}

impl LexicalError {
    /// Whether the folder's content is at fault, rather than the machine, so that a rebuild helps.
    pub fn is_damage(&self) -> bool {
        match self {
            LexicalError::Tantivy { source, .. } => is_damaged(source),
            LexicalError::Mapped(error) => error.is_damage(),
            LexicalError::Damaged { .. } => true,
        }
    }

    /// For `map_err` on a call to Tantivy.
    pub(crate) fn during(doing: &'static str) -> impl FnOnce(TantivyError) -> LexicalError {
        move |source| LexicalError::Tantivy { doing, source: Box::new(source) }
    }

    pub(crate) fn damaged(folder: &Path, what: &'static str) -> LexicalError {
        LexicalError::Damaged { folder: folder.to_owned(), what }
    }
}

/// Whether Tantivy read damaged data. Locks, denied access and full disks are not damage.
fn is_damaged(error: &TantivyError) -> bool {
    if let TantivyError::IoError(source)
    | TantivyError::OpenReadError(OpenReadError::IoError { io_error: source, .. })
    | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error: source, .. }) = error
    {
        return is_sign_of_damage(source);
    }
    !matches!(
        error,
        TantivyError::LockFailure(..)
            | TantivyError::OpenWriteError(_)
            | TantivyError::Poisoned
            | TantivyError::ErrorInThread(_)
            | TantivyError::SystemError(_)
    )
}
