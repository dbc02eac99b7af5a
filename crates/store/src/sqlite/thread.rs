//! A database connection on its own thread, and the group commit.
//!
//! Waiting for the disk is what a small write costs. So the requests that wait in the queue while a commit is under
//! way are run together in the next transaction, each in a savepoint of its own: a request that fails takes back only
//! itself. Nobody is answered before the commit has returned.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Result};

/// Requests that may wait for one thread; the next caller waits outside.
const QUEUE_MAX: usize = 64;

/// What a thread's connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// One snapshot per request: a snapshot shared by several would miss what was acknowledged since the first.
    Read,
    /// Up to a queue's length of requests in one commit.
    Write,
}

impl Mode {
    fn begin(self) -> &'static str {
        match self {
            Mode::Read => "BEGIN DEFERRED",
            Mode::Write => "BEGIN IMMEDIATE",
        }
    }

    fn group_max(self) -> usize {
        match self {
            Mode::Read => 1,
            Mode::Write => QUEUE_MAX,
        }
    }
}

/// A thread that owns a connection and serves requests in order, until it is closed or dropped.
#[derive(Debug)]
pub(super) struct DatabaseThread {
    requests: Mutex<Option<mpsc::Sender<Box<dyn Request>>>>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    /// Resolves when the connection is closed and the lock given back.
    ended: oneshot::Receiver<()>,
}

impl DatabaseThread {
    /// Starts the thread. It keeps `lock` until after its connection is closed.
    pub(super) fn start(name: &str, mode: Mode, connection: Connection, lock: Option<File>) -> Result<Self> {
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let (end, ended) = oneshot::channel();
        let body = move || {
            serve(&connection, queue, mode);
            drop(connection);
            drop(lock);
            // Nobody waits when the store is dropped rather than closed.
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

    /// Runs `work` on the thread, inside a transaction, and returns what it returned once that is committed.
    pub(super) async fn call<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let requests = lock(&self.requests).clone().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let call = Call { work: Some(work), result: Err(Error::Closed), reply };
        requests.send(Box::new(call)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Serves what waits, then ends the thread.
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
    /// Waits for the thread, so that the folder can be opened again when the last clone is gone.
    fn drop(&mut self) {
        drop(lock(&self.requests).take());
        if let Some(running) = lock(&self.running).take() {
            let _ = running.thread.join();
        }
    }
}

/// Locks; what these mutexes hold is whole at every instant, so a panic elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One waiting request, whatever it returns.
trait Request: Send {
    /// Does the work; what it did must be taken back when it failed.
    fn run(&mut self, connection: &Connection) -> Result<()>;
    /// Tells the caller, with the outcome of the commit.
    fn answer(self: Box<Self>, commit: &Result<()>);
}

struct Call<T, F> {
    work: Option<F>,
    result: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnOnce(&Connection) -> Result<T> + Send> Request for Call<T, F> {
    fn run(&mut self, connection: &Connection) -> Result<()> {
        if let Some(work) = self.work.take() {
            self.result = work(connection);
        }
        self.result.as_ref().map(drop).map_err(Error::clone)
    }

    fn answer(self: Box<Self>, commit: &Result<()>) {
        // A caller who has gone needs no answer.
        let _ = self.reply.send(match commit {
            Ok(()) => self.result,
            Err(error) => Err(error.clone()),
        });
    }
}

fn serve(connection: &Connection, mut queue: mpsc::Receiver<Box<dyn Request>>, mode: Mode) {
    while let Some(first) = queue.blocking_recv() {
        let mut group = vec![first];
        let commit = run_group(connection, &mut group, &mut queue, mode);
        for request in group {
            request.answer(&commit);
        }
    }
}

/// Runs the first request of `group` and those that wait behind it in one transaction, and commits it.
fn run_group(
    connection: &Connection,
    group: &mut Vec<Box<dyn Request>>,
    queue: &mut mpsc::Receiver<Box<dyn Request>>,
    mode: Mode,
) -> Result<()> {
    connection.execute_batch(mode.begin())?;
    let done = run_requests(connection, group, queue, mode)
        .and_then(|()| connection.execute_batch("COMMIT").map_err(Error::from));
    if done.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    done
}

fn run_requests(
    connection: &Connection,
    group: &mut Vec<Box<dyn Request>>,
    queue: &mut mpsc::Receiver<Box<dyn Request>>,
    mode: Mode,
) -> Result<()> {
    let mut next = 0;
    while let Some(request) = group.get_mut(next) {
        run_in_savepoint(connection, request.as_mut())?;
        next += 1;
        if next < mode.group_max()
            && let Ok(waiting) = queue.try_recv()
        {
            group.push(waiting);
        }
    }
    Ok(())
}

/// A full disk can make SQLite take back the whole transaction by itself: then the group has failed.
fn run_in_savepoint(connection: &Connection, request: &mut dyn Request) -> Result<()> {
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
