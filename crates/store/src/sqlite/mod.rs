//! The store in one SQLite file.
//!
//! Two connections, each on its own thread: the writer combines waiting requests into one commit ([`thread`]); the reader is separate,
//! so that a long write does not block reads.

mod error;
mod open;
mod schema;
pub(crate) mod statements;
#[cfg(test)]
mod tests;
mod thread;
mod watch;

use std::fs::File;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rusqlite::Connection;
#[cfg(test)]
pub(crate) use schema::migrate;

use crate::scripts::{originals, service, verify};
use crate::service::check_is_own;
use crate::tx::{AnyResult, AnyScript, Script, Tx};
use crate::{Error, Result, Service, VerifyReport};
use thread::{DatabaseThread, TransactionKind};
use watch::FileWatch;

/// An open SQLite store.
#[derive(Debug, Clone)]
pub(crate) struct Sqlite {
    threads: Arc<Threads>,
    folder: Arc<Path>,
}

/// The reader is declared first, so that it is dropped first: the writer then closes the last connection, which writes the write-ahead
/// log back into the database file, and releases the lock of the folder.
#[derive(Debug)]
struct Threads {
    reader: DatabaseThread,
    writer: DatabaseThread,
    watch: Arc<FileWatch>,
}

impl Sqlite {
    pub(crate) fn exists(folder: &Path) -> bool {
        folder.join(open::DATABASE_FILE).exists()
    }

    /// Locks a data directory, which is created if it is missing, until the file is dropped.
    pub(crate) fn lock(folder: &Path) -> Result<File> {
        open::lock(folder)
    }

    /// The service of the store in `folder`, if it is known.
    pub(crate) fn service_of_folder(folder: &Path) -> Result<Option<Service>> {
        run(&mut open::writer(folder)?, |tx| Box::pin(service::find(tx)))
    }

    pub(crate) fn open(folder: &Path) -> Result<Sqlite> {
        let lock = open::lock(folder)?;
        check_is_own(folder)?;
        let writer = open::writer(folder)?;
        let reader = open::reader(folder)?;
        let watch = Arc::new(FileWatch::new(folder));
        let is_sound = |watch: &Arc<FileWatch>| {
            let watch = watch.clone();
            move || watch.check()
        };
        let threads = Threads {
            writer: DatabaseThread::start(
                "store-write",
                TransactionKind::Write,
                writer,
                is_sound(&watch),
                Some(lock),
            )?,
            reader: DatabaseThread::start("store-read", TransactionKind::Read, reader, || Ok(()), None)?,
            watch,
        };
        Ok(Sqlite { threads: Arc::new(threads), folder: folder.into() })
    }

    /// See [`Store::erase_deleted`](crate::Store::erase_deleted).
    pub(crate) async fn empty_log(&self) -> Result<bool> {
        // a removed store is not made again
        self.check_files()?;
        let folder = self.folder.clone();
        let (reply, answer) = tokio::sync::oneshot::channel();
        let empty = move || {
            // the receiver is gone if the caller's future was dropped
            let _ = reply.send(open::empty_log(&folder));
        };
        let thread = std::thread::Builder::new().name("store-log".to_owned()).spawn(empty);
        thread.map_err(|source| Error::from_io(&self.folder, source))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// See [`Store::check_files`](crate::Store::check_files).
    pub(crate) fn check_files(&self) -> Result<()> {
        self.threads.watch.check()
    }

    /// The full check of the store in `folder`, also while another process uses it.
    pub(crate) fn verify_folder(folder: &Path) -> Result<VerifyReport> {
        let mut connection = open::reader(folder)?;
        connection.execute_batch("BEGIN")?;
        run(&mut connection, |tx| Box::pin(verify::verify(tx)))
    }

    /// The original files of the store in `folder`, also while another process uses it.
    pub(crate) fn originals_of_folder(folder: &Path) -> Result<Vec<(String, u64, String)>> {
        run(&mut open::reader(folder)?, |tx| Box::pin(originals::all(tx)))
    }

    /// Runs a script on a consistent snapshot that includes every write acknowledged before this call.
    pub(crate) async fn read(&self, script: AnyScript) -> Result<AnyResult> {
        self.threads.reader.call(|connection| run(connection, script)).await
    }

    /// Runs a script and commits it; returns when the commit is on the disk. If the script fails, its changes are rolled back.
    pub(crate) async fn write(&self, script: AnyScript) -> Result<AnyResult> {
        self.threads.writer.call(|connection| run(connection, script)).await
    }

    pub(crate) async fn close(self) {
        self.threads.reader.close().await;
        self.threads.writer.close().await;
    }
}

/// Runs a script in the transaction of a connection. Every call of a script completes at once, and with them the script, which is polled once.
fn run<T>(
    connection: &mut Connection,
    script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T>,
) -> Result<T> {
    let mut tx = Tx::Sqlite(connection);
    let script = pin!(script(&mut tx));
    match script.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(Error::Failed { source: Arc::new(io::Error::other("a script waits")) }),
    }
}
