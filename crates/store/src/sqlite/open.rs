//! Opens the store in a folder: lock, connections, SQLite settings.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::schema;
use crate::{Error, Result};

/// Locked while a store in the folder is open; has the id of the process. The file stays when the store is closed.
const LOCK_FILE: &str = "weir.lock";

/// The database. SQLite keeps the write-ahead log beside it in files named `…-wal` and `…-shm`.
pub(super) const DATABASE_FILE: &str = "store.sqlite3";

/// Capacity of each connection's cache of prepared statements: more than the store has.
const STATEMENTS_MAX: usize = 96;

/// How long to wait for another program that has locked the database, such as the `sqlite3` shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A negative `cache_size` is in KiB. The write-ahead log is written back every 4096 pages (16 MiB) and truncated to 64 MiB if it grew
/// beyond.
const SETTINGS: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = ON;
    PRAGMA secure_delete = ON;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 4096;
    PRAGMA journal_size_limit = 67108864;
";

/// Creates the folder if it is missing and locks it until the returned file is dropped.
pub(super) fn lock(folder: &Path) -> Result<File> {
    std::fs::create_dir_all(folder).map_err(|source| Error::from_io(folder, source))?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK_FILE))
        .map_err(|source| Error::from_io(folder, source))?;
    match lock_soon(&file) {
        Ok(()) => {
            // for whoever finds the file; the lock alone counts
            let _ = file.set_len(0).and_then(|()| writeln!(&file, "{}", std::process::id()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            Err(Error::InUse { place: format!("the data directory `{}`", folder.display()) })
        }
        Err(TryLockError::Error(source)) => Err(Error::from_io(folder, source)),
    }
}

/// Locks the file at once, or within a second: a process that is killed while it starts a child leaves its open files to the child until
/// that runs its program.
fn lock_soon(file: &File) -> std::result::Result<(), TryLockError> {
    for _ in 0..LOCK_RETRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            locked => return locked,
        }
    }
    file.try_lock()
}

/// Further attempts to lock the folder, and the pause before each.
const LOCK_RETRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Opens the writing connection and migrates the file to the current format.
pub(super) fn writer(folder: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(folder, flags)?;
    // SQLite opens a file without write permission as read-only instead of failing.
    if connection.is_readonly("main")? {
        return Err(Error::read_only(folder));
    }
    schema::migrate(&mut connection)?;
    sync_folders(folder)?;
    Ok(connection)
}

/// Opens the reading connection. The writer has created the file.
pub(super) fn reader(folder: &Path) -> Result<Connection> {
    let connection = connect(folder, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn connect(folder: &Path, flags: OpenFlags) -> Result<Connection> {
    let path = folder.join(DATABASE_FILE);
    let connection = Connection::open_with_flags(&path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .and_then(|connection| {
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.execute_batch(SETTINGS)?;
            Ok(connection)
        })
        .map_err(|error| Error::from_opening(folder, error))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// How long emptying the log waits for transactions, and these for it.
const EMPTYING_TIMEOUT: Duration = Duration::from_millis(20);

/// Writes the write-ahead log back and empties it: it keeps what was deleted since it was last emptied. `false` if transactions were
/// running all the time.
pub(super) fn empty_log(folder: &Path) -> Result<bool> {
    let connection = connect(folder, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(EMPTYING_TIMEOUT)?;
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(!is_busy)
}

/// Syncs the folder and its parent, so that the directory entries of new files and of the folder survive a power failure.
fn sync_folders(folder: &Path) -> Result<()> {
    let folder = folder.canonicalize().map_err(|source| Error::from_io(folder, source))?;
    for directory in [Some(folder.as_path()), folder.parent()].into_iter().flatten() {
        #[cfg(unix)]
        File::open(directory)
            .and_then(|file| file.sync_all())
            .map_err(|source| Error::unusable(directory, source))?;
    }
    Ok(())
}
