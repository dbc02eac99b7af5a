//! Feedback: judgments are numbered per collection; the oldest are deleted beyond a maximum.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Row, params};
use weir_policy::KeyId;

use super::documents;
use super::error::OrDamaged;
use super::statements::Statements as _;
use crate::access::Access;
use crate::damage::Damage;
use crate::{
    CollectionId, Error, Feedback, FeedbackBatch, FeedbackFilter, FeedbackLimits, NewFeedback,
    ProcessedFeedback, Result, Timestamp,
};

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
    let NewFeedback { query, document_id, chunk, grade, caller, is_operator } = feedback.clone();
    connection.run(
        "INSERT INTO feedback
             (collection_id, number, query, document_id, chunk, grade, created_at, caller, is_operator)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            collection.0,
            number,
            query,
            document_id,
            chunk,
            grade,
            now,
            caller.map(|key| key.0),
            is_operator
        ],
    )?;
    connection.run(
        "DELETE FROM feedback WHERE collection_id = ?1 AND number <= ?2",
        params![collection.0, number.saturating_sub(entries_max)],
    )?;
    Ok(Some(Feedback { number, query, document_id, chunk, grade, created_at: now, caller, is_operator }))
}

/// Deletes judgments; returns their number.
pub(crate) fn delete(connection: &Connection, access: &Access, filter: FeedbackFilter) -> Result<u64> {
    if access.is_filtered() && (filter.caller.is_none() || filter.caller != access.key) {
        return Err(Error::NotAllowed("delete feedback of others, which can be to hidden documents"));
    }
    let deleted = connection.run(
        "DELETE FROM feedback WHERE collection_id = ?1 AND (?2 IS NULL OR caller = ?2)
             AND created_at >= ?3 AND created_at < ?4",
        params![access.collection.0, filter.caller.map(|key| key.0), since(filter), until(filter)],
    )?;
    Ok(deleted as u64)
}

fn since(filter: FeedbackFilter) -> Timestamp {
    filter.since.unwrap_or(f64::MIN)
}

fn until(filter: FeedbackFilter) -> Timestamp {
    filter.until.unwrap_or(f64::MAX)
}

/// Newest first. The cursor is the number of the last judgment of the previous page.
pub(crate) fn list(
    connection: &Connection,
    access: &Access,
    filter: FeedbackFilter,
    limit: usize,
    cursor: Option<&str>,
    damage: &Damage,
) -> Result<(Vec<Feedback>, Option<String>)> {
    let before = match cursor {
        Some(cursor) => cursor.parse::<i64>().map_err(|_| Error::UnknownCursor(cursor.to_owned()))?,
        None => i64::MAX,
    };
    let mut statement = connection.prepare_cached(
        "SELECT number, query, document_id, chunk, grade, created_at, caller, is_operator FROM feedback
         WHERE collection_id = ?1 AND number < ?2 AND (?3 IS NULL OR caller = ?3)
             AND created_at >= ?4 AND created_at < ?5 ORDER BY number DESC",
    )?;
    let caller = filter.caller.map(|key| key.0);
    let mut rows =
        statement.query(params![access.collection.0, before, caller, since(filter), until(filter)])?;
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

/// The last judgment of each caller, query and document, within `limits`.
pub(crate) fn batch(
    connection: &Connection,
    access: &Access,
    fingerprint: &str,
    limits: FeedbackLimits,
    damage: &Damage,
) -> Result<FeedbackBatch> {
    let mut statement = connection.prepare_cached(
        "SELECT number, query, document_id, chunk, grade, created_at, caller, is_operator, features,
             fingerprint_id IS (SELECT id FROM fingerprints WHERE fingerprint = ?2)
         FROM feedback WHERE collection_id = ?1 ORDER BY number DESC LIMIT ?3",
    )?;
    let entries_max = i64::try_from(limits.entries_max).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![access.collection.0, fingerprint, entries_max])?;
    let mut seen = HashSet::new();
    let mut per_caller: HashMap<Option<KeyId>, usize> = HashMap::new();
    let mut batch = FeedbackBatch::default();
    while let Some(row) = rows.next()? {
        let decoded = decode(row).and_then(|feedback| Ok((feedback, row.get(8)?, row.get(9)?)));
        let read = decoded.or_damaged("feedback", || format!("of collection {}", access.collection));
        let Some((feedback, features, is_processed)): Option<(_, Option<String>, _)> = damage.skip(read)?
        else {
            continue;
        };
        // hashes, because queries can be long
        let key = [feedback.query.trim(), &feedback.document_id].map(|text| blake3::hash(text.as_bytes()));
        if !seen.insert((feedback.caller, key))
            || documents::is_hidden(connection, access, &feedback.document_id)?
        {
            continue;
        }
        let counted = per_caller.entry(feedback.caller).or_default();
        if *counted >= limits.per_caller_max {
            continue;
        }
        *counted += 1;
        match (is_processed, features) {
            (true, Some(features)) => batch.processed.push(ProcessedFeedback {
                is_relevant: feedback.grade > 0,
                features,
                caller: feedback.caller,
                is_operator: feedback.is_operator,
                created_at: feedback.created_at,
            }),
            (true, None) => {} // the document is not a hit of the query
            (false, _) if batch.pending.len() < limits.pending_max => batch.pending.push(feedback),
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
        caller: row.get::<_, Option<i64>>(6)?.map(KeyId),
        is_operator: row.get(7)?,
    })
}
