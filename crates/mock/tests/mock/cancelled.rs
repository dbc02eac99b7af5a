//! What a client cancels is counted by phase, at once.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::support::{CHAT, CHAT_BODY, CHAT_STREAM, start};

/// Closes a connection in a phase that lasts ten minutes, and returns how long it took to be counted.
#[track_caller]
fn check(header: &str, body: &str, bytes_before: &str, counter: &str) {
    let mock = start(&["--tokens", "4"]);
    let mut stream = mock.open("POST", CHAT, &[(header, "1")], body);
    mock.wait_for("/requests_open", 1);
    let (mut text, mut buffer) = (String::new(), [0; 1024]);
    while !text.contains(bytes_before) {
        let count = stream.read(&mut buffer).unwrap();
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    let start = Instant::now();
    drop(stream);
    mock.wait_for(&format!("/cancelled/{counter}"), 1);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let stats = mock.stats();
    assert_eq!((&stats["requests_open"], &stats["streams_open"]), (&0.into(), &0.into()));
    assert_eq!((&stats["requests"], &stats["completed"]), (&1.into(), &0.into()));
    let cancelled = stats["cancelled"].as_object().unwrap().values().filter_map(|count| count.as_u64());
    assert_eq!(cancelled.sum::<u64>(), 1);
}

#[test]
fn a_request_without_headers_is_cancelled_before_headers() {
    check("x-mock-stall-headers", CHAT_BODY, "", "before_headers");
    check("x-mock-stall-headers", CHAT_STREAM, "", "before_headers");
}

#[test]
fn a_stream_without_a_token_is_cancelled_before_the_first_token() {
    check("x-mock-stall-first-token", CHAT_STREAM, "\r\n\r\n", "before_first_token");
    check("x-mock-stall-first-token", CHAT_BODY, "\r\n\r\n", "before_first_token");
}

#[test]
fn a_stream_with_a_token_is_cancelled_midstream() {
    check("x-mock-stall-midstream", CHAT_STREAM, "t000002", "midstream");
    check("x-mock-stall-midstream", CHAT_BODY, "chatcmpl", "midstream");
}

#[test]
fn a_request_whose_body_stays_incomplete_is_cancelled_before_headers() {
    let mock = start(&[]);
    let mut partial = std::net::TcpStream::connect(mock.addr()).unwrap();
    std::io::Write::write_all(
        &mut partial,
        b"POST /v1/completions HTTP/1.1\r\nhost: m\r\ncontent-length: 9\r\n\r\n{",
    )
    .unwrap();
    mock.wait_for("/requests_open", 1);
    drop(partial);
    mock.wait_for("/cancelled/before_headers", 1);
    mock.wait_for("/requests_open", 0);
}

#[test]
fn a_complete_reply_is_not_cancelled() {
    let mock = start(&["--tokens", "100"]);
    for body in [CHAT_BODY, CHAT_STREAM] {
        assert!(mock.post(CHAT, &[], body).is_complete);
    }
    mock.wait_for("/completed", 2);
    mock.wait_for("/requests_open", 0);
    let stats = mock.stats();
    assert!(stats["cancelled"].as_object().unwrap().values().all(|count| *count == 0), "{stats}");
}

#[test]
fn open_streams_are_counted_and_limited() {
    let mock = start(&["--streams-max", "1", "--stall-first-token", "1"]);
    let first = mock.open("POST", CHAT, &[], CHAT_STREAM);
    mock.wait_for("/streams_open", 1);
    let second = mock.post(CHAT, &[], CHAT_STREAM);
    assert_eq!(second.status, 503);
    assert!(second.text().contains("raise --streams-max"), "{}", second.text());
    drop(first);
    mock.wait_for("/streams_open", 0);
}
