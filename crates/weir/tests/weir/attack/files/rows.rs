//! Damaged rows of the store.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::attack::held;
use crate::support::client::{Client, document_path};
use crate::support::documented::check_error;
use crate::support::process::Weir;

const DOCUMENTS: usize = 20;

/// A stopped gateway's folder, with documents `d0` and so on in `default` and in `other`.
fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let weir = Weir::start(folder.path());
    let client = Client::new(&weir.url);
    let settings = json!({"language": "swedish", "embedding": "none"}).to_string();
    assert_eq!(client.send("PUT", "/v1/collections/other", Some(settings.as_bytes())).status, 201);
    for collection in ["default", "other"] {
        (0..DOCUMENTS).for_each(|number| ingest(&client, collection, number));
    }
    weir.terminate();
    folder
}

fn ingest(client: &Client, collection: &str, number: usize) {
    let document =
        json!({"id": format!("d{number}"), "text": format!("weir text{number}in{collection} weir")});
    let body = json!({"collection": collection, "documents": [document]}).to_string();
    let reply = client.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes()));
    assert_eq!((reply.status, &reply.json()["status"]), (202, &json!("completed")), "{}", reply.text);
}

/// Changes a letter of `text` wherever it stands in the store's file.
fn damage(folder: &Path, text: &str) {
    damage_bytes(folder, text.as_bytes());
}

fn damage_bytes(folder: &Path, damaged: &[u8]) {
    let file = folder.join("store.sqlite3");
    let mut bytes = std::fs::read(&file).unwrap();
    let places: Vec<usize> = bytes
        .windows(damaged.len())
        .enumerate()
        .filter(|(_, window)| *window == damaged)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "`{}` is not in the file", String::from_utf8_lossy(damaged));
    places.into_iter().for_each(|at| bytes[at + 1] ^= 2);
    std::fs::write(file, bytes).unwrap();
}

fn ids(client: &Client, collection: &str) -> Vec<Value> {
    let (status, list) = client.get(&format!("/v1/collections/{collection}/documents?limit=100"));
    assert_eq!(status, 200, "{list}");
    list["data"].as_array().unwrap().iter().map(|document| document["id"].clone()).collect()
}

fn doctor(folder: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.env_clear().arg("doctor").arg("--data-dir").arg(folder).output().unwrap();
    (
        output.status.success(),
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr),
    )
}

#[test]
fn a_damaged_document_fails_alone_is_named_and_is_replaced_by_ingesting_it_again() {
    let folder = filled();
    damage(folder.path(), "text7indefault");
    // all documents have to be read again
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let (is_sound, report) = doctor(folder.path());
    assert!(!is_sound && report.contains("document \"d7\" of collection"), "{report}");

    let weir = Weir::start(folder.path());
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    client.wait_until_searchable();
    let left = ids(&client, "default");
    assert!(left.len() == DOCUMENTS - 1 && !left.contains(&json!("d7")), "{left:?}");
    assert_eq!(client.search("text8indefault", "lexical")[0]["id"], "d8");
    assert_eq!(client.get("/v1/collections/default").1["document_count"], DOCUMENTS - 1);
    let named = client.get("/readyz").1["damaged"].clone();
    assert!(named.to_string().contains("d7"), "{named}");
    let metrics = client.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_store_damaged_rows 1\n"), "{metrics}");
    check_error(&client.send("GET", &document_path("d7"), None), "internal", "the damaged document");

    ingest(&client, "default", 7);
    assert_eq!(ids(&client, "default").len(), DOCUMENTS);
    assert_eq!(client.get("/readyz").1["damaged"], json!([]));
    assert_eq!(client.search("text7indefault", "lexical")[0]["id"], "d7");
    weir.terminate();
    assert!(doctor(folder.path()).0, "{}", doctor(folder.path()).1);
    held(
        "damaged document",
        "19 of 20 listed and found, one named by readiness and doctor, replaced by ingest",
    );
}

#[test]
fn a_damaged_embedding_is_computed_again_with_the_index() {
    let folder = filled();
    let weir = Weir::start(folder.path());
    let client = Client::new(&weir.url);
    let body = json!({"model": "pseudo", "input": "weir text7indefault weir"}).to_string();
    let reply = client.send("POST", "/v1/embeddings", Some(body.as_bytes())).json();
    let floats = reply["data"][0]["embedding"].as_array().unwrap().iter().take(8);
    let bytes: Vec<u8> = floats.flat_map(|float| (float.as_f64().unwrap() as f32).to_le_bytes()).collect();
    weir.terminate();
    damage_bytes(folder.path(), &bytes);
    let (is_sound, report) = doctor(folder.path());
    let remedy = "remove the folder `index` while the gateway is stopped, so that it is computed again";
    assert!(!is_sound && report.contains("embedding of text hash") && report.contains(remedy), "{report}");

    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let weir = Weir::start(folder.path());
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    client.wait_until_searchable();
    assert_eq!(client.search("weir text7indefault weir", "dense")[0]["id"], "d7");
    weir.terminate();
    assert!(doctor(folder.path()).0, "{}", doctor(folder.path()).1);
    held("damaged embedding", "named by doctor, computed again with the index");
}

#[test]
fn a_damaged_collection_fails_alone() {
    let folder = filled();
    damage(folder.path(), "swedish");
    let (is_sound, report) = doctor(folder.path());
    assert!(!is_sound && report.contains("collection 2 is damaged"), "{report}");
    let weir = Weir::start(folder.path());
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    assert_eq!(ids(&client, "default").len(), DOCUMENTS);
    assert_eq!(client.search("text8indefault", "lexical")[0]["id"], "d8");
    let named = client.get("/readyz").1["damaged"].clone();
    assert_eq!(named, json!(["collection 2"]));
    check_error(
        &client.send("GET", "/v1/collections/other", None),
        "collection_not_found",
        "the damaged one",
    );
    let again = client.send("PUT", "/v1/collections/other", None);
    check_error(&again, "internal", "a new one of its name");
    held("damaged collection", "the other is served, readiness and doctor name it");
}

#[test]
fn a_damaged_operation_fails_alone_and_no_deleted_document_is_found() {
    for (operation, is_waiting) in [("putd7job_", false), ("putd7job_", true), ("deleted8", true)] {
        let folder = filled();
        let weir = Weir::start(folder.path());
        let client = Client::new(&weir.url);
        client.wait_until_ready();
        assert_eq!(client.send("DELETE", "/v1/collections/default/documents/d8", None).status, 200);
        client.wait_until_searchable();
        weir.terminate();
        // the index has missed the damaged operation, or everything
        let index = folder.path().join("index");
        if is_waiting {
            std::fs::remove_dir_all(index).unwrap();
        }
        damage(folder.path(), operation);
        assert!(doctor(folder.path()).1.contains("operation"), "{operation}");
        let weir = Weir::start(folder.path());
        let client = Client::new(&weir.url);
        client.wait_until_ready();
        client.wait_until_searchable();
        assert_eq!(ids(&client, "default").len(), DOCUMENTS - 1);
        for number in [6, 7, 9] {
            assert_eq!(
                client.search(&format!("text{number}indefault"), "lexical")[0]["id"],
                format!("d{number}")
            );
        }
        assert!(client.search("text8indefault", "lexical").iter().all(|hit| hit["id"] != "d8"));
        ingest(&client, "default", 8);
        assert_eq!(client.search("text8indefault", "lexical")[0]["id"], "d8");
    }
    held("damaged operation", "all other documents are found, the deleted one is not");
}
