//! Maps errors of PostgreSQL to errors of the store. No message has the address, which has a password.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::Error;
use crate::tx::damaged;

/// After which time a call may find the database again.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The database did not answer.
pub(super) fn no_answer(reason: &str) -> Error {
    Error::Unavailable { retry_after: RETRY_AFTER, reason: format!("PostgreSQL: {reason}") }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        let Some(code) = error.code() else { return unreached(&error) };
        match code.code().get(..2).unwrap_or_default() {
            _ if *code == SqlState::DISK_FULL => Error::Full,
            // of every class the first two characters: integrity, transaction rollback (serialisation, deadlock)
            "23" | "40" => Error::Conflict,
            // connection, resources, operator intervention (shutdown, timeouts), a lock that was not given in time
            "08" | "53" | "57" | "55" => unreached(&error),
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => read_only(),
            // the settings end a transaction whose gateway was too slow
            "25" => unreached(&error),
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => Error::Unsupported(format!(
                "PostgreSQL says: {}; grant the role its rights on the schema `weir`",
                message(&error)
            )),
            // data that cannot be read, and what a statement names is missing in the stored schema: every statement is ours
            "XX" | "42" => damaged(Error::WHOLE_DATABASE, format!("({})", message(&error))),
            _ => Error::Failed { source: Arc::new(io::Error::other(message(&error))) },
        }
    }
}

/// Maps an error that occurred while a connection was opened: the reason is not the state of the data.
pub(super) fn from_connecting(error: &tokio_postgres::Error) -> Error {
    // the role, its password, the name of the database
    let class = error.code().and_then(|code| code.code().get(..2));
    if matches!(class, Some("28" | "3D")) {
        return Error::Unsupported(format!("PostgreSQL says: {}; correct its URL", message(error)));
    }
    // such as a missing password
    if message(error).starts_with("invalid configuration") {
        return Error::Unsupported(format!("of its URL: {}; correct it", message(error)));
    }
    if let Some(problem) = weir_postgres::tls_problem(error) {
        return Error::Unsupported(format!("of the TLS of PostgreSQL: {problem}"));
    }
    unreached(error)
}

/// A standby, or a server that was made read-only.
pub(super) fn read_only() -> Error {
    Error::ReadOnly {
        place: "the PostgreSQL database".to_owned(),
        remedy: "name the primary server, or make it writable",
    }
}

fn unreached(error: &tokio_postgres::Error) -> Error {
    no_answer(&message(error))
}

/// The message of the server, or of the system about the connection.
fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
