//! SIGKILL can't see a missing fsync: the system keeps what was written. A trace of system calls can.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::client::Client;
use crate::process::Weir;

#[test]
fn the_store_is_synced_before_each_acknowledgement() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut strace = Command::new("/usr/bin/strace");
    // -D: the child is the gateway itself and the tracer its grandchild, so that killing the child ends both
    strace.args([
        "-D",
        "-f",
        "-s",
        "64",
        "-e",
        "trace=openat,write,pwrite64,writev,sendto,fsync,fdatasync",
        "-o",
    ]);
    strace.arg(&trace).arg(env!("CARGO_BIN_EXE_weir"));
    let weir = Weir::start_by(strace, &folder.path().join("data"));
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    const DOCUMENTS: usize = 8;
    for i in 0..DOCUMENTS {
        let body = json!({"documents": [{"id": format!("d{i}"), "text": format!("text {i}")}]});
        assert_eq!(client.try_post("/v1/ingest", &body).unwrap().0, 202);
        client.wait_until_searchable();
    }
    assert_eq!(client.try_delete("d0").unwrap().0, 200);
    weir.kill();
    let text = whole(&trace);
    let replies = check(&text);
    println!("fsync trace: {replies} acknowledgements, each after a sync of the store");
    assert_eq!(replies, DOCUMENTS + 1);
}

/// The trace, when the tracer has written its last line.
fn whole(trace: &Path) -> String {
    for _ in 0..1000 {
        let text = std::fs::read_to_string(trace).unwrap();
        if text.lines().last().is_some_and(|line| line.ends_with("+++ killed by SIGKILL +++")) {
            return text;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("strace did not end");
}

/// Walks through the trace: an acknowledgement needs a write to the store's log since the one before, and a sync of
/// that file after its last write. Returns the number of acknowledgements.
fn check(trace: &str) -> usize {
    let mut files: BTreeMap<String, bool> = BTreeMap::new(); // descriptors of the log; whether what it got is synced
    let mut unfinished: BTreeMap<&str, String> = BTreeMap::new();
    let (mut has_written, mut replies) = (false, 0);
    for line in trace.lines() {
        let (thread, call) = line.split_once(' ').unwrap_or_default();
        let call = call.trim_start();
        // a call that another thread interrupted comes in two lines; it is done at the second
        let call = if let Some(start) = call.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, start.trim_end().to_owned());
            continue;
        } else if let Some((_, end)) = call.split_once("resumed>") {
            format!("{}{end}", unfinished.remove(thread).unwrap_or_default())
        } else {
            call.to_owned()
        };
        let descriptor =
            call.split_once('(').map_or("", |(_, rest)| rest.split([',', ')']).next().unwrap_or(""));
        if call.starts_with("openat(") && call.contains("store.sqlite3-wal") {
            let opened = call.rsplit("= ").next().unwrap_or("").trim().to_owned();
            files.insert(opened, true);
        } else if call.starts_with("pwrite64(") && files.contains_key(descriptor) {
            files.insert(descriptor.to_owned(), false);
            has_written = true;
        } else if (call.starts_with("fdatasync(") || call.starts_with("fsync("))
            && call.trim_end().ends_with("= 0")
        {
            files.entry(descriptor.to_owned()).and_modify(|is_synced| *is_synced = true);
        } else if is_acknowledgement(&call) {
            assert!(has_written, "acknowledged without a write to the store: {call}");
            assert!(
                files.values().all(|is_synced| *is_synced),
                "acknowledged before the store was synced: {call}"
            );
            has_written = false;
            replies += 1;
        }
    }
    replies
}

/// The reply of an ingest, or of the one deletion.
fn is_acknowledgement(call: &str) -> bool {
    let is_reply = ["write(", "writev(", "sendto("].iter().any(|name| call.starts_with(name));
    is_reply && (call.contains("HTTP/1.1 202") || call.contains("deleted"))
}
