//! Changes of title and metadata without embedding anything again, and writes that depend on the version of a document.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::documented::check_error;
use super::{Gateway, in_repository};
use crate::support::client::{Client, Reply, document_path};

/// Sends a request with headers beside that of JSON.
fn send(client: &Client, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Reply {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let body = body.map(Value::to_string);
    client.try_send(method, path, &all, body.as_ref().map(String::as_bytes)).unwrap()
}

fn patch(client: &Client, id: &str, body: &Value) -> Reply {
    let reply = send(client, "PATCH", &format!("{}?wait=true", document_path(id)), &[], Some(body));
    client.wait_until_searchable();
    reply
}

/// Chunks for which an embedding was asked of the model or its cache.
fn embedded(client: &Client) -> u64 {
    let metrics = client.send("GET", "/metrics", None).text;
    let counts = metrics.lines().filter_map(|line| line.strip_prefix("weir_embed_cache_lookups_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

fn found(client: &Client, body: &Value) -> Vec<String> {
    let reply = client.send("POST", "/v1/search", Some(body.to_string().as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.text);
    let results = reply.json()["results"].as_array().unwrap().clone();
    results.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn metadata_and_title_are_patched_without_embedding_and_found_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = in_repository("fixtures/tiny/bert");
    let variables = [("WEIR_MODEL", model.to_str().unwrap())];
    let gateway = Gateway::start_in(folder.path(), &variables);
    gateway.ingest(&[
        json!({"id": "a", "title": "Weirs", "text": "A low dam across a river.", "metadata": {"year": 1884, "n": {"x": 1.10}}}),
        json!({"id": "b", "title": "Locks", "text": "A lock lifts boats.", "metadata": {"year": 1901}}),
    ]);
    let before = embedded(&gateway);
    assert!(before >= 2);
    let query = json!({"query": "dam", "mode": "dense"});
    let embedding_of = |gateway: &Gateway| {
        let hits =
            gateway.send("POST", "/v1/search", Some(query.to_string().as_bytes())).json()["results"].clone();
        let hit = hits.as_array().unwrap().iter().find(|hit| hit["id"] == "a").cloned();
        hit.unwrap_or_else(|| panic!("{hits}"))["scores"]["dense"].clone()
    };
    let embedding = embedding_of(&gateway);
    let reply = patch(&gateway, "a", &json!({"metadata": {"year": null, "n": {"y": 2}, "state": "final"}}));
    assert_eq!((reply.status, &reply.json()["status"]), (202, &json!("completed")), "{}", reply.text);
    let stored = gateway.document("a").unwrap();
    assert_eq!(
        stored["metadata"].to_string(),
        r#"{"n":{"x":1.10,"y":2},"state":"final"}"#.replace("1.10", "1.1")
    );
    assert_eq!((&stored["version"], &reply.json()["version"]), (&json!(3), &json!(3)));
    let by_state = json!({"query": "dam", "filter": {"state": "final"}});
    assert_eq!(found(&gateway, &by_state), ["a"]);
    assert!(found(&gateway, &json!({"query": "dam", "filter": {"year": 1884}})).is_empty());

    assert_eq!(patch(&gateway, "a", &json!({"title": "Barrages"})).status, 202);
    assert_eq!(found(&gateway, &json!({"query": "barrages", "mode": "lexical"})), ["a"]);
    assert!(found(&gateway, &json!({"query": "weirs", "mode": "lexical"})).is_empty(), "the earlier title");
    assert_eq!(patch(&gateway, "a", &json!({"title": null})).status, 202);
    assert_eq!(gateway.document("a").unwrap()["title"], Value::Null);
    assert_eq!(embedding_of(&gateway), embedding);
    // the queries by meaning of this test, and none of the documents
    assert_eq!(embedded(&gateway) - before, 4);

    // an index that is made again from the store has the same embeddings
    gateway.weir.terminate();
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let gateway = Gateway::start_in(folder.path(), &variables);
    gateway.wait_until_ready();
    gateway.wait_until_searchable();
    assert_eq!(embedded(&gateway), 0);
    assert_eq!(
        found(&gateway, &json!({"query": "dam", "mode": "lexical", "filter": {"state": "final"}})),
        ["a"]
    );
    assert_eq!(embedding_of(&gateway), embedding);

    // the same document sent as a whole is embedded with its title
    let whole =
        json!({"text": "A low dam across a river.", "metadata": {"n": {"x": 1.1, "y": 2}, "state": "final"}});
    let before = embedded(&gateway);
    let reply = send(&gateway, "PUT", &document_path("a"), &[], Some(&whole));
    assert_eq!((reply.status, &reply.json()["unchanged_documents"]), (202, &json!(0)), "{}", reply.text);
    gateway.wait_until_searchable();
    assert!(embedded(&gateway) > before);
    assert_ne!(embedding_of(&gateway), embedding);
}

#[test]
fn a_patch_that_changes_nothing_makes_no_version() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "a", "title": "t", "text": "x", "metadata": {"n":1}})]);
    let reply = patch(&gateway, "a", &json!({"title": "t", "metadata": {"n": 1, "gone": null}}));
    let job = reply.json();
    assert_eq!((&job["unchanged_documents"], &job["version"]), (&json!(1), &json!(1)), "{job}");
    assert_eq!(reply.header("etag"), "\"1\"");
}

#[test]
fn a_patch_is_refused_with_its_reason() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_TITLE_BYTES_MAX", "20")]);
    gateway.ingest(&[json!({"id": "a", "text": "x"}), json!({"id": "title only", "title": "t", "text": ""})]);
    let refused = |id: &str, body: &Value, code: &str, words: &str| {
        let reply = send(&gateway, "PATCH", &document_path(id), &[], Some(body));
        let problem = check_error(&reply, code, &body.to_string());
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    };
    refused("a", &json!({"text": "y"}), "invalid_parameter", "send the whole document by `PUT`");
    refused("a", &json!({}), "invalid_parameter", "changes nothing");
    refused("a", &json!({"id": "b"}), "unknown_field", "id");
    refused("a", &json!({"metadata": [1]}), "invalid_parameter", "object");
    refused("a", &json!({"title": "x".repeat(21)}), "payload_too_large", "limits.title_bytes_max");
    refused("b", &json!({"title": "x"}), "document_not_found", "`b`");
    refused("title only", &json!({"title": null}), "invalid_parameter", "delete the document");
    let reply =
        send(&gateway, "PATCH", &document_path("a"), &[("if-match", "x\"")], Some(&json!({"title": "y"})));
    check_error(&reply, "invalid_parameter", "no entity tag");
    assert_eq!(gateway.document("a").unwrap()["version"], 1);
}

#[test]
fn writes_depend_on_the_version_of_the_document() {
    let gateway = Gateway::start();
    let path = document_path("a");
    let put = |headers: &[(&str, &str)], text: &str| {
        send(&gateway, "PUT", &path, headers, Some(&json!({ "text": text })))
    };
    let failed = |reply: &Reply, what: &str| {
        let problem = check_error(reply, "precondition_failed", what);
        assert!(problem["detail"].as_str().unwrap().contains("If-None-Match: *"), "{problem}");
    };
    failed(&put(&[("if-match", "*")], "no such document"), "a document that must exist");
    let made = put(&[("if-none-match", "*")], "first");
    assert_eq!((made.status, made.header("etag")), (202, "\"1\""), "{}", made.text);
    failed(&put(&[("if-none-match", "*")], "second"), "a document that must not exist");
    failed(&put(&[("if-match", "\"7\"")], "second"), "another version");
    failed(&put(&[("if-match", "W/\"1\"")], "second"), "a weak tag");
    assert_eq!(put(&[("if-match", "\"7\", \"1\"")], "second").header("etag"), "\"2\"");
    // the same content again is no new version, and still depends on the condition
    failed(&put(&[("if-match", "\"1\"")], "second"), "an earlier version");
    assert_eq!(put(&[("if-match", "\"2\"")], "second").header("etag"), "\"2\"");

    let read = send(&gateway, "GET", &path, &[], None);
    assert_eq!((read.header("etag"), &read.json()["version"]), ("\"2\"", &json!(2)));
    let again = send(&gateway, "GET", &path, &[("if-none-match", "\"2\"")], None);
    assert_eq!((again.status, again.text.as_str(), again.header("etag")), (304, "", "\"2\""));
    assert_eq!(send(&gateway, "GET", &path, &[("if-none-match", "\"1\"")], None).status, 200);

    let file = |headers: &[(&str, &str)]| {
        let mut all = vec![("content-type", "text/plain")];
        all.extend_from_slice(headers);
        gateway.try_send("PUT", &path, &all, Some(b"a file")).unwrap()
    };
    failed(&file(&[("if-match", "\"1\"")]), "a file over another version");
    assert_eq!(file(&[("if-match", "\"2\"")]).header("etag"), "\"3\"");
    assert_eq!(file(&[("if-match", "\"3\"")]).header("etag"), "\"3\"", "the same file");
    failed(&file(&[("if-match", "\"2\"")]), "the same file over another version");

    let change = json!({"metadata": {"x": 1}});
    let patched = |tag: &str| send(&gateway, "PATCH", &path, &[("if-match", tag)], Some(&change));
    failed(&patched("\"2\""), "a patch of another version");
    assert_eq!(patched("\"3\"").header("etag"), "\"4\"");
    failed(&send(&gateway, "DELETE", &path, &[("if-match", "\"3\"")], None), "deletion of another version");
    assert_eq!(send(&gateway, "DELETE", &path, &[("if-match", "\"4\"")], None).status, 200);
    let gone = send(&gateway, "DELETE", &path, &[("if-match", "\"4\"")], None);
    check_error(&gone, "document_not_found", "deleted before");
    let both = put(&[("if-match", "*"), ("if-none-match", "*")], "x");
    check_error(&both, "invalid_parameter", "both conditions");
    // the collection of a document that must exist is not made
    let other = "/v1/collections/other/documents/a";
    let reply = send(&gateway, "PUT", other, &[("if-match", "*")], Some(&json!({"text": "x"})));
    check_error(&reply, "collection_not_found", "no collection");
}

#[test]
fn changes_that_others_make_at_the_same_time_are_not_lost() {
    const WRITERS: usize = 4;
    const CHANGES: u64 = 15;
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "a", "text": "x", "metadata": {"count": 0}})]);
    let (url, conflicts) = (gateway.weir.url.clone(), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (url, conflicts) = (url.clone(), conflicts.clone());
            std::thread::spawn(move || {
                let client = Client::new(&url);
                for change in 0..CHANGES {
                    // without a condition every patch is applied to what is stored by then
                    let own = json!({"metadata": {format!("{writer}-{change}"): true}});
                    assert_eq!(send(&client, "PATCH", &document_path("a"), &[], Some(&own)).status, 202);
                    loop {
                        let read = send(&client, "GET", &document_path("a"), &[], None);
                        let count = read.json()["metadata"]["count"].as_u64().unwrap();
                        let next = json!({"metadata": {"count": count + 1}});
                        let tag = read.header("etag").to_owned();
                        let reply =
                            send(&client, "PATCH", &document_path("a"), &[("if-match", &tag)], Some(&next));
                        match reply.status {
                            202 => break,
                            412 => conflicts.fetch_add(1, Ordering::Relaxed),
                            other => panic!("{other} {}", reply.text),
                        };
                    }
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let metadata = gateway.document("a").unwrap()["metadata"].clone();
    assert_eq!(metadata["count"], WRITERS as u64 * CHANGES, "{metadata}");
    assert_eq!(metadata.as_object().unwrap().len(), 1 + WRITERS * CHANGES as usize);
    assert!(conflicts.load(Ordering::Relaxed) > 0, "no two changes met");
}
