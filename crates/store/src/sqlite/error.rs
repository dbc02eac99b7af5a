//! Maps errors of SQLite to errors of the store.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;

use super::open::DATABASE_FILE;
use crate::Error;
use crate::tx::damaged;

/// `SQLITE_IOERR_SHMSIZE`: the shared memory file of the write-ahead log could not grow. A full disk causes this while the database is
/// opened. Source: <https://www.sqlite.org/rescode.html>.
const SHARED_MEMORY_SIZE: i32 = 4874;

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        match (error.sqlite_error_code(), error.sqlite_error().map(|e| e.extended_code)) {
            (Some(ErrorCode::DiskFull), _) | (_, Some(SHARED_MEMORY_SIZE)) => Error::Full,
            (Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _) => whole_file_damaged(&error),
            (Some(ErrorCode::ConstraintViolation), _) => Error::Conflict,
            // every statement is ours: what it names is missing in the stored schema
            _ if matches!(error, rusqlite::Error::SqlInputError { .. }) => whole_file_damaged(&error),
            _ => Error::Failed { source: Arc::new(error) },
        }
    }
}

impl Error {
    /// Maps an error that occurred while the database in `folder` was opened.
    pub(super) fn from_opening(folder: &Path, error: rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) if !folder.join(DATABASE_FILE).exists() => {
                Error::unusable(&folder.join(DATABASE_FILE), io::ErrorKind::NotFound.into())
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Error::read_only(folder)
            }
            _ => Error::from(error),
        }
    }
}

fn whole_file_damaged(error: &rusqlite::Error) -> Error {
    damaged(Error::WHOLE_FILE, format!("({error})"))
}
