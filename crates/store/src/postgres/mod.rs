//! The store in PostgreSQL, version 15 or newer, without extensions.
//!
//! Transactions that write are `READ COMMITTED` and take the locks of [`Lock`](crate::tx::Lock); those that read are `REPEATABLE READ`, one
//! snapshot each. Every call has a transaction of its own on a connection of a small pool. It runs as a task, so that a caller that goes away leaves
//! no connection in the middle of a transaction.

mod answering;
mod error;
mod listen;
mod pool;
mod schema;
mod text;
mod tx;
mod values;

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;
use weir_postgres::Address;

use crate::change::{Announcer, Change};
use crate::tx::{AnyResult, AnyScript, Tx};
use crate::{Error, Result};
use answering::Answering;
use pool::{Pool, PooledSession};
pub(crate) use tx::PostgresTx;
pub(crate) use values::cell;

/// An open PostgreSQL store.
#[derive(Debug, Clone)]
pub(crate) struct Postgres {
    pool: Arc<Pool>,
    /// Why the last call could not reach the database; `None` after one that could.
    failure: Arc<Mutex<Option<Error>>>,
    answering: Answering,
    listener: Arc<Listener>,
    /// The lock of the gateway's data directory.
    lock: Arc<Mutex<Option<File>>>,
}

/// The task that receives the changes of all gateways, until it is dropped.
#[derive(Debug)]
struct Listener(JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The kind of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

impl Postgres {
    /// Connects, checks that the server can be used and migrates the schema. From then on `announcer` receives changes.
    /// `lock` is held until it is closed.
    pub(crate) async fn open(
        address: &Address,
        announcer: Announcer,
        lock: Option<File>,
    ) -> Result<Postgres> {
        let pool = Pool::new(address.clone());
        let mut session = pool.session().await?;
        schema::migrate(session.client()).await?;
        session.release();
        let answering = Answering::new();
        let listener = listen::listen(address.clone(), announcer, answering.clone());
        let (pool, listener) = (Arc::new(pool), Arc::new(Listener(tokio::spawn(listener))));
        let lock = Arc::new(Mutex::new(lock));
        Ok(Postgres { pool, failure: Arc::default(), answering, listener, lock })
    }

    /// Whether the database has a store.
    pub(crate) async fn exists(address: &Address) -> Result<bool> {
        let pool = Pool::new(address.clone());
        let mut session = pool.session().await?;
        Ok(schema::format(session.client()).await?.is_some())
    }

    pub(crate) async fn read(&self, script: AnyScript) -> Result<AnyResult> {
        self.run(Kind::Read, None, script).await
    }

    pub(crate) async fn write(&self, script: AnyScript) -> Result<AnyResult> {
        self.run(Kind::Write, None, script).await
    }

    /// The same; with the commit, the change is announced to all gateways.
    pub(crate) async fn write_and_tell(&self, change: Change, script: AnyScript) -> Result<AnyResult> {
        self.run(Kind::Write, Some(change), script).await
    }

    async fn run(&self, kind: Kind, told: Option<Change>, script: AnyScript) -> Result<AnyResult> {
        let postgres = self.clone();
        let task = tokio::spawn(async move {
            let done = postgres.answering.run(postgres.transact(kind, told, script)).await;
            postgres.note(&done);
            done
        });
        task.await.unwrap_or(Err(Error::Closed))
    }

    async fn transact(&self, kind: Kind, told: Option<Change>, script: AnyScript) -> Result<AnyResult> {
        let mut session = self.pool.session().await?;
        let done = transact_in(&mut session, kind, told, script).await;
        // a connection that failed or hangs is closed
        if !matches!(done, Err(Error::Unavailable { .. })) {
            session.release();
        }
        done
    }

    fn note(&self, done: &Result<AnyResult>) {
        let failure = match done {
            Err(error @ Error::Unavailable { .. }) => Some(error.clone()),
            Ok(_) | Err(_) => None,
        };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Whether the last call reached the database.
    pub(crate) fn check(&self) -> Result<()> {
        self.answering.check()?;
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(Ok(()), Err)
    }

    pub(crate) async fn close(self) {
        self.pool.close().await;
        self.listener.0.abort();
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Runs a script in a transaction of a connection, and commits it.
async fn transact_in(
    session: &mut PooledSession<'_>,
    kind: Kind,
    told: Option<Change>,
    script: AnyScript,
) -> Result<AnyResult> {
    let mut tx = Tx::Postgres(session.begin(kind).await?);
    let done = script(&mut tx).await;
    let Tx::Postgres(tx) = tx else { return Err(Error::Closed) };
    match done {
        Ok(found) => tx.commit(told).await.map(|()| found),
        // it is rolled back with its connection
        Err(error @ Error::Unavailable { .. }) => Err(error),
        Err(error) => tx.rollback().await.and(Err(error)),
    }
}
