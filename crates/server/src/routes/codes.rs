//! Error codes of routes, beside those that follow from the other columns of the table.

use weir_api::ErrorCode;

use super::super::dialect::Dialect;
use super::{Access, BodyLimit, Route};

/// Error codes of a JSON body.
const BODY_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
];
/// Error codes of a file.
const FILE_CODES: &[ErrorCode] = &[
    ErrorCode::UnsupportedFormat,
    ErrorCode::Encrypted,
    ErrorCode::DamagedFile,
    ErrorCode::NoText,
    ErrorCode::FileLimit,
    ErrorCode::ExtractionTimeout,
    ErrorCode::ExtractionMemory,
    ErrorCode::ExtractionCrashed,
    ErrorCode::ExtractionUnavailable,
    ErrorCode::UpstreamError,
    ErrorCode::UpstreamTimeout,
];
pub(super) const KEY_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidParameter,
    ErrorCode::KeyNotFound,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
pub(super) const SEARCH_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidQuery,
    ErrorCode::InvalidFilter,
    ErrorCode::InvalidCursor,
    ErrorCode::CursorExpired,
    ErrorCode::BatchTooLarge,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionLimitReached,
    ErrorCode::ModelNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::EngineUnavailable,
    ErrorCode::UpstreamError,
    ErrorCode::UpstreamTimeout,
];
pub(super) const LLM_CODES: &[ErrorCode] = &[
    ErrorCode::BudgetExceeded,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::EngineUnavailable,
    ErrorCode::GuardrailBlocked,
    ErrorCode::InvalidFilter,
    ErrorCode::ModelNotFound,
    ErrorCode::Overloaded,
    ErrorCode::StoreUnavailable,
    ErrorCode::UpstreamError,
    ErrorCode::UpstreamTimeout,
];
pub(super) const EMBED_CODES: &[ErrorCode] = &[
    ErrorCode::BatchTooLarge,
    ErrorCode::BudgetExceeded,
    ErrorCode::EmptyInput,
    ErrorCode::TokenInputUnsupported,
    ErrorCode::ContextLengthExceeded,
    ErrorCode::ModelNotFound,
    ErrorCode::StoreUnavailable,
    ErrorCode::UpstreamError,
    ErrorCode::UpstreamTimeout,
];
/// The same with those of models of upstreams.
pub(super) const OPENAI_EMBED_CODES: &[ErrorCode] = &[
    ErrorCode::BatchTooLarge,
    ErrorCode::BudgetExceeded,
    ErrorCode::EmptyInput,
    ErrorCode::TokenInputUnsupported,
    ErrorCode::ContextLengthExceeded,
    ErrorCode::GuardrailBlocked,
    ErrorCode::ModelNotFound,
    ErrorCode::StoreUnavailable,
    ErrorCode::UpstreamCredentials,
    ErrorCode::UpstreamError,
    ErrorCode::UpstreamTimeout,
];
pub(super) const DOCUMENTS_CODES: &[ErrorCode] = &[
    ErrorCode::BatchTooLarge,
    ErrorCode::InvalidFilter,
    ErrorCode::InvalidCursor,
    ErrorCode::CursorExpired,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::EngineUnavailable,
];
pub(super) const DELETE_DOCUMENTS_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidFilter,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::EngineUnavailable,
    ErrorCode::InsufficientStorage,
];
pub(super) const INGEST_CODES: &[ErrorCode] = &[
    ErrorCode::IdempotencyInFlight,
    ErrorCode::IdempotencyMismatch,
    ErrorCode::DocumentNotAllowed,
    ErrorCode::BatchTooLarge,
    ErrorCode::CollectionNotFound,
    ErrorCode::EngineUnavailable,
    ErrorCode::ModelNotFound,
    ErrorCode::InsufficientStorage,
];
pub(super) const PUT_DOCUMENT_CODES: &[ErrorCode] = &[
    ErrorCode::IdempotencyInFlight,
    ErrorCode::IdempotencyMismatch,
    ErrorCode::DocumentNotAllowed,
    ErrorCode::PreconditionFailed,
    ErrorCode::BatchTooLarge,
    ErrorCode::CollectionNotFound,
    ErrorCode::EngineUnavailable,
    ErrorCode::ModelNotFound,
    ErrorCode::InsufficientStorage,
];
pub(super) const CHUNKS_PREVIEW_CODES: &[ErrorCode] =
    &[ErrorCode::CollectionNotFound, ErrorCode::EngineUnavailable, ErrorCode::InsufficientStorage];
pub(super) const PATCH_DOCUMENT_CODES: &[ErrorCode] = &[
    ErrorCode::IdempotencyInFlight,
    ErrorCode::IdempotencyMismatch,
    ErrorCode::CollectionNotFound,
    ErrorCode::DocumentNotAllowed,
    ErrorCode::DocumentNotFound,
    ErrorCode::EngineUnavailable,
    ErrorCode::InsufficientStorage,
    ErrorCode::PreconditionFailed,
];
pub(super) const PUT_COLLECTION_CODES: &[ErrorCode] = &[
    ErrorCode::ModelNotFound,
    ErrorCode::CollectionConflict,
    ErrorCode::CollectionLimitReached,
    ErrorCode::EngineUnavailable,
    ErrorCode::InsufficientStorage,
];
pub(super) const DOCUMENT_CODES: &[ErrorCode] =
    &[ErrorCode::CollectionNotFound, ErrorCode::DocumentNotFound, ErrorCode::EngineUnavailable];
pub(super) const DELETE_DOCUMENT_CODES: &[ErrorCode] = &[
    ErrorCode::CollectionNotFound,
    ErrorCode::DocumentNotFound,
    ErrorCode::EngineUnavailable,
    ErrorCode::InsufficientStorage,
    ErrorCode::PreconditionFailed,
];
pub(super) const DELETE_COLLECTION_CODES: &[ErrorCode] =
    &[ErrorCode::CollectionNotFound, ErrorCode::InsufficientStorage];
pub(super) const RECONCILE_CODES: &[ErrorCode] = &[
    ErrorCode::CollectionNotFound,
    ErrorCode::EngineUnavailable,
    ErrorCode::InsufficientStorage,
    ErrorCode::InvalidParameter,
];
pub(super) const FEEDBACK_CODES: &[ErrorCode] = &[
    ErrorCode::CollectionNotFound,
    ErrorCode::DocumentNotFound,
    ErrorCode::EngineUnavailable,
    ErrorCode::InsufficientStorage,
];
/// A list in a collection, with query parameters.
pub(super) const PAGE_CODES: &[ErrorCode] = &[ErrorCode::CollectionNotFound, ErrorCode::EngineUnavailable];

impl Route {
    /// Every error code that the route can answer with.
    pub fn codes(&self) -> Vec<ErrorCode> {
        let mut codes = vec![
            ErrorCode::Internal,
            ErrorCode::DeadlineExceeded,
            ErrorCode::HostNotAllowed,
            // a request over HTTP/1.1 without `Host`
            ErrorCode::InvalidParameter,
        ];
        codes.extend(self.codes);
        if self.path.contains('{') {
            codes.push(ErrorCode::InvalidUtf8);
        }
        if self.body != BodyLimit::None {
            codes.extend(BODY_CODES);
        }
        if !self.files.is_empty() {
            codes.extend(FILE_CODES);
        }
        if self.dialect == Dialect::Native && self.access != Access::Public {
            codes.extend([ErrorCode::UnknownField, ErrorCode::StoreUnavailable]);
        }
        if !self.is_health_check() {
            codes.push(ErrorCode::Overloaded);
        }
        if self.access != Access::Public {
            codes.extend([ErrorCode::InvalidApiKey, ErrorCode::RateLimitExceeded]);
        }
        if matches!(self.access, Access::Scopes(_)) {
            codes.push(ErrorCode::InsufficientScope);
        }
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}
