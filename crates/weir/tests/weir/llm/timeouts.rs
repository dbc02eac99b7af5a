//! Problem 10: every time limit ends a request.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::setup::{Mock, Proxy, ask, ask_stream, read_to_close, read_until, upstream};

#[test]
fn a_stalling_upstream_is_ended_by_the_limit_of_each_phase() {
    let mock = Mock::start(&["--tokens", "4"]);
    let limits = |limit: &str| upstream("mock", &mock, &format!("{limit} = 300\n"));
    let (no_headers, not_ended) =
        ("`mock` sent no headers within 300 ms", "`mock` did not answer in full within 300 ms");
    let no_event = "`mock` sent nothing of its reply within 300 ms";
    for (limit, body, header, told) in [
        ("header_timeout_ms", ask("m"), ("x-mock-latency-ms", "60000"), no_headers),
        ("header_timeout_ms", ask_stream("m"), ("x-mock-latency-ms", "60000"), no_headers),
        ("first_token_timeout_ms", ask_stream("m"), ("x-mock-first-token-ms", "60000"), no_event),
        ("header_timeout_ms", ask("m"), ("x-mock-stall-first-token", "1"), no_event),
        ("total_timeout_ms", ask("m"), ("x-mock-token-ms", "60000"), not_ended),
    ] {
        let proxy = Proxy::start(&limits(limit));
        let started = Instant::now();
        let reply = proxy.chat(&body, &[header]).unwrap();
        assert_eq!(reply.status, 504, "{limit}: {}", reply.text);
        assert_eq!(reply.json()["error"]["code"], "upstream_timeout", "{limit}: {}", reply.text);
        assert!(reply.text.contains(told), "{limit}: {}", reply.text);
        assert!(started.elapsed() < Duration::from_secs(30), "{limit}");
    }
}

#[test]
fn a_connection_that_is_not_made_is_ended_by_its_limit() {
    // the accept queue of the listener is full: the kernel drops further connection attempts
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
    let queued: Vec<TcpStream> = std::iter::from_fn(|| connect().ok()).take(10_000).collect();
    let tables = format!(
        "[[upstreams]]\nid = \"full\"\nprovider = \"openai\"\nurl = \"http://{address}/v1\"\nconnect_timeout_ms = 300\nretries_max = 0\n"
    );
    let proxy = Proxy::start(&tables);
    let started = Instant::now();
    let reply = proxy.chat(&ask("m"), &[]).unwrap();
    assert!([502, 504].contains(&reply.status), "{} {}", reply.status, reply.text);
    assert!(reply.text.contains("`full`"), "{}", reply.text);
    assert!((Duration::from_millis(300)..Duration::from_secs(30)).contains(&started.elapsed()));
    drop(queued);
}

#[test]
fn a_stream_that_stalls_in_the_middle_ends_by_an_error_event() {
    let mock = Mock::start(&["--tokens", "4"]);
    for (limit, told) in [
        ("idle_timeout_ms", "sent nothing more of its reply for 500 ms"),
        ("total_timeout_ms", "did not answer in full within 500 ms"),
    ] {
        let proxy = Proxy::start(&upstream("mock", &mock, &format!("{limit} = 500\n")));
        let mut client = proxy.open(&ask_stream("m"), &[("x-mock-stall-midstream", "1")]);
        read_until(&mut client, "t000001");
        let (rest, is_whole) = read_to_close(&mut client);
        assert!(rest.contains("\"code\":\"upstream_timeout\"") && rest.contains(told), "{limit}: {rest}");
        assert!(rest.contains(limit), "the remedy: {rest}");
        assert!(!rest.contains("[DONE]") && !is_whole, "{limit}: {rest}");

        let body = json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
        let mut client = proxy.open_at("/v1/messages", &body, &[("x-mock-stall-midstream", "1")]);
        read_until(&mut client, "t000001");
        let (rest, _) = read_to_close(&mut client);
        assert!(rest.contains(r#""type":"timeout_error""#) && rest.contains(told), "{limit}: {rest}");
    }
}

#[test]
fn an_address_that_nobody_listens_on_is_a_clear_error() {
    let mock = Mock::start(&[]);
    let tables =
        upstream("gone", &mock, "retries_max = 0\n").replace(&mock.url("/v1"), "http://127.0.0.1:9/v1");
    let reply = Proxy::start(&tables).chat(&ask("m"), &[]).unwrap();
    assert_eq!(reply.status, 502, "{}", reply.text);
    assert!(reply.text.contains("`gone`") && reply.text.contains("can't be reached"), "{}", reply.text);
}
