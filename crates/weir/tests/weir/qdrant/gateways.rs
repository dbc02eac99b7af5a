//! Two gateways over one PostgreSQL and one Qdrant cluster: one of them applies changes, both search.

use std::sync::atomic::AtomicBool;

use rustix::process::Signal;
use serde_json::{Value, json};
use weir_qdrant_mock::Cluster as Nodes;

use super::moves::{documents, move_to, notes as note_search, ranking, rankings_until, start_move};
use super::{create, found, ingest, shown, upserts, variables};
use crate::cluster::fleet::End;
use crate::cluster::{Cluster, Member, wait};

/// Nodes of Qdrant, and two gateways with the collection `far`.
fn start() -> (Nodes, Cluster) {
    let nodes = Nodes::start(3, None).unwrap();
    let cluster = Cluster::start_with(2, &settings(&nodes));
    create(&cluster.gateways[0].client, "far", &json!({"engine": "qdrant"}));
    let [_, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    wait("the collection", || two.client.get("/v1/collections/far").0 == 200);
    (nodes, cluster)
}

fn settings(nodes: &Nodes) -> Vec<(&'static str, &'static str)> {
    let settings = variables(nodes).into_iter().chain([("WEIR_INDEX_COMPACT_AFTER_S", "5".to_owned())]);
    settings.map(|(name, value)| (name, &*value.leak())).collect()
}

fn notes(from: usize, to: usize) -> Value {
    (from..to)
        .map(|number| json!({"id": format!("n{number}"), "text": format!("note {number} of the log")}))
        .collect()
}

fn all_notes() -> Value {
    json!({"query": "note", "mode": "lexical", "top_k": 100})
}

fn count(gateway: &Member) -> usize {
    found(&gateway.client, "far", &all_notes()).len()
}

#[test]
fn one_gateway_applies_what_all_have_taken_and_all_find_it() {
    let (nodes, mut cluster) = start();
    nodes.take_recorded();
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    ingest(&one.client, "far", &notes(0, 10));
    ingest(&two.client, "far", &notes(10, 20));
    wait("all notes at both", || count(one) == 20 && count(two) == 20);
    let deleted = two.client.send("DELETE", "/v1/collections/far/documents/n3", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    assert_eq!(count(two), 19, "at once at the gateway that has deleted it");
    let operation = &deleted.json()["operation"];
    let body =
        json!({"collection": "far", "query": "note", "mode": "lexical", "top_k": 100, "at_least": operation});
    let (status, reply) = one.client.try_post("/v1/search", &body).unwrap();
    assert_eq!((status, reply["results"].as_array().unwrap().len()), (200, 19), "{reply}");
    let recorded = nodes.take_recorded();
    for number in 0..20 {
        assert_eq!(upserts(&recorded, &format!("n{number}")), 1, "n{number} is applied once, by one gateway");
    }

    // another gateway joins, and applies nothing
    cluster.add(&settings(&nodes));
    let three = &cluster.gateways[2];
    three.client.wait_until_ready();
    assert_eq!(count(three), 19);
    assert_eq!(shown(&three.client, "far")["document_count"], 19);
    let recorded = nodes.take_recorded();
    assert!((0..20).all(|number| upserts(&recorded, &format!("n{number}")) == 0));
    let ended = three.client.send("DELETE", "/v1/collections/far", None);
    assert_eq!(ended.status, 200, "{}", ended.text);
    wait("the end of its points", || {
        nodes.state().collections.values().all(|collection| collection.points.is_empty())
    });
}

#[test]
fn who_waits_at_any_gateway_is_told_that_the_job_is_completed() {
    let (_nodes, cluster) = start();
    for number in 0..30 {
        ingest(&cluster.gateways[number % 2].client, "far", &notes(number, number + 1));
    }
}

#[test]
fn another_gateway_goes_on_when_the_one_that_applies_dies() {
    let (nodes, cluster) = start();
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    ingest(&one.client, "far", &notes(0, 10));
    wait("all notes at both", || count(one) == 10 && count(two) == 10);
    let holder = one.weir.log().contains("this gateway does the ingest");
    let (dying, living) = if holder { (one, two) } else { (two, one) };
    // documents are taken by both, some are applied, and then it dies
    let body = json!({"collection": "far", "documents": notes(10, 40)});
    assert_eq!(dying.client.try_post("/v1/ingest", &body).unwrap().0, 202);
    dying.signal(Signal::KILL);
    let deleted = living.client.send("DELETE", "/v1/collections/far/documents/n5", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    let body = json!({"collection": "far", "documents": notes(40, 50)});
    assert_eq!(living.client.try_post("/v1/ingest", &body).unwrap().0, 202);
    wait("all notes", || count(living) == 49);
    assert!(living.weir.log().contains("this gateway does the ingest"));
    assert_eq!(shown(&living.client, "far")["document_count"], 49);

    // documents are split again: searches go on at a gateway that lags behind, and the earlier points go later
    let points = |nodes: &Nodes| {
        let state = nodes.state();
        let points = state.collections.values().flat_map(|collection| collection.points.values());
        points.filter(|point| point.payload.contains_key("d")).count()
    };
    let before = points(&nodes);
    let body = json!({"engine": "qdrant", "chunking": {"max_tokens": 3, "overlap_tokens": 0}}).to_string();
    let changed = living.client.send("PUT", "/v1/collections/far?rechunk=true", Some(body.as_bytes()));
    assert_eq!(changed.status, 200, "{}", changed.text);
    wait("the new chunks", || {
        assert_eq!(count(living), 49, "none is missing meanwhile");
        shown(&living.client, "far")["status"] == "ready"
    });
    assert!(points(&nodes) > before, "the earlier points stay for gateways that lag behind");
    let chunks = shown(&living.client, "far")["chunk_count"].as_u64().unwrap() as usize;
    wait("the end of the earlier points", || points(&nodes) == chunks);
    assert_eq!(count(living), 49);
}

/// Documents of a collection that is moved, and batches in which they are applied.
const MOVED: usize = 120;
const BATCH: (&str, &str) = ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "2");

fn is_in(gateway: &Member, engine: &Value) -> bool {
    let shown = shown(&gateway.client, "notes");
    shown["status"] == "ready" && shown["settings"]["engine"] == *engine
}

fn found_notes(gateway: &Member) -> Vec<String> {
    found(&gateway.client, "notes", &note_search(200))
}

/// Points of all kinds in the cluster.
fn points(nodes: &Nodes) -> usize {
    nodes.state().collections.values().map(|collection| collection.points.len()).sum()
}

#[test]
fn a_collection_is_moved_while_all_gateways_search_and_one_without_a_cluster_answers_from_what_it_has() {
    let nodes = Nodes::start(3, None).unwrap();
    let with_cluster = [settings(&nodes), vec![BATCH]].concat();
    let mut cluster = Cluster::start_with(2, &with_cluster);
    cluster.add(&[BATCH]);
    let [one, two, without] = cluster.gateways.as_slice() else { panic!("three gateways") };
    create(&one.client, "notes", &json!({}));
    for gateway in &cluster.gateways {
        wait("the collection", || gateway.client.get("/v1/collections/notes").0 == 200);
    }
    ingest(&two.client, "notes", &documents(0, MOVED));
    for gateway in &cluster.gateways {
        wait("all notes", || found_notes(gateway).len() == MOVED);
    }
    // of all gateways
    let embedded = || -> u64 {
        let lines = cluster.gateways.iter().map(|gateway| super::moves::embedded(&gateway.client));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap_or(0)).sum()
    };
    let mut texts = embedded();

    for engine in ["qdrant", "embedded"] {
        let shown = if engine == "qdrant" { json!(engine) } else { Value::Null };
        let (is_over, first) = (AtomicBool::new(false), ranking(&one.client, "notes"));
        let seen = std::thread::scope(|scope| {
            let searchers = [one, two].map(|gateway| {
                let is_over = &is_over;
                scope.spawn(move || rankings_until(&gateway.client, "notes", is_over))
            });
            let ended = End(&is_over);
            start_move(&two.client, "notes", engine);
            wait("the next index at both", || is_in(one, &shown) && is_in(two, &shown));
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(ended);
            searchers.map(|searcher| searcher.join().unwrap())
        });
        let last = ranking(&one.client, "notes");
        assert_ne!(first, last);
        for seen in seen {
            assert_eq!(seen, [first.clone(), last.clone()], "one index after the other, and none between");
        }
        assert_eq!((found_notes(one).len(), found_notes(two).len()), (MOVED, MOVED));
        assert_eq!(embedded(), texts, "nothing is embedded again");
        if engine == "qdrant" {
            wait("the reason", || without.weir.log().contains("set `qdrant.urls` as the other gateways"));
            assert_eq!(ranking(&without.client, "notes"), first, "what it has");
            let deleted = one.client.send("DELETE", "/v1/collections/notes/documents/d5", None);
            assert_eq!(deleted.status, 200, "{}", deleted.text);
            wait("the end of a document at all", || {
                cluster.gateways.iter().all(|gateway| !found_notes(gateway).contains(&"d5".to_owned()))
            });
            ingest(&one.client, "notes", &documents(5, 6));
            wait("all notes", || found_notes(one).len() == MOVED && found_notes(two).len() == MOVED);
            texts = embedded();
        }
    }
    wait("all notes", || found_notes(without).len() == MOVED && is_in(without, &Value::Null));
    wait("the end of the points", || points(&nodes) == 0);

    // what is deleted in the middle is not found any more
    assert_eq!(move_to(&one.client, "notes", "qdrant").status, 200);
    let deleted = two.client.send("DELETE", "/v1/collections/notes/documents/d7", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    assert_eq!(found_notes(two).len(), MOVED - 1, "at once");
    wait("the end of a document", || found_notes(one).len() == MOVED - 1);
    wait("the next index", || is_in(one, &json!("qdrant")) && is_in(two, &json!("qdrant")));
    assert_eq!((found_notes(one).len(), found_notes(two).len()), (MOVED - 1, MOVED - 1));
    let deleted = two.client.send("DELETE", "/v1/collections/notes", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    wait("the end of the points", || points(&nodes) == 0);
}
