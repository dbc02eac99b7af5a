//! What can go wrong with the store, each with its remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of a store call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the store could not do what was asked. What it was asked for has not happened, and nothing of it is visible.
///
/// Cloneable, because calls that shared one commit share its failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another process (or another store in this one) holds the data directory.
    #[error(
        "the data directory `{}` is in use by another weir; stop that one or choose another --data-dir",
        path.display()
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The data directory, or what is in it, cannot be written.
    #[error("the data directory `{}` is read-only; make it writable or choose another --data-dir", path.display())]
    ReadOnly {
        /// The data directory.
        path: PathBuf,
    },
    /// The disk, or the quota on it, is full.
    #[error("the disk is full, nothing of this request was stored; free space and try again")]
    Full,
    /// What was read is not what was written.
    #[error("{what} {row} is damaged; restore the data directory from a backup")]
    Damaged {
        /// What kind of thing: a table's row, or the store's file.
        what: &'static str,
        /// Which one, in words that lead a person to it.
        row: String,
    },
    /// A newer Weir has written this store.
    #[error(
        "the store has format {found}, this weir knows formats up to {known}; start the newer weir that wrote it"
    )]
    NewerFormat {
        /// The format found.
        found: u32,
        /// The newest format that this build knows.
        known: u32,
    },
    /// A list was asked to go on from a place that it never named.
    #[error("the cursor `{cursor}` is not one that this list returned; start again without a cursor")]
    UnknownCursor {
        /// The cursor given.
        cursor: String,
    },
    /// The file system refused.
    #[error("could not use `{}` for the store; check that the path is a folder that weir may use", path.display())]
    Io {
        /// The path in question.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// SQLite refused; the message is its own.
    #[error("the store's database failed; if it happens again, check the disk")]
    Sqlite {
        /// What SQLite said.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The store has been closed, or its thread has ended.
    #[error("the store is closed; start weir again")]
    Closed,
}

impl Error {
    /// Sorts what the operating system said about `path` into full, read-only and the rest.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Error {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let kind = source.kind();
        if matches!(kind, StorageFull | QuotaExceeded) {
            Error::Full
        } else if matches!(kind, ReadOnlyFilesystem | PermissionDenied) {
            Error::ReadOnly { path: path.to_owned() }
        } else {
            Error::Io { path: path.to_owned(), source: Arc::new(source) }
        }
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
    fn what_the_file_system_says_becomes_a_remedy() {
        let full = "the disk is full, nothing of this request was stored; free space and try again";
        let read_only =
            "the data directory `/data` is read-only; make it writable or choose another --data-dir";
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
