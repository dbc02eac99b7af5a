//! `POST /rerank`, `/v1/rerank` and `/v2/rerank`: one body for the dialects of Cohere (v1 and v2), Jina and text-embeddings-inference.
//! Unknown fields are ignored: clients send them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Count, ErrorCode, Invalid, Limits, Result, require};

/// Most documents of a request.
const DOCUMENTS_MAX: usize = 1_000;

/// A query and the documents to sort by relevance to it. With `texts` instead of `documents` the request is TEI's.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RerankRequest {
    /// The id or an alias of a model that reranks; default: the first one.
    pub model: Option<String>,
    /// The query.
    pub query: String,
    /// The documents: texts, or objects with a `text`.
    #[serde(default)]
    pub documents: Vec<RerankDocument>,
    /// The documents in TEI's API.
    pub texts: Option<Vec<String>>,
    /// Number of results, the best ones; default: all.
    pub top_n: Option<Count>,
    /// Whether results contain their documents; default: true, on `/v2/rerank` false.
    #[serde(default, deserialize_with = "lenient_bool")]
    #[schemars(with = "Option<bool>")]
    pub return_documents: Option<bool>,
    /// Whether results contain their texts, in TEI's API; default: false.
    #[serde(default, deserialize_with = "lenient_bool")]
    #[schemars(with = "Option<bool>")]
    pub return_text: Option<bool>,
    /// Whether scores are logits; default: false, probabilities from 0 to 1.
    #[serde(default, deserialize_with = "lenient_bool")]
    #[schemars(with = "Option<bool>")]
    pub raw_scores: Option<bool>,
}

/// A document to rerank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RerankDocument {
    /// Its text.
    pub text: String,
}

impl From<String> for RerankDocument {
    fn from(text: String) -> RerankDocument {
        RerankDocument { text }
    }
}

impl<'de> Deserialize<'de> for RerankDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RerankDocument, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text, or an object with a `text`")]
        enum Shape {
            Text(String),
            Object { text: String },
        }
        Shape::deserialize(deserializer).map(|shape| match shape {
            Shape::Text(text) | Shape::Object { text } => RerankDocument { text },
        })
    }
}

impl JsonSchema for RerankDocument {
    fn schema_name() -> Cow<'static, str> {
        "RerankDocument".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text, or an object with a `text`.",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
            ],
        })
    }
}

/// `true`, `false`, or either as a string, which some clients send.
fn lenient_bool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a boolean")]
    enum Shape {
        Bool(bool),
        Text(Cow<'static, str>),
        Null(()),
    }
    match Shape::deserialize(deserializer)? {
        Shape::Bool(value) => Ok(Some(value)),
        Shape::Null(()) => Ok(None),
        Shape::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(serde::de::Error::custom(format!(
                "`{}` is neither `true` nor `false`",
                text.escape_debug()
            ))),
        },
    }
}

impl RerankRequest {
    /// Validates the request by itself.
    ///
    /// # Errors
    /// `invalid_parameter`, `empty_input`, `batch_too_large`, `payload_too_large`.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let field = if self.texts.is_some() { "texts" } else { "documents" };
        let count = self.texts.as_ref().map_or(self.documents.len(), Vec::len);
        require(!self.query.trim().is_empty(), &["query"], || "`query` is empty; send at least one word")?;
        require(
            self.texts.is_none() || self.documents.is_empty(),
            &["texts"],
            || "the request has `documents` and `texts`; send one of them",
        )?;
        if count == 0 {
            let message = format!(
                "`{field}` is missing or empty; send the texts to sort as `documents`, or as `texts` in TEI's API"
            );
            return Err(Invalid::at(ErrorCode::EmptyInput, &[field], message));
        }
        if count > DOCUMENTS_MAX {
            let message =
                format!("`{field}` has {count} documents; at most {DOCUMENTS_MAX} are reranked at once");
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &[field], message));
        }
        if let Some(top_n) = self.top_n {
            top_n.check(&["top_n"], 1..=u64::MAX, "")?;
        }
        let most = limits.embedding_input_bytes_max;
        let mut lengths = self.lengths();
        match lengths.position(|bytes| bytes > most) {
            Some(index) => {
                let message = format!(
                    "the document has more bytes than the limit `limits.embedding_input_bytes_max`, which is {most}"
                );
                Err(Invalid::at_item(ErrorCode::PayloadTooLarge, field, index, message))
            }
            None => Ok(()),
        }
    }

    fn lengths(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match &self.texts {
            Some(texts) => Box::new(texts.iter().map(String::len)),
            None => Box::new(self.documents.iter().map(|document| document.text.len())),
        }
    }

    /// Takes the texts, in order.
    pub fn take_texts(&mut self) -> Vec<String> {
        match self.texts.take() {
            Some(texts) => texts,
            None => std::mem::take(&mut self.documents).into_iter().map(|document| document.text).collect(),
        }
    }
}

/// The reply in the dialects of Cohere and Jina.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RerankReply {
    /// A new id.
    pub id: String,
    /// The model, as named in the request.
    pub model: String,
    /// Always `list`.
    pub object: crate::ListObject,
    /// The best results first.
    pub results: Vec<RerankResult>,
    /// Token counts, as Jina has them.
    pub usage: crate::Usage,
    /// Token counts, as Cohere has them.
    pub meta: RerankMeta,
}

/// One document with its relevance.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RerankResult {
    /// Index of the document in the request, from 0.
    pub index: usize,
    /// Probability, from 0 to 1, that the document answers the query; with `raw_scores` its logit.
    pub relevance_score: f32,
    /// The document.
    #[schemars(with = "Option<RerankedDocument>")]
    pub document: Option<RerankedDocument>,
}

/// A document of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RerankedDocument {
    /// Its text.
    pub text: String,
}

/// What Cohere tells of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RerankMeta {
    /// The version of the API.
    pub api_version: CohereVersion,
    /// Always one search.
    pub billed_units: RerankUnits,
    /// Token counts.
    pub tokens: CohereTokens,
}

/// The version of Cohere's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CohereVersion {
    /// `1` or `2`.
    pub version: String,
}

/// What Cohere bills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RerankUnits {
    /// Always 1.
    pub search_units: f64,
}

/// Token counts in Cohere's API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CohereTokens {
    /// Tokens of all pairs of query and document.
    pub input_tokens: usize,
}

/// One text with its score in TEI's API.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TeiRank {
    /// Index of the text in the request, from 0.
    pub index: usize,
    /// Probability that the text answers the query, or its logit.
    pub score: f32,
    /// The text, on request.
    pub text: Option<String>,
}

/// The body of errors on the routes of several APIs: each client finds the key that it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RerankError {
    /// The error in the format of OpenAI's API.
    pub error: crate::OpenAiError,
    /// What failed, and the remedy, as in Cohere's API.
    pub message: String,
    /// The same, as in Jina's API.
    pub detail: String,
    /// The request's id.
    pub id: String,
}

/// The reply to a rerank request: an object, or TEI's list for a request with `texts`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyRerankReply {
    /// In the dialects of Cohere and Jina.
    Cohere(Box<RerankReply>),
    /// In TEI's.
    Tei(Vec<TeiRank>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<RerankRequest> {
        let request: RerankRequest = crate::parse(body.as_bytes())?;
        request.check(&Limits::default()).map(|()| request)
    }

    #[test]
    fn documents_are_texts_or_objects_and_booleans_may_be_strings() {
        let body = r#"{"model":"m","query":"q","documents":["a",{"text":"b","id":7}],"return_documents":"true","return_len":"true"}"#;
        let mut request = read(body).unwrap();
        assert_eq!(
            (request.return_documents, request.take_texts()),
            (Some(true), vec!["a".into(), "b".into()])
        );
        let mut request =
            read(r#"{"query":"q","texts":["a"],"raw_scores":true,"return_documents":null}"#).unwrap();
        assert_eq!((request.raw_scores, request.take_texts()), (Some(true), vec!["a".to_owned()]));
    }

    #[test]
    fn wrong_shapes_name_the_field() {
        let check = |body: &str, expected: &str| {
            let invalid = read(body).unwrap_err();
            assert_eq!(format!("{} {}", invalid.code, invalid.param.unwrap_or_default()), expected, "{body}");
        };
        check(r#"{"query":"q"}"#, "empty_input documents");
        check(r#"{"query":"q","texts":[]}"#, "empty_input texts");
        check(r#"{"query":" ","texts":["a"]}"#, "invalid_parameter query");
        check(r#"{"query":"q","documents":["a"],"texts":["a"]}"#, "invalid_parameter texts");
        check(r#"{"query":"q","documents":["a"],"top_n":0}"#, "invalid_parameter top_n");
        check(
            r#"{"query":"q","documents":["a"],"return_documents":"yes"}"#,
            "invalid_parameter return_documents",
        );
        check(r#"{"query":"q","documents":[7]}"#, "invalid_parameter documents[0]");
        let many = serde_json::to_string(&vec!["a"; 1_001]).unwrap();
        check(&format!(r#"{{"query":"q","documents":{many}}}"#), "batch_too_large documents");
    }
}
