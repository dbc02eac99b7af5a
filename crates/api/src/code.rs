//! The table of error codes. `docs/errors.md`, the status of a reply and the OpenAPI file all come from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The stable name of an error. The meaning of a code never changes; messages may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The body is not JSON.
    InvalidJson,
    /// The body or the path is not UTF-8.
    InvalidUtf8,
    /// A parameter has a wrong type or a value out of its range.
    InvalidParameter,
    /// The request has an unknown field, or a search names a metadata field that no document has.
    UnknownField,
    /// The query cannot be parsed, and `strict` is set.
    InvalidQuery,
    /// The filter cannot be parsed.
    InvalidFilter,
    /// The cursor does not belong to this request.
    InvalidCursor,
    /// The index version that the cursor refers to is no longer available.
    CursorExpired,
    /// The body is not `application/json`, or is compressed.
    UnsupportedMediaType,
    /// The body, or one part of it, has too many bytes.
    PayloadTooLarge,
    /// Too many items in one request.
    BatchTooLarge,
    /// The request has no text, or an empty one.
    EmptyInput,
    /// The input is token ids instead of text.
    TokenInputUnsupported,
    /// A text is longer than the model's input limit, and the request forbids truncation.
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
    /// The route does not support this method.
    MethodNotAllowed,
    /// The `Host` or `Origin` header of the request is not allowed.
    HostNotAllowed,
    /// The request has no valid API key.
    InvalidApiKey,
    /// The caller lacks the scope of the route.
    InsufficientScope,
    /// The caller's mandatory filter does not allow it to store the document.
    DocumentNotAllowed,
    /// The collection exists with other settings, which cannot be changed.
    CollectionConflict,
    /// The collection's index is being rebuilt.
    CollectionNotReady,
    /// The gateway is at its capacity.
    Overloaded,
    /// The request took longer than its deadline.
    DeadlineExceeded,
    /// The disk is full.
    InsufficientStorage,
    /// The store cannot be reached or written.
    StoreUnavailable,
    /// An upstream cannot be reached, or failed.
    UpstreamError,
    /// An upstream did not answer in time.
    UpstreamTimeout,
    /// An internal error.
    Internal,
}

/// One row of the table: the properties of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorRow {
    /// The code.
    pub code: ErrorCode,
    /// The code's name in JSON.
    pub name: &'static str,
    /// The HTTP status of a reply with this code.
    pub status: u16,
    /// The `error.type` of OpenAI's API.
    pub openai_type: &'static str,
    /// A short description, the same for every occurrence.
    pub title: &'static str,
    /// How the caller can resolve the error: one sentence. Empty where each message states it.
    pub remedy: &'static str,
    /// Whether the same request can succeed when it is repeated later.
    pub retryable: bool,
}

const INVALID_REQUEST: &str = "invalid_request_error";
const SERVER_ERROR: &str = "server_error";

const fn client_error(
    code: ErrorCode,
    name: &'static str,
    status: u16,
    title: &'static str,
    remedy: &'static str,
) -> ErrorRow {
    ErrorRow { code, name, status, openai_type: INVALID_REQUEST, title, remedy, retryable: false }
}

const fn server_error(
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
pub const ERROR_TABLE: [ErrorRow; 33] = [
    client_error(ErrorCode::InvalidJson, "invalid_json", 400, "The body is not valid JSON",
        "Send one JSON object; the message gives the line and column of the error, or the reply names the item of a list."),
    client_error(ErrorCode::InvalidUtf8, "invalid_utf8", 400, "The request is not valid UTF-8",
        "Encode the text as UTF-8; the message gives the offset of the first invalid byte."),
    client_error(ErrorCode::InvalidParameter, "invalid_parameter", 400, "A parameter has a wrong type or value",
        ""),
    client_error(ErrorCode::UnknownField, "unknown_field", 400, "The request names an unknown field",
        "Remove the field or correct its name; the message lists the accepted names."),
    client_error(ErrorCode::InvalidQuery, "invalid_query", 400, "The query cannot be parsed",
        "Correct the query at the byte offset in the message, or omit `strict` to search it as plain text."),
    client_error(ErrorCode::InvalidFilter, "invalid_filter", 400, "The filter cannot be parsed",
        "Correct the filter at the position in the message; docs/search.md describes the filter language."),
    client_error(ErrorCode::InvalidCursor, "invalid_cursor", 400, "The cursor does not belong to this request",
        "Send the `next_cursor` of a reply unchanged, with the same request; or omit `cursor` to start at the first page."),
    client_error(ErrorCode::CursorExpired, "cursor_expired", 410, "The index version of the first page is no longer available",
        "Start again at the first page: omit `cursor`."),
    client_error(ErrorCode::UnsupportedMediaType, "unsupported_media_type", 415, "The media type is not supported",
        "Send the body uncompressed, with `Content-Type: application/json`."),
    client_error(ErrorCode::PayloadTooLarge, "payload_too_large", 413, "The request, or a part of it, has too many bytes",
        "Send less at once, or raise the limit that the message names."),
    client_error(ErrorCode::BatchTooLarge, "batch_too_large", 400, "Too many items in one request",
        "Split the request, or raise the limit that the message names."),
    client_error(ErrorCode::EmptyInput, "empty_input", 400, "The request has no text, or an empty one",
        "Send at least one text; no text may be empty."),
    client_error(ErrorCode::TokenInputUnsupported, "token_input_unsupported", 400, "Token ids instead of text",
        "Send text; with LangChain's `OpenAIEmbeddings` set `check_embedding_ctx_length=False`."),
    client_error(ErrorCode::ContextLengthExceeded, "context_length_exceeded", 400, "A text is longer than the model's input limit",
        "Send shorter texts, or omit `truncate` to have them truncated."),
    client_error(ErrorCode::CollectionNotFound, "collection_not_found", 404, "No such collection",
        "List the collections with `GET /v1/collections`, or create this one with `PUT /v1/collections/{name}`."),
    client_error(ErrorCode::DocumentNotFound, "document_not_found", 404, "No such document",
        "Check the collection and the id, which is percent-encoded in the path."),
    client_error(ErrorCode::JobNotFound, "job_not_found", 404, "No such job",
        "List the jobs with `GET /v1/jobs`."),
    client_error(ErrorCode::ModelNotFound, "model_not_found", 404, "No such model",
        "Use the id or an alias of a `[[models]]` entry of the configuration; `GET /v1/models` lists them."),
    client_error(ErrorCode::RouteNotFound, "route_not_found", 404, "No such route",
        "`GET /openapi.json` lists every route."),
    client_error(ErrorCode::MethodNotAllowed, "method_not_allowed", 405, "The route does not support this method",
        "Use a method of the reply's `Allow` header."),
    client_error(ErrorCode::HostNotAllowed, "host_not_allowed", 403, "The `Host` or `Origin` of the request is not allowed",
        "Call the gateway as `localhost` or by its loopback address, or add the name to `server.allowed_hosts`."),
    client_error(ErrorCode::InvalidApiKey, "invalid_api_key", 401, "The API key is missing or not valid",
        "Send a valid key as `Authorization: Bearer KEY`, `x-api-key` or `api-key`."),
    client_error(ErrorCode::InsufficientScope, "insufficient_scope", 403, "The caller lacks the scope of the route",
        "Use an API key with the scope that the message names."),
    client_error(ErrorCode::DocumentNotAllowed, "document_not_allowed", 403, "The caller may not store this document",
        "Use metadata that passes the caller's mandatory filter, and an id that no other document has."),
    client_error(ErrorCode::CollectionConflict, "collection_conflict", 409, "The collection exists with other settings, which cannot be changed",
        "Send the collection's current settings, use another name, or delete the collection first."),
    server_error(ErrorCode::CollectionNotReady, "collection_not_ready", 503, "The collection's index is being rebuilt",
        "Retry after the time in `Retry-After`; `GET /v1/collections/{name}` shows the status.", true),
    server_error(ErrorCode::Overloaded, "overloaded", 503, "The gateway is at its capacity",
        "Retry after the time in `Retry-After`, or send fewer requests at once.", true),
    server_error(ErrorCode::DeadlineExceeded, "deadline_exceeded", 504, "The request took longer than its deadline",
        "Retry, request less, or raise the deadline: `deadline_ms` of a search, or `server.request_deadline_ms`.", true),
    server_error(ErrorCode::InsufficientStorage, "insufficient_storage", 507, "The disk is full",
        "Free space on the disk of the data directory and send the request again; no acknowledged write is lost.", false),
    server_error(ErrorCode::StoreUnavailable, "store_unavailable", 503, "The store cannot be reached or written",
        "Retry; if the error persists, check the gateway's log and the disk and permissions of the data directory.", true),
    server_error(ErrorCode::UpstreamError, "upstream_error", 502, "An upstream failed",
        "Retry; if the error persists, check that the upstream is running and that its `url`, `model` and `api_key` in `[[models]]` are correct.", true),
    server_error(ErrorCode::UpstreamTimeout, "upstream_timeout", 504, "An upstream did not answer in time",
        "Retry, request less, or raise the model's `timeout_ms` in `[[models]]`.", true),
    server_error(ErrorCode::Internal, "internal", 500, "An internal error of the gateway",
        "Search the gateway's log for the request id, and report the error.", false),
];

impl ErrorCode {
    /// The code's row of the [`ERROR_TABLE`].
    pub const fn row(self) -> &'static ErrorRow {
        &ERROR_TABLE[self as usize]
    }

    /// The code's name in JSON.
    pub const fn as_str(self) -> &'static str {
        self.row().name
    }

    /// The HTTP status of a reply with this code.
    pub const fn status(self) -> u16 {
        self.row().status
    }

    /// `message`, followed by the code's remedy if it has one.
    pub fn with_remedy(self, message: &str) -> String {
        match self.row().remedy {
            "" => message.to_owned(),
            remedy => format!("{}. {remedy}", message.trim_end_matches('.')),
        }
    }

    /// Whether the same request can succeed when it is repeated later.
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
    fn rows_are_in_the_order_of_the_codes_and_have_their_json_names() {
        for (index, row) in ERROR_TABLE.iter().enumerate() {
            assert_eq!(row.code as usize, index, "{}", row.name);
            assert_eq!(serde_json::to_string(&row.code).unwrap(), format!("\"{}\"", row.name));
        }
        assert_eq!(ErrorCode::Internal as usize + 1, ERROR_TABLE.len());
    }

    #[test]
    fn client_errors_are_4xx_and_server_errors_5xx() {
        for row in &ERROR_TABLE {
            let is_client_error = row.openai_type == INVALID_REQUEST;
            assert_eq!((400..500).contains(&row.status), is_client_error, "{}", row.name);
            assert!(row.remedy.is_empty() || row.remedy.ends_with('.'), "{}", row.name);
            assert!(!row.title.ends_with('.'), "{}", row.name);
        }
    }

    #[test]
    fn the_remedy_follows_the_message_if_there_is_one() {
        assert_eq!(ErrorCode::InvalidParameter.with_remedy("top_k is 0"), "top_k is 0");
        assert_eq!(
            ErrorCode::JobNotFound.with_remedy("there is no job `a`."),
            "there is no job `a`. List the jobs with `GET /v1/jobs`."
        );
    }
}
