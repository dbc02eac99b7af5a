//! Many open streams of server-sent events.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures_util::{StreamExt as _, future};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use super::{LIMITS, client_with, post, read_request, settings};
use weir_translate::{SseDecoder, SseEvent};

use crate::{Priority, ReplyBody, Result, UpstreamClient, UpstreamSettings};

/// The number of streams that are open at once, 500 by default.
const STREAMS: &str = "WEIR_SSE_STREAMS";
/// Set in the process that is the server.
const SERVER: &str = "WEIR_SSE_SERVER";
const EVENTS: usize = 5;

#[expect(clippy::disallowed_methods, reason = "a setting of this test")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn streams() -> usize {
    variable(STREAMS).map_or(500, |count| count.parse().unwrap())
}

async fn open(client: &UpstreamClient) -> Result<ReplyBody> {
    let permit = client.permit(Priority::Interactive, None).await?;
    Ok(client.send(post(LIMITS), permit).await?.into_body())
}

/// The next event; `None` at the end.
async fn next_event(body: &mut ReplyBody, decoder: &mut SseDecoder) -> Option<SseEvent> {
    loop {
        if let Some(event) = decoder.next_event().unwrap() {
            return Some(event);
        }
        decoder.push(body.next().await?.unwrap());
    }
}

/// The server of [`many_streams_are_open_at_once`], in a process of its own: file descriptors are limited per process, and the memory of
/// the client is measured alone.
#[tokio::test]
#[ignore = "run by many_streams_are_open_at_once"]
async fn scripted_event_server() {
    if variable(SERVER).is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("\nserver at {}", listener.local_addr().unwrap());
    let all_open = Arc::new(Barrier::new(streams() + 1));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve_events(stream, all_open.clone()));
    }
}

/// One event at once, the others when all streams and the first one, which only warms up, have been opened.
async fn serve_events(mut stream: TcpStream, all_open: Arc<Barrier>) {
    read_request(&mut stream).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for number in 0..EVENTS {
        let event = format!("event: token\ndata: {{\"number\": {number}}}\n\n");
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            return;
        }
        if number == 0 {
            all_open.wait().await;
        }
    }
    drop(stream.write_all(b"0\r\n\r\n").await);
}

/// Ends the server with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).unwrap();
    }
}

async fn start_server() -> (Server, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::streams::scripted_event_server", "--ignored", "--nocapture"])
        .env(SERVER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = tokio::process::ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
    let server = Server(child);
    let mut lines = BufReader::new(output).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("the server prints its address");
        if let Some(address) = line.strip_prefix("server at ") {
            return (server, address.to_owned());
        }
    }
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn many_streams_are_open_at_once() {
    let count = streams();
    let (_server, address) = start_server().await;
    let url = format!("http://{address}");
    let client = client_with(UpstreamSettings { concurrent_requests_max: count, ..settings(&url) });
    drop(open(&client).await.unwrap());
    let before = resident();
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut body, mut decoder) = (open(&client).await.unwrap(), SseDecoder::new(4096));
        let first = next_event(&mut body, &mut decoder).await.unwrap();
        assert_eq!(first.data(), Some(&br#"{"number": 0}"#[..]));
        streams.push((body, decoder));
    }
    assert!(client.is_saturated(), "every stream holds its permit");
    let per_stream = resident().saturating_sub(before) / count;
    println!("{count} streams: {per_stream} bytes of resident memory each");
    assert!(per_stream < 64 << 10, "{per_stream} bytes");
    let read = streams.into_iter().map(async |(mut body, mut decoder)| {
        let mut rest = Vec::new();
        while let Some(event) = next_event(&mut body, &mut decoder).await {
            rest.push(event);
        }
        rest
    });
    for rest in future::join_all(read).await {
        assert_eq!(rest.len(), EVENTS - 1);
        assert_eq!((rest[3].name(), rest[3].data()), (&b"token"[..], Some(&br#"{"number": 4}"#[..])));
    }
}
