//! Feedback: judgments are numbered per collection; the oldest are deleted beyond a maximum.

use std::collections::{HashMap, HashSet};

use weir_policy::KeyId;

use super::documents;
use crate::access::Access;
use crate::damage::Damage;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, values};
use crate::{
    CollectionId, Error, Feedback, FeedbackBatch, FeedbackFilter, FeedbackLimits, NewFeedback,
    ProcessedFeedback, Result, Timestamp,
};

/// Stores a judgment; `None` when there is no such document.
pub(crate) async fn add(
    tx: &mut Tx<'_>,
    access: &Access,
    feedback: &NewFeedback,
    entries_max: u64,
    now: Timestamp,
) -> Result<Option<Feedback>> {
    let collection = access.collection;
    tx.lock(Lock::Collection(collection)).await?;
    let document = documents::key_and_version(tx, collection, &feedback.document_id).await?;
    if document.is_none() || documents::is_hidden(tx, access, &feedback.document_id).await? {
        return Ok(None);
    }
    let last = "SELECT coalesce(max(number), 0) FROM feedback WHERE collection_id = $1";
    let last: Option<u64> = tx.first(last, &values![collection.0], |row| Ok(row.get(0)?)).await?;
    let number = last.unwrap_or(0) + 1;
    let NewFeedback { query, document_id, chunk, grade, caller, is_operator } = feedback.clone();
    tx.run(
        "INSERT INTO feedback
             (collection_id, number, query, document_id, chunk, grade, created_at, caller, is_operator)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        &values![
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
    )
    .await?;
    tx.run(
        "DELETE FROM feedback WHERE collection_id = $1 AND number <= $2",
        &values![collection.0, number.saturating_sub(entries_max)],
    )
    .await?;
    Ok(Some(Feedback { number, query, document_id, chunk, grade, created_at: now, caller, is_operator }))
}

/// Deletes judgments; returns their number.
pub(crate) async fn delete(tx: &mut Tx<'_>, access: &Access, filter: FeedbackFilter) -> Result<u64> {
    if access.is_filtered() && (filter.caller.is_none() || filter.caller != access.key) {
        return Err(Error::NotAllowed("delete feedback of others, which can be to hidden documents"));
    }
    tx.lock(Lock::Collection(access.collection)).await?;
    tx.run(
        "DELETE FROM feedback WHERE collection_id = $1 AND (CAST($2 AS BIGINT) IS NULL OR caller = $2)
             AND created_at >= $3 AND created_at < $4",
        &values![access.collection.0, filter.caller.map(|key| key.0), since(filter), until(filter)],
    )
    .await
}

fn since(filter: FeedbackFilter) -> Timestamp {
    filter.since.unwrap_or(f64::MIN)
}

fn until(filter: FeedbackFilter) -> Timestamp {
    filter.until.unwrap_or(f64::MAX)
}

/// Newest first. The cursor is the number of the last judgment of the previous page.
pub(crate) async fn list(
    tx: &mut Tx<'_>,
    access: &Access,
    filter: FeedbackFilter,
    limit: usize,
    cursor: Option<&str>,
    damage: &Damage,
) -> Result<(Vec<Feedback>, Option<String>)> {
    let mut before = match cursor {
        Some(cursor) => cursor.parse::<i64>().map_err(|_| Error::UnknownCursor(cursor.to_owned()))?,
        None => i64::MAX,
    };
    let (collection, caller) = (access.collection, filter.caller.map(|key| key.0));
    let name = || format!("of collection {collection}");
    let mut page: Vec<Feedback> = Vec::new();
    loop {
        let wanted = limit - page.len() + 1;
        let read = tx
            .all(PAGE, &values![collection.0, before, caller, since(filter), until(filter), wanted], |row| {
                Ok((row.get::<i64>(0)?, damage.skip(decode(row).or_damaged("feedback", name))?))
            })
            .await?;
        let is_end = read.len() < wanted;
        before = read.last().map_or(before, |(number, _)| *number);
        let found: Vec<Feedback> = read.into_iter().filter_map(|(_, feedback)| feedback).collect();
        let ids: Vec<&str> = found.iter().map(|feedback| feedback.document_id.as_str()).collect();
        let hidden = documents::are_hidden(tx, access, &ids).await?;
        page.extend(
            found.into_iter().zip(hidden).filter(|(_, is_hidden)| !is_hidden).map(|(found, _)| found),
        );
        if page.len() > limit {
            page.truncate(limit);
            let next = page.last().map(|feedback| feedback.number.to_string());
            return Ok((page, next));
        }
        if is_end {
            return Ok((page, None));
        }
    }
}

const PAGE: &str =
    "SELECT number, query, document_id, chunk, grade, created_at, caller, is_operator FROM feedback
     WHERE collection_id = $1 AND number < $2 AND (CAST($3 AS BIGINT) IS NULL OR caller = $3)
         AND created_at >= $4 AND created_at < $5 ORDER BY number DESC LIMIT $6";

/// The last judgment of each caller, query and document, within `limits`.
pub(crate) async fn batch(
    tx: &mut Tx<'_>,
    access: &Access,
    fingerprint: &str,
    limits: FeedbackLimits,
    damage: &Damage,
) -> Result<FeedbackBatch> {
    let name = || format!("of collection {}", access.collection);
    let read = |row: &Row<'_>| {
        let decoded = decode(row).and_then(|feedback| Ok((feedback, row.get(8)?, row.get(9)?)));
        damage.skip(decoded.or_damaged("feedback", name))
    };
    let values = values![access.collection.0, fingerprint, limits.entries_max];
    let read: Vec<Option<(Feedback, Option<String>, bool)>> = tx.all(NEWEST, &values, read).await?;
    let read: Vec<_> = read.into_iter().flatten().collect();
    let ids: Vec<&str> = read.iter().map(|(feedback, ..)| feedback.document_id.as_str()).collect();
    let hidden = documents::are_hidden(tx, access, &ids).await?;
    let mut seen = HashSet::new();
    let mut per_caller: HashMap<Option<KeyId>, usize> = HashMap::new();
    let mut batch = FeedbackBatch::default();
    for ((feedback, features, is_processed), is_hidden) in read.into_iter().zip(hidden) {
        // hashes, because queries can be long
        let key = [feedback.query.trim(), &feedback.document_id].map(|text| blake3::hash(text.as_bytes()));
        if !seen.insert((feedback.caller, key)) || is_hidden {
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

const NEWEST: &str =
    "SELECT number, query, document_id, chunk, grade, created_at, caller, is_operator, features,
         fingerprint_id IS NOT DISTINCT FROM (SELECT id FROM fingerprints WHERE fingerprint = $2)
     FROM feedback WHERE collection_id = $1 ORDER BY number DESC LIMIT $3";

/// Stores the features of judgments, by their numbers, computed with embeddings of the model `fingerprint`.
pub(crate) async fn save_features(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    fingerprint: &str,
    features: &[(u64, Option<String>)],
) -> Result<()> {
    tx.lock(Lock::Collection(collection)).await?;
    let rows = features.iter();
    let rows: Vec<_> =
        rows.map(|(number, features)| values![collection.0, number, fingerprint, features]).collect();
    tx.run_each(
        "UPDATE feedback SET features = $4,
             fingerprint_id = (SELECT id FROM fingerprints WHERE fingerprint = $3)
         WHERE collection_id = $1 AND number = $2",
        &rows,
    )
    .await?;
    Ok(())
}

fn decode(row: &Row<'_>) -> Result<Feedback, Undecodable> {
    Ok(Feedback {
        number: row.get(0)?,
        query: row.get(1)?,
        document_id: row.get(2)?,
        chunk: row.get(3)?,
        grade: row.get(4)?,
        created_at: row.get(5)?,
        caller: row.get::<Option<i64>>(6)?.map(KeyId),
        is_operator: row.get(7)?,
    })
}
