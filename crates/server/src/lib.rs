//! HTTP: the routes, the layers around them, and what they share.

mod body;
mod collections;
mod cursor;
mod dialect;
mod documents;
mod door;
mod embeddings;
mod error;
mod feedback;
mod health;
mod ingest;
mod jobs;
mod layers;
mod models;
mod openapi;
mod rerank;
mod search;
mod tei;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Router, http};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;
use weir_api::ErrorCode;
use weir_store::Store;

pub use door::{Door, HEAD_TIMEOUT};
use error::ApiError;
pub use error::chain;
pub use openapi::{ROUTES, Route, document as openapi_document};
use weir_config::Config;
use weir_inference::{Models, Scheduler};
use weir_retrieval::collections::Collections;
use weir_retrieval::query_log::QueryLog;
use weir_telemetry::metrics::Metrics;

/// What handlers work with. Cloning gives another handle to the same gateway.
#[derive(Clone)]
pub struct Gateway(Arc<Parts>);

/// The parts of a gateway.
pub struct Parts {
    /// The settings in force.
    pub config: Config,
    /// The truth.
    pub store: Store,
    /// The models.
    pub models: Models,
    /// Who embeds.
    pub scheduler: Scheduler,
    /// The open collections.
    pub collections: Collections,
    /// The counters.
    pub metrics: Metrics,
    cursors: cursor::Seal,
    /// What was searched.
    pub query_log: QueryLog,
    searches: Arc<Semaphore>,
    ingest_kib: Arc<Semaphore>,
    probes: search::Probes,
}

impl std::ops::Deref for Gateway {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Gateway {
    /// Puts the parts together.
    pub fn new(
        config: Config,
        store: Store,
        models: Models,
        scheduler: Scheduler,
        collections: Collections,
        metrics: Metrics,
        query_log: QueryLog,
    ) -> Gateway {
        let searches = Arc::new(Semaphore::new(config.limits.search_concurrency_max));
        // bodies of ingest requests that are read or stored at one instant: as much as two of the largest
        let ingest_kib = Arc::new(Semaphore::new(kib(2 * config.limits.ingest_body_bytes_max) as usize));
        let cursors = cursor::Seal::of_folder(&config.server.data_dir);
        Gateway(Arc::new(Parts {
            config,
            store,
            models,
            scheduler,
            collections,
            metrics,
            cursors,
            query_log,
            searches,
            ingest_kib,
            probes: search::Probes::default(),
        }))
    }

    fn deadline(&self) -> Duration {
        Duration::from_millis(self.config.server.request_deadline_ms)
    }

    /// A place among the searches of this instant.
    fn room_for_search(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.searches.clone().try_acquire_owned().map_err(|_| {
            let limit = self.config.limits.search_concurrency_max;
            let message = format!("{limit} searches run; that is the limit `limits.search_concurrency_max`");
            ApiError::new(ErrorCode::Overloaded, message)
        })
    }

    /// Whether a search that comes now has its turn in time.
    fn check_turns(&self) -> Result<(), ApiError> {
        let (wait, limit) = (self.collections.search_limiter().wait(), self.config.limits.search_wait_ms_max);
        if wait <= Duration::from_millis(limit) {
            return Ok(());
        }
        let message = format!(
            "a search would wait {} ms for a core; the limit `limits.search_wait_ms_max` is {limit}",
            wait.as_micros().div_ceil(1000)
        );
        self.scheduler.coalescing().refused();
        Err(ApiError::overloaded(message, wait))
    }

    /// Memory for the body of an ingest request; a caller who doesn't announce its length gets room for the longest.
    fn room_for_ingest(&self, announced: Option<u64>) -> Result<OwnedSemaphorePermit, ApiError> {
        let most = self.config.limits.ingest_body_bytes_max;
        let bytes = announced.map_or(most, |bytes| usize::try_from(bytes).unwrap_or(most).min(most));
        self.ingest_kib.clone().try_acquire_many_owned(kib(bytes)).map_err(|_| {
            ApiError::new(
                ErrorCode::Overloaded,
                "the bodies of other ingest requests take all memory for them",
            )
        })
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Runs `work` to its end even when the caller leaves half-way: what is in the store must reach the index.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(work.in_current_span()).await {
        Ok(result) => result,
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// Every route.
///
/// A request that the [`Door`] lets in passes, from the outside in: what is [around](layers::around)
/// every handler; then its handler, which reads the body up to the route's limit, checks it, and takes a place among the searches or the ingest bodies of the moment. Health, metrics and documentation pass the same
/// way and touch neither model nor disk.
pub fn router(gateway: Gateway) -> Router {
    Router::new()
        .route("/v1/ingest", post(ingest::ingest))
        .route("/v1/search", post(search::search))
        .route("/v1/feedback", get(feedback::list).post(feedback::post))
        .route("/v1/embeddings", post(embeddings::openai))
        .route("/embeddings", post(embeddings::openai))
        .route("/embed", post(tei::embed))
        .route("/info", get(tei::info))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        .route("/v1/models/{*id}", get(models::get))
        .route("/models/{*id}", get(models::get))
        .route("/v1/jobs", get(jobs::list))
        .route("/v1/jobs/{id}", get(jobs::get))
        .route("/v1/collections", get(collections::list))
        .route(
            "/v1/collections/{name}",
            get(collections::get).put(collections::put).delete(collections::delete),
        )
        .route("/v1/collections/{name}/documents", get(documents::list))
        .route(
            "/v1/collections/{name}/documents/delete",
            post(documents::delete).get(documents::get_delete).delete(documents::delete_delete),
        )
        .route("/v1/collections/{name}/queries", get(feedback::queries))
        .route(
            "/v1/collections/{name}/documents/{id}",
            get(collections::get_document).delete(collections::delete_document),
        )
        .route("/health", get(tei::health))
        .route("/healthz", get(health::healthz))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::json))
        .route("/docs", get(openapi::page))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(gateway.clone(), layers::around))
        .with_state(gateway)
}

async fn no_route(uri: http::Uri) -> ApiError {
    ApiError::new(ErrorCode::RouteNotFound, format!("there is no route `{}`", uri.path().escape_debug()))
}

async fn no_method(method: http::Method, uri: http::Uri) -> ApiError {
    let message = format!("`{}` does not take {method}", uri.path().escape_debug());
    ApiError::new(ErrorCode::MethodNotAllowed, message)
}
