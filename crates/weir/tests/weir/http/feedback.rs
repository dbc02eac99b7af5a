//! Feedback, the query log, and the list of documents.

use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use crate::support::client::Client;
use crate::support::process::Weir;

fn post(client: &Client, path: &str, body: &Value) -> crate::support::client::Reply {
    client.send("POST", path, Some(body.to_string().as_bytes()))
}

fn gateway_with_documents() -> Gateway {
    let gateway = Gateway::start();
    gateway.ingest(
        &["a", "b", "c/ü"].map(|id| json!({"id": id, "title": "T", "text": format!("text of {id}")})),
    );
    gateway
}

#[test]
fn feedback_is_stored_and_listed_newest_first() {
    let gateway = gateway_with_documents();
    let first = post(
        &gateway,
        "/v1/feedback",
        &json!({"query": "q", "document_id": "a", "relevant": true, "chunk": 0}),
    );
    assert_eq!(first.status, 200, "{}", first.text);
    let second = post(&gateway, "/v1/feedback", &json!({"query": "q", "document_id": "c/ü", "grade": 0}));
    let (first, second) = (first.json(), second.json());
    assert_eq!((&first["number"], &first["grade"], &first["chunk"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!((&second["relevant"], &second["collection"]), (&json!(false), &json!("default")));
    let (status, listed) = gateway.get("/v1/feedback");
    assert_eq!((status, listed), (200, json!({"data": [second, first], "next_cursor": null})));
    let page = gateway.get("/v1/feedback?collection=default&limit=1").1;
    assert_eq!((&page["data"], &page["next_cursor"]), (&json!([second]), &json!("2")));
    assert_eq!(gateway.get("/v1/feedback?limit=1&cursor=2").1["data"], json!([first]));
}

#[test]
fn feedback_that_makes_no_sense_is_refused() {
    let gateway = gateway_with_documents();
    let check = |body: Value, code: &str, words: &str| {
        let refused = check_error(&post(&gateway, "/v1/feedback", &body), code, words);
        assert!(refused["detail"].as_str().unwrap().contains(words), "{refused}");
    };
    check(
        json!({"query": "q", "document_id": "x", "relevant": true}),
        "document_not_found",
        "there is no document `x`",
    );
    check(
        json!({"query": "q", "document_id": "a", "relevant": true, "collection": "none"}),
        "collection_not_found",
        "there is no collection `none`",
    );
    check(json!({"query": "q", "document_id": "a"}), "invalid_parameter", "send either `relevant`");
    check(
        json!({"query": "q", "document_id": "a", "relevant": true, "chunk": 1}),
        "invalid_parameter",
        "there is no chunk 1 in document `a`; it has 1 chunk, number 0",
    );
    check(
        json!({"query": "q", "document_id": "x", "relevant": true, "chunk": 0}),
        "document_not_found",
        "there is no document `x`",
    );
    check(json!({"query": "q", "document_id": "a", "grade": 101}), "invalid_parameter", "from 0 to 100");
    check(json!({"query": "q", "document_id": "a", "rating": 1}), "unknown_field", "rating");
    for (path, code) in [
        ("/v1/feedback?limit=0", "invalid_parameter"),
        ("/v1/feedback?cursor=x", "invalid_parameter"),
        ("/v1/feedback?page=2", "unknown_field"),
        ("/v1/feedback?collection=none", "collection_not_found"),
    ] {
        check_error(&gateway.send("GET", path, None), code, "");
    }
    assert_eq!(gateway.get("/v1/feedback").1["data"], json!([]));
}

#[test]
fn documents_are_listed_by_id_in_pages() {
    let gateway = gateway_with_documents();
    let ids = |page: &Value| -> Vec<String> {
        page["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = gateway.get("/v1/collections/default/documents").1;
    assert_eq!((ids(&all), &all["next_cursor"]), (vec!["a".into(), "b".into(), "c/ü".into()], &Value::Null));
    assert_eq!(all["data"][0], gateway.document("a").unwrap());
    let first = gateway.get("/v1/collections/default/documents?limit=2").1;
    assert_eq!(ids(&first), ["a", "b"]);
    for begin in ["after=b", &format!("cursor={}", first["next_cursor"].as_str().unwrap())] {
        let rest = gateway.get(&format!("/v1/collections/default/documents?limit=2&{begin}")).1;
        assert_eq!((ids(&rest), &rest["next_cursor"]), (vec!["c/ü".into()], &Value::Null));
    }
    for (path, code) in
        [("default/documents?limit=1001", "invalid_parameter"), ("none/documents", "collection_not_found")]
    {
        check_error(&gateway.send("GET", &format!("/v1/collections/{path}"), None), code, "");
    }
}

/// `query count zero_results` of each query of a report.
fn report(client: &Client, parameters: &str) -> Vec<String> {
    let (status, listed) = client.get(&format!("/v1/collections/default/queries?{parameters}"));
    assert_eq!(status, 200, "{listed}");
    let show =
        |one: &Value| format!("{} {} {}", one["query"].as_str().unwrap(), one["count"], one["zero_results"]);
    listed["data"].as_array().unwrap().iter().map(show).collect()
}

#[test]
fn queries_are_logged_when_that_is_on_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let log = [("WEIR_SEARCH_QUERY_LOG", "true")];
    let weir = Weir::start_with(folder.path(), &log);
    let client = Client::new(&weir.url);
    let body = json!({"documents": [{"id": "a", "text": "a low dam"}]});
    assert_eq!(post(&client, "/v1/ingest?wait=true", &body).status, 202);
    for query in ["dam", "zebra", "dam", " dam ", "unicorn", "zebra"] {
        client.search(query, "lexical");
    }
    let measured = json!({"query": "measured", "mode": "lexical", "log": false});
    assert_eq!(post(&client, "/v1/search", &measured).status, 200);
    // written in the background: at the latest when the gateway ends
    weir.terminate();
    let again = Weir::start(folder.path());
    let client = Client::new(&again.url);
    client.wait_until_ready();
    assert_eq!(report(&client, ""), ["dam 3 0", "zebra 2 2", "unicorn 1 1"]);
    assert_eq!(report(&client, "report=popular&limit=1"), ["dam 3 0"]);
    assert_eq!(report(&client, "report=zero_results"), ["zebra 2 2", "unicorn 1 1"]);
    client.search("unheard", "lexical");
    again.terminate();
    let off = Weir::start(folder.path());
    assert_eq!(report(&Client::new(&off.url), "").len(), 3, "the log is off by default");
    let client = Client::new(&off.url);
    for (parameters, code) in [
        ("report=all", "invalid_parameter"),
        ("below=2", "invalid_parameter"),
        ("limit=0", "invalid_parameter"),
        ("x=1", "unknown_field"),
    ] {
        check_error(
            &client.send("GET", &format!("/v1/collections/default/queries?{parameters}"), None),
            code,
            "",
        );
    }
}

#[test]
fn only_the_newest_queries_and_feedback_are_kept() {
    let gateway = Gateway::start_with(&[
        ("WEIR_SEARCH_QUERY_LOG", "true"),
        ("WEIR_SEARCH_QUERY_LOG_ENTRIES_MAX", "2"),
        ("WEIR_SEARCH_FEEDBACK_ENTRIES_MAX", "2"),
    ]);
    gateway.ingest(&[json!({"id": "a", "text": "a low dam"})]);
    for query in ["one", "two", "three"] {
        gateway.search(query, "lexical");
        post(&gateway, "/v1/feedback", &json!({"query": query, "document_id": "a", "relevant": true}));
    }
    gateway.wait("the log", || {
        gateway
            .send("GET", "/metrics", None)
            .text
            .contains("weir_query_log_entries_total{result=\"written\"} 3")
    });
    assert_eq!(report(&gateway, ""), ["three 1 1", "two 1 1"]);
    let kept = gateway.get("/v1/feedback").1;
    let queries: Vec<&Value> = kept["data"].as_array().unwrap().iter().map(|one| &one["query"]).collect();
    assert_eq!(queries, ["three", "two"]);
}
