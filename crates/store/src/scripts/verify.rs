//! The full check of the database.

use std::ops::ControlFlow;

use super::chunks::{self, ChunksKey};
use super::collections::{self, CollectionRow};
use super::documents::DocumentRow;
use super::{embeddings, operations};
use crate::tx::{AsValue as _, OrDamaged as _, Row, Tx, damaged, values};
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
             SELECT collection_id, document_id, kind, number,
                 row_number() OVER (PARTITION BY collection_id, document_id ORDER BY number DESC) AS place
             FROM operations) o
         LEFT JOIN documents d ON d.collection_id = o.collection_id AND d.id = o.document_id
         WHERE o.place = 1
             AND CASE o.kind WHEN 'put' THEN d.version IS DISTINCT FROM o.number ELSE d.version IS NOT NULL END",
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
        "SELECT e.text_hash FROM embeddings e WHERE NOT EXISTS (
             SELECT 1 FROM chunks c JOIN generations g ON g.id = c.generation_id
             WHERE c.text_hash = e.text_hash AND g.fingerprint_id = e.fingerprint_id)",
    ),
];

pub(crate) async fn verify(tx: &mut Tx<'_>) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    for problem in tx.structural_problems().await? {
        add_problem(&mut report, problem);
    }
    check_collections(tx, &mut report).await?;
    report.documents =
        check_rows(tx, &mut report, DocumentRow::ALL, |row| DocumentRow::read(row).map(drop)).await?;
    report.chunks = check_rows(tx, &mut report, CHUNKS, |row| {
        let key = ChunksKey { generation: GenerationId(row.get(6)?), document: row.get(7)? };
        chunks::read(key, row).map(drop)
    })
    .await?;
    report.embeddings = check_rows(tx, &mut report, embeddings::ALL, |row| {
        let hash = row.get(3).or_damaged("embedding", || "with an unreadable text hash".to_owned())?;
        embeddings::read_row(row.get(2)?, &hash, row).map(drop)
    })
    .await?;
    for (what, sql) in CONTRADICTIONS {
        check_rows(tx, &mut report, sql, |row| Err(damaged(what, name(row)?))).await?;
    }
    Ok(report)
}

/// The name of a row that [`CONTRADICTIONS`] finds: a text, or a hash.
fn name(row: &Row<'_>) -> Result<String> {
    if let Ok(hash) = row.get::<Vec<u8>>(0) {
        return Ok(hash.iter().map(|byte| format!("{byte:02X}")).collect());
    }
    Ok(row.get(0)?)
}

const CHUNKS: &str =
    "SELECT ordinal, version, \"start\", \"end\", text_hash, checksum, generation_id, document FROM chunks";

async fn check_collections(tx: &mut Tx<'_>, report: &mut VerifyReport) -> Result<()> {
    for row in CollectionRow::all(tx).await? {
        report.collections += 1;
        match collections::with_generation(tx, row).await {
            Ok(collection) => check_operations(tx, &collection, report).await?,
            Err(problem @ Error::Damaged { .. }) => add_problem(report, problem),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn check_operations(tx: &mut Tx<'_>, collection: &Collection, report: &mut VerifyReport) -> Result<()> {
    let mut expected = 1;
    let visit = |row: &Row<'_>| -> Result<ControlFlow<()>> {
        report.operations += 1;
        match operations::read(collection.id, expected, collection.pruned_to, row) {
            Ok(operation) => expected = operation.number + 1,
            Err(problem) => {
                add_problem(report, problem);
                expected += 1;
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    tx.scan(operations::ALL, &values![collection.id.0, 0_i64, i64::MAX], visit).await?;
    if expected != collection.last_operation + 1 {
        let missing = format!("{} of collection {}", collection.last_operation, collection.id);
        add_problem(report, damaged("operation", missing));
    }
    Ok(())
}

/// Runs `check` on each row of `sql` and adds its errors to the report; returns the number of rows.
async fn check_rows(
    tx: &mut Tx<'_>,
    report: &mut VerifyReport,
    sql: &'static str,
    mut check: impl FnMut(&Row<'_>) -> Result<()> + Send,
) -> Result<u64> {
    let mut read = 0;
    let visit = |row: &Row<'_>| -> Result<ControlFlow<()>> {
        read += 1;
        if let Err(problem) = check(row) {
            add_problem(report, problem);
        }
        Ok(ControlFlow::Continue(()))
    };
    tx.scan(sql, &[], visit).await?;
    Ok(read)
}

fn add_problem(report: &mut VerifyReport, problem: Error) {
    if report.problems.len() < PROBLEMS_MAX {
        report.problems.push(problem);
    }
}
