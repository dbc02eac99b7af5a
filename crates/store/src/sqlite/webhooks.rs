//! Webhooks of jobs: inserted with the job, due when it ends, claimed for each attempt.

use rusqlite::{Connection, Row, params};
use weir_policy::KeyId;

use super::jobs;
use super::statements::Statements as _;
use crate::{CollectionId, DueWebhook, Error, NewWebhook, Result, Timestamp, Webhook, WebhookOutcome};

/// Inserts the webhook of a job; `due_at` is when the job ended, if it has.
pub(super) fn insert(
    connection: &Connection,
    job: &str,
    caller: Option<KeyId>,
    webhook: &NewWebhook,
    due_at: Option<Timestamp>,
) -> Result<()> {
    let caller = caller.map_or(0, |key| key.0);
    let open = "SELECT count(*) FROM webhooks WHERE ended_at IS NULL AND caller = ?1";
    let open: Option<u64> = connection.first(open, [caller], |row| Ok(row.get(0)?))?;
    if open.unwrap_or(0) >= webhook.open_max {
        return Err(Error::TooManyWebhooks(webhook.open_max));
    }
    connection.run(
        "INSERT INTO webhooks (job_id, caller, url, origin, attempts, due_at) VALUES (?1, ?2, ?3, ?4, 0, ?5)",
        params![job, caller, webhook.url, webhook.origin, due_at],
    )?;
    Ok(())
}

/// Makes the webhook of a job due, which has ended.
pub(super) fn job_ended(connection: &Connection, job: &str, now: Timestamp) -> Result<()> {
    let due = "UPDATE webhooks SET due_at = ?2 WHERE job_id = ?1 AND ended_at IS NULL AND due_at IS NULL";
    connection.run(due, params![job, now])?;
    Ok(())
}

/// Makes the webhooks of a collection's unfinished jobs due, which are about to be cancelled.
pub(super) fn jobs_end(connection: &Connection, collection: CollectionId, now: Timestamp) -> Result<()> {
    connection.run(
        "UPDATE webhooks SET due_at = ?2 WHERE ended_at IS NULL AND due_at IS NULL AND job_id IN (
             SELECT id FROM jobs WHERE collection_id = ?1 AND finished_at IS NULL)",
        params![collection.0, now],
    )?;
    Ok(())
}

/// Deletes the webhook of a job that is deleted.
pub(super) fn delete(connection: &Connection, job: &str) -> Result<()> {
    connection.run("DELETE FROM webhooks WHERE job_id = ?1", [job])?;
    Ok(())
}

/// When the next attempt of any webhook is due.
pub(crate) fn next_due(connection: &Connection) -> Result<Option<Timestamp>> {
    let next = "SELECT min(due_at) FROM webhooks WHERE ended_at IS NULL";
    Ok(connection.first(next, [], |row| Ok(row.get(0)?))?.flatten())
}

/// Begins attempts of due webhooks, the longest due first, at most `limit`, of those whose origin `may_send` allows. Each is due again at
/// `until` unless its attempt is finished before.
pub(crate) fn claim(
    connection: &Connection,
    now: Timestamp,
    until: Timestamp,
    limit: usize,
    mut may_send: impl FnMut(&str) -> bool,
) -> Result<Vec<DueWebhook>> {
    let due =
        "SELECT job_id, origin FROM webhooks WHERE ended_at IS NULL AND due_at <= ?1 ORDER BY due_at, job_id";
    let due: Vec<(String, String)> = connection.all(due, [now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut claimed = Vec::new();
    for (id, origin) in due {
        if claimed.len() == limit {
            break;
        }
        // not asked beyond the limit: the answer counts the attempt
        if !may_send(&origin) {
            continue;
        }
        let claim = "UPDATE webhooks SET due_at = ?2, attempts = attempts + 1 WHERE job_id = ?1 RETURNING url, attempts";
        let found = connection.first(claim, params![id, until], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((url, attempt)) = found else { continue };
        match connection.first(jobs::BY_ID, [&id], jobs::read) {
            Ok(Some(job)) => claimed.push(DueWebhook { job, url, origin, attempt }),
            // its row is damaged, or was deleted from outside
            Ok(None) | Err(Error::Damaged { .. }) => {
                let unreadable = WebhookOutcome::GivenUp("the job cannot be read from the store".to_owned());
                finish(connection, &id, attempt, &unreadable, now)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(claimed)
}

/// Records what became of an attempt, unless a later one was begun.
pub(crate) fn finish(
    connection: &Connection,
    job: &str,
    attempt: u64,
    outcome: &WebhookOutcome,
    now: Timestamp,
) -> Result<()> {
    let (due_at, ended_at, error) = match outcome {
        WebhookOutcome::Delivered => (None, Some(now), None),
        WebhookOutcome::Retry(due_at, error) => (Some(*due_at), None, Some(error)),
        WebhookOutcome::GivenUp(error) => (None, Some(now), Some(error)),
    };
    connection.run(
        "UPDATE webhooks SET due_at = ?3, ended_at = ?4, error = ?5
         WHERE job_id = ?1 AND attempts = ?2 AND ended_at IS NULL",
        params![job, attempt, due_at, ended_at, error],
    )?;
    Ok(())
}

/// The webhook of a job's row, whose columns for it begin at `first`.
pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Webhook>> {
    let Some(attempts) = row.get(first)? else { return Ok(None) };
    let (due_at, ended_at) = (row.get(first + 1)?, row.get(first + 2)?);
    Ok(Some(Webhook { attempts, due_at, ended_at, error: row.get(first + 3)? }))
}
