//! The query log: entries are numbered per collection; the oldest are deleted beyond a maximum.

use std::collections::BTreeSet;

use crate::access::Access;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, values};
use crate::{CollectionId, LoggedQuery, QueryCount, QueryReport, Result};

/// Adds entries, except those of deleted collections.
pub(crate) async fn add(tx: &mut Tx<'_>, queries: &[LoggedQuery], entries_max: u64) -> Result<()> {
    if queries.is_empty() {
        return Ok(());
    }
    let collections: BTreeSet<CollectionId> = queries.iter().map(|logged| logged.collection).collect();
    for collection in &collections {
        tx.lock(Lock::Collection(*collection)).await?;
    }
    let rows = queries.iter().map(|LoggedQuery { collection, query, results, relevance, asked_at }| {
        values![collection.0, query, results, relevance, asked_at]
    });
    tx.run_each(
        "INSERT INTO queries (collection_id, number, query, results, relevance, asked_at)
         SELECT id, (SELECT coalesce(max(number), 0) + 1 FROM queries WHERE collection_id = $1), CAST($2 AS TEXT),
             CAST($3 AS BIGINT), CAST($4 AS DOUBLE PRECISION), CAST($5 AS DOUBLE PRECISION)
         FROM collections WHERE id = $1",
        &rows.collect::<Vec<_>>(),
    )
    .await?;
    let rows = collections.iter().map(|collection| values![collection.0, entries_max]);
    tx.run_each(
        "DELETE FROM queries WHERE collection_id = $1 AND number <=
             (SELECT max(number) FROM queries WHERE collection_id = $1) - $2",
        &rows.collect::<Vec<_>>(),
    )
    .await?;
    Ok(())
}

/// The sums of each query.
macro_rules! sums {
    ($rest:literal) => {
        concat!(
            "SELECT query, count(*) AS times, count(*) FILTER (WHERE results = 0) AS empty, avg(relevance) AS mean, max(asked_at)
             FROM queries WHERE collection_id = $1 GROUP BY query ",
            $rest,
            // the query is the last sort key, so that the order is deterministic
            ", query LIMIT $2"
        )
    };
}

/// Sums the log up per query. Reads every entry of the collection.
pub(crate) async fn report(
    tx: &mut Tx<'_>,
    access: &Access,
    report: QueryReport,
    limit: usize,
) -> Result<Vec<QueryCount>> {
    if access.is_filtered() {
        return Ok(Vec::new());
    }
    let collection = access.collection;
    let read =
        |row: &Row<'_>| decode(row).or_damaged("logged query", || format!("of collection {collection}"));
    let [id, limit] = values![collection.0, limit];
    match report {
        QueryReport::Popular => tx.all(sums!("ORDER BY times DESC"), &[id, limit], read).await,
        QueryReport::ZeroResults => {
            let sql = sums!("HAVING count(*) FILTER (WHERE results = 0) > 0 ORDER BY empty DESC");
            tx.all(sql, &[id, limit], read).await
        }
        QueryReport::LowRelevance { below } => {
            let sql = sums!("HAVING avg(relevance) < $3 ORDER BY mean, times DESC");
            tx.all(sql, &[id, limit, below.as_value()], read).await
        }
    }
}

fn decode(row: &Row<'_>) -> Result<QueryCount, Undecodable> {
    Ok(QueryCount {
        query: row.get(0)?,
        count: row.get(1)?,
        zero_results: row.get(2)?,
        relevance: row.get(3)?,
        last_asked_at: row.get(4)?,
    })
}
