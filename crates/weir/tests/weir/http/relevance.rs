//! What people search for, and what they say of hits, moves the relevance of later ones.

use serde_json::{Value, json};

use super::Gateway;

/// Documents of the collection, each found by the number in it.
const DOCUMENTS: usize = 40;

fn query(number: usize) -> String {
    format!("dam number{number}")
}

fn ingest(gateway: &Gateway, collection: &str) {
    let documents: Vec<Value> = (0..DOCUMENTS)
        .map(|number| json!({"id": number.to_string(), "text": format!("a low dam number{number} of stone")}))
        .collect();
    let (status, job) = gateway
        .try_post("/v1/ingest?wait=true", &json!({"collection": collection, "documents": documents}))
        .unwrap();
    assert_eq!((status, &job["status"]), (202, &json!("completed")), "{job}");
}

/// Says of the documents that each is, or isn't, the answer to the query of its number.
fn say(gateway: &Gateway, collection: &str, numbers: std::ops::Range<usize>, relevant: bool) {
    for number in numbers {
        let said = json!({"query": query(number), "document_id": number.to_string(), "collection": collection,
            "relevant": relevant});
        let (status, reply) = gateway.try_post("/v1/feedback", &said).unwrap();
        assert_eq!(status, 200, "{reply}");
    }
}

/// Waits until the counters of processed judgments have these values.
fn wait_until_processed(gateway: &Gateway, hit: usize, no_hit: usize) {
    for (result, count) in [("hit", hit), ("no_hit", no_hit)] {
        let line = format!("weir_feedback_judgments_total{{result=\"{result}\"}} {count}\n");
        gateway.wait(&line, || gateway.send("GET", "/metrics", None).text.contains(&line));
    }
}

/// The relevance of the first hit of query 0. By chunks, from which the collection doesn't learn.
fn relevance(gateway: &Gateway, collection: &str) -> f64 {
    let search = json!({"query": query(0), "collection": collection, "group_by": "chunk"});
    let (status, reply) = gateway.try_post("/v1/search", &search).unwrap();
    assert_eq!(status, 200, "{reply}");
    assert_eq!(reply["results"][0]["id"], "0");
    reply["results"][0]["relevance"].as_f64().unwrap()
}

#[test]
fn judgments_move_the_relevance_of_later_hits_and_of_their_collection_alone() {
    let gateway = Gateway::start();
    assert_eq!(gateway.send("PUT", "/v1/collections/other", Some(b"{}")).status, 201);
    ingest(&gateway, "default");
    ingest(&gateway, "other");
    let (before, other) = (relevance(&gateway, "default"), relevance(&gateway, "other"));
    say(&gateway, "default", 1..DOCUMENTS, true);
    wait_until_processed(&gateway, DOCUMENTS - 1, 0);
    let raised = relevance(&gateway, "default");
    assert!(raised > before, "{raised} after {before}");
    // each takes its word back: the last one counts
    say(&gateway, "default", 1..DOCUMENTS, false);
    wait_until_processed(&gateway, 2 * (DOCUMENTS - 1), 0);
    let lowered = relevance(&gateway, "default");
    assert!(lowered < before, "{lowered} after {before}");
    // and once more, to where it was: what was said in between is forgotten
    say(&gateway, "default", 1..DOCUMENTS, true);
    wait_until_processed(&gateway, 3 * (DOCUMENTS - 1), 0);
    assert_eq!(relevance(&gateway, "default"), raised);
    assert_eq!(relevance(&gateway, "other"), other);
}

#[test]
fn relevance_is_the_same_after_a_restart_and_begins_anew_with_the_collection() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::start_in(folder.path(), &[]);
    ingest(&first, "default");
    let before = relevance(&first, "default");
    say(&first, "default", 0..DOCUMENTS, false);
    wait_until_processed(&first, DOCUMENTS, 0);
    let lowered = relevance(&first, "default");
    assert!(lowered < before, "{lowered} after {before}");
    first.weir.terminate();

    let second = Gateway::start_in(folder.path(), &[]);
    assert_eq!(relevance(&second, "default"), lowered);
    let metrics = second.send("GET", "/metrics", None).text;
    for result in ["hit", "no_hit"] {
        let none = format!("weir_feedback_judgments_total{{result=\"{result}\"}} 0\n");
        assert!(metrics.contains(&none), "judgments were processed again: {metrics}");
    }
    assert_eq!(second.send("DELETE", "/v1/collections/default", None).status, 200);
    assert_eq!(second.send("PUT", "/v1/collections/default", Some(b"{}")).status, 201);
    ingest(&second, "default");
    assert_eq!(relevance(&second, "default"), before);
}

#[test]
fn only_the_newest_judgments_count_and_only_those_of_hits() {
    let gateway = Gateway::start_with(&[("WEIR_SEARCH_FEEDBACK_ENTRIES_MAX", "10")]);
    ingest(&gateway, "default");
    // without it `-"dam"` would leave nothing, and the query would be searched by its words
    let house = json!({"documents": [{"id": "house", "text": "a house of stone"}]});
    assert_eq!(gateway.try_post("/v1/ingest?wait=true", &house).unwrap().0, 202);
    let before = relevance(&gateway, "default");
    say(&gateway, "default", 1..DOCUMENTS, false);
    gateway.wait("the judgments", || relevance(&gateway, "default") < before);
    // a query whose condition the document does not meet: it was no hit, whoever says what
    for number in 1..11 {
        let said = json!({"query": format!("stone -\"dam\" {number}"), "document_id": number.to_string(), "relevant": true});
        assert_eq!(gateway.try_post("/v1/feedback", &said).unwrap().0, 200);
    }
    let no_hit = "weir_feedback_judgments_total{result=\"no_hit\"} 10\n";
    gateway.wait(no_hit, || gateway.send("GET", "/metrics", None).text.contains(no_hit));
    assert_eq!(relevance(&gateway, "default"), before);
}

#[test]
fn judgments_pending_at_a_crash_are_processed_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::start_in(folder.path(), &[]);
    ingest(&first, "default");
    let before = relevance(&first, "default");
    say(&first, "default", 0..DOCUMENTS, false);
    first.weir.kill();
    let second = Gateway::start_in(folder.path(), &[]);
    second.wait("the judgments", || relevance(&second, "default") < before);
}

#[test]
fn a_collection_learns_from_its_searches_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::start_in(folder.path(), &[]);
    ingest(&first, "default");
    let before = relevance(&first, "default");
    for number in 0..DOCUMENTS {
        assert_eq!(first.try_post("/v1/search", &json!({"query": query(number)})).unwrap().0, 200);
    }
    let learned = relevance(&first, "default");
    assert!((learned - before).abs() > 0.01, "{learned} after {before}");
    first.weir.terminate();
    let second = Gateway::start_in(folder.path(), &[]);
    assert_eq!(relevance(&second, "default"), learned);
}
