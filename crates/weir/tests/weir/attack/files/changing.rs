//! Files that are truncated, removed or replaced while the gateway uses them.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::attack::{held, rounds};
use crate::support::client::{Client, Reply, document_path};
use crate::support::documented::check_error;
use crate::support::gateway::in_repository;
use crate::support::process::Weir;

const DOCUMENTS: usize = 200;

/// A gateway with a document for each number, and its index folder.
struct Attacked {
    weir: Weir,
    client: Client,
    folder: tempfile::TempDir,
}

impl Attacked {
    fn start(variables: &[(&str, &str)]) -> Attacked {
        let folder = tempfile::tempdir().unwrap();
        let weir = Weir::start_with(folder.path(), variables);
        let client = Client::new(&weir.url);
        client.wait_until_ready();
        let documents: Vec<Value> = (0..DOCUMENTS).map(document).collect();
        let body = json!({ "documents": documents }).to_string();
        let reply = client.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes()));
        assert_eq!((reply.status, &reply.json()["status"]), (202, &json!("completed")), "{}", reply.text);
        Attacked { weir, client, folder }
    }

    /// Every file of the index.
    fn index_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().join("index")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() { folders.push(entry) } else { files.push(entry) }
            }
        }
        files.sort();
        files
    }

    /// Searches until everything is found; a reply is right, or says that the index is being rebuilt.
    fn wait_until_found(&self, what: &str) {
        self.client.wait(what, || {
            let found = (0..DOCUMENTS)
                .step_by(40)
                .all(|number| ["lexical", "dense"].iter().all(|mode| self.finds(number, mode, what)));
            assert!(self.weir.is_alive(), "{what}: it died");
            found && self.client.get("/readyz").0 == 200
        });
    }

    fn finds(&self, number: usize, mode: &str, what: &str) -> bool {
        let body = json!({"query": text(number), "mode": mode, "top_k": 1}).to_string();
        let reply = self.client.send("POST", "/v1/search", Some(body.as_bytes()));
        match reply.status {
            200 => {
                let hit = &reply.json()["results"][0];
                assert_eq!((&hit["id"], &hit["text"]), (&json!(id(number)), &json!(text(number))), "{what}");
                true
            }
            503 => {
                check_error(&reply, "collection_not_ready", what);
                false
            }
            // the search that met it
            _ => {
                check_error(&reply, "internal", what);
                false
            }
        }
    }
}

fn id(number: usize) -> String {
    format!("d{number}")
}

fn text(number: usize) -> String {
    format!("the weir number{number} holds back the river number{number}")
}

fn document(number: usize) -> Value {
    json!({"id": id(number), "text": text(number), "metadata": {"number": number}})
}

/// Removes a folder in which files are made.
fn vanish(folder: &Path) {
    let aside = folder.with_extension("aside");
    std::fs::rename(folder, &aside).unwrap();
    std::fs::remove_dir_all(aside).unwrap();
}

fn truncate(file: &Path, len: u64) {
    OpenOptions::new().write(true).open(file).unwrap().set_len(len).unwrap();
}

#[test]
fn a_truncated_index_file_neither_ends_the_process_nor_gives_wrong_data() {
    let attacked = Attacked::start(&[]);
    let mut names: Vec<String> = attacked.index_files().iter().map(|file| name_of(file)).collect();
    names.sort();
    names.dedup();
    // those that are mapped, and one that is read
    let mapped = ["documents", "slots", "vectors.i8", "segment.idx", "texts"];
    names.retain(|name| rounds(0, 1) == 1 || mapped.contains(&&**name));
    let mut truncated = 0;
    for name in &names {
        for share in [2, 0].into_iter().take(rounds(1, 2)) {
            // segments have other names after a rebuild
            let files = attacked.index_files();
            let Some(file) = files.iter().find(|file| name_of(file) == *name) else { continue };
            let len = file.metadata().unwrap().len();
            if len < 2 {
                continue;
            }
            truncate(file, len.checked_div(share).unwrap_or(0));
            truncated += 1;
            attacked.wait_until_found(name);
        }
    }
    assert!(truncated >= mapped.len(), "{truncated} of {names:?}");
    held(
        "truncated index files",
        &format!("{truncated} truncations, no death, no wrong hit, all rebuilt while running"),
    );
}

/// The name, of a segment without its id.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap().to_str().unwrap();
    match name.split_once('.') {
        Some((segment, extension)) if segment.len() == 32 => format!("segment.{extension}"),
        _ => name.to_owned(),
    }
}

#[test]
fn a_vanished_index_folder_is_rebuilt_while_running() {
    let attacked = Attacked::start(&[]);
    let index = attacked.folder.path().join("index");
    vanish(&index);
    // a change is accepted, and finds that it is gone
    let late = json!({"documents": [{"id": "late", "text": "a late document"}]}).to_string();
    assert_eq!(attacked.client.send("POST", "/v1/ingest?wait=true", Some(late.as_bytes())).status, 202);
    attacked.wait_until_found("the index folder, met by ingest");
    assert_eq!(attacked.client.search("late", "lexical")[0]["id"], "late");
    vanish(&index);
    // nobody asks for anything
    attacked.client.wait("a rebuild at rest", || index.exists());
    attacked.wait_until_found("the index folder, at rest");
    let metrics = attacked.client.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_indexes_lost_total 2\n"), "{metrics}");
    held("vanished index folder", "rebuilt twice while running, by a change and at rest");
}

#[test]
fn a_vanished_or_truncated_store_file_stops_acknowledgements_at_once() {
    for name in ["store.sqlite3", "store.sqlite3-wal"] {
        let attacked = Attacked::start(&[]);
        let file = attacked.folder.path().join(name);
        let (client, aside) = (&attacked.client, attacked.folder.path().join("aside"));
        std::fs::rename(&file, &aside).unwrap();
        let ingest = |id: &str| -> Reply {
            let body = json!({"documents": [{"id": id, "text": "text"}]}).to_string();
            client.send("POST", "/v1/ingest", Some(body.as_bytes()))
        };
        check_error(&ingest("refused"), "store_unavailable", name);
        check_error(&client.send("DELETE", &document_path("d1"), None), "store_unavailable", name);
        let (status, readiness) = client.get("/readyz");
        assert!(status == 503 && readiness["failing"][0].as_str().unwrap().contains(name), "{readiness}");
        assert!(attacked.finds(3, "lexical", name), "searches go on");
        // put back, everything goes on
        std::fs::rename(&aside, &file).unwrap();
        assert_eq!(ingest("accepted").status, 202);
        client.wait_until_searchable();
        assert_eq!(client.get("/readyz").0, 200);
        assert_eq!((client.document("accepted").is_some(), client.document("d1").is_some()), (true, true));
    }
    let attacked = Attacked::start(&[]);
    attacked.weir.terminate(); // which empties the log
    let weir = Weir::start(attacked.folder.path());
    let client = Client::new(&weir.url);
    let body = json!({"documents": [{"id": "a", "text": "text"}]}).to_string();
    let file = attacked.folder.path().join("store.sqlite3");
    assert_eq!(client.send("POST", "/v1/ingest", Some(body.as_bytes())).status, 202);
    truncate(&file, 4096);
    let body = json!({"documents": [{"id": "b", "text": "text"}]}).to_string();
    check_error(&client.send("POST", "/v1/ingest", Some(body.as_bytes())), "store_unavailable", "truncated");
    assert_eq!(client.get("/readyz").0, 503);
    assert!(weir.is_alive());
    held(
        "vanished store file",
        "removed, its log removed, truncated: 503 at once, readiness names the file, put back it goes on",
    );
}

/// SQLite maps this file, so that the process may end. It holds nothing that is not in the log.
#[test]
fn a_truncated_log_index_of_the_store_loses_nothing() {
    for len in [0, 4_096] {
        let attacked = Attacked::start(&[]);
        truncate(&attacked.folder.path().join("store.sqlite3-shm"), len);
        let ingest = |client: &Client, id: &str| {
            let body = json!({"documents": [{"id": id, "text": "text"}]});
            client.try_post("/v1/ingest", &body).is_some_and(|(status, _)| status == 202)
        };
        let is_acknowledged = ingest(&attacked.client, "late");
        attacked.weir.kill();
        let weir = Weir::start(attacked.folder.path());
        let attacked = Attacked { client: Client::new(&weir.url), weir, folder: attacked.folder };
        attacked.wait_until_found("the store's log index");
        // it may be stored without an answer
        assert!(!is_acknowledged || attacked.client.document("late").is_some(), "{len}");
        assert!(ingest(&attacked.client, "again"));
        let found = attacked.client.get("/v1/collections/default").1["document_count"].as_u64().unwrap();
        assert!(found >= DOCUMENTS as u64, "{found} documents");
    }
    held("truncated log index of the store", "everything acknowledged is there after the next start");
}

#[test]
fn truncated_packed_weights_give_no_wrong_embedding() {
    let model = in_repository("models/all-MiniLM-L6-v2");
    let variables = [
        ("WEIR_MODEL", model.to_str().unwrap()),
        ("WEIR_INFERENCE_CACHE_BYTES_MAX", "0"),
        ("WEIR_INFERENCE_PACKED_DIR", ""), // not the one of other tests
    ];
    let attacked = Attacked::start(&variables);
    let client = &attacked.client;
    let request = json!({"model": "all-MiniLM-L6-v2", "input": "a weir"}).to_string();
    let embed = || client.send("POST", "/v1/embeddings", Some(request.as_bytes()));
    let before = embed();
    assert_eq!(before.status, 200, "{}", before.text);
    let packed = attacked.folder.path().join("packed");
    let files = std::fs::read_dir(packed).unwrap().map(|entry| entry.unwrap().path());
    files.for_each(|file| truncate(&file, 4096));
    let failed = embed();
    assert_eq!(
        (failed.status, &failed.json()["error"]["code"]),
        (500, &json!("internal")),
        "{}",
        failed.text
    );
    assert!(attacked.weir.is_alive());
    let readiness = client.get("/readyz").1;
    assert!(readiness["failing"][0].as_str().unwrap().contains("start weir again"), "{readiness}");
    let body = json!({"query": text(3), "top_k": 1}).to_string();
    let search = client.send("POST", "/v1/search", Some(body.as_bytes())).json();
    assert_eq!(search["results"][0]["id"], "d3", "lexical: {search}");
    attacked.weir.terminate();
    let again = Weir::start_with(attacked.folder.path(), &variables);
    let client = Client::new(&again.url);
    client.wait_until_ready();
    let after = client.send("POST", "/v1/embeddings", Some(request.as_bytes()));
    assert_eq!(after.json()["data"], before.json()["data"]);
    held(
        "truncated weights",
        "an error instead of a wrong embedding, search lexical, packed again by the next start",
    );
}
