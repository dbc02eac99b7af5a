//! From what SQLite says to what the store says.

use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::{Error, Result};

/// `SQLITE_IOERR_SHMSIZE`: the write-ahead log's shared memory file could not grow, which is how a full disk shows
/// while opening. Source: <https://www.sqlite.org/rescode.html>.
const SHARED_MEMORY_SIZE: i32 = 4874;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        match (error.sqlite_error_code(), error.sqlite_error().map(|e| e.extended_code)) {
            (Some(ErrorCode::DiskFull), _) | (_, Some(SHARED_MEMORY_SIZE)) => Error::Full,
            (Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _) => {
                Error::Damaged { what: "the store's file", row: format!("({error})") }
            }
            _ => Error::Sqlite { source: Arc::new(error) },
        }
    }
}

impl Error {
    /// What SQLite said while it opened the file in `folder`.
    pub(super) fn from_opening(folder: &Path, error: rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Error::ReadOnly { path: folder.to_owned() }
            }
            _ => Error::from(error),
        }
    }
}

/// Reports a row that cannot be what was written.
pub(super) fn damaged(what: &'static str, row: impl Into<String>) -> Error {
    Error::Damaged { what, row: row.into() }
}

/// Gives a row that cannot even be decoded its name.
pub(super) trait Naming<T> {
    /// Turns a decoding failure into [`Error::Damaged`], and any other failure into what it is.
    fn naming(self, what: &'static str, row: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Naming<T> for rusqlite::Result<T> {
    fn naming(self, what: &'static str, row: impl FnOnce() -> String) -> Result<T> {
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
