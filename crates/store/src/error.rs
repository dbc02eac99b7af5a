//! The errors of the store. Each message says what to do.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The result of a store call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. None of its changes is visible.
///
/// The words are the store's own, the same for every database. Cloneable, because all calls of one group commit get the same error when
/// the commit fails.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process, or another store in this process, uses it.
    #[error("{place} is in use by another weir; stop that one or choose another --data-dir")]
    InUse {
        /// Where the store is.
        place: String,
    },
    /// It cannot be written.
    #[error("{place} is read-only; {remedy}")]
    ReadOnly {
        /// Where the store is.
        place: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The disk is full, or the user's quota is used up.
    #[error("the disk is full, nothing of this request was stored; free space and try again")]
    Full,
    /// A part of the store was removed, replaced or truncated while it was open.
    #[error(
        "the file `{part}` was removed, replaced or truncated while weir was running, and nothing is stored any more; put it back, or \
         restore the data directory from a backup and start weir again"
    )]
    Replaced {
        /// Names it for a reader of the message.
        part: String,
    },
    /// A row, or the store as a whole, is not what was written.
    #[error("{what} {row} is damaged; {}restore the {} from a backup", remedy(.what), place(.what))]
    Damaged {
        /// The kind of row, or the whole store.
        what: &'static str,
        /// Identifies the row for a reader of the message.
        row: String,
    },
    /// A newer version of Weir has written this store.
    #[error(
        "the store has format {found}, this weir knows formats up to {known}; start the newer weir that wrote it"
    )]
    NewerSchema {
        /// The format of the store.
        found: u32,
        /// The newest format that this build reads.
        known: u32,
    },
    /// The store cannot be reached or does not answer in time.
    #[error("the store is not available ({reason}); try again")]
    Unavailable {
        /// When it may answer again.
        retry_after: Duration,
        /// The observation, without secrets.
        reason: String,
    },
    /// The data directory and the database are of different services.
    #[error("{0}")]
    OtherService(String),
    /// The database does not have an operation that was acknowledged, or has another one of its number.
    #[error(
        "the database has lost operation {operation}, which was acknowledged, and perhaps others, as in a failover to a standby that did not have \
         its last commits; restore them, or stop all gateways and remove the folder `index` of each, to go on without them"
    )]
    LostCommits {
        /// The number of the operation.
        operation: u64,
    },
    /// Another gateway has taken over the work of the collection.
    #[error("another gateway has taken over the work of the collection")]
    LeaseLost,
    /// Another change got in first, or what is to be stored exists already.
    #[error("another change of the store contradicts this one; try again")]
    Conflict,
    /// The collection does not exist for the caller.
    #[error("there is no collection `{}`", .0.escape_debug())]
    UnknownCollection(String),
    /// The change could affect documents that are hidden from the caller.
    #[error("a key with a mandatory filter may not {0}")]
    NotAllowed(&'static str),
    /// The document is not in a version that the [`Precondition`](crate::Precondition) allows.
    #[error("document `{}` {}, which the condition does not allow", id.escape_debug(), found(*.version))]
    PreconditionFailed {
        /// The document's id.
        id: String,
        /// Its version; `None` if it does not exist for the caller.
        version: Option<u64>,
    },
    /// The idempotency key belongs to a request that asked for something else.
    #[error(
        "the idempotency key was sent with another request before; send a new key with each new request, and the same key only with \
         the same body"
    )]
    IdempotencyMismatch,
    /// The caller has as many webhooks that are not delivered as it may have.
    #[error(
        "{0} webhooks of jobs are not delivered yet, which is the limit; try again later, or ask for the state of the job"
    )]
    TooManyWebhooks(u64),
    /// A cursor that this list did not return.
    #[error("the cursor `{0}` is not one that this list returned; start again without a cursor")]
    UnknownCursor(String),
    /// The database is of a kind that the store does not work with, or refuses the gateway.
    #[error("the store's database cannot be used because {0}")]
    Unsupported(String),
    /// The place of the store cannot be used for another reason.
    #[error("could not use `{place}` for the store; check that the path is a folder that weir may use")]
    Unusable {
        /// Where the store is or should be.
        place: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The database failed for a reason without a variant of its own.
    #[error("the store's database failed; if it happens again, check the disk")]
    Failed {
        /// The reason.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store has been closed, or has ended.
    #[error("the store is closed; start weir again")]
    Closed,
}

/// The state of a document in words.
fn found(version: Option<u64>) -> String {
    version.map_or_else(|| "does not exist".to_owned(), |version| format!("has version {version}"))
}

/// The part that is restored from a backup.
fn place(what: &str) -> &'static str {
    if what == Error::WHOLE_DATABASE { "database" } else { "data directory" }
}

/// The remedy for a damaged row without a backup. Rows that contradict others have no such remedy: an unchanged document is not stored again.
fn remedy(what: &str) -> &'static str {
    match what {
        "document" => "ingest it again, or ",
        "chunk" | "embedding" => {
            "remove the folder `index` while the gateway is stopped, so that it is computed again, or "
        }
        _ => "",
    }
}

impl Error {
    /// `what` of a damaged database file, other than a row.
    pub(crate) const WHOLE_FILE: &str = "the store's file";
    /// The same of a database of a server.
    pub(crate) const WHOLE_DATABASE: &str = "the store's database";

    /// When the same call may succeed, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Error::Unavailable { retry_after, .. } = self { Some(*retry_after) } else { None }
    }

    /// Maps an IO error about `path` to `Full`, `ReadOnly` or `Unusable`.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Error {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let kind = source.kind();
        if matches!(kind, StorageFull | QuotaExceeded) {
            Error::Full
        } else if matches!(kind, ReadOnlyFilesystem | PermissionDenied) {
            Error::read_only(path)
        } else {
            Error::unusable(path, source)
        }
    }

    /// The data directory `folder` is read-only.
    pub(crate) fn read_only(folder: &Path) -> Error {
        Error::ReadOnly {
            place: format!("the data directory `{}`, or the store in it,", folder.display()),
            remedy: "make it writable or choose another --data-dir",
        }
    }

    /// A file system call about `path` failed.
    pub(crate) fn unusable(path: &Path, source: io::Error) -> Error {
        Error::Unusable { place: path.display().to_string(), source: Arc::new(source) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: io::ErrorKind, expected: &str) {
        let error = Error::from_io(Path::new("/data"), io::Error::from(kind));
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn io_errors_map_to_variants_with_a_remedy() {
        let full = "the disk is full, nothing of this request was stored; free space and try again";
        let read_only = "the data directory `/data`, or the store in it, is read-only; make it writable or choose another --data-dir";
        check(io::ErrorKind::StorageFull, full);
        check(io::ErrorKind::QuotaExceeded, full);
        check(io::ErrorKind::ReadOnlyFilesystem, read_only);
        check(io::ErrorKind::PermissionDenied, read_only);
        check(
            io::ErrorKind::NotADirectory,
            "could not use `/data` for the store; check that the path is a folder that weir may use",
        );
    }
}
