//! Headers, the last requests, counters.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{CHAT, CHAT_BODY, CHAT_STREAM, parse, start};
use serde_json::json;

#[test]
fn a_header_overrides_a_flag_for_one_request() {
    let mock = start(&["--tokens", "2", "--status-503", "1"]);
    let headers = [("X-Mock-Tokens", "3"), ("x-mock-status-503", "0")];
    let reply = mock.post(CHAT, &headers, CHAT_BODY).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "t000001 t000002 t000003");
    assert_eq!(mock.post(CHAT, &[], CHAT_BODY).status, 503);
}

#[test]
fn replies_have_the_size_that_is_asked_for() {
    let mock = start(&["--response-bytes", "20"]);
    let text_len = |headers: &[(&str, &str)]| {
        let reply = mock.post(CHAT, headers, CHAT_BODY).json();
        reply["choices"][0]["message"]["content"].as_str().unwrap().len()
    };
    assert_eq!(text_len(&[]), 20);
    assert_eq!(text_len(&[("X-Response-Size", "1024")]), 1024);
    assert_eq!(text_len(&[("x-mock-response-bytes", "3")]), 3);
}

#[test]
fn the_published_drop_header_is_an_error_500() {
    let mock = start(&[]);
    assert_eq!(mock.post(CHAT, &[("X-Vidai-Chaos-Drop", "100")], CHAT_BODY).status, 500);
    assert_eq!(mock.post(CHAT, &[("X-Vidai-Chaos-Drop", "0")], CHAT_BODY).status, 200);
}

#[test]
fn a_wrong_header_is_an_error_that_names_the_options() {
    let reply = start(&[]).post(CHAT, &[("x-mock-token", "3")], CHAT_BODY);
    assert_eq!(reply.status, 400);
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`token` is not an option") && message.contains("no-blank-line"), "{message}");
}

/// Sends a request on a connection that stays open, and returns its reply.
fn ask(stream: &mut TcpStream, header: &str) -> String {
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: m\r\n{header}content-length: {}\r\n\r\n{CHAT_BODY}",
        CHAT_BODY.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend(&buffer[..count]);
        if let Some(reply) = parse(&bytes).filter(|reply| reply.is_complete || count == 0) {
            return reply.text().to_owned();
        }
    }
}

#[test]
fn options_of_a_request_do_not_apply_to_the_next_on_its_connection() {
    let mock = start(&["--tokens", "2"]);
    let mut stream = TcpStream::connect(mock.addr()).unwrap();
    ask(&mut stream, "x-mock-malformed: 1\r\nx-mock-cut-bytes: 50\r\nx-mock-cut-pause-ms: 200\r\n");
    let start = Instant::now();
    let second = ask(&mut stream, "");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(second.contains(r#""id":"chatcmpl-2""#) && second.ends_with("}}"), "{second}");
    assert_eq!(mock.stats()["connections"], 2);
}

#[test]
fn connections_above_the_limit_wait_until_one_is_closed() {
    let mock = start(&["--connections-max", "1"]);
    let mut first = TcpStream::connect(mock.addr()).unwrap();
    ask(&mut first, "");
    let mut second = mock.open("GET", "/mock/stats", &[], "");
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(second.read(&mut [0; 1]).is_err(), "the second connection is not served yet");
    drop(first);
    assert_eq!(mock.stats()["connections_open"], 1);
}

#[test]
fn the_last_requests_show_what_reached_the_server() {
    let mock = start(&["--last-max", "2", "--last-body-bytes-max", "10"]);
    for key in ["one", "two", "three"] {
        mock.post(&format!("{CHAT}?key={key}"), &[("authorization", key)], CHAT_BODY);
    }
    let last = mock.get("/mock/last").json();
    let requests = last["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 2);
    let third = &requests[1];
    assert_eq!((&third["number"], &third["method"]), (&json!(3), &json!("POST")));
    assert_eq!(third["path"], "/v1/chat/completions?key=three");
    assert_eq!((&third["body"], &third["body_bytes"]), (&json!(&CHAT_BODY[..10]), &json!(CHAT_BODY.len())));
    let headers = third["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["authorization", "three"])), "{headers:?}");
    assert!(!last.to_string().contains("one"));
}

#[test]
fn requests_that_fail_are_shown_too() {
    let mock = start(&["--status-500", "1"]);
    mock.post(CHAT, &[], "not JSON");
    mock.post("/v1/elsewhere", &[("x-mock-tokens", "0")], "");
    let last = mock.get("/mock/last").json();
    assert_eq!(
        (&last["requests"][0]["body"], &last["requests"][1]["path"]),
        (&json!("not JSON"), &json!("/v1/elsewhere"))
    );
}

#[test]
fn counters_have_bytes_and_faults_and_start_again() {
    let mock = start(&["--tokens", "2"]);
    let first = mock.post(CHAT, &[], CHAT_STREAM);
    let pinged = mock.post(CHAT, &[("x-mock-ping", "1")], CHAT_STREAM);
    let stats = mock.stats();
    assert_eq!((&stats["requests"], &stats["faults"]["ping"]), (&json!(2), &json!(1)));
    assert_eq!(stats["request_body_bytes"], 2 * CHAT_STREAM.len());
    assert_eq!(stats["response_body_bytes"], first.body.len() + pinged.body.len());
    assert_eq!(stats["connections"], 3);
    mock.post("/mock/reset", &[], "");
    let stats = mock.stats();
    assert_eq!((&stats["requests"], &stats["faults"]["ping"]), (&json!(0), &json!(0)));
    assert_eq!(mock.get("/mock/last").json()["requests"], json!([]));
    assert_eq!(mock.post(CHAT, &[], CHAT_STREAM).body, first.body, "ids start again too");
    assert_eq!(mock.get("/mock/nothing").status, 404);
}
