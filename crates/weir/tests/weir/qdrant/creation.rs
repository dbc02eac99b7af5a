//! Collections of the cluster: what is refused, and what is left of deleted ones.

use serde_json::{Value, json};

use super::{Setup, create, found, ingest, put, shown};
use crate::support::client::Reply;
use crate::support::gateway::Gateway;

fn check(reply: &Reply, status: u16, code: &str, words: &str) {
    let body: Value = reply.json();
    assert_eq!((reply.status, &body["code"]), (status, &json!(code)), "{}", reply.text);
    assert!(body["detail"].as_str().unwrap().contains(words), "{}", reply.text);
}

#[test]
fn an_engine_that_is_not_configured_or_lacks_what_is_asked_is_refused_with_the_remedy() {
    let without = Gateway::start();
    let refused = put(&without, "far", &json!({"engine": "qdrant"}));
    check(&refused, 400, "invalid_parameter", "`qdrant.urls`");
    assert_eq!(without.get("/v1/collections/far").0, 404, "nothing is created");
    check(&put(&without, "far", &json!({"engine": "lucene"})), 400, "invalid_parameter", "engine");

    let setup = Setup::start();
    let gateway = &setup.gateway;
    for lexical in [
        json!({"synonyms": {"tv": ["television"]}}),
        json!({"stop_words": ["the"]}),
        json!({"title_weight": 2.0}),
    ] {
        for name in ["new", "far"] {
            let settings = json!({"engine": "qdrant", "lexical": lexical});
            let refused = put(gateway, name, &settings);
            check(&refused, 400, "invalid_parameter", "create the collection with the embedded engine");
        }
        let near = put(gateway, "near", &json!({"lexical": lexical}));
        assert!(near.status < 300, "{}", near.text);
    }
    assert_eq!(gateway.get("/v1/collections/new").0, 404, "nothing is created");
    check(&put(gateway, "far", &json!({})), 409, "collection_conflict", "qdrant");
    check(&put(gateway, "near", &json!({"engine": "qdrant"})), 409, "collection_conflict", "settings");
    let same = put(gateway, "far", &json!({"engine": "qdrant", "lexical": {"title_weight": 1.0}}));
    assert_eq!(same.status, 200, "{}", same.text);
    assert_eq!(put(gateway, "near", &json!({"engine": "embedded"})).status, 200);
}

#[test]
fn a_deleted_collection_leaves_no_point_also_when_the_nodes_were_gone() {
    let setup = Setup::start();
    let gateway = &setup.gateway;
    create(gateway, "other", &json!({"engine": "qdrant"}));
    for collection in ["far", "other"] {
        ingest(gateway, collection, &json!([{"id": "a", "text": format!("a note of {collection}")}]));
    }
    assert_eq!(setup.points(), 2);
    let deleted = gateway.send("DELETE", "/v1/collections/far", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    assert_eq!(setup.points(), 1);
    assert_eq!(found(gateway, "other", &json!({"query": "note", "mode": "lexical"})), ["a"]);
    create(gateway, "far", &json!({"engine": "qdrant"}));
    assert_eq!(shown(gateway, "far")["document_count"], 0, "another collection of the same name");

    setup.kill_nodes();
    let deleted = gateway.send("DELETE", "/v1/collections/other", None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    assert_eq!(gateway.get("/v1/collections/other").0, 404);
    setup.restart_nodes();
    gateway.wait("the end of its points", || setup.points() == 0);
}

#[test]
fn documents_that_are_split_again_are_found_meanwhile_and_their_earlier_points_go() {
    let setup = Setup::start();
    let gateway = &setup.gateway;
    let text = "# Weirs\n\nA weir is a low dam across a river, over which the water runs.\n\n# Locks\n\nA lock is a lift for boats between two levels of water.";
    let documents: Vec<Value> =
        (0..30).map(|number| json!({"id": format!("d{number}"), "text": text})).collect();
    ingest(gateway, "far", &json!(documents));
    let points = setup.points();
    let body = json!({"engine": "qdrant", "chunking": {"policy": "none"}}).to_string();
    let changed = gateway.send("PUT", "/v1/collections/far?rechunk=true", Some(body.as_bytes()));
    assert_eq!(changed.status, 200, "{}", changed.text);
    let lexical = json!({"query": "lift", "mode": "lexical", "top_k": 50});
    gateway.wait("the new chunks", || {
        assert_eq!(found(gateway, "far", &lexical).len(), 30, "none is missing meanwhile");
        shown(gateway, "far")["status"] == "ready"
    });
    assert_eq!(found(gateway, "far", &lexical).len(), 30);
    assert_eq!(shown(gateway, "far")["chunk_count"], 30);
    assert!(points > 30, "{points}");
    let setup = setup.restart();
    setup.gateway.wait("the end of the earlier points", || setup.points() == 30);
}
