//! Webhooks of jobs: inserted with the job, due when it ends, claimed for each attempt.

use weir_policy::KeyId;

use super::jobs;
use crate::tx::{AsValue as _, Row, Tx, Undecodable, values};
use crate::{CollectionId, DueWebhook, Error, NewWebhook, Result, Timestamp, Webhook, WebhookOutcome};

/// Inserts the webhook of a job; `due_at` is when the job ended, if it has. The caller is locked.
pub(super) async fn insert(
    tx: &mut Tx<'_>,
    job: &str,
    caller: Option<KeyId>,
    webhook: &NewWebhook,
    due_at: Option<Timestamp>,
) -> Result<()> {
    let caller = caller.map_or(0, |key| key.0);
    let open = "SELECT count(*) FROM webhooks WHERE ended_at IS NULL AND caller = $1";
    let open: Option<u64> = tx.first(open, &values![caller], |row| Ok(row.get(0)?)).await?;
    if open.unwrap_or(0) >= webhook.open_max {
        return Err(Error::TooManyWebhooks(webhook.open_max));
    }
    tx.run(
        "INSERT INTO webhooks (job_id, caller, url, origin, attempts, due_at) VALUES ($1, $2, $3, $4, 0, $5)",
        &values![job, caller, webhook.url, webhook.origin, due_at],
    )
    .await?;
    Ok(())
}

/// Makes the webhook of a job due, which has ended.
pub(super) async fn job_ended(tx: &mut Tx<'_>, job: &str, now: Timestamp) -> Result<()> {
    let due = "UPDATE webhooks SET due_at = $2 WHERE job_id = $1 AND ended_at IS NULL AND due_at IS NULL";
    tx.run(due, &values![job, now]).await?;
    Ok(())
}

/// Makes the webhooks of a collection's unfinished jobs due, which are about to be cancelled.
pub(super) async fn jobs_end(tx: &mut Tx<'_>, collection: CollectionId, now: Timestamp) -> Result<()> {
    tx.run(
        "UPDATE webhooks SET due_at = $2 WHERE ended_at IS NULL AND due_at IS NULL AND job_id IN (
             SELECT id FROM jobs WHERE collection_id = $1 AND finished_at IS NULL)",
        &values![collection.0, now],
    )
    .await?;
    Ok(())
}

/// Deletes the webhooks of jobs that are deleted.
pub(super) async fn delete(tx: &mut Tx<'_>, jobs: &[String]) -> Result<()> {
    let rows: Vec<_> = jobs.iter().map(|job| values![job]).collect();
    tx.run_each("DELETE FROM webhooks WHERE job_id = $1", &rows).await?;
    Ok(())
}

/// When the next attempt of any webhook is due.
pub(crate) async fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>> {
    let next = "SELECT min(due_at) FROM webhooks WHERE ended_at IS NULL";
    Ok(tx.first(next, &[], |row| Ok(row.get(0)?)).await?.flatten())
}

/// Begins attempts of due webhooks, the longest due first, at most `limit`, of those whose origin `may_send` allows. Each is due again at
/// `until` unless its attempt is finished before.
pub(crate) async fn claim(
    tx: &mut Tx<'_>,
    now: Timestamp,
    until: Timestamp,
    limit: usize,
    mut may_send: impl FnMut(&str) -> bool + Send,
) -> Result<Vec<DueWebhook>> {
    let due =
        "SELECT job_id, origin FROM webhooks WHERE ended_at IS NULL AND due_at <= $1 ORDER BY due_at, job_id";
    let due: Vec<(String, String)> = tx.all(due, &values![now], |row| Ok((row.get(0)?, row.get(1)?))).await?;
    let mut claimed = Vec::new();
    for (id, origin) in due {
        if claimed.len() == limit {
            break;
        }
        // not asked beyond the limit: the answer counts the attempt
        if !may_send(&origin) {
            continue;
        }
        // another gateway may have claimed it since
        let claim = "UPDATE webhooks SET due_at = $2, attempts = attempts + 1
             WHERE job_id = $1 AND ended_at IS NULL AND due_at <= $3 RETURNING url, attempts";
        let found: Option<(String, u64)> =
            tx.first(claim, &values![id, until, now], |row| Ok((row.get(0)?, row.get(1)?))).await?;
        let Some((url, attempt)) = found else { continue };
        match tx.first(jobs::BY_ID, &values![id], jobs::read).await {
            Ok(Some(job)) => claimed.push(DueWebhook { job, url, origin, attempt }),
            // its row is damaged, or was deleted from outside
            Ok(None) | Err(Error::Damaged { .. }) => {
                let unreadable = WebhookOutcome::GivenUp("the job cannot be read from the store".to_owned());
                finish(tx, &id, attempt, &unreadable, now).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(claimed)
}

/// Records what became of an attempt, unless a later one was begun.
pub(crate) async fn finish(
    tx: &mut Tx<'_>,
    job: &str,
    attempt: u64,
    outcome: &WebhookOutcome,
    now: Timestamp,
) -> Result<()> {
    let (due_at, ended_at, error) = match outcome {
        WebhookOutcome::Delivered => (None, Some(now), None),
        WebhookOutcome::Retry(due_at, error) => (Some(*due_at), None, Some(error.as_str())),
        WebhookOutcome::GivenUp(error) => (None, Some(now), Some(error.as_str())),
    };
    tx.run(
        "UPDATE webhooks SET due_at = $3, ended_at = $4, error = $5
         WHERE job_id = $1 AND attempts = $2 AND ended_at IS NULL",
        &values![job, attempt, due_at, ended_at, error],
    )
    .await?;
    Ok(())
}

/// The webhook of a job's row, whose columns for it begin at `first`.
pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Option<Webhook>, Undecodable> {
    let Some(attempts) = row.get(first)? else { return Ok(None) };
    let (due_at, ended_at) = (row.get(first + 1)?, row.get(first + 2)?);
    Ok(Some(Webhook { attempts, due_at, ended_at, error: row.get(first + 3)? }))
}
