//! Requests to a gateway that may be gone the next moment.

use std::time::{Duration, Instant};

use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use weir_client::Transport;

/// A caller. `None` as an answer: the connection broke, and nobody knows what became of the request.
pub(crate) struct Client {
    transport: Transport,
    runtime: Runtime,
    url: String,
    /// Sent with each request that has no other.
    key: Option<String>,
}

/// An answer that came to its end.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
    headers: HeaderMap,
}

/// Bytes of a reply that are read at most.
const REPLY_BYTES_MAX: usize = 256 << 20;

const PATIENCE: Duration = Duration::from_secs(180);

impl Client {
    pub(crate) fn new(url: &str) -> Client {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Client {
            transport: Transport::new(PATIENCE),
            runtime: runtime.unwrap(),
            url: url.to_owned(),
            key: None,
        }
    }

    /// A caller with an API key.
    pub(crate) fn with_key(url: &str, key: &str) -> Client {
        Client { key: Some(format!("Bearer {key}")), ..Client::new(url) }
    }

    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let json = [("content-type", "application/json")];
        self.try_send("POST", path, &json, Some(body.to_string().as_bytes()))?.parsed()
    }

    pub(crate) fn try_delete(&self, id: &str) -> Option<(u16, Value)> {
        self.try_send("DELETE", &document_path(id), &[], None)?.parsed()
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, None).parsed().expect("a JSON reply")
    }

    /// Sends any request whatever; a body is called JSON.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Reply {
        let json = [("content-type", "application/json")];
        let headers = if body.is_some() { json.as_slice() } else { &[] };
        self.try_send(method, path, headers, body).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// Sends any request whatever.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Option<Reply> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(key) =
            self.key.as_ref().filter(|_| headers.iter().all(|(name, _)| *name != "authorization"))
        {
            request = request.header("authorization", key);
        }
        let request = request.body(Full::from(body.unwrap_or_default().to_vec())).unwrap();
        let received = async {
            let (head, body) = self.transport.send(request).await.ok()?.into_parts();
            // a reply that breaks off is no acknowledgement
            let bytes = Limited::new(body, REPLY_BYTES_MAX).collect().await.ok()?.to_bytes().to_vec();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Some(Reply { status: head.status.as_u16(), text, bytes, headers: head.headers })
        };
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, received).await.ok()? })
    }

    /// The document as it is stored; `None` when there is none.
    pub(crate) fn document(&self, id: &str) -> Option<Value> {
        let (status, body) = self.get(&document_path(id));
        match status {
            200 => Some(body),
            404 => None,
            other => panic!("GET {id}: {other} {body}"),
        }
    }

    /// The results of a search for `query`.
    pub(crate) fn search(&self, query: &str, mode: &str) -> Vec<Value> {
        let body = json!({"query": query, "mode": mode, "top_k": 3});
        let (status, reply) = self.try_post("/v1/search", &body).expect("the gateway is up");
        assert_eq!(status, 200, "{reply}");
        reply["results"].as_array().unwrap().clone()
    }

    pub(crate) fn wait_until_ready(&self) {
        let started = Instant::now();
        loop {
            let reply = self.send("GET", "/readyz", None);
            if reply.status == 200 {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "waited too long for readiness: {}", reply.text);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Until every job is finished and no operation waits.
    pub(crate) fn wait_until_searchable(&self) {
        self.wait("the end of all work", || {
            let text = self.send("GET", "/metrics", None).text;
            let waiting = "weir_pending_operations{collection=\"default\"} ";
            let line = text.lines().find_map(|line| line.strip_prefix(waiting)).unwrap();
            line == "0"
        });
    }

    pub(crate) fn wait(&self, what: &str, is_done: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_done() {
            assert!(started.elapsed() < PATIENCE, "waited too long for {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Reply {
    /// The body as JSON; null when it is something else.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The value of a header; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The value of a header; `None` without it.
    pub(crate) fn try_header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn parsed(&self) -> Option<(u16, Value)> {
        Some((self.status, serde_json::from_str(&self.text).ok()?))
    }
}

/// The route of a document of the default collection.
pub(crate) fn document_path(id: &str) -> String {
    format!("/v1/collections/default/documents/{}", percent_encoded(id))
}

/// Everything but letters and digits as `%XX`.
fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}
