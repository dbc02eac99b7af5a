//! Nodes that die, and a cluster that is gone for a while.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Setup, create, found, ingest, search, shown, start_in};
use crate::support::client::Client;

fn note(id: &str) -> Value {
    json!([{"id": id, "text": format!("a note called {id}")}])
}

fn notes() -> Value {
    json!({"query": "note", "mode": "lexical", "top_k": 50})
}

/// Checks that a request is refused because the engine does not answer, without a word about where it is.
fn check_unavailable(client: &Client, method: &str, path: &str, body: &Value) {
    let body = (!body.is_null()).then(|| body.to_string());
    let reply = client.send(method, path, body.as_ref().map(|body| body.as_bytes()));
    assert_eq!((reply.status, &reply.json()["code"]), (503, &json!("engine_unavailable")), "{}", reply.text);
    assert!(reply.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds >= 1), "{path}");
    assert!(!reply.text.contains("127.0.0.1"), "{}", reply.text);
}

#[test]
fn no_search_fails_while_nodes_die_in_turn() {
    let setup = Setup::start();
    ingest(&setup.gateway, "far", &json!([{"id": "kept", "text": "a note that stays"}]));
    let (is_over, searched) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for mode in ["hybrid", "lexical"] {
            let (is_over, searched) = (&is_over, &searched);
            let client = Client::new(&setup.gateway.weir.url);
            scope.spawn(move || {
                let body = json!({"query": "note", "mode": mode, "top_k": 50});
                while !is_over.load(Ordering::Relaxed) {
                    let ids = found(&client, "far", &body);
                    assert!(ids.contains(&"kept".to_owned()), "{ids:?}");
                    searched.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..9 {
            let node = &setup.cluster.nodes[round % 3];
            node.kill();
            ingest(&setup.gateway, "far", &note(&format!("n{round}")));
            if round % 3 == 0 {
                let path = format!("/v1/collections/far/documents/n{round}");
                assert_eq!(setup.gateway.send("DELETE", &path, None).status, 200);
            }
            node.restart().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(searched.load(Ordering::Relaxed) > 20, "{searched:?} searches");
    assert_eq!(found(&setup.gateway, "far", &notes()).len(), 7, "six notes and the one that stays");
    let metrics = setup.gateway.send("GET", "/metrics", None).text;
    let sum = |name: &str| -> f64 {
        let values = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
        values.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    };
    assert!(sum("weir_qdrant_calls_total{call=\"upsert\",result=\"done\"}") >= 10.0, "{metrics}");
    assert!(sum("weir_qdrant_retries_total{") >= 1.0, "{metrics}");
    assert!(sum("weir_qdrant_call_seconds_count{call=\"query\"}") >= 20.0, "{metrics}");
    assert!(metrics.contains("weir_qdrant_nodes 3\n"), "{metrics}");
}

#[test]
fn without_any_node_searches_are_refused_and_what_is_stored_is_applied_when_nodes_return() {
    let setup = Setup::start();
    let gateway = &setup.gateway;
    create(gateway, "near", &json!({}));
    ingest(gateway, "near", &note("near"));
    ingest(gateway, "far", &note("kept"));
    ingest(gateway, "far", &note("gone"));
    setup.kill_nodes();

    for mode in ["hybrid", "lexical", "dense"] {
        let body = json!({"collection": "far", "query": "note", "mode": mode});
        check_unavailable(gateway, "POST", "/v1/search", &body);
    }
    let by_filter = json!({"filter": {"year": 1}});
    check_unavailable(gateway, "POST", "/v1/collections/far/documents/delete", &by_filter);
    assert_eq!(found(gateway, "near", &notes()), ["near"], "the other collection is not concerned");
    assert_eq!(shown(gateway, "far")["status"], "unavailable");
    let all = gateway.get("/v1/collections").1;
    assert_eq!(all["data"].as_array().unwrap().len(), 3, "{all}");
    assert_eq!(gateway.send("GET", "/readyz", None).status, 200, "no gateway is less ready than another");
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_qdrant_nodes_up 0\n"), "{metrics}");
    assert!(!metrics.contains("weir_documents{collection=\"far\"}"), "{metrics}");

    // what the store takes is acknowledged
    let body = json!({"collection": "far", "documents": note("new")});
    let (status, job) = gateway.try_post("/v1/ingest", &body).unwrap();
    assert_eq!(status, 202, "{job}");
    let deleted = gateway.send("DELETE", "/v1/collections/far/documents/gone", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    assert_eq!(gateway.get("/v1/collections/far/documents/new").0, 200);
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    gateway.wait("the reason", || {
        gateway.get(&path).1["waiting_for"] == "the engine of the collection does not answer"
    });

    setup.restart_nodes();
    gateway.wait("the first search", || {
        let (status, reply) = search(gateway, "far", &notes());
        assert!(status == 200 || reply["code"] == "engine_unavailable", "{reply}");
        assert!(!reply.to_string().contains("called gone"), "a deleted document is found: {reply}");
        status == 200
    });
    gateway.wait("the job", || gateway.get(&path).1["status"] == "completed");
    assert_eq!(super::sorted(found(gateway, "far", &notes())), ["kept", "new"]);
    assert_eq!(shown(gateway, "far")["status"], "ready");
}

#[test]
fn a_gateway_that_starts_without_the_nodes_opens_their_collections_when_they_are_there() {
    let setup = Setup::start();
    create(&setup.gateway, "near", &json!({}));
    ingest(&setup.gateway, "near", &note("near"));
    ingest(&setup.gateway, "far", &note("kept"));
    setup.gateway.weir.terminate();
    setup.kill_nodes();

    let gateway = start_in(setup.folder.path(), &setup.cluster);
    assert_eq!(found(&gateway, "near", &notes()), ["near"]);
    check_unavailable(&gateway, "POST", "/v1/search", &json!({"collection": "far", "query": "note"}));
    let body = json!({"collection": "far", "documents": note("new")});
    check_unavailable(&gateway, "POST", "/v1/ingest", &body);
    check_unavailable(&gateway, "GET", "/v1/collections/far/documents/kept", &Value::Null);
    assert_eq!(shown(&gateway, "far")["status"], "unavailable");
    assert_eq!(shown(&gateway, "far")["settings"]["engine"], "qdrant");
    let created = super::put(&gateway, "new", &json!({"engine": "qdrant"}));
    assert_eq!(
        (created.status, &created.json()["code"]),
        (503, &json!("engine_unavailable")),
        "{}",
        created.text
    );

    setup.restart_nodes();
    gateway.wait("the collection", || shown(&gateway, "far")["status"] == "ready");
    assert_eq!(found(&gateway, "far", &notes()), ["kept"]);
    assert_eq!(gateway.get("/v1/collections/new").0, 404, "what could not be created is not there");
    ingest(&gateway, "far", &note("new"));
    assert_eq!(found(&gateway, "far", &notes()).len(), 2);
}

#[test]
fn points_that_are_gone_are_made_again_from_the_store() {
    let setup = Setup::start();
    ingest(&setup.gateway, "far", &note("kept"));
    setup.cluster.state().collections.values_mut().for_each(|collection| collection.points.clear());
    setup.gateway.wait("the points", || {
        std::thread::sleep(Duration::from_millis(100));
        let (status, reply) = search(&setup.gateway, "far", &notes());
        status == 200 && super::ids(&reply) == ["kept"]
    });
    assert!(setup.gateway.weir.log().contains("the index is rebuilt from the store"));
}
