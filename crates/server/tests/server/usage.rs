//! The request log, read by `/v1/usage`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use weir_policy::{Caller, KeyId, Scope};

use crate::in_process::{InProcess, OPERATOR};

async fn gateway(settings: &[(&str, &str)]) -> InProcess {
    let key = |number| Caller {
        key: Some(KeyId(number)),
        scopes: BTreeSet::from([Scope::Embed]),
        ..Caller::system()
    };
    InProcess::start(settings, BTreeMap::from([("first", key(1)), ("second", key(2))])).await
}

/// The report of a caller as soon as `is_complete`.
async fn report(
    gateway: &InProcess,
    caller: &str,
    query: &str,
    is_complete: impl Fn(&Value) -> bool,
) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let reply = gateway.send(caller, "GET", &format!("/v1/usage?{query}"), "").await.json();
        if is_complete(&reply["data"]) {
            return reply["data"].clone();
        }
        assert!(Instant::now() < until, "{reply}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_counted_for_its_key_and_model() {
    let gateway = gateway(&[]).await;
    let body = json!({"model": "allowed", "input": "a weir"}).to_string();
    for _ in 0..3 {
        assert_eq!(gateway.send("first", "POST", "/v1/embeddings", &body).await.status, 200);
    }
    assert_eq!(gateway.send("second", "POST", "/v1/search", "{}").await.status, 403);
    assert_eq!(gateway.send("unknown", "POST", "/v1/search", "{}").await.status, 401);
    assert_eq!(gateway.send(OPERATOR, "GET", "/livez", "").await.status, 200);
    let errors =
        |data: &Value| data.as_array().map(|rows| rows.iter().filter_map(|row| row["errors"].as_u64()).sum());
    let data = report(&gateway, OPERATOR, "group_by=key,model", |data| errors(data) == Some(2)).await;
    let row = |key: Value, model: Value| {
        data.as_array().unwrap().iter().find(|row| row["key"] == key && row["model"] == model)
    };
    let first = row(json!(1), json!("allowed")).unwrap();
    assert_eq!((&first["requests"], &first["errors"]), (&json!(3), &json!(0)));
    assert!(first["prompt_tokens"].as_u64().unwrap() >= 6, "{first}");
    assert_eq!(row(json!(2), Value::Null).unwrap()["errors"], 1);
    assert!(
        row(Value::Null, Value::Null).unwrap()["errors"].as_u64().unwrap() >= 1,
        "the request without a key"
    );
    let own = report(&gateway, "second", "group_by=key", |data| data[0]["key"] == 2).await;
    assert_eq!(own.as_array().unwrap().len(), 1, "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_client_has_left_is_counted_as_failed() {
    let gateway = gateway(&[]).await;
    let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request = Request::builder()
        .method("POST")
        .uri("/v1/embeddings")
        .header("x-api-key", "first")
        .header("host", "localhost")
        .body(Body::from_stream(never))
        .unwrap();
    let left = tokio::time::timeout(Duration::from_millis(100), gateway.answer(request)).await;
    assert!(left.is_err());
    let data = report(&gateway, OPERATOR, "group_by=key", |data| {
        data.as_array().is_some_and(|rows| rows.iter().any(|row| row["key"] == 1))
    });
    let data = data.await;
    let row = data.as_array().unwrap().iter().find(|row| row["key"] == 1).unwrap();
    assert_eq!((&row["requests"], &row["errors"]), (&json!(1), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_log_the_report_says_how_to_get_one() {
    let gateway = gateway(&[("WEIR_TELEMETRY_REQUESTS", "none")]).await;
    let reply = gateway.send(OPERATOR, "GET", "/v1/usage", "").await;
    assert_eq!(reply.status, 404);
    assert!(reply.text.contains("telemetry.requests"), "{}", reply.text);
    assert_eq!(gateway.send(OPERATOR, "GET", "/v1/usage?group_by=hour", "").await.status, 400);
}
