//! The query log: entries are numbered per collection; the oldest are deleted beyond a maximum.

use rusqlite::{Connection, Row, params};

use super::error::OrDamaged;
use super::statements::Statements as _;
use crate::access::Access;
use crate::{LoggedQuery, QueryCount, QueryReport, Result};

/// Adds entries, except those of deleted collections.
pub(crate) fn add(connection: &Connection, queries: &[LoggedQuery], entries_max: u64) -> Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO queries (collection_id, number, query, results, relevance, asked_at)
         SELECT id, (SELECT coalesce(max(number), 0) + 1 FROM queries WHERE collection_id = ?1), ?2, ?3, ?4, ?5
         FROM collections WHERE id = ?1",
    )?;
    let mut trim = connection.prepare_cached(
        "DELETE FROM queries WHERE collection_id = ?1 AND number <=
             (SELECT max(number) FROM queries WHERE collection_id = ?1) - ?2",
    )?;
    let entries_max = i64::try_from(entries_max).unwrap_or(i64::MAX);
    for logged in queries {
        let LoggedQuery { collection, query, results, relevance, asked_at } = logged;
        insert.execute(params![collection.0, query, results, relevance, asked_at])?;
        trim.execute(params![collection.0, entries_max])?;
    }
    Ok(())
}

const COLUMNS: &str =
    "SELECT query, count(*) AS times, sum(results = 0) AS empty, avg(relevance) AS mean, max(asked_at)
     FROM queries WHERE collection_id = ?1 GROUP BY query";

/// Sums the log up per query. Reads every entry of the collection.
pub(crate) fn report(
    connection: &Connection,
    access: &Access,
    report: QueryReport,
    limit: usize,
) -> Result<Vec<QueryCount>> {
    if access.is_filtered() {
        return Ok(Vec::new());
    }
    let collection = access.collection;
    // the query is the last sort key, so that the order is deterministic
    let (rest, below) = match report {
        QueryReport::Popular => ("HAVING ?3 IS NOT NULL ORDER BY times DESC, query", 0.0),
        QueryReport::ZeroResults => ("HAVING empty > 0 AND ?3 IS NOT NULL ORDER BY empty DESC, query", 0.0),
        QueryReport::LowRelevance { below } => ("HAVING mean < ?3 ORDER BY mean, times DESC, query", below),
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    connection.all(&format!("{COLUMNS} {rest} LIMIT ?2"), params![collection.0, limit, below], |row| {
        decode(row).or_damaged("logged query", || format!("of collection {collection}"))
    })
}

fn decode(row: &Row<'_>) -> rusqlite::Result<QueryCount> {
    Ok(QueryCount {
        query: row.get(0)?,
        count: row.get(1)?,
        zero_results: row.get(2)?,
        relevance: row.get(3)?,
        last_asked_at: row.get(4)?,
    })
}
