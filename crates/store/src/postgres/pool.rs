//! A small pool of connections.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, IsolationLevel};
use weir_postgres::Address;

use super::error::{from_connecting, no_answer};
use super::tx::Statements;
use super::{Kind, PostgresTx};
use crate::{Error, Result};

/// Connections of one gateway.
const CONNECTIONS_MAX: u32 = 8;

/// How long a call waits for a connection that others use.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long connecting takes at most, with TLS and authentication.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of every connection. A transaction whose gateway has gone ends, and with it its locks. Plans of prepared statements are kept: one
/// that was made while a table was empty would read all of it, until it is analysed, while it grows.
const SETTINGS: &str = "
    SET search_path TO weir;
    SET client_min_messages TO warning;
    SET statement_timeout TO '60s';
    SET lock_timeout TO '20s';
    SET idle_in_transaction_session_timeout TO '60s';
    SET default_transaction_isolation TO 'read committed';
    SET enable_seqscan TO off;
    SET jit TO off;";

/// Connections to one database, opened when they are needed.
pub(super) struct Pool {
    address: Address,
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
}

/// A connection with the statements that were prepared on it.
struct Session {
    client: Client,
    statements: Statements,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A connection in use. Dropped without [`PooledSession::release`], it is closed.
pub(super) struct PooledSession<'a> {
    pool: &'a Pool,
    session: Session,
    _permit: SemaphorePermit<'a>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("free", &self.permits.available_permits()).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(address: Address) -> Pool {
        Pool { address, permits: Semaphore::new(CONNECTIONS_MAX as usize), idle: Mutex::default() }
    }

    /// A connection that nobody else uses: one that is open, or a new one.
    pub(super) async fn session(&self) -> Result<PooledSession<'_>> {
        let permit = timeout(QUEUE_TIMEOUT, self.permits.acquire()).await;
        let permit =
            permit.map_err(|_| no_answer("all connections are in use"))?.map_err(|_| Error::Closed)?;
        let session = match self.open_one() {
            Some(session) => session,
            None => Session::connect(&self.address).await?,
        };
        Ok(PooledSession { pool: self, session, _permit: permit })
    }

    fn open_one(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.client.is_closed());
        idle.pop()
    }

    /// Waits for the calls that were made before, and refuses later ones.
    pub(super) async fn close(&self) {
        let all = self.permits.acquire_many(CONNECTIONS_MAX).await;
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        drop(all);
    }
}

impl Session {
    async fn connect(address: &Address) -> Result<Session> {
        let connect = async {
            let (client, connection) = address.connect().await?;
            // it ends with the client, whose calls report its errors
            let driver = tokio::spawn(async move { drop(connection.await) });
            let session = Session { client, statements: Statements::default(), driver };
            session.client.batch_execute(SETTINGS).await?;
            Ok(session)
        };
        match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(connected) => connected.map_err(|error| from_connecting(&error)),
            Err(_) => Err(no_answer("it accepted no connection in time")),
        }
    }
}

impl PooledSession<'_> {
    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.session.client
    }

    pub(super) async fn begin(&mut self, kind: Kind) -> Result<PostgresTx<'_>> {
        let Session { client, statements, .. } = &mut self.session;
        let transaction = match kind {
            Kind::Read => {
                client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true)
            }
            Kind::Write => client.build_transaction(),
        };
        Ok(PostgresTx::new(transaction.start().await?, statements))
    }

    /// Gives the connection back, for other calls.
    pub(super) fn release(self) {
        let PooledSession { pool, session, _permit } = self;
        if !pool.permits.is_closed() {
            pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}
