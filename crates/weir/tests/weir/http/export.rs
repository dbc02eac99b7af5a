//! A collection as lines of JSON, and back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use crate::cli_support::Weir;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stored(gateway: &Gateway, collection: &str) -> Vec<Value> {
    let (_, list) = gateway.get(&format!("/v1/collections/{collection}/documents?limit=1000"));
    let without_version = |document: &Value| {
        let mut document = document.clone();
        document.as_object_mut().unwrap().remove("version");
        document
    };
    list["data"].as_array().unwrap().iter().map(without_version).collect()
}

#[test]
fn an_export_is_ingested_as_it_is_with_pages_and_every_byte_of_metadata() {
    let gateway = Gateway::start();
    let form = [("content-type", "text/plain")];
    let path = "/v1/collections/default/documents/manual?wait=true";
    gateway.try_send("PUT", path, &form, Some("one weir\u{c}two locks\u{c}".as_bytes())).unwrap();
    gateway.wait_until_searchable();
    let documents = r#"{"documents":[{"id":"b/\"é","title":"t","text":"x\ny","metadata":{"n":1.10,"big":123456789012345678901234567890}},{"id":"a","text":"plain"}]}"#;
    assert_eq!(gateway.send("POST", "/v1/ingest?wait=true", Some(documents.as_bytes())).status, 202);
    gateway.wait_until_searchable();
    let reply = gateway.send("GET", "/v1/collections/default/export", None);
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/x-ndjson"), "{}", reply.text);
    assert!(
        reply.text.contains(r#""metadata":{"n":1.10,"big":123456789012345678901234567890}"#),
        "{}",
        reply.text
    );
    let exported = lines(&reply.text);
    let ids: Vec<&str> = exported.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b/\"é", "manual"]);
    assert_eq!(exported[2]["pages"], json!([{"end": 9}, {"end": 19}]));

    let body =
        format!("{{\"collection\":\"copy\",\"documents\":[{}]}}", reply.text.trim().replace('\n', ","));
    let job = gateway.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes()));
    assert_eq!((job.status, &job.json()["failed_documents"]), (202, &json!(0)), "{}", job.text);
    let again = gateway.send("GET", "/v1/collections/copy/export", None);
    assert_eq!(again.text, reply.text);
    let ndjson = [("content-type", "application/x-ndjson")];
    let lines_path = "/v1/ingest?collection=lines&wait=true";
    let job = gateway.try_send("POST", lines_path, &ndjson, Some(reply.text.as_bytes())).unwrap();
    assert_eq!(job.status, 202, "{}", job.text);
    assert_eq!(gateway.send("GET", "/v1/collections/lines/export", None).text, reply.text);
    assert_eq!(stored(&gateway, "copy"), stored(&gateway, "default"));
    let search = json!({"query": "locks", "collection": "copy", "mode": "lexical"}).to_string();
    let hit = gateway.send("POST", "/v1/search", Some(search.as_bytes())).json()["results"][0].clone();
    assert_eq!(hit["citation"]["page_end"], 2, "{hit}");

    let rest = gateway.send("GET", "/v1/collections/default/export?after=a", None);
    assert_eq!(lines(&rest.text), exported[1..]);
    assert_eq!(gateway.send("GET", "/v1/collections/default/export?after=z", None).text, "");
    check_error(&gateway.send("GET", "/v1/collections/no/export", None), "collection_not_found", "none");
    check_error(
        &gateway.send("GET", "/v1/collections/copy/export?before=a", None),
        "unknown_field",
        "before",
    );
}

#[test]
fn pages_that_do_not_tile_the_text_are_refused() {
    let gateway = Gateway::start();
    let refused = |pages: Value, words: &str| {
        let body = json!({"documents": [{"id": "a", "text": "abc", "pages": pages}]}).to_string();
        let reply = gateway.send("POST", "/v1/ingest", Some(body.as_bytes()));
        let problem = check_error(&reply, "invalid_parameter", words);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    };
    refused(json!([]), "must have 1 to");
    refused(json!([{"end": 2}]), "the last page ends at 2");
    refused(json!([{"end": 9}]), "page 1 ends at 9");
    refused(json!([{"end": 2}, {"end": 1}]), "page 2 ends at 1");
}

/// More than the buffers between the gateway and its reader hold.
#[test]
fn an_export_is_read_while_it_is_sent_and_holds_one_part_in_memory() {
    const DOCUMENTS: usize = 120;
    let gateway =
        Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "8000"), ("WEIR_CHUNKING_OVERLAP_TOKENS", "0")]);
    gateway.send("PUT", "/v1/collections/large", Some(br#"{"embedding":"none"}"#));
    let text = "a weir is a low dam ".repeat(25_000);
    for number in 0..DOCUMENTS {
        let document = json!({"id": format!("{number:04}"), "text": format!("{number} {text}")});
        let body = json!({"collection": "large", "documents": [document]}).to_string();
        assert_eq!(gateway.send("POST", "/v1/ingest", Some(body.as_bytes())).status, 202);
    }
    gateway
        .wait("the last document", || gateway.get("/v1/collections/large").1["document_count"] == DOCUMENTS);
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.weir.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    };
    let before = memory();
    let mut connection = gateway.connect();
    connection
        .write_all(
            b"GET /v1/collections/large/export HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        )
        .unwrap();
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    // the reader is slow: the gateway waits for it, and goes on with what is stored by then
    std::thread::sleep(std::time::Duration::from_secs(2));
    let during = memory();
    assert!(during < before + 40, "{during} MiB after {before} MiB");
    for id in ["0000", "0119"] {
        let path = format!("/v1/collections/large/documents/{id}");
        assert_eq!(gateway.send("DELETE", &path, None).status, 200);
    }
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    let whole = String::from_utf8_lossy(&rest);
    let count = whole.matches("{\"id\":\"0").count();
    // the first was sent before it was deleted, the last was not
    assert_eq!(count, DOCUMENTS - 1);
    assert!(whole.ends_with("0\r\n\r\n"), "the end of the chunks");
}

#[test]
fn an_export_breaks_off_when_its_collection_is_deleted() {
    let gateway =
        Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "8000"), ("WEIR_CHUNKING_OVERLAP_TOKENS", "0")]);
    gateway.send("PUT", "/v1/collections/large", Some(br#"{"embedding":"none"}"#));
    let text = "a weir is a low dam ".repeat(50_000);
    for number in 0..40 {
        let body = json!({"collection": "large", "documents": [{"id": number.to_string(), "text": format!("{number} {text}")}]});
        assert_eq!(gateway.send("POST", "/v1/ingest", Some(body.to_string().as_bytes())).status, 202);
    }
    let mut connection = gateway.connect();
    connection
        .write_all(
            b"GET /v1/collections/large/export HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        )
        .unwrap();
    let mut start = [0; 100];
    connection.read_exact(&mut start).unwrap();
    assert_eq!(gateway.send("DELETE", "/v1/collections/large", None).status, 200);
    let mut rest = Vec::new();
    let outcome = connection.read_to_end(&mut rest);
    assert!(outcome.is_err() || !rest.ends_with(b"0\r\n\r\n"), "taken for the whole");
}

#[test]
fn the_command_writes_a_file_or_a_folder_that_are_ingested_again() {
    let gateway = Gateway::start();
    gateway.ingest(&[
        json!({"id": "a/1", "title": "t", "text": "x", "metadata": {"path": "p", "n": 1}}),
        json!({"id": "../b", "text": "y", "metadata": {"path": "p"}}),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let weir = Weir::new().in_folder(&folder).env("WEIR_URL", &gateway.weir.url);
        weir.env("HOME", folder.path().to_str().unwrap()).run(arguments)
    };
    let shown = run(&["export"]);
    assert_eq!((shown.code, lines(&shown.out).len()), (0, 2), "{}", shown.err);
    let to_file = run(&["export", "default", "--output", "all.jsonl"]);
    assert_eq!((to_file.code, to_file.err.as_str()), (0, "2 documents went to all.jsonl\n"));
    assert_eq!(std::fs::read_to_string(folder.path().join("all.jsonl")).unwrap(), shown.out);
    let to_folder = run(&["export", "--folder", "all"]);
    assert_eq!(
        (to_folder.code, to_folder.err.as_str()),
        (0, "2 documents went to all\n"),
        "{}",
        to_folder.err
    );
    assert!(
        folder.path().join("all/a/1.json").is_file() && folder.path().join("all/%2E%2E/b.json").is_file()
    );
    let again = run(&["export", "--folder", "all"]);
    assert_eq!(again.code, 1);
    assert!(
        again.err.contains("is not empty") && again.err.contains("a new or an empty folder"),
        "{}",
        again.err
    );
    let missing = run(&["export", "defualt", "--output", "none.jsonl"]);
    assert!(missing.code == 1 && missing.err.contains("did you mean `default`"), "{}", missing.err);
    assert!(!folder.path().join("none.jsonl").exists());

    let imported = run(&["ingest", "all.jsonl", "--collection", "copy"]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    assert_eq!(stored(&gateway, "copy"), stored(&gateway, "default"));
    let imported = run(&["ingest", "all", "--collection", "files"]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    let ids: Vec<Value> =
        stored(&gateway, "files").into_iter().map(|document| document["id"].clone()).collect();
    assert_eq!(ids, [json!("../b"), json!("a/1")]);
}
