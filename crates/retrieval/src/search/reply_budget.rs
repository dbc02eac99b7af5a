//! Bytes of a reply: of one search, or of all searches of a batch.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_api::{ErrorCode, Invalid, SearchResult};

/// Approximate bytes of a result's names and numbers in JSON.
const RESULT_BYTES: usize = 512;
/// The same of a term of an explanation, of a span, and of a neighbouring chunk.
const TERM_BYTES: usize = 64;
const SPAN_BYTES: usize = 12;
const CHUNK_BYTES: usize = 48;

/// The bytes that are left for results.
pub(super) struct ReplyBudget {
    limit: usize,
    left: AtomicUsize,
}

impl ReplyBudget {
    /// A budget for the setting `limits.search_reply_bytes_max`.
    pub(super) fn new(limit: usize) -> ReplyBudget {
        ReplyBudget { limit, left: AtomicUsize::new(limit) }
    }

    /// Takes the bytes of a result.
    ///
    /// # Errors
    /// When fewer are left.
    pub(super) fn take(&self, result: &SearchResult) -> Result<(), Invalid> {
        let bytes = size_of_result(result);
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        let limit = self.limit;
        taken.map(drop).map_err(|_| {
            let message = format!(
                "the reply would have more bytes than the limit `limits.search_reply_bytes_max`, which is {limit}; send a smaller `top_k` or \
                 `context`, fewer searches, or leave out `explain`"
            );
            Invalid::at(ErrorCode::InvalidParameter, &["top_k"], message)
        })
    }
}

/// Approximate bytes of a result in JSON.
fn size_of_result(result: &SearchResult) -> usize {
    let texts = [
        2 * result.id.len(),
        result.title.as_ref().map_or(0, String::len),
        result.text.len() + result.citation.quote.len(),
        result.metadata.as_json().len(),
        result.snippet.as_ref().map_or(0, |snippet| snippet.text.len()),
    ];
    let lists = [
        result.highlights.as_ref().map_or(0, |spans| SPAN_BYTES * spans.len()),
        result.explanation.iter().flat_map(|one| &one.terms).map(|term| TERM_BYTES + term.term.len()).sum(),
        result
            .explanation
            .iter()
            .flat_map(|one| &one.phrases)
            .map(|share| TERM_BYTES + share.phrase.len())
            .sum(),
        result.context.iter().flatten().map(|chunk| CHUNK_BYTES + chunk.text.len()).sum(),
        result.collapsed.iter().flatten().map(String::len).sum(),
    ];
    RESULT_BYTES + texts.iter().chain(&lists).sum::<usize>()
}
