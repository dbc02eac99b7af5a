//! Collections whose embeddings another server makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Value, json};

use super::scripted::{Answer, Upstream, error};
use super::{gateway, metric};
use crate::support::gateway::Gateway;

#[test]
fn documents_are_embedded_in_bulk_and_found_by_an_upstreams_embeddings() {
    let upstream = Upstream::start(|number, _| match number {
        1 => error(502), // in passing
        _ => Answer::Embeddings,
    });
    let (gateway, _file) = gateway("openai", &upstream.url, "texts_per_request_max = 4", &[]);
    let documents: Vec<_> = ["aaaa", "eeee", "oooo", "aeae", "oeoe", "aoao", "xxxx", "eaea"]
        .iter()
        .map(|text| json!({"id": text, "text": text}))
        .collect();
    gateway.ingest(&documents);
    let hits = gateway.search("ee", "dense");
    assert_eq!(hits[0]["id"], "eeee", "{hits:?}");
    assert!(upstream.asked().iter().all(|asked| asked.texts().len() <= 4));
    assert!(metric(&gateway, "weir_embed_queue_wait_seconds_count{lane=\"bulk\"}") >= 2.0);
}

/// What an upstream refuses: nothing, texts with an `x`, or everything.
const NOTHING: u8 = 0;
const X: u8 = 1;
const EVERYTHING: u8 = 2;

fn refusing(refused: &Arc<AtomicU8>) -> Upstream {
    let refused = refused.clone();
    Upstream::start(move |_, asked| match refused.load(Ordering::Relaxed) {
        EVERYTHING => error(400),
        X if asked.texts().iter().any(|text| text.contains("xx")) => error(400),
        _ => Answer::Embeddings,
    })
}

/// Sends documents, each named by its text, and returns the job when it is finished.
fn ingest(gateway: &Gateway, documents: &[(&str, &str)]) -> Value {
    let documents: Vec<Value> = documents.iter().map(|(id, text)| json!({"id": id, "text": text})).collect();
    let reply = gateway.try_post("/v1/ingest?wait=true", &json!({"documents": documents})).unwrap();
    assert_eq!(reply.0, 202, "{}", reply.1);
    reply.1
}

#[test]
fn a_text_that_an_upstream_always_refuses_fails_alone_and_can_be_sent_again() {
    let refused = Arc::new(AtomicU8::new(NOTHING));
    let upstream = refusing(&refused);
    let (gateway, _file) = gateway("openai", &upstream.url, "dimension = 4", &[]);
    assert_eq!(ingest(&gateway, &[("x", "old aa")])["status"], "completed");
    refused.store(X, Ordering::Relaxed);
    let job = ingest(&gateway, &[("a", "aaaa"), ("x", "new xx ee"), ("e", "eeee")]);
    assert_eq!(
        (&job["status"], &job["total_documents"], &job["processed_documents"], &job["failed_documents"]),
        (&json!("completed"), &json!(3), &json!(2), &json!(1)),
        "{job}"
    );
    let failed = &job["errors"][0];
    assert_eq!((&failed["document_id"], &failed["code"]), (&json!("x"), &json!("upstream_error")), "{job}");
    for words in ["answered 400: scripted 400", "stored and not searchable"] {
        assert!(failed["message"].as_str().unwrap().contains(words), "{job}");
    }
    let found = |text: &str| -> Vec<Value> {
        gateway.search(text, "lexical").iter().map(|hit| hit["id"].clone()).collect()
    };
    assert_eq!((found("aaaa"), found("eeee")), (vec![json!("a")], vec![json!("e")]));
    assert_eq!((found("old"), found("new")), (vec![], vec![]), "the old version is gone");
    assert_eq!(gateway.document("x").unwrap()["text"], "new xx ee");
    assert_eq!(metric(&gateway, "weir_ingest_documents_total{result=\"failed\"}"), 1.0);
    refused.store(NOTHING, Ordering::Relaxed);
    assert_eq!(ingest(&gateway, &[("x", "new xx ee")])["failed_documents"], 0);
    assert_eq!(found("new"), [json!("x")]);
}

#[test]
fn documents_wait_for_an_upstream_that_refuses_every_text() {
    let refused = Arc::new(AtomicU8::new(EVERYTHING));
    let upstream = refusing(&refused);
    let (gateway, _file) = gateway("openai", &upstream.url, "dimension = 4", &[]);
    let body = json!({"documents": [{"id": "a", "text": "aaaa"}]});
    let job = gateway.try_post("/v1/ingest", &body).unwrap().1;
    // three times the batch, then the document alone and another text, twice
    gateway.wait("attempts", || upstream.asked().len() >= 7);
    refused.store(NOTHING, Ordering::Relaxed);
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    gateway.wait("the job", || gateway.get(&path).1["status"] == "completed");
    assert_eq!(gateway.get(&path).1["failed_documents"], 0);
    assert_eq!(gateway.search("aaaa", "dense")[0]["id"], "a");
}
