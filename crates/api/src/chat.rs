//! The field `weir` of chat requests, and what a reply from sources has beside its answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CitedPages, Count, RawJson};

/// Where a chat request takes its sources from: `weir` in `POST /v1/chat/completions`, `/v1/completions`, `/v1/messages` and `/v1/responses`.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object such as {\"collection\": \"notes\"}")]
pub struct ChatRetrieval {
    /// The collection to search.
    pub collection: String,
    /// Most sources; default: 5.
    pub top_k: Option<Count>,
    /// Condition on metadata that every source must match.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub filter: Option<RawJson>,
    /// Leave out sources with a lower relevance, 0 to 1; default: take all.
    pub min_relevance: Option<f32>,
    /// Most tokens of all sources together, estimated as a quarter of their bytes; default: 3,000.
    pub tokens_max: Option<Count>,
    /// The action without any source; default: `call`.
    pub on_empty: Option<OnEmpty>,
    /// A model that rewrites the last question of a longer conversation so that it can be searched by itself; default: the last question is searched
    /// as it is.
    pub condense_model: Option<String>,
    /// How the reply shows its sources; default: `fields`. A request to a model whose route has a collection may have this field alone.
    pub sources_as: Option<SourcesAs>,
}

/// How a reply shows its sources. Every reply has the fields `citations` and `sources`, and the citations of its own API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourcesAs {
    /// In fields only.
    #[default]
    Fields,
    /// Also as a list of the cited sources, in Markdown, at the end of the answer.
    Markdown,
    /// Also as the events by which Open WebUI shows sources, in streams of chat completions.
    OpenWebui,
}

/// The action on a chat request for which nothing is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnEmpty {
    /// The model is called, with the notice that there are no sources.
    Call,
    /// The reply says that nothing was found; no model is called.
    Reply,
}

/// A source that the model was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatSource {
    /// Its number in the prompt, from 1.
    pub n: usize,
    /// The document.
    pub document_id: String,
    /// Offset of its first byte in the document's text (UTF-8).
    pub start: u64,
    /// Offset of the byte after it.
    pub end: u64,
    /// The pages on which it stands.
    #[serde(flatten)]
    pub pages: CitedPages,
    /// The estimated probability that it answers the question.
    pub relevance: Option<f32>,
    /// Whether it contains instructions to a model, as injected prompts do.
    pub flagged: bool,
}

/// A reference to a source in an answer.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatCitation {
    /// The number that the answer names.
    pub n: usize,
    /// The document; null for a source that was not given.
    #[serialize_always]
    pub document_id: Option<String>,
    /// Offset of the quote's first byte in the document's text (UTF-8); null if it is not there.
    #[serialize_always]
    pub start: Option<u64>,
    /// Offset of the byte after the quote.
    #[serialize_always]
    pub end: Option<u64>,
    /// The document's text from `start` to `end`, byte for byte; of a citation that does not hold, what the answer quotes.
    pub quote: String,
    /// The pages on which the quote stands.
    #[serde(flatten)]
    pub pages: CitedPages,
    /// Whether the source contains the quote.
    pub verified: bool,
    /// Why it does not hold.
    pub reason: Option<String>,
}
