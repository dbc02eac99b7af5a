//! Files that are sent again: the same bytes with the same settings are neither read nor embedded again.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Gateway;
use super::uploads::{Part, upload};

/// Files by the result of their extraction.
fn extractions(gateway: &Gateway, result: &str) -> u64 {
    let metrics = gateway.send("GET", "/metrics", None).text;
    let label = format!(",result=\"{result}\"}} ");
    let counts = metrics.lines().filter(|line| line.starts_with("weir_extractions_total{"));
    counts.filter_map(|line| line.split_once(&label)).map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}

fn send(gateway: &Gateway, parts: &[Part<'_>]) -> Value {
    let reply = upload(gateway, parts);
    assert_eq!(reply.status, 202, "{}", reply.text);
    gateway.wait_until_searchable();
    reply.json()
}

fn counts(job: &Value) -> (u64, u64, u64) {
    let count = |name: &str| job[name].as_u64().unwrap();
    (count("new_documents"), count("changed_documents"), count("unchanged_documents"))
}

#[test]
fn a_file_is_read_again_only_if_its_bytes_or_settings_differ() {
    let gateway = Gateway::start();
    let file = "name=\"file\"; filename=\"weir.txt\"";
    let options = |json: &'static str| ("name=\"options\"", json.as_bytes());
    let first: [Part<'_>; 2] = [(file, b"A weir is a low dam."), options(r#"{"metadata": {"year": 1}}"#)];
    assert_eq!(counts(&send(&gateway, &first)), (1, 0, 0));
    assert_eq!(counts(&send(&gateway, &first)), (0, 0, 1));
    assert_eq!((extractions(&gateway, "extracted"), extractions(&gateway, "unchanged")), (1, 1));
    let file_of = |gateway: &Gateway| gateway.document("weir.txt").unwrap()["metadata"]["file"].clone();
    assert_eq!(file_of(&gateway)["reader"], 1);

    let settings = [(file, &b"A weir is a low dam."[..]), options(r#"{"metadata": {"year": 2}}"#)];
    assert_eq!(counts(&send(&gateway, &settings)), (0, 1, 0), "other metadata");
    let bytes = [(file, &b"A weir is a dam."[..]), options(r#"{"metadata": {"year": 2}}"#)];
    assert_eq!(counts(&send(&gateway, &bytes)), (0, 1, 0), "other bytes");
    assert_eq!(counts(&send(&gateway, &bytes)), (0, 0, 1));
    assert_eq!((extractions(&gateway, "extracted"), extractions(&gateway, "unchanged")), (3, 2));

    // what was changed, replaced or deleted since is read again
    let path = "/v1/collections/default/documents/weir.txt";
    assert_eq!(gateway.send("PATCH", path, Some(br#"{"title": "other"}"#)).status, 202);
    assert_eq!(counts(&send(&gateway, &bytes)), (0, 1, 0), "patched");
    assert_eq!(gateway.document("weir.txt").unwrap()["title"], "weir");
    assert_eq!(gateway.send("PUT", path, Some(br#"{"text": "other"}"#)).status, 202);
    assert_eq!(counts(&send(&gateway, &bytes)), (0, 1, 0), "replaced");
    assert_eq!(gateway.send("DELETE", path, None).status, 200);
    assert_eq!(counts(&send(&gateway, &bytes)), (1, 0, 0), "deleted");
    assert_eq!(counts(&send(&gateway, &bytes)), (0, 0, 1));
}

#[test]
fn of_files_with_one_id_the_last_is_stored_also_when_it_is_known() {
    let gateway = Gateway::start();
    let name = "name=\"file\"; filename=\"a.txt\"";
    let (old, new): (Part<'_>, Part<'_>) = ((name, b"old"), (name, b"new"));
    let text = || gateway.document("a.txt").unwrap()["text"].clone();
    send(&gateway, &[old]);
    let job = send(&gateway, &[new, old]);
    assert_eq!((text(), counts(&job)), (json!("old"), (0, 0, 1)), "{job}");
    send(&gateway, &[old, new]);
    assert_eq!(text(), "new");
}

#[test]
fn a_message_is_known_only_with_all_of_its_attachments() {
    let gateway = Gateway::start();
    let mail = b"From: a@example.org\r\nSubject: Weirs\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nSee the note.\r\n\
        --x\r\nContent-Type: text/plain; name=note.txt\r\nContent-Disposition: attachment; filename=note.txt\r\n\r\n\
        A weir is a low dam.\r\n--x--\r\n";
    let parts: [Part<'_>; 1] = [("name=\"file\"; filename=\"m.eml\"", mail)];
    assert_eq!(counts(&send(&gateway, &parts)), (2, 0, 0));
    assert_eq!(counts(&send(&gateway, &parts)), (0, 0, 2));
    assert_eq!(extractions(&gateway, "unchanged"), 1);
    let path = "/v1/collections/default/documents/m.eml%2Fnote.txt";
    assert_eq!(gateway.send("DELETE", path, None).status, 200);
    assert_eq!(counts(&send(&gateway, &parts)), (1, 0, 1), "the attachment is stored again");
    assert_eq!(extractions(&gateway, "unchanged"), 1);
}

#[test]
fn a_caller_with_a_filter_learns_nothing_of_files_that_are_hidden_from_it() {
    // hidden documents are unknown: the file is read, and refused as one that may not be stored
    let gateway = Gateway::start();
    let put = |tenant: &str, key: &str| {
        let path = format!(
            "/v1/collections/default/documents/a.txt?wait=true&metadata=%7B%22tenant%22%3A%22{tenant}%22%7D"
        );
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "text/plain")];
        gateway.try_send("PUT", &path, &headers[usize::from(key.is_empty())..], Some(b"a weir")).unwrap()
    };
    assert_eq!(put("b", "").status, 202);
    let key = |by: &str, request: &Value| {
        let bearer = format!("Bearer {by}");
        let headers = [("authorization", bearer.as_str())];
        let body = request.to_string();
        let made = gateway
            .try_send("POST", "/v1/keys", &headers[usize::from(by.is_empty())..], Some(body.as_bytes()))
            .unwrap();
        assert_eq!(made.status, 201, "{}", made.text);
        made.json()["key"].as_str().unwrap().to_owned()
    };
    let admin = key("", &json!({"name": "admin", "scopes": ["admin", "search", "ingest"]}));
    let tenant =
        key(&admin, &json!({"name": "a", "scopes": ["search", "ingest"], "filter": {"tenant": "a"}}));
    assert_eq!(put("b", &admin).json()["unchanged_documents"], 1);
    for of in ["a", "b"] {
        let reply = put(of, &tenant);
        assert_eq!(
            (reply.status, &reply.json()["code"]),
            (403, &json!("document_not_allowed")),
            "{}",
            reply.text
        );
    }
}

/// 500 files of the size of a page, without embeddings that cost anything: the first time is that of reading them in child processes. With a
/// model, `bench/known_files.py` compares.
#[test]
fn unchanged_files_cost_less_than_a_twentieth_of_reading_them() {
    const FILES: usize = 500;
    let gateway = Gateway::start();
    let names: Vec<String> =
        (0..FILES).map(|file| format!("name=\"file\"; filename=\"{file}.txt\"")).collect();
    let texts: Vec<String> = (0..FILES)
        .map(|file| format!("Weir {file} holds back river {file} above mill {file}. ").repeat(40))
        .collect();
    let parts: Vec<Part<'_>> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_bytes)).collect();
    let timed = |expected| {
        let begun = Instant::now();
        assert_eq!(counts(&send(&gateway, &parts)), expected);
        begun.elapsed()
    };
    let first = timed((FILES as u64, 0, 0));
    let again = (0..3).map(|_| timed((0, 0, FILES as u64))).min().unwrap_or(Duration::MAX);
    println!("{FILES} files: {first:?}, unchanged {again:?}");
    assert_eq!(extractions(&gateway, "extracted"), FILES as u64);
    assert!(again * 20 < first, "{again:?} after {first:?}");
}
