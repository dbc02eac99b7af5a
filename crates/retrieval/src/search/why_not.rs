//! Why a document is not among the results.

use weir_api::{Mode, RetrieverPosition, WhyNot, WhyNotStage};
use weir_index::{DocumentTrace, RetrieverRank, TraceStage};

use super::plan::Plan;
use super::rank::{Ranked, RankedHit};

/// Explains what became of the document `id`.
pub(super) fn render(id: &str, trace: DocumentTrace, plan: &Plan, ranked: &Ranked) -> WhyNot {
    let position = |found: RetrieverRank| RetrieverPosition { rank: found.rank, score: found.score };
    let (lexical, dense) = (trace.lexical.map(position), trace.dense.map(position));
    let ranks = describe_ranks(ranked.mode, lexical, dense);
    let (stage, message) = match stage(id, &trace, ranked) {
        WhyNotStage::Missing => (
            WhyNotStage::Missing,
            format!(
                "collection `{}` has no searchable document with this id; check the id, and whether its ingest job is completed",
                plan.view.name
            ),
        ),
        WhyNotStage::Filter => (
            WhyNotStage::Filter,
            "excluded by the filter or by a condition in the query (a field, a required or an excluded term); check its metadata, \
             or search without them"
                .to_owned(),
        ),
        WhyNotStage::Candidates => (
            WhyNotStage::Candidates,
            format!("not among the candidates: {ranks}; {}", candidates_remedy(ranked.mode, lexical)),
        ),
        WhyNotStage::Limit => (
            WhyNotStage::Limit,
            format!(
                "{} of the candidates{}, but the page holds {}: {ranks}; raise `top_k` or read the next page with `cursor`",
                describe_rank(&trace),
                ranked
                    .why_not_position
                    .map_or_else(String::new, |position| format!(", rank {position} after reranking")),
                plan.request.top_k()
            ),
        ),
        WhyNotStage::Group => (
            WhyNotStage::Group,
            format!(
                "{} of the candidates, but a better one represents it: one of the same group, one with nearly the same text, or a \
                 more diverse one; leave out `group_by`, `collapse` or `diversity`",
                describe_rank(&trace)
            ),
        ),
        WhyNotStage::Relevance => (
            WhyNotStage::Relevance,
            format!("on the page, but less relevant than `min_relevance`: {ranks}; lower `min_relevance`"),
        ),
        WhyNotStage::Found => (WhyNotStage::Found, format!("among the results: {ranks}")),
    };
    WhyNot { id: id.to_owned(), stage, lexical, dense, rank: trace.rank, message }
}

/// The stage at which the document was lost, after what the ranking did with the hits of the index.
fn stage(id: &str, trace: &DocumentTrace, ranked: &Ranked) -> WhyNotStage {
    let holds = |hits: &[RankedHit]| hits.iter().any(|one| one.hit.document_id == id);
    match trace.stage {
        TraceStage::Missing => WhyNotStage::Missing,
        TraceStage::Filter => WhyNotStage::Filter,
        TraceStage::Candidates => WhyNotStage::Candidates,
        TraceStage::Limit => WhyNotStage::Limit,
        TraceStage::Group => WhyNotStage::Group,
        TraceStage::Found if holds(&ranked.hits) => WhyNotStage::Found,
        TraceStage::Found if holds(&ranked.less_relevant) => WhyNotStage::Relevance,
        // the second stage moved other hits in front of it
        TraceStage::Found => WhyNotStage::Limit,
    }
}

fn describe_rank(trace: &DocumentTrace) -> String {
    trace.rank.map_or_else(|| "it is one".to_owned(), |rank| format!("rank {rank}"))
}

/// The document's rank in each retriever's ranking.
fn describe_ranks(
    mode: Option<Mode>,
    lexical: Option<RetrieverPosition>,
    dense: Option<RetrieverPosition>,
) -> String {
    let rank = |name, position: Option<RetrieverPosition>| match position {
        Some(position) => format!("{name} rank {}", position.rank),
        None => format!("no {name} rank"),
    };
    match mode {
        None => "nothing was ranked".to_owned(),
        Some(Mode::Hybrid) => format!("{}, {}", rank("lexical", lexical), rank("dense", dense)),
        Some(Mode::Lexical) => rank("lexical", lexical),
        Some(Mode::Dense) => rank("dense", dense),
    }
}

/// What brings a document among the candidates of a mode.
fn candidates_remedy(mode: Option<Mode>, lexical: Option<RetrieverPosition>) -> &'static str {
    match (mode, lexical) {
        (Some(Mode::Lexical), None) => "use words from its text",
        // a lexical ranking continues page by page
        (Some(Mode::Lexical), Some(_)) => "raise `top_k` or read the next page with `cursor`",
        (Some(Mode::Dense), _) => "raise `search.depth` or `top_k`",
        (Some(Mode::Hybrid) | None, _) => "use words from its text, or raise `search.depth` or `top_k`",
    }
}
