//! A gateway without a socket: requests go to its router, and its callers are named by `x-api-key`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tempfile::TempDir;
use weir_access::Keys;
use weir_config::{Config, Environment, Flags, load};
use weir_encoder::Kernels;
use weir_index::{CpuLimiter, Engines, QdrantEngines, QdrantPlacement};
use weir_inference::{MemoryBudget, Models, Scheduler};
use weir_llm::Llm;
use weir_policy::Caller;
use weir_qdrant::{Qdrant, QdrantSettings};
use weir_retrieval::{Collections, QueryLog, Retrieval};
use weir_server::{Gateway, Router, Services};
use weir_store::Store;
use weir_telemetry::Metrics;
use weir_telemetry::requests::{KnownKeys, RequestLog};

/// The caller that may do everything.
pub(crate) const OPERATOR: &str = "operator";

/// The caller at whose key the gateway panics.
pub(crate) const BROKEN: &str = "broken";

pub(crate) struct InProcess {
    pub(crate) retrieval: Retrieval,
    pub(crate) scheduler: Scheduler,
    router: Router,
    collections: Collections,
    folder: TempDir,
}

/// A reply, read to its end.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl InProcess {
    /// A gateway with these settings and two models of pseudo-embeddings, `allowed` and `forbidden`.
    pub(crate) async fn start(
        settings: &[(&str, &str)],
        callers: BTreeMap<&'static str, Caller>,
    ) -> InProcess {
        InProcess::start_with_models(&["allowed", "forbidden"], settings, callers).await
    }

    /// A gateway with these settings and models of pseudo-embeddings.
    pub(crate) async fn start_with_models(
        models: &[&str],
        settings: &[(&str, &str)],
        callers: BTreeMap<&'static str, Caller>,
    ) -> InProcess {
        InProcess::start_in(tempfile::tempdir().unwrap(), models, settings, callers).await
    }

    /// Stops it, and starts another gateway over a copy of its store.
    pub(crate) async fn restart(self, settings: &[(&str, &str)]) -> InProcess {
        self.collections.close().await;
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (self.folder.path().join("data"), folder.path().join("data"));
        std::fs::create_dir(&new).unwrap();
        for file in std::fs::read_dir(old).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), new.join(file.file_name())).unwrap();
            }
        }
        InProcess::start_in(folder, &["allowed", "forbidden"], settings, BTreeMap::new()).await
    }

    async fn start_in(
        folder: TempDir,
        models: &[&str],
        settings: &[(&str, &str)],
        callers: BTreeMap<&'static str, Caller>,
    ) -> InProcess {
        let file = folder.path().join("weir.toml");
        let model = |id: &&str| format!("[[models]]\nid = \"{id}\"\nkind = \"pseudo\"\n");
        std::fs::write(&file, models.iter().map(model).collect::<String>()).unwrap();
        let flags = Flags {
            config: Some(file),
            data_dir: Some(folder.path().join("data").display().to_string()),
            ..Flags::default()
        };
        let config: Arc<Config> = Arc::new(load(&flags, &Environment::of(settings)).unwrap().config);
        let metrics = Metrics::new("test");
        let models = Models::load(&config, Kernels::current(), &metrics).unwrap();
        let memory = MemoryBudget::new(&config.inference, &models).unwrap();
        let scheduler = Scheduler::start(&config.inference, &models, memory, metrics.clone()).unwrap();
        let store = Store::open_sqlite(&config.server.data_dir).unwrap();
        let keys = Keys::load(store.clone(), 0.0).await.unwrap();
        let background = tokio::runtime::Handle::current();
        let collections = Collections::open(
            store.clone(),
            models.clone(),
            scheduler.clone(),
            engines(&config),
            config.clone(),
            metrics.clone(),
            background.clone(),
        );
        let collections = collections.await.unwrap();
        let query_log = QueryLog::start(&config.search, store.clone(), metrics.clone(), &background);
        let requests = RequestLog::start(&config, metrics.clone(), KnownKeys::default()).unwrap();
        let retrieval = Retrieval::new(collections.clone(), query_log);
        let mut known: BTreeMap<&str, Arc<Caller>> =
            callers.into_iter().map(|(name, caller)| (name, Arc::new(caller))).collect();
        known.insert(OPERATOR, Arc::new(Caller::system()));
        let authenticate = move |credential: Option<&str>| {
            let name = credential?;
            assert_ne!(name, BROKEN, "the key of a test");
            known.get(name).cloned()
        };
        let llm = Llm::new(&config.llm, metrics.clone()).unwrap();
        let gateway = Gateway::new(Services {
            config,
            retrieval: retrieval.clone(),
            models,
            scheduler: scheduler.clone(),
            metrics,
            requests,
            authenticate: Arc::new(authenticate),
            keys,
            llm,
        });
        InProcess { retrieval, scheduler, router: Router::new(gateway), collections, folder }
    }

    /// Sends a request as `caller`; an empty body is none.
    pub(crate) async fn send(&self, caller: &str, method: &str, uri: &str, body: &str) -> Reply {
        let request = Request::builder()
            .method(method.to_uppercase().as_str())
            .uri(uri)
            .header("x-api-key", caller)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("content-length", body.len())
            .body(Body::from(body.to_owned()))
            .unwrap();
        self.answer(request).await
    }

    /// The reply to any request.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Reply {
        let (head, body) = self.router.answer(request).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Reply { status: head.status, headers: head.headers, text }
    }

    /// Sends a request as the operator, which must succeed.
    pub(crate) async fn ask(&self, method: &str, uri: &str, body: &str) -> Value {
        let reply = self.send(OPERATOR, method, uri, body).await;
        assert!(reply.status.is_success(), "{method} {uri} {body}: {} {}", reply.status, reply.text);
        reply.json()
    }
}

/// The embedded engines, and those of the nodes that the settings name.
fn engines(config: &Config) -> Engines {
    let embedded = Engines::embedded(
        config.server.data_dir.join("index"),
        CpuLimiter::start(2, || ()).unwrap(),
        config.index.open_max,
    );
    let urls: Vec<String> = config.qdrant.nodes().map(str::to_owned).collect();
    if urls.is_empty() {
        return embedded;
    }
    let placement = QdrantPlacement {
        prefix: "weir".to_owned(),
        service: "service".to_owned(),
        shards: 1,
        copies: 1,
        copies_written: 1,
    };
    let client = Qdrant::new(&QdrantSettings::new(urls)).unwrap();
    embedded.with_qdrant(QdrantEngines::new(client, placement, 1 << 20))
}
