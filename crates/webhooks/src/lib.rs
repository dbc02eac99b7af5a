//! Webhooks: each reports the end of a job to a receiver. The store knows which are due, so that a restart loses none; an attempt that was
//! interrupted is repeated. A receiver that does not answer delays no other one: attempts have a time limit, and few of them go to one
//! origin at a time.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::Rng as _;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use weir_api::{ErrorCode, Invalid, JobReply};
use weir_config::table::Webhooks as Settings;
use weir_store::{DueWebhook, Job, NewWebhook, Store, WebhookOutcome};
use weir_telemetry::metrics::Metrics;
use weir_upstream::{WebhookClient, WebhookError, WebhookSecret, WebhookUrl};

/// Attempts at one time, and those to one origin.
const ATTEMPTS_AT_ONCE: usize = 64;
const ATTEMPTS_PER_ORIGIN: usize = 4;
/// The time that an attempt has beside its time limit, until it is thought to be interrupted.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// The longest wait for the next attempt that is due; others may add webhooks to the store.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The wait after an error of the store, and while all that is due waits for receivers that are being called.
const PAUSE: Duration = Duration::from_secs(1);
/// Further attempts wait this many times as long, up to the longest wait.
const BACKOFF: f64 = 4.0;
const RETRY_AFTER_MAX_S: f64 = 4.0 * 3600.0;
/// Errors of documents that a message lists.
const ERRORS_LISTED_MAX: usize = 100;

/// The webhook of a request.
///
/// # Errors
/// `invalid_parameter` for an address that is not allowed, and without `webhooks.secret`.
pub fn checked(url: &str, settings: &Settings) -> Result<NewWebhook, Invalid> {
    let refused = |reason: &str| {
        let message = format!("the address {reason}");
        Invalid::at(ErrorCode::InvalidParameter, &["webhook_url"], message)
    };
    if settings.secret.is_none() {
        let message = "webhooks are not signed without a secret; the operator of the gateway sets one with `webhooks.secret`";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["webhook_url"], message));
    }
    let parsed = WebhookUrl::parse(url, settings.allow_private_addresses).map_err(refused)?;
    Ok(NewWebhook { url: url.to_owned(), origin: parsed.origin(), open_max: settings.open_max })
}

/// The parts of the sender of webhooks.
pub struct SenderParts {
    /// Knows which webhooks are due.
    pub store: Store,
    /// Counts attempts.
    pub metrics: Metrics,
    /// The secret, and limits.
    pub settings: Settings,
    /// A job as the API shows it.
    pub render: fn(Job) -> JobReply,
    /// Tells that a webhook was added or is due.
    pub due: Arc<Notify>,
    /// Ends the sending.
    pub stopping: CancellationToken,
}

/// Starts to send what is due, until the gateway stops.
pub fn start(parts: SenderParts) {
    let SenderParts { store, metrics, settings, render, due, stopping } = parts;
    let secret = settings.secret.as_ref().and_then(|secret| secret.secret().ok());
    let Some(secret) = secret.and_then(|secret| WebhookSecret::parse(secret.reveal())) else { return };
    let timeout = Duration::from_millis(settings.timeout_ms);
    let client = match WebhookClient::new(secret, settings.allow_private_addresses, timeout) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "webhooks are not sent");
            return;
        }
    };
    let sender = Sender { store, metrics, client, timeout, settings, render, calling: Calling::default() };
    tokio::spawn(sender.run(due, stopping));
}

/// Now, in unix seconds.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Sends webhooks.
#[derive(Clone)]
struct Sender {
    store: Store,
    metrics: Metrics,
    client: WebhookClient,
    timeout: Duration,
    settings: Settings,
    render: fn(Job) -> JobReply,
    calling: Calling,
}

impl Sender {
    async fn run(self, due: Arc<Notify>, stopping: CancellationToken) {
        let mut attempts = JoinSet::new();
        loop {
            let added = due.notified();
            let wait = match self.begin_due(&mut attempts).await {
                Ok(wait) => wait,
                Err(weir_store::Error::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "the webhooks that are due were not read from the store");
                    PAUSE
                }
            };
            tokio::select! {
                () = stopping.cancelled() => return,
                () = added => {}
                Some(_) = attempts.join_next(), if !attempts.is_empty() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Begins attempts of what is due. Returns the time until the next one is.
    async fn begin_due(&self, attempts: &mut JoinSet<()>) -> weir_store::Result<Duration> {
        // those that have ended
        while attempts.try_join_next().is_some() {}
        let free = ATTEMPTS_AT_ONCE.saturating_sub(attempts.len());
        let (Some(due_at), now) = (self.store.next_webhook_due().await?, now()) else {
            return Ok(LOOK_EVERY);
        };
        if due_at > now {
            return Ok(Duration::from_secs_f64(due_at - now).min(LOOK_EVERY));
        }
        let until = now + (self.timeout + LEASE_MARGIN).as_secs_f64();
        let mut counts = self.calling.counts();
        let may_send = move |origin: &str| {
            let count = counts.entry(origin.to_owned()).or_default();
            *count += 1;
            *count <= ATTEMPTS_PER_ORIGIN
        };
        let claimed = match free {
            0 => Vec::new(),
            free => self.store.claim_webhooks(now, until, free, may_send).await?,
        };
        let wait = if claimed.is_empty() { PAUSE } else { Duration::ZERO };
        for webhook in claimed {
            let (sender, call) = (self.clone(), self.calling.begin(&webhook.origin));
            attempts.spawn(async move {
                sender.attempt(webhook).await;
                drop(call);
            });
        }
        Ok(wait)
    }

    async fn attempt(&self, webhook: DueWebhook) {
        let (job, origin, attempt) = (webhook.job.id.clone(), webhook.origin.clone(), webhook.attempt);
        let outcome = match self.send(&webhook).await {
            Ok(()) => {
                tracing::info!(job, origin, attempt, "webhook delivered");
                self.metrics.webhook_attempt("delivered");
                WebhookOutcome::Delivered
            }
            Err(error) => {
                let reason = error.to_string();
                match self.retry_at(&webhook, &error) {
                    Some(at) => {
                        tracing::info!(
                            job,
                            origin,
                            attempt,
                            reason,
                            retry_after_s = at - now(),
                            "webhook failed; it is sent again"
                        );
                        self.metrics.webhook_attempt("retried");
                        WebhookOutcome::Retry(at, reason)
                    }
                    None => {
                        tracing::warn!(job, origin, attempt, reason, "webhook failed; it is given up");
                        self.metrics.webhook_attempt("given_up");
                        WebhookOutcome::GivenUp(reason)
                    }
                }
            }
        };
        if let Err(error) = self.store.finish_webhook(&job, attempt, outcome, now()).await {
            tracing::warn!(job, %error, "the outcome of a webhook was not stored; it is sent again");
        }
    }

    async fn send(&self, webhook: &DueWebhook) -> Result<(), WebhookError> {
        let url = WebhookUrl::parse(&webhook.url, self.settings.allow_private_addresses)
            .map_err(|_| WebhookError::PrivateAddress)?;
        let body = serde_json::to_vec(&Message::of(webhook, self.render)).unwrap_or_default();
        self.client.send(&url, &webhook.job.id, now() as u64, body).await
    }

    /// When the attempt after this one is due; `None` if there is none.
    fn retry_at(&self, webhook: &DueWebhook, error: &WebhookError) -> Option<f64> {
        let ended = webhook.job.finished_at.unwrap_or_default();
        let wait = wait_after(webhook.attempt, self.settings.retry_after_ms as f64 / 1e3);
        let at = now() + wait * rand::rng().random_range(1.0..1.1);
        let is_over = webhook.attempt >= self.settings.attempts_max
            || at > ended + self.settings.give_up_after_s as f64;
        (!is_over && !error.is_final()).then_some(at)
    }
}

/// The wait after an attempt that failed, in seconds.
fn wait_after(attempt: u64, first: f64) -> f64 {
    let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
    (first * BACKOFF.powi(exponent)).min(RETRY_AFTER_MAX_S)
}

/// The message to a receiver.
#[derive(Serialize)]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    /// When the job ended, in unix seconds.
    timestamp: Option<f64>,
    data: JobReply,
}

impl Message {
    fn of(webhook: &DueWebhook, render: fn(Job) -> JobReply) -> Message {
        let mut data = render(Job { webhook: None, ..webhook.job.clone() });
        data.errors.truncate(ERRORS_LISTED_MAX);
        Message { kind: format!("job.{}", <&str>::from(data.status)), timestamp: data.finished_at, data }
    }
}

/// The attempts that are being made, by origin.
#[derive(Clone, Default)]
struct Calling(Arc<Mutex<HashMap<String, usize>>>);

/// An attempt that is being made.
struct Attempt {
    calling: Calling,
    origin: String,
}

impl Calling {
    fn counts(&self) -> HashMap<String, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self, origin: &str) -> Attempt {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(origin.to_owned()).or_default() += 1;
        Attempt { calling: self.clone(), origin: origin.to_owned() }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut counts = self.calling.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_four_hours() {
        let waits: Vec<f64> = (1..=8).map(|attempt| wait_after(attempt, 5.0)).collect();
        assert_eq!(waits, [5.0, 20.0, 80.0, 320.0, 1280.0, 5120.0, 14_400.0, 14_400.0]);
        assert_eq!(wait_after(u64::MAX, 5.0), 14_400.0);
    }

    #[test]
    fn calls_are_counted_until_they_end() {
        let calling = Calling::default();
        let first = calling.begin("a");
        let second = calling.begin("a");
        assert_eq!(calling.counts(), HashMap::from([("a".to_owned(), 2)]));
        drop((first, second));
        assert!(calling.counts().is_empty());
    }
}
