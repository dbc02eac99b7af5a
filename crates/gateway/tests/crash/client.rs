//! Requests to a gateway that may be gone the next moment.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A caller. `None` as an answer: the connection broke, and nobody knows what became of the request.
pub(crate) struct Client {
    agent: ureq::Agent,
    url: String,
}

const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    pub(crate) fn new(url: &str) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(20)))
            .build();
        Client { agent: config.new_agent(), url: url.to_owned() }
    }

    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let request =
            self.agent.post(format!("{}{path}", self.url)).header("content-type", "application/json");
        read(request.send(body.to_string()))
    }

    pub(crate) fn try_delete(&self, id: &str) -> Option<(u16, Value)> {
        read(self.agent.delete(format!("{}/v1/collections/default/documents/{id}", self.url)).call())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        read(self.agent.get(format!("{}{path}", self.url)).call()).expect("the gateway is up")
    }

    /// The document as it is stored; `None` when there is none.
    pub(crate) fn document(&self, id: &str) -> Option<Value> {
        let (status, body) = self.get(&format!("/v1/collections/default/documents/{id}"));
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
        self.wait("readiness", || self.get("/readyz").0 == 200);
    }

    /// Until every job is finished and no operation waits.
    pub(crate) fn wait_until_searchable(&self) {
        self.wait("the end of all work", || {
            let text =
                self.agent.get(format!("{}/metrics", self.url)).call().unwrap().into_body().read_to_string();
            let text = text.unwrap();
            let waiting = "weir_pending_operations{collection=\"default\"} ";
            let line = text.lines().find_map(|line| line.strip_prefix(waiting)).unwrap();
            line == "0"
        });
    }

    fn wait(&self, what: &str, is_done: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_done() {
            assert!(started.elapsed() < PATIENCE, "waited too long for {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn read(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Option<(u16, Value)> {
    let answer = answer.ok()?;
    let status = answer.status().as_u16();
    // a reply that breaks off is no acknowledgement
    let text = answer.into_body().read_to_string().ok()?;
    Some((status, serde_json::from_str(&text).ok()?))
}
