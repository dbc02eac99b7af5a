//! Too much at once, and too slow: each dialect has its own status for it, and says when to come again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::client::{Client, Reply};
use crate::{post, with_the_model};

#[test]
fn a_full_queue_tells_callers_to_come_again() {
    let gateway = with_the_model(&[
        ("WEIR_INFERENCE_THREADS", "1"),
        ("WEIR_INFERENCE_QUEUE_TOKENS_MAX", "1"),
        ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
    ]);
    let text = "river ".repeat(200);
    let openai = json!({"model": "all-MiniLM-L6-v2", "input": text});
    let reply = gateway.first_refusal(8, "/v1/embeddings", &openai);
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{}", reply.text);
    let error = &reply.json()["error"];
    assert_eq!((&error["code"], &error["type"]), (&json!("overloaded"), &json!("server_error")));

    let reply = gateway.first_refusal(8, "/embed", &json!({"inputs": text}));
    assert_eq!((reply.status, reply.header("retry-after")), (429, "1"), "{}", reply.text);
    let error = reply.json();
    assert_eq!(error["error_type"], "Overloaded");
    assert!(error["error"].as_str().unwrap().contains("inference.queue_tokens_max"), "{error}");
    assert_eq!(
        post(&gateway, "/v1/embeddings", "", &openai).status,
        200,
        "when the others are gone there is room"
    );
}

#[test]
fn short_texts_before_a_full_queue_are_refused_unread() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let gateway = with_the_model(&[
        ("WEIR_INFERENCE_THREADS", "1"),
        ("WEIR_INFERENCE_QUEUE_TOKENS_MAX", "1"),
        ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
    ]);
    let long = json!({"model": "all-MiniLM-L6-v2", "input": "river ".repeat(200)}).to_string();
    let (is_over, started) = (AtomicBool::new(false), Instant::now());
    let unread = |path| gateway.send("POST", path, Some(b"this is no JSON"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let client = Client::new(&gateway.weir.url);
                while !is_over.load(Ordering::Relaxed) && started.elapsed() < PATIENCE {
                    client.send("POST", "/v1/embeddings", Some(long.as_bytes()));
                }
            });
        }
        let all = [("/v1/embeddings", 503, "overloaded"), ("/embed", 429, "Overloaded")].map(
            |(path, status, code)| {
                let is_it = |reply: &Reply| reply.status == status || started.elapsed() > PATIENCE;
                (std::iter::repeat_with(|| unread(path)).find(is_it).unwrap(), status, code)
            },
        );
        is_over.store(true, Ordering::Relaxed);
        for (refused, status, code) in all {
            assert_eq!((refused.status, refused.header("retry-after")), (status, "1"), "{}", refused.text);
            assert!(refused.text.contains(code), "{}", refused.text);
        }
    });
    assert_eq!(unread("/v1/embeddings").status, 400, "when the others are gone there is room");
}

#[test]
fn a_request_that_takes_too_long_is_answered_at_its_deadline() {
    let gateway = with_the_model(&[("WEIR_SERVER_REQUEST_DEADLINE_MS", "60")]);
    let texts = vec!["river ".repeat(200); 1_000];
    let reply = post(&gateway, "/v1/embeddings", "", &json!({"model": "all-MiniLM-L6-v2", "input": texts}));
    assert_eq!((reply.status, reply.header("retry-after")), (504, "1"), "{}", reply.text);
    let message = "there was no answer within 60 ms. Retry, request less, or raise the deadline: `deadline_ms` of a search, or `server.request_deadline_ms`.";
    let error = json!({"error": {
        "message": message, "type": "server_error", "param": null, "code": "deadline_exceeded",
    }});
    assert_eq!(reply.json(), error);

    let reply = post(&gateway, "/embed", "", &json!({"inputs": texts}));
    assert_eq!((reply.status, reply.header("retry-after")), (429, "1"), "{}", reply.text);
    assert_eq!(reply.json(), json!({"error": message, "error_type": "Overloaded"}));
}

#[test]
fn a_large_request_does_not_hold_up_a_small_one() {
    let gateway = with_the_model(&[("WEIR_INFERENCE_THREADS", "1")]);
    let texts = vec!["river ".repeat(200); 60];
    let large = json!({"model": "all-MiniLM-L6-v2", "input": texts});
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let started = Instant::now();
            let reply = Client::new(&gateway.weir.url).send(
                "POST",
                "/v1/embeddings",
                Some(large.to_string().as_bytes()),
            );
            (reply.status, started.elapsed())
        });
        std::thread::sleep(Duration::from_millis(100));
        let small = json!({"model": "all-MiniLM-L6-v2", "input": "a weir"});
        let started = Instant::now();
        assert_eq!(post(&gateway, "/v1/embeddings", "", &small).status, 200);
        let small_took = started.elapsed();
        let (status, large_took) = slow.join().unwrap();
        assert_eq!(status, 200);
        assert!(small_took * 2 < large_took, "{small_took:?} beside {large_took:?}");
    });
}
