//! The service that a store is of.

use crate::tx::{AsValue as _, OrDamaged as _, Tx, Undecodable, values};
use crate::{Error, Result, Service};

/// The service, which becomes `new` if there is none.
pub(crate) async fn ensure(tx: &mut Tx<'_>, new: &Service) -> Result<Service> {
    tx.run(
        "INSERT INTO service (only_row, id, cursor_key) VALUES (1, $1, $2) ON CONFLICT DO NOTHING",
        &values![new.id, new.cursor_key],
    )
    .await?;
    find(tx).await?.ok_or(Error::Conflict)
}

/// The service; `None` in a store that was never shared or copied.
pub(crate) async fn find(tx: &mut Tx<'_>) -> Result<Option<Service>> {
    tx.first("SELECT id, cursor_key FROM service", &[], |row| {
        let read =
            || -> Result<Service, Undecodable> { Ok(Service { id: row.get(0)?, cursor_key: row.get(1)? }) };
        read().or_damaged("service", || "of the store".to_owned())
    })
    .await
}
