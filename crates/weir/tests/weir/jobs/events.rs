//! The events of a job: its progress with rate and remaining time, and its end.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{HELD, Model, document, send, start, wait_for};
use crate::support::gateway::Gateway;

/// An open stream of events.
pub(super) struct Events(BufReader<TcpStream>);

impl Events {
    /// Asks for the events of a job and reads the head of the reply.
    pub(super) fn open(gateway: &Gateway, job: &str) -> (Events, String) {
        let mut connection = gateway.connect();
        let request = format!("GET {job}/events HTTP/1.0\r\nhost: localhost\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut events = Events(BufReader::new(connection));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(events.0.read_line(&mut head).unwrap(), 0, "{head}");
        }
        (events, head.to_ascii_lowercase())
    }

    /// The name and the job of the next event; `None` at the end.
    pub(super) fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(text) = line.strip_prefix("event: ") {
                text.trim_end().clone_into(&mut name);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

#[test]
fn events_show_progress_with_rate_and_remaining_time_and_end_with_the_last_state() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let settings = [("WEIR_INGEST_BATCH_TOKENS_MAX", "1024"), ("WEIR_CHUNKING_MAX_TOKENS", "40")];
    let gateway = start(folder.path(), &model.upstream.url, &settings);
    let text = format!("{} {HELD}.", "A sentence of a large document. ".repeat(4_000));
    let job = send(&gateway, &[serde_json::json!({"id": "large", "text": text}), document("a", "river")]);
    let (mut events, head) = Events::open(&gateway, &job);
    assert!(head.contains("200 ok") && head.contains("content-type: text/event-stream"), "{head}");
    // most of the text is embedded, and then the model waits
    let begun = Instant::now();
    let (mut best, mut rated) = (0.0_f64, None);
    while rated.is_none() && begun.elapsed() < Duration::from_secs(60) {
        let (name, state) = events.next().unwrap();
        assert_eq!((name.as_str(), &state["finished_at"]), ("progress", &Value::Null), "{state}");
        let progress = state["progress"].as_f64().unwrap();
        assert!(progress >= best && progress < 1.0, "{progress} after {best}");
        best = progress;
        rated = state["chunks_per_second"].as_f64().zip(state["eta_seconds"].as_f64());
    }
    let (rate, left) = rated.expect("a rate and a remaining time");
    assert!(rate > 0.0 && left > 0.0, "{rate} chunks/s, {left} s");
    drop(events);

    // a client that was interrupted asks again
    let (mut events, _) = Events::open(&gateway, &job);
    assert_eq!(events.next().unwrap().0, "progress");
    model.release();
    let mut last = events.next();
    while last.as_ref().is_some_and(|(name, _)| name == "progress") {
        last = events.next();
    }
    let (name, state) = last.expect("an event at the end");
    assert_eq!((name.as_str(), state["status"].as_str()), ("end", Some("completed")), "{state}");
    assert_eq!(state, gateway.get(&job).1);
    assert!(state["eta_seconds"].is_null() && state["chunks_per_second"].is_null(), "{state}");
    assert!(events.next().is_none(), "nothing follows the end");

    let (mut events, _) = Events::open(&gateway, &job);
    assert_eq!(events.next().unwrap().0, "end", "that of a finished job is the first event");
    assert_eq!(gateway.get("/v1/jobs/none/events").0, 404);
}

#[test]
fn streams_are_bounded_and_do_not_delay_a_stop() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let gateway = start(folder.path(), &model.upstream.url, &[("WEIR_LIMITS_JOB_STREAMS_MAX", "1")]);
    let job = send(&gateway, &[document("a", HELD)]);
    let (mut events, _) = Events::open(&gateway, &job);
    assert_eq!(events.next().unwrap().0, "progress");
    let refused = gateway.send("GET", &format!("{job}/events"), None);
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert!(refused.text.contains("limits.job_streams_max"), "{}", refused.text);
    drop(events);
    let open = || gateway.send("GET", "/metrics", None).text.contains("weir_job_event_streams 0");
    gateway.wait("the end of the stream", open);

    let (mut events, head) = Events::open(&gateway, &job);
    assert!(head.contains("200 ok"), "{head}");
    assert_eq!(events.next().unwrap().0, "progress");
    let begun = Instant::now();
    gateway.weir.terminate();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(events.next().is_none());
    model.release();
    let gateway = start(folder.path(), &model.upstream.url, &[]);
    wait_for(&gateway, &job, "completed");
}
