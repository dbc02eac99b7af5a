//! The keys and types of every reply: the contract that clients are written against.

use serde_json::{Map, Value, json};

use super::Gateway;
use crate::support::client::document_path;

/// The value with the name of its type in the place of everything that is no object; a list by its first item.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(number) if number.is_f64() => json!("float"),
        Value::Number(_) => json!("int"),
        Value::String(_) => json!("string"),
        Value::Array(items) => Value::Array(items.first().map(shape).into_iter().collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), shape(value))).collect())
        }
    }
}

/// Checks status and shape of a reply, and returns it.
fn check(gateway: &Gateway, call: (&str, &str, Option<Value>), status: u16, expected: &Value) -> Value {
    let (method, path, body) = call;
    let body = body.map(|body| body.to_string());
    let reply = gateway.send(method, path, body.as_deref().map(str::as_bytes));
    assert_eq!(reply.status, status, "{method} {path}: {}", reply.text);
    assert_eq!(reply.header("content-type"), "application/json", "{method} {path}");
    assert!(!reply.header("x-request-id").is_empty(), "{method} {path}");
    let value = reply.json();
    assert_eq!(&shape(&value), expected, "{method} {path}");
    value
}

fn job(error: &Value) -> Value {
    json!({
        "job_id": "string", "collection": "string", "status": "string", "total_documents": "int", "processed_documents": "int",
        "failed_documents": "int", "cancelled_documents": "int", "new_documents": "int", "changed_documents": "int",
        "chunks_per_second": "null", "eta_seconds": "null", "waiting_for": "null", "waiting_since": "null",
        "unchanged_documents": "int", "unread_files": "int", "chunks": "int", "progress": "float", "error": "null", "started_at": "float", "finished_at": "float",
        "errors": error,
    })
}

fn collection(settings: &Value, model: &str) -> Value {
    json!({
        "name": "string", "document_count": "int", "chunk_count": "int", "model": model, "settings": settings,
        "status": "string", "created_at": "float",
    })
}

fn settings() -> Value {
    json!({
        "model": "string", "language": "string", "chunking": {"policy": "string", "max_tokens": "int", "overlap_tokens": "int"}, "lexical": {},
    })
}

/// A gateway with one document.
fn gateway_with_a_document() -> Gateway {
    let gateway = Gateway::start();
    gateway
        .ingest(&[json!({"id": "a/1", "title": "Weirs", "text": "a low dam", "metadata": {"year": 1884}})]);
    gateway
}

#[test]
fn an_accepted_ingest_answers_its_job() {
    let gateway = Gateway::start();
    let body = json!({"documents": [{"text": "a weir"}, {"text": ""}]}).to_string();
    let reply = gateway.send("POST", "/v1/ingest", Some(body.as_bytes()));
    let accepted = reply.json();
    assert_eq!(reply.status, 202, "{accepted}");
    assert_eq!(reply.header("location"), format!("/v1/jobs/{}", accepted["job_id"].as_str().unwrap()));
    assert!(reply.header("retry-after").parse::<u64>().unwrap() >= 1);
    let mut expected = job(&json!([{"document_id": "string", "code": "string", "message": "string"}]));
    match accepted["status"].as_str().unwrap() {
        "pending" | "running" => expected["finished_at"] = json!("null"),
        status => assert_eq!(status, "completed"),
    }
    assert_eq!(shape(&accepted), expected, "{accepted}");
}

#[test]
fn a_job_is_shown_alone_and_in_the_list() {
    let gateway = gateway_with_a_document();
    let list = json!({"data": [job(&json!([]))], "next_cursor": "null"});
    let listed = check(&gateway, ("GET", "/v1/jobs", None), 200, &list);
    let path = format!("/v1/jobs/{}", listed["data"][0]["job_id"].as_str().unwrap());
    let shown = check(&gateway, ("GET", &path, None), 200, &job(&json!([])));
    assert_eq!(shown, listed["data"][0]);
    assert_eq!((&shown["status"], &shown["processed_documents"]), (&json!("completed"), &json!(1)));
    let seconds = |key: &str| shown[key].as_f64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!(seconds("started_at") <= seconds("finished_at") && seconds("finished_at") <= now, "{shown}");
    assert!(seconds("started_at") > now - 60.0, "unix seconds: {shown}");
}

/// Demand 19: a score that one can threshold.
#[test]
fn a_search_leaves_out_what_is_less_relevant_than_asked() {
    let gateway = gateway_with_a_document();
    let relevance_of = |body: Value| -> Vec<f64> {
        let reply = gateway.send("POST", "/v1/search", Some(body.to_string().as_bytes()));
        assert_eq!(reply.status, 200);
        let results = reply.json()["results"].as_array().unwrap().clone();
        results.iter().map(|result| result["relevance"].as_f64().unwrap()).collect()
    };
    let found = relevance_of(json!({"query": "dam", "mode": "lexical"}))[0];
    assert!(found > 0.0 && found < 1.0, "{found}");
    let with = |least: f64| relevance_of(json!({"query": "dam", "mode": "lexical", "min_relevance": least}));
    assert_eq!(with(found), [found], "as relevant as asked");
    assert_eq!(with(found + 0.01), [] as [f64; 0], "nothing relevant");
}

#[test]
fn a_search_answers_results_with_citation_ranks_and_timings() {
    let gateway = gateway_with_a_document();
    let expected = json!({
        "results": [{
            "id": "string", "score": "float", "relevance": "float", "text": "string", "title": "string", "metadata": {"year": "int"},
            "citation": {
                "document_id": "string", "chunk": "int", "start": "int", "end": "int", "quote": "string",
            },
            "ranks": {"lexical": "int", "dense": "int"},
            "scores": {"lexical": "float", "dense": "float"},
        }],
        "total": {"value": "int", "exact": "bool", "relation": "string"},
        "next_cursor": "null",
        "degraded": "bool",
        "query": {"excluded": [], "as_text": []},
        "took_ms": "float",
        "timings_ms": {
            "parse": "float", "embed": "float", "select": "float", "lexical": "float", "dense": "float",
            "fuse": "float", "smooth": "float", "fetch": "float", "late_interaction": "float", "rerank": "float",
        },
    });
    let call = |body: Value| ("POST", "/v1/search", Some(body));
    let reply = check(&gateway, call(json!({"query": "dam", "top_k": 3})), 200, &expected);
    let hit = &reply["results"][0];
    let whole = json!({"document_id": "a/1", "chunk": 0, "start": 0, "end": 9, "quote": "a low dam"});
    assert_eq!((&hit["id"], &hit["citation"]), (&json!("a/1"), &whole));
    assert_eq!(hit["ranks"], json!({"lexical": 1, "dense": 1}));

    for (mode, absent) in [("lexical", "dense"), ("dense", "lexical")] {
        let mut expected = expected.clone();
        expected["results"][0]["ranks"][absent] = json!("null");
        expected["results"][0]["scores"][absent] = json!("null");
        check(&gateway, call(json!({"query": "dam", "mode": mode})), 200, &expected);
    }
    let mut empty = expected.clone();
    empty["results"] = json!([]);
    check(&gateway, call(json!({"query": "zebra", "mode": "lexical"})), 200, &empty);
}

#[test]
fn a_collection_is_created_shown_listed_and_deleted() {
    let gateway = gateway_with_a_document();
    let text_only = json!({
        "embedding": "string", "language": "string", "chunking": {"policy": "string", "max_tokens": "int", "overlap_tokens": "int"}, "lexical": {},
    });
    let body = || Some(json!({"embedding": "none"}));
    let expected = collection(&text_only, "null");
    let created = check(&gateway, ("PUT", "/v1/collections/words", body()), 201, &expected);
    let again = check(&gateway, ("PUT", "/v1/collections/words", body()), 200, &expected);
    assert_eq!(again, created);
    assert_eq!(check(&gateway, ("GET", "/v1/collections/words", None), 200, &expected), created);

    let list = json!({"data": [collection(&settings(), "string")], "next_cursor": "null"});
    let listed = check(&gateway, ("GET", "/v1/collections", None), 200, &list);
    let names: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["default", "words"]);
    assert_eq!(listed["data"][0]["document_count"], 1);

    let deleted = json!({"deleted": "bool"});
    check(&gateway, ("DELETE", "/v1/collections/words", None), 200, &deleted);
    assert_eq!(gateway.get("/v1/collections/words").0, 404);
}

#[test]
fn a_document_is_shown_and_deleted() {
    let gateway = gateway_with_a_document();
    let expected = json!({
        "id": "string", "title": "string", "text": "string", "metadata": {"year": "int"}, "version": "int",
        "chunks": "int",
    });
    let path = document_path("a/1");
    check(&gateway, ("GET", &path, None), 200, &expected);
    let deleted = check(&gateway, ("DELETE", &path, None), 200, &json!({"deleted": "bool", "chunks": "int"}));
    assert_eq!(deleted, json!({"deleted": true, "chunks": 1}));
}

#[test]
fn feedback_documents_and_logged_queries_are_lists() {
    let gateway = Gateway::start_with(&[("WEIR_SEARCH_QUERY_LOG", "true")]);
    gateway
        .ingest(&[json!({"id": "a/1", "title": "Weirs", "text": "a low dam", "metadata": {"year": 1884}})]);
    let list = |item: &Value| json!({"data": [item], "next_cursor": "null"});
    let feedback = json!({
        "number": "int", "query": "string", "document_id": "string", "collection": "string", "chunk": "null",
        "grade": "int", "relevant": "bool", "created_at": "float", "key": "null",
    });
    let body = json!({"query": "dam", "document_id": "a/1", "relevant": true});
    check(&gateway, ("POST", "/v1/feedback", Some(body)), 200, &feedback);
    check(&gateway, ("GET", "/v1/feedback", None), 200, &list(&feedback));
    let document = json!({
        "id": "string", "title": "string", "text": "string", "metadata": {"year": "int"}, "version": "int",
        "chunks": "int",
    });
    check(&gateway, ("GET", "/v1/collections/default/documents", None), 200, &list(&document));
    gateway.search("zebra", "lexical");
    let queries = "/v1/collections/default/queries";
    gateway.wait("the log", || gateway.get(queries).1["data"] != json!([]));
    let query = json!({
        "query": "string", "count": "int", "zero_results": "int", "relevance": "null", "last_asked_at": "float",
    });
    check(&gateway, ("GET", queries, None), 200, &list(&query));
}

#[test]
fn health_and_readiness_are_json_and_the_rest_is_text() {
    let gateway = gateway_with_a_document();
    let health = json!({"status": "string", "model_loaded": "bool", "document_count": "int"});
    let seen = check(&gateway, ("GET", "/healthz", None), 200, &health);
    assert_eq!(seen, json!({"status": "ok", "model_loaded": true, "document_count": 1}));
    let ready = check(
        &gateway,
        ("GET", "/readyz", None),
        200,
        &json!({"ready": "bool", "failing": [], "damaged": []}),
    );
    assert_eq!(ready, json!({"ready": true, "failing": [], "damaged": []}));
    for (path, start) in [("/livez", "ok"), ("/metrics", "#"), ("/docs", "<!")] {
        let reply = gateway.send("GET", path, None);
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.text.to_lowercase().starts_with(start), "{path}: {}", reply.text);
    }
}

#[test]
fn an_error_has_both_its_bodies_and_the_callers_request_id() {
    let gateway = Gateway::start();
    let send = |accept: &str| {
        let headers = [("content-type", "application/json"), ("x-request-id", "mine 1"), ("accept", accept)];
        gateway.try_send("POST", "/v1/search", &headers, Some(br#"{"query":"a","top_k":0}"#)).unwrap()
    };
    let expected = json!({
        "type": "string", "title": "string", "status": "int", "detail": "string", "code": "string",
        "request_id": "string", "errors": [{"detail": "string", "pointer": "string"}],
        "error": {"message": "string", "type": "string", "param": "string", "code": "string"},
    });
    let reply = send("*/*");
    assert_eq!(shape(&reply.json()), expected);
    assert_eq!(reply.json()["request_id"], "mine 1");
    assert_eq!(reply.header("x-request-id"), "mine 1");
    assert_eq!(reply.header("content-type"), "application/problem+json");
    assert_eq!(send("application/json").header("content-type"), "application/json");

    let whole = gateway.send("GET", "/v1/jobs/none", None).json();
    let mut without_place: Map<String, Value> = expected.as_object().unwrap().clone();
    without_place.remove("errors");
    without_place["error"]["param"] = json!("null");
    assert_eq!(shape(&whole), Value::Object(without_place));
}
