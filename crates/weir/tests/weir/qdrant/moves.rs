//! Collections that are moved into the cluster and back: searches go on, and every reply is of one index.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use weir_qdrant_mock::{Calls, Cluster, Fault, Rule};

use super::{Setup, create, found, ids, ingest, put, search, shown, variables};
use crate::cluster::fleet::End;
use crate::support::client::{Client, Reply};
use crate::support::gateway::Gateway;

/// Documents of the collection that is moved, each of one chunk.
const DOCUMENTS: usize = 120;

/// A gateway beside three nodes, which applies a few documents at a time, so that a move takes some time.
fn start(batch: &str) -> Setup {
    let (cluster, folder) = (Cluster::start(3, None).unwrap(), tempfile::tempdir().unwrap());
    let gateway = start_in(folder.path(), &cluster, batch);
    Setup { cluster, gateway, folder }
}

fn start_in(folder: &Path, cluster: &Cluster, batch: &str) -> Gateway {
    let mut variables = variables(cluster);
    variables.push(("WEIR_INGEST_BATCH_DOCUMENTS_MAX", batch.to_owned()));
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Gateway::start_in(folder, &variables)
}

/// Ends the gateway by a signal that it can't catch, and starts it over the same folder.
fn kill_and_restart(setup: Setup, batch: &str) -> Setup {
    let Setup { cluster, gateway, folder } = setup;
    gateway.weir.kill();
    let gateway = start_in(folder.path(), &cluster, batch);
    Setup { cluster, gateway, folder }
}

/// Texts of several lengths: the engines weigh lengths differently.
pub(super) fn documents(from: usize, to: usize) -> Value {
    let text = |number: usize| format!("note {number} of the weir {}", "and the river ".repeat(number % 7));
    (from..to).map(|number| json!({"id": format!("d{number}"), "text": text(number)})).collect()
}

/// Settings by which each document is one chunk.
fn whole(engine: &str) -> Value {
    json!({"engine": engine, "chunking": {"policy": "none"}})
}

/// Asks for another engine.
pub(super) fn move_to(client: &Client, name: &str, engine: &str) -> Reply {
    let body = json!({"engine": engine}).to_string();
    client.send("PUT", &format!("/v1/collections/{name}?move=true"), Some(body.as_bytes()))
}

pub(super) fn start_move(client: &Client, name: &str, engine: &str) {
    let reply = move_to(client, name, engine);
    assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("rebuilding")), "{}", reply.text);
}

fn is_ready(client: &Client, name: &str) -> bool {
    shown(client, name)["status"] == "ready"
}

pub(super) fn notes(top_k: usize) -> Value {
    json!({"query": "note river", "mode": "lexical", "top_k": top_k})
}

/// The first hits with their scores.
pub(super) fn ranking(client: &Client, name: &str) -> Vec<String> {
    let (status, reply) = search(client, name, &notes(10));
    assert_eq!(status, 200, "{reply}");
    let hits = reply["results"].as_array().unwrap().iter();
    hits.map(|hit| format!("{} {}", hit["id"], hit["score"])).collect()
}

/// Searches until it is over: the rankings that were found, each as often as it followed another one.
pub(super) fn rankings_until(client: &Client, name: &str, is_over: &AtomicBool) -> Vec<Vec<String>> {
    let mut seen: Vec<Vec<String>> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let found = ranking(client, name);
        if seen.last() != Some(&found) {
            seen.push(found);
        }
        let (status, reply) = search(client, name, &json!({"query": "river note", "top_k": 5}));
        assert_eq!((status, ids(&reply).len()), (200, 5), "{reply}");
        // so that the gateways have time for the rest
        std::thread::sleep(Duration::from_millis(10));
    }
    seen
}

/// Searches all the time while `work` is done: no search fails, and its replies are of one index first, then of the other.
fn while_searching(setup: &Setup, name: &str, work: impl FnOnce()) {
    let gateway = &setup.gateway;
    let (before, is_over, seen) = (ranking(gateway, name), AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let client = Client::new(&gateway.weir.url);
        let (is_over, seen) = (&is_over, &seen);
        scope.spawn(move || seen.lock().unwrap().extend(rankings_until(&client, name, is_over)));
        let _ended = End(is_over);
        work();
        std::thread::sleep(Duration::from_millis(300));
    });
    let (seen, after) = (seen.into_inner().unwrap(), ranking(gateway, name));
    assert_ne!(before, after, "the engines rank differently");
    assert_eq!(seen, [before, after], "one index after the other, and none between");
}

/// The texts of documents that were embedded.
pub(super) fn embedded(client: &Client) -> String {
    let metrics = client.send("GET", "/metrics", None).text;
    let line = metrics.lines().find(|line| line.starts_with("weir_embed_texts_total{lane=\"bulk\"}"));
    line.unwrap_or_default().to_owned()
}

/// The generations of all indexes in the gateway's folder, and the points of all kinds in the cluster.
fn left(setup: &Setup) -> (usize, usize) {
    let collections = std::fs::read_dir(setup.folder.path().join("index")).unwrap();
    let generations =
        collections.map(|collection| std::fs::read_dir(collection.unwrap().path()).unwrap().count());
    let state = setup.cluster.state();
    (generations.sum(), state.collections.values().map(|collection| collection.points.len()).sum())
}

fn delete(client: &Client, id: &str) {
    let reply = client.send("DELETE", &format!("/v1/collections/notes/documents/{id}"), None);
    assert_eq!(reply.status, 200, "{}", reply.text);
}

fn count(client: &Client) -> usize {
    found(client, "notes", &notes(100 + DOCUMENTS)).len()
}

fn check_counts(client: &Client, expected: usize) {
    let shown = shown(client, "notes");
    assert_eq!((&shown["document_count"], &shown["chunk_count"]), (&json!(expected), &json!(expected)));
    assert_eq!(count(client), expected);
}

/// No node takes a change any more, so that no index in the cluster gets complete.
fn refuse_upserts(setup: &Setup) {
    let refuse = || Rule::always(Calls::Named("upsert"), Fault::unavailable());
    setup.cluster.nodes.iter().for_each(|node| node.inject(refuse()));
}

fn heal(setup: &Setup) {
    setup.cluster.nodes.iter().for_each(|node| node.heal());
}

#[test]
fn searches_go_on_while_a_collection_is_moved_into_the_cluster_and_back() {
    let setup = start("4");
    let gateway = &setup.gateway;
    create(gateway, "notes", &whole("embedded"));
    ingest(gateway, "notes", &documents(0, DOCUMENTS));
    let texts = embedded(gateway);
    assert!(texts.ends_with(&format!(" {DOCUMENTS}")), "{texts}");
    let (_, first) = search(gateway, "notes", &notes(5));
    let mut next = notes(5);
    next["cursor"] = first["next_cursor"].clone();
    for engine in ["qdrant", "embedded"] {
        while_searching(&setup, "notes", || {
            start_move(gateway, "notes", engine);
            let shown = shown(gateway, "notes");
            let rebuilt = shown["rebuilt"].as_f64().unwrap();
            assert!((0.0..1.0).contains(&rebuilt) && shown["settings"]["engine"] == named(engine), "{shown}");
            gateway.wait("the next index", || {
                check_counts(gateway, DOCUMENTS);
                is_ready(gateway, "notes")
            });
            check_counts(gateway, DOCUMENTS);
        });
        let (status, reply) = search(gateway, "notes", &next);
        assert_eq!((status, &reply["code"]), (410, &json!("cursor_expired")), "{reply}");
        assert_eq!(embedded(gateway), texts, "nothing is embedded again");
        gateway.wait("the end of the index in the gateway", || {
            left(&setup).0 == if engine == "qdrant" { 1 } else { 2 }
        });
    }
    // the points go; after a start at once
    let setup = kill_and_restart(setup, "4");
    setup.gateway.wait("the end of the points", || left(&setup).1 == 0);
    check_counts(&setup.gateway, DOCUMENTS);
}

/// As settings show it.
fn named(engine: &str) -> Value {
    if engine == "qdrant" { json!(engine) } else { Value::Null }
}

#[test]
fn a_move_out_of_the_cluster_goes_on_after_a_restart_and_what_is_deleted_meanwhile_is_not_found() {
    let setup = start("1");
    create(&setup.gateway, "notes", &whole("qdrant"));
    ingest(&setup.gateway, "notes", &documents(0, DOCUMENTS));
    start_move(&setup.gateway, "notes", "embedded");
    delete(&setup.gateway, "d3");
    assert_eq!(count(&setup.gateway), DOCUMENTS - 1, "at once");
    let setup = kill_and_restart(setup, "1");
    let gateway = &setup.gateway;
    assert!(!is_ready(gateway, "notes"), "the restart is in the middle");
    assert_eq!(count(gateway), DOCUMENTS - 1);
    delete(gateway, "d4");
    assert_eq!(count(gateway), DOCUMENTS - 2, "at once");
    let body = json!({"collection": "notes", "documents": documents(DOCUMENTS, DOCUMENTS + 1)});
    assert_eq!(gateway.try_post("/v1/ingest", &body).unwrap().0, 202);
    gateway.wait("the next index", || {
        assert!(count(gateway) >= DOCUMENTS - 2);
        is_ready(gateway, "notes")
    });
    gateway.wait("the document that came meanwhile", || count(gateway) == DOCUMENTS - 1);
    check_counts(gateway, DOCUMENTS - 1);
    let setup = kill_and_restart(setup, "1");
    setup.gateway.wait("the end of the points", || left(&setup).1 == 0);
}

#[test]
fn a_move_into_the_cluster_waits_for_it_and_can_be_cancelled_also_after_a_restart() {
    let setup = start("16");
    create(&setup.gateway, "notes", &whole("embedded"));
    ingest(&setup.gateway, "notes", &documents(0, DOCUMENTS));
    let before = ranking(&setup.gateway, "notes");
    refuse_upserts(&setup);
    start_move(&setup.gateway, "notes", "qdrant");
    delete(&setup.gateway, "d3");
    assert_eq!(count(&setup.gateway), DOCUMENTS - 1, "at once");
    let setup = kill_and_restart(setup, "16");
    let gateway = &setup.gateway;
    assert_eq!(count(gateway), DOCUMENTS - 1);
    assert_eq!(shown(gateway, "notes")["status"], "rebuilding");
    start_move(gateway, "notes", "embedded");
    gateway.wait("the index in the gateway", || {
        assert_eq!(count(gateway), DOCUMENTS - 1);
        is_ready(gateway, "notes")
    });
    heal(&setup);
    assert_ne!(ranking(gateway, "notes"), before, "without the document that was deleted");
    check_counts(gateway, DOCUMENTS - 1);
    gateway.wait("one index", || left(&setup) == (2, 0));

    // a move that is not cancelled goes on when the nodes take changes again
    refuse_upserts(&setup);
    start_move(gateway, "notes", "qdrant");
    heal(&setup);
    gateway.wait("the index in the cluster", || {
        assert_eq!(count(gateway), DOCUMENTS - 1);
        is_ready(gateway, "notes")
    });
    gateway.wait("one index", || left(&setup) == (1, DOCUMENTS));
    check_counts(gateway, DOCUMENTS - 1);
}

#[test]
fn no_search_fails_while_moves_into_the_cluster_are_cancelled() {
    let setup = start("64");
    let gateway = &setup.gateway;
    create(gateway, "notes", &whole("embedded"));
    ingest(gateway, "notes", &documents(0, DOCUMENTS));
    refuse_upserts(&setup);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            // without a pause: what is to be found takes some milliseconds
            scope.spawn(|| {
                let client = Client::new(&gateway.weir.url);
                while !is_over.load(Ordering::Relaxed) {
                    let (status, reply) = search(&client, "notes", &notes(5));
                    assert_eq!(status, 200, "{reply}");
                    assert_eq!(ids(&reply).len(), 5, "{reply}");
                }
            });
        }
        let _ended = End(&is_over);
        for _ in 0..5 {
            start_move(gateway, "notes", "qdrant");
            assert_eq!(move_to(gateway, "notes", "embedded").status, 200);
            gateway.wait("the index in the gateway", || is_ready(gateway, "notes"));
        }
    });
}

#[test]
fn a_collection_that_is_deleted_in_the_middle_of_a_move_leaves_nothing() {
    for engine in ["embedded", "qdrant"] {
        let setup = start("1");
        let gateway = &setup.gateway;
        create(gateway, "notes", &whole(engine));
        ingest(gateway, "notes", &documents(0, DOCUMENTS));
        start_move(gateway, "notes", if engine == "qdrant" { "embedded" } else { "qdrant" });
        gateway
            .wait("a part of the next index", || shown(gateway, "notes")["rebuilt"].as_f64().unwrap() > 0.0);
        let deleted = gateway.send("DELETE", "/v1/collections/notes", None);
        assert_eq!(deleted.status, 200, "{}", deleted.text);
        assert_eq!(left(&setup), (1, 0), "the default collection alone");
    }
}

#[test]
fn a_collection_whose_cluster_is_gone_is_moved_out_of_it() {
    let setup = start("16");
    create(&setup.gateway, "notes", &whole("qdrant"));
    ingest(&setup.gateway, "notes", &documents(0, DOCUMENTS));
    setup.kill_nodes();
    let setup = kill_and_restart(setup, "16");
    let gateway = &setup.gateway;
    assert_eq!(shown(gateway, "notes")["status"], "unavailable");
    let kept = put(gateway, "notes", &whole("embedded"));
    assert_eq!(kept.status, 503, "without `move`: {}", kept.text);
    start_move(gateway, "notes", "embedded");
    gateway.wait("the index in the gateway", || is_ready(gateway, "notes"));
    check_counts(gateway, DOCUMENTS);
    setup.restart_nodes();
    let setup = kill_and_restart(setup, "16");
    setup.gateway.wait("the end of the points", || left(&setup).1 == 0);
}

#[test]
fn a_move_is_refused_with_the_remedy_and_changes_nothing() {
    let setup = start("16");
    let gateway = &setup.gateway;
    create(gateway, "notes", &whole("embedded"));
    ingest(gateway, "notes", &documents(0, 5));
    let check = |reply: &Reply, status: u16, code: &str, words: &str| {
        assert_eq!((reply.status, &reply.json()["code"]), (status, &json!(code)), "{}", reply.text);
        assert!(reply.text.contains(words), "{}", reply.text);
    };
    check(&put(gateway, "notes", &json!({"engine": "qdrant"})), 409, "collection_conflict", "?move=true");
    check(&move_to(gateway, "nots", "qdrant"), 404, "collection_not_found", "nots");
    assert_eq!(gateway.get("/v1/collections/nots").0, 404, "it was not created");
    let path = "/v1/collections/notes?move=true";
    check(&gateway.send("PUT", path, Some(b"{}")), 400, "invalid_parameter", "`engine`");
    let other = json!({"engine": "qdrant", "chunking": {"policy": "headings"}}).to_string();
    check(&gateway.send("PUT", path, Some(other.as_bytes())), 409, "collection_conflict", "?rechunk=true");
    let other = json!({"engine": "qdrant", "language": "german"}).to_string();
    check(&gateway.send("PUT", path, Some(other.as_bytes())), 409, "collection_conflict", "settings");
    let lexical = |lexical: Value| {
        let body = json!({"chunking": {"policy": "none"}, "lexical": lexical});
        assert_eq!(put(gateway, "notes", &body).status, 200);
    };
    lexical(json!({"stop_words": ["the"]}));
    let kept = move_to(gateway, "notes", "qdrant");
    check(&kept, 400, "invalid_parameter", "taken away by `\\\"lexical\\\": {}` without `move`");
    lexical(json!({}));
    setup.kill_nodes();
    check(&move_to(gateway, "notes", "qdrant"), 503, "engine_unavailable", "does not answer");
    setup.restart_nodes();
    let shown = shown(gateway, "notes");
    assert_eq!((&shown["status"], &shown["settings"]["engine"]), (&json!("ready"), &Value::Null));
    assert_eq!(count(gateway), 5);

    // both at once, and the engine that it has
    let path = "/v1/collections/notes?move=true&rechunk=true";
    let both = json!({"engine": "qdrant", "chunking": {"policy": "headings"}}).to_string();
    let moved = gateway.send("PUT", path, Some(both.as_bytes()));
    assert_eq!((moved.status, &moved.json()["settings"]["chunking"]["policy"]), (200, &json!("headings")));
    gateway.wait("the next index", || is_ready(gateway, "notes"));
    let same = move_to(gateway, "notes", "qdrant");
    assert_eq!((same.status, &same.json()["status"]), (200, &json!("ready")), "{}", same.text);

    let without = Gateway::start();
    check(&move_to(&without, "default", "qdrant"), 400, "invalid_parameter", "`qdrant.urls`");
}

#[test]
fn a_key_with_a_filter_moves_nothing() {
    let setup = start("16");
    let gateway = &setup.gateway;
    create(gateway, "notes", &whole("embedded"));
    let send = |key: &str, method: &str, path: &str, body: &Value| {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        gateway.try_send(method, path, &headers, Some(body.to_string().as_bytes())).unwrap()
    };
    let key = |by: &str, wanted: Value| send(by, "POST", "/v1/keys", &wanted).json()["key"].clone();
    let root = key("", json!({"name": "root", "scopes": ["admin"]}));
    let root = root.as_str().unwrap();
    let filtered = key(root, json!({"name": "seven", "scopes": ["admin"], "filter": {"tenant": 7}}));
    let (path, body) = ("/v1/collections/notes?move=true", json!({"engine": "qdrant"}));
    let refused = send(filtered.as_str().unwrap(), "PUT", path, &body);
    assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("insufficient_scope")));
    assert!(refused.text.contains("move a collection"), "{}", refused.text);
    let moved = send(root, "PUT", path, &body);
    assert_eq!(
        (moved.status, &moved.json()["settings"]["engine"]),
        (200, &json!("qdrant")),
        "{}",
        moved.text
    );
}
