//! Problem 10: every time limit ends a request.

use std::time::{Duration, Instant};

use crate::setup::{Mock, Proxy, ask, ask_stream, read_to_close, read_until, upstream};

#[test]
fn a_stalling_upstream_is_ended_by_the_limit_of_each_phase() {
    let mock = Mock::start(&["--tokens", "4"]);
    let limits = |limit: &str| upstream("mock", &mock, &format!("{limit} = 300\n"));
    for (limit, body, header) in [
        ("header_timeout_ms", ask("m"), ("x-mock-latency-ms", "60000")),
        ("header_timeout_ms", ask_stream("m"), ("x-mock-latency-ms", "60000")),
        ("first_token_timeout_ms", ask_stream("m"), ("x-mock-first-token-ms", "60000")),
        ("total_timeout_ms", ask("m"), ("x-mock-token-ms", "60000")),
    ] {
        let proxy = Proxy::start(&limits(limit));
        let started = Instant::now();
        let reply = proxy.chat(&body, &[header]).unwrap();
        assert_eq!(reply.status, 504, "{limit}: {}", reply.text);
        assert_eq!(reply.json()["error"]["code"], "upstream_timeout", "{limit}: {}", reply.text);
        assert!(started.elapsed() < Duration::from_secs(30), "{limit}");
    }
}

#[test]
fn a_stream_that_stalls_in_the_middle_ends_by_an_error_event() {
    let mock = Mock::start(&["--tokens", "4"]);
    for limit in ["idle_timeout_ms", "total_timeout_ms"] {
        let proxy = Proxy::start(&upstream("mock", &mock, &format!("{limit} = 500\n")));
        let mut client = proxy.open(&ask_stream("m"), &[("x-mock-stall-midstream", "1")]);
        read_until(&mut client, "t000001");
        let (rest, is_whole) = read_to_close(&mut client);
        assert!(rest.contains("\"code\":\"upstream_error\""), "{limit}: {rest}");
        assert!(!rest.contains("[DONE]") && !is_whole, "{limit}: {rest}");
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
