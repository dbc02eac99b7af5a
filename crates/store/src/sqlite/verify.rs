//! The full check of the database.

use rusqlite::{Connection, Row};

use super::chunks::{self, ChunksKey};
use super::collections::CollectionRow;
use super::documents::DocumentRow;
use super::error::{OrDamaged, damaged};
use super::{embeddings, operations};
use crate::{Collection, Error, GenerationId, Result, VerifyReport};

/// Upper bound of the problems in a report: a badly damaged file has more than anybody reads.
const PROBLEMS_MAX: usize = 100;

/// Contradictions between rows: a description, and a query for the names of the rows that have it.
const CONTRADICTIONS: [(&str, &str); 4] = [
    (
        "document (no operation stored its version)",
        "SELECT d.id || ' of collection ' || d.collection_id FROM documents d WHERE NOT EXISTS (
             SELECT 1 FROM operations o WHERE o.collection_id = d.collection_id AND o.number = d.version
                 AND o.document_id = d.id AND o.kind = 'put')",
    ),
    (
        "document (its last operation contradicts it)",
        "SELECT o.document_id || ' of collection ' || o.collection_id FROM (
             SELECT collection_id, document_id, kind, max(number) AS number FROM operations
             GROUP BY collection_id, document_id) o
         LEFT JOIN documents d ON d.collection_id = o.collection_id AND d.id = o.document_id
         WHERE CASE o.kind WHEN 'put' THEN d.version IS NOT o.number ELSE d.version IS NOT NULL END",
    ),
    (
        "chunk (its document or its generation is missing)",
        "SELECT c.document || ' in generation ' || c.generation_id FROM chunks c
         LEFT JOIN generations g ON g.id = c.generation_id AND g.current = 1
         LEFT JOIN documents d ON d.key = c.document AND d.collection_id = g.collection_id
         WHERE d.key IS NULL OR c.version > d.version",
    ),
    (
        "embedding (no chunk refers to it)",
        "SELECT hex(e.text_hash) FROM embeddings e WHERE NOT EXISTS (
             SELECT 1 FROM chunks c JOIN generations g ON g.id = c.generation_id
             WHERE c.text_hash = e.text_hash AND g.fingerprint_id = e.fingerprint_id)",
    ),
];

pub(crate) fn verify(connection: &Connection) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    check_file(connection, &mut report)?;
    check_collections(connection, &mut report)?;
    report.documents =
        check_rows(connection, &mut report, DocumentRow::ALL, |row| DocumentRow::read(row).map(drop))?;
    report.chunks = check_rows(connection, &mut report, CHUNKS, |row| {
        let key = ChunksKey { generation: GenerationId(row.get(6)?), document: row.get(7)? };
        chunks::read(key, row).map(drop)
    })?;
    report.embeddings = check_rows(connection, &mut report, embeddings::ALL, |row| {
        let hash = row.get(3).or_damaged("embedding", || "with an unreadable text hash".to_owned())?;
        embeddings::read_row(row.get(2)?, &hash, row).map(drop)
    })?;
    for (what, sql) in CONTRADICTIONS {
        check_rows(connection, &mut report, sql, |row| Err(damaged(what, row.get::<_, String>(0)?)))?;
    }
    Ok(report)
}

const CHUNKS: &str =
    "SELECT ordinal, version, start, end, text_hash, checksum, generation_id, document FROM chunks";

fn check_file(connection: &Connection, report: &mut VerifyReport) -> Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            add_problem(report, damaged(Error::WHOLE_FILE, format!("({line})")));
        }
    }
    Ok(())
}

fn check_collections(connection: &Connection, report: &mut VerifyReport) -> Result<()> {
    for row in CollectionRow::all(connection)? {
        report.collections += 1;
        match row.and_then(|row| row.with_generation(connection)) {
            Ok(collection) => check_operations(connection, &collection, report)?,
            Err(problem @ Error::Damaged { .. }) => add_problem(report, problem),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn check_operations(
    connection: &Connection,
    collection: &Collection,
    report: &mut VerifyReport,
) -> Result<()> {
    let mut statement = connection.prepare_cached(operations::ALL)?;
    let mut rows = statement.query([collection.id.0, 0, i64::MAX])?;
    let mut expected = 1;
    while let Some(row) = rows.next()? {
        report.operations += 1;
        match operations::read(collection.id, expected, collection.pruned_to, row) {
            Ok(operation) => expected = operation.number + 1,
            Err(problem) => {
                add_problem(report, problem);
                expected += 1;
            }
        }
    }
    if expected != collection.last_operation + 1 {
        let missing = format!("{} of collection {}", collection.last_operation, collection.id);
        add_problem(report, damaged("operation", missing));
    }
    Ok(())
}

/// Runs `check` on each row of `sql` and adds its errors to the report; returns the number of rows.
fn check_rows(
    connection: &Connection,
    report: &mut VerifyReport,
    sql: &str,
    check: impl Fn(&Row<'_>) -> Result<()>,
) -> Result<u64> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut read = 0;
    while let Some(row) = rows.next()? {
        read += 1;
        if let Err(problem) = check(row) {
            add_problem(report, problem);
        }
    }
    Ok(read)
}

fn add_problem(report: &mut VerifyReport, problem: Error) {
    if report.problems.len() < PROBLEMS_MAX {
        report.problems.push(problem);
    }
}
