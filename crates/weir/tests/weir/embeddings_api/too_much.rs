//! Deadlines and large requests. Refusals are tested in `crates/server/tests/server/admission.rs`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{post, with_the_model};
use crate::support::client::Client;

#[test]
fn a_request_that_takes_too_long_is_answered_at_its_deadline() {
    // reading the texts alone takes longer
    let gateway = with_the_model(&[("WEIR_SERVER_REQUEST_DEADLINE_MS", "1")]);
    let texts = vec!["river ".repeat(200); 1_000];
    let reply = post(&gateway, "/v1/embeddings", "", &json!({"model": "all-MiniLM-L6-v2", "input": texts}));
    assert_eq!((reply.status, reply.header("retry-after")), (504, "1"), "{}", reply.text);
    let message = "there was no answer within 1 ms. Retry, request less, or raise the deadline: `deadline_ms` of a search, or `server.request_deadline_ms`.";
    let error = json!({"error": {
        "message": message, "type": "server_error", "param": null, "code": "deadline_exceeded",
    }});
    assert_eq!(reply.json(), error);

    let reply = post(&gateway, "/embed", "", &json!({"inputs": texts}));
    assert_eq!((reply.status, reply.header("retry-after")), (429, "1"), "{}", reply.text);
    assert_eq!(reply.json(), json!({"error": message, "error_type": "Overloaded"}));
}

#[test]
fn a_request_that_would_miss_its_deadline_is_refused_at_once() {
    let gateway = with_the_model(&[("WEIR_SERVER_REQUEST_DEADLINE_MS", "4000")]);
    let texts = vec!["river ".repeat(200); 2_048];
    let started = Instant::now();
    let reply = post(&gateway, "/v1/embeddings", "", &json!({"model": "all-MiniLM-L6-v2", "input": texts}));
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (400, &json!("batch_too_large")),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("at the speed of this gateway"), "{}", reply.text);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[test]
fn a_small_request_is_answered_before_a_large_one_that_came_first() {
    let gateway = with_the_model(&[
        ("WEIR_INFERENCE_THREADS", "1"),
        ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
        ("WEIR_SERVER_REQUEST_DEADLINE_MS", "300000"),
    ]);
    let texts = vec!["river ".repeat(200); 400];
    let large = json!({"model": "all-MiniLM-L6-v2", "input": texts}).to_string();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let client = Client::new(&gateway.weir.url);
            client.send("POST", "/v1/embeddings", Some(large.as_bytes())).status
        });
        // nothing shows that the large request has arrived
        std::thread::sleep(Duration::from_millis(200));
        let small = json!({"model": "all-MiniLM-L6-v2", "input": "a weir"});
        assert_eq!(post(&gateway, "/v1/embeddings", "", &small).status, 200);
        assert!(!slow.is_finished(), "the large request was answered first");
        assert_eq!(slow.join().unwrap(), 200);
    });
}

#[test]
fn large_requests_do_not_take_a_thread_each() {
    let gateway = with_the_model(&[]);
    let threads = || std::fs::read_dir(format!("/proc/{}/task", gateway.weir.id())).unwrap().count();
    let cores = std::thread::available_parallelism().unwrap().get();
    let body = json!({"inputs": vec!["river ".repeat(2_000); 16]});
    let one_each = |count: usize| {
        std::thread::scope(|scope| {
            let send = || assert_eq!(post(&gateway, "/tokenize", "", &body).status, 200);
            (0..count).for_each(|_| drop(scope.spawn(send)));
        })
    };
    one_each(1);
    let before = threads();
    one_each(4 * cores + 16);
    let more = threads().saturating_sub(before);
    assert!(more <= cores + 4, "{more} threads more than before, on {cores} cores");
}
