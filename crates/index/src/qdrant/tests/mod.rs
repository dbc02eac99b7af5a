//! The engine over a cluster of three nodes with faults. Each test whose name begins with `row_` holds a rule of the table in the
//! documentation of `weir-qdrant`.

#![allow(clippy::wildcard_enum_match_arm, reason = "tests pick some of the calls that were received")]

mod cache;
mod changes;
mod filters;
mod rows;
mod trouble;

use std::time::Duration;

use weir_policy::Caller;
use weir_qdrant::{Qdrant, QdrantSettings};
use weir_qdrant_mock::Cluster;

use super::{QdrantEngines, QdrantPlacement};
use crate::exact::contract::{beside_embedded, settings};
use crate::{Engine, EngineId, EngineKind, EngineSettings, Engines, IndexError, IndexQuery, Opened};

/// Three nodes, and the engines of a gateway.
struct Gateway {
    cluster: Cluster,
    engines: Engines,
}

impl Gateway {
    fn start() -> Gateway {
        let cluster = Cluster::start(3, None).unwrap();
        let engines = engines_of(&cluster, "service");
        Gateway { cluster, engines }
    }

    async fn opened(&self, settings: EngineSettings) -> Result<Opened, IndexError> {
        let id = EngineId { kind: EngineKind::Qdrant, collection: 1, generation: 1 };
        self.engines.open(id, settings, 1_000).await
    }

    async fn engine(&self) -> Engine {
        self.opened(settings()).await.unwrap().engine
    }

    async fn engine_of(&self, collection: i64) -> Engine {
        let id = EngineId { kind: EngineKind::Qdrant, collection, generation: 1 };
        self.engines.open(id, settings(), 1_000).await.unwrap().engine
    }
}

fn engines_of(cluster: &Cluster, service: &str) -> Engines {
    engines_with(cluster, service, Duration::from_millis(500), 1 << 20)
}

fn engines_with(cluster: &Cluster, service: &str, read_timeout: Duration, cache_bytes_max: usize) -> Engines {
    let mut settings = QdrantSettings::new(cluster.urls());
    settings.read_timeout = read_timeout;
    settings.write_timeout = Duration::from_secs(2);
    let placement = QdrantPlacement {
        prefix: "weir".to_owned(),
        service: service.to_owned(),
        shards: 12,
        copies: 3,
        copies_written: 2,
    };
    beside_embedded(QdrantEngines::new(Qdrant::new(&settings).unwrap(), placement, cache_bytes_max))
}

async fn scores(engine: &Engine, query: IndexQuery) -> Vec<(String, f32)> {
    let result = engine.search(&Caller::system(), query).await.unwrap();
    result.hits.into_iter().map(|hit| (hit.document_id, hit.score)).collect()
}
