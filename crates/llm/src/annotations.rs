//! A citation in the shape of each API.

use serde_json::{Value, json};
use weir_api::ChatCitation;

use crate::citations::Reference;
use crate::source_list::Shown;

/// An annotation of a message of chat completions, which needs an address. Indices count characters of the message.
pub(crate) fn of_chat(sent: &str, reference: &Reference, source: &Shown) -> Option<Value> {
    let url = source.url.as_ref()?;
    let (start, end) = characters(sent, reference);
    Some(json!({"type": "url_citation",
        "url_citation": {"start_index": start, "end_index": end, "url": url, "title": source.title}}))
}

/// An annotation of a part of a response: of an address, or of a file where the document has none.
pub(crate) fn of_response(sent: &str, reference: &Reference, source: &Shown) -> Value {
    let (start, end) = characters(sent, reference);
    match &source.url {
        Some(url) => {
            json!({"type": "url_citation", "start_index": start, "end_index": end, "url": url, "title": source.title})
        }
        None => {
            json!({"type": "file_citation", "index": start, "file_id": source.document_id, "filename": source.title})
        }
    }
}

/// A citation of a text block of a message. Each source counts as one result of a search, with one block.
pub(crate) fn of_message(citation: &ChatCitation, cited_text: String, source: &Shown) -> Value {
    let place = source.url.as_ref().unwrap_or(&source.document_id);
    json!({"type": "search_result_location", "cited_text": cited_text, "source": place, "title": source.title,
        "search_result_index": citation.n - 1, "start_block_index": 0, "end_block_index": 1})
}

/// The place of a marker, in characters.
fn characters(sent: &str, reference: &Reference) -> (usize, usize) {
    let start = sent[..reference.marker.start].chars().count();
    (start, start + sent[reference.marker.clone()].chars().count())
}
