//! What is done is forgotten after a while, and nothing is lost by it.

use std::path::Path;

use serde_json::json;

use super::Gateway;

const KEPT: [(&str, &str); 2] =
    [("WEIR_INGEST_OPERATIONS_KEPT_MAX", "1"), ("WEIR_INGEST_JOBS_KEPT_MAX", "2")];

fn start(folder: &Path) -> Gateway {
    let gateway = Gateway::start_in(folder, &KEPT);
    gateway.wait_until_ready();
    gateway
}

fn found(gateway: &Gateway) -> Vec<String> {
    let found = gateway.search("weir", "lexical");
    let mut ids: Vec<String> = found.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_lost_index_and_an_old_one_are_rebuilt_from_what_is_left_of_the_operations() {
    let folder = tempfile::tempdir().unwrap();
    let (index, old) = (folder.path().join("index"), folder.path().join("old"));
    let gateway = start(folder.path());
    for id in ["a", "b", "c"] {
        gateway.ingest(&[json!({"id": id, "text": "an old weir"})]);
    }
    gateway.weir.terminate();
    copy(&index, &old);

    let gateway = start(folder.path());
    for text in ["a newer weir", "the newest weir"] {
        gateway.ingest(&[json!({"id": "b", "text": text})]);
    }
    assert_eq!(gateway.try_delete("c").unwrap().0, 200);
    gateway.wait_until_searchable();
    gateway.weir.terminate();
    // the oldest go at a start, as they do every minute
    let gateway = start(folder.path());
    gateway.wait("pruning", || gateway.get("/v1/jobs").1["data"].as_array().unwrap().len() == 2);
    assert_eq!(found(&gateway), ["a", "b"]);
    gateway.weir.terminate();

    std::fs::remove_dir_all(&index).unwrap();
    copy(&old, &index);
    let gateway = start(folder.path());
    assert_eq!(found(&gateway), ["a", "b"], "the old index still had c, whose deletion is forgotten");
    assert!(gateway.weir.log().contains("older than"), "{}", gateway.weir.log());
    gateway.weir.terminate();

    std::fs::remove_dir_all(&index).unwrap();
    let gateway = start(folder.path());
    assert_eq!(found(&gateway), ["a", "b"]);
    assert_eq!(gateway.search("newest", "lexical")[0]["id"], "b");
}
