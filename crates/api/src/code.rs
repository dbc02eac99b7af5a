//! The table of error codes. `docs/errors.md`, the status of a reply and the OpenAPI file all come from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stable name for what went wrong. It never changes its meaning; messages may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The body is not JSON.
    InvalidJson,
    /// The body or the path is not UTF-8.
    InvalidUtf8,
    /// A parameter has a wrong type or a value out of its range.
    InvalidParameter,
    /// A native route got a field that it doesn't know, or a search asks for a metadata field that no document has.
    UnknownField,
    /// A query doesn't parse, and the request says that it has to.
    InvalidQuery,
    /// A filter doesn't parse.
    InvalidFilter,
    /// A cursor is not one of this request.
    InvalidCursor,
    /// The index has moved on since the cursor was made.
    CursorExpired,
    /// The body's media type is not `application/json`, or it is compressed.
    UnsupportedMediaType,
    /// The body, or one part of it, has too many bytes.
    PayloadTooLarge,
    /// Too many items in one request.
    BatchTooLarge,
    /// There is nothing to embed.
    EmptyInput,
    /// The texts came as token ids.
    TokenInputUnsupported,
    /// A text is longer than the model reads, and the request forbids to cut it.
    ContextLengthExceeded,
    /// No such collection.
    CollectionNotFound,
    /// No such document.
    DocumentNotFound,
    /// No such job.
    JobNotFound,
    /// No such model.
    ModelNotFound,
    /// No such route.
    RouteNotFound,
    /// The route exists, but not for this method.
    MethodNotAllowed,
    /// The request names a host or comes from a web page that the gateway doesn't know.
    HostNotAllowed,
    /// The request has no valid API key.
    InvalidApiKey,
    /// The caller may not do this.
    InsufficientScope,
    /// The collection exists with settings that can't be changed to these.
    CollectionConflict,
    /// The collection is being rebuilt.
    CollectionNotReady,
    /// The gateway has as much work as it takes.
    Overloaded,
    /// The request took longer than its deadline.
    DeadlineExceeded,
    /// The disk is full.
    InsufficientStorage,
    /// The store can't be reached or can't be written.
    StoreUnavailable,
    /// An upstream can't be reached, or failed.
    UpstreamError,
    /// An upstream did not answer in time.
    UpstreamTimeout,
    /// A fault of ours.
    Internal,
}

/// One row of the table: everything that follows from a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRow {
    /// The code.
    pub code: ErrorCode,
    /// Its name on the wire.
    pub name: &'static str,
    /// The HTTP status of a reply with this code.
    pub status: u16,
    /// The `error.type` that clients of OpenAI's API know.
    pub openai_type: &'static str,
    /// A few words that are the same for every occurrence.
    pub title: &'static str,
    /// What the caller can do about it: one sentence.
    pub remedy: &'static str,
    /// Whether the very same request can succeed when it is sent again after a while.
    pub retryable: bool,
}

const INVALID_REQUEST: &str = "invalid_request_error";
const SERVER_ERROR: &str = "server_error";

const fn refused(
    code: ErrorCode,
    name: &'static str,
    status: u16,
    title: &'static str,
    remedy: &'static str,
) -> ErrorRow {
    ErrorRow { code, name, status, openai_type: INVALID_REQUEST, title, remedy, retryable: false }
}

const fn failed(
    code: ErrorCode,
    name: &'static str,
    status: u16,
    title: &'static str,
    remedy: &'static str,
    retryable: bool,
) -> ErrorRow {
    ErrorRow { code, name, status, openai_type: SERVER_ERROR, title, remedy, retryable }
}

/// Every code, in the order of [`ErrorCode`].
#[rustfmt::skip]
pub const ERROR_TABLE: [ErrorRow; 32] = [
    refused(ErrorCode::InvalidJson, "invalid_json", 400, "The body is not valid JSON",
        "Send one JSON object; the message gives the line and column where reading stopped, or the reply names the item of a list."),
    refused(ErrorCode::InvalidUtf8, "invalid_utf8", 400, "The request is not valid UTF-8",
        "Encode the text as UTF-8; the message gives the offset of the first bad byte."),
    refused(ErrorCode::InvalidParameter, "invalid_parameter", 400, "A parameter has a wrong type or value",
        "Correct what the message names; it says what is accepted."),
    refused(ErrorCode::UnknownField, "unknown_field", 400, "The request names a field that isn't there",
        "Remove the field or correct its name; the message lists the accepted names."),
    refused(ErrorCode::InvalidQuery, "invalid_query", 400, "The query doesn't parse",
        "Correct the query at the byte that the message names, or leave out `strict` to search it as text."),
    refused(ErrorCode::InvalidFilter, "invalid_filter", 400, "The filter doesn't parse",
        "Correct the filter at the place that the message names; docs/search.md has the language."),
    refused(ErrorCode::InvalidCursor, "invalid_cursor", 400, "The cursor doesn't belong to this request",
        "Send `next_cursor` of a reply as it is, with the request that the reply answered; or leave it out to start at the first page."),
    refused(ErrorCode::CursorExpired, "cursor_expired", 410, "The index has moved on since the first page",
        "Start again from the first page: leave out `cursor`."),
    refused(ErrorCode::UnsupportedMediaType, "unsupported_media_type", 415, "The media type is not supported",
        "Send the body uncompressed, with `Content-Type: application/json`."),
    refused(ErrorCode::PayloadTooLarge, "payload_too_large", 413, "The request, or a part of it, has too many bytes",
        "Send less at once, or raise the limit that the message names."),
    refused(ErrorCode::BatchTooLarge, "batch_too_large", 400, "Too many items in one request",
        "Split the request, or raise the limit that the message names."),
    refused(ErrorCode::EmptyInput, "empty_input", 400, "There is nothing to embed",
        "Send at least one text, and none that is empty."),
    refused(ErrorCode::TokenInputUnsupported, "token_input_unsupported", 400, "Token ids instead of text",
        "Send text; with LangChain's `OpenAIEmbeddings` set `check_embedding_ctx_length=False`."),
    refused(ErrorCode::ContextLengthExceeded, "context_length_exceeded", 400, "A text is longer than the model reads",
        "Send shorter texts, or let them be cut: leave out `truncate`."),
    refused(ErrorCode::CollectionNotFound, "collection_not_found", 404, "No such collection",
        "List the collections with `GET /v1/collections`, or create this one with `PUT /v1/collections/{name}`."),
    refused(ErrorCode::DocumentNotFound, "document_not_found", 404, "No such document",
        "Check the id (percent-encoded in the path) and the collection; a deleted document is gone."),
    refused(ErrorCode::JobNotFound, "job_not_found", 404, "No such job",
        "List the jobs with `GET /v1/jobs`."),
    refused(ErrorCode::ModelNotFound, "model_not_found", 404, "No such model",
        "Use the id or an alias of a `[[models]]` entry of the configuration; `GET /v1/models` lists them."),
    refused(ErrorCode::RouteNotFound, "route_not_found", 404, "No such route",
        "`GET /openapi.json` lists every route."),
    refused(ErrorCode::MethodNotAllowed, "method_not_allowed", 405, "The route doesn't take this method",
        "Use a method that the `Allow` header of the reply names."),
    refused(ErrorCode::HostNotAllowed, "host_not_allowed", 403, "The gateway is not meant to be called by this name or page",
        "Call it as `localhost` or by its loopback address, or add the name to `server.allowed_hosts`."),
    refused(ErrorCode::InvalidApiKey, "invalid_api_key", 401, "The API key is missing or not valid",
        "Send a valid key as `Authorization: Bearer KEY`, `x-api-key` or `api-key`."),
    refused(ErrorCode::InsufficientScope, "insufficient_scope", 403, "The caller may not do this",
        "Use an API key with the scope that the message names."),
    refused(ErrorCode::CollectionConflict, "collection_conflict", 409, "The collection has other settings that can't change",
        "Send the settings that the collection has, or delete it first, or use another name."),
    failed(ErrorCode::CollectionNotReady, "collection_not_ready", 503, "The collection's index is being rebuilt",
        "Try again after the time that `Retry-After` gives; `GET /v1/collections/{name}` shows the status.", true),
    failed(ErrorCode::Overloaded, "overloaded", 503, "The gateway has as much work as it takes",
        "Try again after the time that `Retry-After` gives, or send less at once.", true),
    failed(ErrorCode::DeadlineExceeded, "deadline_exceeded", 504, "The request took longer than its deadline",
        "Try again, ask for less, or raise the deadline: a search's own `deadline_ms`, or `server.request_deadline_ms`.", true),
    failed(ErrorCode::InsufficientStorage, "insufficient_storage", 507, "The disk is full",
        "Free space on the disk of the data directory and send the request again; nothing acknowledged is lost.", false),
    failed(ErrorCode::StoreUnavailable, "store_unavailable", 503, "The store can't be reached or written",
        "Try again; when it stays, check the data directory's disk and permissions and the gateway's log.", true),
    failed(ErrorCode::UpstreamError, "upstream_error", 502, "An upstream failed",
        "Try again; when it stays, see whether the upstream runs and whether its `url`, `model` and `api_key` in `[[models]]` are right.", true),
    failed(ErrorCode::UpstreamTimeout, "upstream_timeout", 504, "An upstream did not answer in time",
        "Try again, ask for less, or raise the model's `timeout_ms` in `[[models]]`.", true),
    failed(ErrorCode::Internal, "internal", 500, "A fault of the gateway",
        "Look for the request id in the gateway's log and report it.", false),
];

impl ErrorCode {
    /// The code's row of the [`ERROR_TABLE`].
    pub const fn row(self) -> &'static ErrorRow {
        &ERROR_TABLE[self as usize]
    }

    /// The code's name on the wire.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The HTTP status of a reply with this code.
    pub const fn status(self) -> u16 {
        self.row().status
    }

    /// Whether the very same request can succeed when it is sent again after a while.
    pub const fn is_retryable(self) -> bool {
        self.row().retryable
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_stands_at_its_codes_place_and_has_the_wire_name() {
        for (place, row) in ERROR_TABLE.iter().enumerate() {
            assert_eq!(row.code as usize, place, "{}", row.name);
            assert_eq!(serde_json::to_string(&row.code).unwrap(), format!("\"{}\"", row.name));
        }
        assert_eq!(ErrorCode::Internal as usize + 1, ERROR_TABLE.len());
    }

    #[test]
    fn refusals_are_4xx_and_failures_5xx() {
        for row in &ERROR_TABLE {
            let is_client_fault = row.openai_type == INVALID_REQUEST;
            assert_eq!((400..500).contains(&row.status), is_client_fault, "{}", row.name);
            assert!(row.remedy.ends_with('.') && !row.title.ends_with('.'), "{}", row.name);
        }
    }
}
