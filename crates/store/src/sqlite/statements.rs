//! Statements on a connection, each prepared once.

use std::borrow::Cow;
use std::ops::ControlFlow;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

use crate::tx::{Row, Value, damaged};
use crate::value::Cell;
use crate::{CollectionId, Error, Result};

pub(crate) fn run(connection: &Connection, sql: &str, values: &[Value<'_>]) -> Result<u64> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    Ok(statement.raw_execute()? as u64)
}

pub(crate) fn run_each<const N: usize>(
    connection: &Connection,
    sql: &str,
    rows: &[[Value<'_>; N]],
) -> Result<u64> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut changed = 0;
    for values in rows {
        bind(&mut statement, values)?;
        changed += statement.raw_execute()? as u64;
    }
    Ok(changed)
}

pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    values: &[Value<'_>],
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    statement.raw_query().next()?.map(|row| read(&Row::Sqlite(row))).transpose()
}

pub(crate) fn first_each<T, const N: usize>(
    connection: &Connection,
    sql: &str,
    rows: &[[Value<'_>; N]],
    mut read: impl FnMut(usize, &Row<'_>) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = Vec::with_capacity(rows.len());
    for (place, values) in rows.iter().enumerate() {
        bind(&mut statement, values)?;
        let row = statement.raw_query().next()?.map(|row| read(place, &Row::Sqlite(row)));
        found.push(row.transpose()?);
    }
    Ok(found)
}

pub(crate) fn all_each<T, const N: usize>(
    connection: &Connection,
    sql: &str,
    rows: &[[Value<'_>; N]],
    mut read: impl FnMut(usize, &Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = Vec::new();
    for (place, values) in rows.iter().enumerate() {
        bind(&mut statement, values)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            found.push(read(place, &Row::Sqlite(row))?);
        }
    }
    Ok(found)
}

pub(crate) fn scan(
    connection: &Connection,
    sql: &str,
    values: &[Value<'_>],
    mut visit: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if visit(&Row::Sqlite(row))?.is_break() {
            break;
        }
    }
    Ok(())
}

pub(crate) fn last_collection_id(connection: &Connection) -> Result<CollectionId> {
    // SQLite's table of the last ids may be damaged like any other
    let last = "SELECT max(coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'collections'), 0),
                           coalesce((SELECT max(id) FROM collections), 0))";
    Ok(CollectionId(first(connection, last, &[], |row| Ok(row.get(0)?))?.unwrap_or(0)))
}

/// The system's clock.
pub(crate) fn clock(connection: &Connection) -> Result<f64> {
    let now = "SELECT (julianday('now') - 2440587.5) * 86400.0";
    Ok(first(connection, now, &[], |row| Ok(row.get(0)?))?.unwrap_or(0.0))
}

pub(crate) fn last_identity(connection: &Connection, table: &str, column: &str) -> Result<i64> {
    let last = "SELECT seq FROM sqlite_sequence WHERE name = $1";
    let counted: Option<i64> = first(connection, last, &[Value::Text(table)], |row| Ok(row.get(0)?))?;
    let last = format!("SELECT coalesce(max({column}), 0) FROM {table}");
    let highest: Option<i64> = first(connection, &last, &[], |row| Ok(row.get(0)?))?;
    Ok(counted.unwrap_or(0).max(highest.unwrap_or(0)))
}

/// Columns that SQLite does not count have the number after the highest one.
pub(crate) fn set_last_identity(connection: &Connection, table: &str, last: i64) -> Result<()> {
    let is_counted = "SELECT 1 FROM sqlite_schema WHERE name = $1 AND sql LIKE '%AUTOINCREMENT%'";
    if first(connection, is_counted, &[Value::Text(table)], |_| Ok(()))?.is_some() {
        run(connection, "DELETE FROM sqlite_sequence WHERE name = $1", &[Value::Text(table)])?;
        let values = [Value::Text(table), Value::Integer(last)];
        run(connection, "INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)", &values)?;
    }
    Ok(())
}

pub(crate) fn integrity_check(connection: &Connection) -> Result<Vec<Error>> {
    let mut found = Vec::new();
    scan(connection, "PRAGMA integrity_check", &[], |row| {
        let line: String = row.get(0)?;
        if line != "ok" {
            found.push(damaged(Error::WHOLE_FILE, format!("({line})")));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// A column of a row.
pub(crate) fn cell<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Cell<'a> {
    match row.get_ref(column) {
        Ok(ValueRef::Null) => Cell::Null,
        Ok(ValueRef::Integer(number)) => Cell::Integer(number),
        Ok(ValueRef::Real(number)) => Cell::Real(number),
        Ok(ValueRef::Text(text)) => {
            str::from_utf8(text).map_or(Cell::Unreadable, |text| Cell::Text(Cow::Borrowed(text)))
        }
        Ok(ValueRef::Blob(bytes)) => Cell::Bytes(bytes),
        Err(_) => Cell::Unreadable,
    }
}

/// Binds the values by the names of the parameters: SQLite counts `$2` by its place in the statement.
fn bind(statement: &mut CachedStatement<'_>, values: &[Value<'_>]) -> rusqlite::Result<()> {
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).unwrap_or_default();
        let number: Option<usize> = name.get(1..).and_then(|number| number.parse().ok());
        let value = number.and_then(|number| values.get(number - 1));
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(values.len(), index))?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(number),
            Value::Real(number) => ValueRef::Real(number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
