//! `POST /v1/search`.
//!
//! A request is read and checked as a whole ([`plan`]), takes its place among the searches of the moment, is embedded
//! ([`embed`]), asked of the index, the first of its hits are scored once more ([`rescore`]), and written as results ([`reply`]). `queries` are as many requests.

mod degraded;
mod embed;
mod plan;
mod probes;
mod refusal;
mod reply;
mod rescore;
mod rescoring;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument as _;
use weir_api::{
    BatchItem, BatchReply, Count, DegradedReason, ErrorCode, Mode, RawJson, SearchOrBatchReply, SearchReply,
    SearchRequest, Timings,
};
use weir_policy::Caller;

pub(super) use plan::{needs_embedding, read_filter, sort_keys};
pub(super) use probes::Probes;
pub(super) use refusal::{refusal, unknown_in_filter};

use super::Gateway;
use super::body::{self, CallerOf, Json};
use super::cursor::Cursor;
use super::embeddings::in_time;
use super::error::ApiError;
use super::layers::RequestId;
use plan::Plan;
use weir_inference::Caching;

/// Searches of one batch that run at one instant.
const BATCH_CONCURRENCY: usize = 8;

/// The embedding gets this share of the time that a search may take; the rest is for ranking by what is there.
const EMBEDDING_SHARE: f64 = 0.75;

/// So much of that time may have passed when scoring the first results once more ends; the rest is for writing the reply.
const RESCORING_SHARE: f64 = 0.95;

/// Filters and queries of more bytes than this are read on a thread of their own.
const BYTES_AT_ONCE_MAX: usize = 8 << 10;

/// Searches one collection, or answers several searches.
pub(super) async fn search(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    request: Request,
) -> Result<Json<SearchOrBatchReply>, ApiError> {
    gateway.check_turns()?;
    let caching = body::caching(request.headers());
    let id = request.extensions().get::<RequestId>().map(|id| id.0.to_string());
    let bytes = body::read(request, gateway.config.limits.body_bytes_max, "body_bytes_max").await?;
    let started = Instant::now();
    let mut request: SearchRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    let call = Call { gateway, caller, caching, started };
    let Some(queries) = request.queries.take() else {
        return Ok(Json(SearchOrBatchReply::One(Box::new(call.one(request, started).await?))));
    };
    request.check_batch(&queries, &call.gateway.config.request_limits())?;
    let replies = all(Arc::new(call), queries, id).await;
    Ok(Json(SearchOrBatchReply::Batch(BatchReply { replies, took_ms: ms(started.elapsed()) })))
}

/// The reply to each of `queries`, or why there is none. Each is a task of its own, because one that computes holds up its task; they end
/// with this one.
async fn all(call: Arc<Call>, queries: Vec<RawJson>, id: Option<String>) -> Vec<BatchItem> {
    let places = Arc::new(Semaphore::new(BATCH_CONCURRENCY));
    let mut tasks = JoinSet::new();
    for (index, query) in queries.into_iter().enumerate() {
        let (call, id, places) = (call.clone(), id.clone(), places.clone());
        let answer = async move {
            let _place = places.acquire().await;
            let started = Instant::now();
            let answer = match weir_api::parse_item(query.text(), "query") {
                Ok(request) => call.one(request, started).await,
                Err(invalid) => Err(invalid.into()),
            };
            let item = match answer {
                Ok(reply) => BatchItem::Reply(Box::new(reply)),
                Err(error) => BatchItem::Problem(Box::new(error.in_item("queries", index).into_problem(id))),
            };
            (index, item)
        };
        tasks.spawn(answer.in_current_span());
    }
    // a panic goes on in this task, whose caller hears of it
    let mut items = tasks.join_all().await;
    items.sort_unstable_by_key(|(index, _)| *index);
    items.into_iter().map(|(_, item)| item).collect()
}

/// One HTTP request, which may hold several searches.
struct Call {
    gateway: Gateway,
    caller: Arc<Caller>,
    caching: Caching,
    started: Instant,
}

impl Call {
    /// Runs one search.
    async fn one(&self, request: SearchRequest, started: Instant) -> Result<SearchReply, ApiError> {
        let gateway = &self.gateway;
        let mut plan = self.plan(request).await?;
        let _room = gateway.room_for_search()?;
        let parsed = started.elapsed();

        let asked = plan.request.deadline_ms.map(Count::get);
        let time = asked.map_or(gateway.deadline(), Duration::from_millis);
        let deadline = self.started + time.mul_f64(EMBEDDING_SHARE);
        let embedding = embed::embed(gateway, &mut plan, self.caching, deadline).await?;
        let embedded = started.elapsed();

        plan.search.mode = match embedding.mode {
            Some(Mode::Hybrid) => weir_index::RetrievalMode::Hybrid,
            Some(Mode::Dense) => weir_index::RetrievalMode::Dense,
            Some(Mode::Lexical) | None => weir_index::RetrievalMode::Lexical,
        };
        plan.search.embedding = embedding.vector;
        let found = plan.collection.engine.search(&self.caller, plan.search.clone()).await;
        let mut found = found.map_err(|error| refusal(error, &plan.request))?;
        let hits = std::mem::take(&mut found.hits);
        let page = rescore::page(gateway, &plan, hits, self.started + time.mul_f64(RESCORING_SHARE)).await?;

        let timings = Timings {
            late_interaction: ms(page.likeness_time),
            rerank: ms(page.rerank_time),
            ..timings(parsed, embedded - parsed, &found.timings)
        };
        let degraded: Vec<DegradedReason> =
            embedding.degraded.into_iter().chain(page.degraded.iter().copied()).collect();
        self.count(&timings, &found, &degraded);
        self.probe(&plan);
        let how = reply::How {
            mode: embedding.mode,
            source: embedding.source,
            next_cursor: next_page(&plan, &found, &page, &degraded)
                .map(|cursor| gateway.cursors.close(&plan.binding, &cursor)),
            degraded,
            timings,
        };
        let is_long = plan.request.highlight == Some(true) && page.results.len() > reply::MARKED_AT_ONCE_MAX;
        let (collection, query) = (plan.collection.id, plan.request.query.clone());
        let mut reply = in_time(is_long, move || reply::render(&plan, found, page, how)).await??;
        if let Some(query) = query {
            let best = reply.results.iter().filter_map(|result| result.relevance).reduce(f32::max);
            gateway.query_log.note(collection, &query, reply.results.len(), best);
        }
        reply.took_ms = ms(started.elapsed());
        Ok(reply)
    }

    /// Repeats one of many searches by embeddings exactly, when no other is being repeated.
    fn probe(&self, plan: &Plan) {
        let gateway = &self.gateway;
        let every = gateway.config.search.recall_probe_every;
        let has_exact_dense = plan.collection.engine.capabilities().exact_dense;
        let is_lexical = plan.search.mode == weir_index::RetrievalMode::Lexical;
        if is_lexical || has_exact_dense || !gateway.probes.is_due(every) {
            return;
        }
        let (engine, caller, search) =
            (plan.collection.engine.clone(), self.caller.clone(), plan.search.clone());
        let gateway = gateway.clone();
        self.gateway.collections.in_background(async move {
            match engine.recall(&caller, search).await {
                Ok(Some(recall)) => gateway.metrics.recall(recall.found, recall.wanted, recall.selectivity),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "a search could not be repeated exactly"),
            }
            gateway.probes.ends();
        });
    }

    fn count(&self, timings: &Timings, found: &weir_index::IndexResult, degraded: &[DegradedReason]) {
        let metrics = &self.gateway.metrics;
        metrics.search(timings);
        metrics.search_corrected(found.corrections.len());
        for reason in degraded {
            metrics.search_degraded(reason.as_str());
        }
    }

    async fn plan(&self, request: SearchRequest) -> Result<Plan, ApiError> {
        request.check(&self.gateway.config.request_limits())?;
        let collection = self
            .gateway
            .collections
            .get(&self.caller, request.collection())
            .ok_or_else(|| ApiError::no_collection(request.collection()))?;
        if collection.is_rebuilding() {
            let message = format!("the index of collection `{}` is being rebuilt", collection.name);
            return Err(ApiError::new(ErrorCode::CollectionNotReady, message));
        }
        let bytes = request.query.as_ref().map_or(0, String::len)
            + request.filter.as_ref().map_or(0, |filter| filter.text().len());
        let gateway = self.gateway.clone();
        in_time(bytes > BYTES_AT_ONCE_MAX, move || Plan::new(&gateway, collection, request)).await?
    }
}

/// The cursor to the page after this one, if there is one.
fn next_page(
    plan: &Plan,
    found: &weir_index::IndexResult,
    page: &rescore::Page,
    degraded: &[DegradedReason],
) -> Option<Cursor> {
    let search = &plan.search;
    let end = plan.offset.saturating_add(plan.limit) as u64;
    let is_more = match found.total {
        // a lexical ranking that is not counted may go on behind what was looked at
        weir_index::MatchCount::Window(total) if search.mode == weir_index::RetrievalMode::Lexical => {
            end <= total
        }
        weir_index::MatchCount::Window(total) | weir_index::MatchCount::Exact(total) => end < total,
    };
    is_more.then(|| Cursor {
        reached: found.applied_seq,
        offset: end,
        degraded: degraded.to_vec(),
        order: page.order.clone(),
    })
}

fn timings(parse: Duration, embed: Duration, index: &weir_index::StageTimings) -> Timings {
    Timings {
        parse: ms(parse),
        embed: ms(embed),
        select: ms(index.select),
        lexical: ms(index.lexical),
        dense: ms(index.dense),
        fuse: ms(index.fuse),
        fetch: ms(index.fetch),
        ..Timings::default()
    }
}

fn ms(duration: Duration) -> f64 {
    // whole microseconds: more digits would say nothing
    duration.as_micros() as f64 / 1e3
}
