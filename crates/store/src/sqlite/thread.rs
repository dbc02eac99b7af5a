//! A database connection on its own thread, and group commit.
//!
//! The cost of a small write is the sync of its commit. Requests that are queued while a commit is running are therefore run together in
//! the next transaction, each in its own savepoint, so that a failed request is rolled back alone. Requests are answered after the
//! commit has returned.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Result};

/// Capacity of a thread's request queue. Callers beyond it wait until the queue has space.
const QUEUE_MAX: usize = 64;

/// The transactions of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionKind {
    /// One snapshot per request. A shared snapshot would miss writes that were acknowledged after its first request.
    Read,
    /// Up to [`QUEUE_MAX`] requests in one commit.
    Write,
}

impl TransactionKind {
    fn begin(self) -> &'static str {
        match self {
            TransactionKind::Read => "BEGIN DEFERRED",
            TransactionKind::Write => "BEGIN IMMEDIATE",
        }
    }

    fn group_max(self) -> usize {
        match self {
            TransactionKind::Read => 1,
            TransactionKind::Write => QUEUE_MAX,
        }
    }
}

/// A thread that owns a connection and runs requests in order, until it is closed or dropped.
#[derive(Debug)]
pub(super) struct DatabaseThread {
    requests: Mutex<Option<mpsc::Sender<Box<dyn Request>>>>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    /// Resolves when the connection is closed and the lock released.
    ended: oneshot::Receiver<()>,
}

impl DatabaseThread {
    /// Starts the thread. Each transaction is committed, and its requests are answered, only if `check` succeeds. It releases `lock` after its connection is closed.
    pub(super) fn start(
        name: &str,
        kind: TransactionKind,
        mut connection: Connection,
        check: impl Fn() -> Result<()> + Send + 'static,
        lock: Option<File>,
    ) -> Result<Self> {
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let (end, ended) = oneshot::channel();
        let body = move || {
            serve(&mut connection, queue, kind, &check);
            drop(connection);
            drop(lock);
            // The receiver is gone if the store was dropped without being closed.
            let _ = end.send(());
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map_err(|source| Error::from_io(&PathBuf::from(name), source))?;
        Ok(DatabaseThread {
            requests: Mutex::new(Some(requests)),
            running: Mutex::new(Some(Running { thread, ended })),
        })
    }

    /// Runs `work` on the thread, inside a transaction, and returns its result after the commit.
    pub(super) async fn call<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    {
        let requests = lock(&self.requests).clone().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let call = StoreCall { work: Some(work), result: Err(Error::Closed), reply };
        requests.send(Box::new(call)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Runs the queued requests, then ends the thread.
    pub(super) async fn close(&self) {
        drop(lock(&self.requests).take());
        let running = lock(&self.running).take();
        if let Some(Running { thread, ended }) = running {
            let _ = ended.await;
            let _ = thread.join();
        }
    }
}

impl Drop for DatabaseThread {
    /// Waits for the thread, so that the folder can be opened again after the last clone is dropped.
    fn drop(&mut self) {
        drop(lock(&self.requests).take());
        if let Some(running) = lock(&self.running).take() {
            let _ = running.thread.join();
        }
    }
}

/// Locks and ignores poisoning: the values behind these mutexes are replaced in one step, so they are valid after a panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queued request of any result type.
trait Request: Send {
    /// Runs the request. If it fails, the caller rolls its changes back.
    fn run(&mut self, connection: &mut Connection) -> Result<()>;
    /// Sends the result to the caller, or the error of the commit.
    fn answer(self: Box<Self>, commit: &Result<()>);
}

struct StoreCall<T, F> {
    work: Option<F>,
    result: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnOnce(&mut Connection) -> Result<T> + Send> Request for StoreCall<T, F> {
    fn run(&mut self, connection: &mut Connection) -> Result<()> {
        if let Some(work) = self.work.take() {
            self.result = work(connection);
        }
        self.result.as_ref().map(drop).map_err(Error::clone)
    }

    fn answer(self: Box<Self>, commit: &Result<()>) {
        // The receiver is gone if the caller's future was dropped.
        let _ = self.reply.send(match commit {
            Ok(()) => self.result,
            Err(error) => Err(error.clone()),
        });
    }
}

type Check<'a> = &'a dyn Fn() -> Result<()>;

fn serve(
    connection: &mut Connection,
    mut queue: mpsc::Receiver<Box<dyn Request>>,
    kind: TransactionKind,
    check: Check<'_>,
) {
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        let commit = run_group(connection, &mut group, &mut queue, kind, check);
        for request in group {
            request.answer(&commit);
        }
    }
}

/// Runs the first request of `group` and the requests queued after it in one transaction, and commits it.
fn run_group(
    connection: &mut Connection,
    group: &mut Vec<Box<dyn Request>>,
    queue: &mut mpsc::Receiver<Box<dyn Request>>,
    kind: TransactionKind,
    check: Check<'_>,
) -> Result<()> {
    connection.execute_batch(kind.begin())?;
    let done = run_requests(connection, group, queue, kind)
        .and_then(|()| check())
        .and_then(|()| connection.execute_batch("COMMIT").map_err(Error::from))
        .and_then(|()| check());
    if done.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    done
}

fn run_requests(
    connection: &mut Connection,
    group: &mut Vec<Box<dyn Request>>,
    queue: &mut mpsc::Receiver<Box<dyn Request>>,
    kind: TransactionKind,
) -> Result<()> {
    let mut next = 0;
    while let Some(request) = group.get_mut(next) {
        run_in_savepoint(connection, request.as_mut())?;
        next += 1;
        if next < kind.group_max()
            && let Ok(queued) = queue.try_recv()
        {
            group.push(queued);
        }
    }
    Ok(())
}

/// Rolls a failed request back alone. When SQLite has rolled back the whole transaction by itself, as it can on a full disk, the group
/// fails.
fn run_in_savepoint(connection: &mut Connection, request: &mut dyn Request) -> Result<()> {
    connection.execute_batch("SAVEPOINT request")?;
    if let Err(error) = request.run(connection) {
        if connection.is_autocommit() {
            return Err(error);
        }
        connection.execute_batch("ROLLBACK TO request")?;
    }
    connection.execute_batch("RELEASE request")?;
    Ok(())
}
