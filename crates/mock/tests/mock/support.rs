//! A mock on a free port, and requests whose replies are read byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::Value;
use weir_mock::{MockServer, Settings};

/// Longest wait for a reply or a counter; on a busy machine threads start late.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const CHAT_BODY: &str = r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"say hello"}]}"#;
pub(crate) const CHAT_STREAM: &str =
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"say hello"}]}"#;

/// A server with these flags.
pub(crate) struct Mock {
    addr: SocketAddr,
    _server: MockServer,
}

/// A reply, without the chunks of its transfer encoding.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body has the end that its head announces.
    pub(crate) is_complete: bool,
}

pub(crate) fn start(flags: &[&str]) -> Mock {
    let settings = Settings::try_parse_from([&["weir-mock"], flags].concat()).unwrap();
    let server = MockServer::start(settings).unwrap();
    Mock { addr: server.addr(), _server: server }
}

impl Mock {
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sends a POST with these headers.
    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.try_post(path, headers, body).expect("a reply")
    }

    /// The same; `None` if the connection ends before the headers.
    pub(crate) fn try_post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Option<Reply> {
        let mut stream = self.open("POST", path, headers, body);
        let mut bytes = Vec::new();
        // A reset ends the reply like a close: what arrived before it counts.
        let _ = stream.read_to_end(&mut bytes);
        parse(&bytes)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        let mut bytes = Vec::new();
        self.open("GET", path, &[], "").read_to_end(&mut bytes).unwrap();
        parse(&bytes).expect("a reply")
    }

    /// Sends a request and leaves its reply to the caller.
    pub(crate) fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn stats(&self) -> Value {
        self.get("/mock/stats").json()
    }

    /// Waits until the counters have a value at `pointer`.
    #[track_caller]
    pub(crate) fn wait_for(&self, pointer: &str, expected: u64) {
        let start = Instant::now();
        loop {
            let stats = self.stats();
            if stats.pointer(pointer) == Some(&expected.into()) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{pointer} is not {expected}: {stats}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The data of each event.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = self.text().replace("\r\n", "\n");
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }
}

/// The reply in `bytes`, as far as it has arrived; `None` without the end of its head.
pub(crate) fn parse(bytes: &[u8]) -> Option<Reply> {
    let head_len = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..head_len].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let reply = Reply { status, head, body: bytes[head_len..].to_vec(), is_complete: false };
    if reply.header("transfer-encoding") == Some("chunked") {
        let (body, is_complete) = dechunk(&reply.body);
        return Some(Reply { body, is_complete, ..reply });
    }
    let expected: usize = reply.header("content-length").unwrap().parse().unwrap();
    Some(Reply { is_complete: reply.body.len() == expected, ..reply })
}

/// The content of chunks, and whether the last one is there.
fn dechunk(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while let Some(line_len) = bytes.windows(2).position(|window| window == b"\r\n") {
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..line_len]).unwrap(), 16).unwrap();
        if len == 0 {
            return (content, true);
        }
        let chunk = &bytes[line_len + 2..];
        content.extend(&chunk[..len.min(chunk.len())]);
        bytes = chunk.get(len + 2..).unwrap_or_default();
    }
    (content, false)
}
