//! Collections in a Qdrant cluster: the real binary, and three nodes that each test starts.

mod commands;
mod creation;
mod gateways;
mod kills;
mod move_load;
mod moves;
mod reconcile;
mod searches;
mod start;
mod trouble;

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_qdrant_mock::{Cluster, Recorded};

use crate::support::client::{Client, Reply};
use crate::support::gateway::Gateway;

/// A gateway beside three nodes, with the collection `far` in them.
struct Setup {
    cluster: Cluster,
    gateway: Gateway,
    folder: TempDir,
}

/// Settings of a gateway that uses the nodes of a cluster.
fn variables(cluster: &Cluster) -> Vec<(&'static str, String)> {
    vec![
        ("WEIR_QDRANT_URLS", cluster.urls().join(", ")),
        ("WEIR_QDRANT_READ_TIMEOUT_MS", "500".to_owned()),
        ("WEIR_QDRANT_WRITE_TIMEOUT_MS", "1000".to_owned()),
    ]
}

fn start_in(folder: &Path, cluster: &Cluster) -> Gateway {
    let variables = variables(cluster);
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Gateway::start_in(folder, &variables)
}

impl Setup {
    fn start() -> Setup {
        let (cluster, folder) = (Cluster::start(3, None).unwrap(), tempfile::tempdir().unwrap());
        let gateway = start_in(folder.path(), &cluster);
        let setup = Setup { cluster, gateway, folder };
        create(&setup.gateway, "far", &json!({"engine": "qdrant"}));
        setup
    }

    /// Stops the gateway and starts it over the same data directory.
    fn restart(self) -> Setup {
        self.gateway.weir.terminate();
        let gateway = start_in(self.folder.path(), &self.cluster);
        Setup { gateway, ..self }
    }

    fn kill_nodes(&self) {
        self.cluster.nodes.iter().for_each(|node| node.kill());
    }

    fn restart_nodes(&self) {
        self.cluster.nodes.iter().for_each(|node| node.restart().unwrap());
    }

    /// The points of documents, of all collections.
    fn points(&self) -> usize {
        let state = self.cluster.state();
        let points = state.collections.values().flat_map(|collection| collection.points.values());
        points.filter(|point| point.payload.contains_key("d")).count()
    }
}

fn put(client: &Client, name: &str, settings: &Value) -> Reply {
    client.send("PUT", &format!("/v1/collections/{name}"), Some(settings.to_string().as_bytes()))
}

fn create(client: &Client, name: &str, settings: &Value) {
    let reply = put(client, name, settings);
    assert_eq!(reply.status, 201, "{}", reply.text);
}

/// Ingests documents; the job, which is completed.
fn ingest(client: &Client, collection: &str, documents: &Value) -> Value {
    let body = json!({"collection": collection, "documents": documents});
    let (status, job) = client.try_post("/v1/ingest?wait=true", &body).unwrap();
    assert_eq!((status, &job["status"]), (202, &json!("completed")), "{job}");
    job
}

/// The reply to a search of a collection.
fn search(client: &Client, collection: &str, search: &Value) -> (u16, Value) {
    let mut body = search.clone();
    body["collection"] = json!(collection);
    client.try_post("/v1/search", &body).unwrap()
}

/// The ids that a search finds, in their order.
fn found(client: &Client, collection: &str, body: &Value) -> Vec<String> {
    let (status, reply) = search(client, collection, body);
    assert_eq!(status, 200, "{reply}");
    ids(&reply)
}

fn ids(reply: &Value) -> Vec<String> {
    let results = reply["results"].as_array().unwrap().iter();
    results.map(|result| result["id"].as_str().unwrap().to_owned()).collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

fn shown(client: &Client, collection: &str) -> Value {
    client.get(&format!("/v1/collections/{collection}")).1
}

/// How often each document's points were sent: its id, and the number of upserts that have it.
fn upserts(recorded: &[Recorded], document: &str) -> usize {
    let of_document = |one: &&Recorded| match one {
        Recorded::Upsert(upsert) => {
            upsert.points.iter().any(|point| point.payload.get("d").is_some_and(|id| *id == document.into()))
        }
        Recorded::Delete(_)
        | Recorded::Get(_)
        | Recorded::Scroll(_)
        | Recorded::Count(_)
        | Recorded::QueryBatch(_)
        | Recorded::Other(_) => false,
    };
    recorded.iter().filter(of_document).count()
}
