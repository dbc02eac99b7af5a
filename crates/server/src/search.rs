//! `POST /v1/search`.

use axum::extract::Request;
use tokio::time::Instant;
use weir_api::SearchOrBatchReply;
use weir_retrieval::SearchContext;

use super::body::{self, CallContext, Json, Reply};
use super::context::{self, PermitOf};

/// Searches one collection, or answers several searches.
pub(super) async fn search(
    call: CallContext,
    PermitOf(permit): PermitOf,
    request: Request,
) -> Reply<SearchOrBatchReply> {
    let caching = body::caching(request.headers());
    let request_id = context::of(request.extensions()).map(|context| context.id.to_string());
    let bytes = body::read(&call, request).await?;
    let started = Instant::now();
    let request = weir_api::parse(&bytes)?;
    drop(bytes);
    let context = SearchContext { caller: call.caller.clone(), caching, started, request_id };
    Ok(Json(call.retrieval.search(&permit, request, context).await?))
}
