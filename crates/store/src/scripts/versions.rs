//! Documents as an index should have them: those that are searchable, with the number of their chunks. No content is read, and no checksum.

use super::generations;
use crate::access::Access;
use crate::tx::{AsValue as _, Row, Tx, values};
use crate::{PreparedVersion, Result};

fn read(row: &Row<'_>) -> Result<PreparedVersion> {
    Ok(PreparedVersion { id: row.get(0)?, version: row.get(1)?, chunks: row.get(2)? })
}

/// See [`StoreView::versions_after`](crate::StoreView::versions_after).
pub(crate) async fn after(
    tx: &mut Tx<'_>,
    access: &Access,
    after: &str,
    limit: usize,
) -> Result<Vec<PreparedVersion>> {
    let collection = access.collection;
    let generation = generations::current_id(tx, collection).await?.filter(|_| !access.is_filtered());
    let Some((generation, _)) = generation else { return Ok(Vec::new()) };
    tx.all(
        "SELECT d.id, d.version, (SELECT COUNT(*) FROM chunks c
             WHERE c.generation_id = $2 AND c.document = d.key AND c.version = d.version)
         FROM documents d
         WHERE d.collection_id = $1 AND d.id > $3 AND NOT EXISTS (
             SELECT 1 FROM unsearchable u WHERE u.collection_id = $1 AND u.number = d.version)
         ORDER BY d.id LIMIT $4",
        &values![collection.0, generation.0, after, limit],
        read,
    )
    .await
}

/// See [`StoreView::versions`](crate::StoreView::versions).
pub(crate) async fn of(
    tx: &mut Tx<'_>,
    access: &Access,
    ids: &[String],
) -> Result<Vec<Option<PreparedVersion>>> {
    let collection = access.collection;
    let generation = generations::current_id(tx, collection).await?.filter(|_| !access.is_filtered());
    let Some((generation, _)) = generation else { return Ok(vec![None; ids.len()]) };
    let rows: Vec<_> = ids.iter().map(|id| values![collection.0, generation.0, id]).collect();
    tx.first_each(
        "SELECT d.id, d.version, (SELECT COUNT(*) FROM chunks c
             WHERE c.generation_id = $2 AND c.document = d.key AND c.version = d.version)
         FROM documents d
         WHERE d.collection_id = $1 AND d.id = $3 AND NOT EXISTS (
             SELECT 1 FROM unsearchable u WHERE u.collection_id = $1 AND u.number = d.version)",
        &rows,
        |_, row| read(row),
    )
    .await
}
