//! Collections whose documents bring their embeddings.

use serde_json::{Value, json};

use super::Gateway;
use super::documented;
use crate::support::client::{Client, Reply};

const JSON_LINES: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];

fn post(client: &Client, path: &str, body: &Value) -> Reply {
    client.send("POST", path, Some(body.to_string().as_bytes()))
}

/// Creates a collection, checked.
fn create(client: &Client, name: &str, settings: &Value) -> Value {
    let reply = client.send("PUT", &format!("/v1/collections/{name}"), Some(settings.to_string().as_bytes()));
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

/// Ingests documents into `name` until they are searchable.
fn ingest(client: &Client, name: &str, documents: &Value) -> Reply {
    let reply = post(client, "/v1/ingest?wait=true", &json!({"collection": name, "documents": documents}));
    if reply.status == 202 {
        let job = reply.json()["job_id"].as_str().unwrap().to_owned();
        client.wait("the job", || client.get(&format!("/v1/jobs/{job}")).1["finished_at"] != Value::Null);
    }
    reply
}

/// Ids and scores of the results.
fn found(client: &Client, name: &str, mut body: Value) -> Vec<(String, f64)> {
    body["collection"] = name.into();
    let reply = post(client, "/v1/search", &body);
    assert_eq!(reply.status, 200, "{}", reply.text);
    let hits = reply.json()["results"].as_array().unwrap().clone();
    let hit = |hit: &Value| {
        let dense = hit["scores"]["dense"].as_f64().unwrap_or(f64::NAN);
        (hit["id"].as_str().unwrap().to_owned(), (dense * 1000.0).round() / 1000.0)
    };
    hits.iter().map(hit).collect()
}

fn ids(found: &[(String, f64)]) -> Vec<&str> {
    found.iter().map(|(id, _)| id.as_str()).collect()
}

#[track_caller]
fn check_refused(reply: &Reply, code: &str, param: &str, part: &str) {
    let body = documented::check_error(reply, code, part);
    assert_eq!(body["error"]["param"].as_str(), Some(param), "{body}");
    assert!(reply.text.contains(part), "no `{part}` in {}", reply.text);
}

#[test]
fn documents_are_found_by_the_embeddings_that_they_bring() {
    let folder = tempfile::tempdir().unwrap();
    // no model is needed
    let gateway = Gateway::start_in(folder.path(), &[]);
    let made = create(&gateway, "own", &json!({"vectors": {"dimension": 3}}));
    assert_eq!(made["settings"]["vectors"], json!({"dimension": 3, "metric": "cosine"}));
    assert_eq!((&made["settings"]["chunking"], &made["model"]), (&json!({"policy": "none"}), &Value::Null));
    let documents = json!([
        {"id": "x", "text": "A weir is a low dam. It crosses a river.", "vector": [2, 0, 0]},
        {"id": "y", "title": "Locks", "text": "A lock lifts boats.", "vector": [0, 0.5, 0], "metadata": {"year": 1901}},
        {"id": "xy", "text": "", "vector": [1, 1, 0]},
        // the same text with another embedding
        {"id": "z", "text": "A lock lifts boats.", "vector": [0, 0, -1]},
    ]);
    assert_eq!(ingest(&gateway, "own", &documents).status, 202);
    let (_, collection) = gateway.get("/v1/collections/own");
    assert_eq!((&collection["document_count"], &collection["chunk_count"]), (&json!(4), &json!(4)));
    let check = |gateway: &Gateway| {
        // scores are cosines, however long the vectors are
        let dense = found(gateway, "own", json!({"vector": [3, 0, 0]}));
        assert_eq!(dense[..2], [("x".to_owned(), 1.0), ("xy".to_owned(), 0.707)], "{dense:?}");
        let filtered = found(gateway, "own", json!({"vector": [3, 0, 0], "filter": {"year": 1901}}));
        assert_eq!(ids(&filtered), ["y"]);
        // words alone are searched by words, both by both
        assert_eq!(ids(&found(gateway, "own", json!({"query": "weir"}))), ["x"]);
        let hybrid = found(gateway, "own", json!({"query": "boats", "vector": [0, 1, 0]}));
        assert_eq!(hybrid[0], ("y".to_owned(), 1.0), "{hybrid:?}");
        let by_words = found(gateway, "own", json!({"query": "boats", "vector": [0, 0, -1]}));
        assert_eq!(by_words[0], ("z".to_owned(), 1.0), "{by_words:?}");
    };
    check(&gateway);
    let metrics = gateway.send("GET", "/metrics", None).text;
    let embedded = metrics.lines().filter(|line| line.starts_with("weir_embed_cache_lookups_total{"));
    assert!(embedded.clone().all(|line| line.ends_with(" 0")), "{:?}", embedded.collect::<Vec<_>>());

    // a change of the vector alone is a change
    let moved = json!([{"id": "z", "text": "A lock lifts boats.", "vector": [0, 0, 1]}]);
    assert_eq!(ingest(&gateway, "own", &moved).json()["changed_documents"], 1);
    assert_eq!(ids(&found(&gateway, "own", json!({"vector": [0, 0, 1], "top_k": 1}))), ["z"]);
    let back = json!([{"id": "z", "text": "A lock lifts boats.", "vector": [0, 0, -1]}]);
    ingest(&gateway, "own", &back);
    assert_eq!(ingest(&gateway, "own", &back).json()["unchanged_documents"], 1);
    // metadata are changed without it
    let patch = json!({"metadata": {"state": "final"}, "title": null}).to_string();
    let patched = gateway.send("PATCH", "/v1/collections/own/documents/xy?wait=true", Some(patch.as_bytes()));
    assert_eq!(patched.status, 202, "{}", patched.text);
    let filtered = found(&gateway, "own", json!({"vector": [1, 1, 0], "filter": {"state": "final"}}));
    assert_eq!(filtered, [("xy".to_owned(), 1.0)]);

    // an index that is made again from the store has the same embeddings
    gateway.weir.terminate();
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let gateway = Gateway::start_in(folder.path(), &[]);
    gateway.wait_until_ready();
    check(&gateway);
}

#[test]
fn an_export_has_the_vectors_and_is_taken_back() {
    let gateway = Gateway::start();
    for name in ["own", "copy"] {
        create(&gateway, name, &json!({"vectors": {"dimension": 2, "metric": "dot"}}));
    }
    let documents = json!([{"id": "a", "text": "x", "vector": [0.1, -3e5]}, {"id": "b", "text": "", "vector": [0.1, 30.25]}]);
    let job = ingest(&gateway, "own", &documents).json();
    assert_eq!(
        (&job["failed_documents"], &job["errors"][0]["document_id"]),
        (&json!(1), &json!("a")),
        "{job}"
    );
    let lines = gateway.send("GET", "/v1/collections/own/export", None).text;
    assert_eq!(lines, "{\"id\":\"b\",\"text\":\"\",\"metadata\":{},\"vector\":[0.1,30.25]}\n");
    let path = "/v1/ingest?collection=copy&wait=true";
    let reply = gateway.try_send("POST", path, &JSON_LINES, Some(lines.as_bytes())).unwrap();
    assert_eq!((reply.status, &reply.json()["documents"]), (202, &json!(1)), "{}", reply.text);
    assert_eq!(gateway.send("GET", "/v1/collections/copy/export", None).text, lines);
    // the dot product, as it is
    assert_eq!(found(&gateway, "copy", json!({"vector": [10, 2]})), [("b".to_owned(), 61.5)]);
}

#[test]
fn vectors_that_do_not_fit_are_refused_by_name() {
    let gateway = Gateway::start();
    create(&gateway, "own", &json!({"vectors": {"dimension": 2}}));
    gateway.ingest(&[json!({"id": "a", "text": "x"})]);
    let document = |vector: &str| {
        format!(r#"{{"collection": "own", "documents": [{{"id": "a", "text": "x"{vector}}}]}}"#)
    };
    let check = |vector: &str, part: &str| {
        let reply = gateway.send("POST", "/v1/ingest", Some(document(vector).as_bytes()));
        assert_eq!(reply.status, 400, "{}", reply.text);
        assert!(reply.text.contains(part), "no `{part}` in {}", reply.text);
    };
    check("", "send one of 2 values as `vector`");
    check(r#", "vector": [1]"#, "`vector` has 1 values; embeddings of the collection have 2");
    check(r#", "vector": [1, null]"#, "NaN and infinity, which some programs write as null");
    check(r#", "vector": [1, NaN]"#, "invalid_json");
    check(r#", "vector": [1, 1e39]"#, "value 1 of `vector` is beyond");
    check(r#", "vector": [0, 0]"#, "points nowhere");
    check(r#", "vector": "x""#, "expected a list of numbers");
    // each fails alone
    let documents = json!([{"id": "a", "text": "x", "vector": [1, 0]}, {"id": "b", "text": "y"}]);
    let job = ingest(&gateway, "own", &documents).json();
    assert_eq!(
        (&job["failed_documents"], &job["errors"][0]["document_id"]),
        (&json!(1), &json!("b")),
        "{job}"
    );
    let lines = "{\"id\": \"c\", \"text\": \"x\"}\n{\"id\": \"d\", \"text\": \"x\", \"vector\": [0, 1]}\n";
    let reply =
        gateway.try_send("POST", "/v1/ingest?collection=own&wait=true", &JSON_LINES, Some(lines.as_bytes()));
    let reply = reply.unwrap().json();
    assert_eq!((&reply["documents"], &reply["errors"][0]["line"]), (&json!(1), &json!(1)), "{reply}");
    let long = json!({"text": "x".repeat(65_537), "vector": [1, 0]}).to_string();
    let reply = gateway.send("PUT", "/v1/collections/own/documents/long", Some(long.as_bytes()));
    check_refused(&reply, "payload_too_large", "text", "group_by");
    let file = [("content-type", "text/plain")];
    let reply =
        gateway.try_send("PUT", "/v1/collections/own/documents/f.txt", &file, Some(b"A weir.")).unwrap();
    check_refused(&reply, "invalid_parameter", "vector", "bring their embeddings");

    // a collection that embeds takes none, and one that does not exist is not made for them
    let brings = |name: &str| json!({"collection": name, "documents": [{"text": "x", "vector": [1, 2, 3]}]});
    let reply = post(&gateway, "/v1/ingest", &brings("default"));
    check_refused(&reply, "invalid_parameter", "vector", r#"{\"vectors\": {\"dimension\": 3}}"#);
    let reply = post(&gateway, "/v1/ingest", &brings("new"));
    check_refused(&reply, "invalid_parameter", "vector", "collection `new` does not exist");
    assert_eq!(gateway.get("/v1/collections/new").0, 404);
}

#[test]
fn searches_and_settings_that_need_a_model_are_refused_by_name() {
    let gateway = Gateway::start();
    create(&gateway, "own", &json!({"vectors": {"dimension": 2}}));
    ingest(&gateway, "own", &json!([{"id": "a", "text": "A weir.", "vector": [1, 0]}]));
    let check = |body: Value, param: &str, part: &str| {
        let mut body = body;
        body["collection"] = "own".into();
        check_refused(&post(&gateway, "/v1/search", &body), "invalid_parameter", param, part);
    };
    check(json!({"query": "weir", "mode": "dense"}), "mode", "send the embedding of the query as `vector`");
    check(json!({"query": "weir", "mode": "hybrid"}), "mode", "send the embedding of the query as `vector`");
    check(json!({"vector": [1]}), "vector", "`vector` has 1 values");
    check(json!({"vector": [0, 0]}), "vector", "points nowhere");
    let max_sim = json!({"query": "weir", "vector": [1, 0], "late_interaction": {"weight": 0.1}});
    check(max_sim, "late_interaction", "has no model");
    let put = |body: Value| gateway.send("PUT", "/v1/collections/own", Some(body.to_string().as_bytes()));
    for (body, param) in [
        (json!({"vectors": {"dimension": 2}, "model": "pseudo"}), "vectors"),
        (json!({"vectors": {"dimension": 2}, "chunking": {"policy": "tokens"}}), "chunking"),
        (json!({"vectors": {"dimension": 5000}}), "vectors.dimension"),
        (json!({"vectors": {"dimension": 2, "metric": "l2"}}), "vectors.metric"),
    ] {
        check_refused(&put(body), "invalid_parameter", param, "");
    }
    assert_eq!(put(json!({"vectors": {"dimension": 2, "metric": "cosine"}})).status, 200);
    documented::check_error(
        &put(json!({"vectors": {"dimension": 3}})),
        "collection_conflict",
        "another dimension",
    );
    documented::check_error(&put(json!({})), "collection_conflict", "a model");
}
