//! Files that are kept beside their documents.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Gateway;
use super::archives::{FILE, zip};
use super::documented::check_error;
use crate::support::client::Reply;

fn put(gateway: &Gateway, id: &str, query: &str, content: &[u8]) -> Reply {
    let path = format!("/v1/collections/default/documents/{id}?wait=true{query}");
    gateway.try_send("PUT", &path, &[("content-type", "text/html")], Some(content)).unwrap()
}

fn original(gateway: &Gateway, id: &str) -> Reply {
    gateway.send("GET", &format!("/v1/collections/default/documents/{id}/original"), None)
}

/// The kept files of a gateway.
fn kept(folder: &Path) -> usize {
    let folders = std::fs::read_dir(folder.join("originals")).into_iter().flatten().flatten();
    folders.map(|entry| std::fs::read_dir(entry.path()).map_or(0, Iterator::count)).sum()
}

fn wait_for_kept(folder: &Path, count: usize) {
    let end = Instant::now() + Duration::from_secs(40);
    while kept(folder) != count {
        assert!(Instant::now() < end, "{} files are kept, not {count}", kept(folder));
        std::thread::sleep(Duration::from_millis(100));
    }
}

const PAGE: &[u8] = b"<title>Mills</title><script>alert(1)</script><p>A mill grinds corn.";

#[test]
fn a_kept_file_is_returned_sandboxed_and_goes_with_its_document() {
    let gateway = Gateway::start();
    let reply = put(&gateway, "a", "&filename=mill%20%22%C3%A4.html&keep_original=true", PAGE);
    assert_eq!(reply.status, 202, "{}", reply.text);
    let same = put(&gateway, "b", "&filename=b.html&keep_original=true", PAGE);
    assert_eq!(same.status, 202, "{}", same.text);
    assert_eq!(put(&gateway, "c", "&filename=c.html", PAGE).status, 202);
    let found = original(&gateway, "a");
    assert_eq!((found.status, found.bytes.as_slice()), (200, PAGE));
    let header = |name: &str| found.header(name).to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("content-disposition"), "attachment; filename*=UTF-8''mill%20%22%C3%A4.html");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(
        header("content-security-policy").starts_with("sandbox"),
        "{}",
        header("content-security-policy")
    );
    assert_eq!(gateway.document("a").unwrap()["metadata"]["file"]["original"], json!(true));
    let missing = check_error(&original(&gateway, "c"), "document_not_found", "a file that was not kept");
    assert!(missing["detail"].as_str().unwrap().contains("keep_original"), "{missing}");
    check_error(&original(&gateway, "none"), "document_not_found", "no document");
    // equal files are one
    assert_eq!(kept(gateway.folder()), 1);
    assert_eq!(gateway.send("DELETE", "/v1/collections/default/documents/a", None).status, 200);
    check_error(&original(&gateway, "a"), "document_not_found", "a deleted document");
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(original(&gateway, "b").bytes, PAGE);
    // another text has another file, and none where it is not kept
    assert_eq!(put(&gateway, "b", "&filename=b.html", b"<p>A lock lifts boats.").status, 202);
    check_error(&original(&gateway, "b"), "document_not_found", "a replaced document");
    wait_for_kept(gateway.folder(), 0);
}

#[test]
fn a_collection_says_whether_it_keeps_files_also_those_within_archives_and_messages() {
    let gateway = Gateway::start_with(&[("WEIR_EXTRACT_ARCHIVES", "true")]);
    assert_eq!(gateway.send("DELETE", "/v1/collections/default", None).status, 200);
    let made = gateway.send("PUT", "/v1/collections/default", Some(br#"{"keep_originals": true}"#));
    assert_eq!(made.json()["settings"]["keep_originals"], true, "{}", made.text);
    let other = gateway.send("PUT", "/v1/collections/default", Some(br#"{"keep_originals": false}"#));
    check_error(&other, "collection_conflict", "another setting");
    let archive = zip(&[("a/mill.html", FILE, PAGE), ("tool.exe", FILE, b"MZ\0\x01")]);
    assert_eq!(put(&gateway, "all.zip", "", &archive).status, 202);
    let mail = b"From: a@example.org\r\nSubject: Weirs\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nSee the note.\r\n\
        --x\r\nContent-Type: text/plain; name=note.txt\r\nContent-Disposition: attachment; filename=note.txt\r\n\r\n\
        A weir is a low dam.\r\n--x--\r\n";
    assert_eq!(put(&gateway, "m.eml", "", mail).status, 202);
    assert_eq!(original(&gateway, "all.zip%2Fa%2Fmill.html").bytes, PAGE);
    assert_eq!(original(&gateway, "m.eml%2Fnote.txt").bytes, b"A weir is a low dam.");
    assert_eq!(original(&gateway, "m.eml").bytes, mail);
    let member = gateway.document("all.zip/a/mill.html").unwrap();
    let about = &member["metadata"]["file"];
    assert_eq!(
        (&about["original"], about["sha256"].as_str().map(str::len)),
        (&json!(true), Some(64)),
        "{about}"
    );
    // the archive itself has no document, and is not kept
    check_error(&original(&gateway, "all.zip"), "document_not_found", "an archive");
    assert_eq!(kept(gateway.folder()), 3);
    let metrics = gateway.send("GET", "/metrics", None).text;
    let bytes = PAGE.len() + mail.len() + 20;
    for line in [
        "weir_originals_total{result=\"kept\"} 3".to_owned(),
        "weir_original_files 3".to_owned(),
        format!("weir_original_bytes {bytes}"),
        "weir_archive_members_total{result=\"unpacked\"} 2".to_owned(),
    ] {
        assert!(metrics.contains(&line), "`{line}` is not in {metrics}");
    }
    // an upload says otherwise
    assert_eq!(put(&gateway, "b", "&filename=b.html&keep_original=false", b"<p>A lock.").status, 202);
    check_error(&original(&gateway, "b"), "document_not_found", "a file that was not kept");
}

/// The output of `weir doctor --json` over a folder, and whether it found no problem.
fn doctor(folder: &Path) -> (Value, bool) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = command.env_clear().args(["doctor", "--json", "--data-dir"]).arg(folder).output().unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.success())
}

#[test]
fn doctor_names_kept_files_that_are_missing_or_changed() {
    let gateway = Gateway::start_with(&[("WEIR_EXTRACT_KEEP_ORIGINALS", "true")]);
    for (id, page) in [("a", "<p>A mill."), ("b", "<p>A lock."), ("c", "<p>A weir.")] {
        assert_eq!(put(&gateway, id, &format!("&filename={id}.html"), page.as_bytes()).status, 202);
    }
    let (report, is_sound) = doctor(gateway.folder());
    assert_eq!((&report["rows"]["originals"], is_sound), (&json!(3), true), "{report}");
    let path_of = |id: &str| {
        let sha256 = gateway.document(id).unwrap()["metadata"]["file"]["sha256"].as_str().unwrap().to_owned();
        gateway.folder().join("originals").join(&sha256[..2]).join(sha256)
    };
    std::fs::remove_file(path_of("a")).unwrap();
    std::fs::write(path_of("b"), "<p>A dock.").unwrap();
    let (report, is_sound) = doctor(gateway.folder());
    let problems: Vec<&str> =
        report["problems"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(!is_sound && problems.len() == 2, "{report}");
    let names = |id: &str, words: &str| problems.iter().any(|one| one.contains(&format!("{id:?} {words}")));
    assert!(names("a", "can't be read") && names("b", "has other bytes"), "{report}");
}

#[test]
fn kept_files_survive_a_restart_and_are_limited_in_all() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("WEIR_EXTRACT_KEEP_ORIGINALS", "true"), ("WEIR_EXTRACT_ORIGINALS_BYTES_MAX", "150")];
    let gateway = Gateway::start_in(folder.path(), &settings);
    assert_eq!(put(&gateway, "a", "&filename=a.html", PAGE).status, 202);
    gateway.weir.terminate();
    let gateway = Gateway::start_in(folder.path(), &settings);
    std::fs::write(folder.path().join("originals").join("left.part-1"), "no folder").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(original(&gateway, "a").bytes, PAGE);
    let other = [b"<p>other text ".as_slice(), &[b'x'; 100]].concat();
    let refused =
        check_error(&put(&gateway, "b", "&filename=b.html", &other), "insufficient_storage", "the limit");
    assert!(refused["detail"].as_str().unwrap().contains("extract.originals_bytes_max"), "{refused}");
    assert_eq!(put(&gateway, "b", "&filename=b.html&keep_original=false", &other).status, 202);
    // the same file under another name, and the space that a deletion frees
    assert_eq!(put(&gateway, "c", "&filename=c.html", PAGE).status, 202);
    for id in ["a", "c"] {
        assert_eq!(
            gateway.send("DELETE", &format!("/v1/collections/default/documents/{id}"), None).status,
            200
        );
    }
    wait_for_kept(folder.path(), 0);
    assert_eq!(put(&gateway, "b", "&filename=b.html", &other).status, 202);
    assert_eq!(original(&gateway, "b").bytes, other);
}
