//! `POST /rerank`, `/v1/rerank` and `/v2/rerank`: one body for the dialects of Cohere (v1 and v2), Jina and text-embeddings-inference.
//! Unknown fields are ignored: clients send them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::embeddings::refuse;
use crate::{Count, ErrorCode, Invalid, Limits, Result, TruncationDirection, require};

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
    /// Number of results, the best ones; default: all. `top_k` is Voyage's name for it.
    #[serde(alias = "top_k")]
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
    /// Whether documents longer than the model's input limit are truncated or refused; default: true. `truncation` is Voyage's name for it.
    #[serde(default, alias = "truncation", deserialize_with = "lenient_bool")]
    #[schemars(with = "Option<bool>")]
    pub truncate: Option<bool>,
    /// Always `Right`: documents lose their end.
    #[serde(alias = "truncation_side")]
    pub truncation_direction: Option<TruncationDirection>,
    /// Tokens of a document that the model reads, in Cohere's API; default: as many as fit beside the query.
    pub max_tokens_per_doc: Option<Count>,
    /// Chunks of a document that are scored, in Cohere's earlier API. More than 1 is refused for documents longer than the model's input limit.
    pub max_chunks_per_doc: Option<Count>,
    /// Always `["text"]`: the text of a document is scored.
    pub rank_fields: Option<Vec<String>>,
    /// Refused if it is true, in Jina's API.
    #[serde(default, deserialize_with = "lenient_bool")]
    #[schemars(with = "Option<bool>")]
    pub return_embeddings: Option<bool>,
    /// Refused if it is false, in vLLM's API: `raw_scores` returns logits.
    #[serde(default, alias = "activation", deserialize_with = "lenient_bool")]
    #[schemars(with = "Option<bool>")]
    pub use_activation: Option<bool>,
    /// Refused unless it is -1, in vLLM's API: pairs are truncated at the model's limit.
    pub truncate_prompt_tokens: Option<i64>,
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
        self.check_unserved()?;
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

    /// Refuses values of fields of other servers that change scores in ways that are not served here.
    fn check_unserved(&self) -> Result<()> {
        for (field, count) in
            [("max_tokens_per_doc", self.max_tokens_per_doc), ("max_chunks_per_doc", self.max_chunks_per_doc)]
        {
            count.map_or(Ok(()), |count| count.check(&[field], 1..=u64::MAX, ""))?;
        }
        let has_other_fields =
            self.rank_fields.as_ref().is_some_and(|fields| fields.iter().any(|field| field != "text"));
        refuse(&[
            (
                self.truncation_direction == Some(TruncationDirection::Left),
                "truncation_direction",
                "is `Left`, and documents lose their end; leave it out, or send `Right`",
            ),
            (
                has_other_fields,
                "rank_fields",
                "names other fields than `text`; send the text to score as `text`, and leave it out",
            ),
            (
                self.return_embeddings == Some(true),
                "return_embeddings",
                "is true, and a reranker has no embeddings; leave it out, and call /v1/embeddings",
            ),
            (
                self.use_activation == Some(false),
                "use_activation",
                "is false; leave it out, and send `\"raw_scores\": true` for logits",
            ),
            (
                self.truncate_prompt_tokens.is_some_and(|tokens| tokens != -1),
                "truncate_prompt_tokens",
                "shortens pairs to another length than the model's limit; leave it out, or send `max_tokens_per_doc`",
            ),
        ])
    }

    /// Refuses the truncation of a document that the request does not allow; `truncated` are the indices of truncated documents.
    ///
    /// # Errors
    /// `context_length_exceeded` for `truncate`, `invalid_parameter` for `max_chunks_per_doc`, with the position of the document.
    pub fn check_truncated(&self, field: &str, truncated: &[usize]) -> Result<()> {
        let Some(&index) = truncated.first() else { return Ok(()) };
        if self.truncate == Some(false) {
            let message = "the document and the query are longer than the model's input limit; shorten it, or leave `truncate` out";
            return Err(Invalid::at_item(ErrorCode::ContextLengthExceeded, field, index, message.to_owned()));
        }
        match self.max_chunks_per_doc {
            Some(chunks) if chunks.get() > 1 => {
                let message = format!(
                    "`max_chunks_per_doc` is {chunks}, and of `{field}[{index}]`, which is longer than the model's input limit, one chunk is scored: its start; send 1 or leave it out, or split the document"
                );
                Err(Invalid::at(ErrorCode::InvalidParameter, &["max_chunks_per_doc"], message))
            }
            Some(_) | None => Ok(()),
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

/// Cohere's metadata of a request.
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

/// The units that Cohere bills.
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
    /// The failure and its remedy, as in Cohere's API.
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
    fn fields_of_other_servers_are_served_or_refused_by_name() {
        let check = |field: &str, served: &[&str], refused: &[&str]| {
            for value in served {
                let body = format!(r#"{{"query":"q","documents":["a"],"{field}":{value}}}"#);
                assert!(read(&body).is_ok(), "{body}");
            }
            for value in refused {
                let body = format!(r#"{{"query":"q","documents":["a"],"{field}":{value}}}"#);
                let invalid = read(&body).unwrap_err();
                assert_eq!(invalid.param.as_deref(), Some(field), "{body}");
            }
        };
        check("top_k", &["1", "7", "null"], &[]);
        check("truncate", &["true", "false", "\"true\"", "null"], &["\"end\""]);
        check("truncation", &["true", "false"], &["7"]);
        check("truncation_direction", &["\"Right\"", "\"right\""], &["\"Left\"", "\"up\""]);
        check("max_tokens_per_doc", &["1", "4096"], &["0", "\"many\""]);
        check("max_chunks_per_doc", &["1", "10"], &["0"]);
        check("rank_fields", &["[\"text\"]", "[]", "null"], &["[\"title\"]", "[\"text\",\"title\"]"]);
        check("return_embeddings", &["false"], &["true"]);
        check("use_activation", &["true"], &["false"]);
        check("truncate_prompt_tokens", &["-1"], &["20"]);
        check("priority", &["0", "7"], &[]);
    }

    #[test]
    fn a_truncated_document_is_refused_where_the_request_says_so() {
        let check = |more: &str, truncated: &[usize], expected: &str| {
            let request = read(&format!(r#"{{"query":"q","documents":["a","b"]{more}}}"#)).unwrap();
            let seen = match request.check_truncated("documents", truncated) {
                Ok(()) => "ok".to_owned(),
                Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
            };
            assert_eq!(seen, expected, "{more}");
        };
        check("", &[1], "ok");
        check(r#","truncate":false"#, &[], "ok");
        check(r#","truncate":false"#, &[1], "context_length_exceeded documents[1]");
        check(r#","max_chunks_per_doc":10"#, &[], "ok");
        check(r#","max_chunks_per_doc":1"#, &[1], "ok");
        check(r#","max_chunks_per_doc":10"#, &[1], "invalid_parameter max_chunks_per_doc");
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
