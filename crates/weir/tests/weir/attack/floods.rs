//! Requests that two parsers would read differently, and frames of HTTP/2 that cost the sender less than the receiver.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::clients::HTTP2_START;
use super::{held, rounds};
use crate::support::gateway::Gateway;

/// Most memory that a flood may take.
const GROWTH_MIB_MAX: u64 = 16;

/// `GET /livez` of `localhost` in HPACK, without Huffman codes.
const GET_LIVEZ: &[u8] = b"\x82\x86\x04\x06/livez\x01\x09localhost";

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Requests that are reset at once, over one connection.
pub(crate) fn resets(count: u32) -> Vec<u8> {
    let mut bytes = HTTP2_START.to_vec();
    for number in 0..count {
        bytes.extend(frame(1, 5, 2 * number + 1, GET_LIVEZ));
        bytes.extend(frame(3, 0, 2 * number + 1, &8_u32.to_be_bytes()));
    }
    bytes
}

fn connect(gateway: &Gateway) -> TcpStream {
    let connection = gateway.connect();
    connection.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    connection
}

#[test]
fn a_second_request_in_the_body_of_the_first_is_never_answered() {
    let gateway = Gateway::start();
    let inner = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let bodies = [
        ("a length and chunks", "content-length: 4\r\ntransfer-encoding: chunked"),
        ("chunks and a length", "transfer-encoding: chunked\r\ncontent-length: 60"),
        ("two lengths", "content-length: 0\r\ncontent-length: 46"),
        ("a list of lengths", "content-length: 0, 46"),
        ("a signed length", "content-length: +0"),
        ("a hexadecimal length", "content-length: 0x0"),
        ("a space before the colon", "content-length : 0"),
        ("a folded line", "x: y\r\n content-length: 0"),
        ("an unknown encoding", "transfer-encoding: identity"),
        ("chunks and another encoding behind them", "transfer-encoding: chunked, identity"),
        ("chunks twice", "transfer-encoding: chunked\r\ntransfer-encoding: chunked"),
        ("a vertical tab in the encoding", "transfer-encoding: \x0bchunked"),
    ];
    for (what, headers) in bodies {
        let mut connection = connect(&gateway);
        let request =
            format!("POST /v1/search HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n\r\n0\r\n\r\n{inner}");
        connection.write_all(request.as_bytes()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        // a connection that is closed with bytes unread is reset
        let _ = connection.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply);
        let is_refused = reply.is_empty() || reply.starts_with("HTTP/1.1 4");
        assert!(is_refused && !reply.contains("\"object\":\"list\""), "{what}: {reply}");
    }
    held("two requests in one", &format!("{} of {} are refused", bodies.len(), bodies.len()));
}

#[test]
fn floods_of_frames_take_neither_memory_nor_the_answers_of_others() {
    let gateway = Gateway::start();
    gateway.send("GET", "/livez", None);
    let count = rounds(2_000, 50_000);
    let ping = frame(6, 0, 0, &[0; 8]).repeat(count);
    let settings = frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(count);
    let window = frame(8, 0, 0, &1_u32.to_be_bytes()).repeat(count);
    let empty = [frame(1, 4, 1, GET_LIVEZ), frame(0, 0, 1, &[]).repeat(count)].concat();
    // a head that never ends: literal headers without an entry in the table
    let endless = [frame(1, 0, 1, GET_LIVEZ), frame(9, 0, 1, b"\0\x01a\x7f\x00").repeat(count)].concat();
    let floods = [
        ("requests that are reset at once", resets(count as u32)[HTTP2_START.len()..].to_vec()),
        ("pings", ping),
        ("settings", settings),
        ("updates of the window", window),
        ("empty parts of a body", empty),
        ("a head without an end", endless),
    ];
    for (what, frames) in floods {
        let before = gateway.weir.rss_mib();
        let mut connection = connect(&gateway);
        // nothing is read: what is sent in answer has to be bounded too
        let flooding = std::thread::spawn(move || {
            let bytes = [HTTP2_START, &frames].concat();
            let sent = bytes.chunks(1 << 14).take_while(|part| connection.write_all(part).is_ok()).count();
            (sent, bytes.len().div_ceil(1 << 14), connection)
        });
        let started = Instant::now();
        for _ in 0..10 {
            assert_eq!(gateway.send("GET", "/v1/models", None).status, 200, "{what}");
        }
        let took = started.elapsed();
        let (sent, all, connection) = flooding.join().unwrap();
        // until then it may wait in the buffers of the system
        let (sent_at, mut grown) = (Instant::now(), 0);
        while sent_at.elapsed() < Duration::from_secs(rounds(1, 5) as u64) {
            assert_eq!(gateway.send("GET", "/v1/models", None).status, 200, "{what}");
            grown = grown.max(gateway.weir.rss_mib().saturating_sub(before));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(grown <= GROWTH_MIB_MAX, "{what}: {grown} MiB more");
        assert!(took < Duration::from_secs(10), "{what}: ten requests took {took:?}");
        drop(connection);
        held(
            &format!("a flood of {what}"),
            &format!(
                "{} of {count} taken, ten requests of others in {took:.0?}, {grown} MiB",
                count * sent / all
            ),
        );
    }
    gateway.wait("the end of all connections", || gateway.send("GET", "/livez", None).status == 200);
}
