//! Admission, with capacity that the test holds: no load is needed.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use crate::in_process::{InProcess, OPERATOR};

#[tokio::test(flavor = "multi_thread")]
async fn a_search_beyond_the_concurrency_limit_is_refused_before_its_body_is_read() {
    let settings = [("WEIR_LIMITS_SEARCH_CONCURRENCY_MAX", "1")];
    let gateway = InProcess::start(&settings, BTreeMap::new()).await;
    let search = |body: &'static str| gateway.send(OPERATOR, "POST", "/v1/search", body);
    assert_eq!(search(r#"{"query": "weir"}"#).await.status, StatusCode::OK);

    let permit = gateway.retrieval.admit_search().unwrap();
    let refused = search("this is not JSON").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text);
    assert_eq!(refused.json()["code"], "overloaded");
    assert!(refused.text.contains("limits.search_concurrency_max"), "{}", refused.text);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.json()["request_id"], refused.headers["x-request-id"].to_str().unwrap());
    let metrics = gateway.send(OPERATOR, "GET", "/metrics", "").await.text;
    assert!(metrics.contains(r#"route="/v1/search",method="POST",status="503""#), "{metrics}");

    drop(permit);
    assert_eq!(search(r#"{"query": "weir"}"#).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn cheap_requests_are_answered_while_no_search_is_admitted() {
    let settings = [("WEIR_LIMITS_SEARCH_CONCURRENCY_MAX", "1")];
    let gateway = InProcess::start(&settings, BTreeMap::new()).await;
    let _permit = gateway.retrieval.admit_search().unwrap();
    for uri in ["/livez", "/readyz", "/healthz", "/v1/collections", "/v1/models", "/metrics"] {
        assert_eq!(gateway.send(OPERATOR, "GET", uri, "").await.status, StatusCode::OK, "{uri}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_beyond_the_memory_budget_are_refused_in_each_dialect() {
    const LIMIT: usize = 64 << 20;
    let settings = [("WEIR_INFERENCE_MEMORY_LIMIT_BYTES", "67108864")];
    let gateway = InProcess::start(&settings, BTreeMap::new()).await;
    let openai = r#"{"model": "allowed", "input": "weir"}"#;
    let send = |path: &'static str, body: &'static str| gateway.send(OPERATOR, "POST", path, body);
    assert_eq!(send("/v1/embeddings", openai).await.status, StatusCode::OK);

    // everything that the budget has, in halves
    let halves = (0..30).map(|halvings| LIMIT >> halvings);
    let held: Vec<_> =
        halves.filter_map(|bytes| gateway.scheduler.memory_budget().reserve_body(bytes).ok()).collect();
    assert!(!held.is_empty());
    let refused = send("/v1/embeddings", openai).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.json()["error"]["code"], "overloaded");
    assert_eq!(refused.json()["error"]["type"], "server_error");
    let refused = send("/embed", r#"{"inputs": "weir"}"#).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.text);
    assert_eq!(refused.json()["error_type"], "Overloaded");

    drop(held);
    assert_eq!(send("/v1/embeddings", openai).await.status, StatusCode::OK);
}
