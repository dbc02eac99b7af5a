//! A store that was restored from a backup, beside an index that has seen what happened since.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::gateway::Gateway;

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

/// Ingests documents, one for each operation, and stops the gateway.
fn ingest(folder: &Path, history: &str, ids: &[&str]) {
    let gateway = Gateway::start_in(folder, &[]);
    for id in ids {
        gateway.ingest(&[json!({"id": id, "text": format!("{id} of the {history} history")})]);
    }
    gateway.weir.terminate();
}

fn texts(gateway: &Gateway, words: &str) -> Vec<String> {
    let body = json!({"query": words, "mode": "lexical", "top_k": 20}).to_string();
    let reply = gateway.send("POST", "/v1/search", Some(body.as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.text);
    let hits = reply.json()["results"].as_array().unwrap().clone();
    let mut texts: Vec<String> =
        hits.iter().map(|hit: &Value| hit["text"].as_str().unwrap().to_owned()).collect();
    texts.sort();
    texts
}

/// Two copies of one data directory go on differently. Then the index of the first is put beside the store of the second.
fn check(of_first: &[&str], of_second: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    ingest(&first, "common", &["a", "b"]);
    copy(&first, &second);
    ingest(&first, "other", of_first);
    ingest(&second, "own", of_second);
    let own_index = second.join("index");
    std::fs::rename(&own_index, folder.path().join("aside")).unwrap();
    copy(&first.join("index"), &own_index);

    let gateway = Gateway::start_in(&second, &[]);
    gateway.wait_until_ready();
    gateway.wait_until_searchable();
    let mut expected: Vec<String> = of_second.iter().map(|id| format!("{id} of the own history")).collect();
    let is_kept = |id: &&&str| !of_second.contains(id);
    expected.extend(["a", "b"].iter().filter(is_kept).map(|id| format!("{id} of the common history")));
    expected.sort();
    assert_eq!(texts(&gateway, "history"), expected);
    assert_eq!(texts(&gateway, "other"), Vec::<String>::new(), "hits that the store does not have");
    assert!(gateway.weir.log().contains("another history of the store"), "{}", gateway.weir.log());
    gateway.weir.terminate();

    // what was rebuilt is of this store
    let again = Gateway::start_in(&second, &[]);
    again.wait_until_ready();
    assert_eq!(texts(&again, "history"), expected);
    assert!(!again.weir.log().contains("another history"), "{}", again.weir.log());
}

#[test]
fn an_index_of_another_history_at_the_same_operation_is_rebuilt() {
    check(&["c", "d"], &["e", "a"]);
}

#[test]
fn an_index_of_another_history_at_an_earlier_operation_is_rebuilt() {
    check(&["c"], &["e", "a", "f"]);
}
