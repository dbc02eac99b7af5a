//! Requests by web pages of other origins.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Request, StatusCode};

use crate::in_process::{InProcess, OPERATOR, Reply};

const APP: &str = "https://app.example.com";

async fn gateway(origins: &str) -> InProcess {
    InProcess::start(&[("WEIR_SERVER_CORS_ORIGINS", origins)], BTreeMap::new()).await
}

/// What a browser sends for a page of `origin`: before a search with a JSON body, or instead of it.
async fn ask(gateway: &InProcess, method: &str, origin: &str) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(if method == "OPTIONS" { "/v1/search" } else { "/v1/collections" })
        .header("host", "localhost")
        .header("origin", origin)
        .header("x-api-key", OPERATOR);
    let request = match method {
        "OPTIONS" => request
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,x-api-key"),
        _ => request,
    };
    gateway.answer(request.body(Body::empty()).unwrap()).await
}

fn header<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    reply.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_listed_origin_may_send_requests_and_read_the_replies() {
    let gateway = gateway(&format!("http://localhost:3000, {APP}")).await;
    let preflight = ask(&gateway, "OPTIONS", APP).await;
    assert_eq!(preflight.status, StatusCode::OK);
    assert_eq!(header(&preflight, "access-control-allow-origin"), Some(APP));
    assert_eq!(header(&preflight, "access-control-allow-headers"), Some("content-type,x-api-key"));
    assert!(header(&preflight, "access-control-allow-methods").unwrap().contains("POST"));
    let reply = ask(&gateway, "GET", APP).await;
    assert_eq!((reply.status, header(&reply, "access-control-allow-origin")), (StatusCode::OK, Some(APP)));
    assert_eq!(header(&reply, "access-control-expose-headers"), Some("*"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_is_refused_and_can_read_nothing() {
    for origins in ["", APP] {
        let gateway = gateway(origins).await;
        for origin in
            ["https://evil.example", "http://app.example.com", "https://app.example.com.evil.example"]
        {
            let preflight = ask(&gateway, "OPTIONS", origin).await;
            assert_eq!(header(&preflight, "access-control-allow-origin"), None, "{origin}");
            let reply = ask(&gateway, "GET", origin).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{origin}");
            assert_eq!(header(&reply, "access-control-allow-origin"), None, "{origin}");
            assert_eq!(reply.json()["error"]["code"], "host_not_allowed", "{origin}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_star_lists_every_origin() {
    let gateway = gateway("*").await;
    let reply = ask(&gateway, "GET", "https://anything.example").await;
    assert_eq!(reply.status, StatusCode::OK);
}
