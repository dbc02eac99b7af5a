//! What the door refuses, byte by byte: a connection goes on as if the handler had answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Gateway;

const PATIENCE: Duration = Duration::from_secs(30);

/// No handler takes this for a request: whoever refuses it did not read it.
const NO_JSON: &str = "this is no JSON";

/// The head of a request for embeddings that are not known.
fn head(headers: &str, body_bytes: usize) -> String {
    format!(
        "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {body_bytes}\r\n\r\n"
    )
}

const LIVENESS: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A response as it stands on the connection.
struct Response {
    status: u16,
    head: String,
    body: String,
}

fn read_response(connection: &mut TcpStream) -> Response {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        connection.read_exact(&mut byte).expect("the head of a response");
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().unwrap()];
    connection.read_exact(&mut body).expect("the body of a response");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head, body: String::from_utf8(body).unwrap() }
}

/// Sends a request again and again until it is refused unread.
fn refused(connection: &mut TcpStream, request: &str) -> Response {
    let started = Instant::now();
    loop {
        connection.write_all(request.as_bytes()).unwrap();
        let response = read_response(connection);
        if response.status == 503 {
            return response;
        }
        assert_eq!(response.status, 400, "{}", response.body);
        assert!(started.elapsed() < PATIENCE, "it was always read");
    }
}

#[test]
fn what_the_door_refuses_leaves_the_connection_as_it_was() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"text": "A weir is a low dam."})]);
    gateway.under_load(|| {
        let mut connection = gateway.connect();
        let whole = head("X-Request-Id: mine\r\n", NO_JSON.len()) + NO_JSON;
        let response = refused(&mut connection, &whole);
        for header in
            ["retry-after: ", "retry-after-ms: ", "x-request-id: mine", "date: ", "application/json"]
        {
            assert!(response.head.contains(header), "{header} in {}", response.head);
        }
        let body: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(body["error"]["code"], "overloaded", "{body}");

        // what comes in parts is read, unless they are found together
        let (start, end) = NO_JSON.split_at(5);
        for part in [&head("", NO_JSON.len()), start, end] {
            connection.write_all(part.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!([400, 503].contains(&read_response(&mut connection).status));
        refused(&mut connection, &whole);

        // and a length that nobody has
        let endless = head("", 0).replace(": 0", ": 18446744073709551615");
        let mut other = gateway.connect();
        other.write_all((endless + NO_JSON).as_bytes()).unwrap();
        assert!([400, 413, 431].contains(&read_response(&mut other).status));

        let mut ask = |request: &str| {
            connection.write_all(request.as_bytes()).unwrap();
            read_response(&mut connection).status
        };
        assert_eq!(ask(LIVENESS), 200, "something else on the same connection");
    });
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains(r#"route="/v1/embeddings",method="POST",status="503""#), "{metrics}");
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"text": "A weir is a low dam."})]);
    let embeddings = head("", NO_JSON.len()) + NO_JSON;
    gateway.under_load(|| {
        refused(&mut gateway.connect(), &embeddings);
        for _ in 0..20 {
            let mut connection = gateway.connect();
            let together = [LIVENESS, &embeddings, LIVENESS, LIVENESS].concat();
            connection.write_all(together.as_bytes()).unwrap();
            let statuses = [(); 4].map(|()| read_response(&mut connection).status);
            assert_eq!(statuses, [200, 400, 200, 200]);
        }
        // those inside take their time, and the third comes while the second is answered
        let document = json!({"documents": [{"text": "A weir is a low dam."}]}).to_string();
        let ingest = |id: &str| {
            let (host, bytes) = ("Host: localhost", document.len());
            format!("POST /v1/ingest?wait=true HTTP/1.1\r\n{host}\r\nX-Request-Id: {id}\r\nContent-Length: {bytes}\r\n\r\n{document}")
        };
        let last = head("X-Request-Id: third\r\n", NO_JSON.len()) + NO_JSON;
        for _ in 0..20 {
            let mut connection = gateway.connect();
            for request in [ingest("first"), ingest("second")] {
                connection.write_all(request.as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            for id in ["first", "second", "third"] {
                let response = read_response(&mut connection);
                assert!(response.head.contains(&format!("x-request-id: {id}")), "{}", response.head);
                if id == "first" {
                    connection.write_all(last.as_bytes()).unwrap();
                }
            }
        }
    });
}

#[test]
fn the_body_of_a_refused_page_is_no_request() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"text": "A weir is a low dam."})]);
    let inner = head("", NO_JSON.len()) + NO_JSON;
    gateway.under_load(|| {
        refused(&mut gateway.connect(), &inner);
        for pause in 0..100 {
            // answered by its head; when the body comes the connection may be over
            let mut connection = gateway.connect();
            let foreign = head("Origin: http://evil.example\r\n", inner.len());
            connection.write_all(foreign.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_micros(10 * pause));
            drop(connection.write_all(inner.as_bytes()));
            let mut answers = Vec::new();
            drop(connection.shutdown(std::net::Shutdown::Write));
            drop(connection.read_to_end(&mut answers));
            let answers = String::from_utf8_lossy(&answers);
            assert!(!answers.contains("HTTP/1.1 400"), "{answers}");
            assert!(answers.matches("HTTP/1.1").count() <= 1, "{answers}");
        }
    });
}

#[test]
fn a_body_in_chunks_is_read_to_where_they_end() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"text": "A weir is a low dam."})]);
    let inner = head("", NO_JSON.len()) + NO_JSON;
    let chunks = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
    let request = head("Transfer-Encoding: chunked\r\n", chunks.len()) + &chunks;
    gateway.under_load(|| {
        for _ in 0..50 {
            let mut connection = gateway.connect();
            connection.write_all(request.as_bytes()).unwrap();
            assert_eq!(read_response(&mut connection).status, 400);
        }
    });
}

#[test]
fn a_caller_who_wants_no_more_than_one_answer_gets_it() {
    let gateway = Gateway::start_narrow();
    gateway.ingest(&[json!({"text": "A weir is a low dam."})]);
    gateway.under_load(|| {
        for _ in 0..20 {
            let mut connection = gateway.connect();
            let request = head("Connection: close\r\n", NO_JSON.len()) + NO_JSON;
            connection.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        }
        // one that goes away half-way takes nothing with it
        let mut connection = gateway.connect();
        connection.write_all(head("", NO_JSON.len()).as_bytes()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
    });
}
