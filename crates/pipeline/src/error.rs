//! Errors of the index, and how to resolve them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_lexical::LexicalError;
use weir_mapped::{MappedError, is_sign_of_damage};

/// The result of a call to the index.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;

/// Why a call to the index failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The index contains operations that the store lacks: they have different histories.
    #[error(
        "the index has applied operation {applied_seq}, but the store ends at {store}: the store was restored or replaced; \
         remove the index folder (in a Qdrant cluster: set another `qdrant.prefix`) to rebuild it from this store, or restore the newer store"
    )]
    AheadOfStore {
        /// The last operation applied to the index.
        applied_seq: u64,
        /// The last operation in the store.
        store: u64,
    },
    /// A batch ends before the last operation applied.
    #[error(
        "a batch up to operation {applied_seq} was applied after operation {current}: apply operations in order"
    )]
    OutOfOrder {
        /// The batch's last operation.
        applied_seq: u64,
        /// The last operation applied to the index.
        current: u64,
    },
    /// Another process, or another engine in this one, has locked the folder.
    #[error("index folder `{}` is in use by another process: stop it, or use another data directory", .0.display())]
    Locked(PathBuf),
    /// The engine was closed.
    #[error("the index is closed: open it again")]
    Closed,
    /// A file could not be read or written.
    #[error("could not {doing} `{}`: check permissions and free space", path.display())]
    File {
        /// The attempted action.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file could not be mapped, or its bytes differ from those written.
    #[error(transparent)]
    Mapped(#[from] MappedError),
    /// A file passes its checksum but is malformed or contradicts another file.
    #[error("index folder `{}` is damaged ({what}): remove it to rebuild it from the store", folder.display())]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// The inconsistency.
        what: &'static str,
    },
    /// The lexical retriever failed.
    #[error(transparent)]
    Lexical(#[from] LexicalError),
    /// The files of an open index were removed or damaged. It is empty now, and the store's operations are to be applied again.
    #[error("index folder `{}` was lost ({reason}); it is being rebuilt from the store", folder.display())]
    Lost {
        /// The folder.
        folder: PathBuf,
        /// The finding.
        reason: String,
    },
    /// The length of an embedding differs from the collection's dimension.
    #[error("embedding has {actual} values instead of {expected}: use the collection's model")]
    EmbeddingLength {
        /// The collection's dimension; 0 in a text-only collection.
        expected: usize,
        /// Values in the request.
        actual: usize,
    },
    /// An embedding contains NaN or infinity.
    #[error("embedding holds a value that is not a finite number: check the model")]
    EmbeddingNotFinite,
    /// The embedding of a chunk, or of a dense or hybrid search, is missing.
    #[error("an embedding is missing: give one of {0} values, or search in mode `lexical`")]
    EmbeddingMissing(usize),
    /// Dense or hybrid search in a text-only collection.
    #[error("this collection holds no embeddings: search in mode `lexical`")]
    NoEmbeddings,
    /// A fusion weight, a fusion constant or `diversity` is out of range.
    #[error("fusion {name} is {value}: give a finite number, 0 or larger")]
    InvalidParameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f32,
    },
    /// The snapshot of an earlier page is no longer pinned.
    #[error("the snapshot that this page continues has expired: start again from the first page")]
    SnapshotExpired(u64),
    /// A filter, facet, sort key, group or query names a field that no document has had; of a caller with a mandatory filter, that none of
    /// the caller's documents has.
    #[error("no document has the field `{field}`{}{}", suggest_fields(known), if *is_full { FULL } else { "" })]
    UnknownField {
        /// The field's path.
        field: String,
        /// The first fields of the documents that exist for the caller, sorted.
        known: Vec<String>,
        /// Whether the index holds the maximum number of fields, so that later ones, perhaps including this, were left out.
        is_full: bool,
    },
    /// The index cannot hold another chunk, or a text exceeds the format.
    #[error("{what} exceeds the limit of {limit} per index: split it over several collections or documents")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The engine of the collection lacks a feature that the query asks for.
    #[error("{feature}: the engine of this collection does not support it; {remedy}")]
    NotSupported {
        /// The feature.
        feature: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The engine, which is another process, cannot be reached, or did not answer in time.
    #[error("the engine of the collection does not answer ({reason}): try again, or check that it runs")]
    Unavailable {
        /// The finding.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// The engine, which is another process, can't be used as it is set up, or refuses a call.
    #[error("the engine of the collection can't be used: {reason}")]
    Engine {
        /// The problem and its remedy.
        reason: String,
    },
    /// The call panicked.
    #[error("a call to the index panicked: see the log for the message, and report it")]
    Panicked,
    /// The threads that run calls have been shut down.
    #[error("a call to the index was interrupted: the process is shutting down")]
    Interrupted,
}

impl IndexError {
    /// Whether the folder's content is at fault, rather than the machine, so that a rebuild helps.
    pub fn is_damage(&self) -> bool {
        match self {
            IndexError::Damaged { .. } => true,
            IndexError::Mapped(error) => error.is_damage(),
            IndexError::File { source, .. } => is_sign_of_damage(source),
            IndexError::Lexical(error) => error.is_damage(),
            IndexError::AheadOfStore { .. }
            | IndexError::OutOfOrder { .. }
            | IndexError::Locked(_)
            | IndexError::Closed
            | IndexError::Lost { .. }
            | IndexError::EmbeddingLength { .. }
            | IndexError::EmbeddingNotFinite
            | IndexError::EmbeddingMissing(_)
            | IndexError::NoEmbeddings
            | IndexError::InvalidParameter { .. }
            | IndexError::SnapshotExpired(_)
            | IndexError::UnknownField { .. }
            | IndexError::TooLarge { .. }
            | IndexError::NotSupported { .. }
            | IndexError::Unavailable { .. }
            | IndexError::Engine { .. }
            | IndexError::Panicked
            | IndexError::Interrupted => false,
        }
    }

    /// For `map_err` on a file operation.
    pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> IndexError {
        let path = path.to_owned();
        move |source| IndexError::File { doing, path, source }
    }

    /// For contradictions found in a folder.
    pub fn damaged(folder: &Path, what: &'static str) -> IndexError {
        IndexError::Damaged { folder: folder.to_owned(), what }
    }
}

const FULL: &str = ", or it was left out because the collection already had 4,096 fields: use fewer keys, and put what varies into values";

fn suggest_fields(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; use one of: {}", known.join(", ")) }
}
