//! Tantivy's locks of a directory, among the threads of this process. Other processes are kept out by the owner of the folder.
//!
//! They are not those of the file system, which outlive their owner: a child process that is being started has the open files of all threads
//! until it runs its program.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tantivy::directory::error::LockError;
use tantivy::directory::{DirectoryLock, Lock};

/// The locks of a directory that are held.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: Mutex<HashSet<PathBuf>>,
    released: Condvar,
}

/// A lock, until this is dropped.
struct Held {
    locks: Arc<Locks>,
    path: PathBuf,
}

impl Locks {
    /// Waits for a blocking lock.
    pub(super) fn acquire(self: &Arc<Locks>, lock: &Lock) -> Result<DirectoryLock, LockError> {
        let path = &lock.filepath;
        let mut held = self.held();
        while held.contains(path) {
            if !lock.is_blocking {
                return Err(LockError::LockBusy);
            }
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        held.insert(path.clone());
        Ok(Box::new(Held { locks: self.clone(), path: path.clone() }).into())
    }

    fn held(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.held().remove(&self.path);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use tantivy::directory::{INDEX_WRITER_LOCK, META_LOCK};

    use super::*;

    #[test]
    fn one_lock_is_held_once_and_a_blocking_one_is_waited_for() {
        let locks = Arc::new(Locks::default());
        let writer = locks.acquire(&INDEX_WRITER_LOCK).unwrap();
        assert!(matches!(locks.acquire(&INDEX_WRITER_LOCK), Err(LockError::LockBusy)));
        drop(writer);
        let writer = locks.acquire(&INDEX_WRITER_LOCK);
        let meta = locks.acquire(&META_LOCK).unwrap();
        let waiting = locks.clone();
        let waiting = std::thread::spawn(move || waiting.acquire(&META_LOCK).is_ok());
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished());
        drop(meta);
        assert!(waiting.join().unwrap() && writer.is_ok());
    }
}
