//! A citation in the shape of each API.

use std::ops::Range;

use serde_json::{Value, json};

use super::Api;

/// A place of an answer, and the source that it names.
#[derive(Debug)]
pub struct Citation<'a> {
    /// The bytes of its marker, such as `[1]`, in the text as the caller gets it.
    pub marker: &'a Range<usize>,
    /// The number of the source, from 1.
    pub number: usize,
    /// The document.
    pub document_id: &'a str,
    /// Its title.
    pub title: &'a str,
    /// Its address.
    pub url: Option<&'a str>,
}

impl Citation<'_> {
    /// The citation as `api` writes it; `None` where it has no form for it. `quote`: the cited text. It is called where an API has one.
    pub fn annotation(&self, api: Api, sent: &str, quote: impl FnOnce() -> String) -> Option<Value> {
        match api {
            Api::ChatCompletions => self.of_chat(sent),
            Api::Responses => Some(self.of_response(sent)),
            Api::Messages | Api::CountTokens => Some(self.of_message(&quote())),
            Api::Completions | Api::Embeddings => None,
        }
    }

    /// An annotation of a message of chat completions, which needs an address. Indices count characters of the message.
    fn of_chat(&self, sent: &str) -> Option<Value> {
        let url = self.url?;
        let (start, end) = self.characters(sent);
        Some(json!({"type": "url_citation",
            "url_citation": {"start_index": start, "end_index": end, "url": url, "title": self.title}}))
    }

    /// An annotation of a part of a response: of an address, or of a file where the document has none.
    fn of_response(&self, sent: &str) -> Value {
        let (start, end) = self.characters(sent);
        match self.url {
            Some(url) => {
                json!({"type": "url_citation", "start_index": start, "end_index": end, "url": url, "title": self.title})
            }
            None => {
                json!({"type": "file_citation", "index": start, "file_id": self.document_id, "filename": self.title})
            }
        }
    }

    /// A citation of a text block of a message. Each source counts as one result of a search, with one block.
    fn of_message(&self, quote: &str) -> Value {
        let place = self.url.unwrap_or(self.document_id);
        json!({"type": "search_result_location", "cited_text": quote, "source": place, "title": self.title,
            "search_result_index": self.number - 1, "start_block_index": 0, "end_block_index": 1})
    }

    /// The place of the marker, in characters.
    fn characters(&self, sent: &str) -> (usize, usize) {
        let start = sent[..self.marker.start].chars().count();
        (start, start + sent[self.marker.clone()].chars().count())
    }
}
