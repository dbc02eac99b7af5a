//! A database in memory for tests: each of its calls waits, may fail on command, and checks that the script holds the locks that its changes need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::database::Database;
use crate::sqlite::migrate;
use crate::tx::{AnyResult, AnyScript, Lock, Tx};
use crate::{Error, Result, Store};

mod tests;

/// The database that outlives an open store.
#[derive(Debug, Clone)]
pub(crate) struct Memory(Arc<tokio::sync::Mutex<Connection>>);

/// A failure on command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Unavailable,
    Conflict,
    Full,
}

/// Faults injected into the calls of scripts.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// How long each call takes beyond a turn of the runtime.
    pub(crate) delay: Duration,
    /// So many calls succeed, then one fails.
    pub(crate) fails_after: Option<(usize, Fault)>,
}

/// An open store in memory.
#[derive(Debug, Clone)]
pub(crate) struct Double {
    memory: Memory,
    pub(crate) faults: Arc<Mutex<Faults>>,
    is_closed: Arc<AtomicBool>,
}

/// A transaction of it.
pub(crate) struct DoubleTx<'a> {
    connection: &'a mut Connection,
    faults: &'a Mutex<Faults>,
    held: Vec<Lock>,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        Memory(Arc::new(tokio::sync::Mutex::new(connection)))
    }
}

impl Double {
    pub(crate) fn open(memory: &Memory) -> Double {
        Double { memory: memory.clone(), faults: Arc::default(), is_closed: Arc::default() }
    }

    pub(crate) fn store(&self) -> Store {
        Store::of(Database::Double(self.clone()))
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Runs a script in a transaction, which is committed if it succeeds.
    pub(crate) async fn run(&self, script: AnyScript) -> Result<AnyResult> {
        let mut connection = self.memory.0.lock().await;
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let tx = DoubleTx { connection: &mut connection, faults: &self.faults, held: Vec::new() };
        let done = script(&mut Tx::Double(tx)).await;
        connection.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        done
    }
}

impl DoubleTx<'_> {
    /// Before each call.
    pub(crate) async fn call(&mut self, sql: &str) -> Result<&mut Connection> {
        self.check_locks(sql);
        let delay = self.faults().delay;
        tokio::task::yield_now().await;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let fails_after = self.faults().fails_after;
        self.faults().fails_after = fails_after.map(|(left, fault)| (left.saturating_sub(1), fault));
        match fails_after {
            Some((0, Fault::Unavailable)) => {
                Err(Error::Unavailable { retry_after: Duration::from_secs(1), reason: "a fault".to_owned() })
            }
            Some((0, Fault::Conflict)) => Err(Error::Conflict),
            Some((0, Fault::Full)) => Err(Error::Full),
            Some(_) | None => Ok(self.connection),
        }
    }

    pub(crate) fn lock(&mut self, lock: Lock) {
        let rank = |lock: &Lock| match lock {
            Lock::Collection(_) | Lock::CollectionOf(_) => 0,
            Lock::Caller(_) => 1,
            Lock::Embeddings(_) => 2,
            Lock::Keys => 3,
            Lock::Audit => 4,
            Lock::Budgets(_) => 5,
            Lock::KeptFiles => 6,
        };
        let highest = self.held.iter().map(rank).max().unwrap_or(0);
        assert!(rank(&lock) >= highest, "{lock:?} after {:?}", self.held);
        self.held.push(lock);
    }

    /// Changes of a table need its lock: another database has several writing transactions at a time.
    fn check_locks(&self, sql: &str) {
        let mut words = sql.split_whitespace();
        let table = match words.next() {
            Some("UPDATE") => words.next(),
            Some("INSERT" | "DELETE") => words.nth(1),
            _ => return,
        };
        let held = |lock: fn(&Lock) -> bool| self.held.iter().any(lock);
        let is_held = match table.unwrap_or_default() {
            // new ones, counters that each statement changes at once
            "collections" if sql.starts_with("INSERT") => true,
            "fingerprints" | "spending" | "service" => true,
            // each gateway changes its own rows, and everybody those that have ended
            "ledger_writes" => true,
            "budget_leases" if !sql.starts_with("INSERT") => true,
            "budget_leases" => held(|lock| matches!(lock, Lock::Budgets(_))),
            // each part is written once, and a statement decides which files are removed
            "kept_parts" => true,
            "kept_files" if !sql.starts_with("INSERT") => true,
            "kept_files" => held(|lock| matches!(lock, Lock::KeptFiles)),
            "leases" if sql.starts_with("UPDATE") => true,
            "webhooks" | "idempotency_keys" if !sql.starts_with("INSERT") => true,
            "webhooks" | "idempotency_keys" => held(|lock| matches!(lock, Lock::Caller(_))),
            "api_keys" => held(|lock| matches!(lock, Lock::Keys)),
            "audit" => held(|lock| matches!(lock, Lock::Audit)),
            "embeddings" => held(|lock| matches!(lock, Lock::Embeddings(_))),
            _ => held(|lock| matches!(lock, Lock::Collection(_) | Lock::CollectionOf(_))),
        };
        assert!(is_held, "{sql}\nneeds a lock beside {:?}", self.held);
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
