//! `POST /v1/search`.

mod fusion;
mod parts;
mod reply;
mod rerank;

pub use fusion::{Fusion, FusionMethod, FusionWeights, Mode};
pub use parts::{Facet, GroupBy, Order, RawJson, Sort};
pub use reply::{
    BatchItem, BatchReply, Citation, ContextChunk, Correction, DegradedReason, EmbeddingSource, Explain,
    ExplainFusion, ExplainRerank, Explanation, FacetCount, FusedPosition, Ranks, RetrieverCounts,
    RetrieverPosition, Scores, SearchOrBatchReply, SearchReply, SearchResult, Snippet, TermScore, Timings,
    Total, TotalRelation, WhyNot, WhyNotStage,
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
use crate::{Count, DEFAULT_COLLECTION, DEFAULT_TOP_K, ErrorCode, Invalid, Limits};
use parts::at_most;

/// Values of a facet when the request doesn't say.
pub const DEFAULT_FACET_VALUES: u64 = 10;

/// Lists longer than these are refused while they are read, whatever the limits are set to.
const FACETS_READ_MAX: usize = 256;
const SORTS_READ_MAX: usize = 256;
const VECTOR_READ_MAX: usize = 65_536;
const QUERIES_READ_MAX: usize = 1_024;

/// A search. It needs one of `query`, `vector`, `filter`, `sort` and `facets`; or `queries` and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// What is searched: words, a sentence, or the query language. Without it and without `vector`, everything that
    /// passes `filter` is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Whether a query that the query language doesn't know is refused; else it is searched as text. False when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// The embedding to search by, in place of the query's own.
    #[serde(
        default,
        deserialize_with = "at_most::<_, _, VECTOR_READ_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub vector: Option<Vec<f32>>,
    /// How many results at most; 5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<Count>,
    /// Results to pass over; 0 when absent. With `cursor` it is that of the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Count>,
    /// Where the page begins: `next_cursor` of the page before it, whose request is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The collection; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Which legs rank; `hybrid` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How the two rankings of a hybrid search are fused; the gateway's setting when absent.
    #[serde(default, deserialize_with = "optional", skip_serializing_if = "Option::is_none")]
    pub fusion: Option<Fusion>,
    /// A model that orders the first results by reading query and text together; as the gateway is set when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerank: Option<Rerank>,
    /// Counts the likeness of single tokens in the order of the first results; not at all when absent.
    #[serde(default, deserialize_with = "optional", skip_serializing_if = "Option::is_none")]
    pub late_interaction: Option<LateInteraction>,
    /// Results that are less relevant are left out, 0 to 1; all are returned when absent. No result then says that nothing
    /// relevant was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_relevance: Option<f32>,
    /// Which documents may be found: conditions on metadata, in either form of the filter language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub filter: Option<RawJson>,
    /// Metadata fields whose values are counted among the matches.
    #[serde(
        default,
        deserialize_with = "at_most::<_, _, FACETS_READ_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub facets: Option<Vec<Facet>>,
    /// The order of the results, by metadata fields; by rank when absent.
    #[serde(
        default,
        deserialize_with = "at_most::<_, _, SORTS_READ_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub sort: Option<Vec<Sort>>,
    /// What counts as one result; `document` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<GroupBy>,
    /// How much a result's likeness to those before it counts against it, 0..1 (maximal marginal relevance); 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diversity: Option<f32>,
    /// Whether results whose texts are all but equal become one; false when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapse: Option<bool>,
    /// Chunks before and after each result that come with it; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Count>,
    /// Whether results say where the query's words stand in their texts, and come with a snippet; false when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highlight: Option<bool>,
    /// Whether the reply says how the query was understood and how each result got its score; false when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<bool>,
    /// The id of a document: the reply says at which stage it fell out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Whether the total of a lexical search is counted out, which takes the time of visiting every match; true when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<bool>,
    /// How long the search may take, in milliseconds; at most, and when absent, the gateway's own deadline. A hybrid search
    /// whose embedding is not ready in time answers by words alone, and one whose reranker is late in the fused order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Count>,
    /// Several searches in one call, each a request like this one; then nothing else may be there.
    #[serde(
        default,
        deserialize_with = "at_most::<_, _, QUERIES_READ_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<Vec<SearchRequest>>")]
    pub queries: Option<Vec<RawJson>>,
}

impl SearchRequest {
    /// The collection that is meant.
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(DEFAULT_COLLECTION)
    }

    /// How many results are asked for.
    pub fn top_k(&self) -> u64 {
        self.top_k.map_or(DEFAULT_TOP_K, Count::get)
    }

    /// Results to pass over.
    pub fn offset(&self) -> u64 {
        self.offset.map_or(0, Count::get)
    }

    /// Chunks before and after each result.
    pub fn context(&self) -> u64 {
        self.context.map_or(0, Count::get)
    }

    /// Which legs rank.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// Checks a request that had these `queries`, which were taken out of it; each of them is checked by itself.
    ///
    /// # Errors
    /// No query, too many, or anything beside them.
    pub fn check_batch(&self, queries: &[RawJson], limits: &Limits) -> Result<(), Invalid> {
        let at = |code, message: String| Err(Invalid::at(code, &["queries"], message));
        if *self != SearchRequest::default() {
            let message = "`queries` stands alone; put the other fields into each of the queries";
            return at(ErrorCode::InvalidParameter, message.to_owned());
        }
        let (count, most) = (queries.len(), limits.queries_per_request_max);
        if count == 0 {
            return at(ErrorCode::InvalidParameter, "`queries` is empty; send at least one".to_owned());
        }
        if count > most {
            let message = format!(
                "`queries` has {count} of them; the limit `limits.queries_per_request_max` is {most}"
            );
            return at(ErrorCode::BatchTooLarge, message);
        }
        Ok(())
    }

    /// Checks everything that can be checked without looking anything up.
    ///
    /// # Errors
    /// The first thing that is wrong: nothing to search by, an empty or too long query, numbers out of their ranges, a
    /// name that no collection can have, weights or `k` that can't rank.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        if self.queries.is_some() {
            let message = "`queries` within `queries`; send them one after the other";
            return Err(Invalid::at(ErrorCode::InvalidParameter, &["queries"], message));
        }
        self.check_what(limits)?;
        self.check_vector()?;
        if let Some(top_k) = self.top_k {
            top_k.check(&["top_k"], 1..=limits.top_k_max, " (the limit `limits.top_k_max`)")?;
        }
        self.check_offset(limits)?;
        check_collection_name(self.collection())?;
        check_min_relevance(self.min_relevance)?;
        self.fusion.as_ref().map_or(Ok(()), Fusion::check)?;
        self.rerank.as_ref().map_or(Ok(()), Rerank::check)?;
        self.late_interaction.as_ref().map_or(Ok(()), LateInteraction::check)?;
        self.check_lists(limits)?;
        self.check_extras(limits)
    }

    fn check_offset(&self, limits: &Limits) -> Result<(), Invalid> {
        // what lies too far down hears what else to do
        self.check_depth(self.offset(), limits, "offset")?;
        let Some(offset) = self.offset else { return Ok(()) };
        let most = limits.page_depth_max.saturating_sub(self.top_k());
        offset.check(&["offset"], 0..=most, " (the limit `limits.page_depth_max` less `top_k`)")
    }

    /// Refuses a page that begins at `offset`, which came by the parameter `param`, when it ends too far down.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub fn check_depth(&self, offset: u64, limits: &Limits, param: &str) -> Result<(), Invalid> {
        let (end, most) = (offset.saturating_add(self.top_k()), limits.page_depth_max);
        if offset == 0 || end <= most {
            return Ok(());
        }
        let message = format!(
            "the page ends at result {end}; the limit `limits.page_depth_max` is {most}. Narrow the search by a filter, or \
             sort by a field and filter for what comes after the last value"
        );
        Err(Invalid::at(ErrorCode::InvalidParameter, &[param], message))
    }

    fn check_what(&self, limits: &Limits) -> Result<(), Invalid> {
        match &self.query {
            Some(query) if query.trim().is_empty() => {
                let message = "the query is empty; send at least one word, or leave it out to list what a filter lets through";
                Err(Invalid::at(ErrorCode::InvalidParameter, &["query"], message))
            }
            Some(query) => {
                check_bytes(&["query"], "the query", query.len(), limits.query_bytes_max, "query_bytes_max")
            }
            None if self.has_something_else() => Ok(()),
            None => {
                let message =
                    "there is nothing to search by; send `query`, `vector`, `filter`, `sort` or `facets`";
                Err(Invalid::at(ErrorCode::InvalidParameter, &["query"], message))
            }
        }?;
        let filter_bytes = self.filter.as_ref().map_or(0, |filter| filter.text().len());
        check_bytes(&["filter"], "the filter", filter_bytes, limits.filter_bytes_max, "filter_bytes_max")
    }

    fn has_something_else(&self) -> bool {
        self.vector.is_some() || self.filter.is_some() || self.sort.is_some() || self.facets.is_some()
    }

    fn check_vector(&self) -> Result<(), Invalid> {
        let Some(vector) = &self.vector else { return Ok(()) };
        let refuse = |message: String| Err(Invalid::at(ErrorCode::InvalidParameter, &["vector"], message));
        if let Some(place) = vector.iter().position(|value| !value.is_finite()) {
            return refuse(format!("value {place} of `vector` is too large for a 32-bit float"));
        }
        if self.mode == Some(Mode::Lexical) {
            return refuse("mode `lexical` does not search by a vector; leave out one of the two".to_owned());
        }
        Ok(())
    }

    fn check_lists(&self, limits: &Limits) -> Result<(), Invalid> {
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
        check_names("group_by", group.into_iter(), limits)?;
        for (index, facet) in facets.iter().enumerate() {
            let (values, most) =
                (facet.limit.unwrap_or(DEFAULT_FACET_VALUES.into()), limits.facet_values_max);
            values
                .check(&["limit"], 1..=most, " (the limit `limits.facet_values_max`)")
                .map_err(|invalid| invalid.in_item("facets", index))?;
            if facets[..index].iter().any(|before| before.field == facet.field) {
                let message = format!("the field `{}` stands there twice", facet.field.escape_debug());
                return Err(Invalid::at_item(ErrorCode::InvalidParameter, "facets", index, message));
            }
        }
        Ok(())
    }

    fn check_extras(&self, limits: &Limits) -> Result<(), Invalid> {
        if let Some(diversity) = self.diversity
            && !(0.0..=1.0).contains(&diversity)
        {
            let message = format!("diversity is {diversity}; it must be from 0 to 1");
            return Err(Invalid::at(ErrorCode::InvalidParameter, &["diversity"], message));
        }
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

fn check_min_relevance(min_relevance: Option<f32>) -> Result<(), Invalid> {
    match min_relevance {
        Some(least) if !(0.0..=1.0).contains(&least) => {
            let message = format!("min_relevance is {least}; it must be a number from 0 to 1");
            Err(Invalid::at(ErrorCode::InvalidParameter, &["min_relevance"], message))
        }
        Some(_) | None => Ok(()),
    }
}

/// No path of metadata is longer than all of it.
fn check_names<'a>(
    field: &str,
    mut names: impl Iterator<Item = &'a String>,
    limits: &Limits,
) -> Result<(), Invalid> {
    names.try_for_each(|name| {
        check_bytes(&[field], "the field's name", name.len(), limits.metadata_bytes_max, "metadata_bytes_max")
    })
}

fn check_count(field: &str, count: usize, most: usize, setting: &str) -> Result<(), Invalid> {
    if count <= most {
        return Ok(());
    }
    let message = format!("`{field}` names {count} fields; the limit `limits.{setting}` is {most}");
    Err(Invalid::at(ErrorCode::BatchTooLarge, &[field], message))
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
    fn a_search_without_a_query_needs_something_else() {
        check("{}", "invalid_parameter query");
        check(r#"{"query":null,"top_k":3}"#, "invalid_parameter query");
        check(r#"{"vector":[1,2]}"#, "ok");
        check(r#"{"filter":{"a":1}}"#, "ok");
        check(r#"{"sort":["a"]}"#, "ok");
        check(r#"{"facets":["a"]}"#, "ok");
        check(r#"{"query":"","filter":{}}"#, "invalid_parameter query");
    }

    #[test]
    fn each_extra_is_held_to_its_range() {
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
    fn reranking_is_held_to_its_ranges() {
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
    fn a_number_hears_of_its_range_whatever_it_is() {
        let check = |part: &str, expected: &str| {
            let body = format!("{{\"query\":\"a\",{part}}}");
            let read = crate::parse::<SearchRequest>(body.as_bytes());
            let refused = read.and_then(|request| request.check(&Limits::default())).unwrap_err();
            let place = format!("{}: {}", refused.pointer.unwrap_or_default(), refused.message);
            assert_eq!((refused.code, place.as_str()), (ErrorCode::InvalidParameter, expected), "{body}");
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
    fn a_batch_has_some_queries_and_nothing_else() {
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
