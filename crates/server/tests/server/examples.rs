//! The examples of `/openapi.json`, sent as a client that reads them would send them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::in_process::{InProcess, OPERATOR};

/// A request as it is described.
struct Described {
    method: String,
    uri: String,
    body: String,
}

/// Every operation, by groups in their order, the `DELETE`s last.
fn operations(description: &Value) -> Vec<(&String, &String, &Value)> {
    let paths = description["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| (path, method, operation))
    });
    let groups: Vec<&Value> =
        description["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let place = |operation: &Value| groups.iter().position(|name| **name == operation["tags"][0]).unwrap();
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, method, operation)| (*method == "delete", place(operation)));
    all
}

/// What pseudo-embeddings cannot do, or no gateway without upstreams; the tests of `weir` send these examples to real models.
const NEED_A_REAL_MODEL: [&str; 16] = [
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/api/chat",
    "/api/generate",
    "/embed_all",
    "/embed_sparse",
    "/tokenize",
    "/decode",
    "/predict",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
];

/// The example of an operation.
fn example(path: &str, method: &str, operation: &Value, job: &str) -> Described {
    let (mut uri, mut query) = (path.to_owned(), form_urlencoded::Serializer::new(String::new()));
    for parameter in operation["parameters"].as_array().unwrap() {
        let name = parameter["name"].as_str().unwrap();
        match parameter["example"].as_str() {
            Some(value) if parameter["in"] == "path" => {
                let value = if value == "JOB_ID" { job } else { value };
                let encoded: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
                uri = uri.replace(&format!("{{{name}}}"), &encoded);
            }
            Some(value) => drop(query.append_pair(name, value)),
            None => assert_ne!(parameter["in"], "path", "{method} {path}: no example of {name}"),
        }
    }
    let query = query.finish();
    let uri = if query.is_empty() { uri } else { format!("{uri}?{query}") };
    let body = &operation["requestBody"]["content"]["application/json"]["example"];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Described { method: method.to_owned(), uri, body }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_description_succeeds() {
    let gateway = InProcess::start_with_models(&["all-MiniLM-L6-v2"], &[], BTreeMap::new()).await;
    let description = gateway.ask("GET", "/openapi.json", "").await;
    let mut job = String::new();
    let mut sent = 0;
    for (path, method, operation) in operations(&description) {
        // the job of the first example, which ingests
        let request = example(path, method, operation, &job);
        let reply = gateway.send(OPERATOR, &request.method, &request.uri, &request.body).await;
        let what = format!("{method} {} {}: {} {}", request.uri, request.body, reply.status, reply.text);
        if NEED_A_REAL_MODEL.contains(&path.as_str()) {
            assert!(reply.status.is_client_error(), "{what}");
            continue;
        }
        assert!(reply.status.is_success(), "{what}");
        if path == "/v1/ingest" {
            let reply = reply.json();
            assert_eq!(reply["status"], "completed", "{what}");
            job = reply["job_id"].as_str().unwrap().to_owned();
        } else if path == "/v1/search" {
            assert_eq!(reply.json()["results"][0]["id"], "a/1", "{what}");
        } else if path == "/v1/collections/{name}/documents" {
            let ids: Vec<Value> =
                reply.json()["data"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
            assert_eq!(ids, ["a/2", "a/1"], "{what}");
        }
        sent += 1;
    }
    assert!(sent > 30, "only {sent} examples");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_keeps_the_order_of_fields_and_paths() {
    let gateway = InProcess::start(&[], BTreeMap::new()).await;
    let text = gateway.send(OPERATOR, "GET", "/openapi.json", "").await.text;
    let check = |within: &str, expected: &[&str]| {
        let start = text.find(&format!("\"{within}\":{{")).unwrap_or_else(|| panic!("no `{within}`"));
        let mut at = start;
        for key in expected {
            let found = text[at..]
                .find(&format!("\"{key}\":"))
                .unwrap_or_else(|| panic!("no `{key}` after byte {at}"));
            at += found;
        }
    };
    check(
        "paths",
        &["/v1/ingest", "/v1/jobs", "/v1/search", "/v1/collections/{name}", "/v1/embeddings", "/docs"],
    );
    check("SearchRequest", &["properties", "query", "collection", "top_k", "mode", "filter", "queries"]);
    check("Citation", &["properties", "document_id", "chunk", "start", "end", "quote"]);
    check("Problem", &["properties", "type", "title", "status", "detail", "code"]);
    assert!(text.contains(r#""example":{"query": "what holds back a river", "collection": "notes""#));
    assert!(!text.contains("x-order") && !text.contains("x-verbatim"));
    let parsed: Map<String, Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed["openapi"], "3.1.0");
}
