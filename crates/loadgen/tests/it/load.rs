//! Whole runs against servers that misbehave in one known way each.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{plan, reply, serve, serve_ok};
use weir_loadgen::{FailureKind, Load, NullConfig, NullServer, Report, RunError, run};

fn failures(report: &Report) -> Vec<(FailureKind, u64)> {
    report.failures.iter().map(|(kind, count)| (*kind, *count)).collect()
}

fn assert_between(found: f64, low: f64, high: f64, what: &str, report: &Report) {
    assert!(found >= low && found <= high, "{what} is {found}, not {low}..{high}\n{}", report.to_table());
}

/// Complete answers by status.
fn answers(report: &Report) -> BTreeMap<u16, u64> {
    report.statuses.iter().map(|(status, times)| (*status, times.count)).collect()
}

#[test]
fn the_closed_loop_sends_exactly_what_was_asked_for_and_warm_up_is_not_counted() {
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
    assert_eq!(answers(&report), BTreeMap::from([(200, 1003)]));
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
    assert_between(report.duration_s, 0.4, 0.6, "duration", &report);
    assert_between(report.requests_ok as f64, 20.0, 80.0, "requests", &report);
}

#[test]
fn bodies_are_sent_in_order_and_again_from_the_first() {
    static SEEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    let addr = serve_ok(|seen| SEEN.lock().unwrap().extend(seen.body));
    let mut plan = plan(addr, 1, 5);
    let template = weir_loadgen::RequestTemplate::new("POST", &[]).unwrap();
    plan.requests = [b"a", b"b", b"c"].iter().map(|body| template.render(&plan.target, *body)).collect();
    run(plan).unwrap();
    assert_eq!(*SEEN.lock().unwrap(), b"abcab");
}

#[test]
fn every_unexpected_status_is_counted_and_shown() {
    let script = |addr_status: &'static str| {
        serve(move |seen, stream| {
            let status = if seen.number % 4 == 3 { addr_status } else { "200 OK" };
            reply(stream, status, r#"{"code":"overloaded"}"#)
        })
    };
    let report = run(plan(script("503 Busy"), 3, 100)).unwrap();
    assert_eq!(answers(&report), BTreeMap::from([(200, 75), (503, 25)]));
    assert_eq!(failures(&report), [(FailureKind::BadStatus, 25)]);
    assert_eq!((report.requests_ok, report.latency.count), (75, 75));
    assert_eq!(report.failure_examples[&FailureKind::BadStatus], r#"503 {"code":"overloaded"}"#);

    let mut expecting = plan(script("503 Busy"), 3, 100);
    expecting.expect.status = "2xx,503".parse().unwrap();
    let report = run(expecting).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (100, vec![]));
}

#[test]
fn an_answer_that_stops_early_is_an_error_and_the_next_request_reconnects() {
    let addr = serve(|seen, stream| {
        if seen.number % 10 != 9 {
            return reply(stream, "200 OK", "{}");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345").unwrap();
        false
    });
    let report = run(plan(addr, 1, 50)).unwrap();
    assert_eq!(failures(&report), [(FailureKind::Truncated, 5)]);
    assert_eq!((report.requests_ok, report.reconnects), (45, 4));
    assert_eq!(answers(&report), BTreeMap::from([(200, 45)]));
}

#[test]
fn a_chunked_answer_that_stops_early_is_an_error() {
    let addr = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").unwrap();
        false
    });
    assert_eq!(failures(&run(plan(addr, 1, 3)).unwrap()), [(FailureKind::Truncated, 3)]);
}

#[test]
fn a_connection_closed_without_an_answer_is_an_error() {
    let report = run(plan(serve(|_, _| false), 2, 10)).unwrap();
    let closed: u64 = report.failures.values().sum();
    assert_eq!((closed, report.requests_ok), (10, 0));
    assert!(report.failures.keys().all(|k| matches!(k, FailureKind::Closed | FailureKind::Reset)));
}

#[test]
fn bytes_after_an_answer_are_an_error() {
    let addr = serve(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}surplus").unwrap();
        true
    });
    assert_eq!(failures(&run(plan(addr, 1, 4)).unwrap()), [(FailureKind::Malformed, 4)]);
}

#[test]
fn a_chunked_body_is_read_piece_by_piece_and_its_content_checked() {
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
fn an_answer_larger_than_the_buffer_is_read_whole() {
    let body = format!("{}END", "x".repeat(3_000_000));
    let addr = serve(move |_, stream| reply(stream, "200 OK", &body));
    let mut plan = plan(addr, 2, 6);
    plan.expect.body = Some("xEND".to_owned());
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (6, vec![]));
}

#[test]
fn connections_that_the_server_ends_properly_are_opened_again_without_an_error() {
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
fn a_connection_that_the_server_ended_while_it_was_idle_is_no_error() {
    let addr = serve(|_, stream| {
        reply(stream, "200 OK", "{}");
        false
    });
    let mut plan = plan(addr, 1, 5);
    // Slow enough that a busy machine closes each connection before the next request is due.
    plan.load = Load::Rate { per_second: 5.0 };
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, report.reconnects, failures(&report)), (5, 4, vec![]));
}

#[test]
fn a_timeout_is_counted_with_the_time_waited() {
    let addr = serve_ok(|seen| {
        if seen.number == 5 {
            std::thread::sleep(Duration::from_millis(600));
        }
    });
    let mut plan = plan(addr, 1, 20);
    plan.timeout = Duration::from_millis(150);
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (19, vec![(FailureKind::Timeout, 1)]));
    assert_eq!((report.latency.count, report.reconnects), (20, 1));
    assert_between(report.latency.ms_max, 150.0, 300.0, "longest latency", &report);
}

#[test]
fn a_server_that_is_not_there_is_reported_before_anything_is_sent() {
    let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(plan(addr, 4, 100)).unwrap_err();
    assert!(matches!(error, RunError::Connect { .. }), "{error}");
}

#[test]
fn a_server_that_goes_away_fails_every_later_request_as_connect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    // Takes the probe and the one connection, answers once, and is gone.
    std::thread::spawn(move || {
        let _probe = listener.accept().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let report = run(plan(addr, 1, 5)).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (1, vec![(FailureKind::Connect, 4)]));
}

/// A server that works in no time, but stands still once for 200 ms, for all connections.
fn serve_with_one_stall() -> std::net::SocketAddr {
    let stall = Mutex::new(());
    serve_ok(move |seen| {
        let _turn = stall.lock().unwrap();
        if seen.number == 300 {
            std::thread::sleep(Duration::from_millis(200));
        }
    })
}

/// 1000 requests at 500/s: 100 are due during the stall and wait 200, 198, … 2 ms. So one in ten is slow,
/// the 95th percentile waits half of the stall and the 99th nine tenths of it. Only 4 were under way.
#[test]
fn a_constant_rate_shows_a_stall_in_the_response_time_of_every_request_that_was_due() {
    let mut plan = plan(serve_with_one_stall(), 4, 1000);
    plan.load = Load::Rate { per_second: 500.0 };
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, report.latency.count), (1000, 1000));
    assert_between(report.duration_s, 2.0, 2.2, "duration", &report);
    assert_between(report.latency.ms_p50, 0.0, 10.0, "median response", &report);
    assert_between(report.latency.ms_p95, 85.0, 135.0, "p95 response", &report);
    assert_between(report.latency.ms_p99, 165.0, 215.0, "p99 response", &report);
    assert_between(report.latency.ms_max, 198.0, 250.0, "longest response", &report);
    assert_between(report.service.ms_p99, 0.0, 50.0, "p99 service", &report);
    assert_between(report.service.ms_max, 198.0, 250.0, "longest service", &report);
    let lateness = report.lateness.as_ref().unwrap();
    assert_between(lateness.requests_queued as f64, 90.0, 130.0, "queued requests", &report);
    assert!(report.warnings.iter().any(|w| w.contains("found no free connection")), "{:?}", report.warnings);
}

#[test]
fn the_closed_loop_hides_the_same_stall() {
    let report = run(plan(serve_with_one_stall(), 4, 1000)).unwrap();
    assert_between(report.latency.ms_p99, 0.0, 50.0, "p99 latency", &report);
    assert_between(report.latency.ms_max, 198.0, 250.0, "longest latency", &report);
}

#[test]
fn a_rate_above_capacity_counts_what_was_never_sent_and_says_so() {
    // One connection at 20 ms each: of the 100 requests due in 0.5 s, 0.8 s are enough for 40.
    let mut plan = plan(serve_ok(|_| std::thread::sleep(Duration::from_millis(20))), 1, 100);
    plan.load = Load::Rate { per_second: 200.0 };
    plan.timeout = Duration::from_millis(300);
    let begun = Instant::now();
    let report = run(plan).unwrap();
    assert!(begun.elapsed() < Duration::from_millis(1500));
    assert_between(report.requests_sent as f64, 30.0, 40.0, "sent requests", &report);
    assert_eq!(report.failures[&FailureKind::Unsent], 100 - report.requests_sent);
    assert_eq!(report.latency.count, 100);
    assert!(report.warnings.iter().any(|w| w.contains("never sent")), "{:?}", report.warnings);
}

#[test]
fn no_more_requests_are_under_way_than_there_are_connections() {
    static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let addr = serve_ok(|_| {
        MOST.fetch_max(UNDER_WAY.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
    });
    let mut plan = plan(addr, 3, 100);
    plan.load = Load::Rate { per_second: 400.0 };
    run(plan).unwrap();
    assert_eq!(MOST.load(Ordering::SeqCst), 3);
}

#[test]
fn the_schedule_is_kept_within_a_fraction_of_a_millisecond() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = NullConfig { listen, threads: 1, body: b"{}".to_vec(), latency: Duration::from_millis(5) };
    let server = NullServer::start(&config).unwrap();
    let mut plan = plan(server.addr(), 16, 500);
    plan.load = Load::Rate { per_second: 500.0 };
    let report = run(plan).unwrap();
    assert_eq!(report.requests_ok, 500);
    assert_between(report.lateness.as_ref().unwrap().late.ms_p50, 0.0, 0.5, "median delay", &report);
    assert_between(report.latency.ms_p50, 5.0, 6.5, "median response", &report);
}

#[test]
fn the_null_server_answers_every_request_of_a_burst_and_then_closes_as_asked() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let config = NullConfig { listen, threads: 1, body: b"{}".to_vec(), latency: Duration::ZERO };
    let server = NullServer::start(&config).unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let burst = "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\r\nconnection: close\r\n\r\n";
    stream.write_all(burst.as_bytes()).unwrap();
    let mut answers = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answers).unwrap();
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(answers, answer.repeat(2));
}
