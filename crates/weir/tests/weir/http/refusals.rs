//! Requests that are refused: each with its status, its code and what to do, and none with any other effect.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::documented::check_error;
use super::{Gateway, in_repository};
use crate::support::client::document_path;

/// Limits that short requests can break.
const SMALL_LIMITS: &[(&str, &str)] = &[
    ("WEIR_LIMITS_BODY_BYTES_MAX", "1000"),
    ("WEIR_LIMITS_INGEST_BODY_BYTES_MAX", "2000"),
    ("WEIR_LIMITS_DOCUMENTS_PER_REQUEST_MAX", "3"),
    ("WEIR_LIMITS_DOCUMENT_TEXT_BYTES_MAX", "300"),
    ("WEIR_LIMITS_DOCUMENT_ID_BYTES_MAX", "40"),
    ("WEIR_LIMITS_METADATA_BYTES_MAX", "200"),
    ("WEIR_LIMITS_METADATA_KEYS_MAX", "3"),
    ("WEIR_LIMITS_QUERY_BYTES_MAX", "100"),
    ("WEIR_LIMITS_TOP_K_MAX", "10"),
];

/// Sends each row (method, path, body, status, code, parameter) and checks the refusal; afterwards the gateway answers and
/// holds what it held.
fn check(rows: &[(&str, &str, &str, u16, &str, &str)]) {
    let gateway = Gateway::start_with(SMALL_LIMITS);
    gateway.ingest(&[json!({"id": "kept", "text": "a weir", "metadata": {"a": 1}})]);
    let held = |gateway: &Gateway| {
        let collections = gateway.get("/v1/collections").1;
        (collections, gateway.document("kept"), gateway.search("weir", "hybrid")[0]["id"].clone())
    };
    let before = held(&gateway);
    for (method, path, body, status, code, parameter) in rows {
        let what = format!("{method} {path} {body}");
        let reply = gateway.send(method, path, (!body.is_empty()).then_some(body.as_bytes()));
        assert_eq!(reply.status, *status, "{what}: {}", reply.text);
        let problem = check_error(&reply, code, &what);
        let named = if parameter.is_empty() { Value::Null } else { json!(parameter) };
        assert_eq!(problem["error"]["param"], named, "{what}: {problem}");
        assert_eq!(problem["errors"].is_array(), !parameter.is_empty(), "{what}: {problem}");
        assert_eq!(held(&gateway), before, "after {what}");
    }
    assert_eq!(gateway.get("/healthz").1["status"], "ok");
}

#[test]
fn bodies_that_are_no_request_are_refused() {
    let deep = "[".repeat(400);
    check(&[
        ("POST", "/v1/search", "{\"query\": ", 400, "invalid_json", ""),
        ("POST", "/v1/search", " ", 400, "invalid_json", ""),
        ("POST", "/v1/search", "", 400, "invalid_json", ""),
        ("POST", "/v1/search", "{\"query\":\"a\"} x", 400, "invalid_json", ""),
        ("POST", "/v1/search", "{'query':'a'}", 400, "invalid_json", ""),
        ("POST", "/v1/search", "{\"query\":\"\\ud800\"}", 400, "invalid_json", ""),
        ("POST", "/v1/search", "{\"query\":\"a\",\"top_k\":NaN}", 400, "invalid_json", ""),
        ("POST", "/v1/search", "\u{feff}{\"query\":\"a\"}", 400, "invalid_json", ""),
        ("POST", "/v1/search", &deep, 400, "invalid_parameter", ""),
        ("POST", "/v1/search", "null", 400, "invalid_parameter", ""),
        ("POST", "/v1/search", "\"a\"", 400, "invalid_parameter", ""),
        ("POST", "/v1/search", "[\"a\"]", 400, "invalid_parameter", ""),
        ("POST", "/v1/ingest", "{\"documents\":[{\"text\":\"a\"]}", 400, "invalid_json", ""),
        ("POST", "/v1/ingest", "[]", 400, "invalid_parameter", ""),
        ("PUT", "/v1/collections/new", "{", 400, "invalid_json", ""),
        ("PUT", "/v1/collections/new", "7", 400, "invalid_parameter", ""),
    ]);
}

#[test]
fn searches_that_make_no_sense_are_refused() {
    let long = format!(r#"{{"query":"{}"}}"#, "a".repeat(101));
    let longer = format!(r#"{{"query":"{}"}}"#, "a".repeat(1000));
    let search = |body, status, code, parameter| ("POST", "/v1/search", body, status, code, parameter);
    check(&[
        search("{}", 400, "invalid_parameter", "query"),
        search(r#"{"query":""}"#, 400, "invalid_parameter", "query"),
        search(r#"{"query":" \t\n"}"#, 400, "invalid_parameter", "query"),
        search(r#"{"query":7}"#, 400, "invalid_parameter", "query"),
        search(r#"{"query":null}"#, 400, "invalid_parameter", "query"),
        search(r#"{"query":["a"]}"#, 400, "invalid_parameter", "query"),
        search(&long, 413, "payload_too_large", "query"),
        search(&longer, 413, "payload_too_large", ""),
        search(r#"{"query":"a","top_k":0}"#, 400, "invalid_parameter", "top_k"),
        search(r#"{"query":"a","top_k":11}"#, 400, "invalid_parameter", "top_k"),
        search(r#"{"query":"a","top_k":-1}"#, 400, "invalid_parameter", "top_k"),
        search(r#"{"query":"a","top_k":1.5}"#, 400, "invalid_parameter", "top_k"),
        search(r#"{"query":"a","top_k":"5"}"#, 400, "invalid_parameter", "top_k"),
        search(r#"{"query":"a","top_k":99999999999999999999}"#, 400, "invalid_parameter", "top_k"),
        search(r#"{"query":"a","mode":"fast"}"#, 400, "invalid_parameter", "mode"),
        search(r#"{"query":"a","fusion":{"method":"sum"}}"#, 400, "invalid_parameter", "fusion.method"),
        search(r#"{"query":"a","fusion":{"k":0}}"#, 400, "invalid_parameter", "fusion.k"),
        search(
            r#"{"query":"a","fusion":{"weights":{"lexical":0,"dense":0}}}"#,
            400,
            "invalid_parameter",
            "fusion.weights",
        ),
        search(
            r#"{"query":"a","fusion":{"weights":{"lexical":-1,"dense":1}}}"#,
            400,
            "invalid_parameter",
            "fusion.weights.lexical",
        ),
        search(r#"{"query":"a","topk":5}"#, 400, "unknown_field", "topk"),
        search(r#"{"query":"a","fusion":{"kk":5}}"#, 400, "unknown_field", "fusion.kk"),
        search(r#"{"query":"a","query":"b"}"#, 400, "invalid_parameter", ""),
        search(r#"{"query":"a","collection":"none"}"#, 404, "collection_not_found", ""),
        search(r#"{"query":"a","collection":"a/b"}"#, 400, "invalid_parameter", "collection"),
    ]);
}

#[test]
fn ingests_that_make_no_sense_are_refused() {
    let documents = |documents: &str| format!(r#"{{"documents":[{documents}]}}"#);
    let text = |bytes| documents(&format!(r#"{{"text":"{}"}}"#, "a".repeat(bytes)));
    let id = documents(&format!(r#"{{"id":"{}","text":"a"}}"#, "é".repeat(21)));
    let metadata = documents(&format!(r#"{{"text":"a","metadata":{{"a":"{}"}}}}"#, "a".repeat(200)));
    let keys = documents(r#"{"text":"a","metadata":{"a":1,"b":2,"c":3,"d":4}}"#);
    let nested =
        documents(&format!(r#"{{"text":"a","metadata":{{"a":{}{}}}}}"#, "[".repeat(90), "]".repeat(90)));
    let four = documents(r#"{"text":"a"},{"text":"b"},{"text":"c"},{"text":"d"}"#);
    let rows: &[(&str, u16, &str, &str)] = &[
        ("{}", 400, "invalid_parameter", "documents"),
        (r#"{"documents":[]}"#, 400, "invalid_parameter", "documents"),
        (r#"{"documents":{}}"#, 400, "invalid_parameter", "documents"),
        (r#"{"documents":null}"#, 400, "invalid_parameter", "documents"),
        (r#"{"documents":[{"text":"a"}],"wait":true}"#, 400, "unknown_field", "wait"),
        (r#"{"collection":"","documents":[{"text":"a"}]}"#, 400, "invalid_parameter", "collection"),
        (r#"{"collection":"..","documents":[{"text":"a"}]}"#, 400, "invalid_parameter", "collection"),
        (r#"{"collection":7,"documents":[{"text":"a"}]}"#, 400, "invalid_parameter", "collection"),
        (&documents("7"), 400, "invalid_parameter", "documents[0]"),
        (&documents("{}"), 400, "invalid_parameter", "documents[0].text"),
        (&documents(r#"{"text":7}"#), 400, "invalid_parameter", "documents[0].text"),
        (&documents(r#"{"text":" "}"#), 400, "invalid_parameter", "documents[0].text"),
        (&documents(r#"{"text":"a","id":""}"#), 400, "invalid_parameter", "documents[0].id"),
        (&documents(r#"{"text":"a","id":7}"#), 400, "invalid_parameter", "documents[0].id"),
        (&documents(r#"{"text":"a","title":[]}"#), 400, "invalid_parameter", "documents[0].title"),
        (&documents(r#"{"text":"a","metadata":[]}"#), 400, "invalid_parameter", "documents[0].metadata"),
        (&documents(r#"{"text":"a","body":"b"}"#), 400, "unknown_field", "documents[0].body"),
        (&documents(r#"{"text":"\ud800"}"#), 400, "invalid_json", "documents[0]"),
        (&text(301), 413, "payload_too_large", "documents[0].text"),
        (&text(2000), 413, "payload_too_large", ""),
        (&id, 413, "payload_too_large", "documents[0].id"),
        (&metadata, 413, "payload_too_large", "documents[0].metadata"),
        (&keys, 400, "invalid_parameter", "documents[0].metadata"),
        (&four, 400, "batch_too_large", "documents"),
    ];
    let mut rows: Vec<_> = rows
        .iter()
        .map(|(body, status, code, parameter)| ("POST", "/v1/ingest", *body, *status, *code, *parameter))
        .collect();
    let one = documents(r#"{"text":"a"}"#);
    rows.push(("POST", "/v1/ingest?wait=perhaps", &one, 400, "invalid_parameter", "wait"));
    rows.push(("POST", "/v1/ingest?now=true", &one, 400, "unknown_field", "now"));
    check(&rows);
    // not everything that looks odd is wrong
    let gateway = Gateway::start();
    let reply = gateway.send("POST", "/v1/ingest", Some(nested.as_bytes()));
    assert_eq!(reply.status, 202, "{}", reply.text);
}

#[test]
fn what_is_wrong_in_a_document_has_a_pointer_and_no_column_of_its_own() {
    let gateway = Gateway::start();
    let check = |document: &str, expected: &str| {
        let body = format!("{{\"documents\":[{{\"id\":\"a\"}},\n{document}]}}");
        let reply = gateway.send("POST", "/v1/ingest", Some(body.as_bytes()));
        let error = &check_error(&reply, "invalid_parameter", document)["errors"][1];
        let seen = format!("{} {}", error["pointer"].as_str().unwrap(), error["detail"].as_str().unwrap());
        assert_eq!(seen, expected);
    };
    check(r#"{"text":7}"#, "#/documents/1/text invalid type: integer `7`, expected a string");
    check(r#"{"text":"a","id":7}"#, "#/documents/1/id invalid type: integer `7`, expected a string");
    check(r#"{"title":"a"}"#, "#/documents/1/text missing field `text`");
    check(
        r#"{"text":"a","body":"b"}"#,
        "#/documents/1/body unknown field `body`; did you mean `text`? Expected one of `id`, `title`, `text`, `metadata`, `pages`, `vector`",
    );
    check("7", "#/documents/1 invalid type: integer `7`, expected a JSON object");
    check(
        r#"{"text":"\ud800"}"#,
        "#/documents/1 the document is not valid JSON: unexpected end of hex escape",
    );
    check(
        r#"{"text":"a","metadata":{"b":"\ud800"}}"#,
        "#/documents/1/metadata metadata cannot be parsed: unexpected end of hex escape",
    );
}

#[test]
fn paths_and_parameters_that_lead_nowhere_are_refused() {
    let kept = document_path("kept");
    let absent = document_path("absent");
    check(&[
        ("GET", "/absent", "", 404, "route_not_found", ""),
        ("GET", "/v2/search", "", 404, "route_not_found", ""),
        ("GET", "/v1/jobs/a/b", "", 404, "route_not_found", ""),
        ("POST", "/v1/searches", "{}", 404, "route_not_found", ""),
        ("GET", "/v1/collections/none", "", 404, "collection_not_found", ""),
        ("DELETE", "/v1/collections/none", "", 404, "collection_not_found", ""),
        ("GET", "/v1/collections/none/documents/kept", "", 404, "collection_not_found", ""),
        ("DELETE", "/v1/collections/none/documents/kept", "", 404, "collection_not_found", ""),
        ("GET", &absent, "", 404, "document_not_found", ""),
        ("DELETE", &absent, "", 404, "document_not_found", ""),
        ("GET", "/v1/collections/default/documents/kept%20", "", 404, "document_not_found", ""),
        ("GET", "/v1/collections/default/documents/%FF", "", 400, "invalid_utf8", ""),
        ("DELETE", "/v1/collections/default/documents/a%C3", "", 400, "invalid_utf8", ""),
        ("GET", "/v1/jobs/none", "", 404, "job_not_found", ""),
        ("GET", "/v1/jobs?limit=0", "", 400, "invalid_parameter", "limit"),
        ("GET", "/v1/jobs?limit=101", "", 400, "invalid_parameter", "limit"),
        ("GET", "/v1/jobs?limit=-1", "", 400, "invalid_parameter", "limit"),
        ("GET", "/v1/jobs?limit=many", "", 400, "invalid_parameter", "limit"),
        ("GET", "/v1/jobs?limit=", "", 400, "invalid_parameter", "limit"),
        ("GET", "/v1/jobs?cursor=nowhere", "", 400, "invalid_parameter", "cursor"),
        ("GET", "/v1/jobs?cursor=", "", 400, "invalid_parameter", "cursor"),
        ("GET", "/v1/jobs?page=2", "", 400, "unknown_field", "page"),
        ("POST", &kept, "{}", 405, "method_not_allowed", ""),
    ]);
}

#[test]
fn collections_that_cannot_be_are_refused() {
    let long = format!("/v1/collections/{}", "x".repeat(129));
    let put = |body, status, code, parameter| ("PUT", "/v1/collections/new", body, status, code, parameter);
    check(&[
        ("PUT", "/v1/collections/a%20b", "{}", 400, "invalid_parameter", "collection"),
        ("PUT", "/v1/collections/%2E%2E", "{}", 400, "invalid_parameter", "collection"),
        ("PUT", "/v1/collections/a%2Fb", "{}", 400, "invalid_parameter", "collection"),
        ("PUT", &long, "{}", 400, "invalid_parameter", "collection"),
        put(r#"{"language":"klingon"}"#, 400, "invalid_parameter", "language"),
        put(r#"{"embedding":"some"}"#, 400, "invalid_parameter", "embedding"),
        put(r#"{"embedding":"none","model":"pseudo"}"#, 400, "invalid_parameter", "embedding"),
        put(r#"{"chunking":{"max_tokens":0}}"#, 400, "invalid_parameter", "chunking.max_tokens"),
        put(
            r#"{"chunking":{"max_tokens":8,"overlap_tokens":8}}"#,
            400,
            "invalid_parameter",
            "chunking.overlap_tokens",
        ),
        put(r#"{"chunk":1}"#, 400, "unknown_field", "chunk"),
        put(r#"{"model":"none"}"#, 404, "model_not_found", "model"),
        ("PUT", "/v1/collections/default", r#"{"language":"german"}"#, 409, "collection_conflict", ""),
    ]);
}

#[test]
fn a_wrong_method_is_answered_with_the_right_ones() {
    let gateway = Gateway::start();
    let rows = [
        ("GET", "/v1/search", "POST"),
        ("PUT", "/v1/ingest", "POST"),
        ("DELETE", "/v1/jobs", "GET,HEAD"),
        ("POST", "/v1/jobs/a", "GET,HEAD"),
        ("POST", "/v1/collections", "GET,HEAD"),
        ("POST", "/v1/collections/default", "GET,HEAD,PUT,DELETE"),
        ("POST", "/v1/collections/default/documents/a", "GET,HEAD,PUT,PATCH,DELETE"),
        ("POST", "/healthz", "GET,HEAD"),
        ("DELETE", "/openapi.json", "GET,HEAD"),
    ];
    for (method, path, allowed) in rows {
        let reply = gateway.send(method, path, (method == "POST").then_some(b"{}"));
        check_error(&reply, "method_not_allowed", &format!("{method} {path}"));
        assert_eq!(reply.header("allow"), allowed, "{method} {path}");
    }
}

#[test]
fn a_body_that_is_not_utf8_is_refused_with_the_place() {
    let gateway = Gateway::start();
    for path in ["/v1/search", "/v1/ingest"] {
        let reply = gateway.send("POST", path, Some(b"{\"query\":\"a\xff\"}"));
        let problem = check_error(&reply, "invalid_utf8", path);
        assert!(problem["detail"].as_str().unwrap().contains("byte 11"), "{problem}");
    }
}

#[test]
fn a_body_of_another_media_type_is_refused() {
    let gateway = Gateway::start();
    let send =
        |path, media| gateway.try_send("POST", path, &[("content-type", media)], Some(b"{\"query\":\"a\"}"));
    for media in ["text/plain", "application/xml", "multipart/form-data; boundary=x", "json", ""] {
        // a form is a body of documents
        let code =
            if media.starts_with("multipart") { "invalid_parameter" } else { "unsupported_media_type" };
        check_error(&send("/v1/search", media).unwrap(), "unsupported_media_type", media);
        check_error(&send("/v1/ingest", media).unwrap(), code, media);
    }
    for media in ["application/json", "Application/JSON ; charset=utf-8", "application/problem+json"] {
        assert_eq!(send("/v1/search", media).unwrap().status, 200, "{media}");
    }
}

#[test]
fn a_body_in_an_unknown_encoding_is_refused_and_not_read_as_text() {
    let gateway = Gateway::start();
    let send = |path, coding| {
        let headers = [("content-type", "application/json"), ("content-encoding", coding)];
        gateway.try_send("POST", path, &headers, Some(b"{\"query\":\"a\"}")).unwrap()
    };
    for coding in ["BR", "deflate", "identity, zstd"] {
        for path in ["/v1/search", "/v1/ingest"] {
            let refused = check_error(&send(path, coding), "unsupported_media_type", coding);
            let said = format!("the body's content encoding is `{coding}`; `gzip` and `zstd` are read. ");
            let detail = refused["detail"].as_str().unwrap().strip_prefix(&said).unwrap();
            assert!(detail.starts_with("Send the body uncompressed, "), "{refused}");
        }
    }
    assert_eq!(send("/v1/search", "Identity").status, 200);
}

#[test]
fn the_sample_on_the_page_of_errors_is_what_the_gateway_prints() {
    let page = std::fs::read_to_string(in_repository("docs/errors.md")).unwrap();
    let sample = page.split("```json output\n").nth(1).unwrap().split("```").next().unwrap();
    let mut printed = Gateway::start().send("POST", "/v1/search", Some(br#"{"query":"a","top_k":0}"#)).json();
    printed["request_id"] = json!("…");
    assert_eq!(serde_json::from_str::<Value>(sample).unwrap(), printed);
}

#[test]
fn metadata_that_is_nested_too_deep_is_refused_with_a_remedy() {
    let gateway = Gateway::start();
    let send = |lists: usize| {
        let (open, close) = ("[".repeat(lists), "]".repeat(lists));
        let body = format!(r#"{{"documents":[{{"text":"a","metadata":{{"a":{open}{close}}}}}]}}"#);
        gateway.send("POST", "/v1/ingest", Some(body.as_bytes()))
    };
    assert_eq!(send(126).status, 202);
    for lists in [127, 1_000] {
        let refused = check_error(&send(lists), "invalid_parameter", "deep");
        assert_eq!(
            refused["errors"][0],
            json!({
                "detail": "metadata is nested deeper than 127 levels: reduce the nesting",
                "pointer": "#/documents/0/metadata",
            })
        );
    }
}

#[test]
fn a_caller_who_goes_on_sending_too_much_hears_why_it_is_refused() {
    let gateway = Gateway::start_with(SMALL_LIMITS);
    let body = vec![b'x'; 16 << 20];
    for path in ["/v1/search", "/v1/ingest"] {
        for _ in 0..5 {
            check_error(&gateway.send("POST", path, Some(&body)), "payload_too_large", path);
        }
    }
}

#[test]
fn a_body_of_unknown_length_is_read_up_to_the_limit() {
    let gateway = Gateway::start_with(SMALL_LIMITS);
    let answer = |body: &str| {
        let mut connection = gateway.connect();
        let head = "POST /v1/search HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        connection.write_all(format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    let short = answer(r#"{"query":"weir"}"#);
    assert!(short.starts_with("HTTP/1.1 200 "), "{short}");
    let long = answer(&format!(r#"{{"query":"weir"{}}}"#, " ".repeat(1_000)));
    assert!(long.starts_with("HTTP/1.1 413 ") && long.contains("payload_too_large"), "{long}");
}

#[test]
fn a_caller_who_asks_before_sending_too_much_is_refused_at_once() {
    let gateway = Gateway::start_with(SMALL_LIMITS);
    let mut connection = gateway.connect();
    connection.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let head =
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\nexpect: 100-continue\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[test]
fn a_broken_limit_is_named_with_its_value() {
    let gateway = Gateway::start_with(SMALL_LIMITS);
    let check = |path: &str, body: String, setting: &str, value: &str| {
        let problem = gateway.send("POST", path, Some(body.as_bytes())).json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("`limits.{setting}`")), "{setting}: {detail}");
        assert!(detail.contains(value), "{setting} is {value}: {detail}");
    };
    let letters = |count| "a".repeat(count);
    let search = |query: String| json!({ "query": query }).to_string();
    check("/v1/search", search(letters(101)), "query_bytes_max", "100");
    check("/v1/search", search(letters(1_001)), "body_bytes_max", "1000");
    check("/v1/search", json!({"query": "a", "top_k": 11}).to_string(), "top_k_max", "10");
    let ingest = |documents: Value| json!({ "documents": documents }).to_string();
    let one = |key: &str, value: Value| {
        let mut document = json!({"text": "a"});
        document[key] = value;
        ingest(json!([document]))
    };
    let four_keys = json!({"a": 1, "b": 2, "c": 3, "d": 4});
    check("/v1/ingest", one("text", json!(letters(2_001))), "ingest_body_bytes_max", "2000");
    check("/v1/ingest", ingest(json!([1, 2, 3, 4])), "documents_per_request_max", "3");
    check("/v1/ingest", one("text", json!(letters(301))), "document_text_bytes_max", "300");
    check("/v1/ingest", one("id", json!(letters(41))), "document_id_bytes_max", "40");
    check("/v1/ingest", one("metadata", json!({"a": letters(200)})), "metadata_bytes_max", "200");
    check("/v1/ingest", one("metadata", four_keys), "metadata_keys_max", "3");
}

#[test]
fn one_bad_document_fails_alone_and_is_named() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_DOCUMENT_TEXT_BYTES_MAX", "50")]);
    let documents = json!([
        {"id": "good 1", "text": "a weir"},
        {"id": "too long", "text": "weir ".repeat(20)},
        {"id": 7, "text": "a weir"},
        {"id": "unknown field", "text": "a weir", "body": "b"},
        {"text": ""},
        {"id": "good 2", "text": "a weir"},
    ]);
    let (status, job) = gateway.try_post("/v1/ingest?wait=true", &json!({"documents": documents})).unwrap();
    assert_eq!(status, 202, "{job}");
    assert_eq!((&job["status"], &job["error"]), (&json!("completed"), &Value::Null), "{job}");
    assert_eq!((&job["total_documents"], &job["processed_documents"]), (&json!(6), &json!(2)), "{job}");
    assert_eq!(job["failed_documents"], 4, "{job}");
    let named: Vec<(&str, &str)> = job["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["document_id"].as_str().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    let expected = [
        ("too long", "payload_too_large"),
        ("documents[2]", "invalid_parameter"),
        ("unknown field", "unknown_field"),
        ("documents[4]", "invalid_parameter"),
    ];
    assert_eq!(named, expected);
    let mut found: Vec<Value> =
        gateway.search("weir", "lexical").iter().map(|hit| hit["id"].clone()).collect();
    found.sort_by_key(Value::to_string);
    assert_eq!(found, ["good 1", "good 2"]);
    assert_eq!(gateway.document_count(), 2);
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    assert_eq!(gateway.get(&path).1, job, "the job can be looked up later");
}

#[test]
fn when_every_document_is_bad_the_request_is_refused_and_all_are_named() {
    let gateway = Gateway::start();
    let body = br#"{"documents":[{"text":""},{"text":7},{"id":"a"}]}"#;
    let problem =
        check_error(&gateway.send("POST", "/v1/ingest", Some(body)), "invalid_parameter", "all bad");
    let pointers: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["#/documents/0/text", "#/documents/1/text", "#/documents/2/text"]);
    assert_eq!(gateway.get("/v1/jobs").1["data"], json!([]), "a refused request leaves no job");
}

#[test]
fn calls_from_foreign_pages_and_by_foreign_names_are_refused() {
    let gateway = Gateway::start_with(&[("WEIR_SERVER_ALLOWED_HOSTS", "weir.lan")]);
    let body = json!({"documents": [{"id": "planted", "text": "by a page"}]}).to_string();
    let ingest = |headers: &[(&str, &str)]| {
        gateway.try_send("POST", "/v1/ingest?wait=true", headers, Some(body.as_bytes())).unwrap()
    };
    let form = ("content-type", "application/x-www-form-urlencoded");
    for foreign in [("origin", "http://evil.example"), ("origin", "null"), ("host", "evil.example:8000")] {
        check_error(&ingest(&[form, foreign]), "host_not_allowed", &format!("{foreign:?}"));
    }
    assert_eq!(gateway.send("GET", "/healthz", None).json()["document_count"], 0);
    for ours in [("origin", "http://localhost:3000"), ("origin", "https://weir.lan"), ("host", "weir.lan")] {
        assert_eq!(ingest(&[form, ours]).status, 202, "{ours:?}");
    }
}
