//! Why a request was refused or failed: a code, a message, the place in the request, and when to retry.

#![forbid(unsafe_code)]

mod collection;

use std::time::Duration;

use weir_api::{ErrorCode, Invalid, Problem, ProblemItem};
use weir_index::IndexError;

use weir_inference::{BudgetError, InferenceError, UpstreamError};

pub use collection::CollectionError;

/// The result of a request.
pub type Result<T, E = RequestError> = std::result::Result<T, E>;

/// A request that was refused or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    invalid: Invalid,
    /// When the caller may come again.
    retry_after_ms: Option<u32>,
    others: Vec<Invalid>,
}

/// Milliseconds after which a refused caller may come again; the queues drain in less.
const RETRY_AFTER_MS: u32 = 1000;
/// Upper bound of `Retry-After`, whatever a queue or an upstream asks for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// The message to a caller about an engine that does not answer.
const ENGINE_UNAVAILABLE: &str = "the engine of the collection does not answer";

impl RequestError {
    /// The message of a failure whose details are in the log alone.
    pub const INTERNAL: &str = "internal error; the log has the details under the request's id";

    /// An error of the request as a whole. Retryable codes say when to come again.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> RequestError {
        RequestError::from(Invalid::whole(code, message))
    }

    /// Too much at once; the caller may come again when those before him are answered.
    pub fn overloaded(message: impl Into<String>, wait: Duration) -> RequestError {
        RequestError::new(ErrorCode::Overloaded, message).retry_after(wait)
    }

    /// A failure of the index that is not the request's fault. An engine that does not answer may do so later.
    pub fn of_index(error: &IndexError) -> RequestError {
        if let IndexError::NotSupported { .. } = error {
            return Invalid::whole(ErrorCode::InvalidParameter, error.to_string()).into();
        }
        let IndexError::Unavailable { retry_after, .. } = error else { return RequestError::internal(error) };
        // its reason has addresses of nodes
        tracing::warn!(%error, "the engine of a collection does not answer");
        RequestError::new(ErrorCode::EngineUnavailable, ENGINE_UNAVAILABLE).retry_after(*retry_after)
    }

    /// A limit of the caller's key is reached; `wait`: until a retry can succeed, `None` if none can.
    pub fn limited(message: impl Into<String>, wait: Option<Duration>) -> RequestError {
        let error = RequestError::new(ErrorCode::RateLimitExceeded, message);
        match wait {
            Some(wait) => error.retry_after(wait),
            None => RequestError { retry_after_ms: None, ..error },
        }
    }

    /// The same, with the time after which the caller may come again; rounded up.
    pub fn retry_after(mut self, wait: Duration) -> RequestError {
        self.retry_after_ms = u32::try_from(wait.min(RETRY_AFTER_MAX).as_micros().div_ceil(1000)).ok();
        self
    }

    /// The same, with more places that are wrong.
    pub fn with_others(mut self, others: Vec<Invalid>) -> RequestError {
        self.others = others;
        self
    }

    /// The same, seen from what holds the refused request as the item `index` of its list `key`.
    pub fn in_item(self, key: &str, index: usize) -> RequestError {
        let others = self.others.into_iter().map(|other| other.in_item(key, index)).collect();
        RequestError { invalid: self.invalid.in_item(key, index), others, ..self }
    }

    /// The same, with a further sentence in its message.
    pub fn with_note(mut self, note: &str) -> RequestError {
        self.invalid.message = format!("{}; {note}", self.invalid.message.trim_end_matches('.'));
        self
    }

    /// The body of the reply.
    pub fn into_problem(self, request_id: Option<String>) -> Problem {
        let mut problem = Problem::from_invalid(&self.invalid, request_id);
        problem.errors.extend(self.others.into_iter().map(|other| ProblemItem {
            detail: other.message,
            pointer: other.pointer.unwrap_or_else(|| "#".to_owned()),
        }));
        problem
    }

    /// No such collection, for this caller.
    pub fn no_collection(name: &str) -> RequestError {
        RequestError::new(
            ErrorCode::CollectionNotFound,
            format!("there is no collection `{}`", name.escape_debug()),
        )
    }

    /// A fault of ours: the caller hears only that, the log has it all.
    pub fn internal(error: &dyn std::error::Error) -> RequestError {
        tracing::error!(error = %chain(error), "request failed");
        RequestError::new(ErrorCode::Internal, RequestError::INTERNAL)
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.invalid.code
    }

    /// Milliseconds after which the caller may retry.
    pub fn retry_after_ms(&self) -> Option<u32> {
        self.retry_after_ms
    }
}

/// `model_not_found`.
pub fn no_model(name: &str) -> RequestError {
    let message = format!("there is no model `{}`", name.escape_debug());
    Invalid::at(ErrorCode::ModelNotFound, &["model"], message).into()
}

/// An error and its sources, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

impl From<Invalid> for RequestError {
    fn from(invalid: Invalid) -> RequestError {
        let retry_after_ms = invalid.code.is_retryable().then_some(RETRY_AFTER_MS);
        RequestError { invalid, retry_after_ms, others: Vec::new() }
    }
}

impl From<weir_store::Error> for RequestError {
    fn from(error: weir_store::Error) -> RequestError {
        use weir_store::Error;
        let code = match &error {
            Error::Full => ErrorCode::InsufficientStorage,
            Error::UnknownCursor(_) => {
                return Invalid::at(ErrorCode::InvalidParameter, &["cursor"], error.to_string()).into();
            }
            Error::PreconditionFailed { .. } => {
                return RequestError::new(ErrorCode::PreconditionFailed, error.to_string());
            }
            Error::IdempotencyMismatch => {
                return RequestError::new(ErrorCode::IdempotencyMismatch, error.to_string());
            }
            Error::TooManyWebhooks(_) => return RequestError::new(ErrorCode::Overloaded, error.to_string()),
            Error::UnknownCollection(name) => return RequestError::no_collection(name),
            Error::NotAllowed(_) => {
                return RequestError::new(ErrorCode::InsufficientScope, error.to_string());
            }
            Error::InUse { .. }
            | Error::ReadOnly { .. }
            | Error::Unsupported(_)
            | Error::Unusable { .. }
            | Error::Replaced { .. }
            | Error::Unavailable { .. }
            | Error::Conflict
            | Error::LeaseLost
            | Error::LostCommits { .. }
            | Error::OtherService(_)
            | Error::Failed { .. }
            | Error::Closed => ErrorCode::StoreUnavailable,
            Error::Damaged { .. } | Error::NewerSchema { .. } => ErrorCode::Internal,
        };
        tracing::error!(error = %chain(&error), "the store failed");
        let refused = RequestError::new(code, error.to_string());
        match error.retry_after() {
            Some(wait) => refused.retry_after(wait),
            None => refused,
        }
    }
}

impl From<InferenceError> for RequestError {
    fn from(error: InferenceError) -> RequestError {
        match error {
            InferenceError::QueueTooSlow { retry_after, .. } => {
                RequestError::overloaded(error.to_string(), retry_after)
            }
            InferenceError::QueueFull { .. } | InferenceError::Stopping => {
                RequestError::new(ErrorCode::Overloaded, error.to_string())
            }
            InferenceError::TooMuchWork { .. } => {
                RequestError::new(ErrorCode::BatchTooLarge, error.to_string())
            }
            InferenceError::Upstream(error) => error.into(),
            InferenceError::Failed => RequestError::internal(&error),
        }
    }
}

impl From<BudgetError> for RequestError {
    fn from(error: BudgetError) -> RequestError {
        match error {
            BudgetError::Busy => RequestError::new(
                ErrorCode::Overloaded,
                "other requests for embeddings take all the memory that `inference.memory_limit_bytes` leaves them",
            ),
            BudgetError::TooLarge(bytes) => RequestError::new(
                ErrorCode::PayloadTooLarge,
                format!(
                    "the request needs more memory than the {bytes} bytes that `inference.memory_limit_bytes` leaves to \
                     requests for embeddings"
                ),
            ),
        }
    }
}

impl From<UpstreamError> for RequestError {
    fn from(error: UpstreamError) -> RequestError {
        let code = match &error {
            UpstreamError::Limited { .. } => ErrorCode::Overloaded,
            UpstreamError::Timeout { .. } => ErrorCode::UpstreamTimeout,
            UpstreamError::Connect { .. }
            | UpstreamError::Broken { .. }
            | UpstreamError::Status { .. }
            | UpstreamError::Reply { .. }
            | UpstreamError::Open { .. } => ErrorCode::UpstreamError,
        };
        let refused = RequestError::new(code, error.to_string());
        match error.retry_after() {
            Some(wait) => refused.retry_after(wait),
            None => refused,
        }
    }
}

impl From<CollectionError> for RequestError {
    fn from(error: CollectionError) -> RequestError {
        match error {
            CollectionError::Store(error) => error.into(),
            CollectionError::Stopping => RequestError::new(ErrorCode::Overloaded, error.to_string()),
            CollectionError::TooMany { .. } => {
                RequestError::new(ErrorCode::CollectionLimitReached, error.to_string())
            }
            CollectionError::NoModel { model, .. } => no_model(&model),
            CollectionError::Inference { source, .. } => source.into(),
            CollectionError::Waiting { .. } => {
                RequestError::new(ErrorCode::EngineUnavailable, error.to_string())
            }
            CollectionError::Index { source: source @ IndexError::Unavailable { .. }, .. }
            | CollectionError::Engines(source @ IndexError::Unavailable { .. }) => {
                RequestError::of_index(&source)
            }
            CollectionError::Index { .. }
            | CollectionError::Settings { .. }
            | CollectionError::Engines(_)
            | CollectionError::OtherModel { .. }
            | CollectionError::NoEngine { .. }
            | CollectionError::NotOfStore(_) => RequestError::internal(&error),
        }
    }
}
