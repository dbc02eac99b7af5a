//! The calls of the native API: what each sends, and what it makes of a reply.

use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::server::{Asked, Reply, Server};
use http::StatusCode;
use serde_json::json;
use weir_api::{
    Document, DocumentPatch, ErrorCode, FeedbackRequest, JobStatus, QueryReport, RawJson, RerankRequest,
    SearchRequest,
};
use weir_client::{Client, ClientError, Condition, DocumentsQuery, QueryLogOptions, RetryPolicy};

const JOB: &str = r#"{"job_id":"j","collection":"default","status":"STATUS","total_documents":1,"processed_documents":1,"failed_documents":0,
    "new_documents":1,"changed_documents":0,"unchanged_documents":0,"chunks":1,"error":null,"started_at":1.0,"finished_at":null,"errors":[]}"#;
const FEEDBACK: &str = r#"{"number":1,"query":"q","document_id":"d","collection":"default","chunk":null,"grade":1,"relevant":true,"created_at":1.0}"#;
const FOUND: &str = r#"{"results":[],"next_cursor":null,"took_ms":1,"timings_ms":{"parse":0,"embed":0,"lexical":0,"dense":0,"fuse":0,"fetch":0}}"#;
const NOT_FOUND: &str = r#"{"type":"about:blank","title":"No such collection","status":404,"code":"collection_not_found","request_id":null,
    "detail":"there is no collection `x`. List the collections with `GET /v1/collections`, or create this one with `PUT /v1/collections/{name}`.",
    "error":{"message":"m","type":"invalid_request_error","param":null,"code":"collection_not_found"}}"#;

fn client(server: &Server) -> Client {
    Client::new(server.url.clone(), RetryPolicy::NONE)
}

/// A server that sends these replies one after the other.
fn script(replies: &[(u16, &str)]) -> Server {
    let replies: Vec<(u16, String)> =
        replies.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
    let next = AtomicUsize::new(0);
    Server::start(move |_| {
        let (status, body) = &replies[next.fetch_add(1, Ordering::SeqCst)];
        Reply::json(*status, body)
    })
}

fn calls(server: &Server) -> Vec<String> {
    server.requests().iter().map(|asked| asked.call.clone()).collect()
}

#[tokio::test]
async fn documents_are_ingested_and_their_job_is_waited_for() {
    let server = script(&[
        (202, &JOB.replace("STATUS", "pending")),
        (200, &JOB.replace("STATUS", "running")),
        (200, &JOB.replace("STATUS", "completed")),
    ]);
    let document = Document { id: Some("d".to_owned()), text: "t".to_owned(), ..Document::default() };
    let job = client(&server).ingest_documents("default", &[document]).await.unwrap();
    assert_eq!(client(&server).wait_for_job(&job.job_id).await.unwrap().status, JobStatus::Completed);
    assert_eq!(calls(&server), ["POST /v1/ingest", "GET /v1/jobs/j", "GET /v1/jobs/j"]);
    assert_eq!(
        server.requests()[0].json(),
        json!({"collection": "default", "documents": [{"id": "d", "text": "t"}]})
    );
}

#[tokio::test]
async fn conditions_are_sent_with_writes_and_those_are_not_repeated() {
    let job = JOB.replace("STATUS", "pending").replace("\"errors\"", "\"version\":7,\"errors\"");
    let server = script(&[(202, &job), (202, &job), (200, r#"{"deleted":true,"chunks":1}"#)]);
    let client = client(&server);
    let document = Document { text: "t".to_owned(), ..Document::default() };
    let made = client.put_document("c", "a/1", &document, Condition::Absent).await.unwrap();
    let patch = DocumentPatch::new(Some(None), None);
    let version = Condition::Version(made.version.unwrap());
    client.patch_document("c", "a/1", &patch, version).await.unwrap();
    client.delete_document_if("c", "a/1", Condition::Exists).await.unwrap();
    let path = "/v1/collections/c/documents/a%2F1";
    assert_eq!(calls(&server), ["PUT", "PATCH", "DELETE"].map(|method| format!("{method} {path}")));
    let asked = server.requests();
    assert_eq!(asked[0].header("if-none-match"), "*");
    assert_eq!((asked[1].header("if-match"), asked[1].json()), ("\"7\"", json!({"title": null})));
    assert_eq!(asked[2].header("if-match"), "*");
}

#[tokio::test]
async fn an_export_that_breaks_off_is_an_error() {
    let line = "{\"id\":\"a\",\"text\":\"t\"}\n";
    let server = script(&[(200, line), (200, "{\"id\":\"a\"")]);
    let client = client(&server);
    let mut whole = client.export("c", Some("a b")).await.unwrap();
    assert_eq!(whole.next().await.unwrap().unwrap(), line);
    assert!(whole.next().await.unwrap().is_none());
    let mut cut = client.export("c", None).await.unwrap();
    cut.next().await.unwrap();
    assert!(matches!(cut.next().await, Err(ClientError::Malformed { .. })));
    assert_eq!(calls(&server), ["GET /v1/collections/c/export?after=a%20b", "GET /v1/collections/c/export"]);
}

#[tokio::test]
async fn lists_are_received_page_by_page() {
    let document = r#"{"id":"ID","title":null,"text":"t","metadata":{},"version":1,"chunks":1}"#;
    let page = |ids: &[&str], cursor: &str| {
        let data: Vec<String> = ids.iter().map(|id| document.replace("ID", id)).collect();
        format!("{{\"data\":[{}],\"next_cursor\":{cursor}}}", data.join(","))
    };
    let server = script(&[(200, &page(&["a", "b"], "\"c 1\"")), (200, &page(&["c"], "null"))]);
    let filter = RawJson::from_text("{\"year\": 2019}".to_owned()).unwrap();
    let query = DocumentsQuery {
        filter: Some(filter),
        sort: Some("-year".to_owned()),
        limit: Some(2),
        after: Some("0".to_owned()),
    };
    let (client, mut ids) = (client(&server), Vec::new());
    let mut pages = client.document_pages("notes", &query);
    while let Some(documents) = pages.next_page().await.unwrap() {
        ids.extend(documents.into_iter().map(|document| document.id));
    }
    assert_eq!(ids, ["a", "b", "c"]);
    assert!(pages.next_page().await.unwrap().is_none());
    let path = "GET /v1/collections/notes/documents?filter=%7B%22year%22%3A%202019%7D&sort=-year&limit=2";
    assert_eq!(calls(&server), [format!("{path}&after=0"), format!("{path}&cursor=c%201")]);
}

#[tokio::test]
async fn a_cursor_that_leads_to_itself_is_an_error() {
    let page = r#"{"data":[],"next_cursor":"c"}"#;
    let server = script(&[(200, page), (200, page)]);
    let client = client(&server);
    let mut pages = client.job_pages(5);
    assert!(pages.next_page().await.unwrap().is_some());
    let error = pages.next_page().await.unwrap_err();
    assert!(error.to_string().ends_with("has the cursor of its own page as that of the next"), "{error}");
    assert!(pages.next_page().await.unwrap().is_none());
}

#[tokio::test]
async fn the_pages_of_a_search_repeat_the_request_with_the_cursor() {
    let server = script(&[(200, &FOUND.replace("null", "\"c\"")), (200, FOUND)]);
    let client = client(&server);
    let request = SearchRequest { query: Some("weir".to_owned()), ..SearchRequest::default() };
    let mut pages = client.search_pages(request);
    let mut count = 0;
    while pages.next_page().await.unwrap().is_some() {
        count += 1;
    }
    let bodies: Vec<_> = server.requests().iter().map(Asked::json).collect();
    assert_eq!((count, bodies), (2, vec![json!({"query": "weir"}), json!({"query": "weir", "cursor": "c"})]));
}

#[tokio::test]
async fn several_searches_have_an_outcome_each() {
    let replies = format!("{{\"replies\":[{FOUND},{NOT_FOUND}],\"took_ms\":2}}");
    let server = script(&[(200, &replies), (200, &replies)]);
    let request = |collection: &str| SearchRequest {
        query: Some("q".to_owned()),
        collection: Some(collection.to_owned()),
        ..SearchRequest::default()
    };
    let outcomes = client(&server).search_many(&[request("default"), request("x")]).await.unwrap();
    assert!(outcomes[0].as_ref().unwrap().results.is_empty());
    let refused = outcomes[1].as_ref().unwrap_err();
    assert!(matches!(refused, ClientError::Refused { code: ErrorCode::CollectionNotFound, .. }));
    assert_eq!(refused.to_string(), "there is no collection `x`");
    let error = client(&server).search_many(&[request("default")]).await.unwrap_err();
    assert!(error.to_string().ends_with("has 2 replies to 1 searches"), "{error}");
}

#[tokio::test]
async fn feedback_is_sent_and_listed() {
    let server =
        script(&[(200, FEEDBACK), (200, &format!("{{\"data\":[{FEEDBACK}],\"next_cursor\":null}}"))]);
    let request = FeedbackRequest {
        query: "q".to_owned(),
        document_id: "d".to_owned(),
        collection: None,
        relevant: Some(true),
        grade: None,
        chunk: None,
    };
    assert!(client(&server).add_feedback(&request).await.unwrap().relevant);
    assert_eq!(client(&server).feedback("default", 5, None).await.unwrap().data.len(), 1);
    assert_eq!(server.requests()[0].json(), json!({"query": "q", "document_id": "d", "relevant": true}));
}

#[tokio::test]
async fn feedback_is_not_repeated_when_its_reply_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let policy = RetryPolicy { unreachable: Duration::from_secs(1), busy: Duration::ZERO };
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(url.clone(), policy);
    // closes each connection when it has read the request
    let server = std::thread::spawn(move || {
        let mut calls = Vec::new();
        while calls.last().is_none_or(|call| call != "GET /livez HTTP/1.1") {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            calls.extend(String::from_utf8_lossy(&head[..read]).lines().next().map(str::to_owned));
        }
        calls
    });
    let request = FeedbackRequest {
        query: "q".to_owned(),
        document_id: "d".to_owned(),
        collection: None,
        relevant: Some(true),
        grade: None,
        chunk: None,
    };
    assert!(matches!(client.add_feedback(&request).await, Err(ClientError::Unreachable { .. })));
    assert!(client.search(&SearchRequest::default()).await.is_err());
    let unrepeated = Client::new(url, RetryPolicy::NONE);
    assert!(unrepeated.liveness().await.is_err());
    let calls = server.join().unwrap();
    let count = |path: &str| calls.iter().filter(|call| call.contains(path)).count();
    assert_eq!(count("/v1/feedback"), 1, "{calls:?}");
    assert!(count("/v1/search") >= 2, "{calls:?}");
}

#[tokio::test]
async fn the_query_log_is_reported() {
    let query = r#"{"query":"q","count":2,"zero_results":0,"relevance":null,"last_asked_at":1.0}"#;
    let list = format!("{{\"data\":[{query}],\"next_cursor\":null}}");
    let server = script(&[(200, &list), (200, &list)]);
    let options =
        QueryLogOptions { report: Some(QueryReport::LowRelevance), limit: Some(7), below: Some(0.25) };
    assert_eq!(client(&server).logged_queries("default", options).await.unwrap()[0].count, 2);
    client(&server).logged_queries("default", QueryLogOptions::default()).await.unwrap();
    let path = "GET /v1/collections/default/queries";
    assert_eq!(calls(&server), [format!("{path}?report=low_relevance&limit=7&below=0.25"), path.to_owned()]);
}

#[tokio::test]
async fn documents_are_reranked_as_texts_of_either_field() {
    let reply = r#"{"id":"r","model":"ce","object":"list","results":[{"index":1,"relevance_score":0.9}],
        "usage":{"prompt_tokens":5,"total_tokens":5},"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1.0},"tokens":{"input_tokens":5}}}"#;
    let polyglot = r#"{"error":{"message":"there is no model `x`. Use","type":"invalid_request_error","param":"model","code":"model_not_found"},
        "message":"there is no model `x`","detail":"there is no model `x`","id":"r"}"#;
    let server = script(&[(200, reply), (200, reply), (404, polyglot)]);
    let documents = ["a", "b"].map(|text| text.to_owned().into()).to_vec();
    let request = RerankRequest {
        model: Some("ce".to_owned()),
        query: "q".to_owned(),
        documents,
        top_n: Some(1_u64.into()),
        ..RerankRequest::default()
    };
    let ranked = client(&server).rerank(request.clone()).await.unwrap();
    assert_eq!(ranked.results[0].index, 1);
    let texts = Some(vec!["a".to_owned(), "b".to_owned()]);
    client(&server).rerank(RerankRequest { documents: Vec::new(), texts, ..request.clone() }).await.unwrap();
    let body = json!({"model": "ce", "query": "q", "documents": [{"text": "a"}, {"text": "b"}], "top_n": 1});
    assert!(server.requests().iter().all(|asked| asked.json() == body && asked.call == "POST /v2/rerank"));
    let error = client(&server).rerank(request).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { code: ErrorCode::ModelNotFound, .. }), "{error}");
}

#[tokio::test]
async fn a_gateway_that_is_not_ready_says_what_is_missing() {
    let server = Server::start(|asked| match asked.call.as_str() {
        "GET /readyz" => Reply::json(503, r#"{"ready":false,"failing":["the model is loaded"]}"#),
        "GET /healthz" => Reply::json(200, r#"{"status":"ok","model_loaded":false,"document_count":3}"#),
        "GET /openapi.json" => Reply::json(200, r#"{"openapi":"3.1.0"}"#),
        "GET /livez" | "GET /metrics" => Reply::new(StatusCode::OK, b"text".to_vec()),
        other => panic!("{other}"),
    });
    let client = client(&server);
    let readiness = client.readiness().await.unwrap();
    assert_eq!((readiness.ready, readiness.failing.len()), (false, 1));
    assert_eq!(client.health().await.unwrap().document_count, Some(3));
    assert_eq!(client.openapi().await.unwrap(), json!({"openapi": "3.1.0"}));
    assert_eq!(
        (client.liveness().await.unwrap(), client.metrics().await.unwrap()),
        ("text".into(), "text".into())
    );
}

#[tokio::test]
async fn models_are_listed_and_named_with_slashes() {
    let model = r#"{"id":"a/b","object":"model","created":1,"owned_by":"weir","alias":[],"capabilities":["embeddings"],"dimensions":3,"max_input_tokens":512,"fingerprint":"f"}"#;
    let server = script(&[
        (200, model),
        (200, &format!("{{\"object\":\"list\",\"data\":[{model}]}}")),
        (200, "{\"object\":\"list\",\"data\":[]}"),
    ]);
    let client = client(&server);
    assert_eq!(client.model("a/b").await.unwrap().dimensions, Some(3));
    assert_eq!(client.models().await.unwrap().len(), 1);
    let error = client.embed(&["a"], &weir_client::EmbeddingOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "the gateway has no embedding model");
    assert_eq!(calls(&server), ["GET /v1/models/a%2Fb", "GET /v1/models", "GET /v1/models"]);
}

#[test]
fn keys_that_no_header_can_hold_are_refused() {
    for key in ["", "a b", "a\nb", "schlüssel"] {
        let client = Client::new("http://127.0.0.1:1".to_owned(), RetryPolicy::NONE);
        assert!(matches!(client.with_api_key(key), Err(ClientError::ApiKey)), "{key:?}");
    }
}
