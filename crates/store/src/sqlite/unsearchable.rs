//! Operations whose documents are stored and not searchable.

use rusqlite::{Connection, params};

use super::statements::Statements as _;
use crate::{CollectionId, DocumentError, JobDocumentState, Result};

/// Adds the document of an operation that could not be embedded.
pub(super) fn add_failed(
    connection: &Connection,
    collection: CollectionId,
    operation: u64,
    error: &DocumentError,
) -> Result<()> {
    connection.run(
        "INSERT INTO unsearchable (collection_id, number, state, code, message) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
        params![collection.0, operation, <&str>::from(JobDocumentState::Failed), error.code, error.message],
    )?;
    Ok(())
}

/// Adds the documents of these operations that have no later version, except those in `applied_early`. Returns their number.
pub(super) fn add_cancelled(
    connection: &Connection,
    collection: CollectionId,
    operations: std::ops::RangeInclusive<u64>,
    applied_early: &[u64],
) -> Result<u64> {
    let applied_early = serde_json::json!(applied_early).to_string();
    let added = connection.run(
        "INSERT INTO unsearchable (collection_id, number, state)
         SELECT o.collection_id, o.number, ?4 FROM operations o
         JOIN documents d ON d.collection_id = o.collection_id AND d.id = o.document_id AND d.version = o.number
         WHERE o.collection_id = ?1 AND o.number BETWEEN ?2 AND ?3
             AND o.number NOT IN (SELECT value FROM json_each(?5))
         ON CONFLICT DO NOTHING",
        params![
            collection.0,
            operations.start(),
            operations.end(),
            <&str>::from(JobDocumentState::Cancelled),
            applied_early
        ],
    )?;
    Ok(added as u64)
}

/// Whether the document of an operation is stored and not searchable.
pub(super) fn contains(connection: &Connection, collection: CollectionId, operation: u64) -> Result<bool> {
    let found = "SELECT 1 FROM unsearchable WHERE collection_id = ?1 AND number = ?2";
    Ok(connection.first(found, params![collection.0, operation], |_| Ok(()))?.is_some())
}

/// Whether the job of an operation was cancelled before its document was embedded.
pub(super) fn is_cancelled(
    connection: &Connection,
    collection: CollectionId,
    operation: u64,
) -> Result<bool> {
    let cancelled: &str = JobDocumentState::Cancelled.into();
    let found = "SELECT 1 FROM unsearchable WHERE collection_id = ?1 AND number = ?2 AND state = ?3";
    Ok(connection.first(found, params![collection.0, operation, cancelled], |_| Ok(()))?.is_some())
}

/// Deletes those of pruned operations, from after `pruned_to` to `to`, that are the version of no document.
pub(super) fn prune(
    connection: &Connection,
    collection: CollectionId,
    pruned_to: u64,
    to: u64,
) -> Result<()> {
    connection.run(
        "DELETE FROM unsearchable WHERE collection_id = ?1 AND number > ?2 AND number <= ?3 AND NOT EXISTS (
             SELECT 1 FROM operations o WHERE o.collection_id = ?1 AND o.number = unsearchable.number)",
        params![collection.0, pruned_to, to],
    )?;
    Ok(())
}

/// Deletes that of an operation that is pruned.
pub(super) fn remove(connection: &Connection, collection: CollectionId, operation: u64) -> Result<()> {
    connection.run(
        "DELETE FROM unsearchable WHERE collection_id = ?1 AND number = ?2",
        params![collection.0, operation],
    )?;
    Ok(())
}
