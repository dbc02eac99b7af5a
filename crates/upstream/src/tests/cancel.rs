//! A dropped request or reply ends the upstream's work at once, in every phase.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{LIMITS, client, client_with, post, read_request, server, settings};
use crate::{Priority, UpstreamClient, UpstreamRequest};

/// How soon the server must see the end of the connection. It takes less than a millisecond on an idle machine.
const AT_ONCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
enum Phase {
    /// The server does not answer the TLS handshake.
    Connecting,
    /// The server reads the request's body, which has no end.
    Sending,
    /// The server has the request and does not answer.
    BeforeHead,
    /// The server has sent a part of the body.
    InBody,
}

/// Plays the server up to the phase.
async fn enter(phase: Phase, stream: &mut TcpStream) {
    match phase {
        Phase::Connecting => {}
        Phase::Sending => stream.read_exact(&mut [0; 1000]).await.map(drop).unwrap(),
        Phase::BeforeHead => read_request(stream).await.map(drop).unwrap(),
        Phase::InBody => {
            read_request(stream).await.unwrap();
            let start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nstart\r\n";
            stream.write_all(start).await.unwrap();
        }
    }
}

fn request(phase: Phase) -> UpstreamRequest {
    if !matches!(phase, Phase::Sending) {
        return post(LIMITS);
    }
    let endless = stream::repeat_with(|| Ok(hyper::body::Frame::data(Bytes::from_static(&[b'a'; 1000]))));
    UpstreamRequest { body: StreamBody::new(endless).boxed_unsync(), ..post(LIMITS) }
}

/// Drops a request in the phase and returns how long after that the server saw the end of the connection.
async fn close_delay(phase: Phase) -> Duration {
    let (entered, mut is_entered) = mpsc::channel(1);
    let (closed, mut closed_at) = mpsc::channel(1);
    let address = server(move |mut stream| {
        let (entered, closed) = (entered.clone(), closed.clone());
        async move {
            enter(phase, &mut stream).await;
            entered.send(()).await.unwrap();
            let mut rest = [0; 4096];
            while stream.read(&mut rest).await.is_ok_and(|length| length > 0) {}
            closed.send(Instant::now()).await.unwrap();
        }
    })
    .await;
    let client = match phase {
        Phase::Connecting => client_with(settings(&format!("https://{address}"))),
        Phase::Sending | Phase::BeforeHead | Phase::InBody => client(&address),
    };
    let mut in_flight = Box::pin(call(&client, phase));
    tokio::select! {
        () = &mut in_flight => panic!("the server never ends the reply"),
        _ = is_entered.recv() => {}
    }
    // Time to read what the server has sent.
    tokio::time::timeout(Duration::from_millis(20), &mut in_flight).await.expect_err("the reply has no end");
    drop(in_flight);
    let dropped = Instant::now();
    let closed = tokio::time::timeout(AT_ONCE, closed_at.recv()).await;
    for _ in 0..2 {
        let soon = Some(Instant::now() + AT_ONCE);
        client.permit(Priority::Interactive, soon).await.expect("the permit was released");
    }
    closed.expect("the connection was closed").unwrap().saturating_duration_since(dropped)
}

async fn call(client: &UpstreamClient, phase: Phase) {
    let permit = client.permit(Priority::Interactive, None).await.unwrap();
    let mut body = client.send(request(phase), permit).await.unwrap().into_body();
    while body.next().await.is_some() {}
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection_at_once_in_every_phase() {
    for (name, phase) in [
        ("connecting", Phase::Connecting),
        ("sending the body", Phase::Sending),
        ("before the head", Phase::BeforeHead),
        ("in the body", Phase::InBody),
    ] {
        let delay = close_delay(phase).await;
        println!("{name}: closed after {delay:?}");
        assert!(delay < AT_ONCE, "{name}: closed after {delay:?}");
    }
}
