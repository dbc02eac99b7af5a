//! Points that differ from the store, planted in the cluster behind the back of the gateway, and mended.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::{Value, json};
use weir_qdrant_mock::{Cluster as Nodes, Stored};

use super::{Setup, create, found, ids, ingest, search, shown, sorted, upserts, variables};
use crate::cli_support::Weir;
use crate::cluster::{Cluster, wait};
use crate::support::client::Client;

/// What the store has in the end.
const STORED: [&str; 4] = ["kept", "part", "short", "whole"];

type Points = BTreeMap<String, Stored>;

/// The points of a document in the cluster, by their ids.
fn points_of(nodes: &Nodes, document: &str) -> Points {
    let state = nodes.state();
    let points = state.collections.values().flat_map(|collection| collection.points.iter());
    let of_document = points.filter(|(_, point)| point.payload.get("d") == Some(&document.into()));
    of_document.map(|(id, point)| (id.clone(), point.clone())).collect()
}

fn remove(nodes: &Nodes, points: &Points) {
    let mut state = nodes.state();
    for collection in state.collections.values_mut() {
        collection.points.retain(|id, _| !points.contains_key(id));
    }
}

/// Puts points into the only Qdrant collection, as a call that arrives late does: where there is none of their ids.
fn arrive_late(nodes: &Nodes, points: &Points) {
    let mut state = nodes.state();
    let collection = state.collections.values_mut().next().unwrap();
    for (id, point) in points {
        collection.points.entry(id.clone()).or_insert_with(|| point.clone());
    }
}

/// A text of several chunks.
fn long(word: &str) -> String {
    format!("A long note about {word}. ").repeat(120)
}

fn notes() -> Value {
    json!([
        {"id": "kept", "text": "a note that stays"},
        {"id": "gone", "text": long("gone things")},
        {"id": "whole", "text": long("lost things")},
        {"id": "part", "text": long("parts")},
        {"id": "short", "text": long("earlier things")},
    ])
}

/// Documents `gone`, whose points came back after it was deleted; `whole` and `part`, which have lost all points and one; and `short`, which has points
/// of an earlier version. Returns how many points `kept`, `part`, `short` and `whole` had.
fn plant(nodes: &Nodes, client: &Client) -> [usize; 4] {
    ingest(client, "far", &notes());
    let (gone, before) = (points_of(nodes, "gone"), points_of(nodes, "short"));
    assert!(gone.len() > 2 && before.len() > 2, "several chunks");
    let deleted = client.send("DELETE", "/v1/collections/far/documents/gone", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    ingest(client, "far", &json!([{"id": "short", "text": "a short note"}]));
    assert_eq!((points_of(nodes, "gone").len(), points_of(nodes, "short").len()), (0, 1));

    let counts = STORED.map(|id| points_of(nodes, id).len());
    arrive_late(nodes, &gone);
    arrive_late(nodes, &before);
    remove(nodes, &points_of(nodes, "whole"));
    remove(nodes, &points_of(nodes, "part").into_iter().take(1).collect());
    assert_eq!(points_of(nodes, "short").len(), before.len());
    counts
}

fn about(word: &str) -> Value {
    json!({"query": word, "mode": "lexical", "top_k": 50})
}

/// Checks that the cluster has exactly what the store has: so many points of each document.
fn check_mended(nodes: &Nodes, client: &Client, counts: [usize; 4]) {
    assert_eq!(points_of(nodes, "gone").len(), 0);
    assert_eq!(STORED.map(|id| points_of(nodes, id).len()), counts);
    assert_eq!(sorted(found(client, "far", &about("note"))), STORED);
    assert_eq!(found(client, "far", &about("lost")), ["whole"]);
    assert_eq!(found(client, "far", &about("earlier")), [""; 0]);
    assert_eq!(shown(client, "far")["chunk_count"], json!(counts.iter().sum::<usize>()));
}

fn ask(client: &Client) -> Value {
    let asked = client.send("POST", "/v1/collections/far/reconcile", None);
    assert_eq!(asked.status, 202, "{}", asked.text);
    asked.json()
}

fn last(client: &Client) -> Value {
    client.get("/v1/collections/far/reconcile").1
}

/// Asks for a comparison and waits until it has ended.
pub(super) fn reconcile(client: &Client) -> Value {
    let asked = ask(client);
    assert!(asked["status"] == "waiting" || asked["status"] == "running", "{asked}");
    wait("the end of the comparison", || last(client)["finished_at"].is_number());
    last(client)
}

#[test]
fn what_differs_is_found_and_mended_by_the_command() {
    let setup = Setup::start();
    let (gateway, nodes) = (&setup.gateway, &setup.cluster);
    assert_eq!(last(gateway)["status"], "never");
    let counts = plant(nodes, gateway);
    assert_eq!(found(gateway, "far", &about("gone")), ["gone"], "a deleted document is found");
    assert_eq!(found(gateway, "far", &about("lost")), [""; 0]);
    let others: Vec<Points> = ["kept", "whole"].map(|id| points_of(nodes, id)).into();
    let embedded = |name: &str| {
        let metrics = gateway.send("GET", "/metrics", None).text;
        metrics.lines().find(|line| line.starts_with(name)).map(str::to_owned)
    };
    let before = embedded("weir_embed_tokens_total");
    nodes.take_recorded();

    let weir = Weir::new().env("WEIR_URL", &gateway.weir.url);
    let report = weir.run(&["collections", "reconcile", "far"]);
    assert_eq!(report.code, 0, "{}", report.err);
    for part in
        ["completed\n", "4 documents", "1 deleted documents", "2 lacked points", "1 had points", "4 mended"]
    {
        assert!(report.out.contains(part), "{part}: {}", report.out);
    }
    check_mended(nodes, gateway, counts);
    assert_eq!(points_of(nodes, "kept"), others[0], "what does not differ is not touched");
    assert_eq!(upserts(&nodes.take_recorded(), "kept"), 0);
    assert_eq!(embedded("weir_embed_tokens_total"), before, "nothing is embedded again");
    let metrics = gateway.send("GET", "/metrics", None).text;
    for (reason, count) in [("deleted", 1), ("lost", 2), ("earlier", 1)] {
        let line = format!("weir_reconciled_documents_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    assert!(metrics.contains("weir_reconciliations_total{result=\"completed\"} 1\n"), "{metrics}");

    let again = reconcile(gateway);
    for nothing in ["deleted", "lost", "earlier", "mended"] {
        assert_eq!(again[nothing], 0, "{again}");
    }
    assert_eq!((&again["status"], &again["documents"]), (&json!("completed"), &json!(4)), "{again}");
    assert_eq!(again["points"], shown(gateway, "far")["chunk_count"]);

    let not_there = weir.run(&["collections", "reconcile", "fra", "--no-wait"]);
    assert!(not_there.code != 0 && not_there.err.contains("no collection `fra`"), "{}", not_there.err);
    create(gateway, "near", &json!({}));
    let refused = gateway.send("POST", "/v1/collections/near/reconcile", None);
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (400, &json!("invalid_parameter")),
        "{}",
        refused.text
    );
}

#[test]
fn what_differs_is_mended_from_time_to_time() {
    let nodes = Nodes::start(3, None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let settings = [variables(&nodes), vec![("WEIR_QDRANT_RECONCILE_EVERY_S", "1".to_owned())]].concat();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let gateway = crate::support::gateway::Gateway::start_in(folder.path(), &settings);
    create(&gateway, "far", &json!({"engine": "qdrant"}));
    let counts = plant(&nodes, &gateway);
    gateway.wait("the points", || {
        points_of(&nodes, "gone").is_empty() && points_of(&nodes, "short").len() == 1 && {
            let (status, reply) = search(&gateway, "far", &about("note"));
            assert_eq!(status, 200, "{reply}");
            ids(&reply).len() == 4
        }
    });
    gateway.wait("a comparison that finds nothing", || {
        let report = last(&gateway);
        report["status"] == "completed" && report["mended"] == 0
    });
    check_mended(&nodes, &gateway, counts);
}

#[test]
fn a_comparison_beside_changes_takes_none_of_them_for_a_difference() {
    let setup = Setup::start();
    let client = Client::new(&setup.gateway.weir.url);
    ingest(&client, "far", &notes());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let mut reports = Vec::new();
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let changing = scope.spawn(move || {
            let mut round = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let text = if round % 2 == 0 { "a short note".to_owned() } else { long("others") };
                let documents = json!([
                    {"id": "part", "text": format!("{text} {round}")},
                    {"id": format!("new{}", round % 5), "text": format!("{text} {round}")},
                ]);
                ingest(&client, "far", &documents);
                let path = format!("/v1/collections/far/documents/new{}", (round + 2) % 5);
                assert!([200, 404].contains(&client.send("DELETE", &path, None).status));
                round += 1;
            }
            round
        });
        for _ in 0..15 {
            reports.push(reconcile(&setup.gateway));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(changing.join().unwrap() > 5);
    });
    for report in &reports {
        // a deletion that the store has and the cluster does not have yet may be counted as one
        assert_eq!(
            (&report["status"], &report["lost"], &report["earlier"]),
            (&json!("completed"), &json!(0), &json!(0)),
            "{report}"
        );
    }
    let listed = setup.gateway.get("/v1/collections/far/documents?limit=100").1;
    let stored: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    let in_cluster = found(&setup.gateway, "far", &json!({"query": "note", "mode": "lexical", "top_k": 50}));
    assert_eq!(in_cluster.len(), stored.len(), "{in_cluster:?} {stored:?}");
    assert_eq!(reconcile(&setup.gateway)["mended"], 0);
}

#[test]
fn without_nodes_a_comparison_fails_and_can_be_asked_for_again() {
    let setup = Setup::start();
    let counts = plant(&setup.cluster, &setup.gateway);
    setup.kill_nodes();
    let failed = reconcile(&setup.gateway);
    assert_eq!(failed["status"], "failed", "{failed}");
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("does not answer") && !error.contains("127.0.0.1"), "{error}");
    let weir = Weir::new().env("WEIR_URL", &setup.gateway.weir.url);
    let refused = weir.run(&["collections", "reconcile", "far"]);
    assert!(refused.code == 1 && refused.err.contains("does not answer"), "{} {}", refused.code, refused.err);
    setup.restart_nodes();
    let report = reconcile(&setup.gateway);
    assert_eq!((&report["status"], &report["mended"]), (&json!("completed"), &json!(4)), "{report}");
    check_mended(&setup.cluster, &setup.gateway, counts);
}

#[test]
fn the_gateway_with_the_lease_compares_and_another_one_begins_again_when_it_dies() {
    let nodes = Nodes::start(3, None).unwrap();
    let slow = [variables(&nodes), vec![("WEIR_QDRANT_RECONCILE_POINTS_PER_S", "10".to_owned())]].concat();
    let settings: Vec<(&str, &str)> = slow.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let cluster = Cluster::start_with(2, &settings);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    create(&one.client, "far", &json!({"engine": "qdrant"}));
    wait("the collection", || two.client.get("/v1/collections/far").0 == 200);
    let counts = plant(&nodes, &one.client);
    let has_lease =
        |member: &crate::cluster::Member| member.weir.log().contains("this gateway does the ingest");
    let (dying, living) = if has_lease(one) { (one, two) } else { (two, one) };
    assert!(!has_lease(living), "one has the lease");
    // asked for at the one that does not change the index
    assert_eq!(ask(&living.client)["status"], "waiting");
    wait("its begin", || last(&living.client)["status"] == "running");
    assert_eq!(ask(&living.client)["status"], "running", "one at a time");
    dying.signal(Signal::KILL);
    wait("its end", || last(&living.client)["status"] == "completed");
    assert!(has_lease(living), "it has taken over");
    check_mended(&nodes, &living.client, counts);
}
