//! Rolling restarts: after SIGTERM a gateway is not ready and takes requests for a while; then it ends streams as they end by themselves.

use std::time::{Duration, Instant};

use super::setup::{Mock, Proxy, ask, ask_stream, read_to_close, read_until, upstream};

/// Time in which requests are taken after SIGTERM.
const DRAIN_MS: u64 = 1_500;

#[test]
fn a_gateway_that_stops_is_not_ready_takes_requests_for_a_while_and_ends_streams() {
    let mock = Mock::start(&["--tokens", "80", "--token-ms", "50"]);
    let drain = format!("drain_ms = {DRAIN_MS}\nshutdown_grace_ms = 100\nstream_drain_ms = 30000\n");
    let proxy = Proxy::start(&format!("[server]\n{drain}{}", upstream("mock", &mock, "")));
    let ready = || proxy.client.send("GET", "/readyz", None);
    assert_eq!(ready().status, 200);
    let mut stream = proxy.open(&ask_stream("m"), &[]);
    let mut read = read_until(&mut stream, "t000002");

    let told = Instant::now();
    proxy.weir.signal("TERM");
    proxy.client.wait("the end of readiness", || ready().status == 503);
    assert!(told.elapsed() < Duration::from_millis(500), "{:?}", told.elapsed());
    assert!(ready().text.contains("is about to stop"), "{}", ready().text);
    let taken = proxy.chat(&ask("m"), &[("x-mock-token-ms", "0")]).unwrap();
    assert!(told.elapsed() < Duration::from_millis(DRAIN_MS), "{:?}", told.elapsed());
    assert_eq!((taken.status, taken.header("connection")), (200, "close"));

    // longer than the time of requests, and after that in which others are taken
    let (rest, is_whole) = read_to_close(&mut stream);
    read.push_str(&rest);
    assert!(told.elapsed() > Duration::from_millis(DRAIN_MS + 1_000), "{:?}", told.elapsed());
    assert!(is_whole && read.contains("t000080") && read.contains("[DONE]"), "{read}");
    proxy.weir.wait_for_stop();
}

#[test]
fn streams_that_take_too_long_are_cut_off_and_requests_before_them() {
    let mock = Mock::start(&["--tokens", "600", "--token-ms", "100"]);
    let drain = "drain_ms = 10000\nshutdown_grace_ms = 60000\nstream_drain_ms = 500\n";
    let proxy = Proxy::start(&format!("[server]\n{drain}{}", upstream("mock", &mock, "")));
    let mut stream = proxy.open(&ask_stream("m"), &[]);
    read_until(&mut stream, "t000002");
    let told = Instant::now();
    proxy.weir.signal("TERM");
    proxy.client.wait("the end of readiness", || proxy.client.send("GET", "/readyz", None).status == 503);
    // the second signal ends the wait, not the streams
    proxy.weir.signal("TERM");
    let (_, is_whole) = read_to_close(&mut stream);
    assert!(!is_whole);
    assert!((400..5_000).contains(&told.elapsed().as_millis()), "{:?}", told.elapsed());
    proxy.weir.wait_for_stop();
}
