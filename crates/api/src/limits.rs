//! The limits of requests, and the checks that several resources share.

use crate::{ErrorCode, Invalid, Result};

/// The limits that a parsed request is validated against. Each is a setting under `limits.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Documents in one ingest request.
    pub documents_per_request_max: usize,
    /// Bytes of UTF-8 in one document's text.
    pub document_text_bytes_max: usize,
    /// Bytes of UTF-8 in one document's title.
    pub title_bytes_max: usize,
    /// Bytes of UTF-8 in a document's id.
    pub document_id_bytes_max: usize,
    /// Bytes of JSON in one document's metadata.
    pub metadata_bytes_max: usize,
    /// Keys at the top level of one document's metadata.
    pub metadata_keys_max: usize,
    /// Bytes of UTF-8 in a query.
    pub query_bytes_max: usize,
    /// Results of one search.
    pub top_k_max: u64,
    /// Bytes of JSON in a filter.
    pub filter_bytes_max: usize,
    /// Facet fields in one search.
    pub facets_per_request_max: usize,
    /// Values returned for one facet field.
    pub facet_values_max: u64,
    /// Sort fields in one search.
    pub sort_fields_max: usize,
    /// Context chunks before, and after, a result.
    pub context_chunks_max: u64,
    /// Rank of the last result that paging can reach.
    pub page_depth_max: u64,
    /// Searches in one request.
    pub queries_per_request_max: usize,
    /// Deadline of a request, in milliseconds.
    pub request_deadline_ms: u64,
    /// Texts in one request for embeddings, at most [`crate::INPUTS_MAX`].
    pub embedding_inputs_max: usize,
    /// Bytes of UTF-8 in one text to embed.
    pub embedding_input_bytes_max: usize,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Limits = Limits {
        documents_per_request_max: 10_000,
        document_text_bytes_max: 16 << 20,
        title_bytes_max: 2_048,
        document_id_bytes_max: 512,
        metadata_bytes_max: 64 << 10,
        metadata_keys_max: 256,
        query_bytes_max: 16 << 10,
        top_k_max: 1_000,
        filter_bytes_max: 1 << 20,
        facets_per_request_max: 16,
        facet_values_max: 1_000,
        sort_fields_max: 8,
        context_chunks_max: 10,
        page_depth_max: 10_000,
        queries_per_request_max: 32,
        request_deadline_ms: 30_000,
        embedding_inputs_max: 2_048,
        embedding_input_bytes_max: 1 << 20,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

/// Checks that `what` at `path` has at most `bytes_max` bytes, the limit `limits.{setting}`.
pub(crate) fn check_bytes(
    path: &[&str],
    what: &str,
    bytes: usize,
    bytes_max: usize,
    setting: &str,
) -> Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let message = format!("{what} has {bytes} bytes; the limit `limits.{setting}` is {bytes_max}");
    Err(Invalid::at(ErrorCode::PayloadTooLarge, path, message))
}
