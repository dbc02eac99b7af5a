//! SIGTERM: what was accepted is answered, and everything acknowledged is there after the next start.

use std::time::Duration;

use serde_json::{Value, json};

use super::Gateway;
use crate::support::client::Client;
use crate::support::process::Weir;

#[test]
fn an_ingest_that_waits_is_answered_before_the_gateway_stops() {
    let gateway = Gateway::start_with(&[("WEIR_SERVER_SHUTDOWN_GRACE_MS", "60000")]);
    const DOCUMENTS: usize = 800;
    let text = "a weir is a low dam across a river. ".repeat(5);
    let documents: Vec<Value> =
        (0..DOCUMENTS).map(|i| json!({"id": format!("d{i}"), "text": text})).collect();
    let body = json!({"documents": documents}).to_string();
    let reply = std::thread::scope(|scope| {
        let waiting = Client::new(&gateway.weir.url);
        let ingest = scope.spawn(move || waiting.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes())));
        gateway.wait("the first documents", || gateway.document_count() > 0);
        assert!(!ingest.is_finished(), "there was nothing to stop in the middle of");
        gateway.weir.terminate(); // checks the exit code
        ingest.join().unwrap()
    });
    assert_eq!(reply.status, 202, "{}", reply.text);
    let job = reply.json();
    assert_eq!(
        (&job["status"], &job["processed_documents"]),
        (&json!("completed"), &json!(DOCUMENTS)),
        "{job}"
    );

    let again = Weir::start(gateway.folder());
    let client = Client::new(&again.url);
    assert_eq!(client.get("/healthz").1["document_count"], DOCUMENTS);
    assert_eq!(client.document("d799").unwrap()["text"], text);
    assert_eq!(client.search("weir", "hybrid").len(), 3);
}

#[test]
fn what_was_only_accepted_is_searchable_after_the_next_start() {
    let gateway = Gateway::start();
    const DOCUMENTS: usize = 500;
    let documents: Vec<Value> =
        (0..DOCUMENTS).map(|i| json!({"id": format!("d{i}"), "text": format!("weir {i}")})).collect();
    let accepted = gateway.try_post("/v1/ingest", &json!({"documents": documents})).unwrap();
    assert_eq!(accepted.0, 202, "{}", accepted.1);
    gateway.weir.terminate();

    let again = Weir::start(gateway.folder());
    let client = Client::new(&again.url);
    client.wait_until_ready();
    client.wait_until_searchable();
    assert_eq!(client.get("/healthz").1["document_count"], DOCUMENTS);
    // the job hears of it a moment after searches do
    let path = format!("/v1/jobs/{}", accepted.1["job_id"].as_str().unwrap());
    client.wait("the end of the job", || client.get(&path).1["status"] == "completed");
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_gateway_from_stopping() {
    let gateway = Gateway::start_with(&[("WEIR_SERVER_SHUTDOWN_GRACE_MS", "300")]);
    let _stalled = gateway.stall("/v1/search", 100);
    std::thread::sleep(Duration::from_millis(100));
    let started = std::time::Instant::now();
    gateway.weir.terminate();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "the grace was 300 ms, it took {:?}",
        started.elapsed()
    );
}

#[test]
fn signals_that_come_with_the_address_are_heeded() {
    for _ in 0..5 {
        let gateway = Gateway::start();
        gateway.weir.signal("HUP");
        gateway.weir.terminate(); // checks the exit code
    }
}
