//! The store in one SQLite file.
//!
//! Two connections, each on its own thread: the writer combines waiting requests into one commit ([`thread`]); the reader is separate,
//! so that a long write does not block reads. The submodules are functions over a connection, one file per resource. Each runs inside a
//! transaction that its thread has begun.

pub(crate) mod accept;
pub(crate) mod chunks;
pub(crate) mod collections;
pub(crate) mod documents;
pub(crate) mod embeddings;
mod error;
pub(crate) mod feedback;
pub(crate) mod files;
pub(crate) mod generations;
pub(crate) mod job_control;
pub(crate) mod jobs;
pub(crate) mod keys;
mod open;
pub(crate) mod operations;
pub(crate) mod originals;
pub(crate) mod query_log;
mod schema;
pub(crate) mod spending;
mod statements;
#[cfg(test)]
mod tests;
mod thread;
mod unsearchable;
pub(crate) mod verify;
mod watch;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use crate::damage::Damage;
use crate::{Error, Result, VerifyReport};
use thread::{DatabaseThread, TransactionKind};
use watch::FileWatch;

/// An open SQLite store: the content of [`Store::Sqlite`](crate::Store::Sqlite).
#[derive(Debug, Clone)]
pub struct Sqlite {
    threads: Arc<Threads>,
    pub(crate) damage: Damage,
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

    pub(crate) fn open(folder: &Path) -> Result<Sqlite> {
        let lock = open::lock(folder)?;
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
        Ok(Sqlite { threads: Arc::new(threads), damage: Damage::default(), folder: folder.into() })
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
        let connection = open::reader(folder)?;
        connection.execute_batch("BEGIN")?;
        verify::verify(&connection)
    }

    /// The original files of the store in `folder`.
    pub(crate) fn originals_of_folder(folder: &Path, each: impl FnMut(&str, u64, &str)) -> Result<()> {
        originals::each(&open::reader(folder)?, each)
    }

    /// Runs `work` on a consistent snapshot that includes every write acknowledged before this call.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.threads.reader.call(work).await
    }

    /// Runs `work` and commits it; returns when the commit is on the disk. If `work` fails, its changes are rolled back.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.threads.writer.call(work).await
    }

    pub(crate) async fn close(self) {
        self.threads.reader.close().await;
        self.threads.writer.close().await;
    }
}
