//! The page of a search, after its first results were scored once more.
//!
//! The first results of the index change places among each other; the others follow as they are. A cursor holds the order of those that
//! come on later pages, so that each result is on one page, whatever becomes of the model meanwhile.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use weir_api::DegradedReason;
use weir_index::Hit;

use super::super::Gateway;
use super::super::cursor::Placed;
use super::super::error::ApiError;
use super::super::rerank::rerank;
use super::degraded::{Part, reason};
use super::plan::Plan;
use super::rescoring::{Likeness, Reranking};
use weir_inference::InferenceError;

/// A hit at its last place.
pub(super) struct Ranked {
    /// As it came, but for its score.
    pub(super) hit: Hit,
    /// The score that it came with.
    pub(super) fused_score: f32,
    pub(super) rerank_score: Option<f32>,
    pub(super) late_interaction: Option<f32>,
}

/// The results of a page, and what came of scoring once more.
#[derive(Default)]
pub(super) struct Page {
    pub(super) results: Vec<Ranked>,
    /// The results behind the page whose order is not that of the index.
    pub(super) order: Vec<Placed>,
    /// What the order does without.
    pub(super) degraded: Vec<DegradedReason>,
    pub(super) likeness_time: Duration,
    pub(super) rerank_time: Duration,
    /// The place of the document that the request asks about, from 1, if it is among those that changed places.
    pub(super) asked_place: Option<usize>,
}

/// Cuts the page out of what the index found, after its first hits were scored once more. What is not ready at `deadline`, or
/// fails, is done without.
pub(super) async fn page(
    gateway: &Gateway,
    plan: &Plan,
    hits: Vec<Hit>,
    deadline: Instant,
) -> Result<Page, ApiError> {
    let (offset, end) = (plan.offset, plan.offset.saturating_add(plan.limit));
    let head = plan.rescoring.head();
    let (first, mut rest): (Vec<Hit>, Vec<Hit>) = hits.into_iter().partition(|hit| hit.place < head);
    rest.retain(|hit| (offset..end).contains(&hit.place));
    let mut page = Page::default();
    if offset < head {
        let first = first.into_iter().map(Ranked::from).collect();
        match &plan.page {
            Some(cursor) => page.go_on(first, cursor, plan),
            None => page.begin(gateway, plan, first, deadline).await?,
        }
    }
    page.results.extend(rest.into_iter().map(Ranked::from));
    Ok(page)
}

impl From<Hit> for Ranked {
    fn from(hit: Hit) -> Ranked {
        Ranked { fused_score: hit.score, hit, rerank_score: None, late_interaction: None }
    }
}

impl Ranked {
    /// `None` at a place that is too far down to have been scored.
    fn placed(&self) -> Option<Placed> {
        Some(Placed {
            place: u8::try_from(self.hit.place).ok()?,
            score: self.hit.score,
            rerank_score: self.rerank_score,
            late_interaction: self.late_interaction,
        })
    }
}

impl Page {
    /// Takes the order that an earlier page found.
    fn go_on(&mut self, mut first: Vec<Ranked>, cursor: &super::super::cursor::Cursor, plan: &Plan) {
        self.degraded = cursor.degraded.iter().copied().filter(|reason| !reason.is_lexical_only()).collect();
        if cursor.order.is_empty() {
            // nothing could be scored
            let end = plan.offset.saturating_add(plan.limit);
            first.retain(|ranked| (plan.offset..end).contains(&ranked.hit.place));
            self.results = first;
            return;
        }
        let shown = plan.limit.min(cursor.order.len());
        for placed in &cursor.order[..shown] {
            // what was removed since leaves its place free
            let at = first.iter().position(|ranked| ranked.hit.place == usize::from(placed.place));
            if let Some(mut ranked) = at.map(|at| first.swap_remove(at)) {
                ranked.hit.score = placed.score;
                (ranked.rerank_score, ranked.late_interaction) =
                    (placed.rerank_score, placed.late_interaction);
                self.results.push(ranked);
            }
        }
        self.order = cursor.order[shown..].to_vec();
    }

    /// Finds the order.
    async fn begin(
        &mut self,
        gateway: &Gateway,
        plan: &Plan,
        mut first: Vec<Ranked>,
        deadline: Instant,
    ) -> Result<(), ApiError> {
        let mut is_changed = false;
        if let Some(likeness) = &plan.rescoring.likeness {
            let started = Instant::now();
            let count = first.len().min(likeness.top_n);
            let made = timeout_at(deadline, compare(gateway, plan, likeness, &first[..count])).await;
            self.likeness_time = started.elapsed();
            if let Some(made) = self.unless_degraded(Part::LateInteraction, made.ok())? {
                add_likeness(&mut first[..count], &made, likeness.weight);
                is_changed = true;
            }
        }
        if let Some(reranking) = &plan.rescoring.rerank {
            let started = Instant::now();
            let count = first.len().min(reranking.top_n);
            let made = timeout_at(deadline, score(gateway, plan, reranking, &first[..count], deadline)).await;
            self.rerank_time = started.elapsed();
            if let Some(made) = self.unless_degraded(Part::Rerank, made.ok())? {
                order_by(&mut first[..count], &made);
                is_changed = true;
            }
        }
        let is_asked = |ranked: &Ranked| Some(&ranked.hit.document_id) == plan.request.why_not.as_ref();
        self.asked_place = first.iter().position(is_asked).map(|at| at + 1);
        let mut shown = first.split_off(plan.offset.min(first.len()));
        let behind = shown.split_off(plan.limit.min(shown.len()));
        if is_changed {
            self.order = behind.iter().filter_map(Ranked::placed).collect();
        }
        self.results = shown;
        Ok(())
    }

    /// What a part made, if it was ready and didn't fail.
    fn unless_degraded(
        &mut self,
        part: Part,
        made: Option<Result<Vec<f32>, InferenceError>>,
    ) -> Result<Option<Vec<f32>>, ApiError> {
        match made {
            Some(Ok(made)) => Ok(Some(made)),
            Some(Err(InferenceError::Stopping)) => Err(InferenceError::Stopping.into()),
            Some(Err(error)) => {
                self.degraded.push(reason(part, Some(&error)));
                Ok(None)
            }
            None => {
                self.degraded.push(reason(part, None));
                Ok(None)
            }
        }
    }
}

/// How like the texts are to the query, each read as the collection's model embedded it.
async fn compare(
    gateway: &Gateway,
    plan: &Plan,
    likeness: &Likeness,
    hits: &[Ranked],
) -> Result<Vec<f32>, InferenceError> {
    if hits.is_empty() {
        return Ok(Vec::new());
    }
    let model = &likeness.model;
    let text = |ranked: &Ranked| {
        let (title, text) = (ranked.hit.title.as_deref().unwrap_or_default(), &ranked.hit.text);
        let space = if title.is_empty() { "" } else { " " };
        format!("{}{title}{space}{text}", model.document_prompt)
    };
    let texts = hits.iter().map(text).collect();
    gateway.scheduler.likeness(model, format!("{}{}", model.query_prompt, plan.text), texts).await
}

/// What the reranker says of query and texts.
async fn score(
    gateway: &Gateway,
    plan: &Plan,
    reranking: &Reranking,
    hits: &[Ranked],
    deadline: Instant,
) -> Result<Vec<f32>, InferenceError> {
    if hits.is_empty() {
        return Ok(Vec::new());
    }
    // a document may have a title alone
    let text = |ranked: &Ranked| match &ranked.hit.title {
        Some(title) if ranked.hit.text.trim().is_empty() => title.clone(),
        Some(_) | None => ranked.hit.text.clone(),
    };
    let texts = hits.iter().map(text).collect();
    let until = Some(deadline.into_std());
    rerank(gateway, reranking.model.clone(), plan.text.clone(), texts, until).await.map(|made| made.scores)
}

/// Mixes likeness into the scores by its weight, both stretched to 0..1, and orders by what comes out. That stays between the lowest and
/// the highest score there was, so that no hit falls below those that were not looked at.
fn add_likeness(hits: &mut [Ranked], likeness: &[f32], weight: f32) {
    let range = |values: &mut dyn Iterator<Item = f32>| {
        values
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (low, high) = range(&mut hits.iter().map(|ranked| ranked.hit.score));
    let (least, most) = range(&mut likeness.iter().copied());
    let share = |value: f32, low: f32, high: f32| if high > low { (value - low) / (high - low) } else { 1.0 };
    for (ranked, likeness) in hits.iter_mut().zip(likeness) {
        let mixed =
            (1.0 - weight) * share(ranked.hit.score, low, high) + weight * share(*likeness, least, most);
        ranked.late_interaction = Some(*likeness);
        ranked.hit.score = low + (high - low) * mixed;
    }
    hits.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
}

/// Orders by the reranker's scores; the first place gets the highest score there was, and so on, so that scores descend through these hits
/// and those behind them.
fn order_by(hits: &mut [Ranked], scores: &[f32]) {
    let mut ladder: Vec<f32> = hits.iter().map(|ranked| ranked.hit.score).collect();
    ladder.sort_by(|a, b| b.total_cmp(a));
    for (ranked, score) in hits.iter_mut().zip(scores) {
        ranked.rerank_score = Some(*score);
    }
    hits.sort_by(|a, b| b.rerank_score.unwrap_or(0.0).total_cmp(&a.rerank_score.unwrap_or(0.0)));
    for (ranked, score) in hits.iter_mut().zip(ladder) {
        ranked.hit.score = score;
    }
}
