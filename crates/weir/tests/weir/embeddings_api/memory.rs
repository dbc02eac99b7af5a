//! `inference.memory_limit_bytes`: what embedding takes beside the weights stays below it.

use serde_json::{Value, json};

use super::{post, with_the_model};
use crate::support::gateway::Gateway;

/// Bytes that the process takes, and took at most since [`forget_the_most`].
fn memory(gateway: &Gateway) -> (usize, usize) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.weir.id())).unwrap();
    let bytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    };
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

fn forget_the_most(gateway: &Gateway) {
    std::fs::write(format!("/proc/{}/clear_refs", gateway.weir.id()), "5").unwrap();
}

/// As many texts as a request may have, three megabytes of them. Some are as long as the model reads; the spaces of the others
/// are no tokens.
fn worst() -> Value {
    let text =
        |i: usize| if i.is_multiple_of(64) { "river ".repeat(254) } else { " ".repeat(1_519) + "river" };
    json!({"model": "all-MiniLM-L6-v2", "input": (0..2_048).map(text).collect::<Vec<_>>()})
}

/// Demand 3: one setting is a ceiling for the memory of embedding, whatever is asked for.
#[test]
fn the_worst_request_takes_no_more_memory_than_the_limit() {
    const LIMIT: usize = 48 << 20;
    let gateway = with_the_model(&[
        ("WEIR_INFERENCE_THREADS", "2"),
        ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
        ("WEIR_INFERENCE_MEMORY_LIMIT_BYTES", &LIMIT.to_string()),
        ("WEIR_SERVER_REQUEST_DEADLINE_MS", "300000"),
    ]);
    // the weights come into memory with the first text
    let small = json!({"model": "all-MiniLM-L6-v2", "input": "river"});
    assert_eq!(post(&gateway, "/v1/embeddings", "", &small).status, 200);
    forget_the_most(&gateway);
    let before = memory(&gateway).0;
    let reply = post(&gateway, "/v1/embeddings", "", &worst());
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.json()["data"].as_array().unwrap().len(), 2_048);
    let more = memory(&gateway).1.saturating_sub(before);
    assert!(more > LIMIT / 8, "{more} bytes more than before: too few to be what the request took");
    assert!(more <= LIMIT, "{more} bytes more than before; the limit is {LIMIT}");
}

/// Demand 3: what does not fit below the ceiling is refused, and the gateway goes on.
#[test]
fn a_request_that_needs_more_memory_than_there_is_is_refused_and_others_are_not() {
    const LIMIT: usize = 24 << 20;
    let gateway = with_the_model(&[
        ("WEIR_INFERENCE_THREADS", "2"),
        ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
        ("WEIR_INFERENCE_MEMORY_LIMIT_BYTES", &LIMIT.to_string()),
    ]);
    let refused = post(&gateway, "/v1/embeddings", "", &worst());
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (413, &json!("payload_too_large")));
    assert!(refused.text.contains("inference.memory_limit_bytes"), "{}", refused.text);
    let small = json!({"model": "all-MiniLM-L6-v2", "input": vec!["river"; 100]});
    assert_eq!(post(&gateway, "/v1/embeddings", "", &small).status, 200);
    let small = json!({"inputs": vec!["river"; 100]});
    assert_eq!(post(&gateway, "/embed", "application/octet-stream", &small).status, 200);
}
