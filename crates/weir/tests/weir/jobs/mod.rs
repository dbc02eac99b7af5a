//! Jobs from outside: their cancellation, their events, what they wait for, and what is told of their end.

mod events;
pub(crate) mod receiver;
mod rechunking;
mod steering;
mod waiting;
mod webhooks;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::gateway::Gateway;
use crate::upstreams::configuration;
use crate::upstreams::scripted::{Answer, Upstream, error};

/// The model embeds texts with this word only when it is released.
const HELD: &str = "held";

/// The model refuses texts with this word.
const REFUSED: &str = "refused";

/// A model on another server that can be made to wait.
struct Model {
    upstream: Upstream,
    is_held: Arc<AtomicBool>,
}

impl Model {
    /// One that waits at texts with [`HELD`].
    fn holding() -> Model {
        let is_held = Arc::new(AtomicBool::new(true));
        let held = is_held.clone();
        let upstream = Upstream::start(move |_, asked| {
            let (started, texts) = (Instant::now(), asked.texts());
            if texts.iter().any(|text| text.contains(REFUSED)) {
                return error(400);
            }
            while texts.iter().any(|text| text.contains(HELD))
                && held.load(Ordering::Relaxed)
                && started.elapsed() < Duration::from_secs(100)
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Answer::Embeddings
        });
        Model { upstream, is_held }
    }

    fn hold(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    fn release(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }
}

/// A gateway over `folder` that uses the model at `url`, and applies two documents at a time.
fn start(folder: &Path, url: &str, variables: &[(&str, &str)]) -> Gateway {
    start_with(folder, url, "dimension = 4", variables)
}

/// The same with these fields of the model.
fn start_with(folder: &Path, url: &str, fields: &str, variables: &[(&str, &str)]) -> Gateway {
    let file = configuration("openai", url, fields);
    let mut all = vec![
        ("WEIR_MODEL", ""),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "2"),
        ("WEIR_CONFIG", file.path().to_str().unwrap()),
    ];
    all.extend(variables);
    let gateway = Gateway::start_in(folder, &all);
    gateway.wait_until_ready();
    gateway
}

/// A document whose text has its id as a word.
fn document(id: &str, words: &str) -> Value {
    json!({"id": id, "text": format!("{id} {words}")})
}

/// Sends documents; the path of their job.
fn send(gateway: &Gateway, documents: &[Value]) -> String {
    let (status, job) = gateway.try_post("/v1/ingest", &json!({"documents": documents})).unwrap();
    assert_eq!(status, 202, "{job}");
    format!("/v1/jobs/{}", job["job_id"].as_str().unwrap())
}

/// Calls a route of a job without a body.
fn post(gateway: &Gateway, path: &str) -> (u16, Value) {
    let reply = gateway.send("POST", path, None);
    (reply.status, reply.json())
}

/// Waits for the status of a job; the job.
fn wait_for(gateway: &Gateway, job: &str, status: &str) -> Value {
    gateway.wait(status, || gateway.get(job).1["status"] == status);
    gateway.get(job).1
}

/// The ids and states of the documents of a job.
fn states(gateway: &Gateway, job: &str) -> Vec<(String, String)> {
    let (status, list) = gateway.get(&format!("{job}/documents"));
    assert_eq!(status, 200, "{list}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let listed = list["data"].as_array().unwrap().iter();
    listed.map(|one| (text(&one["document_id"]), text(&one["state"]))).collect()
}

/// The documents that a lexical search for one word finds.
fn found(gateway: &Gateway, word: &str) -> Vec<String> {
    let hits = gateway.search(word, "lexical");
    hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}
