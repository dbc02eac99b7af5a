//! The wait for the first event of a stream: signs of life go on to the caller, and what a provider sends has bounds.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::setup::{Mock, Proxy, Scripted, ask_stream, read_to_close, read_until, upstream};

const HEAD: &str = "200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const EVENT: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"late\"}}]}\n\ndata: [DONE]\n\n";

fn parts(texts: &[(u64, &str)]) -> Vec<(Duration, Vec<u8>)> {
    texts.iter().map(|(ms, text)| (Duration::from_millis(*ms), text.as_bytes().to_vec())).collect()
}

#[test]
fn comments_put_off_the_limit_of_the_first_event_and_reach_the_caller() {
    let comment = ": PROCESSING\n\n";
    let script = [(0, HEAD), (0, comment), (900, comment), (900, comment), (900, comment), (900, EVENT)];
    let slow = Scripted::in_parts(parts(&script), Duration::ZERO);
    let proxy = Proxy::start(&slow.upstream("slow", "first_token_timeout_ms = 2000\n"));
    let started = Instant::now();
    let mut client = proxy.open(&ask_stream("slow/m"), &[]);
    read_until(&mut client, ": PROCESSING");
    assert!(started.elapsed() < Duration::from_millis(3000), "the comment comes before the event");
    let (rest, _) = read_to_close(&mut client);
    assert!(rest.contains("late") && rest.contains("[DONE]"), "{rest}");
    assert_eq!(rest.matches(": PROCESSING").count(), 3, "{rest}");
}

#[test]
fn a_comment_without_an_empty_line_behind_it_puts_off_the_limit_too() {
    let comment = ": PROCESSING\n";
    let script = [(0, HEAD), (900, comment), (900, comment), (900, comment), (900, EVENT)];
    let slow = Scripted::in_parts(parts(&script), Duration::ZERO);
    let proxy = Proxy::start(&slow.upstream("slow", "first_token_timeout_ms = 2500\n"));
    let (read, _) = read_to_close(&mut proxy.open(&ask_stream("slow/m"), &[]));
    assert!(read.starts_with("HTTP/1.1 200") && read.contains("late") && read.contains("[DONE]"), "{read}");
}

#[test]
fn comments_alone_do_not_hold_a_caller_for_ever() {
    let slow =
        Scripted::in_parts(parts(&[(0, HEAD), (0, ": a\n\n"), (300, ": b\n\n")]), Duration::from_secs(20));
    let proxy = Proxy::start(&slow.upstream("slow", "first_token_timeout_ms = 700\n"));
    let (read, is_whole) = read_to_close(&mut proxy.open(&ask_stream("slow/m"), &[]));
    assert!(read.contains("upstream_timeout") && !read.contains("[DONE]") && !is_whole, "{read}");
}

#[test]
fn the_caller_gets_a_comment_while_the_first_event_is_awaited() {
    let mock = Mock::start(&["--tokens", "2"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let started = Instant::now();
    let mut client = proxy.open(&ask_stream("m"), &[("x-mock-first-token-ms", "17000")]);
    let read = read_until(&mut client, ": the first event is awaited");
    assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    assert!((15_000..17_000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    let (rest, _) = read_to_close(&mut client);
    assert!(rest.contains("t000001") && rest.contains("[DONE]"), "{rest}");
}

#[test]
fn an_event_has_a_bound_which_can_be_set() {
    let event = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\ndata: [DONE]\n\n",
        "x".repeat(2 << 20)
    );
    let large = Scripted::in_parts(parts(&[(0, HEAD), (0, &event)]), Duration::ZERO);
    let tables =
        [large.upstream("small", ""), large.upstream("large", "event_bytes_max = 4194304\n")].concat();
    let proxy = Proxy::start(&tables);
    let refused = proxy.chat(&ask_stream("small/m"), &[]).unwrap();
    assert!(refused.status == 502 && refused.text.contains("`event_bytes_max`"), "{}", refused.text);
    let (read, _) = read_to_close(&mut proxy.open(&ask_stream("large/m"), &[]));
    assert!(read.contains("[DONE]") && read.len() > 2 << 20, "{}", read.len());
}

/// 15 KB on the wire become 15 MiB: the time limits hold while they are decoded, and other requests get their turn.
#[test]
fn a_reply_that_grows_when_it_is_decoded_does_not_stop_others() {
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let event = [b"data: {\"x\":\"", &*vec![b'A'; 15 << 20], b"\"}\n\n"].concat();
    let body = gzip(&event);
    let head = format!(
        "200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let bomb = Scripted::in_parts(
        vec![(Duration::ZERO, [head.as_bytes(), &body].concat())],
        Duration::from_millis(50),
    );
    let tables =
        [bomb.upstream("small", ""), bomb.upstream("large", "event_bytes_max = 67108864\n")].concat();
    let proxy = Proxy::start(&tables);
    assert_eq!(proxy.chat(&ask_stream("small/m"), &[]).unwrap().status, 502);
    let slowest = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| drop(read_to_close(&mut proxy.open(&ask_stream("large/m"), &[])))))
            .collect();
        let mut slowest = Duration::ZERO;
        while senders.iter().any(|sender| !sender.is_finished()) {
            let started = Instant::now();
            assert_eq!(proxy.client.send("GET", "/livez", None).status, 200);
            slowest = slowest.max(started.elapsed());
        }
        slowest
    });
    println!("the slowest of /livez: {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

#[test]
fn a_limit_that_is_set_holds_for_responses_too() {
    let mock = Mock::start(&["--tokens", "4"]);
    let proxy = Proxy::start(&upstream("mock", &mock, "idle_timeout_ms = 500\n"));
    let body = json!({"model": "m", "input": "Hi", "stream": true});
    let mut client = proxy.open_at("/v1/responses", &body, &[("x-mock-stall-midstream", "1")]);
    let (read, _) = read_to_close(&mut client);
    assert!(read.contains("upstream_timeout"), "{read}");
}
