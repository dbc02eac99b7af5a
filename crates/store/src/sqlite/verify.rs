//! The full check.

use rusqlite::{Connection, Row};

use super::chunks::{self, Owner};
use super::collections::CollectionRow;
use super::documents::DocumentRow;
use super::failure::{Naming, damaged};
use super::{embeddings, operations};
use crate::{Collection, Error, GenerationId, Result, VerifyReport};

/// Problems that a report names; a ruined file has more than anyone reads.
const PROBLEMS_MAX: usize = 100;

/// Rows that disagree with each other: what is wrong, and a query for the names of such rows.
const DISAGREEMENTS: [(&str, &str); 4] = [
    (
        "document (its version is no operation that put it)",
        "SELECT d.id || ' of collection ' || d.collection_id FROM documents d WHERE NOT EXISTS (
             SELECT 1 FROM operations o WHERE o.collection_id = d.collection_id AND o.number = d.version
                 AND o.document_id = d.id AND o.kind = 'put')",
    ),
    (
        "document (its last operation says otherwise)",
        "SELECT o.document_id || ' of collection ' || o.collection_id FROM (
             SELECT collection_id, document_id, kind, max(number) AS number FROM operations
             GROUP BY collection_id, document_id) o
         LEFT JOIN documents d ON d.collection_id = o.collection_id AND d.id = o.document_id
         WHERE CASE o.kind WHEN 'put' THEN d.version IS NOT o.number ELSE d.version IS NOT NULL END",
    ),
    (
        "chunk (its document or its generation is gone)",
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
        let owner = Owner { generation: GenerationId(row.get(6)?), document: row.get(7)? };
        chunks::read(owner, row).map(drop)
    })?;
    report.embeddings = check_rows(connection, &mut report, embeddings::ALL, |row| {
        let hash = row.get(3).naming("embedding", || "with an unreadable text hash".to_owned())?;
        embeddings::read_row(row.get(2)?, &hash, row).map(drop)
    })?;
    for (what, sql) in DISAGREEMENTS {
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
            note(report, damaged("the store's file", format!("({line})")));
        }
    }
    Ok(())
}

fn check_collections(connection: &Connection, report: &mut VerifyReport) -> Result<()> {
    for row in CollectionRow::all(connection)? {
        report.collections += 1;
        let collection = row.with_generation(connection)?;
        check_operations(connection, &collection, report)?;
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
                note(report, problem);
                expected += 1;
            }
        }
    }
    if expected != collection.last_operation + 1 {
        let missing = format!("{} of collection {}", collection.last_operation, collection.id);
        note(report, damaged("operation", missing));
    }
    Ok(())
}

/// Runs `check` on each row of `sql` and notes what it finds; returns the number of rows.
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
            note(report, problem);
        }
    }
    Ok(read)
}

fn note(report: &mut VerifyReport, problem: Error) {
    if report.problems.len() < PROBLEMS_MAX {
        report.problems.push(problem);
    }
}
