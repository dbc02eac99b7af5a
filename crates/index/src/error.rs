//! What can go wrong, and what to do about it.

use std::path::{Path, PathBuf};

use tantivy::TantivyError;
use tantivy::directory::error::{OpenDirectoryError, OpenReadError};
use weir_mapped::MappedError;

/// Why the index could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The index has operations that the store has not: they belong to different histories.
    #[error(
        "the index has reached operation {applied_seq} but the store ends at {store}: the store was restored or replaced; \
         remove the index folder to rebuild it from this store, or bring back the newer store"
    )]
    AheadOfStore {
        /// The last operation in the index.
        applied_seq: u64,
        /// The last operation in the store.
        store: u64,
    },
    /// A batch ends before the operation that the index has reached.
    #[error("operations up to {applied_seq} were applied after {current}: replay from `reached`, in order")]
    OutOfOrder {
        /// The batch's last operation.
        applied_seq: u64,
        /// The last operation in the index.
        current: u64,
    },
    /// Another process (or another engine in this one) has the folder.
    #[error("index folder `{}` is in use by another process: stop it, or use another data directory", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
    },
    /// The engine was closed.
    #[error("the index is closed: open it again")]
    Closed,
    /// A file could not be read or written.
    #[error("could not {doing} `{}`: check permissions and free space", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file could not be mapped, or its bytes are not those that were written.
    #[error(transparent)]
    Mapped(#[from] MappedError),
    /// The bytes of a file pass their checksum but make no sense, or contradict another file.
    #[error("index folder `{}` is damaged ({what}): remove it to rebuild it from the store", folder.display())]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The lexical leg failed.
    #[error(
        "the lexical index could not {doing}: check free space, or remove the index folder to rebuild it"
    )]
    Lexical {
        /// What was tried.
        doing: &'static str,
        /// What Tantivy said.
        source: Box<TantivyError>,
    },
    /// An embedding has another length than the collection's dimension.
    #[error("embedding has {actual} values instead of {expected}: use the collection's model")]
    EmbeddingLength {
        /// The collection's dimension; 0 in a text-only collection.
        expected: usize,
        /// Values that were given.
        actual: usize,
    },
    /// An embedding holds NaN or infinity.
    #[error("embedding holds a value that is not a finite number: check the model")]
    EmbeddingNotFinite,
    /// Dense or hybrid search, or a chunk, without its embedding.
    #[error("an embedding is missing: give one of {dimension} values, or search in mode `lexical`")]
    EmbeddingMissing {
        /// The collection's dimension.
        dimension: usize,
    },
    /// Dense or hybrid search in a collection that has no embeddings.
    #[error("this collection holds no embeddings: search in mode `lexical`")]
    NoEmbeddings,
    /// A fusion weight or constant is negative, NaN or infinite.
    #[error("fusion {name} is {value}: give a finite number, 0 or larger")]
    InvalidParameter {
        /// Which one.
        name: &'static str,
        /// What was given.
        value: f32,
    },
    /// A search goes on with what is no longer held.
    #[error("the index has moved on since operation {applied_seq}: start again from the first page")]
    SnapshotExpired {
        /// The operation that was asked for.
        applied_seq: u64,
    },
    /// A filter, facet, order, group or query names a field that no document has had.
    #[error("no document has the field `{field}`{}{}", suggest_fields(known), if *is_full { FULL } else { "" })]
    UnknownField {
        /// The field's path.
        field: String,
        /// The first fields that documents have, in order.
        known: Vec<String>,
        /// Whether there are so many fields that others, like this one, cannot be asked for.
        is_full: bool,
    },
    /// The folder has no room for another chunk, or a text is too long for the format.
    #[error(
        "{what} passes the limit of {limit} of one index: split it over several collections or documents"
    )]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The call panicked.
    #[error("a call to the index panicked: see the log for the message, and report it")]
    Panicked,
    /// The threads that run calls were shut down.
    #[error("a call to the index was interrupted: the process is shutting down")]
    Interrupted,
}

impl IndexError {
    /// Whether the folder's content is at fault, so that rebuilding it helps, rather than the machine.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            IndexError::Damaged { .. } => true,
            IndexError::Mapped(MappedError::Length { .. } | MappedError::Checksum { .. }) => true,
            IndexError::Mapped(MappedError::Unreadable { source, .. }) | IndexError::File { source, .. } => {
                tells_of_damage(source)
            }
            IndexError::Lexical { source, .. } => lexical_is_damaged(source),
            IndexError::AheadOfStore { .. }
            | IndexError::OutOfOrder { .. }
            | IndexError::Locked { .. }
            | IndexError::Closed
            | IndexError::EmbeddingLength { .. }
            | IndexError::EmbeddingNotFinite
            | IndexError::EmbeddingMissing { .. }
            | IndexError::NoEmbeddings
            | IndexError::InvalidParameter { .. }
            | IndexError::SnapshotExpired { .. }
            | IndexError::UnknownField { .. }
            | IndexError::TooLarge { .. }
            | IndexError::Panicked
            | IndexError::Interrupted => false,
        }
    }

    /// For `map_err` on a file operation.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> IndexError {
        let path = path.to_owned();
        move |source| IndexError::File { doing, path, source }
    }

    /// For `map_err` on a call to Tantivy.
    pub(crate) fn lexical(doing: &'static str) -> impl FnOnce(TantivyError) -> IndexError {
        move |source| IndexError::Lexical { doing, source: Box::new(source) }
    }

    /// For contradictions found in a folder.
    pub(crate) fn damaged(folder: &Path, what: &'static str) -> IndexError {
        IndexError::Damaged { folder: folder.to_owned(), what }
    }
}

fn tells_of_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
}

/// Whether Tantivy stumbled over what it read. Locks, refused access and full disks are not damage.
fn lexical_is_damaged(error: &TantivyError) -> bool {
    if let TantivyError::IoError(source)
    | TantivyError::OpenReadError(OpenReadError::IoError { io_error: source, .. })
    | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error: source, .. }) = error
    {
        return tells_of_damage(source);
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

const FULL: &str = ", or it came after the collection had 4,096 other fields: use fewer keys, with what varies as their values";

fn suggest_fields(known: &[String]) -> String {
    if known.is_empty() {
        "; none has any yet".to_owned()
    } else {
        format!("; use one of: {}", known.join(", "))
    }
}
