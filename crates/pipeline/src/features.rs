//! Which engine has which feature of a search, and who does it: one table, from which refusals, the table in `docs/architecture.md` and
//! tests follow.

use weir_filter::{Filter, Test, Value};
use weir_query::Query;
use weir_ranking::RetrievalMode;

use crate::{Grouping, IndexError, IndexQuery, Result};

/// Which engine it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// In this process.
    Embedded,
    /// In a Qdrant cluster.
    Qdrant,
}

impl EngineKind {
    /// Whether all processes that use an index have the same one, which is not theirs: only one of them may apply changes to it.
    pub fn is_shared(self) -> bool {
        match self {
            EngineKind::Embedded => false,
            EngineKind::Qdrant => true,
        }
    }
}

/// Who does a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// The engine, over all documents.
    Engine,
    /// The hit pipeline, over the candidates that the engine ranked.
    Pipeline,
    /// Nobody, and searches are answered without it.
    Absent,
    /// Nobody: a search that asks for it is refused, with this remedy.
    Refused(&'static str),
}

/// A feature of a search.
#[derive(Debug)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// The fields of `POST /v1/search` that ask for it; empty if every search has it.
    pub fields: &'static [&'static str],
    /// Whether a query asks for it.
    is_asked: fn(&IndexQuery) -> bool,
    embedded: Support,
    qdrant: Support,
}

/// The remedy where a query can have words alone.
const WORDS: &str = "search for words alone, or use a collection with the embedded engine";

/// The feature that settings of a collection ask for, and what to do without it.
const LEXICAL_SETTINGS: &str = "synonyms, stop words, weight of titles";
const NO_LEXICAL_SETTINGS: &str = "leave out `lexical`, or create the collection with the embedded engine; settings that a collection has are taken away by `\"lexical\": {}` without `move`";

/// Comparisons of filters with strings that are no dates.
pub const STRING_ORDER: &str = "order of strings in filters";

/// The features of a search, in the order of its stages; who does each in the embedded engine, and in Qdrant.
pub const FEATURES: &[Feature] = &[
    row(
        "lexical ranking",
        &["query", "mode"],
        |query| query.mode != RetrievalMode::Dense,
        [Support::Engine, Support::Engine],
    ),
    row(
        "dense ranking",
        &["vector", "mode"],
        |query| query.mode != RetrievalMode::Lexical,
        [Support::Engine, Support::Engine],
    ),
    row(
        "phrases, `AND`, `OR`, `NOT`",
        &["query", "syntax"],
        |query| has(query, is_operator),
        [Support::Engine, Support::Refused(WORDS)],
    ),
    row(
        "prefixes and wildcards",
        &["query", "syntax"],
        |query| has(query, is_pattern),
        [Support::Engine, Support::Refused(WORDS)],
    ),
    row(
        "`field:value` in queries",
        &["query", "syntax"],
        |query| has(query, is_field),
        [Support::Engine, Support::Refused("use `filter`")],
    ),
    row(
        "unfinished last word",
        &["prefix"],
        |query| query.is_unfinished,
        [Support::Engine, Support::Refused("leave out `prefix`")],
    ),
    row("spelling correction", &[], never, [Support::Engine, Support::Absent]),
    row(LEXICAL_SETTINGS, &[], never, [Support::Engine, Support::Refused(NO_LEXICAL_SETTINGS)]),
    row("filter", &["filter"], |query| query.filter.is_some(), [Support::Engine, Support::Engine]),
    row(
        STRING_ORDER,
        &["filter"],
        |query| query.filter.as_ref().is_some_and(orders_strings),
        [Support::Engine, Support::Refused("compare numbers or dates, or list the values with `in`")],
    ),
    row("fields of deleted documents stay known", &[], never, [Support::Engine, Support::Absent]),
    row("list without a query", &[], IndexQuery::is_listing, [Support::Engine, Support::Engine]),
    row(
        "fusion",
        &["fusion"],
        |query| query.mode == RetrievalMode::Hybrid,
        [Support::Pipeline, Support::Pipeline],
    ),
    row("exact dense scores of lexical candidates", &[], never, [Support::Pipeline, Support::Pipeline]),
    row("smoothing", &["smoothing"], |query| query.smoothing, [Support::Pipeline, Support::Pipeline]),
    row("exact names first", &[], never, [Support::Pipeline, Support::Pipeline]),
    row("relevance", &["min_relevance"], never, [Support::Pipeline, Support::Pipeline]),
    row("sort by fields", &["sort"], |query| !query.sort.is_empty(), [Support::Engine, Support::Engine]),
    row(
        "facets",
        &["facets", "facet_counts"],
        |query| !query.facets.is_empty(),
        [Support::Engine, Support::Engine],
    ),
    row("count of all matches", &["count"], |query| query.count, [Support::Engine, Support::Engine]),
    row(
        "group by chunk",
        &["group_by"],
        |query| query.group_by == Grouping::Chunk,
        [Support::Engine, Support::Engine],
    ),
    row("group by field", &["group_by"], is_grouped_by_field, [Support::Pipeline, Support::Pipeline]),
    row("near-duplicates", &["collapse"], |query| query.collapse, [Support::Pipeline, Support::Pipeline]),
    row("diversity", &["diversity"], |query| query.diversity > 0.0, [Support::Pipeline, Support::Pipeline]),
    row("pages", &["top_k", "offset"], |query| query.offset > 0, [Support::Pipeline, Support::Pipeline]),
    row(
        "pages of one snapshot",
        &["cursor"],
        |query| query.as_of.is_some() || query.pin,
        [Support::Engine, Support::Absent],
    ),
    row("neighbouring chunks", &["context"], |query| query.context > 0, [Support::Engine, Support::Engine]),
    row("parts of scores", &["explain"], |query| query.explain, [Support::Engine, Support::Engine]),
    row(
        "the way of a document",
        &["why_not"],
        |query| query.trace.is_some(),
        [Support::Pipeline, Support::Pipeline],
    ),
];

const fn row(
    name: &'static str,
    fields: &'static [&'static str],
    is_asked: fn(&IndexQuery) -> bool,
    [embedded, qdrant]: [Support; 2],
) -> Feature {
    Feature { name, fields, is_asked, embedded, qdrant }
}

impl Feature {
    /// Who does it in an engine.
    pub fn support(&self, engine: EngineKind) -> Support {
        match engine {
            EngineKind::Embedded => self.embedded,
            EngineKind::Qdrant => self.qdrant,
        }
    }
}

/// Refuses a query that asks for what an engine lacks, by who does each feature in it.
///
/// # Errors
/// [`IndexError::NotSupported`] with the remedy.
pub fn check(support: impl Fn(&Feature) -> Support, query: &IndexQuery) -> Result<()> {
    for feature in FEATURES {
        if let Support::Refused(remedy) = support(feature)
            && (feature.is_asked)(query)
        {
            return Err(IndexError::NotSupported { feature: feature.name, remedy });
        }
    }
    Ok(())
}

/// Refuses synonyms, stop words and weights of titles in the settings of a collection whose engine does not have them.
///
/// # Errors
/// [`IndexError::NotSupported`] with the remedy.
pub fn check_lexical_settings(engine: EngineKind) -> Result<()> {
    check_named(LEXICAL_SETTINGS, engine)
}

/// Refuses the feature of a name, if an engine does not have it.
///
/// # Errors
/// [`IndexError::NotSupported`] with the remedy.
pub fn check_named(name: &str, engine: EngineKind) -> Result<()> {
    for feature in FEATURES.iter().filter(|feature| feature.name == name) {
        if let Support::Refused(remedy) = feature.support(engine) {
            return Err(IndexError::NotSupported { feature: feature.name, remedy });
        }
    }
    Ok(())
}

fn never(_: &IndexQuery) -> bool {
    false
}

fn is_grouped_by_field(query: &IndexQuery) -> bool {
    matches!(query.group_by, Grouping::Field(_))
}

/// Whether a part of the query is of a kind.
fn has(query: &IndexQuery, is_it: fn(&Query) -> bool) -> bool {
    fn any(query: &Query, is_it: fn(&Query) -> bool) -> bool {
        let parts: [&[Query]; 3] = match query {
            Query::Boolean { must, should, must_not } => [must, should, must_not],
            Query::Field { value, .. } => [std::slice::from_ref(&**value), &[], &[]],
            Query::Words(_) | Query::Phrase(_) | Query::Prefix(_) | Query::Wildcard(_) => [&[], &[], &[]],
        };
        is_it(query) || parts.into_iter().flatten().any(|part| any(part, is_it))
    }
    query.query.as_ref().is_some_and(|query| any(query, is_it))
}

fn orders_strings(filter: &Filter) -> bool {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter().any(orders_strings),
        Filter::Not(inner) => orders_strings(inner),
        Filter::Condition { test: Test::Compare(_, value @ Value::String(_)), .. } => {
            value.timestamp().is_none()
        }
        Filter::Condition { .. } => false,
    }
}

fn is_operator(query: &Query) -> bool {
    matches!(query, Query::Phrase(_) | Query::Boolean { .. })
}

fn is_pattern(query: &Query) -> bool {
    matches!(query, Query::Prefix(_) | Query::Wildcard(_))
}

fn is_field(query: &Query) -> bool {
    matches!(query, Query::Field { .. })
}
