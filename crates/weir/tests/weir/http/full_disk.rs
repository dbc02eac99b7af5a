//! A disk that takes no more: refused with the reason, and nothing that was acknowledged is lost.
//!
//! The system is asked to refuse files beyond a size, which needs no disk to be filled.

use std::process::Command;

use serde_json::{Value, json};

use super::documented::check_error;
use crate::support::client::Client;
use crate::support::process::Weir;

/// Blocks of 1,024 bytes that a file may have.
const FILE_BLOCKS_MAX: u32 = 1_000;

fn start_with_little_disk(folder: &std::path::Path) -> Weir {
    let mut shell = Command::new("/bin/bash");
    // the signal that would end the process is ignored, so that writes fail as on a full disk
    let script = format!("ulimit -f {FILE_BLOCKS_MAX}; trap '' XFSZ; exec \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_weir")]);
    Weir::start_by(shell, folder, &[("WEIR_SEARCH_QUERY_LOG", "true")])
}

fn ingest(client: &Client, path: &str, documents: &[Value]) -> crate::support::client::Reply {
    client.send("POST", path, Some(json!({ "documents": documents }).to_string().as_bytes()))
}

#[test]
fn a_full_disk_refuses_documents_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let weir = start_with_little_disk(folder.path());
    let client = Client::new(&weir.url);
    let kept = ingest(&client, "/v1/ingest?wait=true", &[json!({"id": "kept", "text": "a weir"})]);
    assert_eq!(kept.status, 202, "{}", kept.text);

    let text = "a sluice is a gate. ".repeat(500);
    let mut acknowledged = 1;
    let refused = loop {
        let documents: Vec<Value> =
            (0..10).map(|i| json!({"id": format!("d{}", acknowledged + i), "text": text})).collect();
        let reply = ingest(&client, "/v1/ingest", &documents);
        if reply.status != 202 {
            break reply;
        }
        acknowledged += documents.len();
        assert!(acknowledged < 10_000, "the disk is not as small as it should be");
    };
    match refused.status {
        507 => check_error(&refused, "insufficient_storage", "full"),
        _ => check_error(&refused, "store_unavailable", "full"),
    };
    assert!(weir.is_alive());
    assert_eq!(client.get("/healthz").0, 200);
    assert_eq!(client.document("kept").unwrap()["text"], "a weir");
    for _ in 0..5 {
        let query = "weir ".repeat(200); // the log can't be written, and searches go on
        assert_eq!(client.search(&query, "lexical")[0]["id"], "kept");
    }
    assert_eq!(client.document(&format!("d{acknowledged}")), None, "what was refused is not there");
    weir.terminate();

    let again = Weir::start(folder.path());
    let client = Client::new(&again.url);
    client.wait_until_ready();
    client.wait_until_searchable();
    assert_eq!(client.get("/healthz").1["document_count"], acknowledged);
    assert_eq!(ingest(&client, "/v1/ingest", &[json!({"text": "there is room"})]).status, 202);
    println!("{acknowledged} documents went in before the disk was full");
}
