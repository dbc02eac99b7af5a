//! Maps errors of SQLite to errors of the store.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;

use super::open::DATABASE_FILE;
use crate::{Error, Result};

/// `SQLITE_IOERR_SHMSIZE`: the shared memory file of the write-ahead log could not grow. A full disk causes this while the database is
/// opened. Source: <https://www.sqlite.org/rescode.html>.
const SHARED_MEMORY_SIZE: i32 = 4874;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        match (error.sqlite_error_code(), error.sqlite_error().map(|e| e.extended_code)) {
            (Some(ErrorCode::DiskFull), _) | (_, Some(SHARED_MEMORY_SIZE)) => Error::Full,
            (Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _) => whole_file_damaged(&error),
            // every statement is ours: what it names is missing in the stored schema
            _ if matches!(error, rusqlite::Error::SqlInputError { .. }) => whole_file_damaged(&error),
            _ => Error::Sqlite { source: Arc::new(error) },
        }
    }
}

impl Error {
    /// Maps an error that occurred while the database in `folder` was opened.
    pub(super) fn from_opening(folder: &Path, error: rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) if !folder.join(DATABASE_FILE).exists() => {
                let path = folder.join(DATABASE_FILE);
                Error::Io { path, source: Arc::new(io::ErrorKind::NotFound.into()) }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Error::ReadOnly(folder.to_owned())
            }
            _ => Error::from(error),
        }
    }
}

fn whole_file_damaged(error: &rusqlite::Error) -> Error {
    damaged(Error::WHOLE_FILE, format!("({error})"))
}

/// The error for a row that is not what was written.
pub(super) fn damaged(what: &'static str, row: impl Into<String>) -> Error {
    Error::Damaged { what, row: row.into() }
}

/// Reports rows that cannot be decoded as damaged.
pub(super) trait OrDamaged<T> {
    /// Maps a decoding error to [`Error::Damaged`] for the row that `row` names, and any other error by [`Error::from`].
    fn or_damaged(self, what: &'static str, row: impl FnOnce() -> String) -> Result<T>;
}

impl<T> OrDamaged<T> for rusqlite::Result<T> {
    fn or_damaged(self, what: &'static str, row: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| if is_decoding(&error) { damaged(what, row()) } else { error.into() })
    }
}

fn is_decoding(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}
