//! Many open streams of server-sent events.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures_util::{StreamExt as _, future};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use super::{LIMITS, client, client_with, post, read_request, reply, replying, settings};
use crate::{Priority, Result, SseEvent, SseEvents, UpstreamClient, UpstreamSettings};

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

async fn open(client: &UpstreamClient, event_bytes_max: usize) -> Result<SseEvents> {
    let permit = client.permit(Priority::Interactive, None).await?;
    Ok(client.send(post(LIMITS), permit).await?.into_body().events(event_bytes_max))
}

#[tokio::test]
async fn a_reply_is_read_as_events_until_one_is_too_large() {
    let text = format!("data: a\r\n\r\nevent: e\ndata: b\n\ndata: {}\n\ndata: c\n\n", "x".repeat(20));
    let address = replying(reply(200, "content-type: text/event-stream\r\n", &text)).await;
    let client = client(&address);
    let events: Vec<_> = open(&client, 99).await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(events.len(), 4);
    assert_eq!((events[1].event.as_str(), events[1].data.as_str()), ("e", "b"));
    let mut events = open(&client, 20).await.unwrap();
    let first: SseEvent = events.next().await.unwrap().unwrap();
    assert_eq!(first.data, "a");
    events.next().await.unwrap().unwrap();
    let error = events.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("more than 20 bytes"), "{error}");
    assert!(events.next().await.is_none(), "the stream ends after an error");
    assert!(!client.is_saturated());
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
    drop(open(&client, 4096).await.unwrap());
    let before = resident();
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut events = open(&client, 4096).await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap().data, r#"{"number": 0}"#);
        streams.push(events);
    }
    assert!(client.is_saturated(), "every stream holds its permit");
    let per_stream = resident().saturating_sub(before) / count;
    println!("{count} streams: {per_stream} bytes of resident memory each");
    assert!(per_stream < 64 << 10, "{per_stream} bytes");
    let read = streams.into_iter().map(|events| events.map(Result::unwrap).collect::<Vec<_>>());
    for rest in future::join_all(read).await {
        assert_eq!(rest.len(), EVENTS - 1);
        assert_eq!((rest[3].event.as_str(), rest[3].data.as_str()), ("token", r#"{"number": 4}"#));
    }
}
