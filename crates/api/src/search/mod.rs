//! `POST /v1/search`.

mod fusion;
mod parts;
mod reply;
mod rerank;

pub use fusion::{Fusion, FusionMethod, FusionWeights, Mode};
pub use parts::{Facet, GroupBy, Order, RawJson, Sort};
pub use reply::{
    BatchItem, BatchReply, Citation, CitedPages, CitedPart, ContextChunk, Correction, DegradedReason,
    EmbeddingSource, Explain, ExplainFusion, ExplainLearned, ExplainRerank, Explanation, FacetCount,
    FusedPosition, PhraseScore, QueryReading, Ranks, RetrieverCounts, RetrieverPosition, Scores,
    SearchOrBatchReply, SearchReply, SearchResult, Snippet, TermScore, Timings, Total, TotalRelation, WhyNot,
    WhyNotStage,
};
pub use rerank::{
    DEFAULT_LATE_INTERACTION_TOP_N, LATE_INTERACTION_WEIGHT_MAX, LateInteraction, RERANK_TOP_N_MAX, Rerank,
    RerankOptions,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collections::check_collection_name;
use crate::limits::check_bytes;
use crate::object::optional;
use crate::{Count, DEFAULT_COLLECTION, DEFAULT_TOP_K, ErrorCode, Invalid, Limits, Result, require};
use parts::at_most;

/// Default `limit` of a facet.
pub const DEFAULT_FACET_VALUES: u64 = 10;

/// Longer lists are refused during parsing, regardless of the configured limits.
const FACETS_PARSED_MAX: usize = 256;
const SORTS_PARSED_MAX: usize = 256;
const VECTOR_PARSED_MAX: usize = 65_536;
const QUERIES_PARSED_MAX: usize = 1_024;

/// A search. Requires at least one of `query`, `vector`, `filter`, `sort` and `facets`; or `queries` and no other field.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// The query: words, a sentence, or the query language. Without `query` and `vector`, the documents that match
    /// `filter` are listed.
    pub query: Option<String>,
    /// The collection; default: `default`.
    pub collection: Option<String>,
    /// Most results to return; default: 5.
    pub top_k: Option<Count>,
    /// The retrievers; default: `hybrid`.
    pub mode: Option<Mode>,
    /// Condition on metadata that every result must match, in the native or OpenAI's filter syntax.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub filter: Option<RawJson>,
    /// Omit results with a lower `relevance`, 0 to 1; default: return all. An empty first page means that none of the first
    /// `top_k` results is relevant.
    pub min_relevance: Option<f32>,
    /// Return the positions of the query's words in each text, and a snippet. Default: false.
    pub highlight: Option<bool>,
    /// Sort keys of the results; default: sort by score.
    #[serde(default, deserialize_with = "at_most::<_, _, SORTS_PARSED_MAX>")]
    pub sort: Option<Vec<Sort>>,
    /// Metadata fields to count the values of, over all matches.
    #[serde(default, deserialize_with = "at_most::<_, _, FACETS_PARSED_MAX>")]
    pub facets: Option<Vec<Facet>>,
    /// The documents that `facets` of a hybrid or dense search count: `candidates` (default), or `exact`, all documents that contain a word of the
    /// query.
    pub facet_counts: Option<FacetCounts>,
    /// The unit of a result; default: `document`.
    pub group_by: Option<GroupBy>,
    /// Reranking of the first results by a cross-encoder; default: the gateway's configuration.
    pub rerank: Option<Rerank>,
    /// Reordering of the first results by token embeddings; default: none.
    #[serde(default, deserialize_with = "optional")]
    pub late_interaction: Option<LateInteraction>,
    /// How the rankings of a hybrid search are fused; default: the gateway's configuration.
    #[serde(default, deserialize_with = "optional")]
    pub fusion: Option<Fusion>,
    /// Raise results that are similar to other good ones, in lexical search and in hybrid search with `convex` fusion; default: the
    /// gateway's configuration.
    pub smoothing: Option<bool>,
    /// `last`: the last word of the query may be unfinished, as while typing; default: all words are whole.
    pub prefix: Option<Prefix>,
    /// Weight, 0 to 1, of the dissimilarity to the preceding results (maximal marginal relevance); default: 0.
    pub diversity: Option<f32>,
    /// Merge results with nearly identical texts. Default: false.
    pub collapse: Option<bool>,
    /// Number of chunks to return before and after each result; default: 0.
    pub context: Option<Count>,
    /// Results to skip; default: 0. With `cursor`, the offset of the first page.
    pub offset: Option<Count>,
    /// `next_cursor` of the previous page; the rest of the request must be unchanged.
    pub cursor: Option<String>,
    /// Return how the query was parsed and how each score was computed. Default: false.
    pub explain: Option<bool>,
    /// Id of a document: the reply states at which stage it was excluded.
    pub why_not: Option<String>,
    /// How operators of the query language are read: default `auto`.
    pub syntax: Option<Syntax>,
    /// The embedding to search by, instead of the query's embedding.
    #[serde(default, deserialize_with = "at_most::<_, _, VECTOR_PARSED_MAX>")]
    pub vector: Option<Vec<f32>>,
    /// Count the exact total of a lexical search, which requires visiting every match. Default: true.
    pub count: Option<bool>,
    /// Deadline of the search in milliseconds; default and maximum: the gateway's deadline. If the query's embedding misses
    /// it, a hybrid search uses the lexical retriever only; if reranking misses it, the results keep the fused order.
    pub deadline_ms: Option<Count>,
    /// Wait until the operation of this number is searchable at this gateway, within the deadline; 503 `collection_not_ready` after it. Replies of
    /// ingest and deletion name theirs. Default: search what is there.
    pub at_least: Option<Count>,
    /// `false`: the query log does not get the query. For queries that no user asked, as of a measurement. Default: true.
    pub log: Option<bool>,
    /// Several searches in one call, each an object like this one. Cannot be combined with other fields.
    #[serde(default, deserialize_with = "at_most::<_, _, QUERIES_PARSED_MAX>")]
    #[schemars(with = "Option<Vec<SearchRequest>>")]
    pub queries: Option<Vec<RawJson>>,
}

/// How a query is read.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Syntax {
    /// As words: nothing is an operator. For questions that a language model searches by.
    Text,
    /// Operators where they are meant; text where they are part of a pasted command, message or sentence.
    #[default]
    Auto,
    /// Every operator is one; a syntax error is refused, with its position.
    Strict,
}

/// The word of a query that may be the beginning of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prefix {
    /// The last one, unless white space follows it. Queries with operators are not completed.
    Last,
}

/// The documents that facets count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FacetCounts {
    /// All matches: of a lexical or hybrid search, the documents that contain a word of the query; of a dense one, those that match
    /// the filter.
    Exact,
    /// The candidates of a hybrid or dense search.
    Candidates,
}

impl SearchRequest {
    /// The collection, or the default one.
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(DEFAULT_COLLECTION)
    }

    /// Most results to return.
    pub fn top_k(&self) -> u64 {
        self.top_k.map_or(DEFAULT_TOP_K, Count::get)
    }

    /// Results to skip.
    pub fn offset(&self) -> u64 {
        self.offset.map_or(0, Count::get)
    }

    /// Number of chunks to return before and after each result.
    pub fn context(&self) -> u64 {
        self.context.map_or(0, Count::get)
    }

    /// How the query is read.
    pub fn syntax(&self) -> Syntax {
        self.syntax.unwrap_or_default()
    }

    /// The retrievers.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// Validates a batch request whose `queries` were moved out of it. The queries are validated separately.
    ///
    /// # Errors
    /// No queries, too many, or another field beside `queries`.
    pub fn check_batch(&self, queries: &[RawJson], limits: &Limits) -> Result<()> {
        require(
            *self == SearchRequest::default(),
            &["queries"],
            || "`queries` cannot be combined with other fields; put them into each query",
        )?;
        require(!queries.is_empty(), &["queries"], || "`queries` is empty; send at least one query")?;
        let (count, most) = (queries.len(), limits.queries_per_request_max);
        if count > most {
            let message = format!(
                "`queries` has {count} queries; the limit `limits.queries_per_request_max` is {most}"
            );
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &["queries"], message));
        }
        Ok(())
    }

    /// Validates the request by itself.
    ///
    /// # Errors
    /// The first error: no search condition, an empty or too long query, a number out of range, an invalid collection
    /// name, invalid weights or `k`.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        require(
            self.queries.is_none(),
            &["queries"],
            || "`queries` cannot be nested; send the queries in one list",
        )?;
        self.check_query_and_filter(limits)?;
        self.check_vector()?;
        if let Some(top_k) = self.top_k {
            top_k.check(&["top_k"], 1..=limits.top_k_max, " (the limit `limits.top_k_max`)")?;
        }
        self.check_offset(limits)?;
        check_collection_name(self.collection())?;
        let minimum = self.min_relevance.unwrap_or_default();
        require((0.0..=1.0).contains(&minimum), &["min_relevance"], || {
            format!("min_relevance is {minimum}; it must be a number from 0 to 1")
        })?;
        self.fusion.as_ref().map_or(Ok(()), Fusion::check)?;
        self.rerank.as_ref().map_or(Ok(()), Rerank::check)?;
        self.late_interaction.as_ref().map_or(Ok(()), LateInteraction::check)?;
        self.check_lists(limits)?;
        self.check_options(limits)
    }

    fn check_offset(&self, limits: &Limits) -> Result<()> {
        // first, because its message suggests alternatives
        self.check_depth(self.offset(), limits, "offset")?;
        let Some(offset) = self.offset else { return Ok(()) };
        let most = limits.page_depth_max.saturating_sub(self.top_k());
        offset.check(&["offset"], 0..=most, " (the limit `limits.page_depth_max` less `top_k`)")
    }

    /// Checks that the page at `offset`, given by the parameter `param`, ends within `limits.page_depth_max`.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub fn check_depth(&self, offset: u64, limits: &Limits, param: &str) -> Result<()> {
        let (end, most) = (offset.saturating_add(self.top_k()), limits.page_depth_max);
        require(offset == 0 || end <= most, &[param], || {
            format!(
                "the page ends at result {end}; the limit `limits.page_depth_max` is {most}. Narrow the search by a filter, or \
                 sort by a field and filter for values after the last one"
            )
        })
    }

    fn check_query_and_filter(&self, limits: &Limits) -> Result<()> {
        let query = self.query.as_deref();
        require(
            query.is_none_or(|query| !query.trim().is_empty()),
            &["query"],
            || "the query is empty; send at least one word, or omit `query` to list the documents that match a filter",
        )?;
        require(
            query.is_some() || self.has_other_condition(),
            &["query"],
            || "the request has no search condition; send `query`, `vector`, `filter`, `sort` or `facets`",
        )?;
        let bytes = query.unwrap_or_default().len();
        check_bytes(&["query"], "the query", bytes, limits.query_bytes_max, "query_bytes_max")?;
        let filter_bytes = self.filter.as_ref().map_or(0, |filter| filter.text().len());
        check_bytes(&["filter"], "the filter", filter_bytes, limits.filter_bytes_max, "filter_bytes_max")
    }

    fn has_other_condition(&self) -> bool {
        self.vector.is_some() || self.filter.is_some() || self.sort.is_some() || self.facets.is_some()
    }

    fn check_vector(&self) -> Result<()> {
        let Some(vector) = &self.vector else { return Ok(()) };
        let infinite = vector.iter().position(|value| !value.is_finite());
        require(infinite.is_none(), &["vector"], || {
            format!("value {} of `vector` is too large for a 32-bit float", infinite.unwrap_or_default())
        })?;
        require(
            self.mode != Some(Mode::Lexical),
            &["vector"],
            || "mode `lexical` does not use `vector`; omit one of them",
        )
    }

    fn check_lists(&self, limits: &Limits) -> Result<()> {
        let facets = self.facets.as_deref().unwrap_or_default();
        check_count("facets", facets.len(), limits.facets_per_request_max, "facets_per_request_max")?;
        let sorts = self.sort.as_deref().unwrap_or_default();
        check_count("sort", sorts.len(), limits.sort_fields_max, "sort_fields_max")?;
        let group = match &self.group_by {
            Some(GroupBy::Field(field)) => Some(field),
            Some(GroupBy::Document | GroupBy::Chunk) | None => None,
        };
        check_names("facets", facets.iter().map(|facet| &facet.field), limits)?;
        check_names("sort", sorts.iter().map(|sort| &sort.field), limits)?;
        check_directions(sorts)?;
        check_names("group_by", group.into_iter(), limits)?;
        for (index, facet) in facets.iter().enumerate() {
            let (values, most) =
                (facet.limit.unwrap_or(DEFAULT_FACET_VALUES.into()), limits.facet_values_max);
            values
                .check(&["limit"], 1..=most, " (the limit `limits.facet_values_max`)")
                .map_err(|invalid| invalid.in_item("facets", index))?;
            if facets[..index].iter().any(|before| before.field == facet.field) {
                let message = format!("the field `{}` is listed twice", facet.field.escape_debug());
                return Err(Invalid::at_item(ErrorCode::InvalidParameter, "facets", index, message));
            }
        }
        Ok(())
    }

    fn check_options(&self, limits: &Limits) -> Result<()> {
        let diversity = self.diversity.unwrap_or_default();
        require((0.0..=1.0).contains(&diversity), &["diversity"], || {
            format!("diversity is {diversity}; it must be from 0 to 1")
        })?;
        if let Some(context) = self.context {
            let most = limits.context_chunks_max;
            context.check(&["context"], 0..=most, " (the limit `limits.context_chunks_max`)")?;
        }
        if let Some(deadline) = self.deadline_ms {
            let most = limits.request_deadline_ms;
            deadline.check(&["deadline_ms"], 1..=most, " (the setting `server.request_deadline_ms`)")?;
        }
        let id_bytes = self.why_not.as_ref().map_or(0, String::len);
        check_bytes(&["why_not"], "the id", id_bytes, limits.document_id_bytes_max, "document_id_bytes_max")
    }
}

/// Checks the length of field names: no path can be longer than the metadata itself.
fn check_names<'a>(field: &str, mut names: impl Iterator<Item = &'a String>, limits: &Limits) -> Result<()> {
    names.try_for_each(|name| {
        check_bytes(&[field], "the field's name", name.len(), limits.metadata_bytes_max, "metadata_bytes_max")
    })
}

/// Refuses `"year:desc"` and `"year desc"`, which other APIs read as a field and a direction.
fn check_directions(sorts: &[Sort]) -> Result<()> {
    for (index, Sort { field, .. }) in sorts.iter().enumerate() {
        let parts = field.rsplit_once([':', ' ']).map(|(name, direction)| (name, direction.to_lowercase()));
        let meant = match parts {
            Some((name, direction)) if direction == "desc" => format!("-{name}"),
            Some((name, direction)) if direction == "asc" => name.to_owned(),
            _ => continue,
        };
        let message = format!("`{}` is not a field; write `{}`", field.escape_debug(), meant.escape_debug());
        return Err(Invalid::at_item(ErrorCode::InvalidParameter, "sort", index, message));
    }
    Ok(())
}

fn check_count(field: &str, count: usize, most: usize, setting: &str) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    let message = format!("`{field}` names {count} fields; the limit `limits.{setting}` is {most}");
    Err(Invalid::at(ErrorCode::BatchTooLarge, &[field], message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Validates a request in JSON; `expected` is `code param`, or `ok`.
    fn check(body: &str, expected: &str) {
        let request: SearchRequest = crate::parse(body.as_bytes()).unwrap();
        let seen = match request.check(&Limits { query_bytes_max: 10, ..Limits::default() }) {
            Ok(()) => "ok".to_owned(),
            Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
        };
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn a_search_beyond_a_limit_is_refused_with_the_parameter() {
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
    fn absent_fields_have_defaults() {
        let request: SearchRequest = crate::parse(br#"{"query":"a"}"#).unwrap();
        assert_eq!((request.collection(), request.top_k(), request.mode()), ("default", 5, Mode::Hybrid));
    }

    #[test]
    fn a_search_without_a_query_needs_another_condition() {
        check("{}", "invalid_parameter query");
        check(r#"{"query":null,"top_k":3}"#, "invalid_parameter query");
        check(r#"{"vector":[1,2]}"#, "ok");
        check(r#"{"filter":{"a":1}}"#, "ok");
        check(r#"{"sort":["a"]}"#, "ok");
        check(r#"{"sort":["a:b"]}"#, "ok");
        check(r#"{"sort":["a","year:desc"]}"#, "invalid_parameter sort[1]");
        check(r#"{"sort":["year ASC"]}"#, "invalid_parameter sort[0]");
        check(r#"{"facets":["a"]}"#, "ok");
        check(r#"{"query":"","filter":{}}"#, "invalid_parameter query");
    }

    #[test]
    fn options_out_of_range_are_refused() {
        check(r#"{"vector":[1,1e39]}"#, "invalid_parameter vector");
        check(r#"{"query":"a","vector":[1],"mode":"lexical"}"#, "invalid_parameter vector");
        check(r#"{"query":"a","diversity":1}"#, "ok");
        check(r#"{"query":"a","diversity":1.5}"#, "invalid_parameter diversity");
        check(r#"{"query":"a","diversity":-0.5}"#, "invalid_parameter diversity");
        check(r#"{"query":"a","context":10}"#, "ok");
        check(r#"{"query":"a","context":11}"#, "invalid_parameter context");
        check(r#"{"query":"a","deadline_ms":0}"#, "invalid_parameter deadline_ms");
        check(r#"{"query":"a","deadline_ms":30001}"#, "invalid_parameter deadline_ms");
        check(r#"{"query":"a","offset":9995}"#, "ok");
        check(r#"{"query":"a","offset":9996}"#, "invalid_parameter offset");
        check(r#"{"query":"a","facets":[{"field":"b","limit":0}]}"#, "invalid_parameter facets[0].limit");
        check(r#"{"query":"a","facets":["b",{"field":"b","limit":2}]}"#, "invalid_parameter facets[1]");
        check(&format!(r#"{{"query":"a","facets":{:?}}}"#, vec!["b"; 17]), "batch_too_large facets");
        check(&format!(r#"{{"query":"a","sort":{:?}}}"#, vec!["b"; 9]), "batch_too_large sort");
        check(&format!(r#"{{"query":"a","why_not":"{}"}}"#, "b".repeat(513)), "payload_too_large why_not");
        check(r#"{"queries":[]}"#, "invalid_parameter queries");
    }

    #[test]
    fn reranking_options_out_of_range_are_refused() {
        check(r#"{"query":"a","rerank":null,"late_interaction":null}"#, "ok");
        check(r#"{"query":"a","rerank":{"top_n":100},"late_interaction":{"weight":0.5,"top_n":1}}"#, "ok");
        check(r#"{"query":"a","rerank":{"top_n":0}}"#, "invalid_parameter rerank.top_n");
        check(r#"{"query":"a","rerank":{"top_n":101}}"#, "invalid_parameter rerank.top_n");
        let weight = "invalid_parameter late_interaction.weight";
        check(r#"{"query":"a","late_interaction":{"weight":0}}"#, weight);
        check(r#"{"query":"a","late_interaction":{"weight":0.51}}"#, weight);
        check(r#"{"query":"a","late_interaction":{"weight":-1}}"#, weight);
        check(
            r#"{"query":"a","late_interaction":{"weight":0.1,"top_n":101}}"#,
            "invalid_parameter late_interaction.top_n",
        );
    }

    #[test]
    fn a_number_out_of_range_or_of_another_type_is_refused_with_the_range() {
        let check = |part: &str, expected: &str| {
            let body = format!("{{\"query\":\"a\",{part}}}");
            let read = crate::parse::<SearchRequest>(body.as_bytes());
            let refused = read.and_then(|request| request.check(&Limits::default())).unwrap_err();
            let seen = format!("{}: {}", refused.pointer.unwrap_or_default(), refused.message);
            assert_eq!((refused.code, seen.as_str()), (ErrorCode::InvalidParameter, expected), "{body}");
        };
        let top_k = "it must be from 1 to 1000 (the limit `limits.top_k_max`)";
        check(r#""top_k":0"#, &format!("#/top_k: top_k is 0; {top_k}"));
        let whole = "it must be a whole number from 1 to 1000 (the limit `limits.top_k_max`)";
        check(r#""top_k":"5""#, &format!("#/top_k: top_k is a string; {whole}"));
        check(r#""top_k":1.5"#, &format!("#/top_k: top_k is a floating-point number; {whole}"));
        check(r#""top_k":[5]"#, &format!("#/top_k: top_k is a list; {whole}"));
        check(
            r#""rerank":{"top_n":true}"#,
            "#/rerank/top_n: rerank.top_n is `true`; it must be a whole number from 1 to 100",
        );
        check(r#""top_k":-1"#, &format!("#/top_k: top_k is -1; {top_k}"));
        check(r#""top_k":1001"#, &format!("#/top_k: top_k is 1001; {top_k}"));
        check(r#""top_k":18446744073709551616"#, &format!("#/top_k: top_k is 18446744073709551616; {top_k}"));
        check(r#""top_k":-9223372036854775809"#, &format!("#/top_k: top_k is -9223372036854775808; {top_k}"));
        check(
            r#""context":-1"#,
            "#/context: context is -1; it must be from 0 to 10 (the limit `limits.context_chunks_max`)",
        );
        check(
            r#""deadline_ms":-1"#,
            "#/deadline_ms: deadline_ms is -1; it must be from 1 to 30000 (the setting `server.request_deadline_ms`)",
        );
        check(
            r#""facets":["b",{"field":"a","limit":-1}]"#,
            "#/facets/1/limit: limit is -1; it must be from 1 to 1000 (the limit `limits.facet_values_max`)",
        );
        check(r#""rerank":{"top_n":-1}"#, "#/rerank/top_n: rerank.top_n is -1; it must be from 1 to 100");
        check(
            r#""late_interaction":{"weight":0.1,"top_n":-1}"#,
            "#/late_interaction/top_n: late_interaction.top_n is -1; it must be from 1 to 100",
        );
        check(
            r#""offset":-1"#,
            "#/offset: offset is -1; it must be from 0 to 9995 (the limit `limits.page_depth_max` less `top_k`)",
        );
    }

    #[test]
    fn a_batch_has_queries_and_no_other_field() {
        let check = |body: &str, expected: &str| {
            let mut request: SearchRequest = crate::parse(body.as_bytes()).unwrap();
            let queries = request.queries.take().unwrap();
            let seen = match request.check_batch(&queries, &Limits::default()) {
                Ok(()) => "ok".to_owned(),
                Err(invalid) => invalid.code.to_string(),
            };
            assert_eq!(seen, expected, "{body}");
        };
        check(r#"{"queries":[{"query":"a"},7]}"#, "ok");
        check(r#"{"queries":[]}"#, "invalid_parameter");
        check(r#"{"queries":[{}],"top_k":3}"#, "invalid_parameter");
        check(&format!(r#"{{"queries":[{}]}}"#, vec!["{}"; 33].join(",")), "batch_too_large");
    }
}
