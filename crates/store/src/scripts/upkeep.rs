//! Work on the indexes of collections beside the ingest. Several gateways may want to change the same: the revision decides.

use super::{collections, leases};
use crate::tx::{AsValue as _, Lock, Tx, values};
use crate::{CollectionId, Fence, Result, Upkeep, UpkeepKind};

pub(crate) async fn all(tx: &mut Tx<'_>, kind: UpkeepKind) -> Result<Vec<Upkeep>> {
    let all = "SELECT collection_id, revision, state FROM upkeep WHERE kind = $1 ORDER BY collection_id";
    tx.all(all, &values![<&str>::from(kind)], |row| {
        Ok(Upkeep { collection: CollectionId(row.get(0)?), revision: row.get(1)?, state: row.get(2)? })
    })
    .await
}

/// See [`Store::replace_upkeep`](crate::Store::replace_upkeep).
pub(crate) async fn replace(
    tx: &mut Tx<'_>,
    fence: Option<Fence>,
    (id, kind): (CollectionId, UpkeepKind),
    revision: u64,
    state: &str,
) -> Result<Option<u64>> {
    tx.lock(Lock::Collection(id)).await?;
    leases::check(tx, fence).await?;
    let kind: &str = kind.into();
    let current = "SELECT revision FROM upkeep WHERE collection_id = $1 AND kind = $2";
    let current: Option<u64> = tx.first(current, &values![id.0, kind], |row| Ok(row.get(0)?)).await?;
    if current.unwrap_or(0) != revision || !collections::exists(tx, id).await? {
        return Ok(None);
    }
    let next = revision + 1;
    tx.run(
        "INSERT INTO upkeep (collection_id, kind, revision, state) VALUES ($1, $2, $3, $4)
         ON CONFLICT (collection_id, kind) DO UPDATE SET revision = $3, state = $4",
        &values![id.0, kind, next, state],
    )
    .await?;
    Ok(Some(next))
}
