//! How a failure becomes a reply.
//!
//! A handler returns an [`ApiError`]. It is rendered in one place, [`Style::write`], which knows the request: its id, whose API
//! its route imitates, and what the caller accepts.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_api::{ErrorCode, Invalid, Problem, ProblemItem};

use super::dialect::Dialect;
use weir_inference::{InferenceError, Models, NoPlace, UpstreamError};
use weir_retrieval::collections::CollectionError;

/// A request that is not answered as asked.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    invalid: Invalid,
    /// When the caller may come again.
    retry_after_ms: Option<u32>,
    others: Vec<Invalid>,
}

/// Milliseconds after which a refused caller may come again; the queues drain in less.
const RETRY_AFTER_MS: u32 = 1000;
/// Nobody is told to wait longer than this, whatever a queue or an upstream says.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

impl ApiError {
    /// An error of the request as a whole. Retryable codes say when to come again.
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError::from(Invalid::whole(code, message))
    }

    /// Too much at once; the caller may come again when those before him are answered.
    pub(super) fn overloaded(message: impl Into<String>, wait: Duration) -> ApiError {
        ApiError::new(ErrorCode::Overloaded, message).retry_after(wait)
    }

    /// The same, with the time after which the caller may come again; never told shorter than it is.
    fn retry_after(mut self, wait: Duration) -> ApiError {
        self.retry_after_ms = u32::try_from(wait.min(RETRY_AFTER_MAX).as_micros().div_ceil(1000)).ok();
        self
    }

    /// The same, with more places that are wrong.
    pub(super) fn with_others(mut self, others: Vec<Invalid>) -> ApiError {
        self.others = others;
        self
    }

    /// The same, seen from what holds the refused request as the item `index` of its list `key`.
    pub(super) fn in_item(self, key: &str, index: usize) -> ApiError {
        let others = self.others.into_iter().map(|other| other.in_item(key, index)).collect();
        ApiError { invalid: self.invalid.in_item(key, index), others, ..self }
    }

    /// The body of the reply.
    pub(super) fn into_problem(self, request_id: Option<String>) -> Problem {
        let mut problem = Problem::from_invalid(&self.invalid, request_id);
        problem.errors.extend(self.others.into_iter().map(|other| ProblemItem {
            detail: other.message,
            pointer: other.pointer.unwrap_or_else(|| "#".to_owned()),
        }));
        problem
    }

    /// No such collection, for this caller.
    pub(super) fn no_collection(name: &str) -> ApiError {
        ApiError::new(
            ErrorCode::CollectionNotFound,
            format!("there is no collection `{}`", name.escape_debug()),
        )
    }

    /// A fault of ours: the caller hears only that, the log has it all.
    pub(super) fn internal(error: &dyn std::error::Error) -> ApiError {
        tracing::error!(error = %chain(error), "request failed");
        ApiError::new(ErrorCode::Internal, "the gateway could not do this")
    }
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

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> ApiError {
        let retry_after_ms = invalid.code.is_retryable().then_some(RETRY_AFTER_MS);
        ApiError { invalid, retry_after_ms, others: Vec::new() }
    }
}

impl From<weir_store::Error> for ApiError {
    fn from(error: weir_store::Error) -> ApiError {
        use weir_store::Error;
        let code = match &error {
            Error::Full => ErrorCode::InsufficientStorage,
            Error::UnknownCursor { .. } => {
                return Invalid::at(ErrorCode::InvalidParameter, &["cursor"], error.to_string()).into();
            }
            Error::Locked { .. }
            | Error::ReadOnly { .. }
            | Error::Io { .. }
            | Error::Sqlite { .. }
            | Error::Closed => ErrorCode::StoreUnavailable,
            Error::Damaged { .. } | Error::NewerFormat { .. } => ErrorCode::Internal,
        };
        tracing::error!(error = %chain(&error), "the store failed");
        ApiError::new(code, error.to_string())
    }
}

impl From<InferenceError> for ApiError {
    fn from(error: InferenceError) -> ApiError {
        match error {
            InferenceError::TooLong { again, .. } => ApiError::overloaded(error.to_string(), again),
            InferenceError::TooMany { .. } | InferenceError::Stopping => {
                ApiError::new(ErrorCode::Overloaded, error.to_string())
            }
            InferenceError::Upstream(error) => error.into(),
            InferenceError::Failed => ApiError::internal(&error),
        }
    }
}

impl From<NoPlace> for ApiError {
    fn from(error: NoPlace) -> ApiError {
        match error {
            NoPlace::Now => ApiError::new(
                ErrorCode::Overloaded,
                "other requests for embeddings take all the memory that `inference.memory_limit_bytes` leaves them",
            ),
            NoPlace::Ever(bytes) => ApiError::new(
                ErrorCode::PayloadTooLarge,
                format!(
                    "the request needs more memory than the {bytes} bytes that `inference.memory_limit_bytes` leaves to \
                     requests for embeddings"
                ),
            ),
        }
    }
}

impl From<UpstreamError> for ApiError {
    fn from(error: UpstreamError) -> ApiError {
        let code = match &error {
            UpstreamError::Limited { .. } => ErrorCode::Overloaded,
            UpstreamError::Timeout { .. } => ErrorCode::UpstreamTimeout,
            UpstreamError::Connect { .. }
            | UpstreamError::Status { .. }
            | UpstreamError::Reply { .. }
            | UpstreamError::Open { .. } => ErrorCode::UpstreamError,
        };
        let refused = ApiError::new(code, error.to_string());
        match error.retry_after() {
            Some(wait) => refused.retry_after(wait),
            None => refused,
        }
    }
}

impl From<CollectionError> for ApiError {
    fn from(error: CollectionError) -> ApiError {
        match error {
            CollectionError::Store(error) => error.into(),
            CollectionError::Stopping => ApiError::new(ErrorCode::Overloaded, error.to_string()),
            CollectionError::NoModel { model, .. } => no_model(&model),
            CollectionError::Inference { source, .. } => source.into(),
            CollectionError::Index { .. }
            | CollectionError::Settings { .. }
            | CollectionError::Folder { .. } => ApiError::internal(&error),
        }
    }
}

/// No model is configured under this name.
pub(super) fn no_model(name: &str) -> ApiError {
    Invalid::at(ErrorCode::ModelNotFound, &["model"], format!("there is no model `{}`", name.escape_debug()))
        .into()
}

/// No model that embeds is configured under this name.
pub(super) fn no_embedder(models: &Models, name: &str) -> ApiError {
    if models.reranker(name).is_none() {
        return no_model(name);
    }
    let embedders = quoted(models.iter().map(|model| model.id.as_str()));
    let message = format!("the model `{name}` reranks and makes no embeddings; those that do: {embedders}");
    Invalid::at(ErrorCode::InvalidParameter, &["model"], message).into()
}

/// No model that reranks is configured under this name.
pub(super) fn no_reranker(models: &Models, name: &str, path: &str) -> ApiError {
    let rerankers = quoted(models.rerankers().map(|model| model.id.as_str()));
    let known = match rerankers.as_str() {
        "" => "no model that reranks is configured in `[[models]]`".to_owned(),
        rerankers => format!("those that rerank: {rerankers}"),
    };
    let shown = name.escape_debug();
    let (code, message) = match models.get(name) {
        Some(_) => (
            ErrorCode::InvalidParameter,
            format!("the model `{shown}` makes embeddings and doesn't rerank; {known}"),
        ),
        None => (ErrorCode::ModelNotFound, format!("there is no model `{shown}`; {known}")),
    };
    Invalid::at(code, &[path], message).into()
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl IntoResponse for ApiError {
    /// The status alone; [`Style::write`] makes the body.
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.invalid.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// How the errors of a request are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    dialect: Dialect,
    is_plain_json: bool,
}

impl Style {
    /// That of a request for `path`.
    pub(super) fn of(path: &str, headers: &HeaderMap) -> Style {
        let dialect = Dialect::of(path);
        Style { dialect, is_plain_json: dialect != Dialect::Native || accepts_only_json(headers) }
    }

    /// Makes `response` one that tells the error.
    pub(super) fn write(self, error: ApiError, id: Option<&str>, response: &mut Response) {
        *response.status_mut() = self.dialect.status(error.invalid.code);
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        let media = if self.is_plain_json { "application/json" } else { "application/problem+json" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        if let Some(ms) = error.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000).max(1)));
            headers.insert("retry-after-ms", HeaderValue::from(ms));
        }
        *response.body_mut() = Body::from(self.dialect.render(error.into_problem(id.map(str::to_owned))));
    }
}

/// Whether the caller names `application/json` and not the media type of problems.
fn accepts_only_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("application/json") && !accept.contains("application/problem+json")
}
