//! Requests, replies, retries, permits and the circuit breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::{
    LIMITS, call, client, client_with, post, read_head, read_request, reply, replying, server, settings,
};
use crate::{Awaited, Permit, Priority, UpstreamClient, UpstreamError, UpstreamRequest};

async fn permit(client: &UpstreamClient) -> Permit {
    client.permit(Priority::Interactive, None).await.unwrap()
}

#[tokio::test]
async fn a_request_carries_the_address_the_key_and_the_program_and_connections_are_reused() {
    let (heads, mut seen) = mpsc::channel(9);
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let address = server(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        let heads = heads.clone();
        async move {
            while let Some(request) = read_request(&mut stream).await {
                heads.send(request).await.unwrap();
                stream.write_all(reply(200, "x-id: 7\r\n", "answer").as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let client = client(&address);
    let answer = client.send(post(LIMITS), permit(&client).await).await.unwrap();
    assert_eq!((answer.status(), &answer.headers()["x-id"]), (StatusCode::OK, &"7".parse().unwrap()));
    assert_eq!(answer.into_body().read(6).await.unwrap(), "answer");
    let (head, body) = seen.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/path HTTP/1.1\r\n"), "{head}");
    for line in ["authorization: Bearer sk-1", "content-type: application/json", &format!("host: {address}")]
    {
        assert!(head.lines().any(|found| found == line), "`{line}` is not in {head}");
    }
    assert!(head.contains("user-agent: weir/"), "{head}");
    assert_eq!(body, "{}");
    for _ in 0..9 {
        tokio::time::sleep(Duration::from_millis(5)).await; // until the connection is back in the pool
        call(&client).await.unwrap();
    }
    assert!(connections.load(Ordering::Relaxed) < 5, "{connections:?}");
}

#[tokio::test]
async fn bodies_are_streams_in_both_directions() {
    let address = server(|mut stream| async move {
        read_head(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let mut chunk = [0; 64];
        loop {
            let length = stream.read(&mut chunk).await.unwrap(); // chunked, and echoed as it is
            if length == 0 {
                return;
            }
            stream.write_all(&chunk[..length]).await.unwrap();
        }
    })
    .await;
    let client = client(&address);
    let (chunks, source) = mpsc::channel::<&'static str>(1);
    let body = stream::unfold(source, |mut source| async {
        let chunk = source.recv().await?;
        Some((Ok(Frame::data(Bytes::from(chunk))), source))
    });
    let request = UpstreamRequest { body: StreamBody::new(body).boxed_unsync(), ..post(LIMITS) };
    let mut body = client.send(request, permit(&client).await).await.unwrap().into_body();
    for text in ["first", "second", "third"] {
        chunks.send(text).await.unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), text);
    }
    drop(chunks);
    assert!(body.next().await.is_none());
}

#[tokio::test]
async fn errors_have_a_class_a_message_without_the_key_and_the_requested_delay() {
    let body = r#"{"error":{"message":"no key sk-1 \u0073k-1"}}"#;
    let check = async |status: u16, headers: &str, retryable: bool, words: &str| {
        let client = client(&replying(reply(status, headers, body)).await);
        let error = call(&client).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains("no key [secret] [secret]"), "{error}");
        assert_eq!(error.is_retryable(), retryable, "{error}");
        error.retry_after()
    };
    assert_eq!(check(429, "retry-after: 2\r\n", true, "takes no more").await, Some(Duration::from_secs(2)));
    let at_once = Some(Duration::from_millis(5));
    assert_eq!(check(503, "retry-after-ms: 5\r\n", true, "answered 503").await, at_once);
    assert_eq!(check(401, "", false, "; check its `api_key`").await, None);
    let unreachable = client("127.0.0.1:1");
    let error = call(&unreachable).await.unwrap_err();
    assert!(error.to_string().contains("can't be reached: tcp connect error: Connection refused"), "{error}");
}

#[tokio::test]
async fn a_reply_that_is_too_large_or_cut_off_is_an_error() {
    let client = client(&replying(reply(200, "", &"a".repeat(101))).await);
    let error = call(&client).await.unwrap_err();
    assert!(error.to_string().contains("more than 100 bytes"), "{error}");
    let cut_off = server(|mut stream| async move {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc").await.unwrap();
    });
    let client = super::client(&cut_off.await);
    for _ in 0..5 {
        let error = call(&client).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Broken { .. }) && error.is_retryable(), "{error:?}");
    }
    assert!(
        matches!(call(&client).await, Err(UpstreamError::Open { .. })),
        "replies that break are failures"
    );
}

#[tokio::test]
async fn retries_stop_at_the_configured_number_and_at_the_budget() {
    let client = client(&replying(reply(503, "", "")).await);
    let mut attempts = 0;
    let mut retries = client.retries(None);
    loop {
        attempts += 1;
        if retries.wait(call(&client).await.unwrap_err()).await.is_err() {
            break;
        }
    }
    assert_eq!(attempts, 4);
    let timeout =
        UpstreamError::Timeout { upstream: String::new(), awaited: Awaited::End, waited: Duration::ZERO };
    let mut granted = 0;
    for _ in 0..9 {
        granted += usize::from(client.retries(None).wait(timeout.clone()).await.is_ok());
    }
    assert_eq!(granted, 7, "a budget of 10");
    let past = client.retries(Some(Instant::now())).wait(timeout.clone()).await;
    assert_eq!(past, Err(timeout), "no retry begins after the deadline");
    let refused = UpstreamError::Reply { upstream: String::new(), reason: String::new() };
    assert_eq!(client.retries(None).wait(refused.clone()).await, Err(refused));
}

#[tokio::test]
async fn an_upstream_that_fails_five_times_is_not_called_until_a_probe() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let address = server(move |mut stream| {
        let calls = counted.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                let is_down = calls.fetch_add(1, Ordering::Relaxed) < 5;
                let reply = reply(if is_down { 500 } else { 200 }, "", "");
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let client = client(&address);
    for _ in 0..5 {
        assert!(matches!(call(&client).await, Err(UpstreamError::Status { status: 500, .. })));
    }
    let Err(UpstreamError::Open { retry_after, .. }) = call(&client).await else {
        panic!("the breaker is closed")
    };
    assert_eq!(calls.load(Ordering::Relaxed), 5);
    tokio::time::sleep(retry_after).await;
    call(&client).await.unwrap();
}

#[tokio::test]
async fn background_work_leaves_a_permit_and_a_reply_releases_its_own() {
    let client = client(&replying(reply(200, "", "body")).await);
    let first = client.permit(Priority::Background, None).await.unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(20));
    let second = client.permit(Priority::Background, soon).await;
    assert!(matches!(second, Err(UpstreamError::Timeout { .. })), "one is left to interactive callers");
    assert!(!client.is_saturated());
    let mut body = client.send(post(LIMITS), permit(&client).await).await.unwrap().into_body();
    assert!(client.is_saturated());
    while body.next().await.is_some() {}
    assert!(!client.is_saturated(), "the end of the body releases the permit");
    let body = client.send(post(LIMITS), permit(&client).await).await.unwrap().into_body();
    assert!(client.is_saturated());
    drop((body, first));
    let (_a, _b) = (permit(&client).await, permit(&client).await);
    assert!(client.is_saturated());
}

#[tokio::test]
async fn a_key_that_no_header_can_hold_is_refused() {
    for (key, url) in [("a\nb", "http://weir.example"), ("sk-1", "weir example")] {
        let settings = crate::UpstreamSettings { api_key: Some(key.to_owned()), ..settings(url) };
        let made = UpstreamClient::new(settings, weir_telemetry::metrics::Metrics::new("test"));
        assert!(made.is_err(), "{key} {url}");
    }
    drop(client_with(settings("http://weir.example")));
}
