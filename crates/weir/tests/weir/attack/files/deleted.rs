//! What was deleted, looked for in every file of the data directory.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::attack::held;
use crate::support::client::{Client, document_path};
use crate::support::process::Weir;

/// A word that no other document has; its stem is itself.
const SECRET: &str = "qzxvbkwj";
/// In documents that are replaced.
const REPLACED: &str = "wjkbvxzq";

#[test]
fn deleted_and_replaced_text_is_in_no_file_after_a_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let weir = Weir::start_with(&data, &[("WEIR_INDEX_COMPACT_AFTER_S", "1")]);
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    let ingest = |id: &str, text: &str| {
        let long = format!("{text} {}", format!("{text} stands here. ").repeat(600));
        let document = json!({"id": id, "title": text, "text": long, "metadata": {"field": text}});
        let body = json!({ "documents": [document] }).to_string();
        assert_eq!(client.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes())).status, 202);
    };
    (0..20).for_each(|number| ingest(&format!("kept{number}"), &format!("kept text number{number}")));
    ingest("deleted", SECRET);
    ingest("replaced", REPLACED);
    assert!(
        !files_with(&data, SECRET).is_empty() && !files_with(&data, REPLACED).is_empty(),
        "it is not stored"
    );
    assert_eq!(client.send("DELETE", &document_path("deleted"), None).status, 200);
    ingest("replaced", "another text");
    client.wait("the text to be gone", || {
        files_with(&data, SECRET).is_empty() && files_with(&data, REPLACED).is_empty()
    });
    // searches are as before
    for number in [0, 7, 19] {
        assert_eq!(client.search(&format!("number{number}"), "lexical")[0]["id"], format!("kept{number}"));
        assert_eq!(
            client.search(&format!("kept text number{number}"), "dense")[0]["id"],
            format!("kept{number}")
        );
    }
    assert_eq!(client.search("another", "lexical")[0]["id"], "replaced");
    assert_eq!(client.get("/v1/collections/default").1["document_count"], 21);
    for (path, mode) in modes(folder.path()) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
    weir.terminate();
    assert_eq!(files_with(&data, SECRET), Vec::<PathBuf>::new());
    let weir = Weir::start(&data);
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    assert_eq!(client.search("number7", "lexical")[0]["id"], "kept7");
    assert!(!weir.log().contains("rebuilt"), "{}", weir.log());
    weir.terminate();
    assert_eq!(files_with(&data, SECRET), Vec::<PathBuf>::new());
    held(
        "deleted text",
        "in no file of the data directory while running, stopped and restarted; files 0600, folders 0700",
    );
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // files come and go meanwhile
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}

fn files_with(folder: &Path, word: &str) -> Vec<PathBuf> {
    let has_word = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    walk(folder).into_iter().filter(has_word).collect()
}

fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mode = |path: PathBuf| {
        let metadata = path.metadata().ok()?;
        Some((path, metadata.permissions().mode() & 0o777))
    };
    walk(folder).into_iter().filter_map(mode).collect()
}
