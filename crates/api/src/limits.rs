//! What a request may ask for, and the checks that several resources share.

use crate::{Code, Invalid};

/// The limits that a request is checked against after its body was read. Each is a setting under `limits.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Documents in one ingest request.
    pub documents_per_request_max: usize,
    /// Bytes of UTF-8 in one document's text.
    pub document_text_bytes_max: usize,
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
    /// Texts in one request for embeddings, at most [`crate::INPUTS_MAX`].
    pub embedding_inputs_max: usize,
    /// Bytes of UTF-8 in one text to embed.
    pub embedding_input_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            documents_per_request_max: 10_000,
            document_text_bytes_max: 16 << 20,
            document_id_bytes_max: 512,
            metadata_bytes_max: 64 << 10,
            metadata_keys_max: 256,
            query_bytes_max: 16 << 10,
            top_k_max: 1_000,
            embedding_inputs_max: 2_048,
            embedding_input_bytes_max: 1 << 20,
        }
    }
}

/// Refuses `what` at `path` when it has more bytes than the limit called `limits.{setting}` allows.
pub(crate) fn check_bytes(
    path: &[&str],
    what: &str,
    bytes: usize,
    bytes_max: usize,
    setting: &str,
) -> Result<(), Invalid> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let message = format!("{what} has {bytes} bytes; the limit `limits.{setting}` is {bytes_max}");
    Err(Invalid::at(Code::PayloadTooLarge, path, message))
}
