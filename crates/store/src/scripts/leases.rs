//! Leases: one gateway at a time prepares the documents of a collection. Times are those of the database's clock.
//!
//! A lease is given, and every write of a worker is checked, under the lock of the collection: after a lease was given, no write of an earlier one
//! takes effect.

use super::collections;
use crate::tx::{AsValue as _, Lock, Tx, values};
use crate::{CollectionId, Error, Fence, GenerationId, Position, Result};

/// Gives `gateway` the lease of a collection, or the next one if it has it. `None` while another gateway has it, and for a collection that does not exist.
pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    gateway: &str,
    for_seconds: f64,
) -> Result<Option<Fence>> {
    tx.lock(Lock::Collection(collection)).await?;
    if !collections::exists(tx, collection).await? {
        return Ok(None);
    }
    let now = tx.clock().await?;
    let held = "SELECT 1 FROM leases WHERE collection_id = $1 AND gateway <> $2 AND ends_at > $3";
    if tx.first(held, &values![collection.0, gateway, now], |_| Ok(())).await?.is_some() {
        return Ok(None);
    }
    let number = tx
        .first(
            "INSERT INTO leases (collection_id, fence, gateway, ends_at) VALUES ($1, 1, $2, $3)
             ON CONFLICT (collection_id) DO UPDATE SET fence = leases.fence + 1, gateway = $2, ends_at = $3
             RETURNING fence",
            &values![collection.0, gateway, now + for_seconds],
            |row| Ok(row.get(0)?),
        )
        .await?;
    Ok(number.map(|number| Fence { collection, number }))
}

/// Prolongs the leases of a gateway; returns those that it has.
pub(crate) async fn renew(tx: &mut Tx<'_>, gateway: &str, for_seconds: f64) -> Result<Vec<Fence>> {
    let until = tx.clock().await? + for_seconds;
    tx.all(
        "UPDATE leases SET ends_at = $2 WHERE gateway = $1 RETURNING collection_id, fence",
        &values![gateway, until],
        |row| Ok(Fence { collection: CollectionId(row.get(0)?), number: row.get(1)? }),
    )
    .await
}

/// Ends a lease, if it is the last one.
pub(crate) async fn release(tx: &mut Tx<'_>, fence: Fence) -> Result<()> {
    tx.run(
        "UPDATE leases SET gateway = '', ends_at = 0 WHERE collection_id = $1 AND fence = $2",
        &values![fence.collection.0, fence.number],
    )
    .await?;
    Ok(())
}

/// Checks that no later lease was given. The lock of the collection is held.
pub(super) async fn check(tx: &mut Tx<'_>, fence: Option<Fence>) -> Result<()> {
    let Some(fence) = fence else { return Ok(()) };
    let last = "SELECT 1 FROM leases WHERE collection_id = $1 AND fence = $2";
    let last = tx.first(last, &values![fence.collection.0, fence.number], |_| Ok(())).await?;
    last.ok_or(Error::LeaseLost)
}

/// See [`Store::position`](crate::Store::position).
pub(crate) async fn position(
    tx: &mut Tx<'_>,
    generation: GenerationId,
    operation: u64,
) -> Result<Option<Position>> {
    let found = tx
        .first(
            "SELECT c.id, c.next_operation - 1, c.pruned_to, g.indexed, l.fence, l.ends_at, o.identity
             FROM generations g JOIN collections c ON c.id = g.collection_id
             LEFT JOIN leases l ON l.collection_id = c.id
             LEFT JOIN operations o ON o.collection_id = c.id AND o.number = $2
             WHERE g.id = $1 AND g.current = 1",
            &values![generation.0, operation],
            |row| {
                let position = Position {
                    collection: CollectionId(row.get(0)?),
                    last_operation: row.get(1)?,
                    pruned_to: row.get(2)?,
                    prepared_to: row.get(3)?,
                    fence: row.get::<Option<u64>>(4)?.unwrap_or(0),
                    lease_seconds: 0.0,
                    identity: row.get(6)?,
                };
                Ok((position, row.get::<Option<f64>>(5)?.unwrap_or(0.0)))
            },
        )
        .await?;
    let Some((position, ends_at)) = found else { return Ok(None) };
    let lease_seconds = if ends_at > 0.0 { (ends_at - tx.clock().await?).max(0.0) } else { 0.0 };
    Ok(Some(Position { lease_seconds, ..position }))
}
