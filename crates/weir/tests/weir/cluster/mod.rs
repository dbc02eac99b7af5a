//! Several gateways over one PostgreSQL, by the real binary.

mod budgets;
mod certificates;
mod copies;
mod encrypted;
mod failover;
pub(crate) mod fleet;
mod kills;
mod older_binary;
mod originals;
mod outages;
pub(crate) mod pace;
mod plans;
mod refused;
mod replies;
mod sharing;
mod store_copy;
mod upgrades;
mod work;

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::llm::postgres::Postgres;
use super::support::client::Client;
use super::support::process::Weir;

/// How long anything may take that needs no work of a model.
const PATIENCE: Duration = Duration::from_secs(60);

/// A PostgreSQL server and gateways over one database of it.
pub(crate) struct Cluster {
    pub(crate) server: Postgres,
    pub(crate) gateways: Vec<Member>,
}

/// A gateway with a data directory of its own.
pub(crate) struct Member {
    pub(crate) weir: Weir,
    pub(crate) client: Client,
    pub(crate) folder: TempDir,
}

impl Cluster {
    /// Starts a server, and gateways one after the other.
    pub(crate) fn start(gateways: usize) -> Cluster {
        Cluster::start_with(gateways, &[])
    }

    pub(crate) fn start_with(gateways: usize, variables: &[(&str, &str)]) -> Cluster {
        let mut cluster = Cluster { server: Postgres::start(), gateways: Vec::new() };
        for _ in 0..gateways {
            cluster.add(variables);
        }
        cluster
    }

    /// Starts one more gateway.
    pub(crate) fn add(&mut self, variables: &[(&str, &str)]) {
        let folder = tempfile::tempdir().unwrap();
        let member = Member::start(&self.server.url(), folder, variables);
        self.gateways.push(member);
    }
}

impl Member {
    pub(crate) fn start(url: &str, folder: TempDir, variables: &[(&str, &str)]) -> Member {
        let weir = start_weir(url, folder.path(), variables);
        let client = Client::new(&weir.url);
        Member { weir, client, folder }
    }

    /// Ingests documents; the reply.
    pub(crate) fn ingest(&self, query: &str, documents: &Value) -> Value {
        let body = json!({ "documents": documents });
        let (status, reply) = self.client.try_post(&format!("/v1/ingest{query}"), &body).unwrap();
        assert_eq!(status, 202, "{reply}");
        reply
    }

    /// The ids of what a search finds.
    pub(crate) fn found(&self, query: &str, mode: &str) -> Vec<String> {
        let body = json!({"query": query, "mode": mode, "top_k": 20});
        let (status, reply) = self.client.try_post("/v1/search", &body).unwrap();
        assert_eq!(status, 200, "{reply}");
        let results = reply["results"].as_array().unwrap().iter();
        results.map(|result| result["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends a signal to its process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.weir.id().cast_signed()).unwrap(), signal).unwrap();
    }

    pub(crate) fn document_count(&self) -> u64 {
        self.client.get("/healthz").1["document_count"].as_u64().unwrap()
    }
}

impl Postgres {
    /// Runs SQL in the database of the gateways.
    pub(crate) fn execute(&self, sql: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = self.url();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
            let driver = tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
            driver.abort();
        });
    }
}

/// Starts a gateway over a database.
pub(crate) fn start_weir(url: &str, folder: &Path, variables: &[(&str, &str)]) -> Weir {
    let own = [("WEIR_STORE_URL", "env:STORE_URL"), ("STORE_URL", url)];
    Weir::start_with(folder, &[&own, variables].concat())
}

/// Waits until something is the case; returns how long that took.
pub(crate) fn wait(what: &str, is_done: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    started.elapsed()
}
