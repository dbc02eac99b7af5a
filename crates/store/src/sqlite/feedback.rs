//! Feedback: judgments are numbered per collection; the oldest are deleted beyond a maximum.

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};

use super::documents;
use super::error::OrDamaged;
use super::statements::Statements as _;
use crate::access::Access;
use crate::damage::Damage;
use crate::{CollectionId, Error, Feedback, FeedbackBatch, NewFeedback, Result, Timestamp};

/// Stores a judgment; `None` when there is no such document.
pub(crate) fn add(
    connection: &Connection,
    access: &Access,
    feedback: &NewFeedback,
    entries_max: u64,
    now: Timestamp,
) -> Result<Option<Feedback>> {
    let collection = access.collection;
    let document = documents::key_and_version(connection, collection, &feedback.document_id)?;
    if document.is_none() || documents::is_hidden(connection, access, &feedback.document_id)? {
        return Ok(None);
    }
    let number: u64 = connection
        .prepare_cached("SELECT coalesce(max(number), 0) + 1 FROM feedback WHERE collection_id = ?1")?
        .query_row([collection.0], |row| row.get(0))?;
    let NewFeedback { query, document_id, chunk, grade } = feedback.clone();
    connection.run(
        "INSERT INTO feedback (collection_id, number, query, document_id, chunk, grade, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![collection.0, number, query, document_id, chunk, grade, now],
    )?;
    connection.run(
        "DELETE FROM feedback WHERE collection_id = ?1 AND number <= ?2",
        params![collection.0, number.saturating_sub(entries_max)],
    )?;
    Ok(Some(Feedback { number, query, document_id, chunk, grade, created_at: now }))
}

/// Newest first. The cursor is the number of the last judgment of the previous page.
pub(crate) fn list(
    connection: &Connection,
    access: &Access,
    limit: usize,
    cursor: Option<&str>,
    damage: &Damage,
) -> Result<(Vec<Feedback>, Option<String>)> {
    let before = match cursor {
        Some(cursor) => cursor.parse::<i64>().map_err(|_| Error::UnknownCursor(cursor.to_owned()))?,
        None => i64::MAX,
    };
    let mut statement = connection.prepare_cached(
        "SELECT number, query, document_id, chunk, grade, created_at FROM feedback
         WHERE collection_id = ?1 AND number < ?2 ORDER BY number DESC",
    )?;
    let mut rows = statement.query(params![access.collection.0, before])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        let read = decode(row).or_damaged("feedback", || format!("of collection {}", access.collection));
        let Some(feedback) = damage.skip(read)? else { continue };
        if documents::is_hidden(connection, access, &feedback.document_id)? {
            continue;
        }
        if page.len() == limit {
            let next = page.last().map(|feedback: &Feedback| feedback.number.to_string());
            return Ok((page, next));
        }
        page.push(feedback);
    }
    Ok((page, None))
}

/// The last judgment of each query and document among the newest `entries_max` judgments.
pub(crate) fn batch(
    connection: &Connection,
    access: &Access,
    fingerprint: &str,
    entries_max: usize,
    pending_max: usize,
    damage: &Damage,
) -> Result<FeedbackBatch> {
    let mut statement = connection.prepare_cached(
        "SELECT number, query, document_id, chunk, grade, created_at, features,
             fingerprint_id IS (SELECT id FROM fingerprints WHERE fingerprint = ?2)
         FROM feedback WHERE collection_id = ?1 ORDER BY number DESC LIMIT ?3",
    )?;
    let entries_max = i64::try_from(entries_max).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![access.collection.0, fingerprint, entries_max])?;
    let mut seen = HashSet::new();
    let mut batch = FeedbackBatch::default();
    while let Some(row) = rows.next()? {
        let decoded = decode(row).and_then(|feedback| Ok((feedback, row.get(6)?, row.get(7)?)));
        let read = decoded.or_damaged("feedback", || format!("of collection {}", access.collection));
        let Some((feedback, features, is_processed)): Option<(_, Option<String>, _)> = damage.skip(read)?
        else {
            continue;
        };
        // hashes, because queries can be long
        let key = [feedback.query.trim(), &feedback.document_id].map(|text| blake3::hash(text.as_bytes()));
        if !seen.insert(key) || documents::is_hidden(connection, access, &feedback.document_id)? {
            continue;
        }
        match (is_processed, features) {
            (true, Some(features)) => batch.processed.push((feedback.grade > 0, features)),
            (true, None) => {} // the document is not a hit of the query
            (false, _) if batch.pending.len() < pending_max => batch.pending.push(feedback),
            (false, _) => {}
        }
    }
    batch.processed.reverse();
    Ok(batch)
}

/// Stores the features of judgments, by their numbers, computed with embeddings of the model `fingerprint`.
pub(crate) fn save_features(
    connection: &Connection,
    collection: CollectionId,
    fingerprint: &str,
    features: &[(u64, Option<String>)],
) -> Result<()> {
    for (number, features) in features {
        connection.run(
            "UPDATE feedback SET features = ?4,
                 fingerprint_id = (SELECT id FROM fingerprints WHERE fingerprint = ?3)
             WHERE collection_id = ?1 AND number = ?2",
            params![collection.0, number, fingerprint, features],
        )?;
    }
    Ok(())
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
