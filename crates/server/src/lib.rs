//! HTTP: the table of routes, the middleware, bodies, dialects and the OpenAPI file.

#![forbid(unsafe_code)]

mod access;
mod admission;
mod arrow;
mod body;
mod chat;
mod chunks;
mod cohere;
mod collections;
mod conditions;
mod context;
mod cors;
mod dialect;
mod documents;
mod dtype;
mod embeddings;
mod encoding;
mod error;
mod export;
mod feedback;
mod formats;
mod health;
mod idempotency;
mod ingest;
mod ingest_lines;
mod jobs;
mod layers;
mod listener;
mod models;
mod ollama;
mod openapi;
mod originals;
mod pages;
mod rate_limits;
mod rerank;
mod router;
mod routes;
mod search;
mod spool;
mod tei;
mod tls;
mod tokens;
mod unknown_routes;
mod upload;
mod usage;
mod vectors;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::http::HeaderMap;
use tokio::sync::Semaphore;
use weir_access::Keys;
use weir_config::Config;
use weir_inference::{MemoryBudget, Models, Scheduler};
use weir_llm::Llm;
use weir_policy::Caller;
use weir_retrieval::Retrieval;
use weir_telemetry::Metrics;
use weir_telemetry::requests::RequestLog;

use access::api_key;
pub use dialect::Dialect;
use error::Result;
pub use listener::{Signals, serve};
pub use router::Router;
pub use routes::{Access, AdmissionClass, BodyLimit, Example, GROUPS, Group, ROUTES, Route};
pub use tls::{Tls, TlsError};
use unknown_routes::UnknownRoutes;

/// Finds the caller by the credential of a request; `None` refuses it.
pub type Authenticate = Arc<dyn Fn(Option<&str>) -> Option<Arc<Caller>> + Send + Sync>;

/// What handlers work with. Cloning gives another handle to the same gateway.
#[derive(Clone)]
pub struct Gateway(Arc<Parts>);

/// What a gateway is made of.
pub struct Services {
    /// The settings.
    pub config: Arc<Config>,
    /// The application core.
    pub retrieval: Retrieval,
    /// The models of this process.
    pub models: Models,
    /// What computes with them.
    pub scheduler: Scheduler,
    /// The metrics.
    pub metrics: Metrics,
    /// The log of requests.
    pub requests: RequestLog,
    /// Finds callers.
    pub authenticate: Authenticate,
    /// The API keys.
    pub keys: Keys,
    /// Chat and the models of other servers.
    pub llm: Llm,
}

/// The parts of a gateway.
pub struct Parts {
    services: Services,
    ingest_kib: Arc<Semaphore>,
    /// Memory for the bodies of requests for language models.
    chat_memory: MemoryBudget,
    unknown_routes: UnknownRoutes,
    /// Whether the gateway is about to stop.
    is_draining: AtomicBool,
    /// The OpenAPI description, made when it is first asked for.
    openapi: OnceLock<Bytes>,
}

impl Deref for Parts {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}

impl Deref for Gateway {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Gateway {
    /// A gateway of these services.
    pub fn new(services: Services) -> Gateway {
        let limits = &services.config.limits;
        // bodies of ingest requests that are read or stored at one instant: as much as two of the largest
        let ingest_kib = Arc::new(Semaphore::new(kib(2 * limits.ingest_body_bytes_max) as usize));
        let chat_memory = MemoryBudget::with_limit(limits.chat_memory_bytes_max);
        let (unknown_routes, openapi) = (UnknownRoutes::default(), OnceLock::new());
        let is_draining = AtomicBool::new(false);
        Gateway(Arc::new(Parts { services, ingest_kib, chat_memory, unknown_routes, is_draining, openapi }))
    }

    /// Tells load balancers and clients to send their requests elsewhere.
    fn start_drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Whether requests are to be sent elsewhere.
    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// The caller of a request with these headers; `None` refuses it.
    fn caller(&self, headers: &HeaderMap) -> Option<Arc<Caller>> {
        (self.authenticate)(api_key(headers))
    }

    /// The limit of a route's body in bytes, and its setting.
    fn body_limit(&self, route: &Route) -> (usize, &'static str) {
        let limits = &self.config.limits;
        match route.body {
            BodyLimit::Ingest => (limits.ingest_body_bytes_max, "limits.ingest_body_bytes_max"),
            BodyLimit::Default | BodyLimit::None => (limits.body_bytes_max, body::BODY_SETTING),
        }
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
