//! Streams of server-sent events, by a server that sends them in one known way.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{plan, serve};
use weir_loadgen::{FailureKind, Limit, Load, Plan, Report, StreamExpect, run};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
/// Between two events.
const PAUSE: Duration = Duration::from_millis(20);

fn send_event(stream: &mut TcpStream, event: &str) -> bool {
    write!(stream, "{:x}\r\n{event}\r\n", event.len()).is_ok()
}

/// Sends the events with a pause before each, and the end of the body. The id of a reply contains its number.
fn serve_events(events: &'static [&'static str]) -> SocketAddr {
    serve(move |request, stream| {
        let sent = write!(stream, "{HEAD}").is_ok()
            && events.iter().all(|event| {
                std::thread::sleep(PAUSE);
                send_event(stream, &event.replace("ID", &format!("id-{}", request.number)))
            });
        sent && write!(stream, "0\r\n\r\n").is_ok()
    })
}

fn stream_plan(addr: SocketAddr, concurrency: usize, requests: u64) -> Plan {
    let mut plan = plan(addr, concurrency, requests);
    plan.stream = Some(StreamExpect::new(1, None));
    plan
}

fn failures(report: &Report) -> Vec<(FailureKind, u64)> {
    report.failures.iter().map(|(kind, count)| (*kind, *count)).collect()
}

const THREE: [&str; 3] =
    ["data: {\"id\":\"ID\",\"n\":1}\n\n", "data: {\"id\":\"ID\"}\n\n", "data: [DONE]\n\n"];
const REFERENCE: &str = "data: {\"id\":\"x\",\"n\":1}\n\ndata: {\"id\":\"x\"}\n\ndata: [DONE]\n\n";

#[test]
fn events_and_their_times_are_reported() {
    let mut plan = stream_plan(serve_events(&THREE), 2, 6);
    plan.stream = Some(StreamExpect::new(3, Some(REFERENCE.as_bytes())));
    let report = run(plan).unwrap();
    assert_eq!((report.requests_ok, failures(&report)), (6, vec![]));
    let stream = report.stream.as_ref().unwrap();
    assert_eq!((stream.events, stream.events_per_reply_min, stream.events_per_reply_max), (18, 3, 3));
    assert_eq!((stream.first_byte.count, stream.first_event.count, stream.gap.count), (6, 6, 12));
    let pause_ms = PAUSE.as_secs_f64() * 1e3 * 0.99;
    assert!(stream.first_event.ms_p50 >= pause_ms, "{}", report.to_table());
    // A busy machine makes a gap shorter only when it delayed the event before.
    assert!(stream.gap.ms_max >= pause_ms && stream.gap.ms_mean > pause_ms / 2.0, "{}", report.to_table());
    assert!(stream.first_byte.ms_p50 <= stream.first_event.ms_p50, "{}", report.to_table());
    assert!(report.latency.ms_p50 >= 3.0 * pause_ms, "{}", report.to_table());
    assert!(report.to_table().contains("events     18 received; 3 to 3 per reply, 3.0 on average"));
}

#[test]
fn at_a_constant_rate_the_first_event_counts_from_the_due_instant() {
    let mut plan = stream_plan(serve_events(&["data: a\n\n", "data: [DONE]\n\n"]), 1, 10);
    // One connection and 40 ms a reply: the tenth is due at 90 ms and sent after 360 ms.
    plan.load = Load::ConstantRate { per_second: 100.0 };
    let report = run(plan).unwrap();
    let stream = report.stream.as_ref().unwrap();
    assert_eq!(stream.events, 20);
    assert!(stream.first_event.ms_max >= 280.0, "{}", report.to_table());
}

#[test]
fn a_complete_reply_without_the_last_event_is_truncated() {
    let report = run(stream_plan(serve_events(&["data: a\n\n"]), 2, 4)).unwrap();
    assert_eq!(failures(&report), [(FailureKind::StreamTruncated, 4)]);
    assert_eq!((report.requests_ok, report.stream.as_ref().unwrap().events), (0, 0));
    let example = &report.failure_examples[&FailureKind::StreamTruncated];
    assert_eq!(example, "the stream ended after 1 events without `data: [DONE]`");
}

#[test]
fn a_stream_with_too_few_events_is_truncated() {
    let mut plan = stream_plan(serve_events(&THREE), 1, 2);
    plan.stream = Some(StreamExpect::new(4, None));
    assert_eq!(failures(&run(plan).unwrap()), [(FailureKind::StreamTruncated, 2)]);
}

#[test]
fn a_stream_with_other_bytes_than_the_reference_is_found() {
    let mut plan = stream_plan(serve_events(&THREE), 1, 2);
    plan.stream = Some(StreamExpect::new(1, Some(REFERENCE.replace("\"n\":1", "\"n\":7").as_bytes())));
    assert_eq!(failures(&run(plan).unwrap()), [(FailureKind::StreamDiffers, 2)]);
}

#[test]
fn a_connection_closed_within_a_stream_is_truncated() {
    let addr = serve(|_, stream| {
        write!(stream, "{HEAD}").unwrap();
        send_event(stream, "data: a\n\n");
        false
    });
    assert_eq!(failures(&run(stream_plan(addr, 1, 2)).unwrap()), [(FailureKind::Truncated, 2)]);
}

/// A plan that holds `concurrency` streams open for `duration`.
fn hold_plan(addr: SocketAddr, concurrency: usize, duration: Duration) -> Plan {
    let mut plan = stream_plan(addr, concurrency, 1);
    plan.load = Load::Hold;
    plan.limit = Limit { requests: None, duration: Some(duration) };
    plan.timeout = Duration::from_millis(100);
    plan
}

#[test]
fn streams_are_held_open_to_the_end_of_the_run() {
    let addr = serve(|_, stream| {
        write!(stream, "{HEAD}").unwrap();
        send_event(stream, "data: a\n\n") && {
            std::thread::sleep(Duration::from_secs(60));
            false
        }
    });
    let report = run(hold_plan(addr, 20, Duration::from_secs(1))).unwrap();
    assert_eq!((report.requests_sent, report.requests_ok, failures(&report)), (20, 20, vec![]));
    assert_eq!(report.stream.as_ref().unwrap().events, 20);
    assert!(report.duration_s >= 1.0, "{}", report.to_table());
    assert_eq!(report.to_json()["mode"], "hold");
}

#[test]
fn a_stream_that_ends_while_it_is_held_is_a_failure() {
    let report = run(hold_plan(serve_events(&THREE), 3, Duration::from_secs(2))).unwrap();
    assert_eq!(failures(&report), [(FailureKind::StreamTruncated, 3)]);
}

#[test]
fn a_held_request_without_a_reply_is_a_timeout() {
    let addr = serve(|_, _| {
        std::thread::sleep(Duration::from_secs(60));
        false
    });
    let report = run(hold_plan(addr, 2, Duration::from_millis(300))).unwrap();
    assert_eq!(failures(&report), [(FailureKind::Timeout, 2)]);
}
