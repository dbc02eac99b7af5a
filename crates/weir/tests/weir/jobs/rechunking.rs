//! Documents that are split again: searches find the chunks of before until the new ones are there.

use serde_json::{Value, json};

use super::{Model, document, found, send, start, wait_for};
use crate::support::gateway::Gateway;

const COLLECTION: &str = "/v1/collections/default";
/// One chunk by `tokens`, two by `headings`. The second one is embedded only when the model is released.
const TEXT: &str = "# Weirs\n\nA low dam.\n\n# Locks\n\nA lift, held.";
const SIZE: [(&str, &str); 2] = [("WEIR_CHUNKING_MAX_TOKENS", "200"), ("WEIR_CHUNKING_OVERLAP_TOKENS", "32")];

/// Splits the documents otherwise from now on.
fn split_by(gateway: &Gateway, chunking: &Value) {
    let body = json!({"chunking": chunking}).to_string();
    let reply = gateway.send("PUT", &format!("{COLLECTION}?rechunk=true"), Some(body.as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.text);
}

fn status(gateway: &Gateway) -> Value {
    gateway.get(COLLECTION).1["status"].clone()
}

/// What a search for a word quotes.
fn quote(gateway: &Gateway, word: &str, mode: &str) -> String {
    gateway.search(word, mode)[0]["citation"]["quote"].as_str().unwrap().to_owned()
}

/// Checks that searches find the documents as they were split at first, without the one that was deleted meanwhile.
fn check_previous(gateway: &Gateway) {
    assert_eq!((quote(gateway, "lift", "lexical"), status(gateway)), (TEXT.to_owned(), json!("rebuilding")));
    assert_eq!(quote(gateway, "lift", "hybrid"), TEXT);
    assert_eq!(gateway.get(COLLECTION).1["document_count"], 2);
    assert_eq!((found(gateway, "bream"), found(gateway, "sluice")), (Vec::new(), vec!["c".to_owned()]));
    assert_eq!(found(gateway, "eel"), Vec::<String>::new(), "later than the documents that are split again");
    assert_eq!(gateway.send("GET", "/readyz", None).status, 200);
}

/// A gateway with three documents, the first of which can't be split again while its model is held.
fn gateway_over(folder: &std::path::Path, model: &Model) -> Gateway {
    let gateway = start(folder, &model.upstream.url, &SIZE);
    model.release();
    let documents =
        [json!({"id": "a", "text": TEXT}), document("b", "A bream swims."), document("c", "A sluice opens.")];
    gateway.ingest(&documents);
    model.hold();
    gateway
}

/// Demand 27: what documents are made into is changed without an outage.
#[test]
fn demand_27_searches_find_the_earlier_chunks_until_the_documents_are_split_again() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let gateway = gateway_over(folder.path(), &model);
    split_by(&gateway, &json!({"policy": "headings"}));
    assert_eq!(found(&gateway, "bream"), ["b"]);
    let deleted = gateway.send("DELETE", &format!("{COLLECTION}/documents/b"), None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    let job = send(&gateway, &[document("d", "An eel swims.")]);
    check_previous(&gateway);
    gateway.weir.terminate();

    let gateway = start(folder.path(), &model.upstream.url, &SIZE);
    check_previous(&gateway);
    assert_eq!(gateway.get(&job).1["status"], "pending");
    model.release();
    wait_for(&gateway, &job, "completed");
    assert_eq!(
        (quote(&gateway, "lift", "lexical"), status(&gateway)),
        ("# Locks\n\nA lift, held.".to_owned(), json!("ready"))
    );
    assert_eq!((found(&gateway, "bream"), found(&gateway, "eel")), (Vec::new(), vec!["d".to_owned()]));
    // the index of before is removed
    let indexes = || std::fs::read_dir(folder.path().join("index/1")).unwrap().count();
    gateway.wait("the end of the earlier index", || indexes() == 1);
}

#[test]
fn documents_can_be_split_otherwise_before_they_are_split_again() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::holding());
    let gateway = gateway_over(folder.path(), &model);
    split_by(&gateway, &json!({"policy": "headings"}));
    let deleted = gateway.send("DELETE", &format!("{COLLECTION}/documents/b"), None);
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    split_by(&gateway, &json!({"policy": "sentences", "max_sentences": 1, "overlap_sentences": 0}));
    check_previous(&gateway);
    split_by(&gateway, &json!({"policy": "headings"}));
    check_previous(&gateway);
    model.release();
    gateway.wait("the end of splitting", || status(&gateway) == "ready");
    assert_eq!(quote(&gateway, "lift", "lexical"), "# Locks\n\nA lift, held.");
    assert_eq!(found(&gateway, "bream"), Vec::<String>::new());
}
