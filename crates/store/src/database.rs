//! The databases that a store can have.

use crate::Result;
use crate::change::{Announcer, Change};
#[cfg(test)]
use crate::double::Double;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::tx::{Script, Tx};

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
        match self {
            Database::Sqlite(sqlite) => sqlite.read(script).await,
            Database::Postgres(postgres) => postgres.read(script).await,
            #[cfg(test)]
            Database::Double(double) => double.run(script).await,
        }
    }

    /// Runs a script and commits it; returns when the commit is durable. If the script fails, its changes are rolled back.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T> + Send + 'static,
    ) -> Result<T> {
        match self {
            Database::Sqlite(sqlite) => sqlite.write(script).await,
            Database::Postgres(postgres) => postgres.write(script).await,
            #[cfg(test)]
            Database::Double(double) => double.run(script).await,
        }
    }

    /// The same, and tells the change after the commit: to the receivers of this process, or to those of all processes.
    pub(crate) async fn write_and_tell<T: Send + 'static>(
        &self,
        change: Change,
        announcer: &Announcer,
        script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T> + Send + 'static,
    ) -> Result<T> {
        if let Database::Postgres(postgres) = self {
            return postgres.write_and_tell(change, script).await;
        }
        let done = self.write(script).await?;
        announcer.tell(change);
        Ok(done)
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
