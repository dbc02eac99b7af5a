//! The databases that a store can have.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use crate::change::{Announcer, Change};
#[cfg(test)]
use crate::double::Double;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::tx::{AnyResult, AnyScript, Script, Tx};
use crate::{Error, Result};

/// A script that runs in a database.
type Running<'a> = Pin<Box<dyn Future<Output = Result<AnyResult>> + Send + 'a>>;

/// An open database. Cheap to clone; all clones are one database.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
    #[cfg(test)]
    Double(Double),
}

impl Database {
    /// Runs a script on a consistent snapshot that includes every write acknowledged before this call.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T> + Send + 'static,
    ) -> Result<T> {
        typed(self.read_any(any(script)).await)
    }

    /// Runs a script and commits it; returns when the commit is durable. If the script fails, its changes are rolled back.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T> + Send + 'static,
    ) -> Result<T> {
        typed(self.write_any(any(script)).await)
    }

    /// The same, and announces the change after the commit: to the receivers of this process, or to those of all processes.
    pub(crate) async fn write_and_tell<T: Send + 'static>(
        &self,
        change: Change,
        announcer: &Announcer,
        script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T> + Send + 'static,
    ) -> Result<T> {
        typed(self.write_any_and_tell(change, announcer, any(script)).await)
    }

    fn read_any(&self, script: AnyScript) -> Running<'_> {
        match self {
            Database::Sqlite(sqlite) => Box::pin(sqlite.read(script)),
            Database::Postgres(postgres) => Box::pin(postgres.read(script)),
            #[cfg(test)]
            Database::Double(double) => Box::pin(double.run(script)),
        }
    }

    fn write_any(&self, script: AnyScript) -> Running<'_> {
        match self {
            Database::Sqlite(sqlite) => Box::pin(sqlite.write(script)),
            Database::Postgres(postgres) => Box::pin(postgres.write(script)),
            #[cfg(test)]
            Database::Double(double) => Box::pin(double.run(script)),
        }
    }

    fn write_any_and_tell<'a>(
        &'a self,
        change: Change,
        announcer: &'a Announcer,
        script: AnyScript,
    ) -> Running<'a> {
        if let Database::Postgres(postgres) = self {
            return Box::pin(postgres.write_and_tell(change, script));
        }
        Box::pin(async move {
            let done = self.write_any(script).await?;
            announcer.tell(change);
            Ok(done)
        })
    }

    /// See [`Store::is_shared`](crate::Store::is_shared).
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Database::Sqlite(_) => false,
            Database::Postgres(_) => true,
            #[cfg(test)]
            Database::Double(_) => false,
        }
    }

    /// See [`Store::close`](crate::Store::close).
    pub(crate) async fn close(self) {
        match self {
            Database::Sqlite(sqlite) => sqlite.close().await,
            Database::Postgres(postgres) => postgres.close().await,
            #[cfg(test)]
            Database::Double(double) => double.close(),
        }
    }

    /// See [`Store::check`](crate::Store::check).
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Database::Sqlite(sqlite) => sqlite.check_files(),
            Database::Postgres(postgres) => postgres.check(),
            #[cfg(test)]
            Database::Double(_) => Ok(()),
        }
    }

    /// See [`Store::erase_deleted`](crate::Store::erase_deleted).
    pub(crate) async fn erase_deleted(&self) -> Result<bool> {
        match self {
            Database::Sqlite(sqlite) => sqlite.empty_log().await,
            // autovacuum does
            Database::Postgres(_) => Ok(true),
            #[cfg(test)]
            Database::Double(_) => Ok(true),
        }
    }
}

fn any<T: Send + 'static>(
    script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T> + Send + 'static,
) -> AnyScript {
    Box::new(move |tx| {
        let running = script(tx);
        Box::pin(async move { Ok(Box::new(running.await?) as AnyResult) })
    })
}

/// The result of a script that [`any`] has made of one with results of this type.
fn typed<T: Send + 'static>(done: Result<AnyResult>) -> Result<T> {
    match done?.downcast() {
        Ok(found) => Ok(*found),
        Err(_) => Err(Error::Failed { source: Arc::new(io::Error::other("a script of another type")) }),
    }
}
