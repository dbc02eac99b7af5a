//! Why an upstream gave no embeddings.

use std::time::Duration;

/// A request to an upstream that failed. `upstream` is the model's id and the server's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// It can't be reached, or the connection broke.
    #[error(
        "the upstream of model {upstream} can't be reached: {reason}; see whether it runs and `url` is right"
    )]
    Connect {
        /// Who.
        upstream: String,
        /// What happened.
        reason: String,
    },
    /// It did not answer in time.
    #[error("the upstream of model {upstream} did not answer within {} ms", waited.as_millis())]
    Timeout {
        /// Who.
        upstream: String,
        /// How long it was given.
        waited: Duration,
    },
    /// It takes no more for now.
    #[error("the upstream of model {upstream} takes no more requests for now: {said}")]
    Limited {
        /// Who.
        upstream: String,
        /// What it said.
        said: String,
        /// When it may be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// It answered with another status than success.
    #[error("the upstream of model {upstream} answered {status}: {said}{}", remedy(*status))]
    Status {
        /// Who.
        upstream: String,
        /// The status.
        status: u16,
        /// What it said.
        said: String,
        /// When it may be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// Its reply is not what was asked for.
    #[error("the upstream of model {upstream} answered with something else than was asked for: {reason}")]
    Reply {
        /// Who.
        upstream: String,
        /// What is wrong.
        reason: String,
    },
    /// It failed so often that it is left alone for a while.
    #[error("the upstream of model {upstream} failed too often and is not asked for {} ms", retry_after.as_millis())]
    Open {
        /// Who.
        upstream: String,
        /// When it is asked again.
        retry_after: Duration,
    },
}

/// What can be done about a status.
fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "; check its `api_key`",
        404 => "; check its `url` and `model`",
        413 => "; lower `texts_per_request_max` or `bytes_per_request_max`",
        300..=399 => "; redirections are not followed: correct its `url`",
        _ => "",
    }
}

impl UpstreamError {
    /// Whether the same request can succeed in a moment.
    pub fn is_transient(&self) -> bool {
        match self {
            UpstreamError::Connect { .. } | UpstreamError::Timeout { .. } | UpstreamError::Limited { .. } => {
                true
            }
            UpstreamError::Status { status, .. } => *status == 408 || (*status >= 500 && *status != 501),
            UpstreamError::Reply { .. } | UpstreamError::Open { .. } => false,
        }
    }

    /// Whether it may be the text that the upstream does not take; it may be every text, too.
    pub fn may_be_the_text(&self) -> bool {
        match self {
            UpstreamError::Status { status, .. } => matches!(status, 400 | 413 | 422),
            UpstreamError::Reply { .. } => true,
            UpstreamError::Connect { .. }
            | UpstreamError::Timeout { .. }
            | UpstreamError::Limited { .. }
            | UpstreamError::Open { .. } => false,
        }
    }

    /// Whether the upstream itself is in trouble.
    pub(super) fn is_failure(&self) -> bool {
        match self {
            UpstreamError::Connect { .. } | UpstreamError::Timeout { .. } => true,
            UpstreamError::Status { status, .. } => *status >= 500,
            UpstreamError::Limited { .. } | UpstreamError::Reply { .. } | UpstreamError::Open { .. } => false,
        }
    }

    /// When it may be asked again, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            UpstreamError::Limited { retry_after, .. } | UpstreamError::Status { retry_after, .. } => {
                *retry_after
            }
            UpstreamError::Open { retry_after, .. } => Some(*retry_after),
            UpstreamError::Connect { .. } | UpstreamError::Timeout { .. } | UpstreamError::Reply { .. } => {
                None
            }
        }
    }

    /// The label of a metric: bounded, for a status has three digits.
    pub(super) fn label(&self) -> String {
        match self {
            UpstreamError::Connect { .. } => "connect".to_owned(),
            UpstreamError::Timeout { .. } => "timeout".to_owned(),
            UpstreamError::Limited { .. } => "429".to_owned(),
            UpstreamError::Status { status, .. } => status.to_string(),
            UpstreamError::Reply { .. } => "reply".to_owned(),
            UpstreamError::Open { .. } => "breaker".to_owned(),
        }
    }
}
