//! Searches, in stages that each produce the next: a request is checked and planned ([`Plan`]), its query is embedded
//! ([`Embedded`]), the index ranks and a second stage re-scores the first hits ([`Ranked`]), and the page is rendered as a reply.

mod degraded;
mod embed;
mod page;
mod plan;
mod rank;
mod refusal;
mod reply_budget;
mod second_stage;
mod why_not;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument as _;
use weir_api::{
    BatchItem, BatchReply, Count, RawJson, SearchOrBatchReply, SearchReply, SearchRequest, Timings,
};
use weir_inference::Caching;
use weir_policy::Caller;

pub(crate) use plan::{read_filter, sort_keys};
pub(crate) use refusal::{refusal, unknown_in_filter};

use crate::{Result, Retrieval, SearchPermit, maybe_spawn_blocking};
use embed::Embedded;
use plan::Plan;
use rank::Ranked;
use reply_budget::ReplyBudget;

/// Searches of one batch that run at one instant.
const BATCH_CONCURRENCY: usize = 8;

/// Share of a search's deadline that the embedding may use; the rest is for ranking without it.
const EMBEDDING_SHARE: f64 = 0.75;

/// Share of a search's deadline at which the second stage is abandoned; the rest is for rendering the reply.
const SECOND_STAGE_SHARE: f64 = 0.95;

/// Plan requests whose query and filter have more bytes than this on a blocking thread.
const PLANNED_INLINE_BYTES_MAX: usize = 8 << 10;

/// The context of a search beside its request.
#[derive(Clone)]
pub struct SearchContext {
    /// Who asks.
    pub caller: Arc<Caller>,
    /// Whether cached embeddings may be used.
    pub caching: Caching,
    /// When the request arrived; deadlines count from there.
    pub started: Instant,
    /// Names the request in the errors of a batch.
    pub request_id: Option<String>,
}

impl Retrieval {
    /// Runs one search, or each of `queries`.
    ///
    /// # Errors
    /// In a batch, each search has its own.
    pub async fn search(
        &self,
        _permit: &SearchPermit,
        mut request: SearchRequest,
        context: SearchContext,
    ) -> Result<SearchOrBatchReply> {
        let Some(queries) = request.queries.take() else {
            let budget = Arc::new(ReplyBudget::new(self.config.limits.search_reply_bytes_max));
            let reply = self.search_one(request, &context, context.started, budget).await?;
            return Ok(SearchOrBatchReply::One(Box::new(reply)));
        };
        request.check_batch(&queries, &self.config.request_limits())?;
        let started = context.started;
        let replies = self.search_batch(queries, Arc::new(context)).await;
        Ok(SearchOrBatchReply::Batch(BatchReply { replies, took_ms: ms(started.elapsed()) }))
    }

    /// The reply to each of `queries`, or its error. Each search is a task of its own, because it may compute on the thread that polls
    /// it; the tasks end with this one.
    async fn search_batch(&self, queries: Vec<RawJson>, context: Arc<SearchContext>) -> Vec<BatchItem> {
        let permits = Arc::new(Semaphore::new(BATCH_CONCURRENCY));
        let budget = Arc::new(ReplyBudget::new(self.config.limits.search_reply_bytes_max));
        let mut tasks = JoinSet::new();
        for (index, query) in queries.into_iter().enumerate() {
            let (retrieval, context, permits) = (self.clone(), context.clone(), permits.clone());
            let budget = budget.clone();
            let answer = async move {
                let _permit = permits.acquire().await;
                let started = Instant::now();
                let answer = match weir_api::parse_item(query.text(), "query") {
                    Ok(request) => retrieval.search_one(request, &context, started, budget).await,
                    Err(invalid) => Err(invalid.into()),
                };
                let item = match answer {
                    Ok(reply) => BatchItem::Reply(Box::new(reply)),
                    Err(error) => {
                        let problem =
                            error.in_item("queries", index).into_problem(context.request_id.clone());
                        BatchItem::Problem(Box::new(problem))
                    }
                };
                (index, item)
            };
            tasks.spawn(answer.in_current_span());
        }
        // a panic of a task continues in this one
        let mut items = tasks.join_all().await;
        items.sort_unstable_by_key(|(index, _)| *index);
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Runs one search. `started` is when its own work began; its deadline counts from the arrival of the whole request.
    async fn search_one(
        &self,
        request: SearchRequest,
        context: &SearchContext,
        started: Instant,
        budget: Arc<ReplyBudget>,
    ) -> Result<SearchReply> {
        let mut plan = Arc::new(self.plan(request, &context.caller).await?);
        let planned = started.elapsed();
        let (mut ranked, mut embed_time) = self.rank(&plan, context).await?;
        if ranked.found_nothing()
            && let Some(as_words) = plan.as_words(self)?
        {
            let (found, time) = self.rank(&as_words, context).await?;
            embed_time += time;
            if !found.found_nothing() {
                (plan, ranked) = (Arc::new(as_words), found);
            }
        }
        let timings = Timings { parse: ms(planned), embed: ms(embed_time), ..ranked.timings() };
        self.count_search(&timings, &ranked);
        self.sample_recall(&plan, &ranked);

        let next_cursor = ranked.next_cursor(&plan).map(|cursor| self.cursors.sign(&plan.binding, &cursor));
        let is_long = page::is_long(&plan, &ranked);
        let rendered = plan.clone();
        let render = move || page::render(&rendered, ranked, next_cursor, timings, &budget);
        let mut reply = maybe_spawn_blocking(is_long, render).await??;
        if let Some(query) = plan.request.query.as_ref().filter(|_| plan.request.log != Some(false)) {
            let best = reply.results.iter().filter_map(|result| result.relevance).reduce(f32::max);
            self.query_log.note(plan.view.id(), query, reply.results.len(), best);
        }
        reply.took_ms = ms(started.elapsed());
        Ok(reply)
    }

    /// Embeds the query and ranks; also the time that the embedding took.
    async fn rank(&self, plan: &Plan, context: &SearchContext) -> Result<(Ranked, Duration)> {
        let asked = plan.request.deadline_ms.map(Count::get);
        let time = Duration::from_millis(asked.unwrap_or(self.config.server.request_deadline_ms));
        let embed_until = context.started + time.mul_f64(EMBEDDING_SHARE);
        let rank_until = context.started + time.mul_f64(SECOND_STAGE_SHARE);
        let started = Instant::now();
        let embedded = Embedded::new(self, plan, context.caching, embed_until).await?;
        let embed_time = started.elapsed();
        Ok((Ranked::new(self, plan, embedded, rank_until).await?, embed_time))
    }

    async fn plan(&self, request: SearchRequest, caller: &Arc<Caller>) -> Result<Plan> {
        request.check(&self.config.request_limits())?;
        let mut view = self.searchable_view(caller, request.collection()).await?;
        if let Some(operation) = request.at_least {
            let asked = request.deadline_ms.map(Count::get);
            let time = Duration::from_millis(asked.unwrap_or(self.config.server.request_deadline_ms));
            view.reach(operation.get(), Instant::now() + time.mul_f64(EMBEDDING_SHARE)).await?;
            // meanwhile the next index may have taken the place of the one of before
            view = self.searchable_view(caller, request.collection()).await?;
        }
        let reading = plan::read_query(&request, &view).await?;
        let bytes = request.query.as_ref().map_or(0, String::len)
            + request.filter.as_ref().map_or(0, |filter| filter.text().len());
        let retrieval = self.clone();
        let plan = move || Plan::new(&retrieval, view, request, reading);
        maybe_spawn_blocking(bytes > PLANNED_INLINE_BYTES_MAX, plan).await?
    }

    fn count_search(&self, timings: &Timings, ranked: &Ranked) {
        self.metrics.search(timings);
        self.metrics.search_corrected(ranked.found.corrections.len());
        for reason in &ranked.degraded {
            self.metrics.search_degraded(reason.into());
        }
    }

    /// Repeats one of many dense searches exactly, in the background, unless another is being repeated.
    fn sample_recall(&self, plan: &Plan, ranked: &Ranked) {
        let every = self.config.search.recall_probe_every;
        let is_exact =
            ranked.query.mode == weir_ranking::RetrievalMode::Lexical || plan.view.is_dense_exact();
        if is_exact || !self.recall_sampling.is_due(every) {
            return;
        }
        let (view, query) = (plan.view.clone(), ranked.query.clone());
        let retrieval = self.clone();
        self.collections.in_background(async move {
            match view.recall(query).await {
                Ok(Some(recall)) => retrieval.metrics.recall(recall.found, recall.wanted, recall.selectivity),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "a sampled search could not be repeated exactly"),
            }
            retrieval.recall_sampling.finish();
        });
    }
}

/// Milliseconds, in whole microseconds.
fn ms(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}
