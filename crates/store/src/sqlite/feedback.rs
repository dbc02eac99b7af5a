//! Feedback: numbered by collection, the oldest goes when there is too much.

use rusqlite::{Connection, Row, params};

use super::documents;
use super::failure::Naming;
use crate::{CollectionId, Error, Feedback, NewFeedback, Now, Result};

/// Stores a judgment of a document that is there.
pub(crate) fn add(
    connection: &Connection,
    collection: CollectionId,
    feedback: &NewFeedback,
    entries_max: u64,
    now: Now,
) -> Result<Option<Feedback>> {
    if documents::key_and_version(connection, collection, &feedback.document_id)?.is_none() {
        return Ok(None);
    }
    let number: u64 = connection
        .prepare_cached("SELECT coalesce(max(number), 0) + 1 FROM feedback WHERE collection_id = ?1")?
        .query_row([collection.0], |row| row.get(0))?;
    connection
        .prepare_cached(
            "INSERT INTO feedback (collection_id, number, query, document_id, chunk, grade, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            collection.0,
            number,
            feedback.query,
            feedback.document_id,
            feedback.chunk,
            feedback.grade,
            now
        ])?;
    connection
        .prepare_cached("DELETE FROM feedback WHERE collection_id = ?1 AND number <= ?2")?
        .execute(params![collection.0, number.saturating_sub(entries_max)])?;
    let NewFeedback { query, document_id, chunk, grade } = feedback.clone();
    Ok(Some(Feedback { number, query, document_id, chunk, grade, created_at: now }))
}

/// The newest first; the cursor is the number of the last one of the page before.
pub(crate) fn list(
    connection: &Connection,
    collection: CollectionId,
    limit: usize,
    cursor: Option<&str>,
) -> Result<(Vec<Feedback>, Option<String>)> {
    let before = match cursor {
        Some(cursor) => {
            cursor.parse::<i64>().map_err(|_| Error::UnknownCursor { cursor: cursor.to_owned() })?
        }
        None => i64::MAX,
    };
    let mut statement = connection.prepare_cached(
        "SELECT number, query, document_id, chunk, grade, created_at FROM feedback
         WHERE collection_id = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
    )?;
    let more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut rows = statement.query(params![collection.0, before, more])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        if page.len() == limit {
            let next = page.last().map(|feedback: &Feedback| feedback.number.to_string());
            return Ok((page, next));
        }
        page.push(decode(row).naming("feedback", || format!("of collection {collection}"))?);
    }
    Ok((page, None))
}

fn decode(row: &Row<'_>) -> rusqlite::Result<Feedback> {
    Ok(Feedback {
        number: row.get(0)?,
        query: row.get(1)?,
        document_id: row.get(2)?,
        chunk: row.get(3)?,
        grade: row.get(4)?,
        created_at: row.get(5)?,
    })
}
