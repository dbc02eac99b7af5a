//! A transaction of a database, by which the rules of the store ([`crate::scripts`]) read and write.
//!
//! SQL is the subset that all databases have: parameters `$1`, `$2`, … (with `CAST` where nothing else gives their type), `ON CONFLICT`,
//! `RETURNING`, `IS NOT DISTINCT FROM`, `CASE` for the lesser of two. What differs is a method here.

use std::any::Any;
use std::ops::ControlFlow;
use std::pin::Pin;

use rusqlite::Connection;
use weir_policy::KeyId;

#[cfg(test)]
use crate::double::DoubleTx;
use crate::postgres::{self, PostgresTx};
use crate::sqlite::statements;
use crate::value::Cell;
pub(crate) use crate::value::{AsValue, FromCell, OrDamaged, Undecodable, Value, damaged, values};
use crate::{CollectionId, Error, GenerationId, Result};

/// An open transaction. Its statements see its own changes.
pub(crate) enum Tx<'a> {
    /// Every call completes at once.
    Sqlite(&'a mut Connection),
    /// Calls wait for the server.
    Postgres(PostgresTx<'a>),
    #[cfg(test)]
    Double(DoubleTx<'a>),
}

/// A running script: a rule over a transaction.
pub(crate) type Script<'t, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 't>>;

/// The result of a script, of any type.
pub(crate) type AnyResult = Box<dyn Any + Send>;

/// A function of a transaction that runs a script with a result of any type: what calls it is compiled once and not for each script.
pub(crate) type AnyScript = Box<dyn for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, AnyResult> + Send>;

/// A function of a transaction that runs a script.
macro_rules! script {
    ($tx:ident => $script:expr) => {
        move |$tx| Box::pin(async move { $script.await })
    };
}
pub(crate) use script;

/// Rows that other transactions must not change until the end of this one. Locks are taken in the order of the variants, those of one variant in
/// the order of their ids, so that no two transactions wait for each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lock {
    /// A collection with everything in it.
    Collection(CollectionId),
    /// The collection of a generation.
    CollectionOf(GenerationId),
    /// The webhooks and idempotency keys of a caller, by its API key.
    Caller(Option<KeyId>),
    /// The embeddings of a model, by the id of its fingerprint: all collections share them.
    Embeddings(i64),
    /// The API keys and their numbers.
    Keys,
    /// The numbers of the audit log.
    Audit,
    /// Leases from the budgets of a key.
    Budgets(KeyId),
    /// The bytes of all kept files together.
    KeptFiles,
}

/// A row of a result.
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl Row<'_> {
    /// Reads a column, counted from 0.
    pub(crate) fn get<T: FromCell>(&self, column: usize) -> Result<T, Undecodable> {
        T::from_cell(self.cell(column)).ok_or(Undecodable)
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        match self {
            Row::Sqlite(row) => statements::cell(row, column),
            Row::Postgres(row) => postgres::cell(row, column),
        }
    }
}

impl Tx<'_> {
    /// Changes rows; returns their number.
    pub(crate) async fn run(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64> {
        match self {
            Tx::Sqlite(connection) => statements::run(connection, sql, values),
            Tx::Postgres(tx) => tx.run(sql, values).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::run(tx.call(sql).await?, sql, values),
        }
    }

    /// Runs a statement once for each row of values; returns the number of changed rows.
    pub(crate) async fn run_each<const N: usize>(
        &mut self,
        sql: &'static str,
        rows: &[[Value<'_>; N]],
    ) -> Result<u64> {
        match self {
            Tx::Sqlite(connection) => statements::run_each(connection, sql, rows),
            Tx::Postgres(tx) => tx.run_each(sql, rows).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::run_each(tx.call(sql).await?, sql, rows),
        }
    }

    /// The first row of a result, as `read` reads it.
    pub(crate) async fn first<T: Send>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Option<T>> {
        match self {
            Tx::Sqlite(connection) => statements::first(connection, sql, values, read),
            Tx::Postgres(tx) => tx.first(sql, values, read).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::first(tx.call(sql).await?, sql, values, read),
        }
    }

    /// The first row of the result for each row of values, in their order; `read` is given the place in it.
    pub(crate) async fn first_each<T: Send, const N: usize>(
        &mut self,
        sql: &'static str,
        rows: &[[Value<'_>; N]],
        read: impl FnMut(usize, &Row<'_>) -> Result<T> + Send,
    ) -> Result<Vec<Option<T>>> {
        match self {
            Tx::Sqlite(connection) => statements::first_each(connection, sql, rows, read),
            Tx::Postgres(tx) => tx.first_each(sql, rows, read).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::first_each(tx.call(sql).await?, sql, rows, read),
        }
    }

    /// Every row of a result, as `read` reads it.
    pub(crate) async fn all<T: Send>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let mut found = Vec::new();
        let visit = |row: &Row<'_>| -> Result<ControlFlow<()>> {
            found.push(read(row)?);
            Ok(ControlFlow::Continue(()))
        };
        self.scan(sql, values, visit).await?;
        Ok(found)
    }

    /// Every row of the result for each row of values, as `read` reads it; `read` is given the place of the values.
    pub(crate) async fn all_each<T: Send, const N: usize>(
        &mut self,
        sql: &'static str,
        rows: &[[Value<'_>; N]],
        read: impl FnMut(usize, &Row<'_>) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        match self {
            Tx::Sqlite(connection) => statements::all_each(connection, sql, rows, read),
            Tx::Postgres(tx) => tx.all_each(sql, rows, read).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::all_each(tx.call(sql).await?, sql, rows, read),
        }
    }

    /// Gives the rows of a result to `visit`, one at a time, until it breaks off. For results that may be too large for the memory.
    pub(crate) async fn scan(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        visit: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>> + Send,
    ) -> Result<()> {
        match self {
            Tx::Sqlite(connection) => statements::scan(connection, sql, values, visit),
            Tx::Postgres(tx) => tx.scan(sql, values, visit).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::scan(tx.call(sql).await?, sql, values, visit),
        }
    }

    /// Waits until no other transaction holds the lock, and holds it until the end of this one.
    pub(crate) async fn lock(&mut self, lock: Lock) -> Result<()> {
        match self {
            // it has one writing transaction at a time
            Tx::Sqlite(_) => Ok(()),
            Tx::Postgres(tx) => tx.lock(lock).await,
            #[cfg(test)]
            Tx::Double(tx) => {
                tx.lock(lock);
                Ok(())
            }
        }
    }

    /// The time by the database's clock, in unix seconds.
    pub(crate) async fn clock(&mut self) -> Result<f64> {
        match self {
            Tx::Sqlite(connection) => statements::clock(connection),
            Tx::Postgres(tx) => tx.clock().await,
            #[cfg(test)]
            Tx::Double(tx) => statements::clock(tx.call("").await?),
        }
    }

    /// The highest id that a collection has had; 0 before the first.
    pub(crate) async fn last_collection_id(&mut self) -> Result<CollectionId> {
        match self {
            Tx::Sqlite(connection) => statements::last_collection_id(connection),
            Tx::Postgres(tx) => tx.last_collection_id().await,
            #[cfg(test)]
            Tx::Double(tx) => statements::last_collection_id(tx.call("").await?),
        }
    }

    /// The last number that an identity column gave; 0 before the first.
    pub(crate) async fn last_identity(&mut self, table: &str, column: &str) -> Result<i64> {
        match self {
            Tx::Sqlite(connection) => statements::last_identity(connection, table, column),
            Tx::Postgres(tx) => tx.last_identity(table, column).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::last_identity(tx.call("").await?, table, column),
        }
    }

    /// Sets it, so that no lower one is given.
    pub(crate) async fn set_last_identity(&mut self, table: &str, column: &str, last: i64) -> Result<()> {
        match self {
            Tx::Sqlite(connection) => statements::set_last_identity(connection, table, last),
            Tx::Postgres(tx) => tx.set_last_identity(table, column, last).await,
            #[cfg(test)]
            Tx::Double(tx) => statements::set_last_identity(tx.call("").await?, table, last),
        }
    }

    /// Problems that the database finds in its own structure.
    pub(crate) async fn structural_problems(&mut self) -> Result<Vec<Error>> {
        match self {
            Tx::Sqlite(connection) => statements::integrity_check(connection),
            Tx::Postgres(tx) => tx.structural_problems().await,
            #[cfg(test)]
            Tx::Double(tx) => statements::integrity_check(tx.call("").await?),
        }
    }
}
