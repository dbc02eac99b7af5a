//! `POST /v1/search`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collections::check_collection_name;
use crate::limits::check_bytes;
use crate::object::optional;
use crate::{Code, DEFAULT_COLLECTION, DEFAULT_TOP_K, Invalid, Limits, Metadata};

/// A search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// What is searched: words or a sentence.
    pub query: String,
    /// How many results at most; 5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// The collection; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Which legs rank; `hybrid` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How the two rankings of a hybrid search are fused; the gateway's setting when absent.
    #[serde(default, deserialize_with = "optional", skip_serializing_if = "Option::is_none")]
    pub fusion: Option<Fusion>,
    /// Results that are less relevant are left out, 0 to 1; all are returned when absent. No result then says that nothing relevant was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_relevance: Option<f32>,
}

/// Which legs rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Both, fused.
    #[default]
    Hybrid,
    /// Words alone (BM25).
    Lexical,
    /// Embeddings alone.
    Dense,
}

impl Mode {
    /// The mode's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Hybrid => "hybrid",
            Mode::Lexical => "lexical",
            Mode::Dense => "dense",
        }
    }
}

/// How two rankings become one. What is absent is taken from the gateway's settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<FusionMethod>,
    /// The weight of each leg.
    #[serde(default, deserialize_with = "optional", skip_serializing_if = "Option::is_none")]
    pub weights: Option<FusionWeights>,
    /// The constant of `rrf`, usually 60; larger flattens the top. Without effect on `convex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<f32>,
}

/// A way to fuse rankings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FusionMethod {
    /// Weighted reciprocal rank: only the order counts.
    Rrf,
    /// Weighted sum of scores, each as a share of its ranking's best.
    Convex,
}

impl FusionMethod {
    /// The method's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            FusionMethod::Rrf => "rrf",
            FusionMethod::Convex => "convex",
        }
    }
}

/// The weight of each leg: 0 or more, and not both 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FusionWeights {
    /// The weight of the lexical ranking.
    pub lexical: f32,
    /// The weight of the dense ranking.
    pub dense: f32,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReply {
    /// Best first, one entry per document.
    pub results: Vec<SearchResult>,
    /// From the body's last byte to the finished ranking, in milliseconds.
    pub took_ms: f64,
    /// Where the time went.
    pub timings_ms: Timings,
}

/// One document that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchResult {
    /// The document's id.
    pub id: String,
    /// Its rank score; comparable within this reply only.
    pub score: f32,
    /// The probability, 0 to 1, that it answers the query; comparable across queries.
    pub relevance: Option<f32>,
    /// The text of its best chunk.
    pub text: String,
    /// The document's title, when it has one.
    pub title: Option<String>,
    /// The document's metadata.
    pub metadata: Metadata,
    /// Where the text stands.
    pub citation: Citation,
    /// The places in the rankings of the two legs.
    pub ranks: Ranks,
}

/// A place in a document that anybody can look up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Citation {
    /// The document's id.
    pub document_id: String,
    /// The chunk's number in the document, from 0.
    pub chunk: u32,
    /// The first byte of the chunk in the document's text (UTF-8).
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// The document's text from `start` to `end`, byte for byte.
    pub quote: String,
}

/// The places of a result in the rankings of the two legs, from 1; null when a leg didn't return it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ranks {
    /// The place among the lexical hits.
    pub lexical: Option<u32>,
    /// The place among the dense hits.
    pub dense: Option<u32>,
}

/// Where a search's time went, in milliseconds; 0 for a stage that had nothing to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Reading the request and the query.
    pub parse: f64,
    /// Embedding the query, waiting for it included.
    pub embed: f64,
    /// The lexical leg.
    pub lexical: f64,
    /// The dense leg.
    pub dense: f64,
    /// Fusing the rankings.
    pub fuse: f64,
    /// Fetching text, title and metadata of the hits.
    pub fetch: f64,
}

impl SearchRequest {
    /// The collection that is meant.
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(DEFAULT_COLLECTION)
    }

    /// How many results are asked for.
    pub fn top_k(&self) -> u64 {
        self.top_k.unwrap_or(DEFAULT_TOP_K)
    }

    /// Which legs rank.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// Checks everything that can be checked without looking anything up.
    ///
    /// # Errors
    /// The first thing that is wrong: an empty or too long query, `top_k` out of `1..=limits.top_k_max`, a name that
    /// no collection can have, weights or `k` that can't rank, a `min_relevance` that is no probability.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        if self.query.trim().is_empty() {
            let message = "the query is empty; send at least one word";
            return Err(Invalid::at(Code::InvalidParameter, &["query"], message));
        }
        check_bytes(&["query"], "the query", self.query.len(), limits.query_bytes_max, "query_bytes_max")?;
        check_top_k(self.top_k(), limits.top_k_max)?;
        check_collection_name(self.collection())?;
        check_min_relevance(self.min_relevance)?;
        self.fusion.as_ref().map_or(Ok(()), Fusion::check)
    }
}

fn check_top_k(top_k: u64, top_k_max: u64) -> Result<(), Invalid> {
    if (1..=top_k_max).contains(&top_k) {
        return Ok(());
    }
    let message =
        format!("top_k is {top_k}; it must be from 1 to {top_k_max} (the limit `limits.top_k_max`)");
    Err(Invalid::at(Code::InvalidParameter, &["top_k"], message))
}

fn check_min_relevance(min_relevance: Option<f32>) -> Result<(), Invalid> {
    match min_relevance {
        Some(least) if !(0.0..=1.0).contains(&least) => {
            let message = format!("min_relevance is {least}; it must be a number from 0 to 1");
            Err(Invalid::at(Code::InvalidParameter, &["min_relevance"], message))
        }
        Some(_) | None => Ok(()),
    }
}

impl Fusion {
    fn check(&self) -> Result<(), Invalid> {
        if let Some(weights) = self.weights {
            weights.check()?;
        }
        match self.k {
            Some(k) if !(k.is_finite() && k > 0.0) => {
                let message = format!("fusion.k is {k}; it must be a number above 0");
                Err(Invalid::at(Code::InvalidParameter, &["fusion", "k"], message))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl FusionWeights {
    fn check(self) -> Result<(), Invalid> {
        for (name, weight) in [("lexical", self.lexical), ("dense", self.dense)] {
            if !(weight.is_finite() && weight >= 0.0) {
                let message = format!("the weight `{name}` is {weight}; it must be a number of 0 or more");
                return Err(Invalid::at(Code::InvalidParameter, &["fusion", "weights", name], message));
            }
        }
        if self.lexical + self.dense == 0.0 {
            let message = "both weights are 0; at least one must be above 0";
            return Err(Invalid::at(Code::InvalidParameter, &["fusion", "weights"], message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the request written as JSON; `expected` is `code param`, or `ok`.
    fn check(body: &str, expected: &str) {
        let request: SearchRequest = crate::parse(body.as_bytes()).unwrap();
        let seen = match request.check(&Limits { query_bytes_max: 10, ..Limits::default() }) {
            Ok(()) => "ok".to_owned(),
            Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
        };
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn a_search_out_of_its_limits_is_refused_at_the_place() {
        check(r#"{"query":"a"}"#, "ok");
        check(r#"{"query":"a","top_k":null,"collection":null,"mode":null,"fusion":null}"#, "ok");
        check(r#"{"query":""}"#, "invalid_parameter query");
        check(r#"{"query":" \t\n"}"#, "invalid_parameter query");
        check(r#"{"query":"0123456789"}"#, "ok");
        check(r#"{"query":"0123456789a"}"#, "payload_too_large query");
        check(r#"{"query":"a","top_k":0}"#, "invalid_parameter top_k");
        check(r#"{"query":"a","min_relevance":0}"#, "ok");
        check(r#"{"query":"a","min_relevance":1}"#, "ok");
        check(r#"{"query":"a","min_relevance":-0.1}"#, "invalid_parameter min_relevance");
        check(r#"{"query":"a","min_relevance":1.1}"#, "invalid_parameter min_relevance");
        check(r#"{"query":"a","min_relevance":1e300}"#, "invalid_parameter min_relevance");
        check(r#"{"query":"a","top_k":1000}"#, "ok");
        check(r#"{"query":"a","top_k":1001}"#, "invalid_parameter top_k");
        check(r#"{"query":"a","collection":"a b"}"#, "invalid_parameter collection");
        check(r#"{"query":"a","fusion":{"k":0}}"#, "invalid_parameter fusion.k");
        check(
            r#"{"query":"a","fusion":{"weights":{"lexical":0,"dense":0}}}"#,
            "invalid_parameter fusion.weights",
        );
        check(
            r#"{"query":"a","fusion":{"weights":{"lexical":1,"dense":-1}}}"#,
            "invalid_parameter fusion.weights.dense",
        );
    }

    #[test]
    fn what_the_request_leaves_out_has_a_default() {
        let request: SearchRequest = crate::parse(br#"{"query":"a"}"#).unwrap();
        assert_eq!((request.collection(), request.top_k(), request.mode()), ("default", 5, Mode::Hybrid));
    }

    #[test]
    fn a_refused_top_k_names_the_limit_and_the_value() {
        assert_eq!(
            check_top_k(0, 1000).unwrap_err().message,
            "top_k is 0; it must be from 1 to 1000 (the limit `limits.top_k_max`)"
        );
    }
}
