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
    let rank = trace.rank.map_or_else(|| "it matches".to_owned(), |rank| format!("candidate rank {rank}"));
    let stage = stage(id, &trace, ranked);
    let message = match stage {
        WhyNotStage::Missing => format!(
            "collection `{}` has no searchable document with this id; check the id, and whether its ingest job is completed",
            plan.view.name()
        ),
        WhyNotStage::Filter => {
            "the document does not match the filter or a condition in the query (a field, a required or an \
             excluded part); check its metadata, or search without them"
                .to_owned()
        }
        WhyNotStage::Candidates => {
            format!("not among the candidates: {ranks}; {}", candidates_remedy(ranked.mode, lexical))
        }
        WhyNotStage::Limit => format!(
            "{rank}{}, but `top_k` is {}: {ranks}; raise `top_k` or request the next page with `cursor`",
            ranked.why_not_position.map_or_else(String::new, |rank| format!(", rank {rank} after reranking")),
            plan.request.top_k()
        ),
        WhyNotStage::Group => format!(
            "{rank}, but another result is shown instead: of the same group, with a nearly identical text, or more diverse; omit \
             `group_by`, `collapse` or `diversity`"
        ),
        WhyNotStage::Relevance => {
            format!("on the page, but the relevance is below `min_relevance`: {ranks}; lower `min_relevance`")
        }
        WhyNotStage::Found => format!("among the results: {ranks}"),
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

/// The remedy that makes a document a candidate, by the retrievers that were used.
fn candidates_remedy(mode: Option<Mode>, lexical: Option<RetrieverPosition>) -> &'static str {
    match (mode, lexical) {
        (Some(Mode::Lexical), None) => "use words of the document",
        // a single ranking continues on the next page
        (Some(Mode::Lexical), Some(_)) => "raise `top_k` or request the next page with `cursor`",
        (Some(Mode::Dense), _) => "raise `search.depth` or `top_k`",
        (Some(Mode::Hybrid) | None, _) => "use words of the document, or raise `search.depth` or `top_k`",
    }
}
