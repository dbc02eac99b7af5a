//! Jobs: inserted with their documents, updated when the applied sequence advances.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weir_policy::KeyId;

use super::collections::CollectionRow;
use super::{documents, generations, leases, unsearchable, webhooks};
use crate::access::{FilterHash, JobAccess};
use crate::damage::Damage;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{
    CollectionId, DocumentError, Error, Fence, GenerationId, Job, JobStatus, JobWithFiles, Result,
    Submission, SubmittedFiles, Timestamp, UnreadFiles,
};

/// The result of storing a submission's documents.
pub(super) struct Accepted {
    /// The collection; its counter is after the last operation of the job.
    pub(super) collection: CollectionRow,
    pub(super) first_operation: u64,
    /// Submitted documents, including the refused ones.
    pub(super) total: u64,
    pub(super) changed: u64,
    pub(super) unchanged: u64,
    /// Documents that the caller may not replace.
    pub(super) refused: Vec<DocumentError>,
    /// The filter of the caller that submitted the job.
    pub(super) filter_hash: Option<FilterHash>,
    /// The API key of this caller.
    pub(super) key: Option<KeyId>,
}

/// The `first_operation` of jobs whose files are not read.
pub(super) const UNREAD: u64 = i64::MAX as u64;

pub(super) async fn insert(
    tx: &mut Tx<'_>,
    accepted: Accepted,
    submission: &Submission,
    now: Timestamp,
) -> Result<Option<Job>> {
    let Accepted { collection, first_operation, total, changed, unchanged, refused, filter_hash, key } =
        accepted;
    let operations = collection.next_operation - first_operation;
    let errors = [submission.rejected.as_slice(), &refused].concat();
    let unread = submission.unread() as u64;
    let (status, finished_at) = match operations + unread {
        0 => (JobStatus::Completed, Some(now)),
        _ => (JobStatus::Pending, None),
    };
    let (first_operation, last_operation) = match unread {
        0 => (first_operation, collection.next_operation - 1),
        _ => (UNREAD, UNREAD - 1),
    };
    let files = match &submission.files {
        SubmittedFiles::Unread(files) => Some(to_json(files)?),
        SubmittedFiles::None | SubmittedFiles::Read(_) => None,
    };
    tx.run(
        "INSERT INTO jobs (id, collection_id, collection, first_operation, last_operation, total, processed,
             unchanged, failed, errors, status, created_at, started_at, finished_at, filter_hash, changed, refused, files)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, $14, $15, $9, $16)",
        &values![
            submission.job_id,
            collection.id.0,
            collection.name,
            first_operation,
            last_operation,
            total,
            total - operations - unread,
            unchanged,
            errors.len(),
            to_json(&errors)?,
            <&str>::from(status),
            now,
            finished_at,
            filter_hash,
            changed,
            files
        ],
    ).await?;
    if let Some(webhook) = &submission.webhook {
        webhooks::insert(tx, &submission.job_id, key, webhook, finished_at).await?;
    }
    tx.first(BY_ID, &values![submission.job_id], read).await
}

/// Whether a job waits for the text of its files.
pub(super) async fn is_reading(tx: &mut Tx<'_>, job: &str) -> Result<bool> {
    let reading = "SELECT 1 FROM jobs WHERE id = $1 AND finished_at IS NULL AND first_operation = $2";
    Ok(tx.first(reading, &values![job, UNREAD], |_| Ok(())).await?.is_some())
}

/// Adds to a job that [`is_reading`] what its files became.
pub(super) async fn end_reading(
    tx: &mut Tx<'_>,
    accepted: Accepted,
    submission: &Submission,
    failed: Option<&UnreadFiles>,
    now: Timestamp,
) -> Result<Option<Job>> {
    let Accepted { collection, first_operation, total, changed, unchanged, refused, .. } = accepted;
    let known = "SELECT processed, unchanged, errors FROM jobs WHERE id = $1";
    let known: Option<(u64, u64, String)> = tx
        .first(known, &values![submission.job_id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .await?;
    let Some((processed, unchanged_before, errors)) = known else { return Ok(None) };
    let unreadable = |_| damaged("job", submission.job_id.clone());
    let before: Vec<DocumentError> = serde_json::from_str(&errors).map_err(unreadable)?;
    let errors = [before.as_slice(), &submission.rejected, &refused].concat();
    let operations = collection.next_operation - first_operation;
    let (status, finished_at) = match operations {
        0 => (JobStatus::Completed, Some(now)),
        _ => (JobStatus::Pending, None),
    };
    // what was known when the job began is processed
    tx.run(
        "UPDATE jobs SET first_operation = $2, last_operation = $3, total = $4, processed = $5, unchanged = $6, failed = $7,
             refused = $7, errors = $8, status = $9, started_at = $10, finished_at = $10, changed = $11, files = $12
         WHERE id = $1",
        &values![
            submission.job_id,
            first_operation,
            collection.next_operation - 1,
            processed + total,
            processed + total - operations,
            unchanged_before + unchanged,
            errors.len(),
            to_json(&errors)?,
            <&str>::from(status),
            finished_at,
            changed,
            failed.map(to_json).transpose()?
        ],
    )
    .await?;
    if finished_at.is_some() {
        webhooks::job_ended(tx, &submission.job_id, now).await?;
    }
    tx.first(BY_ID, &values![submission.job_id], read).await
}

/// The jobs with files that are not read or have failed, oldest first. A row that can't be read is left out.
pub(crate) async fn with_files(tx: &mut Tx<'_>, damage: &Damage) -> Result<Vec<JobWithFiles>> {
    let jobs =
        "SELECT id, collection_id, finished_at, files FROM jobs WHERE files IS NOT NULL ORDER BY sequence";
    let found = tx
        .all(jobs, &[], |row| {
            let (job_id, files): (String, String) = (row.get(0)?, row.get(3)?);
            let Ok(files) = serde_json::from_str(&files) else {
                let damaged: Result<()> = Err(damaged("job", job_id));
                return damage.skip(damaged).map(|_| None);
            };
            let collection = CollectionId(row.get(1)?);
            Ok(Some(JobWithFiles { job_id, collection, finished_at: row.get(2)?, files }))
        })
        .await?;
    Ok(found.into_iter().flatten().collect())
}

/// Forgets the files of jobs that have ended.
pub(crate) async fn forget_files(tx: &mut Tx<'_>, jobs: &[String]) -> Result<()> {
    let rows: Vec<_> = jobs.iter().map(|job| values![job]).collect();
    let of_job = "SELECT collection_id FROM jobs WHERE id = $1";
    let found = tx.all_each(of_job, &rows, |_, row| Ok(CollectionId(row.get(0)?))).await?;
    // always in the same order, so that two never wait for each other
    for collection in found.into_iter().collect::<BTreeSet<_>>() {
        tx.lock(Lock::Collection(collection)).await?;
    }
    tx.run_each("UPDATE jobs SET files = NULL WHERE id = $1 AND finished_at IS NOT NULL", &rows).await?;
    Ok(())
}

/// Updates the unfinished jobs of a collection for a new applied sequence of its current generation. Returns those that have ended.
pub(super) async fn advance(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    generation: GenerationId,
    applied_seq: u64,
    now: Timestamp,
) -> Result<Vec<Job>> {
    tx.run(
        "UPDATE jobs SET status = 'running', started_at = $3
         WHERE collection_id = $1 AND finished_at IS NULL AND first_operation <= $2 AND status = 'pending'",
        &values![collection.0, applied_seq, now],
    )
    .await?;
    let ended: Vec<String> = tx.all(
        concat!(
            "UPDATE jobs SET status = CASE WHEN error IS NULL THEN 'completed' ELSE 'failed' END, finished_at = $3, processed = total, chunks = (
                 SELECT coalesce(sum((", chunks_of_operation!(), ")), 0) FROM operations o
                 WHERE o.collection_id = $1 AND o.number BETWEEN jobs.first_operation AND jobs.last_operation)
             WHERE collection_id = $1 AND finished_at IS NULL AND first_operation <= $2 AND last_operation <= $2
             RETURNING id"
        ),
        &values![collection.0, applied_seq, now, generation.0],
        |row| Ok(row.get(0)?),
    ).await?;
    let mut jobs = Vec::with_capacity(ended.len());
    for id in ended {
        webhooks::job_ended(tx, &id, now).await?;
        // a damaged row was updated, and is left out
        match tx.first(BY_ID, &values![id], read).await {
            Err(Error::Damaged { .. }) => {}
            job => jobs.extend(job?),
        }
    }
    Ok(jobs)
}

/// Adds documents that could not be prepared, each with the operation that stored it, to the errors of their unfinished jobs, once per
/// document. Submitting such a document again counts as a change. With `job_error`, the jobs end as failed.
pub(crate) async fn fail_documents(
    tx: &mut Tx<'_>,
    fence: Option<Fence>,
    collection: CollectionId,
    failed: &[(u64, DocumentError)],
    job_error: Option<&str>,
) -> Result<()> {
    tx.lock(Lock::Collection(collection)).await?;
    leases::check(tx, fence).await?;
    for (operation, error) in failed {
        documents::clear_content_hash(tx, collection, &error.document_id, *operation).await?;
        unsearchable::add_failed(tx, collection, *operation, error).await?;
        let job: Option<(String, String)> = tx
            .first(
                "SELECT j.id, j.errors FROM operations o JOIN jobs j ON j.id = o.job_id
             WHERE o.collection_id = $1 AND o.number = $2 AND j.finished_at IS NULL",
                &values![collection.0, operation],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .await?;
        let Some((id, errors)) = job else { continue };
        // a damaged job is not made worse
        let Ok(mut errors) = serde_json::from_str::<Vec<DocumentError>>(&errors) else { continue };
        if errors.iter().any(|listed| listed.document_id == error.document_id) {
            continue;
        }
        errors.push(error.clone());
        tx.run(
            "UPDATE jobs SET errors = $2, failed = failed + 1, error = coalesce(error, $3) WHERE id = $1",
            &values![id, to_json(&errors)?, job_error],
        )
        .await?;
    }
    Ok(())
}

/// Upper bound of the jobs that one transaction deletes.
const PRUNE_BATCH: u64 = 1_000;

/// Deletes finished jobs that are not among the newest `jobs_max`, unless their webhooks are open; `false` when there are more.
pub(super) async fn prune(tx: &mut Tx<'_>, jobs_max: u64) -> Result<bool> {
    let removed: Vec<String> = tx
        .all(
            "DELETE FROM jobs WHERE sequence IN (
                 SELECT sequence FROM jobs WHERE sequence <= (SELECT max(sequence) FROM jobs) - $1
                     AND finished_at IS NOT NULL
                     AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.job_id = jobs.id AND w.ended_at IS NULL)
                 LIMIT $2)
             RETURNING id",
            &values![jobs_max, PRUNE_BATCH],
            |row| Ok(row.get(0)?),
        )
        .await?;
    webhooks::delete(tx, &removed).await?;
    Ok((removed.len() as u64) < PRUNE_BATCH)
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|source| Error::Failed { source: std::sync::Arc::new(source) })
}

/// Cancels the unfinished jobs of a collection that is about to be deleted. `processed` counts what is searchable by then.
pub(super) async fn cancel(tx: &mut Tx<'_>, collection: CollectionId, now: Timestamp) -> Result<()> {
    let applied_seq =
        generations::current(tx, collection).await?.map_or(0, |generation| generation.applied_seq);
    webhooks::jobs_end(tx, collection, now).await?;
    tx.run(
        "UPDATE jobs SET status = 'cancelled', finished_at = $3,
             processed = processed + CASE
                 WHEN first_operation > $2 THEN 0
                 WHEN last_operation < $2 THEN last_operation + 1 - first_operation
                 ELSE $2 + 1 - first_operation END
         WHERE collection_id = $1 AND finished_at IS NULL",
        &values![collection.0, applied_seq, now],
    )
    .await?;
    Ok(())
}

/// Counts the chunks of the operation `o` of the collection $1, in the generation $4. By lookups and not by a join, as other statements over the
/// documents of a job: PostgreSQL's statistics know nothing of a collection that was just filled, and a join could go through all of it for
/// each document.
macro_rules! chunks_of_operation {
    () => {
        "SELECT count(*) FROM chunks c WHERE c.generation_id = $4 AND c.version = o.number AND c.document = (
             SELECT key FROM documents d WHERE d.collection_id = $1 AND d.id = o.document_id AND d.version = o.number)"
    };
}
pub(super) use chunks_of_operation;

pub(super) const BY_ID: &str =
    "SELECT j.id, j.collection, j.status, j.total, j.processed, j.unchanged, j.failed, j.error,
         j.errors, j.created_at, j.started_at, j.finished_at, j.first_operation, j.last_operation, g.indexed,
         j.filter_hash, j.changed, j.chunks, w.attempts, w.due_at, w.ended_at, w.error
     FROM jobs j LEFT JOIN generations g ON g.collection_id = j.collection_id AND g.current = 1
     LEFT JOIN webhooks w ON w.job_id = j.id
     WHERE j.id = $1";

const BEFORE: &str =
    "SELECT j.id, j.collection, j.status, j.total, j.processed, j.unchanged, j.failed, j.error,
         j.errors, j.created_at, j.started_at, j.finished_at, j.first_operation, j.last_operation, g.indexed,
         j.filter_hash, j.changed, j.chunks, w.attempts, w.due_at, w.ended_at, w.error
     FROM jobs j LEFT JOIN generations g ON g.collection_id = j.collection_id AND g.current = 1
     LEFT JOIN webhooks w ON w.job_id = j.id
     WHERE j.sequence < $1 ORDER BY j.sequence DESC";

pub(crate) async fn by_id(tx: &mut Tx<'_>, access: &JobAccess, id: &str) -> Result<Option<Job>> {
    let job = tx
        .first(BY_ID, &values![id], |row| match is_visible_row(access, row)? {
            true => read(row).map(Some),
            false => Ok(None),
        })
        .await;
    Ok(job?.flatten())
}

/// The cursor is the id of the last job of the previous page.
pub(crate) async fn list(
    tx: &mut Tx<'_>,
    access: &JobAccess,
    limit: usize,
    cursor: Option<&str>,
    damage: &Damage,
) -> Result<(Vec<Job>, Option<String>)> {
    let before = match cursor {
        Some(cursor) => sequence_of(tx, access, cursor).await?,
        None => i64::MAX,
    };
    let (mut page, mut next): (Vec<Job>, _) = (Vec::new(), None);
    let visit = |row: &Row<'_>| -> Result<ControlFlow<()>> {
        if damage.skip(is_visible_row(access, row))? != Some(true) {
            return Ok(ControlFlow::Continue(()));
        }
        if page.len() == limit {
            next = page.last().map(|job| job.id.clone());
            return Ok(ControlFlow::Break(()));
        }
        page.extend(damage.skip(read(row))?);
        Ok(ControlFlow::Continue(()))
    };
    tx.scan(BEFORE, &values![before], visit).await?;
    Ok((page, next))
}

async fn sequence_of(tx: &mut Tx<'_>, access: &JobAccess, cursor: &str) -> Result<i64> {
    let unknown = || Error::UnknownCursor(cursor.to_owned());
    by_id(tx, access, cursor).await?.ok_or_else(unknown)?;
    let sequence = "SELECT sequence FROM jobs WHERE id = $1";
    tx.first(sequence, &values![cursor], |row| Ok(row.get(0)?)).await?.ok_or_else(unknown)
}

/// Whether the job of a row in the column order of [`BY_ID`] is visible.
fn is_visible_row(access: &JobAccess, row: &Row<'_>) -> Result<bool> {
    let decoded = row.get::<String>(1).and_then(|collection| Ok((collection, row.get(15)?)));
    let (collection, filter_hash) = decoded.or_damaged("job", || name(row))?;
    Ok(access.is_visible(&collection, filter_hash))
}

pub(super) fn read(row: &Row<'_>) -> Result<Job> {
    let decoded = decode(row).or_damaged("job", || name(row))?;
    decoded.ok_or_else(|| damaged("job", name(row)))
}

/// Identifies a job's row in messages, even if its id cannot be read.
fn name(row: &Row<'_>) -> String {
    row.get(0).unwrap_or_else(|_| "with an unreadable id".to_owned())
}

fn decode(row: &Row<'_>) -> Result<Option<Job>, Undecodable> {
    let (status, errors): (String, String) = (row.get(2)?, row.get(8)?);
    let (Ok(status), Ok(errors)) = (status.parse(), serde_json::from_str(&errors)) else {
        return Ok(None);
    };
    let mut job = Job {
        id: row.get(0)?,
        collection: row.get(1)?,
        status,
        total: row.get(3)?,
        processed: row.get(4)?,
        new: 0,
        changed: row.get(16)?,
        unchanged: row.get(5)?,
        chunks: row.get(17)?,
        failed: row.get(6)?,
        error: row.get(7)?,
        errors,
        created_at: row.get(9)?,
        started_at: row.get(10)?,
        finished_at: row.get(11)?,
        last_operation: row.get(13)?,
        unread: 0,
        webhook: webhooks::read(row, 18)?,
    };
    let first_operation: u64 = row.get(12)?;
    if first_operation == UNREAD {
        job.last_operation = 0;
        job.unread = if job.finished_at.is_none() { job.total.saturating_sub(job.processed) } else { 0 };
        return Ok(Some(job));
    }
    job.new = (job.last_operation + 1).saturating_sub(first_operation + job.changed);
    if job.finished_at.is_none() {
        let applied_seq: Option<u64> = row.get(14)?;
        let last_applied = applied_seq.unwrap_or(0).min(job.last_operation);
        job.processed += (last_applied + 1).saturating_sub(first_operation);
    }
    Ok(Some(job))
}
