//! Documents in a stream of lines: what is acknowledged, what fails alone, and a stream that is slowed down.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use crate::support::client::{Client, Reply};

fn send(client: &Client, path: &str, body: &[u8]) -> Reply {
    client.try_send("POST", path, &[("content-type", "application/x-ndjson")], Some(body)).unwrap()
}

/// Documents with these numbers, one on each line.
fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers
        .map(|number| {
            format!("{}\n", json!({"id": format!("d{number:07}"), "text": format!("text {number}")}))
        })
        .collect()
}

/// Begins a chunked request whose reply comes in lines.
fn begin(gateway: &Gateway) -> TcpStream {
    let mut connection = gateway.connect();
    let head = "POST /v1/ingest HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\naccept: application/x-ndjson\r\n\
                transfer-encoding: chunked\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    connection
}

fn chunk(connection: &mut TcpStream, text: &str) {
    connection.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).unwrap();
}

/// The next line of JSON of a chunked reply.
fn next_reply(reader: &mut impl BufRead) -> Value {
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the reply ended");
        if let Ok(reply @ Value::Object(_)) = serde_json::from_str(&line) {
            return reply;
        }
    }
}

#[test]
fn a_bad_line_fails_alone_with_its_number_and_reason() {
    let gateway = Gateway::start();
    let mut body = lines(0..2_500).into_bytes();
    body.extend_from_slice(b"\r\n{\"id\": \"no text\"}\n\xff\n[1]\n");
    body.extend_from_slice(br#"{"id": "last", "text": "the last line has no end"}"#);
    let reply = send(&gateway, "/v1/ingest?wait=true&collection=default", &body);
    assert_eq!(reply.status, 202, "{}", reply.text);
    let reply = reply.json();
    assert_eq!(
        (
            &reply["lines"],
            &reply["documents"],
            &reply["new_documents"],
            &reply["failed_documents"],
            &reply["done"]
        ),
        (&json!(2_505), &json!(2_501), &json!(2_501), &json!(3), &json!(true)),
        "{reply}"
    );
    let errors: Vec<(&Value, &Value, &Value)> = reply["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (&error["line"], &error["document_id"], &error["code"]))
        .collect();
    assert_eq!(
        errors,
        [
            (&json!(2_502), &json!("no text"), &json!("invalid_parameter")),
            (&json!(2_503), &Value::Null, &json!("invalid_utf8")),
            (&json!(2_504), &Value::Null, &json!("invalid_parameter")),
        ]
    );
    assert!(reply["errors"][0]["message"].as_str().unwrap().contains("missing field `text`"), "{reply}");
    assert_eq!(gateway.document_count(), 2_501);
    assert_eq!(gateway.document("last").unwrap()["text"], "the last line has no end");
    for job in reply["jobs"].as_array().unwrap() {
        assert_eq!(gateway.get(&format!("/v1/jobs/{}", job.as_str().unwrap())).1["status"], "completed");
    }
    // the same again changes nothing
    let again = send(&gateway, "/v1/ingest", lines(0..2_500).as_bytes()).json();
    assert_eq!(
        (&again["unchanged_documents"], &again["new_documents"]),
        (&json!(2_500), &json!(0)),
        "{again}"
    );
}

#[test]
fn what_was_acknowledged_stays_when_the_client_leaves_in_the_middle() {
    let gateway = Gateway::start();
    let mut connection = begin(&gateway);
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut sent = 0;
    // lines are acknowledged while the request is being sent
    let acknowledged = loop {
        chunk(&mut connection, &lines(sent..sent + 700));
        sent += 700;
        let reply = next_reply(&mut reader);
        let acknowledged = reply["lines"].as_u64().unwrap();
        assert_eq!(
            (reply["done"].as_bool(), &reply["documents"]),
            (Some(false), &json!(acknowledged)),
            "{reply}"
        );
        if acknowledged >= 1_400 {
            break acknowledged;
        }
    };
    chunk(&mut connection, &lines(sent..sent + 5));
    chunk(&mut connection, "{\"id\": \"half\", \"text\": \"ha");
    drop((connection, reader));
    std::thread::sleep(Duration::from_millis(500));
    gateway.wait_until_searchable();
    let count = gateway.document_count();
    assert!((acknowledged..=sent + 5).contains(&count), "{acknowledged} acknowledged, {count} stored");
    for number in [0, acknowledged - 1] {
        assert!(gateway.document(&format!("d{number:07}")).is_some(), "{number}");
    }
    assert_eq!(gateway.document("half"), None);
}

#[test]
fn a_stream_is_slowed_down_where_a_request_would_be_refused() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_PENDING_OPERATIONS_MAX", "100")]);
    let reply = send(&gateway, "/v1/ingest?wait=true", lines(0..2_500).as_bytes());
    assert_eq!(reply.status, 202, "{}", reply.text);
    assert_eq!(reply.json()["documents"], 2_500, "{}", reply.text);
    assert_eq!(gateway.document_count(), 2_500);
}

#[test]
fn a_stream_has_a_deadline_of_its_own_and_says_what_it_acknowledged() {
    let deadlines =
        [("WEIR_SERVER_REQUEST_DEADLINE_MS", "1000"), ("WEIR_SERVER_INGEST_STREAM_DEADLINE_MS", "4000")];
    let gateway = Gateway::start_with(&deadlines);
    let begun = Instant::now();
    let mut connection = begin(&gateway);
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    chunk(&mut connection, &lines(0..3));
    let last = loop {
        let reply = next_reply(&mut reader);
        if reply["error"].is_object() {
            break reply;
        }
    };
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(
        (&last["lines"], &last["done"], &last["error"]["code"]),
        (&json!(3), &json!(false), &json!("deadline_exceeded"))
    );
    assert_eq!(gateway.document_count(), 3);
    // without lines in the reply the message says it
    let mut stalled = gateway.connect();
    let body = lines(3..5);
    let head = format!(
        "POST /v1/ingest HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/jsonl\r\ncontent-length: 5000\r\n\r\n{body}"
    );
    stalled.write_all(head.as_bytes()).unwrap();
    let mut reply = String::new();
    stalled.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 504 "), "{reply}");
    assert!(reply.contains("the lines up to 2 are stored; send those from 3 on again"), "{reply}");
    assert_eq!(gateway.document_count(), 5);
}

#[test]
fn a_stream_is_refused_like_any_other_request() {
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_DOCUMENT_TEXT_BYTES_MAX", "1000"),
        ("WEIR_LIMITS_METADATA_BYTES_MAX", "1000"),
    ]);
    let unknown = send(&gateway, "/v1/ingest?colection=a", b"");
    check_error(&unknown, "unknown_field", "a parameter");
    check_error(&send(&gateway, "/v1/ingest?collection=a/b", b""), "invalid_parameter", "a name");
    let long = format!("{}\n{}", json!({"id": "long", "text": "x".repeat(3_000)}), lines(0..1));
    let reply = send(&gateway, "/v1/ingest?wait=true", long.as_bytes()).json();
    assert_eq!(
        (&reply["errors"][0]["line"], &reply["errors"][0]["code"]),
        (&json!(1), &json!("payload_too_large")),
        "{reply}"
    );
    assert_eq!((&reply["lines"], &reply["documents"]), (&json!(2), &json!(1)), "{reply}");
}

/// `bench/lines.py` measures 1,000,000 lines.
#[test]
fn a_stream_takes_no_memory_that_grows_with_it() {
    let gateway = Gateway::start();
    let settings = json!({"embedding": "none"}).to_string();
    assert_eq!(gateway.send("PUT", "/v1/collections/words", Some(settings.as_bytes())).status, 201);
    let text = "a weir is a low dam across a river. ".repeat(28);
    let body: String =
        (0..30_000).map(|number| format!("{}\n", json!({"id": format!("{number}"), "text": text}))).collect();
    let before = gateway.weir.rss_mib();
    let reply = send(&gateway, "/v1/ingest?collection=words", body.as_bytes());
    assert_eq!(reply.json()["documents"], 30_000, "{}", reply.text);
    let grown = gateway.weir.rss_mib().saturating_sub(before);
    assert!(grown < 200, "{grown} MiB for {} MiB of lines", body.len() >> 20);
}
