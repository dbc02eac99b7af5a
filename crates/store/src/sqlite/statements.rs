//! Statements, each prepared once per connection.

use rusqlite::{Connection, Params, Row};

use crate::Result;

/// Runs statements from the connection's cache.
pub(super) trait Statements {
    /// Changes rows; returns their number.
    fn run(&self, sql: &str, parameters: impl Params) -> Result<usize>;

    /// The first row, as `read` reads it.
    fn first<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>>;

    /// Every row, as `read` reads it.
    fn all<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>>;
}

impl Statements for Connection {
    fn run(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        Ok(self.prepare_cached(sql)?.execute(parameters)?)
    }

    fn first<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        rows.next()?.map(read).transpose()
    }

    fn all<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }
}
