//! A defect in the gateway is answered, and stops nobody else.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use crate::in_process::{BROKEN, InProcess};

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_before_the_handler_is_answered_as_internal_with_the_request_id() {
    let gateway = InProcess::start(&[], BTreeMap::new()).await;
    for (path, dialect) in
        [("/v1/collections", "application/problem+json"), ("/v1/models", "application/json")]
    {
        let reply = gateway.send(BROKEN, "get", path, "").await;
        assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR, "{}", reply.text);
        assert_eq!(reply.headers["content-type"], dialect, "{path}");
        let id = reply.headers["x-request-id"].to_str().unwrap();
        assert!(id.starts_with("req_"), "{id}");
        let body = reply.json();
        assert_eq!(body["error"]["code"], "internal", "{body}");
        if path == "/v1/collections" {
            assert_eq!(body["request_id"], id);
        }
    }
    let metrics = gateway.ask("get", "/healthz", "").await;
    assert_eq!(metrics["status"], "ok", "the gateway goes on: {metrics}");
}
