//! The ranking of a search: what the index found, re-scored by the second stage, cut to the page and to `min_relevance`.
//!
//! The second stage reorders the first hits of the index; the others keep their order. A cursor carries the order of re-scored hits that
//! are shown on later pages, so that each hit is on exactly one page even when the model's scores change in between.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use weir_api::{DegradedReason, EmbeddingSource, Mode, Timings};
use weir_index::{Hit, IndexQuery, IndexResult, MatchCount, TraceStage};
use weir_inference::InferenceError;
use weir_ranking::RetrievalMode;

use super::degraded::{Part, reason};
use super::embed::Embedded;
use super::ms;
use super::plan::Plan;
use super::refusal::refusal;
use super::second_stage::{MaxSim, Reranking};
use crate::{Result, Retrieval};
use weir_cursor::{Cursor, Placed};

/// A hit at its final position.
pub(super) struct RankedHit {
    /// The hit of the index, with its final score.
    pub(super) hit: Hit,
    /// The score before the second stage.
    pub(super) fused_score: f32,
    pub(super) rerank_score: Option<f32>,
    pub(super) late_interaction: Option<f32>,
}

/// A page of hits, and how it was ranked.
pub(super) struct Ranked {
    /// The query to the index.
    pub(super) query: IndexQuery,
    /// The index's result, without its hits.
    pub(super) found: IndexResult,
    /// The retrievers that ranked; `None` for a list.
    pub(super) mode: Option<Mode>,
    pub(super) embedding: EmbeddingSource,
    pub(super) hits: Vec<RankedHit>,
    /// Hits of the page that are less relevant than `min_relevance`.
    pub(super) less_relevant: Vec<RankedHit>,
    /// Parts of the search that failed or were late.
    pub(super) degraded: Vec<DegradedReason>,
    /// Position from 1 of the document that `why_not` names, if the second stage re-scored it.
    pub(super) why_not_position: Option<usize>,
    /// Re-scored hits behind the page, in their order.
    order: Vec<Placed>,
    max_sim_time: Duration,
    rerank_time: Duration,
}

impl Ranked {
    /// Searches the index and applies the second stage. A second stage that fails, or is not ready at `deadline`, is left out.
    pub(super) async fn new(
        retrieval: &Retrieval,
        plan: &Plan,
        embedded: Embedded,
        deadline: Instant,
    ) -> Result<Ranked> {
        let query = plan.index_query(embedded.mode, embedded.vector);
        let found = plan.view.search(query.clone()).await;
        let mut found = found.map_err(|error| refusal(error, &plan.request))?;
        if let (Some(id), Some(trace)) = (&plan.request.why_not, &mut found.trace)
            && trace.stage == TraceStage::Filter
            && plan.view.store().document(id).await?.is_none()
        {
            // the caller's mandatory filter hides it: for this caller it does not exist
            trace.stage = TraceStage::Missing;
        }
        let hits = std::mem::take(&mut found.hits);
        let mut ranked = Ranked {
            query,
            found,
            mode: embedded.mode,
            embedding: embedded.source,
            hits: Vec::new(),
            less_relevant: Vec::new(),
            degraded: embedded.degraded.into_iter().collect(),
            why_not_position: None,
            order: Vec::new(),
            max_sim_time: Duration::ZERO,
            rerank_time: Duration::ZERO,
        };
        ranked.fill_page(retrieval, plan, hits, deadline).await?;
        let least = plan.request.min_relevance.unwrap_or(0.0);
        let is_relevant = |one: &RankedHit| one.hit.relevance.is_none_or(|relevance| relevance >= least);
        (ranked.hits, ranked.less_relevant) = ranked.hits.into_iter().partition(is_relevant);
        Ok(ranked)
    }

    /// The cursor to the page after this one, if there is one.
    pub(super) fn next_cursor(&self, plan: &Plan) -> Option<Cursor> {
        let end = plan.offset.saturating_add(plan.limit) as u64;
        let is_more = match self.found.total {
            // a lexical ranking that is not counted may have more hits than were looked at
            MatchCount::Window(total) if self.query.mode == RetrievalMode::Lexical => end <= total,
            MatchCount::Window(total) | MatchCount::Exact(total) => end < total,
        };
        is_more.then(|| Cursor {
            applied_seq: self.found.applied_seq,
            offset: end,
            degraded: self.degraded.clone(),
            order: self.order.clone(),
        })
    }

    /// Whether nothing matches, on any page.
    pub(super) fn found_nothing(&self) -> bool {
        matches!(self.found.total, MatchCount::Exact(0) | MatchCount::Window(0))
    }

    /// The times of the stages that this one ran.
    pub(super) fn timings(&self) -> Timings {
        let index = &self.found.timings;
        Timings {
            select: ms(index.select),
            lexical: ms(index.lexical),
            dense: ms(index.dense),
            fuse: ms(index.fuse),
            smooth: ms(index.smooth),
            fetch: ms(index.fetch),
            late_interaction: ms(self.max_sim_time),
            rerank: ms(self.rerank_time),
            ..Timings::default()
        }
    }

    /// Cuts the page out of the hits of the index, after the second stage.
    async fn fill_page(
        &mut self,
        retrieval: &Retrieval,
        plan: &Plan,
        hits: Vec<Hit>,
        deadline: Instant,
    ) -> Result<()> {
        let page = plan.offset..plan.offset.saturating_add(plan.limit);
        let depth = plan.second_stage.depth();
        let (first, mut rest): (Vec<Hit>, Vec<Hit>) = hits.into_iter().partition(|hit| hit.position < depth);
        rest.retain(|hit| page.contains(&hit.position));
        if plan.offset < depth {
            let first = first.into_iter().map(RankedHit::from).collect();
            match &plan.page {
                Some(cursor) => self.resume(first, cursor, plan),
                None => self.rescore(retrieval, plan, first, deadline).await?,
            }
        }
        self.hits.extend(rest.into_iter().map(RankedHit::from));
        Ok(())
    }

    /// Takes the order that the cursor of an earlier page carries.
    fn resume(&mut self, mut first: Vec<RankedHit>, cursor: &Cursor, plan: &Plan) {
        let of_second_stage = cursor.degraded.iter().copied().filter(|reason| !reason.is_lexical_only());
        self.degraded.extend(of_second_stage);
        if cursor.order.is_empty() {
            // the second stage had failed
            let end = plan.offset.saturating_add(plan.limit);
            first.retain(|ranked| (plan.offset..end).contains(&ranked.hit.position));
            self.hits = first;
            return;
        }
        let shown = plan.limit.min(cursor.order.len());
        for placed in &cursor.order[..shown] {
            // the position of a hit that was deleted since stays empty
            let at = first.iter().position(|ranked| ranked.hit.position == usize::from(placed.place));
            if let Some(mut ranked) = at.map(|at| first.swap_remove(at)) {
                ranked.hit.score = placed.score;
                (ranked.rerank_score, ranked.late_interaction) =
                    (placed.rerank_score, placed.late_interaction);
                self.hits.push(ranked);
            }
        }
        self.order = cursor.order[shown..].to_vec();
    }

    /// Re-scores the first hits and orders them.
    async fn rescore(
        &mut self,
        retrieval: &Retrieval,
        plan: &Plan,
        mut first: Vec<RankedHit>,
        deadline: Instant,
    ) -> Result<()> {
        let mut is_changed = false;
        if let Some(max_sim) = &plan.second_stage.max_sim {
            let started = Instant::now();
            let count = first.len().min(max_sim.top_n);
            let made = timeout_at(deadline, max_sim_scores(retrieval, plan, max_sim, &first[..count])).await;
            self.max_sim_time = started.elapsed();
            if let Some(made) = self.unless_degraded(Part::LateInteraction, made.ok())? {
                add_max_sim(&mut first[..count], &made, max_sim.weight);
                is_changed = true;
            }
        }
        if let Some(reranking) = &plan.second_stage.rerank {
            let started = Instant::now();
            let count = first.len().min(reranking.top_n);
            let made = rerank_scores(retrieval, plan, reranking, &first[..count], deadline);
            let made = timeout_at(deadline, made).await;
            self.rerank_time = started.elapsed();
            if let Some(made) = self.unless_degraded(Part::Rerank, made.ok())? {
                order_by(&mut first[..count], &made);
                is_changed = true;
            }
        }
        let is_asked = |ranked: &RankedHit| Some(&ranked.hit.document_id) == plan.request.why_not.as_ref();
        self.why_not_position = first.iter().position(is_asked).map(|at| at + 1);
        let mut shown = first.split_off(plan.offset.min(first.len()));
        let behind = shown.split_off(plan.limit.min(shown.len()));
        if is_changed {
            self.order = behind.iter().filter_map(RankedHit::placed).collect();
        }
        self.hits = shown;
        Ok(())
    }

    /// The scores of a part, if it was ready and did not fail.
    fn unless_degraded(
        &mut self,
        part: Part,
        made: Option<Result<Vec<f32>, InferenceError>>,
    ) -> Result<Option<Vec<f32>>> {
        match made {
            Some(Ok(made)) => Ok(Some(made)),
            Some(Err(InferenceError::Stopping)) => Err(InferenceError::Stopping.into()),
            failed => {
                let error = failed.and_then(Result::err);
                self.degraded.push(reason(part, error.as_ref()));
                Ok(None)
            }
        }
    }
}

impl From<Hit> for RankedHit {
    fn from(hit: Hit) -> RankedHit {
        RankedHit { fused_score: hit.score, hit, rerank_score: None, late_interaction: None }
    }
}

impl RankedHit {
    /// `None` at a position that the second stage never reaches.
    fn placed(&self) -> Option<Placed> {
        Some(Placed {
            place: u8::try_from(self.hit.position).ok()?,
            score: self.hit.score,
            rerank_score: self.rerank_score,
            late_interaction: self.late_interaction,
        })
    }
}

/// The MaxSim score of each text, read as the collection's model embedded it.
async fn max_sim_scores(
    retrieval: &Retrieval,
    plan: &Plan,
    max_sim: &MaxSim,
    hits: &[RankedHit],
) -> Result<Vec<f32>, InferenceError> {
    if hits.is_empty() {
        return Ok(Vec::new());
    }
    let model = &max_sim.model;
    let text = |ranked: &RankedHit| {
        let (title, text) = (ranked.hit.title.as_deref().unwrap_or_default(), &ranked.hit.text);
        let space = if title.is_empty() { "" } else { " " };
        format!("{}{title}{space}{text}", model.document_prompt())
    };
    let texts = hits.iter().map(text).collect();
    retrieval.scheduler.max_sim(model, format!("{}{}", model.query_prompt(), plan.text), texts).await
}

/// The reranker's score of each text for the query.
async fn rerank_scores(
    retrieval: &Retrieval,
    plan: &Plan,
    reranking: &Reranking,
    hits: &[RankedHit],
    deadline: Instant,
) -> Result<Vec<f32>, InferenceError> {
    if hits.is_empty() {
        return Ok(Vec::new());
    }
    // a document may have only a title
    let text = |ranked: &RankedHit| match &ranked.hit.title {
        Some(title) if ranked.hit.text.trim().is_empty() => title.clone(),
        Some(_) | None => ranked.hit.text.clone(),
    };
    let texts = hits.iter().map(text).collect();
    let until = Some(deadline.into_std());
    retrieval.scheduler.rerank_texts(reranking.model.clone(), plan.text.clone(), texts, until).await
}

/// Mixes MaxSim scores into the scores by `weight`, both scaled to 0..1, and sorts by the result. The mixed scores stay within the range of
/// the old ones, so that no hit falls below those that were not re-scored.
fn add_max_sim(hits: &mut [RankedHit], max_sim: &[f32], weight: f32) {
    let range = |values: &mut dyn Iterator<Item = f32>| {
        values
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (low, high) = range(&mut hits.iter().map(|ranked| ranked.hit.score));
    let (least, most) = range(&mut max_sim.iter().copied());
    let share = |value: f32, low: f32, high: f32| if high > low { (value - low) / (high - low) } else { 1.0 };
    for (ranked, max_sim) in hits.iter_mut().zip(max_sim) {
        let mixed =
            (1.0 - weight) * share(ranked.hit.score, low, high) + weight * share(*max_sim, least, most);
        ranked.late_interaction = Some(*max_sim);
        ranked.hit.score = low + (high - low) * mixed;
    }
    hits.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
}

/// Sorts by the reranker's scores. The first position gets the highest of the old scores, and so on, so that scores descend through these
/// hits and those behind them.
fn order_by(hits: &mut [RankedHit], scores: &[f32]) {
    let mut descending: Vec<f32> = hits.iter().map(|ranked| ranked.hit.score).collect();
    descending.sort_by(|a, b| b.total_cmp(a));
    for (ranked, score) in hits.iter_mut().zip(scores) {
        ranked.rerank_score = Some(*score);
    }
    hits.sort_by(|a, b| b.rerank_score.unwrap_or(0.0).total_cmp(&a.rerank_score.unwrap_or(0.0)));
    for (ranked, score) in hits.iter_mut().zip(descending) {
        ranked.hit.score = score;
    }
}
