//! `POST /v1/search`.

use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use weir_api::{
    Citation, Code, FusionMethod, Invalid, Metadata, Mode, Ranks, SearchReply, SearchRequest, SearchResult,
    Timings,
};
use weir_index::{Fusion, Hit, IndexError};

use super::Gateway;
use super::body::{self, CallerOf, Json};
use super::error::ApiError;
use crate::collections::OpenCollection;
use crate::config::table::Search;
use crate::inference::{Lane, Terms, Truncation};

/// Searches one collection.
pub(super) async fn search(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    request: Request,
) -> Result<Json<SearchReply>, ApiError> {
    let (caching, until) = (body::caching(request.headers()), body::until(&request));
    let bytes = body::read(request, gateway.config.limits.body_bytes_max, "body_bytes_max").await?;
    let started = Instant::now();
    let request: SearchRequest = weir_api::parse(&bytes)?;
    request.check(&gateway.config.request_limits())?;
    let collection = gateway
        .collections
        .get(&caller, request.collection())
        .ok_or_else(|| ApiError::no_collection(request.collection()))?;
    let mode = mode_for(&request, &collection)?;
    let _room = gateway.room_for_search()?;
    let parsed = started.elapsed();

    let terms = Terms { lane: Lane::Interactive, caching, until };
    let embedding = embed_query(&gateway, &collection, &request, mode, terms).await?;
    let embedded = started.elapsed();

    let mode = match mode {
        Mode::Hybrid => weir_index::Mode::Hybrid,
        Mode::Lexical => weir_index::Mode::Lexical,
        Mode::Dense => weir_index::Mode::Dense,
    };
    let limit = usize::try_from(request.top_k()).unwrap_or(usize::MAX);
    let text = weir_index::query::parse_forgiving(&request.query);
    let query = weir_index::SearchRequest {
        fusion: fusion_for(&request, &gateway.config.search),
        depth: gateway.config.search.depth,
        ..weir_index::SearchRequest::new(mode, Some(text), embedding, limit)
    };
    let found = collection.engine.search(&caller, query).await.map_err(|error| refusal(&error))?;
    let timings = Timings {
        parse: ms(parsed),
        embed: ms(embedded - parsed),
        lexical: ms(found.timings.lexical),
        dense: ms(found.timings.dense),
        fuse: ms(found.timings.fuse),
        fetch: ms(found.timings.fetch),
    };
    let least = request.min_relevance.unwrap_or(0.0);
    let relevant =
        found.hits.into_iter().filter(|hit| hit.relevance.is_none_or(|relevance| relevance >= least));
    let results = relevant.map(result).collect::<Result<Vec<_>, _>>()?;
    gateway.metrics.search(&timings);
    let best = results.iter().filter_map(|result| result.relevance).reduce(f32::max);
    gateway.query_log.note(collection.id, &request.query, results.len(), best);
    Ok(Json(SearchReply { results, took_ms: ms(started.elapsed()), timings_ms: timings }))
}

/// The mode that is searched: a text-only collection has the lexical leg alone, and only an explicit wish for another
/// is refused.
fn mode_for(request: &SearchRequest, collection: &OpenCollection) -> Result<Mode, ApiError> {
    if collection.is_rebuilding() {
        let message = format!("the index of collection `{}` is being rebuilt", collection.name);
        return Err(ApiError::new(Code::CollectionNotReady, message));
    }
    if collection.model().is_some() {
        return Ok(request.mode());
    }
    match request.mode {
        None | Some(Mode::Lexical) => Ok(Mode::Lexical),
        Some(mode) => {
            let message = format!(
                "collection `{}` has no embeddings, so that mode `{}` can't search it; use `lexical`",
                collection.name,
                mode.as_str()
            );
            Err(Invalid::at(Code::InvalidParameter, &["mode"], message).into())
        }
    }
}

async fn embed_query(
    gateway: &Gateway,
    collection: &OpenCollection,
    request: &SearchRequest,
    mode: Mode,
    terms: Terms,
) -> Result<Option<Vec<f32>>, ApiError> {
    let Some(model) = collection.model().filter(|_| mode != Mode::Lexical) else { return Ok(None) };
    let text = format!("{}{}", model.query_prompt, request.query);
    let input = model.input(&text, Truncation::End);
    Ok(gateway.scheduler.embed(model, vec![input], terms).await?.embeddings.pop())
}

/// What the request says, and the settings for the rest.
fn fusion_for(request: &SearchRequest, settings: &Search) -> Fusion {
    let said = request.fusion.unwrap_or_default();
    let (lexical, dense) = said
        .weights
        .map_or((settings.weight_lexical, settings.weight_dense), |weights| (weights.lexical, weights.dense));
    match said.method.unwrap_or(settings.fusion_method) {
        FusionMethod::Rrf => Fusion::ReciprocalRank { k: said.k.unwrap_or(settings.rrf_k), lexical, dense },
        FusionMethod::Convex => Fusion::Convex { lexical, dense },
    }
}

fn result(hit: Hit) -> Result<SearchResult, ApiError> {
    let metadata = Metadata::from_json(hit.metadata).map_err(|error| ApiError::internal(&error))?;
    Ok(SearchResult {
        id: hit.document_id.clone(),
        score: hit.score,
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
    })
}

fn refusal(error: &IndexError) -> ApiError {
    if matches!(error, IndexError::Closed | IndexError::Interrupted) {
        return ApiError::new(Code::Overloaded, "the collection is closing");
    }
    ApiError::internal(error)
}

fn ms(duration: Duration) -> f64 {
    // whole microseconds: more digits would say nothing
    duration.as_micros() as f64 / 1e3
}
