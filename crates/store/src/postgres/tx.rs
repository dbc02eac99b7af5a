//! Statements in a transaction of PostgreSQL, each prepared once per connection. Inserts and queries for many rows of values are one statement
//! over arrays; others are sent one after the other without waiting (pipelining).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio_postgres::{Portal, Statement, Transaction};

use super::error::no_answer;
use super::listen::CHANNEL;
use crate::change::Change;
use crate::tx::{Lock, Row, Value};
use crate::{CollectionId, Error, Result};

/// Rows of a scan that are fetched at once: they can have long texts.
const FETCHED_ROWS: i32 = 64;

/// Statements that are sent before the first answer is read.
const PIPELINED_MAX: usize = 256;

/// Rows of values for which one statement over arrays is used. Fewer are not worth another statement to prepare.
const ARRAY_ROWS_MIN: usize = 4;

/// How long a call waits for a server that has stopped without closing its connections. The server itself ends statements before.
const PATIENCE: Duration = Duration::from_secs(90);

/// The classes of advisory locks, the upper half of their keys.
const EMBEDDINGS_LOCKS: i32 = 0x7765_6901;
const OTHER_LOCKS: i32 = 0x7765_6902;
const CALLERS_LOCKS: i32 = 0x7765_6903;
const BUDGETS_LOCKS: i32 = 0x7765_6904;

/// A call of the server. It is compiled once, and not for each script that makes it.
type Call<'c, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'c>>;

/// An open transaction.
pub(crate) struct PostgresTx<'a> {
    transaction: Transaction<'a>,
    statements: &'a mut Statements,
    /// How long a call waits for the server.
    patience: Duration,
}

/// The statements of a connection by their SQL, and those over arrays by that for one row of values.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    of_one: HashMap<&'static str, Statement>,
    of_arrays: HashMap<&'static str, Option<Statement>>,
}

impl<'a> PostgresTx<'a> {
    pub(super) fn new(transaction: Transaction<'a>, statements: &'a mut Statements) -> PostgresTx<'a> {
        PostgresTx { transaction, statements, patience: PATIENCE }
    }

    /// Commits; the change is announced to all gateways then.
    pub(super) async fn commit(mut self, told: Option<Change>) -> Result<()> {
        if let Some(change) = told {
            let text = change.to_text();
            self.run("SELECT pg_notify($1, $2)", &[Value::Text(CHANNEL), Value::Text(&text)]).await?;
        }
        answered(self.patience, self.transaction.commit()).await
    }

    pub(super) async fn rollback(self) -> Result<()> {
        answered(self.patience, self.transaction.rollback()).await
    }

    async fn prepare(&mut self, sql: &'static str) -> Result<Statement> {
        if let Some(statement) = self.statements.of_one.get(sql) {
            return Ok(statement.clone());
        }
        let statement = answered(self.patience, self.transaction.prepare(sql)).await?;
        self.statements.of_one.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) fn run<'c>(&'c mut self, sql: &'static str, values: &'c [Value<'c>]) -> Call<'c, u64> {
        Box::pin(async move {
            let statement = self.prepare(sql).await?;
            answered(self.patience, self.transaction.execute_raw(&statement, values)).await
        })
    }

    pub(crate) fn run_each<'c, const N: usize>(
        &'c mut self,
        sql: &'static str,
        rows: &'c [[Value<'c>; N]],
    ) -> Call<'c, u64> {
        self.run_rows(sql, slices(rows))
    }

    fn run_rows<'c>(&'c mut self, sql: &'static str, rows: Vec<&'c [Value<'c>]>) -> Call<'c, u64> {
        Box::pin(async move {
            if let Some(statement) = self.prepare_arrays(sql, rows.len()).await? {
                let columns = columns_of(&rows);
                return answered(self.patience, self.transaction.execute_raw(&statement, &columns)).await;
            }
            let statement = self.prepare(sql).await?;
            let mut changed = 0;
            for rows in rows.chunks(PIPELINED_MAX) {
                let runs = rows.iter().map(|row| self.transaction.execute_raw(&statement, *row));
                changed += answered(self.patience, try_join_all(runs)).await?.into_iter().sum::<u64>();
            }
            Ok(changed)
        })
    }

    /// The statement over arrays in place of one for a row of values. `None` for statements that have none, and for few rows.
    async fn prepare_arrays(&mut self, sql: &'static str, rows: usize) -> Result<Option<Statement>> {
        if rows < ARRAY_ROWS_MIN {
            return Ok(None);
        }
        if let Some(statement) = self.statements.of_arrays.get(sql) {
            return Ok(statement.clone());
        }
        let types = self.prepare(sql).await?;
        let types: Vec<String> = types.params().iter().map(ToString::to_string).collect();
        let statement = match over_arrays(sql, &types) {
            Some(sql) => Some(answered(self.patience, self.transaction.prepare(&sql)).await?),
            None => None,
        };
        self.statements.of_arrays.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn first<T>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let rows = self.query(sql, values).await?;
        rows.first().map(|row| read(&Row::Postgres(row))).transpose()
    }

    pub(crate) async fn first_each<T, const N: usize>(
        &mut self,
        sql: &'static str,
        rows: &[[Value<'_>; N]],
        mut read: impl FnMut(usize, &Row<'_>) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        let found = self.query_rows(sql, slices(rows)).await?;
        let first = |(place, rows): (usize, &Vec<tokio_postgres::Row>)| {
            rows.first().map(|row| read(place, &Row::Postgres(row))).transpose()
        };
        found.iter().enumerate().map(first).collect()
    }

    pub(crate) async fn all_each<T, const N: usize>(
        &mut self,
        sql: &'static str,
        rows: &[[Value<'_>; N]],
        mut read: impl FnMut(usize, &Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let found = self.query_rows(sql, slices(rows)).await?;
        let each =
            found.iter().enumerate().flat_map(|(place, rows)| rows.iter().map(move |row| (place, row)));
        each.map(|(place, row)| read(place, &Row::Postgres(row))).collect()
    }

    /// The result of a query.
    fn query<'c>(
        &'c mut self,
        sql: &'static str,
        values: &'c [Value<'c>],
    ) -> Call<'c, Vec<tokio_postgres::Row>> {
        Box::pin(async move {
            let statement = self.prepare(sql).await?;
            answered(self.patience, collect(self.transaction.query_raw(&statement, values))).await
        })
    }

    /// The result of a query for each row of values, in their order.
    fn query_rows<'c>(
        &'c mut self,
        sql: &'static str,
        rows: Vec<&'c [Value<'c>]>,
    ) -> Call<'c, Vec<Vec<tokio_postgres::Row>>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(rows.len());
            if let Some(statement) = self.prepare_arrays(sql, rows.len()).await? {
                found.resize_with(rows.len(), Vec::new);
                let columns = columns_of(&rows);
                let query = collect(self.transaction.query_raw(&statement, &columns));
                for row in answered(self.patience, query).await? {
                    let place = place_of(&row);
                    found
                        .get_mut(place)
                        .ok_or_else(|| no_answer("it gave a row of another query"))?
                        .push(row);
                }
                return Ok(found);
            }
            if rows.is_empty() {
                return Ok(found);
            }
            let statement = self.prepare(sql).await?;
            for rows in rows.chunks(PIPELINED_MAX) {
                let queries = rows.iter().map(|row| collect(self.transaction.query_raw(&statement, *row)));
                found.extend(answered(self.patience, try_join_all(queries)).await?);
            }
            Ok(found)
        })
    }

    pub(crate) async fn scan(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        mut visit: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let portal = self.begin_scan(sql, values).await?;
        loop {
            let rows = self.fetch(&portal).await?;
            for row in &rows {
                if visit(&Row::Postgres(row))?.is_break() {
                    return Ok(());
                }
            }
            if rows.len() < FETCHED_ROWS as usize {
                return Ok(());
            }
        }
    }

    fn begin_scan<'c>(&'c mut self, sql: &'static str, values: &'c [Value<'c>]) -> Call<'c, Portal> {
        Box::pin(async move {
            let statement = self.prepare(sql).await?;
            answered(self.patience, self.transaction.bind_raw(&statement, values)).await
        })
    }

    fn fetch<'c>(&'c self, portal: &'c Portal) -> Call<'c, Vec<tokio_postgres::Row>> {
        Box::pin(answered(self.patience, self.transaction.query_portal(portal, FETCHED_ROWS)))
    }

    /// All row locks, and those that have no row.
    pub(crate) async fn lock(&mut self, lock: Lock) -> Result<()> {
        const COLLECTION: &str = "SELECT 1 FROM collections WHERE id = $1 FOR UPDATE";
        const COLLECTION_OF: &str = "SELECT 1 FROM collections c JOIN generations g ON g.collection_id = c.id
             WHERE g.id = $1 FOR UPDATE OF c";
        const ADVISORY: &str = "SELECT pg_advisory_xact_lock($1, $2)";
        let advisory =
            |class: i32, number: i64| [i64::from(class), i64::from(number as i32)].map(Value::Integer);
        match lock {
            Lock::Collection(id) => self.run(COLLECTION, &[Value::Integer(id.0)]).await?,
            Lock::CollectionOf(id) => self.run(COLLECTION_OF, &[Value::Integer(id.0)]).await?,
            Lock::Caller(key) => {
                self.run(ADVISORY, &advisory(CALLERS_LOCKS, key.map_or(0, |key| key.0))).await?
            }
            Lock::Embeddings(id) => self.run(ADVISORY, &advisory(EMBEDDINGS_LOCKS, id)).await?,
            Lock::Keys => self.run(ADVISORY, &advisory(OTHER_LOCKS, 1)).await?,
            Lock::Audit => self.run(ADVISORY, &advisory(OTHER_LOCKS, 2)).await?,
            Lock::Budgets(key) => self.run(ADVISORY, &advisory(BUDGETS_LOCKS, key.0)).await?,
            Lock::KeptFiles => self.run(ADVISORY, &advisory(OTHER_LOCKS, 3)).await?,
        };
        Ok(())
    }

    /// The server's clock, also within a transaction.
    pub(crate) async fn clock(&mut self) -> Result<f64> {
        let now = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)";
        Ok(self.first(now, &[], |row| Ok(row.get(0)?)).await?.unwrap_or(0.0))
    }

    pub(crate) async fn last_collection_id(&mut self) -> Result<CollectionId> {
        let last = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM collections_id_seq";
        Ok(CollectionId(self.first(last, &[], |row| Ok(row.get(0)?)).await?.unwrap_or(0)))
    }

    pub(crate) async fn last_identity(&mut self, table: &str, column: &str) -> Result<i64> {
        let last = format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {table}_{column}_seq");
        Ok(answered(self.patience, self.transaction.query_one(&last, &[])).await?.get(0))
    }

    pub(crate) async fn set_last_identity(&mut self, table: &str, column: &str, last: i64) -> Result<()> {
        let set = format!("SELECT setval('{table}_{column}_seq', {}, {})", last.max(1), last > 0);
        answered(self.patience, self.transaction.batch_execute(&set)).await
    }

    /// The full check has no limit of time. PostgreSQL checks its pages when it reads them, if its data checksums are on.
    pub(crate) async fn structural_problems(&mut self) -> Result<Vec<Error>> {
        answered(self.patience, self.transaction.batch_execute("SET LOCAL statement_timeout TO 0")).await?;
        self.patience = Duration::MAX;
        Ok(Vec::new())
    }
}

/// An insert of one row of values as one of arrays, or a query by them as one for each element of arrays, whose last column is the place of
/// the element, from 1.
fn over_arrays(sql: &str, types: &[String]) -> Option<String> {
    let arrays = (1..).zip(types).map(|(number, type_)| format!("${number}::{type_}[]"));
    let arrays = arrays.collect::<Vec<_>>().join(", ");
    let names = |prefix: &str| {
        (1..=types.len()).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>().join(", ")
    };
    if let Some((head, rest)) = sql.split_once(&format!("VALUES ({})", names("$"))) {
        return Some(format!("{head} SELECT * FROM unnest({arrays}) {rest}"));
    }
    if !sql.starts_with("SELECT") || sql.contains("LIMIT") {
        return None;
    }
    // the last ones first: `$1` begins `$10`
    let query = (1..=types.len())
        .rev()
        .fold(sql.to_owned(), |sql, number| sql.replace(&format!("${number}"), &format!("given.p{number}")));
    // `OFFSET 0`: the query is carried out for each element, by its index, and not planned as a join with a table that was small then
    Some(format!(
        "SELECT found.*, given.place FROM unnest({arrays}) WITH ORDINALITY AS given ({}, place), LATERAL ({query} OFFSET 0) AS found",
        names("p")
    ))
}

fn slices<'r, const N: usize>(rows: &'r [[Value<'r>; N]]) -> Vec<&'r [Value<'r>]> {
    rows.iter().map(<[Value<'r>; N]>::as_slice).collect()
}

/// The values of rows by column; all rows have as many.
fn columns_of<'a>(rows: &[&[Value<'a>]]) -> Vec<Vec<Value<'a>>> {
    let columns = rows.first().map_or(0, |row| row.len());
    (0..columns).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

/// The place, from 0, in the last column of a query over arrays.
fn place_of(row: &tokio_postgres::Row) -> usize {
    let place: i64 = row.try_get(row.len() - 1).unwrap_or(0);
    usize::try_from(place - 1).unwrap_or(usize::MAX)
}

/// The answer of the server, if it comes in time.
async fn answered<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T> {
    match tokio::time::timeout(patience, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(no_answer("it did not answer in time")),
    }
}

/// The rows of a query.
async fn collect(
    query: impl Future<Output = Result<tokio_postgres::RowStream, tokio_postgres::Error>>,
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    use futures_util::TryStreamExt as _;
    query.await?.try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_for_one_row_of_values_become_statements_over_arrays() {
        let check = |sql: &str, expected: Option<&str>| {
            let types = ["int8", "text"].map(str::to_owned);
            assert_eq!(over_arrays(sql, &types).as_deref(), expected, "{sql}");
        };
        check(
            "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            Some(
                "INSERT INTO t (a, b)  SELECT * FROM unnest($1::int8[], $2::text[])  ON CONFLICT DO NOTHING",
            ),
        );
        check(
            "SELECT c FROM t WHERE a = $1 AND b = $2 ORDER BY c",
            Some(
                "SELECT found.*, given.place FROM unnest($1::int8[], $2::text[]) WITH ORDINALITY AS given (p1, p2, place), \
                 LATERAL (SELECT c FROM t WHERE a = given.p1 AND b = given.p2 ORDER BY c OFFSET 0) AS found",
            ),
        );
        check("INSERT INTO t (a, b) SELECT $1, c FROM t WHERE b = $2", None);
        check("DELETE FROM t WHERE a = $1 AND b = $2 RETURNING c", None);
        check("SELECT c FROM t WHERE a = $1 LIMIT $2", None);
    }
}
