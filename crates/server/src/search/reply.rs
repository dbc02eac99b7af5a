//! From what the index found to what the caller reads.

use std::collections::{BTreeMap, HashSet};

use weir_api::{
    Citation, ContextChunk, Correction, DegradedReason, EmbeddingSource, Explain, ExplainFusion,
    ExplainRerank, Explanation, FacetCount, FusedPosition, FusionMethod, FusionWeights, Metadata, Mode,
    Ranks, RetrieverCounts, RetrieverPosition, Scores, SearchReply, SearchResult, Snippet, TermScore,
    Timings, Total, TotalRelation, WhyNot, WhyNotStage,
};
use weir_index::filter::{Number, Value};
use weir_index::{FusionFunction, RetrieverRank, TraceStage};
use weir_text::Language;

use super::super::error::ApiError;
use super::plan::Plan;
use super::rescore::{Page, Ranked};

/// Results whose words are marked without a thread of their own.
pub(super) const MARKED_AT_ONCE_MAX: usize = 20;

/// Characters of a snippet, about.
const SNIPPET_CHARS: usize = 300;

/// Documents that a result names among those that it stands for.
const COLLAPSED_NAMED_MAX: usize = 100;

/// How a search was run, and what follows it.
pub(super) struct How {
    pub(super) mode: Option<Mode>,
    pub(super) source: EmbeddingSource,
    pub(super) degraded: Vec<DegradedReason>,
    pub(super) next_cursor: Option<String>,
    pub(super) timings: Timings,
}

/// Writes the reply; the whole time comes later.
pub(super) fn render(
    plan: &Plan,
    found: weir_index::IndexResult,
    page: Page,
    how: How,
) -> Result<SearchReply, ApiError> {
    let search = &plan.search;
    let explain = search.explain.then(|| explain(plan, &found, &how));
    let marker = Marker::of(plan, &found);
    let head = if search.explain { plan.rescoring.head() } else { 0 };
    let extras = Extras { marker, collapse: search.collapse, context: search.context > 0, head };
    let least = plan.request.min_relevance.unwrap_or(0.0);
    let on_page = page.results.len();
    let is_relevant = |one: &Ranked| one.hit.relevance.is_none_or(|relevance| relevance >= least);
    let fate = search.trace.as_ref().zip(found.trace);
    let why_not = fate.map(|(id, why)| {
        let mut of_it = page.results.iter().filter(|one| one.hit.document_id == *id).peekable();
        let is_left_out = of_it.peek().is_some() && !of_it.any(is_relevant);
        why_not(id, shown_on(&page, id, why), page.asked_place, is_left_out, plan, how.mode)
    });
    let relevant = page.results.into_iter().filter(is_relevant);
    let results = relevant.map(|one| result(one, &extras)).collect::<Result<Vec<_>, ApiError>>()?;
    let left_out = plan.request.min_relevance.map(|_| (on_page - results.len()) as u64);
    Ok(SearchReply {
        results,
        total: total(found.total),
        left_out,
        next_cursor: how.next_cursor,
        facets: plan.request.facets.as_ref().map(|asked| facets(asked, found.facets)),
        corrections: found
            .corrections
            .into_iter()
            .map(|correction| Correction { term: correction.term, instead: correction.replacements })
            .collect(),
        degraded: !how.degraded.is_empty(),
        degraded_reason: how.degraded.first().copied(),
        degraded_reasons: how.degraded,
        explain,
        why_not,
        took_ms: 0.0,
        timings_ms: how.timings,
    })
}

fn total(total: weir_index::MatchCount) -> Total {
    match total {
        weir_index::MatchCount::Exact(value) => Total { value, exact: true, relation: TotalRelation::Exact },
        weir_index::MatchCount::Window(value) => {
            Total { value, exact: false, relation: TotalRelation::Window }
        }
    }
}

fn facets(
    asked: &[weir_api::Facet],
    counted: Vec<Vec<weir_index::ValueCount>>,
) -> BTreeMap<String, Vec<FacetCount>> {
    let named = asked.iter().map(|facet| facet.field.clone()).zip(counted);
    let count =
        |count: weir_index::ValueCount| FacetCount { value: json_of(count.value), count: count.count };
    named.map(|(field, counts)| (field, counts.into_iter().map(count).collect())).collect()
}

fn json_of(value: Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.into(),
        Value::Boolean(boolean) => boolean.into(),
        Value::Number(number) => match number {
            Number::Integer(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
                (Ok(integer), _) => integer.into(),
                (Err(_), Ok(integer)) => integer.into(),
                (Err(_), Err(_)) => number.to_f64().into(),
            },
            Number::Float(float) => float.into(),
        },
    }
}

/// What comes with each result beyond the hit itself.
struct Extras {
    marker: Option<Marker>,
    collapse: bool,
    context: bool,
    /// The first results of the index, whose places before they were scored once more are shown.
    head: usize,
}

/// Finds in texts what was searched.
struct Marker {
    terms: HashSet<String>,
    language: Language,
}

impl Marker {
    /// When the request asks for it.
    fn of(plan: &Plan, found: &weir_index::IndexResult) -> Option<Marker> {
        let terms = || found.terms.iter().cloned().collect();
        (plan.request.highlight == Some(true))
            .then(|| Marker { terms: terms(), language: plan.collection.language() })
    }

    fn mark(&self, text: &str) -> (Vec<(u64, u64)>, Snippet) {
        let spans = weir_text::highlight_terms(text, &self.terms, self.language);
        let part = weir_text::snippet(text, &spans, SNIPPET_CHARS);
        let snippet =
            Snippet { start: part.start as u64, end: part.end as u64, text: text[part.clone()].to_owned() };
        (spans.into_iter().map(|span| (span.start as u64, span.end as u64)).collect(), snippet)
    }
}

fn result(ranked: Ranked, extras: &Extras) -> Result<SearchResult, ApiError> {
    let Ranked { hit, fused_score, rerank_score, late_interaction } = ranked;
    let fused = FusedPosition { rank: hit.place as u64 + 1, score: fused_score };
    let fused = (hit.place < extras.head).then_some(fused);
    let metadata = Metadata::from_json(hit.metadata).map_err(|error| ApiError::internal(&error))?;
    let (highlights, snippet) = extras.marker.as_ref().map(|marker| marker.mark(&hit.text)).unzip();
    let collapsed_count = extras.collapse.then_some(hit.collapsed.len() as u64);
    let collapsed = extras.collapse.then(|| hit.collapsed.into_iter().take(COLLAPSED_NAMED_MAX).collect());
    let context = extras.context.then(|| hit.context.into_iter().map(context_chunk).collect());
    Ok(SearchResult {
        id: hit.document_id.clone(),
        score: hit.score,
        rerank_score,
        relevance: hit.relevance,
        title: hit.title,
        metadata,
        citation: Citation {
            document_id: hit.document_id,
            chunk: hit.chunk,
            start: hit.start as u64,
            end: hit.end as u64,
            quote: hit.text.clone(),
        },
        text: hit.text,
        ranks: Ranks { lexical: hit.lexical.map(|leg| leg.rank), dense: hit.dense.map(|leg| leg.rank) },
        scores: Scores {
            lexical: hit.lexical.map(|leg| leg.score),
            dense: hit.dense.map(|leg| leg.score),
            late_interaction,
        },
        collapsed_count,
        collapsed,
        context,
        highlights,
        snippet,
        explanation: hit.explanation.map(|found| Explanation { fused, ..explanation(found) }),
    })
}

fn context_chunk(chunk: weir_index::Neighbour) -> ContextChunk {
    ContextChunk { chunk: chunk.chunk, start: chunk.start as u64, end: chunk.end as u64, text: chunk.text }
}

fn explanation(explanation: weir_index::ScoreBreakdown) -> Explanation {
    let term = |share: weir_index::TermContribution| TermScore {
        term: share.term,
        chunks: share.chunks,
        frequency: share.frequency,
        score: share.score,
    };
    Explanation {
        terms: explanation.terms.into_iter().map(term).collect(),
        lexical: explanation.lexical,
        dense: explanation.dense,
        fused: None,
    }
}

fn explain(plan: &Plan, found: &weir_index::IndexResult, how: &How) -> Explain {
    let search = &plan.search;
    let chunks = plan.collection.engine.counts().chunks;
    let fusion = match search.fusion {
        FusionFunction::ReciprocalRank { k, lexical, dense } => {
            ExplainFusion { method: FusionMethod::Rrf, weights: FusionWeights { lexical, dense }, k: Some(k) }
        }
        FusionFunction::Convex { lexical, dense } => {
            ExplainFusion { method: FusionMethod::Convex, weights: FusionWeights { lexical, dense }, k: None }
        }
    };
    Explain {
        query: search.query.as_ref().map(ToString::to_string),
        mode: how.mode,
        fusion: (how.mode == Some(Mode::Hybrid)).then_some(fusion),
        rerank: plan
            .rescoring
            .rerank
            .as_ref()
            .map(|rerank| ExplainRerank { model: rerank.model.id.clone(), top_n: rerank.top_n as u64 }),
        embedding: how.source,
        chunks,
        selected_chunks: found.selected,
        selectivity: found.selected.map(|selected| selected as f64 / chunks.max(1) as f64),
        candidates: RetrieverCounts {
            lexical: found.lexical.documents as u64,
            dense: found.dense.documents as u64,
        },
        reached: found.applied_seq,
    }
}

/// What the index said of a document, but for one that other results keep from the page.
fn shown_on(page: &Page, id: &str, why: weir_index::DocumentTrace) -> weir_index::DocumentTrace {
    let is_shown = page.results.iter().any(|one| one.hit.document_id == id);
    match why.stage {
        TraceStage::Found if !is_shown => weir_index::DocumentTrace { stage: TraceStage::Limit, ..why },
        TraceStage::Found
        | TraceStage::Missing
        | TraceStage::Filter
        | TraceStage::Candidates
        | TraceStage::Limit
        | TraceStage::Group => why,
    }
}

fn why_not(
    id: &str,
    why: weir_index::DocumentTrace,
    after: Option<usize>,
    is_left_out: bool,
    plan: &Plan,
    mode: Option<Mode>,
) -> WhyNot {
    let place = |leg: RetrieverRank| RetrieverPosition { rank: leg.rank, score: leg.score };
    let (lexical, dense) = (why.lexical.map(place), why.dense.map(place));
    let collection = &plan.collection.name;
    let top_k = plan.request.top_k();
    let rank = why.rank.map_or_else(|| "it matches".to_owned(), |rank| format!("candidate rank {rank}"));
    let reranked = after.map_or_else(String::new, |rank| format!(", rank {rank} after reranking"));
    let ranks = describe_ranks(mode, lexical, dense);
    let (stage, message) = match why.stage {
        TraceStage::Missing => (
            WhyNotStage::Missing,
            format!(
                "collection `{collection}` has no searchable document with this id; check the id, and whether its ingest \
                 job is completed"
            ),
        ),
        TraceStage::Filter => (
            WhyNotStage::Filter,
            "the document does not match the filter or a condition in the query (a field, a required or an excluded part); \
             check its metadata, or search without them"
                .to_owned(),
        ),
        TraceStage::Candidates => (
            WhyNotStage::Candidates,
            format!("not among the candidates: {ranks}; {}", candidates_remedy(mode, lexical)),
        ),
        TraceStage::Limit => (
            WhyNotStage::Limit,
            format!(
                "{rank}{reranked}, but `top_k` is {top_k}: {ranks}; raise `top_k` or request the next page with \
                 `cursor`"
            ),
        ),
        TraceStage::Group => (
            WhyNotStage::Group,
            format!(
                "{rank}, but another result is shown instead: of the same group, with a nearly identical text, or more \
                 diverse; omit `group_by`, `collapse` or `diversity`"
            ),
        ),
        TraceStage::Found if is_left_out => (
            WhyNotStage::Relevance,
            format!("on the page, but the relevance is below `min_relevance`: {ranks}; lower `min_relevance`"),
        ),
        TraceStage::Found => (WhyNotStage::Found, format!("among the results: {ranks}")),
    };
    WhyNot { id: id.to_owned(), stage, lexical, dense, rank: why.rank, message }
}

/// The document's ranks by the retrievers that were used.
fn describe_ranks(
    mode: Option<Mode>,
    lexical: Option<RetrieverPosition>,
    dense: Option<RetrieverPosition>,
) -> String {
    match (mode, lexical, dense) {
        (None, ..) => "nothing was ranked".to_owned(),
        (Some(Mode::Hybrid), Some(lexical), Some(dense)) => {
            format!("lexical rank {}, dense rank {}", lexical.rank, dense.rank)
        }
        (Some(Mode::Hybrid), None, Some(dense)) => {
            format!("dense rank {}, no lexical rank (it contains no word of the query)", dense.rank)
        }
        (Some(Mode::Hybrid), None, None) => "no lexical and no dense rank".to_owned(),
        (Some(Mode::Hybrid | Mode::Lexical), Some(lexical), _) => {
            format!("lexical rank {}", lexical.rank)
        }
        (Some(Mode::Lexical), None, _) => "no lexical rank (it contains no word of the query)".to_owned(),
        (Some(Mode::Dense), _, Some(dense)) => format!("dense rank {}", dense.rank),
        (Some(Mode::Dense), _, None) => {
            "no dense rank (its embedding is too far from the query's)".to_owned()
        }
    }
}

/// What makes a document a candidate, by the retrievers that were used.
fn candidates_remedy(mode: Option<Mode>, lexical: Option<RetrieverPosition>) -> &'static str {
    match (mode, lexical) {
        (Some(Mode::Lexical), None) => "use words of the document",
        // a single ranking continues on the next page
        (Some(Mode::Lexical), Some(_)) => "raise `top_k` or request the next page with `cursor`",
        (Some(Mode::Dense), _) => "raise `search.depth` or `top_k`",
        (Some(Mode::Hybrid) | None, _) => "use words of the document, or raise `search.depth` or `top_k`",
    }
}
