//! Webhooks: calls that report the end of a job to a receiver.

use serde::{Deserialize, Serialize};

use crate::{Job, Timestamp};

/// The webhook of a new job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// The receiver's address.
    pub url: String,
    /// Scheme, host and port of the address: receivers with the same origin fail together.
    pub origin: String,
    /// Webhooks that one caller may have which are not delivered or given up.
    pub open_max: u64,
}

/// The state of a job's webhook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Webhook {
    /// Attempts that were begun.
    pub attempts: u64,
    /// When the next attempt is due; `None` before the job ends.
    pub due_at: Option<Timestamp>,
    /// When it was delivered or given up.
    pub ended_at: Option<Timestamp>,
    /// Why the last attempt failed, or why it was given up.
    pub error: Option<String>,
}

/// A webhook that is to be sent now.
#[derive(Debug, Clone, PartialEq)]
pub struct DueWebhook {
    /// The job, which has ended.
    pub job: Job,
    /// The receiver's address.
    pub url: String,
    /// Scheme, host and port of the address.
    pub origin: String,
    /// The number of this attempt, from 1.
    pub attempt: u64,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum WebhookOutcome {
    /// The receiver took it.
    Delivered,
    /// It is tried again at this time.
    Retry(Timestamp, String),
    /// It is given up.
    GivenUp(String),
}
