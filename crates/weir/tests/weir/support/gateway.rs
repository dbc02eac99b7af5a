//! A gateway for one test alone.

use std::io::Write;
use std::net::TcpStream;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::Client;
use super::process::Weir;

/// A gateway over a folder of its own, and a client of it.
pub(crate) struct Gateway {
    pub(crate) weir: Weir,
    client: Client,
    /// Removed when the gateway is gone.
    folder: TempDir,
}

impl Gateway {
    /// One whose query lane and interactive lane are full as soon as a text waits for another.
    pub(crate) fn start_narrow() -> Gateway {
        let model = in_repository("models/all-MiniLM-L6-v2");
        Gateway::start_with(&[
            ("WEIR_MODEL", model.to_str().unwrap()),
            ("WEIR_INFERENCE_THREADS", "1"),
            ("WEIR_INFERENCE_QUERY_WAIT_MS_MAX", "1"),
            ("WEIR_INFERENCE_REQUEST_WAIT_MS_MAX", "1"),
            ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
        ])
    }

    pub(crate) fn start() -> Gateway {
        Gateway::start_with(&[])
    }

    /// Starts with these variables set.
    pub(crate) fn start_with(variables: &[(&str, &str)]) -> Gateway {
        let folder = tempfile::tempdir().unwrap();
        let weir = Weir::start_with(folder.path(), variables);
        let client = Client::new(&weir.url);
        Gateway { weir, client, folder }
    }

    /// The same over a folder that stays.
    pub(crate) fn start_in(folder: &Path, variables: &[(&str, &str)]) -> Gateway {
        let weir = Weir::start_with(folder, variables);
        let client = Client::new(&weir.url);
        Gateway { weir, client, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ingests documents into the default collection and returns the job when all of them are searchable.
    pub(crate) fn ingest(&self, documents: &[Value]) -> Value {
        let body = json!({ "documents": documents }).to_string();
        let reply = self.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes()));
        assert_eq!(reply.status, 202, "{}", reply.text);
        let mut job = reply.json();
        if job["status"] == "pending" || job["status"] == "running" {
            // on a busy machine the work takes longer than a reply waits
            self.wait_until_searchable();
            job = self.get(&format!("/v1/jobs/{}", job["job_id"].as_str().unwrap())).1;
        }
        assert_eq!(job["status"], "completed", "{job}");
        job
    }

    /// A connection for bytes that no client would send.
    pub(crate) fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.weir.url.strip_prefix("http://").unwrap()).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        connection
    }

    /// A connection with a request of which the first byte of the body came and no other will.
    pub(crate) fn stall(&self, path: &str, announced: usize) -> TcpStream {
        let mut stalled = self.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {announced}\r\n\r\n{{"
        );
        stalled.write_all(head.as_bytes()).unwrap();
        stalled
    }

    pub(crate) fn document_count(&self) -> u64 {
        self.get("/healthz").1["document_count"].as_u64().unwrap()
    }
}

impl Deref for Gateway {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A file or folder of the repository.
pub(crate) fn in_repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
