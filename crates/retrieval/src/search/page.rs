//! Renders a ranked page as the reply.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use weir_api::{
    Citation, CitedPages, CitedPart, ContextChunk, Correction, Explain, ExplainFusion, ExplainRerank,
    Explanation, FacetCount, FacetCounts, FusedPosition, FusionMethod, FusionWeights, Metadata, Mode,
    PhraseScore, QueryReading, Ranks, RetrieverCounts, Scores, SearchReply, SearchResult, Snippet, TermScore,
    Timings, Total, TotalRelation,
};
use weir_index::FusionFunction;
use weir_index::filter::{Number, Value};
use weir_text::{Language, PageMap};

use super::plan::Plan;
use super::rank::{Ranked, RankedHit};
use super::reply_budget::ReplyBudget;
use super::why_not;
use crate::Result;
use weir_refusal::RequestError;

/// Results that are highlighted without a blocking thread.
const HIGHLIGHTED_INLINE_MAX: usize = 20;

/// Approximate characters of a snippet.
const SNIPPET_CHARS: usize = 300;

/// Terms of an explanation: those with the highest scores.
const EXPLAINED_TERMS_MAX: usize = 32;

/// Collapsed documents that a result names.
const COLLAPSED_NAMED_MAX: usize = 100;

/// Whether rendering takes so long that it belongs on a blocking thread.
pub(super) fn is_long(plan: &Plan, ranked: &Ranked) -> bool {
    plan.request.highlight == Some(true) && ranked.hits.len() > HIGHLIGHTED_INLINE_MAX
}

/// Renders the reply; `took_ms` is set later. Refuses one whose results take more than `budget`.
pub(super) fn render(
    plan: &Plan,
    ranked: Ranked,
    next_cursor: Option<String>,
    timings: Timings,
    budget: &ReplyBudget,
) -> Result<SearchReply> {
    let explain = ranked.query.explain.then(|| explain(plan, &ranked));
    let why_not = plan.request.why_not.as_ref().zip(ranked.found.trace.clone());
    let why_not = why_not.map(|(id, why)| why_not::render(id, why, plan, &ranked));
    let Ranked { query, found, hits, less_relevant, degraded, .. } = ranked;
    let extras = Extras {
        marker: Marker::of(plan, &found),
        collapse: query.collapse,
        context: query.context > 0,
        second_stage_depth: if query.explain { plan.second_stage.depth() } else { 0 },
    };
    let mut results = Vec::with_capacity(hits.len());
    for hit in hits {
        let result = result(hit, &extras)?;
        budget.take(&result)?;
        results.push(result);
    }
    Ok(SearchReply {
        results,
        total: total(found.total),
        left_out: plan.request.min_relevance.map(|_| less_relevant.len() as u64),
        next_cursor,
        facet_counts: plan.request.facets.as_ref().map(|_| match found.exact_facets {
            true => FacetCounts::Exact,
            false => FacetCounts::Candidates,
        }),
        facets: plan.request.facets.as_ref().map(|asked| facets(asked, found.facets)),
        query: query
            .query
            .as_ref()
            .map(|query| QueryReading { excluded: query.excluded(), as_text: plan.as_text.clone() }),
        corrections: found
            .corrections
            .into_iter()
            .map(|correction| Correction { word: correction.word, instead: correction.replacements })
            .collect(),
        degraded: !degraded.is_empty(),
        degraded_reason: degraded.first().copied(),
        degraded_reasons: degraded,
        explain,
        why_not,
        took_ms: 0.0,
        timings_ms: timings,
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

/// The parts of each result beyond the hit itself.
struct Extras {
    marker: Option<Marker>,
    collapse: bool,
    context: bool,
    /// Hits whose position before the second stage is shown.
    second_stage_depth: usize,
}

/// Finds in texts what was searched.
struct Marker {
    terms: HashSet<String>,
    language: Language,
}

impl Marker {
    /// When the request asks for it.
    fn of(plan: &Plan, found: &weir_index::IndexResult) -> Option<Marker> {
        let synonyms = || found.synonyms.iter().flat_map(|synonym| synonym.split(' ')).map(str::to_owned);
        let terms = || found.terms.iter().cloned().chain(synonyms()).collect();
        (plan.request.highlight == Some(true))
            .then(|| Marker { terms: terms(), language: plan.view.language() })
    }

    fn spans(&self, text: &str) -> Vec<(u64, u64)> {
        let spans = weir_text::highlight_terms(text, &self.terms, self.language);
        spans.into_iter().map(|span| (span.start as u64, span.end as u64)).collect()
    }

    fn mark(&self, text: &str) -> (Vec<(u64, u64)>, Snippet) {
        let spans = weir_text::highlight_terms(text, &self.terms, self.language);
        let part = weir_text::snippet(text, &spans, SNIPPET_CHARS);
        let snippet =
            Snippet { start: part.start as u64, end: part.end as u64, text: text[part.clone()].to_owned() };
        (spans.into_iter().map(|span| (span.start as u64, span.end as u64)).collect(), snippet)
    }
}

fn result(ranked: RankedHit, extras: &Extras) -> Result<SearchResult> {
    let RankedHit { hit, fused_score, rerank_score, late_interaction } = ranked;
    let (part, quoted, quote) = quoted(&hit);
    let fused = FusedPosition { rank: hit.position as u64 + 1, score: fused_score };
    let fused = (hit.position < extras.second_stage_depth).then_some(fused);
    let metadata = Metadata::from_json(hit.metadata).map_err(|error| RequestError::internal(&error))?;
    let title_highlights = extras.marker.as_ref().zip(hit.title.as_ref());
    let title_highlights = title_highlights.map(|(marker, title)| marker.spans(title));
    let (highlights, snippet) = extras.marker.as_ref().map(|marker| marker.mark(&hit.text)).unzip();
    let collapsed_count = extras.collapse.then_some(hit.collapsed.len() as u64);
    let collapsed = extras.collapse.then(|| hit.collapsed.into_iter().take(COLLAPSED_NAMED_MAX).collect());
    let context = extras.context.then(|| hit.context.into_iter().map(context_chunk).collect());
    let pages = pages(hit.pages.as_deref(), hit.start as u64..hit.end as u64);
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
            start: quoted.start as u64,
            end: quoted.end as u64,
            quote,
            part,
            page: pages.page,
            page_end: pages.page_end,
            page_label: pages.page_label,
            pages_approximate: pages.pages_approximate,
            page_breaks: pages.page_breaks,
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
        title_highlights,
        snippet,
        explanation: hit.explanation.map(|found| Explanation { fused, ..explanation(found) }),
    })
}

/// The quoted part of a citation of a hit, and its range: in the title of a document without text.
fn quoted(hit: &weir_index::Hit) -> (Option<CitedPart>, Range<usize>, String) {
    match &hit.title {
        Some(title) if hit.start == hit.end => (Some(CitedPart::Title), 0..title.len(), title.clone()),
        Some(_) | None => {
            let span = hit.start..hit.end;
            (None, span.clone(), own_text(&hit.text, span).to_owned())
        }
    }
}

/// The pages of the bytes of `range`, of a document with the page map `map`.
fn pages(map: Option<&str>, range: Range<u64>) -> CitedPages {
    let map = map.and_then(|map| serde_json::from_str::<PageMap>(map).ok());
    let Some(pages) = map.and_then(|map| map.locate(range)) else { return CitedPages::default() };
    CitedPages {
        page: Some(pages.first),
        page_end: Some(pages.last),
        page_label: pages.label,
        pages_approximate: pages.is_approximate.then_some(true),
        page_breaks: (!pages.breaks.is_empty()).then_some(pages.breaks),
    }
}

fn context_chunk(chunk: weir_index::Neighbour) -> ContextChunk {
    let text = own_text(&chunk.text, chunk.start..chunk.end).to_owned();
    ContextChunk { chunk: chunk.chunk, start: chunk.start as u64, end: chunk.end as u64, text }
}

/// The part of a chunk's text that the document has at `span`: the header of a table may precede it.
fn own_text(text: &str, span: std::ops::Range<usize>) -> &str {
    text.len().checked_sub(span.len()).and_then(|before| text.get(before..)).unwrap_or(text)
}

fn explanation(mut explanation: weir_index::ScoreBreakdown) -> Explanation {
    // most searches have few terms, which keep the order of the query
    if explanation.terms.len() > EXPLAINED_TERMS_MAX {
        explanation.terms.sort_by(|a, b| b.score.total_cmp(&a.score));
        explanation.terms.truncate(EXPLAINED_TERMS_MAX);
    }
    explanation.phrases.truncate(EXPLAINED_TERMS_MAX);
    let term = |share: weir_index::TermContribution| TermScore {
        term: share.term,
        chunks: share.chunks,
        frequency: share.frequency,
        score: share.score,
    };
    Explanation {
        terms: explanation.terms.into_iter().map(term).collect(),
        phrases: explanation
            .phrases
            .into_iter()
            .map(|share| PhraseScore { phrase: share.phrase, score: share.score })
            .collect(),
        lexical: explanation.lexical,
        dense: explanation.dense,
        neighbours: explanation.neighbours,
        name: explanation.name,
        fused: None,
    }
}

fn explain(plan: &Plan, ranked: &Ranked) -> Explain {
    let (search, found) = (&ranked.query, &ranked.found);
    let chunks = found.existing_chunks;
    let fusion = match found.fusion {
        FusionFunction::ReciprocalRank { k, lexical, dense } => {
            ExplainFusion { method: FusionMethod::Rrf, weights: FusionWeights { lexical, dense }, k: Some(k) }
        }
        FusionFunction::Convex { lexical, dense, .. } => {
            ExplainFusion { method: FusionMethod::Convex, weights: FusionWeights { lexical, dense }, k: None }
        }
    };
    Explain {
        query: search.query.as_ref().map(ToString::to_string),
        mode: ranked.mode,
        fusion: (ranked.mode == Some(Mode::Hybrid)).then_some(fusion),
        smoothing: found.is_smoothed,
        synonyms: found.synonyms.clone(),
        rerank: plan
            .second_stage
            .rerank
            .as_ref()
            .map(|rerank| ExplainRerank { model: rerank.model.id.clone(), top_n: rerank.top_n as u64 }),
        embedding: ranked.embedding,
        chunks,
        selected_chunks: found.selected,
        selectivity: found.selected.map(|selected| selected as f64 / chunks.max(1) as f64),
        candidates: RetrieverCounts {
            lexical: found.lexical.documents as u64,
            dense: found.dense.documents as u64,
        },
        applied_seq: found.shown_seq,
        learned: plan.view.learned_relevance(),
    }
}
