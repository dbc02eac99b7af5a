//! Operations whose documents are stored and not searchable.

use std::collections::HashSet;

use crate::tx::{AsValue as _, Tx, values};
use crate::{CollectionId, DocumentError, JobDocumentState, Result};

/// Adds the document of an operation that could not be embedded.
pub(super) async fn add_failed(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    operation: u64,
    error: &DocumentError,
) -> Result<()> {
    tx.run(
        "INSERT INTO unsearchable (collection_id, number, state, code, message) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
        &values![collection.0, operation, <&str>::from(JobDocumentState::Failed), error.code, error.message],
    )
    .await?;
    Ok(())
}

/// Adds the documents of these operations that have no later version, except those in `applied_early`. Returns their number.
pub(super) async fn add_cancelled(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    operations: std::ops::RangeInclusive<u64>,
    applied_early: &[u64],
) -> Result<u64> {
    let numbers: Vec<u64> = tx
        .all(
            "SELECT o.number FROM operations o WHERE o.collection_id = $1 AND o.number BETWEEN $2 AND $3
                 AND o.number = (SELECT d.version FROM documents d WHERE d.collection_id = $1 AND d.id = o.document_id)",
            &values![collection.0, operations.start(), operations.end()],
            |row| Ok(row.get(0)?),
        )
        .await?;
    let applied_early: HashSet<u64> = applied_early.iter().copied().collect();
    let cancelled: &str = JobDocumentState::Cancelled.into();
    let numbers = numbers.iter().filter(|number| !applied_early.contains(number));
    let rows = numbers.map(|number| values![collection.0, number, cancelled]);
    tx.run_each(
        "INSERT INTO unsearchable (collection_id, number, state) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        &rows.collect::<Vec<_>>(),
    )
    .await
}

/// Whether the document of each operation is stored and not searchable.
pub(super) async fn contains(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    operations: &[u64],
) -> Result<Vec<bool>> {
    let found = "SELECT 1 FROM unsearchable WHERE collection_id = $1 AND number = $2";
    let rows: Vec<_> = operations.iter().map(|number| values![collection.0, number]).collect();
    let found = tx.first_each(found, &rows, |_, _| Ok(())).await?;
    Ok(found.iter().map(Option::is_some).collect())
}

/// Whether the job of each operation was cancelled before its document was embedded.
pub(super) async fn are_cancelled(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    operations: &[u64],
) -> Result<Vec<bool>> {
    let cancelled: &str = JobDocumentState::Cancelled.into();
    let found = "SELECT 1 FROM unsearchable WHERE collection_id = $1 AND number = $2 AND state = $3";
    let rows: Vec<_> = operations.iter().map(|number| values![collection.0, number, cancelled]).collect();
    let found = tx.first_each(found, &rows, |_, _| Ok(())).await?;
    Ok(found.iter().map(Option::is_some).collect())
}

/// Deletes those of pruned operations, from after `pruned_to` to `to`, that are the version of no document.
pub(super) async fn prune(tx: &mut Tx<'_>, collection: CollectionId, pruned_to: u64, to: u64) -> Result<()> {
    tx.run(
        "DELETE FROM unsearchable WHERE collection_id = $1 AND number > $2 AND number <= $3 AND NOT EXISTS (
             SELECT 1 FROM operations o WHERE o.collection_id = $1 AND o.number = unsearchable.number)",
        &values![collection.0, pruned_to, to],
    )
    .await?;
    Ok(())
}

/// Deletes those of operations that are pruned.
pub(super) async fn remove(tx: &mut Tx<'_>, collection: CollectionId, operations: &[u64]) -> Result<()> {
    let rows: Vec<_> = operations.iter().map(|number| values![collection.0, number]).collect();
    tx.run_each("DELETE FROM unsearchable WHERE collection_id = $1 AND number = $2", &rows).await?;
    Ok(())
}
