//! SIGKILL can't see a missing fsync: the system keeps what was written. A trace of system calls can.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::client::Client;
use crate::support::process::Weir;

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
        "4096", // a page of the store
        "-e",
        "trace=openat,read,recvfrom,write,pwrite64,writev,sendto,fsync,fdatasync",
        "-o",
    ]);
    strace.arg(&trace).arg(env!("CARGO_BIN_EXE_weir"));
    let weir = Weir::start_by(strace, &folder.path().join("data"), &[]);
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    const DOCUMENTS: usize = 8;
    for i in 0..DOCUMENTS {
        let body = json!({"documents": [{"id": format!("marked-{i}"), "text": format!("text {i}")}]});
        assert_eq!(client.try_post("/v1/ingest", &body).unwrap().0, 202);
        client.wait_until_searchable();
    }
    assert_eq!(client.try_delete("marked-0").unwrap().0, 200);
    weir.kill();
    let text = whole(&trace);
    let markers = (0..DOCUMENTS).map(|i| format!("marked-{i}")).chain(["marked-0".to_owned()]);
    let replies = check(&text, &markers.collect::<Vec<_>>());
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

/// How far a request has come on its way to the disk.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Progress {
    /// It is read.
    Arrived,
    /// The store's log was handed its document, and not yet synced.
    Written,
    /// The store's log was synced after that; what the ingest worker writes later does not matter.
    Synced,
}

/// Walks through the trace: an acknowledgement needs a write of its document's id, one of `markers` in the order of the
/// requests, to the store's log since the request came, and a sync of the log after that write. Returns the number of
/// acknowledgements.
fn check(trace: &str, markers: &[String]) -> usize {
    let mut logs: BTreeSet<String> = BTreeSet::new(); // descriptors of the store's log
    let mut unfinished: BTreeMap<&str, String> = BTreeMap::new();
    let mut requests = markers.iter();
    let mut request: Option<(&String, Progress)> = None;
    let mut replies = 0;
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
        let (name, rest) = call.split_once('(').unwrap_or_default();
        let descriptor = rest.split([',', ')']).next().unwrap_or("");
        match name {
            "openat" if call.contains("store.sqlite3-wal") => {
                logs.insert(call.rsplit("= ").next().unwrap_or("").trim().to_owned());
            }
            "read" | "recvfrom" if call.contains("\"POST /v1/ingest") || call.contains("\"DELETE /v1/") => {
                request = requests.next().map(|marker| (marker, Progress::Arrived));
            }
            "pwrite64" if logs.contains(descriptor) => {
                if let Some((marker, progress @ Progress::Arrived)) = &mut request
                    && call.contains(marker.as_str())
                {
                    *progress = Progress::Written;
                }
            }
            "fsync" | "fdatasync" if logs.contains(descriptor) && call.trim_end().ends_with("= 0") => {
                if let Some((_, progress @ Progress::Written)) = &mut request {
                    *progress = Progress::Synced;
                }
            }
            "write" | "writev" | "sendto" if is_acknowledgement(&call) => {
                let progress = request.take().map(|(_, progress)| progress);
                assert_eq!(progress, Some(Progress::Synced), "acknowledged too early: {call}");
                replies += 1;
            }
            _ => {}
        }
    }
    replies
}

/// The reply of an ingest, or of the one deletion.
fn is_acknowledgement(call: &str) -> bool {
    call.contains("HTTP/1.1 202") || call.contains("deleted")
}
