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

/// Starts a gateway whose data directory is a file system of its own with this many MiB, with a file in it that takes most of them. `None` where
/// the system does not allow to mount one.
fn start_on_small_disk(folder: &std::path::Path, mib: u32, ballast_mib: u32) -> Option<Weir> {
    let can_mount = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    if !can_mount.is_ok_and(|run| run.status.success()) {
        return None;
    }
    let mut shell = Command::new("unshare");
    let mount = format!("mount -t tmpfs -o size={mib}m tmpfs {}", folder.display());
    let fill = format!("head -c {}m /dev/zero > {}/ballast", ballast_mib, folder.display());
    let script = format!("PATH=/usr/bin:/bin:/usr/sbin:/sbin; {mount} && {fill} && exec \"$0\" \"$@\"");
    shell.args(["-rm", "/bin/bash", "-c", &script, env!("CARGO_BIN_EXE_weir")]);
    Some(Weir::start_by(shell, folder, &[]))
}

/// Frees what the ballast takes.
fn make_room(weir: &Weir, folder: &std::path::Path) {
    let inside = format!("/proc/{}/root{}/ballast", weir.id(), folder.display());
    std::fs::remove_file(inside).unwrap();
}

#[test]
fn an_upload_to_a_full_disk_is_refused_and_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some(weir) = start_on_small_disk(folder.path(), 64, 56) else {
        println!("not tested: the system does not allow to mount a file system");
        return;
    };
    let client = Client::new(&weir.url);
    let kept = ingest(&client, "/v1/ingest?wait=true", &[json!({"id": "kept", "text": "a weir"})]);
    assert_eq!(kept.status, 202, "{}", kept.text);
    let page = format!("<title>Mills</title><!--{}--><p>A mill grinds corn.", "x".repeat(10 << 20));
    let html = [("content-type", "text/html")];
    let path = "/v1/collections/default/documents/page.html?wait=true";
    let upload = || client.try_send("PUT", path, &html, Some(page.as_bytes())).unwrap();
    check_error(&upload(), "insufficient_storage", "an upload");
    // a stream says how far it has been stored
    // one word each: a chunk of it takes little of the disk
    let word = "s".repeat(4_000);
    let line = |number: u32| format!("{}\n", json!({"id": format!("{number:05}"), "text": word}));
    let lines: String = (1..=5_000).map(line).collect();
    let ndjson = [("content-type", "application/x-ndjson")];
    let refused = client.try_send("POST", "/v1/ingest", &ndjson, Some(lines.as_bytes())).unwrap();
    let detail =
        check_error(&refused, "insufficient_storage", "lines")["detail"].as_str().unwrap().to_owned();
    let stored = detail.split("the lines up to ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let stored: u32 = stored.parse().unwrap();
    let last = (stored > 0).then(|| client.document(&format!("{stored:05}")));
    assert_ne!(last, Some(None), "{detail}");
    assert_eq!(client.document(&format!("{:05}", stored + 1)), None, "{detail}");
    assert_eq!(client.document("kept").unwrap()["text"], "a weir");

    make_room(&weir, folder.path());
    let reply = upload();
    assert_eq!(reply.status, 202, "{}", reply.text);
    client.wait_until_searchable();
    assert_eq!(client.search("mill corn", "lexical")[0]["id"], "page.html");
    let rest: String = (stored + 1..=stored + 100).map(line).collect();
    let reply = client.try_send("POST", "/v1/ingest", &ndjson, Some(rest.as_bytes())).unwrap();
    assert_eq!(reply.json()["new_documents"], 100, "{}", reply.text);
}
