//! How an error becomes a reply: a handler returns an [`ApiError`]; [`ErrorStyle::write`] alone renders it.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_api::ErrorCode;
use weir_retrieval::RequestError;

use super::dialect::Dialect;

/// The result of a handler.
pub(super) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// The error of a handler.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    error: RequestError,
    /// Instead of that of the route.
    dialect: Option<Dialect>,
}

impl<E: Into<RequestError>> From<E> for ApiError {
    fn from(error: E) -> ApiError {
        ApiError { error: error.into(), dialect: None }
    }
}

impl ApiError {
    /// An error of the request as a whole.
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        RequestError::new(code, message).into()
    }

    /// A failure of the gateway whose details are in the log alone.
    pub(super) fn internal(error: &dyn std::error::Error) -> ApiError {
        RequestError::internal(error).into()
    }

    /// Its code.
    pub(super) fn code(&self) -> ErrorCode {
        self.error.code()
    }

    /// The same, with a further sentence in its message.
    pub(super) fn with_note(self, note: &str) -> ApiError {
        ApiError { error: self.error.with_note(note), ..self }
    }

    /// Its code, and the message with the remedy.
    pub(super) fn into_code_and_detail(self) -> (ErrorCode, String) {
        let code = self.error.code();
        (code, self.error.into_problem(None).detail)
    }

    /// The same error, written as this dialect does instead of the route's.
    pub(super) fn in_dialect(self, dialect: Dialect) -> ApiError {
        ApiError { dialect: Some(dialect), ..self }
    }

    /// The same, without details.
    pub(super) fn internal_error() -> ApiError {
        ApiError::new(ErrorCode::Internal, RequestError::INTERNAL)
    }
}

impl IntoResponse for ApiError {
    /// The status alone; [`ErrorStyle::write`] adds headers and body.
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.error.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// How the errors of a request are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct ErrorStyle {
    dialect: Dialect,
    is_plain_json: bool,
}

impl ErrorStyle {
    /// For a request with these headers.
    pub(super) fn new(dialect: Dialect, headers: &HeaderMap) -> ErrorStyle {
        ErrorStyle { dialect, is_plain_json: dialect != Dialect::Native || accepts_only_json(headers) }
    }

    /// Makes `response` the reply to the error.
    pub(super) fn write(self, error: ApiError, id: Option<&str>, response: &mut Response) {
        let ApiError { error, dialect } = error;
        let dialect = dialect.unwrap_or(self.dialect);
        *response.status_mut() = dialect.status(error.code());
        let headers = response.headers_mut();
        headers.remove(header::CONTENT_LENGTH);
        let media = if self.is_plain_json { "application/json" } else { "application/problem+json" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        if error.code() == ErrorCode::InvalidApiKey {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(ms) = error.retry_after_ms() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000).max(1)));
            headers.insert("retry-after-ms", HeaderValue::from(ms));
        } else if matches!(error.code().status(), 429 | 500..) {
            // OpenAI's clients send a request with such a status again, unless a header forbids it
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        *response.body_mut() = Body::from(dialect.render(error.into_problem(id.map(str::to_owned))));
    }
}

/// Whether the caller names `application/json` and not the media type of problems.
fn accepts_only_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("application/json") && !accept.contains("application/problem+json")
}
