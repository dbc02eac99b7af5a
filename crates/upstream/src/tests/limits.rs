//! Time limits of attempts.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;

use super::{LIMITS, LONG, client, client_with, post, read_request, server, settings};
use crate::{Awaited, Priority, Result, TimeLimits, UpstreamClient, UpstreamError, UpstreamSettings};

const SHORT: Duration = Duration::from_millis(50);

/// A server that sends a head, then a chunk, and then nothing, as far as `parts` says.
async fn stalling(parts: usize) -> String {
    server(move |mut stream| async move {
        read_request(&mut stream).await;
        for part in
            ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "5\r\nchunk\r\n"].iter().take(parts)
        {
            stream.write_all(part.as_bytes()).await.unwrap();
        }
        tokio::time::sleep(LONG).await;
    })
    .await
}

/// One attempt, to the end of its reply.
async fn call(client: &UpstreamClient, limits: TimeLimits) -> Result<()> {
    let permit = client.permit(Priority::Interactive, None).await?;
    let mut body = client.send(post(limits), permit).await?.into_body();
    while let Some(chunk) = body.next().await {
        chunk?;
    }
    Ok(())
}

async fn check_timeout(parts: usize, limits: TimeLimits, expected: Awaited) {
    let client = client(&stalling(parts).await);
    let started = Instant::now();
    let error = call(&client, limits).await.unwrap_err();
    assert!(
        matches!(error, UpstreamError::Timeout { awaited, waited: SHORT, .. } if awaited == expected),
        "{error:?}"
    );
    assert!((SHORT..LONG / 2).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_first_byte_of_the_body_has_a_limit() {
    check_timeout(0, TimeLimits { first_byte: SHORT, ..LIMITS }, Awaited::FirstByte).await;
    check_timeout(0, TimeLimits { head: SHORT, ..LIMITS }, Awaited::Head).await;
    check_timeout(1, TimeLimits { first_byte: SHORT, ..LIMITS }, Awaited::FirstByte).await;
}

#[tokio::test]
async fn silence_within_a_body_has_a_limit() {
    check_timeout(2, TimeLimits { idle: SHORT, ..LIMITS }, Awaited::Chunk).await;
}

#[tokio::test]
async fn silence_is_measured_from_the_last_part() {
    let (idle, pause) = (Duration::from_secs(1), Duration::from_millis(100));
    let address = server(move |mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        for _ in 0..3 {
            tokio::time::sleep(pause).await;
            stream.write_all(b"5\r\nchunk\r\n").await.unwrap();
        }
        tokio::time::sleep(LONG).await;
    })
    .await;
    let started = Instant::now();
    let error = call(&client(&address), TimeLimits { first_byte: idle, idle, ..LIMITS }).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Timeout { waited, .. } if waited == idle), "{error:?}");
    assert!((3 * pause + idle..LONG / 2).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_attempt_as_a_whole_has_a_limit() {
    for parts in 0..3 {
        check_timeout(parts, TimeLimits { total: SHORT, ..LIMITS }, Awaited::End).await;
    }
}

#[tokio::test]
async fn a_stream_may_last_longer_than_its_idle_limit() {
    let address = server(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        for _ in 0..15 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            stream.write_all(b"5\r\nchunk\r\n").await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    })
    .await;
    let second = Duration::from_secs(1);
    call(&client(&address), TimeLimits { first_byte: second, idle: second, ..LIMITS }).await.unwrap();
}

#[tokio::test]
async fn connecting_has_a_limit() {
    let address = server(|stream| async move {
        tokio::time::sleep(LONG).await;
        drop(stream);
    })
    .await;
    let url = format!("https://{address}");
    let client = client_with(UpstreamSettings { connect_timeout: SHORT, ..settings(&url) });
    let error = call(&client, LIMITS).await.unwrap_err();
    assert!(error.to_string().contains("can't be reached: connecting took too long"), "{error}");
}

#[tokio::test]
async fn the_callers_deadline_does_not_count_against_the_upstream() {
    let client = client(&stalling(0).await);
    let soon = || Some(Instant::now() + SHORT);
    for _ in 0..6 {
        let error = call(&client, TimeLimits { deadline: soon(), ..LIMITS }).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Timeout { .. }), "{error:?}");
    }
    for _ in 0..5 {
        call(&client, TimeLimits { total: SHORT, ..LIMITS }).await.unwrap_err();
    }
    assert!(matches!(call(&client, LIMITS).await, Err(UpstreamError::Open { .. })));
    let past = TimeLimits { deadline: Some(Instant::now()), ..LIMITS };
    let client = super::client(&stalling(0).await);
    assert!(matches!(call(&client, past).await, Err(UpstreamError::Timeout { waited: Duration::ZERO, .. })));
}
