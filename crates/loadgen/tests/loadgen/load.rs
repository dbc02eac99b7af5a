//! Complete runs, each against a server that misbehaves in one known way.
//!
//! Bounds hold on a busy machine: load only makes responses later, so times have lower bounds, and upper bounds are
//! those of the server's own delays.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{plan, reply, serve, serve_ok};
use weir_loadgen::{FailureKind, Load, NullConfig, NullServer, Report, RunError, run};

fn failures(report: &Report) -> Vec<(FailureKind, u64)> {
    report.failures.iter().map(|(kind, count)| (*kind, *count)).collect()
}

#[track_caller]
fn assert_at_least(found: f64, least: f64, report: &Report) {
    assert!(found >= least, "{found} is less than {least}\n{}", report.to_table());
}

#[track_caller]
fn assert_less(found: f64, bound: f64, report: &Report) {
    assert!(found < bound, "{found} is not less than {bound}\n{}", report.to_table());
}

/// Complete responses by status.
fn responses(report: &Report) -> BTreeMap<u16, u64> {
    report.statuses.iter().map(|(status, times)| (*status, times.count)).collect()
}

#[test]
fn the_closed_loop_sends_the_exact_number_of_requests_and_does_not_count_warm_up() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let addr = serve_ok(|_| {
        SEEN.fetch_add(1, Ordering::SeqCst);
    });
    let mut plan = plan(addr, 7, 1003);
    plan.warmup = 50;
    let request_bytes = plan.requests[0].len() as u64;
    let report = run(plan).unwrap();
    assert_eq!(SEEN.load(Ordering::SeqCst), 1053);
    assert_eq!((report.requests_sent, report.requests_ok, report.requests_failed), (1003, 1003, 0));
    assert_eq!((report.latency.count, report.service.count), (1003, 1003));
    assert_eq!(responses(&report), BTreeMap::from([(200, 1003)]));
    assert_eq!(report.sent_bytes, 1003 * request_bytes);
    assert_eq!(report.received_bytes, 1003 * "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".len() as u64);
    assert_eq!(report.reconnects, 0);
}

#[test]
fn a_duration_ends_the_closed_loop() {
    let mut plan = plan(serve_ok(|_| std::thread::sleep(Duration::from_millis(10))), 2, 1);
    plan.limit.requests = None;
    plan.limit.duration = Some(Duration::from_millis(400));
    let report = run(plan).unwrap();
    assert_at_least(report.duration_s, 0.4, &report);
    // Each request takes at least 10 ms on one of two connections.
    assert_at_least(report.requests_ok as f64, 1.0, &report);
    assert_less(report.requests_ok as f64, report.duration_s / 0.01 * 2.0 + 0.5, &report);
}

#[test]
fn bodies_are_sent_in_order_and_repeated() {
    static SEEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let addr = serve_ok(|request| SEEN.lock().unwrap().extend(request.body));
    let mut plan = plan(addr, 1, 5);
    let template = weir_loadgen::RequestTemplate::new("POST", &[]).unwrap();
    plan.requests = [b"a", b"b", b"c"].iter().map(|body| template.render(&plan.target, *body)).collect();
    run(plan).unwrap();
    assert_eq!(*SEEN.lock().unwrap(), b"abcab");
}

#[test]
fn unexpected_statuses_are_counted_and_reported() {
    let script = |addr_status: &'static str| {
        serve(move |request, stream| {
            let status = if request.number % 4 == 3 { addr_status } else { "200 OK" };
            reply(stream, status, r#"{"code":"overloaded"}"#)
        })
    };
    let report = run(plan(script("503 Busy"), 3, 100)).unwrap();
    assert_eq!(responses(&report), BTreeMap::from([(200, 75), (503, 25)]));
    assert_eq!(failures(&report), [(FailureKind::BadStatus, 25)]);
    assert_eq!((report.requests_ok, report.latency.count), (75, 75));
    assert_eq!(report.failure_examples[&FailureKind::BadStatus], r#"503 {"code":"overloaded"}"#);

    let mut expecting = plan(script("503 Busy"), 3, 100);
    expecting.expect.status = "2xx,503".parse().unwrap();
    let report = run(expecting).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (100, vec![]));
}

#[test]
fn a_truncated_response_is_an_error_and_the_next_request_reconnects() {
    let addr = serve(|request, stream| {
        if request.number % 10 != 9 {
            return reply(stream, "200 OK", "{}");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345").unwrap();
        false
    });
    let report = run(plan(addr, 1, 50)).unwrap();
    assert_eq!(failures(&report), [(FailureKind::Truncated, 5)]);
    assert_eq!((report.requests_ok, report.reconnects), (45, 4));
    assert_eq!(responses(&report), BTreeMap::from([(200, 45)]));
}

#[test]
fn a_truncated_chunked_response_is_an_error() {
    let addr = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").unwrap();
        false
    });
    assert_eq!(failures(&run(plan(addr, 1, 3)).unwrap()), [(FailureKind::Truncated, 3)]);
}

#[test]
fn a_connection_closed_before_the_response_is_an_error() {
    let report = run(plan(serve(|_, _| false), 2, 10)).unwrap();
    let closed: u64 = report.failures.values().sum();
    assert_eq!((closed, report.requests_ok), (10, 0));
    assert!(report.failures.keys().all(|k| matches!(k, FailureKind::Closed | FailureKind::Reset)));
}

#[test]
fn bytes_after_a_response_are_an_error() {
    let addr = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}surplus").unwrap();
        true
    });
    assert_eq!(failures(&run(plan(addr, 1, 4)).unwrap()), [(FailureKind::Malformed, 4)]);
}

#[test]
fn a_chunked_body_is_decoded_and_checked() {
    let serve_chunks = || {
        serve(|_, stream| {
            let pieces = [
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r",
                "\n{\"hits",
                "\r\n4;x=y\r\n\":[]",
            ];
            for piece in pieces.into_iter().chain(["\r\n1\r\n}\r\n0\r\nx-sum: 1\r\n", "\r\n"]) {
                stream.write_all(piece.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            true
        })
    };
    let mut right = plan(serve_chunks(), 2, 20);
    right.expect.body = Some(r#"{"hits":[]}"#.to_owned());
    let report = run(right).unwrap();
    assert_eq!((report.requests_ok, report.reconnects, failures(&report)), (20, 0, vec![]));

    let mut wrong = plan(serve_chunks(), 2, 20);
    wrong.expect.body = Some(r#""score""#.to_owned());
    let report = run(wrong).unwrap();
    assert_eq!(failures(&report), [(FailureKind::BodyMismatch, 20)]);
    assert_eq!(report.failure_examples[&FailureKind::BodyMismatch], r#"{"hits":[]}"#);
}

#[test]
fn a_response_larger_than_the_buffer_is_read_completely() {
    let body = format!("{}END", "x".repeat(3_000_000));
    let addr = serve(move |_, stream| reply(stream, "200 OK", &body));
    let mut plan = plan(addr, 2, 6);
    plan.expect.body = Some("xEND".to_owned());
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (6, vec![]));
}

#[test]
fn a_connection_closed_after_a_response_is_reopened_without_an_error() {
    let announced = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        false
    });
    let report = run(plan(announced, 1, 20)).unwrap();
    assert_eq!((report.requests_ok, report.reconnects, failures(&report)), (20, 19, vec![]));

    let until_close = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"hits\":[]}").unwrap();
        false
    });
    let report = run(plan(until_close, 1, 20)).unwrap();
    assert_eq!((report.requests_ok, report.reconnects, failures(&report)), (20, 19, vec![]));
}

#[test]
fn a_connection_closed_while_idle_is_reopened_without_an_error() {
    let addr = serve(|_, stream| {
        reply(stream, "200 OK", "{}");
        false
    });
    let mut plan = plan(addr, 1, 5);
    // 200 ms between requests, so that each connection is closed before the next one is due.
    plan.load = Load::ConstantRate { per_second: 5.0 };
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, report.reconnects, failures(&report)), (5, 4, vec![]));
}

/// Much longer than the timeout of a request, so that a busy machine does not reach it.
const STALL: Duration = Duration::from_secs(60);

#[test]
fn a_timeout_is_recorded_with_the_time_waited() {
    let addr = serve_ok(|request| {
        if request.number == 5 {
            std::thread::sleep(STALL);
        }
    });
    let mut plan = plan(addr, 1, 20);
    plan.timeout = Duration::from_secs(2);
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (19, vec![(FailureKind::Timeout, 1)]));
    assert_eq!((report.latency.count, report.reconnects), (20, 1));
    assert_at_least(report.latency.ms_max, 1_999.0, &report); // 2 s, to 0.1 %
    assert_less(report.latency.ms_max, STALL.as_secs_f64() * 1e3, &report);
}

#[test]
fn a_missing_server_is_an_error_before_the_run() {
    let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(plan(addr, 4, 100)).unwrap_err();
    assert!(matches!(error, RunError::Connect { .. }), "{error}");
}

#[test]
fn requests_after_the_server_has_ended_fail_to_connect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    // Accepts the reachability check and one connection, responds once and ends.
    std::thread::spawn(move || {
        let _check = listener.accept().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let report = run(plan(addr, 1, 5)).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (1, vec![(FailureKind::Connect, 4)]));
}

/// A server that responds immediately but stalls once, for 200 ms on all connections.
fn serve_with_one_stall() -> std::net::SocketAddr {
    let stall = Mutex::new(());
    serve_ok(move |request| {
        let _guard = stall.lock().unwrap();
        if request.number == 300 {
            std::thread::sleep(Duration::from_millis(200));
        }
    })
}

/// 1000 requests at 500/s: 100 are due during the stall and wait 200, 198, … 2 ms. So one request in ten is slow: the 95th
/// percentile waits half of the stall, the 99th nine tenths of it. Only 4 requests are outstanding during the stall.
#[test]
fn at_a_constant_rate_a_stall_delays_every_request_that_was_due() {
    let mut plan = plan(serve_with_one_stall(), 4, 1000);
    plan.load = Load::ConstantRate { per_second: 500.0 };
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, report.latency.count), (1000, 1000));
    assert_at_least(report.duration_s, 2.0, &report);
    assert_at_least(report.latency.ms_p95, 85.0, &report);
    assert_at_least(report.latency.ms_p99, 165.0, &report);
    assert_at_least(report.latency.ms_max, 198.0, &report);
    assert_at_least(report.service.ms_max, 198.0, &report);
    // The wait for a connection is no part of the service time.
    assert_less(report.service.ms_p99, report.latency.ms_p99, &report);
    let schedule = report.schedule.as_ref().unwrap();
    assert_at_least(schedule.requests_queued as f64, 90.0, &report);
    assert!(report.warnings.iter().any(|w| w.contains("every connection busy")), "{:?}", report.warnings);
}

#[test]
fn the_closed_loop_hides_the_same_stall() {
    let report = run(plan(serve_with_one_stall(), 4, 1000)).unwrap();
    assert_less(report.latency.ms_p99, 198.0, &report);
    assert_at_least(report.latency.ms_max, 198.0, &report);
}

#[test]
fn at_a_rate_above_capacity_requests_never_sent_are_counted_and_cause_a_warning() {
    // One connection at 20 ms each: of the 100 requests due in 0.5 s, at most 40 can be sent within 0.8 s.
    let mut plan = plan(serve_ok(|_| std::thread::sleep(Duration::from_millis(20))), 1, 100);
    plan.load = Load::ConstantRate { per_second: 200.0 };
    plan.timeout = Duration::from_millis(300);
    let report = run(plan).unwrap();
    assert_at_least(report.requests_sent as f64, 1.0, &report);
    assert_less(report.requests_sent as f64, 41.0, &report);
    assert_eq!(report.failures[&FailureKind::Unsent], 100 - report.requests_sent);
    assert_eq!(report.latency.count, 100);
    assert!(report.warnings.iter().any(|w| w.contains("never sent")), "{:?}", report.warnings);
}

#[test]
fn each_connection_has_at_most_one_outstanding_request() {
    static OUTSTANDING: AtomicUsize = AtomicUsize::new(0);
    static OUTSTANDING_MAX: AtomicUsize = AtomicUsize::new(0);
    let addr = serve_ok(|_| {
        OUTSTANDING_MAX.fetch_max(OUTSTANDING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        OUTSTANDING.fetch_sub(1, Ordering::SeqCst);
    });
    let mut plan = plan(addr, 3, 100);
    plan.load = Load::ConstantRate { per_second: 400.0 };
    run(plan).unwrap();
    assert_eq!(OUTSTANDING_MAX.load(Ordering::SeqCst), 3);
}

#[test]
fn a_schedule_is_kept_against_a_server_with_a_delay() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = NullConfig { listen, threads: 1, body: b"{}".to_vec(), latency: Duration::from_millis(5) };
    let server = NullServer::start(&config).unwrap();
    let mut plan = plan(server.addr(), 16, 500);
    plan.load = Load::ConstantRate { per_second: 500.0 };
    let report = run(plan).unwrap();
    assert_eq!(report.requests_ok, 500);
    assert_eq!(report.schedule.as_ref().unwrap().lateness.count, 500);
    assert_at_least(report.duration_s, 1.0, &report);
    assert_at_least(report.service.ms_p50, 4.99, &report); // 5 ms, to 0.1 %
    assert_at_least(report.latency.ms_p50, report.service.ms_p50, &report);
}

#[test]
fn the_null_server_responds_to_pipelined_requests_and_closes_on_request() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = NullConfig { listen, threads: 1, body: b"{}".to_vec(), latency: Duration::ZERO };
    let server = NullServer::start(&config).unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let burst = "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\r\nconnection: close\r\n\r\n";
    stream.write_all(burst.as_bytes()).unwrap();
    let mut responses = String::new();
    std::io::Read::read_to_string(&mut stream, &mut responses).unwrap();
    let response = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(responses, response.repeat(2));
}
