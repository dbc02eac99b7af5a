//! The client against scripted servers on loopback.

mod calls;
mod cancel;
mod limits;
mod network;
mod pool;
mod streams;

use std::time::Duration;

use bytes::Bytes;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use weir_telemetry::metrics::Metrics;

use crate::connect::tls;
use crate::{Priority, Result, TimeLimits, UpstreamClient, UpstreamRequest, UpstreamSettings};

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);
const LIMITS: TimeLimits =
    TimeLimits { head: LONG, first_byte: LONG, idle: LONG, total: LONG, deadline: None };

/// A server that runs `serve` for each connection; its address is without a scheme.
async fn server<S, F>(serve: S) -> String
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// A server that answers every request by `reply`, with the connection kept open.
async fn replying(reply: impl Into<String>) -> String {
    let reply = reply.into();
    server(move |mut stream| {
        let reply = reply.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        }
    })
    .await
}

/// A reply with a body of known length.
fn reply(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

/// Head and body of a request; `None` at the end of the connection.
async fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let head = read_head(stream).await?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, String::from_utf8(body).unwrap()))
}

async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

fn settings(url: &str) -> UpstreamSettings {
    UpstreamSettings {
        id: "u".to_owned(),
        name: "`u`".to_owned(),
        url: url.to_owned(),
        api_key: Some("sk-1".to_owned()),
        api_key_header: None,
        ca_file: None,
        connect_timeout: LONG,
        concurrent_requests_max: 2,
        retries_max: 3,
    }
}

fn client_with(settings: UpstreamSettings) -> UpstreamClient {
    let no_proxies = Matcher::builder().build();
    UpstreamClient::with_network(settings, Metrics::new("test"), tls(None).unwrap(), &no_proxies).unwrap()
}

/// A client of the server at `address`.
fn client(address: &str) -> UpstreamClient {
    client_with(settings(&format!("http://{address}/v1")))
}

fn post(limits: TimeLimits) -> UpstreamRequest {
    UpstreamRequest::post_json("/path", "{}", limits)
}

/// One attempt whose reply is read as a whole.
async fn call(client: &UpstreamClient) -> Result<Bytes> {
    let permit = client.permit(Priority::Interactive, None).await?;
    client.send(post(LIMITS), permit).await?.into_body().read(100).await
}
