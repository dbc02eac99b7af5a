//! An older binary beside today's over one database, as during an upgrade.
//!
//! Run by `make older OLD=path`. There is no older release yet, so that other runs do without.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{Postgres, wait};
use crate::support::client::Client;
use crate::support::process::Weir;

/// Documents that the older binary stores before today's starts.
const DOCUMENTS: usize = 20;

fn older() -> PathBuf {
    #[allow(clippy::disallowed_methods, reason = "what the test runs; no setting of the product")]
    let path = std::env::var_os("WEIR_OLD_BINARY").filter(|path| !path.is_empty());
    path.expect("WEIR_OLD_BINARY is the path of an older binary: `make older OLD=path`").into()
}

/// Starts a binary over a database.
fn start(binary: &Path, url: &str, folder: &Path) -> Weir {
    let variables = [("WEIR_STORE_URL", "env:STORE_URL"), ("STORE_URL", url)];
    Weir::start_by(Command::new(binary), folder, &variables)
}

/// The ids of what a search finds, once the gateway shows an operation.
fn found(client: &Client, query: &str, mode: &str, at_least: &Value) -> Vec<String> {
    let body = json!({"query": query, "mode": mode, "top_k": 10, "at_least": at_least});
    let (status, reply) = client.try_post("/v1/search", &body).unwrap();
    assert_eq!(status, 200, "{reply}");
    reply["results"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

/// What one stores, replaces, judges and deletes, both show.
fn check_changes(name: &str, admin: &str, [one, other]: [&Weir; 2]) {
    let at = |weir: &Weir| Client::with_key(&weir.url, admin);
    let knows = |key: &str| {
        [one, other].map(|weir| Client::with_key(&weir.url, key).send("GET", "/v1/models", None).status)
    };
    let (one, other) = (&at(one), &at(other));
    for text in ["is stored", "is replaced"] {
        let body = json!({"documents": [{"id": name, "text": format!("The note {name} {text} here.")}]});
        let (status, job) = one.try_post("/v1/ingest?wait=true", &body).unwrap();
        assert_eq!((status, &job["status"]), (202, &json!("completed")), "{job}");
        for client in [one, other] {
            let hits = found(client, &format!("note {name} {text}"), "hybrid", &job["operation"]);
            assert_eq!(hits[0], name, "{text}");
            assert!(client.document(name).unwrap()["text"].as_str().unwrap().contains(text));
        }
    }
    let judged = json!({"query": "note", "document_id": name, "grade": 2});
    assert!(one.try_post("/v1/feedback", &judged).unwrap().0 < 300);
    let doomed = json!({"documents": [{"id": format!("{name}-gone"), "text": "The doomed note."}]});
    assert_eq!(one.try_post("/v1/ingest?wait=true", &doomed).unwrap().0, 202);
    let deleted = other.try_delete(&format!("{name}-gone")).unwrap();
    assert_eq!(deleted.0, 200, "{}", deleted.1);
    for client in [one, other] {
        assert!(
            !found(client, "doomed note", "lexical", &deleted.1["operation"])
                .contains(&format!("{name}-gone"))
        );
    }
    // a key of one holds at the other, and so does its end
    let request = json!({"name": name, "scopes": ["search"], "limits": {"requests_per_minute": 1_000}});
    let key = one.try_post("/v1/keys", &request).unwrap().1;
    let text = key["key"].as_str().unwrap();
    wait("the key", || knows(text) == [200, 200]);
    assert_eq!(other.send("DELETE", &format!("/v1/keys/{}", key["id"]), None).status, 200);
    wait("its end", || knows(text) == [401, 401]);
}

#[test]
#[ignore = "needs an older binary: `make older OLD=path`"]
fn an_older_binary_and_todays_work_over_one_database() {
    let (path, today) = (older(), PathBuf::from(env!("CARGO_BIN_EXE_weir")));
    let server = Postgres::start();
    let url = server.url();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let format = || server.count("SELECT format FROM weir.format");
    let older = start(&path, &url, folders[0].path());
    let made = json!({"name": "admin", "scopes": ["admin", "search", "ingest"]});
    let admin = Client::new(&older.url).try_post("/v1/keys", &made).unwrap().1;
    let admin = admin["key"].as_str().unwrap().to_owned();
    let at_older = Client::with_key(&older.url, &admin);
    let documents: Vec<Value> = (0..DOCUMENTS)
        .map(|n| json!({"id": format!("d{n}"), "text": format!("Document {n} tells of river {} and mill {}.", n % 5, n % 3)}))
        .collect();
    assert_eq!(at_older.try_post("/v1/ingest?wait=true", &json!({"documents": documents})).unwrap().0, 202);
    let before = format();

    let newer = start(&today, &url, folders[1].path());
    let at_newer = Client::with_key(&newer.url, &admin);
    at_newer.wait_until_ready();
    let after = format();
    println!("the schema had the format {before}, and has {after}");
    for mode in ["lexical", "dense", "hybrid"] {
        for query in ["river 3", "mill 2 river 1", "document 7"] {
            let hits = found(&at_older, query, mode, &json!(0));
            assert!(!hits.is_empty());
            assert_eq!(hits, found(&at_newer, query, mode, &json!(0)), "{query} ({mode})");
        }
    }
    check_changes("first", &admin, [&older, &newer]);
    check_changes("second", &admin, [&newer, &older]);
    let count = |client: &Client| client.get("/v1/collections/default").1["document_count"].clone();
    wait("equal counts", || count(&at_older) == DOCUMENTS + 2 && count(&at_newer) == DOCUMENTS + 2);

    // what the newer one leaves, the older one does
    newer.kill();
    let body = json!({"documents": [{"id": "later", "text": "A later note."}]});
    let (status, job) = at_older.try_post("/v1/ingest?wait=true", &body).unwrap();
    assert_eq!((status, &job["status"]), (202, &json!("completed")), "{job}");
    let newer = start(&today, &url, folders[1].path());
    let at_newer = Client::with_key(&newer.url, &admin);
    at_newer.wait_until_ready();
    assert_eq!(found(&at_newer, "later note", "hybrid", &job["operation"])[0], "later");
    older.terminate();
    check_changes("third", &admin, [&newer, &newer]);
    for (name, weir) in [("older", &older), ("newer", &newer)] {
        let log = weir.log();
        assert!(!log.contains("ERROR") && !log.contains("panicked"), "{name}: {log}");
        assert!(!log.contains("computed again") && !log.contains("cached plan"), "{name}: {log}");
    }
    if before == after {
        let again = start(&path, &url, folders[0].path());
        let client = Client::with_key(&again.url, &admin);
        client.wait_until_ready();
        wait("equal counts", || count(&client) == count(&at_newer));
        println!("the older binary starts again over the same format");
    }
}
