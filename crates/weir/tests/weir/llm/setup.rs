//! A gateway before mocks of providers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser as _;
use serde_json::{Value, json};
use weir_mock::{MockServer, Settings};

use crate::support::client::{Client, Reply};
use crate::support::process::Weir;

/// A mock of providers.
pub(crate) struct Mock {
    server: MockServer,
    client: Client,
}

impl Mock {
    /// A mock with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Mock {
        let settings = Settings::parse_from([&["weir-mock"], arguments].concat());
        let server = MockServer::start(settings).unwrap();
        let client = Client::new(&format!("http://{}", server.addr()));
        Mock { server, client }
    }

    /// The address with a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.addr())
    }

    /// What it has counted.
    pub(crate) fn stats(&self) -> Value {
        self.client.get("/mock/stats").1
    }

    /// The last request that it received.
    pub(crate) fn last(&self) -> Value {
        let last = self.client.get("/mock/last").1;
        last["requests"].as_array().unwrap().last().expect("a request").clone()
    }

    /// How many requests it has kept for [`Mock::last`].
    pub(crate) fn client_requests(&self) -> usize {
        self.client.get("/mock/last").1["requests"].as_array().unwrap().len()
    }

    /// A header of the last request.
    pub(crate) fn last_header(&self, name: &str) -> Option<String> {
        let last = self.last();
        let headers = last["headers"].as_array().unwrap().clone();
        let found = headers.iter().find(|header| header[0] == name)?;
        Some(found[1].as_str().unwrap().to_owned())
    }

    /// Sends a request to the mock itself.
    pub(crate) fn send(&self, path: &str, body: &Value) -> Reply {
        self.client.send("POST", path, Some(body.to_string().as_bytes()))
    }
}

/// A provider whose every reply is the same text.
pub(crate) struct Scripted {
    address: std::net::SocketAddr,
    /// Requests that were answered.
    pub(crate) requests: Arc<AtomicUsize>,
}

impl Scripted {
    /// `reply`: of HTTP/1.1 from the status on. Its connection stays open for `open_for`.
    pub(crate) fn start(reply: &'static str, open_for: Duration) -> Scripted {
        Scripted::in_parts(vec![(Duration::ZERO, reply.into())], open_for)
    }

    /// A reply in parts, each sent after a pause.
    pub(crate) fn in_parts(parts: Vec<(Duration, Vec<u8>)>, open_for: Duration) -> Scripted {
        let parts = Arc::new(parts);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let counted = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, counted, parts) = (stream.unwrap(), counted.clone(), parts.clone());
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let head = read_until(&mut reader, "\r\n\r\n").to_lowercase();
                    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                    reader.read_exact(&mut vec![0; length.unwrap().parse().unwrap()]).unwrap();
                    counted.fetch_add(1, Ordering::Relaxed);
                    drop(stream.write_all(b"HTTP/1.1 "));
                    for (pause, part) in &*parts {
                        std::thread::sleep(*pause);
                        drop(stream.write_all(part));
                    }
                    std::thread::sleep(open_for);
                });
            }
        });
        Scripted { address, requests }
    }

    /// An upstream of it with OpenAI's API.
    pub(crate) fn upstream(&self, id: &str, more: &str) -> String {
        self.upstream_of("openai", id, &format!("retries_max = 0\n{more}"))
    }

    /// An upstream of it with the API of a provider.
    pub(crate) fn upstream_of(&self, provider: &str, id: &str, more: &str) -> String {
        let path = if provider == "openai" { "/v1" } else { "" };
        let url = format!("http://{}{path}", self.address);
        format!("[[upstreams]]\nid = \"{id}\"\nprovider = \"{provider}\"\nurl = \"{url}\"\n{more}\n")
    }
}

/// A gateway with a configuration file.
pub(crate) struct Proxy {
    pub(crate) weir: Weir,
    pub(crate) client: Client,
    pub(crate) file: PathBuf,
    folder: tempfile::TempDir,
}

/// An upstream with OpenAI's API. All options of the mock may be sent through it.
pub(crate) fn upstream(id: &str, mock: &Mock, more: &str) -> String {
    let headers = weir_mock::options()
        .map(|option| format!("\"x-mock-{}\"", option.name))
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "[[upstreams]]\nid = \"{id}\"\nprovider = \"openai\"\nurl = \"{}\"\napi_key = \"env:PROVIDER_KEY\"\nheaders = [{headers}]\n{more}\n",
        mock.url("/v1")
    )
}

/// The key of the providers.
pub(crate) const PROVIDER_KEY: &str = "sk-provider-key-of-the-gateway";

impl Proxy {
    /// A gateway with these tables of the LLM gateway.
    pub(crate) fn start(tables: &str) -> Proxy {
        Proxy::start_with(tables, &[])
    }

    /// The same with environment variables.
    pub(crate) fn start_with(tables: &str, variables: &[(&str, &str)]) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, tables).unwrap();
        let (weir, client) = Proxy::start_over(folder.path(), variables);
        Proxy { weir, client, file, folder }
    }

    /// Starts a gateway over the same data after the one before was killed.
    pub(crate) fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// The same with environment variables.
    pub(crate) fn start_again_with(&mut self, variables: &[(&str, &str)]) {
        (self.weir, self.client) = Proxy::start_over(self.folder.path(), variables);
    }

    fn start_over(folder: &Path, variables: &[(&str, &str)]) -> (Weir, Client) {
        let file = folder.join("weir.toml");
        let path = file.display().to_string();
        let variables =
            [&[("WEIR_CONFIG", path.as_str()), ("PROVIDER_KEY", PROVIDER_KEY)], variables].concat();
        // writes beyond a limit of file sizes fail, as on a full disk, instead of ending the process
        let mut shell = Command::new("/bin/bash");
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir")]);
        let weir = Weir::start_by(shell, &folder.join("data"), &variables);
        let client = Client::new(&weir.url);
        (weir, client)
    }

    /// Sends a chat request with headers.
    pub(crate) fn chat(&self, body: &Value, headers: &[(&str, &str)]) -> Option<Reply> {
        self.post("/v1/chat/completions", body, headers)
    }

    /// Sends any request with headers; `None` when the reply broke off.
    pub(crate) fn post(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Option<Reply> {
        let headers = [&[("content-type", "application/json")], headers].concat();
        self.client.try_send("POST", path, &headers, Some(body.to_string().as_bytes()))
    }

    /// Creates a key; its text.
    pub(crate) fn key(&self, by: &str, request: &Value) -> String {
        let bearer = format!("Bearer {by}");
        let reply = self.post("/v1/keys", request, &[("authorization", &bearer)]).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["key"].as_str().unwrap().to_owned()
    }

    /// The sums of a model; null as long as there is no row.
    pub(crate) fn usage_of(&self, model: &str) -> Value {
        let sums = self.client.get("/v1/usage?group_by=model").1;
        let found = sums["data"]
            .as_array()
            .unwrap_or_else(|| panic!("{sums}"))
            .iter()
            .find(|sum| sum["model"] == model)
            .cloned();
        found.unwrap_or_default()
    }

    /// A stream of chat completions, whose bytes are read as they come.
    pub(crate) fn open(&self, body: &Value, headers: &[(&str, &str)]) -> BufReader<TcpStream> {
        self.open_at("/v1/chat/completions", body, headers)
    }

    /// A stream of any route.
    pub(crate) fn open_at(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> BufReader<TcpStream> {
        let address = self.weir.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let body = body.to_string();
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream)
    }
}

/// Reads lines until one contains `part`; what was read.
pub(crate) fn read_until(reader: &mut BufReader<TcpStream>, part: &str) -> String {
    let mut read = String::new();
    while !read.contains(part) {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the connection ended after {read}");
        read.push_str(&line);
    }
    read
}

/// Reads to the end of a chunked body, or until the connection is closed; what was read, and whether the body had its end.
pub(crate) fn read_to_close(reader: &mut BufReader<TcpStream>) -> (String, bool) {
    let mut bytes = Vec::new();
    let is_whole = loop {
        let part = reader.fill_buf().unwrap_or_default();
        let length = part.len();
        bytes.extend_from_slice(part);
        reader.consume(length);
        if bytes.ends_with(b"\r\n0\r\n\r\n") {
            break true;
        }
        if length == 0 {
            break false;
        }
    };
    (String::from_utf8_lossy(&bytes).into_owned(), is_whole)
}

/// A chat request to a model.
pub(crate) fn ask(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "what is a weir"}]})
}

/// The same as a stream.
pub(crate) fn ask_stream(model: &str) -> Value {
    json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "what is a weir"}]})
}
