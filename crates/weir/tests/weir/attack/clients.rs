//! Connections that are silent, slow, half-closed or too many, and edges of HTTP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{held, rounds};
use crate::support::gateway::Gateway;
use crate::upstreams::scripted::{Upstream, error};

/// Longest time for a reply and for the end of a connection: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's first bytes of HTTP/2: the preface and empty settings.
pub(crate) const HTTP2_START: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Time limits so short that a test sees them.
const SHORT: [(&str, &str); 4] = [
    ("WEIR_SERVER_HEAD_TIMEOUT_MS", "1000"),
    ("WEIR_SERVER_IDLE_TIMEOUT_MS", "2000"),
    ("WEIR_SERVER_PROGRESS_TIMEOUT_MS", "1500"),
    ("WEIR_SERVER_HTTP2_PING_MS", "1000"),
];

/// Sends bytes over a new connection.
fn send(gateway: &Gateway, bytes: &[u8]) -> TcpStream {
    let mut connection = gateway.connect();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(bytes).unwrap();
    connection
}

/// Everything until the end of the connection, which must come.
fn read_all(mut connection: TcpStream) -> String {
    let mut answer = Vec::new();
    match connection.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection was not closed: {error}"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The reply to a request over a connection of its own.
fn ask(gateway: &Gateway, head: &str) -> String {
    read_all(send(gateway, format!("{head}\r\nconnection: close\r\n\r\n").as_bytes()))
}

fn metric(gateway: &Gateway, line: &str) -> u64 {
    // a connection of its own, because the gateway may just be closing an idle one
    let reply = gateway.try_send("GET", "/metrics", &[("connection", "close")], None);
    let text = reply.expect("an answer").text;
    let value = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
}

/// Opens `count` connections that send `first` and nothing more, and measures what others see of it.
fn block(name: &str, first: &[u8], count: usize) {
    let gateway = Gateway::start_with(&[]);
    let silent: Vec<TcpStream> = (0..count).map(|_| send(&gateway, first)).collect();
    let started = Instant::now();
    for _ in 0..10 {
        let reply = ask(&gateway, "GET /v1/models HTTP/1.1\r\nhost: localhost");
        assert!(reply.starts_with("HTTP/1.1 200 "), "{name}: {reply}");
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(10), "{name}: ten requests took {took:?}");
    drop(silent);
    held(name, &format!("{count} connections, ten requests of another client in {took:.0?}"));
}

#[test]
fn silent_connections_do_not_block_others() {
    let count = rounds(1_200, 4_000);
    block("TCP connections that send nothing", b"", count);
    block("HTTP/2 connections that send nothing after the preface", HTTP2_START, count);
    block("heads that are never complete", b"GET / HTTP/1.1\r\nhost: loc", count);
}

#[test]
fn bodies_that_never_come_do_not_block_others() {
    let head = "POST /v1/feedback HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_CONNECTIONS_MAX", "64")]);
    let silent: Vec<TcpStream> = (0..100).map(|_| send(&gateway, head.as_bytes())).collect();
    // a body is waited for before another client takes its connection
    std::thread::sleep(Duration::from_secs(2));
    for _ in 0..10 {
        let reply = ask(&gateway, "GET /v1/models HTTP/1.1\r\nhost: localhost");
        assert!(reply.starts_with("HTTP/1.1 200 "), "{reply:?}");
    }
    drop(silent);
    held("requests whose body never comes", "100 connections of 64, others are answered");
}

#[test]
fn connections_without_a_request_are_closed_in_time() {
    let gateway = Gateway::start_with(&SHORT);
    let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n".as_slice();
    for (name, first, second, closed) in [
        ("nothing", b"".as_slice(), b"".as_slice(), "head_timeout"),
        ("a part of a head", b"GET / HTTP/1.1\r\n", b"", "head_timeout"),
        ("HTTP/2 without a request", HTTP2_START, b"", "head_timeout"),
        ("no second request", request, b"", "idle_timeout"),
        ("half of a second head", request, b"GET ", "head_timeout"),
    ] {
        let series = format!("weir_connections_closed_total{{reason=\"{closed}\"}}");
        let before = metric(&gateway, &series);
        let started = Instant::now();
        let mut connection = send(&gateway, first);
        if !second.is_empty() {
            std::thread::sleep(Duration::from_millis(300));
            connection.write_all(second).unwrap();
        }
        read_all(connection);
        let took = started.elapsed();
        assert!(took > Duration::from_millis(900) && took < PATIENCE / 4, "{name}: closed after {took:?}");
        gateway.wait("the count", || metric(&gateway, &series) > before);
        held(&format!("a connection that sends {name}"), &format!("closed after {took:.1?}"));
    }
}

#[test]
fn a_head_that_trickles_is_not_waited_for() {
    let gateway = Gateway::start_with(&SHORT);
    let mut connection = send(&gateway, b"GET / HTTP/1.1\r\n");
    let started = Instant::now();
    while connection.write_all(b"x").is_ok() {
        assert!(started.elapsed() < PATIENCE, "the head is still read");
        std::thread::sleep(Duration::from_millis(100));
    }
    held("a head of one byte every 100 ms", &format!("closed after {:.1?}", started.elapsed()));
}

#[test]
fn a_reply_that_nobody_reads_is_given_up_and_a_slow_reader_is_served() {
    let gateway = Gateway::start_with(&SHORT);
    let stalled = "weir_connections_closed_total{reason=\"no_progress\"}";
    let request = large_request();
    let whole = read_reply(send(&gateway, request.as_bytes()), Duration::ZERO);
    assert!(whole > 6 << 20, "{whole} bytes fit into the buffers of the system");
    let silent = send(&gateway, request.as_bytes());
    gateway.wait("the end of the stalled reply", || metric(&gateway, stalled) == 1);
    let received = read_all(silent).len();
    assert!(received < whole, "{received} of {whole} bytes came");
    // several times the limit, with progress all the time
    let started = Instant::now();
    let slow = read_reply(send(&gateway, request.as_bytes()), Duration::from_millis(250));
    assert_eq!(slow, whole);
    assert!(started.elapsed() > Duration::from_secs(4), "{:?} is no slow reader", started.elapsed());
    assert_eq!(metric(&gateway, stalled), 1);
    held("replies that are read slowly or not at all", &format!("{slow} bytes in {:.0?}", started.elapsed()));
}

/// A request whose reply is larger than the buffers of a socket that nobody reads.
fn large_request() -> String {
    let inputs: Vec<String> = (0..2_048).map(|number| format!("weir {number}")).collect();
    let body = json!({"model": "pseudo", "input": inputs, "encoding_format": "float"}).to_string();
    let length = body.len();
    format!("POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// Reads a reply to its end, and waits before each half of a megabyte. Returns its length.
fn read_reply(mut connection: TcpStream, pause: Duration) -> usize {
    let (mut received, mut part) = (Vec::new(), vec![0; 1 << 19]);
    loop {
        std::thread::sleep(pause);
        let read = connection.read(&mut part).unwrap();
        assert!(read > 0, "the reply was cut off after {} bytes", received.len());
        received.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&received[..received.len().min(4_096)]);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().parse().unwrap();
        if received.len() == head.len() + 4 + length {
            return received.len();
        }
    }
}

#[test]
fn a_reply_over_http_2_without_a_window_is_given_up() {
    let gateway = Gateway::start_with(&SHORT);
    let stalled = "weir_connections_closed_total{reason=\"no_progress\"}";
    // settings with an initial window of 0, then GET / (static table: method GET, scheme http, path /) with the authority `localhost`
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0".to_vec();
    let headers = b"\x82\x86\x84\x01\x09localhost";
    bytes.extend([0, 0, headers.len() as u8, 1, 5, 0, 0, 0, 1]);
    bytes.extend(headers);
    let connection = send(&gateway, &bytes);
    let mut writer = connection.try_clone().unwrap();
    let pings = std::thread::spawn(move || {
        // a client that answers pings, or sends its own, makes no progress for all that
        while writer.write_all(b"\0\0\x08\x06\x01\0\0\0\0\0\0\0\0\0\0\0\0").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    gateway.wait("the end of the stalled reply", || metric(&gateway, stalled) == 1);
    read_all(connection);
    pings.join().unwrap();
    held("an HTTP/2 reply for which there is no window", "given up");
}

#[test]
fn a_request_before_a_half_closed_socket_is_answered() {
    let gateway = Gateway::start_with(&[]);
    let body = json!({"documents": [{"id": "a", "text": "a weir"}]}).to_string();
    let ingest = format!(
        "POST /v1/ingest?wait=true HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for (request, status) in [
        ("GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n", "HTTP/1.1 200 "),
        ("GET /v1/models HTTP/1.0\r\n\r\n", "HTTP/1.0 200 "),
        (&ingest, "HTTP/1.1 202 "),
    ] {
        for _ in 0..rounds(20, 1_000) {
            let connection = send(&gateway, request.as_bytes());
            connection.shutdown(Shutdown::Write).unwrap();
            let reply = read_all(connection);
            assert!(reply.starts_with(status), "{request}: {reply:?}");
        }
    }
    // the body and the end of it arrive together, while the body is awaited
    for _ in 0..rounds(20, 200) {
        let (head, rest) = ingest.split_at(ingest.len() - body.len());
        let mut connection = send(&gateway, head.as_bytes());
        std::thread::sleep(Duration::from_millis(5));
        connection.write_all(rest.as_bytes()).unwrap();
        connection.shutdown(Shutdown::Write).unwrap();
        let reply = read_all(connection);
        assert!(reply.starts_with("HTTP/1.1 202 "), "{reply:?}");
    }
    held("sockets half-closed after a request", "answered");
}

#[test]
fn clients_that_leave_during_their_request_cost_no_cpu_time() {
    let upstream = Upstream::start(|_, _| {
        std::thread::sleep(Duration::from_millis(400));
        error(500)
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    let slow = format!(
        "[[models]]\nid = \"slow\"\nkind = \"tei\"\nurl = {:?}\ndimension = 4\nretries_max = 0\n",
        upstream.url
    );
    std::fs::write(file.path(), slow).unwrap();
    let gateway = Gateway::start_with(&[("WEIR_CONFIG", file.path().to_str().unwrap())]);
    let body = json!({"model": "slow", "input": "a"}).to_string();
    let whole = format!("content-length: {}\r\n\r\n{body}", body.len());
    let mut used = Vec::new();
    for (path, rest) in [
        ("/v1/ingest", "content-length: 99999999999\r\n\r\n{"),
        ("/v1/ingest", "content-length: 1000\r\n\r\n{"),
        ("/v1/embeddings", &whole),
    ] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{rest}");
        let before = gateway.weir.cpu_time();
        for _ in 0..rounds(5, 50) {
            let connections = [(); 4].map(|()| send(&gateway, request.as_bytes()));
            connections.iter().for_each(|connection| connection.shutdown(Shutdown::Write).unwrap());
            connections.into_iter().for_each(|connection| drop(read_all(connection)));
        }
        used.push(gateway.weir.cpu_time() - before);
        assert!(used[used.len() - 1] <= Duration::from_millis(rounds(300, 1_000) as u64), "{path}: {used:?}");
    }
    held("clients that leave during their request", &format!("{used:.0?} of CPU time for each kind"));
}

#[test]
fn health_is_answered_while_every_connection_is_at_work() {
    let gateway = Gateway::start_with(&[
        ("WEIR_LIMITS_CONNECTIONS_MAX", "8"),
        ("WEIR_LIMITS_CONNECTIONS_PER_PEER_MAX", "1000"),
        ("WEIR_LIMITS_CONNECTIONS_RESERVED", "2"),
    ]);
    // requests that are at work until the deadline: their body has one byte every 100 ms
    let head = "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{\"query\": \"";
    let mut busy: Vec<TcpStream> = (0..8).map(|_| send(&gateway, head.as_bytes())).collect();
    let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
    let trickle = std::thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(100)).is_err() {
            busy.iter_mut().for_each(|one| drop(one.write_all(b"a")));
        }
    });
    // until then, the first of them could be replaced
    std::thread::sleep(Duration::from_millis(500));
    for path in ["/livez", "/readyz", "/healthz", "/health", "/ping"] {
        let reply = ask(&gateway, &format!("GET {path} HTTP/1.1\r\nhost: localhost"));
        assert!(reply.starts_with("HTTP/1.1 200 "), "{path}: {reply}");
    }
    let reply = ask(&gateway, "GET /v1/models HTTP/1.1\r\nhost: localhost");
    assert!(reply.starts_with("HTTP/1.1 503 ") && reply.contains("overloaded"), "{reply}");
    stop.send(()).unwrap();
    trickle.join().unwrap();
    held("all connections at work", "health is answered, others are refused");
}

#[test]
fn a_client_with_too_many_connections_is_refused_alone() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_CONNECTIONS_PER_PEER_MAX", "4")]);
    let mut silent: Vec<TcpStream> = (0..4).map(|_| send(&gateway, b"")).collect();
    let reply = ask(&gateway, "GET /livez HTTP/1.1\r\nhost: localhost");
    assert!(reply.starts_with("HTTP/1.1 200 "), "its own silent connection makes room: {reply}");
    let first = silent.remove(0);
    assert_eq!(read_all(first), "");
    held("more connections than one client may have", "its longest silent one is closed");
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let gateway = Gateway::start_with(&[]);
    let descriptors = || gateway.weir.descriptors();
    gateway.send("GET", "/livez", None);
    let before = descriptors();
    for _ in 0..rounds(10, 100) {
        let connections: Vec<TcpStream> = (0..200).map(|_| send(&gateway, HTTP2_START)).collect();
        drop(connections);
    }
    // those that the system still holds are accepted before this request's, so few descriptors alone say nothing
    let open = || metric(&gateway, "weir_connections");
    gateway.wait("the end of all connections", || open() <= 2 && descriptors() <= before + 2);
    held("connections that come and go", &format!("{before} descriptors before, {} after", descriptors()));
}

#[test]
fn requests_without_one_host_are_refused() {
    let gateway = Gateway::start_with(&[("WEIR_SERVER_ALLOWED_HOSTS", "*")]);
    for (head, status) in [
        ("GET /livez HTTP/1.1\r\nhost: localhost", 200),
        ("GET /livez HTTP/1.1\r\nhost: weir.example:8000", 200),
        ("GET /livez HTTP/1.1\r\nhost: [::1]:8000", 200),
        ("GET /livez HTTP/1.0", 200),
        ("GET /livez HTTP/1.1", 400),
        ("GET /livez HTTP/1.1\r\nhost:", 400),
        ("GET /livez HTTP/1.1\r\nhost: localhost\r\nhost: localhost", 400),
        ("GET /livez HTTP/1.0\r\nhost: localhost\r\nhost: weir.example", 400),
        ("GET /livez HTTP/1.1\r\nhost: user@localhost", 400),
        ("GET /livez HTTP/1.1\r\nhost: a b", 400),
        ("GET http://localhost/livez HTTP/1.1", 400),
    ] {
        let reply = ask(&gateway, head);
        let expected = format!("HTTP/1.{} {status} ", if head.contains("HTTP/1.0") { 0 } else { 1 });
        assert!(reply.starts_with(&expected), "{head}: {reply}");
        assert!(status == 200 || reply.contains("invalid_parameter"), "{head}: {reply}");
    }
    held("requests without a host, or with two", "refused");
}

#[test]
fn pages_of_files_and_of_several_origins_are_refused() {
    let gateway = Gateway::start();
    for (origin, status) in [
        ("origin: http://localhost:3000", 200),
        ("origin: file://", 403),
        ("origin: null", 403),
        ("origin:", 403),
        ("origin: http://", 403),
        ("origin: http://localhost\r\norigin: https://evil.example", 403),
        ("origin: https://evil.example\r\norigin: http://localhost", 403),
    ] {
        let reply = ask(&gateway, &format!("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n{origin}"));
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{origin}: {reply}");
    }
    let reply = ask(&gateway, "GET /v1/models HTTP/1.1\r\nhost: :8000");
    assert!(!reply.starts_with("HTTP/1.1 200 "), "a host without a name: {reply}");
    held("pages of files, and of two origins at once", "refused");
}

#[test]
fn connections_at_one_time_wait_instead_of_being_dropped() {
    const CONNECTIONS: usize = 600;
    let gateway = Gateway::start();
    let address = gateway.connect().peer_addr().unwrap();
    let signal = |signal| {
        kill_process(Pid::from_raw(gateway.weir.id().cast_signed()).unwrap(), signal).unwrap();
    };
    signal(Signal::STOP); // now nothing is accepted
    let opened = (0..CONNECTIONS).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(500)));
    let opened: Vec<_> = opened.take_while(Result::is_ok).flatten().collect();
    signal(Signal::CONT);
    assert_eq!(opened.len(), CONNECTIONS, "connections before the first that was not taken");
    held("connections at one time", &format!("{CONNECTIONS} wait to be accepted"));
}

#[test]
fn media_types_and_methods_are_those_of_the_description() {
    let gateway = Gateway::start_with(&[("WEIR_LIMITS_TOP_K_MAX", "77")]);
    for (path, media) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/metrics", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("/health", ""),
        ("/livez", "text/plain; charset=utf-8"),
        ("/openapi.json", "application/json"),
    ] {
        let reply = gateway.send("GET", path, None);
        assert_eq!((reply.status, reply.header("content-type")), (200, media), "{path}");
    }
    let description = gateway.get("/openapi.json").1;
    for (path, methods) in description["paths"].as_object().unwrap() {
        let path = path.replace("{name}", "default").replace("{id}", "absent");
        if path.ends_with("/documents/delete") {
            continue; // a document may have this id
        }
        let mut expected: Vec<String> =
            methods.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        if expected.contains(&"GET".to_owned()) {
            expected.push("HEAD".to_owned());
        }
        let refused = gateway.send("PROPFIND", &path, None);
        assert_eq!(refused.status, 405, "{path}");
        let mut allowed: Vec<&str> = refused.header("allow").split(',').map(str::trim).collect();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allowed, expected, "{path}");
    }
    let put = &description["paths"]["/v1/collections/{name}"]["put"];
    assert_eq!(put["requestBody"]["required"], false);
    assert!(put["responses"]["201"].is_object(), "{put}");
    assert_eq!(gateway.send("PUT", "/v1/collections/empty", None).status, 201);
    let schemas = &description["components"]["schemas"];
    assert_eq!(schemas["SearchRequest"]["properties"]["top_k"]["maximum"], 77);
    assert_eq!(schemas["IngestRequest"]["properties"]["documents"]["maxItems"], 10_000);
    held("media types, methods and limits", "those of the description");
}
