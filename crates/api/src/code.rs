//! The table of error codes. `docs/errors.md`, the status of a reply and the OpenAPI file all come from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Classes of errors: the `error.type` of OpenAI's API, and whether the same request can succeed later.
const CLIENT: (&str, bool) = (INVALID_REQUEST, false);
const PENDING: (&str, bool) = (INVALID_REQUEST, true);
const SERVER: (&str, bool) = ("server_error", false);
const BUSY: (&str, bool) = ("server_error", true);
const LIMITED: (&str, bool) = ("requests", true);
const QUOTA: (&str, bool) = ("insufficient_quota", false);

/// Defines the codes and their table. A row: code, name in JSON, HTTP status, class, title, remedy.
macro_rules! error_codes {
    ($($code:ident $name:literal $status:literal $class:ident $title:literal, $remedy:literal;)*) => {
        /// The stable name of an error. The meaning of a code never changes; messages may.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $(#[doc = concat!($title, ".")] $code,)*
        }

        /// Every code, in the order of [`ErrorCode`].
        pub const ERROR_TABLE: &[ErrorRow] = &[$(ErrorRow {
            code: ErrorCode::$code,
            name: $name,
            status: $status,
            openai_type: $class.0,
            title: $title,
            remedy: $remedy,
            retryable: $class.1,
        },)*];
    };
}

error_codes! {
    InvalidJson "invalid_json" 400 CLIENT "The body is not valid JSON",
        "Send one JSON object; the message gives the line and column of the error, or the reply names the item of a list.";
    InvalidUtf8 "invalid_utf8" 400 CLIENT "The request is not valid UTF-8",
        "Encode the text as UTF-8; the message gives the offset of the first invalid byte.";
    InvalidParameter "invalid_parameter" 400 CLIENT "A parameter has a wrong type or value",
        "";
    UnknownField "unknown_field" 400 CLIENT "The request names an unknown field",
        "";
    InvalidQuery "invalid_query" 400 CLIENT "The query cannot be parsed",
        "Correct the query at the byte offset in the message, or omit `syntax` to search invalid parts as text.";
    InvalidFilter "invalid_filter" 400 CLIENT "The filter cannot be parsed",
        "Correct the filter at the position in the message; docs/search.md describes the filter language.";
    InvalidCursor "invalid_cursor" 400 CLIENT "The cursor does not belong to this request",
        "Send the `next_cursor` of a reply unchanged, with the same request; or omit `cursor` to start at the first page.";
    CursorExpired "cursor_expired" 410 CLIENT "The index version of the first page is no longer available",
        "Start again at the first page: omit `cursor`.";
    UnsupportedMediaType "unsupported_media_type" 415 CLIENT "The media type is not supported",
        "Send the body uncompressed, with `Content-Type: application/json`.";
    UnsupportedFormat "unsupported_format" 415 CLIENT "Files of this format are not read",
        "Save it in a format that docs/documents.md lists, such as PDF, DOCX or plain text, and send it again.";
    Encrypted "encrypted" 422 CLIENT "The file needs a password",
        "Remove the password and send the file again.";
    DamagedFile "damaged_file" 422 CLIENT "The file is not readable as its format",
        "Open it in a program that reads the format, save it again, and send the copy.";
    NoText "no_text" 422 CLIENT "The file has no text",
        "Recognise the text of a scan with an OCR program and send the result, or name a server that does in `extract.url`.";
    FileLimit "file_limit" 422 CLIENT "The file exceeds a limit of its reader",
        "Split the file, or raise the limit if the message names one.";
    ExtractionTimeout "extraction_timeout" 422 CLIENT "Reading the file takes too long",
        "Split the file, or raise `extract.timeout_ms` and `extract.cpu_seconds_max`.";
    ExtractionMemory "extraction_memory" 422 CLIENT "Reading the file takes too much memory",
        "Split the file, or raise `extract.memory_bytes_max`.";
    ExtractionCrashed "extraction_crashed" 422 CLIENT "The reader of the file crashed",
        "Save the file again with another program and send the copy; report the error with the file if it is not confidential.";
    ExtractionUnavailable "extraction_unavailable" 503 SERVER "The gateway cannot isolate the process that reads files",
        "Allow the gateway seccomp filters (in a container, the default profile does), or set `extract.sandbox` to `best_effort` if all files are trusted.";
    PayloadTooLarge "payload_too_large" 413 CLIENT "The request, or a part of it, has too many bytes",
        "Send less at once, or raise the limit that the message names.";
    BatchTooLarge "batch_too_large" 400 CLIENT "Too many items in one request",
        "Split the request, or raise the limit that the message names.";
    EmptyInput "empty_input" 400 CLIENT "The request has no text, or an empty one",
        "Send at least one text; no text may be empty.";
    TokenInputUnsupported "token_input_unsupported" 400 CLIENT "Token ids instead of text",
        "Send text; with LangChain's `OpenAIEmbeddings` set `check_embedding_ctx_length=False`.";
    ContextLengthExceeded "context_length_exceeded" 400 CLIENT "A text is longer than the model's input limit",
        "Send shorter texts, or omit `truncate` to have them truncated.";
    CollectionNotFound "collection_not_found" 404 CLIENT "No such collection",
        "List the collections with `GET /v1/collections`, or create this one with `PUT /v1/collections/{name}`.";
    DocumentNotFound "document_not_found" 404 CLIENT "No such document",
        "Check the collection and the id, which is percent-encoded in the path.";
    JobNotFound "job_not_found" 404 CLIENT "No such job",
        "List the jobs with `GET /v1/jobs`.";
    JobFinished "job_finished" 409 CLIENT "The job has ended",
        "A job that has ended is not cancelled; `POST /v1/jobs/{id}/retry-failed` stores its failed documents again.";
    JobNotRetryable "job_not_retryable" 409 CLIENT "The job has no documents to try again",
        "Wait until the job has ended; documents that were refused are not stored, so correct them and send them again.";
    ModelNotFound "model_not_found" 404 CLIENT "No such model",
        "`GET /v1/models` lists the names. In the configuration, `[[models]]` adds models that embed and rerank, `[[upstreams]]` and `[[routes]]` those for chat; `UPSTREAM/NAME` is any model of an upstream.";
    KeyNotFound "key_not_found" 404 CLIENT "No such API key",
        "List the keys with `GET /v1/keys`; a revoked key stays revoked, so create another.";
    RouteNotFound "route_not_found" 404 CLIENT "No such route",
        "";
    MethodNotAllowed "method_not_allowed" 405 CLIENT "The route does not support this method",
        "";
    HostNotAllowed "host_not_allowed" 403 CLIENT "The `Host` or `Origin` of the request is not allowed",
        "Call the gateway as `localhost` or by its loopback address, or add the name to `server.allowed_hosts` (the origin of a web page to `server.cors_origins`).";
    InvalidApiKey "invalid_api_key" 401 CLIENT "The API key is missing or not valid",
        "Send a valid key as `Authorization: Bearer KEY`, `x-api-key` or `api-key`.";
    InsufficientScope "insufficient_scope" 403 CLIENT "The caller lacks the scope of the route",
        "Use an API key that may do what the message names.";
    DocumentNotAllowed "document_not_allowed" 403 CLIENT "The caller may not store this document",
        "Use metadata that passes the caller's mandatory filter, and an id that no other document has.";
    DocumentConflict "document_conflict" 409 CLIENT "A document of another source has this id",
        "Give the document another id (`weir ingest --prefix` does it for all of a folder), or leave out `replace_if_equal` (`weir ingest --replace`) to replace the stored one.";
    PreconditionFailed "precondition_failed" 412 CLIENT "The document is not in the version that the request requires",
        "Read the document again, apply the change to what it is now, and send its `ETag` as `If-Match`; `If-None-Match: *` stores a document only if its id is free.";
    IdempotencyInFlight "idempotency_in_flight" 409 PENDING "A request with the same idempotency key is being carried out",
        "Wait for the reply to that request, or send this one again later with the same `Idempotency-Key`.";
    IdempotencyMismatch "idempotency_mismatch" 422 CLIENT "The idempotency key belongs to another request",
        "Send a new `Idempotency-Key` with each new request, and the same key only with the same body.";
    RateLimitExceeded "rate_limit_exceeded" 429 LIMITED "A limit of the API key is reached",
        "Retry after the time in `Retry-After` if the reply has it, or use a key with a higher limit.";
    BudgetExceeded "budget_exceeded" 429 QUOTA "A budget of the API key is used up",
        "Wait until the day or the month (UTC) that the message names is over, send less in one request (fewer texts, a smaller `max_tokens`), or use a key with a higher budget.";
    GuardrailBlocked "guardrail_blocked" 400 CLIENT "A guardrail blocks the request or its answer",
        "Send a request without what the rule detects, or one that is answered without it; the operator of the gateway can change `[[guardrails]]`.";
    CollectionConflict "collection_conflict" 409 CLIENT "The collection exists with other settings",
        "Send the collection's current settings, use another name, or delete the collection first; `chunking` is changed with `?rechunk=true`, `engine` with `?move=true`.";
    CollectionLimitReached "collection_limit_reached" 409 CLIENT "The gateway has its maximum of collections",
        "Delete a collection that is not needed, or raise `limits.collections_max`.";
    KeyLimitReached "key_limit_reached" 409 CLIENT "The API keys take all memory that is set aside for them",
        "Revoke keys that are not needed, or use fewer names and shorter filters.";
    CollectionNotReady "collection_not_ready" 503 BUSY "The collection's index is being rebuilt",
        "Retry after the time in `Retry-After`; `GET /v1/collections/{name}` shows the status.";
    EngineUnavailable "engine_unavailable" 503 BUSY "The engine of the collection does not answer",
        "Retry after the time in `Retry-After`; if the error persists, check the nodes of `qdrant.urls` and the gateway's log.";
    Overloaded "overloaded" 503 BUSY "The gateway is at its capacity",
        "Retry after the time in `Retry-After`, or send fewer requests at once.";
    DeadlineExceeded "deadline_exceeded" 504 BUSY "The request took longer than its deadline",
        "Retry, request less, or raise the deadline: `deadline_ms` of a search, or `server.request_deadline_ms`.";
    InsufficientStorage "insufficient_storage" 507 SERVER "The disk is full",
        "Free space on the disk of the data directory and send the request again; no acknowledged write is lost.";
    StoreUnavailable "store_unavailable" 503 BUSY "The store cannot be reached or written",
        "Retry; if the error persists, check the gateway's log and the disk and permissions of the data directory.";
    UpstreamError "upstream_error" 502 BUSY "An upstream failed",
        "Retry; if the error persists, check that the upstream is running and that its `url`, `model` and `api_key` in `[[models]]` or `[[upstreams]]` are correct.";
    UpstreamCredentials "upstream_credentials" 502 SERVER "An upstream refuses the gateway's key",
        "Correct its `api_key` in `[[upstreams]]`.";
    UpstreamTimeout "upstream_timeout" 504 BUSY "An upstream did not answer in time",
        "Retry, request less, or raise `timeout_ms` of the model in `[[models]]`, or `header_timeout_ms`, `first_token_timeout_ms`, `idle_timeout_ms` or `total_timeout_ms` of the upstream in `[[upstreams]]`.";
    Internal "internal" 500 SERVER "An internal error of the gateway",
        "Search the gateway's log for the request id, and report the error.";
}

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
        for row in ERROR_TABLE {
            let is_client_error = [INVALID_REQUEST, LIMITED.0, QUOTA.0].contains(&row.openai_type);
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
