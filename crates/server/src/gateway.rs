//! Shared state of handlers.

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

use super::credential::api_key;
use super::unknown_routes::UnknownRoutes;

/// Finds the caller by the credential of a request; `None` refuses it.
pub type Authenticate = Arc<dyn Fn(Option<&str>) -> Option<Arc<Caller>> + Send + Sync>;

/// Shared state of handlers. Cloning gives another handle to the same gateway.
#[derive(Clone)]
pub struct Gateway(Arc<Parts>);

/// The services of a gateway.
pub struct Services {
    /// The settings.
    pub config: Arc<Config>,
    /// The application core.
    pub retrieval: Retrieval,
    /// The models of this process.
    pub models: Models,
    /// The scheduler that computes with them.
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
    pub(crate) ingest_kib: Arc<Semaphore>,
    /// Memory for the bodies of requests for language models.
    pub(crate) chat_memory: MemoryBudget,
    pub(crate) unknown_routes: UnknownRoutes,
    /// Whether the gateway is about to stop.
    is_draining: AtomicBool,
    /// The OpenAPI description, made when it is first asked for.
    pub(crate) openapi: OnceLock<Bytes>,
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
    pub(crate) fn start_drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Whether requests are to be sent elsewhere.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// The caller of a request with these headers; `None` refuses it.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Option<Arc<Caller>> {
        (self.authenticate)(api_key(headers))
    }
}

/// A number of bytes in KiB, rounded up.
pub(crate) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}
