//! Steering of jobs: cancellation, another attempt of documents that are not searchable, and the state of each document.

use std::ops::ControlFlow;

use super::collections::CollectionRow;
use super::jobs::{self, Accepted};
use super::operations::NewOperation;
use super::{documents, generations, leases, operations, unsearchable, webhooks};
use crate::access::{Access, JobAccess};
use crate::tx::{AsValue as _, Lock, Row, Tx, values};
use crate::{
    CollectionId, DocumentError, Error, Fence, Job, JobDocument, JobDocumentState, JobDocumentsQuery,
    JobStatus, NewWebhook, OperationKind, Result, Submission, Timestamp, UnreadFiles,
};

/// Cancels an unfinished job: those of its documents that are not in the index are not made searchable. `None` if there is no such job.
pub(crate) async fn cancel(
    tx: &mut Tx<'_>,
    fence: Option<Fence>,
    collection: CollectionId,
    job: &str,
    applied_seq: u64,
    applied_early: &[u64],
    now: Timestamp,
) -> Result<Option<Job>> {
    tx.lock(Lock::Collection(collection)).await?;
    leases::check(tx, fence).await?;
    tx.run("DELETE FROM cancellations WHERE job_id = $1", &values![job]).await?;
    let range = "SELECT first_operation, last_operation FROM jobs
         WHERE collection_id = $1 AND id = $2 AND finished_at IS NULL";
    let range: Option<(u64, u64)> =
        tx.first(range, &values![collection.0, job], |row| Ok((row.get(0)?, row.get(1)?))).await?;
    let Some((first, last)) = range else { return Ok(None) };
    let generation = generations::current(tx, collection).await?.map_or(0, |current| current.id.0);
    // while an index is rebuilt, the generation knows more; while the next one is made, that of before, which is searched
    let indexed = "SELECT coalesce(max(indexed), 0) FROM generations WHERE collection_id = $1";
    let recorded: Option<u64> = tx.first(indexed, &values![collection.0], |row| Ok(row.get(0)?)).await?;
    let recorded = recorded.unwrap_or_default();
    let from = first.max(applied_seq.max(recorded) + 1);
    let cancelled = unsearchable::add_cancelled(tx, collection, from..=last, applied_early).await?;
    tx.run(
        concat!(
            "UPDATE jobs SET status = $3, finished_at = $7,
                 processed = CASE WHEN first_operation = $6 THEN processed ELSE total - $5 END, chunks = (
                 SELECT coalesce(sum((", jobs::chunks_of_operation!(), ")), 0) FROM operations o
                 WHERE o.collection_id = $1 AND o.number BETWEEN jobs.first_operation AND jobs.last_operation
                     AND (SELECT 1 FROM unsearchable u WHERE u.collection_id = $1 AND u.number = o.number) IS NULL)
             WHERE collection_id = $1 AND id = $2"
        ),
        &values![collection.0, job, <&str>::from(JobStatus::Cancelled), generation, cancelled, jobs::UNREAD, now],
    ).await?;
    webhooks::job_ended(tx, job, now).await?;
    tx.first(jobs::BY_ID, &values![job], jobs::read).await
}

/// See [`Store::request_cancellation`](crate::Store::request_cancellation).
pub(crate) async fn request_cancellation(tx: &mut Tx<'_>, collection: CollectionId, job: &str) -> Result<()> {
    tx.lock(Lock::Collection(collection)).await?;
    // of jobs that have ended since they were asked for
    tx.run(
        "DELETE FROM cancellations WHERE collection_id = $1 AND NOT EXISTS (
             SELECT 1 FROM jobs j WHERE j.id = cancellations.job_id AND j.finished_at IS NULL)",
        &values![collection.0],
    )
    .await?;
    tx.run(
        "INSERT INTO cancellations (job_id, collection_id)
         SELECT id, collection_id FROM jobs WHERE id = $1 AND collection_id = $2 AND finished_at IS NULL
         ON CONFLICT DO NOTHING",
        &values![job, collection.0],
    )
    .await?;
    Ok(())
}

/// See [`Store::cancellation_requests`](crate::Store::cancellation_requests).
pub(crate) async fn cancellation_requests(tx: &mut Tx<'_>, collection: CollectionId) -> Result<Vec<Job>> {
    let requested = "SELECT c.job_id FROM cancellations c JOIN jobs j ON j.id = c.job_id
         WHERE c.collection_id = $1 AND j.finished_at IS NULL ORDER BY j.sequence";
    let ids: Vec<String> = tx.all(requested, &values![collection.0], |row| Ok(row.get(0)?)).await?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(tx.first(jobs::BY_ID, &values![id], jobs::read).await?);
    }
    Ok(found)
}

/// Stores the documents of a job that are not searchable again, as those of the new job `new_job`, as far as they have no later version and
/// the caller sees them. `None` if there are none.
pub(crate) async fn retry(
    tx: &mut Tx<'_>,
    access: &Access,
    job: &str,
    new_job: &str,
    webhook: Option<NewWebhook>,
    now: Timestamp,
) -> Result<Option<Job>> {
    let collection = access.collection;
    tx.lock(Lock::Collection(collection)).await?;
    if webhook.is_some() {
        tx.lock(Lock::Caller(access.key)).await?;
    }
    let Some(mut row) = CollectionRow::by_id(tx, collection).await? else { return Ok(None) };
    access.check_known(row.next_operation - 1)?;
    let found: Vec<(u64, String)> = tx.all(
        "SELECT o.number, o.document_id FROM operations o WHERE o.collection_id = $1
             AND o.number >= (SELECT first_operation FROM jobs WHERE id = $2 AND collection_id = $1)
             AND o.number <= (SELECT last_operation FROM jobs WHERE id = $2 AND collection_id = $1)
             AND o.number = (SELECT u.number FROM unsearchable u WHERE u.collection_id = $1 AND u.number = o.number)
             AND o.number = (SELECT d.version FROM documents d WHERE d.collection_id = $1 AND d.id = o.document_id)
         ORDER BY o.number",
        &values![collection.0, job],
        |row| Ok((row.get(0)?, row.get(1)?)),
    ).await?;
    let first_operation = row.next_operation;
    for (version, id) in found {
        let number = row.next_operation;
        if documents::is_hidden(tx, access, &id).await?
            || !documents::renew(tx, collection, &id, number).await?
        {
            continue;
        }
        operations::prune_superseded(tx, collection, &[version]).await?;
        let kind = OperationKind::Put;
        let again = NewOperation { number, kind, document_id: &id, job: Some(new_job) };
        operations::insert(tx, collection, &[again]).await?;
        row.next_operation += 1;
    }
    let total = row.next_operation - first_operation;
    if total == 0 {
        return Ok(None);
    }
    row.save(tx).await?;
    let accepted = Accepted {
        collection: row,
        first_operation,
        total,
        changed: total,
        unchanged: 0,
        refused: Vec::new(),
        filter_hash: access.filter_hash(),
        key: access.key,
    };
    let submission = Submission { job_id: new_job.to_owned(), webhook, ..Submission::default() };
    jobs::insert(tx, accepted, &submission, now).await
}

/// The documents of a job: first those that were not stored, then the stored ones in the order of the request. `None` if there is no such
/// job for the caller. A cursor is the number of the next entry.
pub(crate) async fn documents(
    tx: &mut Tx<'_>,
    access: &JobAccess,
    id: &str,
    query: &JobDocumentsQuery,
) -> Result<Option<(Vec<JobDocument>, Option<String>)>> {
    let Some(job) = jobs::by_id(tx, access, id).await? else { return Ok(None) };
    let start = match &query.cursor {
        Some(cursor) => cursor.parse().map_err(|_| Error::UnknownCursor(cursor.clone()))?,
        None => 0,
    };
    let columns =
        "SELECT collection_id, first_operation, refused, CASE first_operation WHEN $2 THEN files END
         FROM jobs WHERE id = $1";
    let found = tx
        .first(columns, &values![id, jobs::UNREAD], |row| {
            Ok((
                CollectionId(row.get(0)?),
                row.get::<u64>(1)?,
                row.get::<Option<usize>>(2)?,
                row.get::<Option<String>>(3)?,
            ))
        })
        .await?;
    let Some((collection, first_operation, refused, files)) = found else { return Ok(None) };
    let refused = refused.unwrap_or(job.errors.len()).min(job.errors.len());
    let mut page = Page { query, found: Vec::new(), next: None };
    for (number, error) in job.errors[..refused].iter().enumerate().skip(start) {
        if !page.add(number, not_stored(error)) {
            return Ok(Some(page.finish()));
        }
    }
    if first_operation == jobs::UNREAD {
        let state = match job.finished_at {
            None => JobDocumentState::Pending,
            Some(_) => JobDocumentState::Cancelled,
        };
        let files: UnreadFiles =
            files.and_then(|files| serde_json::from_str(&files).ok()).unwrap_or_default();
        for (number, file) in files.files.into_iter().enumerate().skip(start.saturating_sub(refused)) {
            let document = JobDocument { document_id: file.document_id, state, code: None, message: None };
            if !page.add(refused + number, document) {
                break;
            }
        }
        return Ok(Some(page.finish()));
    }
    let recorded = generations::current(tx, collection).await?.map_or(0, |current| current.applied_seq);
    let skipped = (start.saturating_sub(refused) as u64).min(job.last_operation);
    let from = first_operation + skipped;
    let visit = |row: &Row<'_>| -> Result<ControlFlow<()>> {
        let (number, document) = stored(row, recorded, query)?;
        Ok(match page.add(refused + (number - first_operation) as usize, document) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    };
    tx.scan(DOCUMENTS, &values![collection.0, from, job.last_operation], visit).await?;
    Ok(Some(page.finish()))
}

const DOCUMENTS: &str =
    "SELECT o.number, o.document_id, (SELECT version FROM documents d WHERE d.collection_id = $1 AND d.id = o.document_id),
         (SELECT state FROM unsearchable u WHERE u.collection_id = $1 AND u.number = o.number),
         (SELECT code FROM unsearchable u WHERE u.collection_id = $1 AND u.number = o.number),
         (SELECT message FROM unsearchable u WHERE u.collection_id = $1 AND u.number = o.number) FROM operations o
     WHERE o.collection_id = $1 AND o.number BETWEEN $2 AND $3 ORDER BY o.number";

/// A page that is being filled.
struct Page<'a> {
    query: &'a JobDocumentsQuery,
    found: Vec<JobDocument>,
    next: Option<String>,
}

impl Page<'_> {
    /// Adds the entry `number` if its state is asked for; `false` if the page is full.
    fn add(&mut self, number: usize, document: JobDocument) -> bool {
        if self.query.state.is_some_and(|state| state != document.state) {
            return true;
        }
        if self.found.len() == self.query.limit {
            self.next = Some(number.to_string());
            return false;
        }
        self.found.push(document);
        true
    }

    fn finish(self) -> (Vec<JobDocument>, Option<String>) {
        (self.found, self.next)
    }
}

fn not_stored(error: &DocumentError) -> JobDocument {
    JobDocument {
        document_id: error.document_id.clone(),
        state: JobDocumentState::Failed,
        code: Some(error.code.clone()),
        message: Some(error.message.clone()),
    }
}

/// The operation of a row, and its document.
fn stored(row: &Row<'_>, recorded: u64, query: &JobDocumentsQuery) -> Result<(u64, JobDocument)> {
    let (number, version): (u64, Option<u64>) = (row.get(0)?, row.get(2)?);
    let unsearchable: Option<String> = row.get(3)?;
    let state = match unsearchable.and_then(|state| state.parse().ok()) {
        Some(state) => state,
        None if version != Some(number) => JobDocumentState::Replaced,
        None if number <= recorded || query.applied_early.contains(&number) => JobDocumentState::Searchable,
        None => JobDocumentState::Pending,
    };
    let document = JobDocument { document_id: row.get(1)?, state, code: row.get(4)?, message: row.get(5)? };
    Ok((number, document))
}
