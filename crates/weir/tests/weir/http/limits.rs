//! Capacity and deadlines over a socket. Refusals under load are tested in `crates/server/tests/server/admission.rs`, where a test holds the
//! capacity itself.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use crate::support::client::Client;

/// Longest wait for anything that must happen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a raw connection answers, up to the end of the connection.
fn read_all(mut connection: TcpStream) -> String {
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn ingest_bodies_beyond_the_memory_for_them_are_refused() {
    const LIMIT: usize = 1 << 20;
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_INGEST_BODY_BYTES_MAX", &LIMIT.to_string())]);
    let ingest = || {
        let body = json!({"documents": [{"text": "weir ".repeat(50_000)}]}).to_string();
        gateway.send("POST", "/v1/ingest", Some(body.as_bytes()))
    };
    // there is memory for two of the largest; they must be on their way before the third comes, which nothing shows
    let stall = || {
        let stalled = [gateway.stall("/v1/ingest", LIMIT), gateway.stall("/v1/ingest", LIMIT)];
        std::thread::sleep(Duration::from_millis(100));
        (ingest().status != 202).then_some(stalled)
    };
    let stalled = (0..50).find_map(|_| stall()).expect("a third was always taken");
    check_error(&ingest(), "overloaded", "an ingest too many");
    drop(stalled);
    gateway.wait("room", || ingest().status == 202);
}

#[test]
fn waiting_requests_hold_no_memory_for_ingest_bodies() {
    const LIMIT: usize = 1 << 20;
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_INGEST_BODY_BYTES_MAX", &LIMIT.to_string()),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "1"), // thousands of commits to the disk
    ]);
    let body = |prefix: &str| {
        let documents: Vec<Value> =
            (0..1_500).map(|i| json!({"id": format!("{prefix}{i}"), "text": "a weir"})).collect();
        let body = json!({ "documents": documents }).to_string();
        " ".repeat(LIMIT - body.len()) + &body
    };
    std::thread::scope(|scope| {
        let waiting = ["a", "b"].map(|prefix| {
            let (client, body) = (Client::new(&gateway.weir.url), body(prefix));
            let json = [("content-type", "application/json")];
            scope.spawn(move || client.try_send("POST", "/v1/ingest?wait=true", &json, Some(body.as_bytes())))
        });
        gateway.wait("both to be stored", || {
            gateway.get("/v1/jobs").1["data"].as_array().is_some_and(|jobs| jobs.len() == 2)
        });
        let one = json!({"documents": [{"text": "a weir"}]});
        let started = Instant::now();
        gateway.wait("room", || gateway.try_post("/v1/ingest", &one).unwrap().0 == 202);
        assert!(started.elapsed() < TIMEOUT / 3, "there was room only when the others lost their patience");
        let jobs = gateway.get("/v1/jobs").1;
        let is_one_done = jobs["data"].as_array().unwrap().iter().any(|job| job["finished_at"].is_number());
        assert!(!is_one_done, "nobody waited any more: {jobs}");
        gateway.weir.kill(); // nothing here depends on the end
        waiting.into_iter().for_each(|one| drop(one.join()));
    });
}

#[test]
fn documents_are_refused_while_too_many_operations_are_pending() {
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_PENDING_OPERATIONS_MAX", "10"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "1"),
    ]);
    let documents: Vec<Value> = (0..500).map(|i| json!({"id": format!("d{i}"), "text": "a weir"})).collect();
    assert_eq!(gateway.try_post("/v1/ingest", &json!({ "documents": documents })).unwrap().0, 202);
    let one = json!({"documents": [{"id": "late", "text": "a weir"}]}).to_string();
    let refused = gateway.send("POST", "/v1/ingest", Some(one.as_bytes()));
    let problem = check_error(&refused, "overloaded", "a document too many");
    assert!(problem["detail"].as_str().unwrap().contains("limits.pending_operations_max"), "{problem}");
    assert_eq!(gateway.document("late"), None);
    gateway.wait_until_searchable();
    assert_eq!(gateway.send("POST", "/v1/ingest", Some(one.as_bytes())).status, 202);
}

#[test]
fn a_request_whose_body_never_arrives_ends_at_the_deadline() {
    let gateway = Gateway::start_with(&[("WEIR_SERVER_REQUEST_DEADLINE_MS", "300")]);
    for path in ["/v1/search", "/v1/ingest"] {
        let started = Instant::now();
        let answer = read_all(gateway.stall(path, 100));
        assert!(answer.starts_with("HTTP/1.1 504 "), "{path}: {answer}");
        assert!(answer.contains("\"code\":\"deadline_exceeded\""), "{path}: {answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{path}: {answer}");
        assert!(answer.contains("server.request_deadline_ms"), "{path}: {answer}");
        assert!(started.elapsed() >= Duration::from_millis(300), "{path}: {:?}", started.elapsed());
    }
    assert_eq!(gateway.get("/healthz").0, 200);
}

#[test]
fn an_ingest_that_waits_until_the_deadline_answers_the_unfinished_job() {
    let gateway = Gateway::start_with(&[
        ("WEIR_SERVER_REQUEST_DEADLINE_MS", "8000"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "1"), // thousands of commits to the disk
    ]);
    const DOCUMENTS: usize = 10_000;
    let documents: Vec<Value> =
        (0..DOCUMENTS).map(|i| json!({"id": format!("d{i}"), "text": "a weir"})).collect();
    let body = json!({ "documents": documents }).to_string();
    // the body takes its share of the deadline too
    let mut connection = gateway.stall("/v1/ingest?wait=true", body.len());
    std::thread::sleep(Duration::from_millis(1_000));
    connection.write_all(&body.as_bytes()[1..]).unwrap();
    let answer = read_all(connection);
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    let job: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert!(job["status"] == "running" || job["status"] == "pending", "{job}");
    assert!(job["processed_documents"].as_u64().unwrap() < DOCUMENTS as u64, "{job}");
    assert_eq!(job["finished_at"], Value::Null);
    assert_eq!(gateway.document("d9999").unwrap()["text"], "a weir", "it is stored all the same");
}

#[test]
fn a_connection_beyond_the_limit_replaces_one_that_waits_for_its_client() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_CONNECTIONS_MAX", "1")]);
    let ask = || {
        let mut connection = gateway.connect();
        connection.write_all(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        connection
    };
    let first = ask();
    let second = ask();
    read_all(first);
    drop(second);
}
