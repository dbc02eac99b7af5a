//! Error codes of routes, beside those that follow from the other columns of the table.

use weir_api::ErrorCode;

/// Error codes of a JSON body.
pub(super) const BODY_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidUtf8,
    ErrorCode::InvalidParameter,
    ErrorCode::UnknownField,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::PayloadTooLarge,
];
pub(super) const KEY_CODES: &[ErrorCode] =
    &[ErrorCode::InvalidParameter, ErrorCode::KeyNotFound, ErrorCode::StoreUnavailable];
pub(super) const SEARCH_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidQuery,
    ErrorCode::InvalidFilter,
    ErrorCode::InvalidCursor,
    ErrorCode::CursorExpired,
    ErrorCode::BatchTooLarge,
    ErrorCode::CollectionNotFound,
    ErrorCode::ModelNotFound,
    ErrorCode::CollectionNotReady,
];
pub(super) const EMBED_CODES: &[ErrorCode] = &[
    ErrorCode::BatchTooLarge,
    ErrorCode::EmptyInput,
    ErrorCode::TokenInputUnsupported,
    ErrorCode::ContextLengthExceeded,
    ErrorCode::ModelNotFound,
];
pub(super) const DOCUMENTS_CODES: &[ErrorCode] = &[
    ErrorCode::BatchTooLarge,
    ErrorCode::InvalidFilter,
    ErrorCode::InvalidCursor,
    ErrorCode::CursorExpired,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::StoreUnavailable,
];
pub(super) const DELETE_DOCUMENTS_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidFilter,
    ErrorCode::CollectionNotFound,
    ErrorCode::CollectionNotReady,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
pub(super) const INGEST_CODES: &[ErrorCode] =
    &[ErrorCode::BatchTooLarge, ErrorCode::InsufficientStorage, ErrorCode::StoreUnavailable];
pub(super) const PUT_COLLECTION_CODES: &[ErrorCode] = &[
    ErrorCode::ModelNotFound,
    ErrorCode::CollectionConflict,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
pub(super) const DOCUMENT_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidUtf8,
    ErrorCode::CollectionNotFound,
    ErrorCode::DocumentNotFound,
    ErrorCode::StoreUnavailable,
];
pub(super) const FEEDBACK_CODES: &[ErrorCode] = &[
    ErrorCode::CollectionNotFound,
    ErrorCode::DocumentNotFound,
    ErrorCode::InsufficientStorage,
    ErrorCode::StoreUnavailable,
];
/// A list in a collection, with query parameters.
pub(super) const PAGE_CODES: &[ErrorCode] = &[ErrorCode::CollectionNotFound, ErrorCode::StoreUnavailable];
