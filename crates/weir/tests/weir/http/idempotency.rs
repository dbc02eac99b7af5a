//! `Idempotency-Key`: a request to store documents that is sent again is answered as before, and not carried out again.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::Gateway;
use super::documented::check_error;
use crate::support::client::{Client, Reply, document_path};

/// A request with a key.
fn send(client: &Client, key: &str, call: (&str, &str), media: &str, body: &[u8]) -> Reply {
    let headers = [("content-type", media), ("idempotency-key", key)];
    client.try_send(call.0, call.1, &headers, Some(body)).unwrap()
}

fn ingest(client: &Client, key: &str, body: &Value) -> Reply {
    send(client, key, ("POST", "/v1/ingest"), "application/json", body.to_string().as_bytes())
}

fn is_replayed(reply: &Reply) -> bool {
    reply.try_header("idempotent-replayed") == Some("true")
}

fn jobs(client: &Client) -> usize {
    client.get("/v1/jobs?limit=100").1["data"].as_array().unwrap().len()
}

fn of(documents: &[Value]) -> Value {
    json!({"documents": documents})
}

#[test]
fn a_request_that_is_sent_again_is_answered_as_before_also_after_a_crash() {
    let gateway = Gateway::start();
    let folder = gateway.folder().to_owned();
    let body = of(&[json!({"id": "a", "text": "a low dam"}), json!({"id": "b"})]);
    let first = ingest(&gateway, "key-1", &body);
    assert_eq!((first.status, is_replayed(&first)), (202, false), "{}", first.text);
    gateway.weir.kill();

    let gateway = Gateway::start_in(&folder, &[]);
    gateway.wait_until_ready();
    gateway.wait_until_searchable();
    assert_eq!(gateway.try_delete("a").unwrap().0, 200);
    for key in ["key-1", "\"key-1\""] {
        let again = ingest(&gateway, key, &body);
        assert_eq!((again.status, is_replayed(&again)), (202, true), "{}", again.text);
        assert_eq!(again.text, first.text, "the reply is the recorded one");
        assert_eq!(again.header("location"), first.header("location"));
    }
    assert!(gateway.document("a").is_none(), "it was stored again");
    assert_eq!(jobs(&gateway), 1);

    let other = ingest(&gateway, "key-1", &of(&[json!({"id": "c", "text": "another"})]));
    check_error(&other, "idempotency_mismatch", "another body");
    assert!(gateway.document("c").is_none());
    check_error(&ingest(&gateway, "\"a", &body), "invalid_parameter", "half a quote");
    // what was refused is not kept
    let refused = ingest(&gateway, "key-2", &of(&[json!({"id": "c"})]));
    check_error(&refused, "invalid_parameter", "no text");
    assert_eq!(ingest(&gateway, "key-2", &of(&[json!({"id": "c", "text": "c"})])).status, 202);
}

/// A request with the key `key` of whose body the first byte was sent, and which holds the key. It is refused, and sent again, where the question
/// whether it does came first.
fn carried_out(gateway: &Gateway, key: &str, length: usize) -> TcpStream {
    let head = format!(
        "POST /v1/ingest HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nidempotency-key: {key}\r\ncontent-length: {length}\r\n\r\n{{"
    );
    let running = RefCell::new(None);
    gateway.wait("the request", || {
        let mut stream = gateway.connect();
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let holds_key =
            || ingest(gateway, key, &json!({"documents": "none"})).json()["code"] == "idempotency_in_flight";
        let is_running = loop {
            match (holds_key(), stream.peek(&mut [0])) {
                (true, _) => break true,
                // it has a reply
                (false, Ok(_)) => break false,
                (false, Err(_)) => {}
            }
        };
        stream.set_nonblocking(false).unwrap();
        *running.borrow_mut() = Some(stream).filter(|_| is_running);
        is_running
    });
    running.into_inner().unwrap()
}

#[test]
fn while_a_request_is_carried_out_another_with_its_key_is_refused() {
    let gateway = Gateway::start();
    let body = of(&[json!({"id": "a", "text": "a low dam"})]);
    let text = body.to_string();
    let mut running = carried_out(&gateway, "key", text.len());
    check_error(&ingest(&gateway, "key", &body), "idempotency_in_flight", "the same request");
    assert_eq!(ingest(&gateway, "another", &of(&[json!({"text": "b"})])).status, 202);
    running.write_all(&text.as_bytes()[1..]).unwrap();
    let mut reply = String::new();
    running.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 202"), "{reply}");
    let again = ingest(&gateway, "key", &body);
    assert!(is_replayed(&again) && reply.ends_with(&again.text), "{reply} {}", again.text);
    // a caller that leaves frees the key
    drop(carried_out(&gateway, "left", text.len()));
    gateway.wait("the free key", || ingest(&gateway, "left", &body).status == 202);
}

#[test]
fn files_single_documents_and_patches_have_keys_and_lines_have_none() {
    let gateway = Gateway::start();
    let form = |content: &str| {
        format!(
            "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"c.txt\"\r\n\r\n{content}\r\n\
             --b\r\ncontent-disposition: form-data; name=\"options\"\r\n\r\n{{\"keep_original\": true}}\r\n--b--\r\n"
        )
    };
    let path = document_path("d");
    let raw = format!("{path}?filename=d.txt");
    let calls: [(&str, &str, &str, String, String); 4] = [
        ("POST", "/v1/ingest", "multipart/form-data; boundary=b", form("first text"), form("second text")),
        ("PUT", &raw, "text/plain", "first text".into(), "second text".into()),
        ("PUT", &path, "application/json", r#"{"text": "first"}"#.into(), r#"{"text": "second"}"#.into()),
        ("PATCH", &path, "application/json", r#"{"title": "first"}"#.into(), r#"{"title": "second"}"#.into()),
    ];
    for (number, (method, path, media, body, other)) in calls.iter().enumerate() {
        let key = format!("key-{number}");
        let call = |body: &str| send(&gateway, &key, (method, path), media, body.as_bytes());
        let first = call(body);
        assert_eq!((first.status, is_replayed(&first)), (202, false), "{method} {path}: {}", first.text);
        let again = call(body);
        assert!(is_replayed(&again), "{method} {path}: {}", again.text);
        assert_eq!((&again.text, again.status), (&first.text, 202));
        assert_eq!(again.try_header("etag"), first.try_header("etag"));
        check_error(&call(other), "idempotency_mismatch", path);
        // the key belongs to the route
        let elsewhere = document_path("elsewhere");
        let moved = send(&gateway, &key, ("PUT", &elsewhere), "application/json", br#"{"text": "x"}"#);
        assert_eq!((moved.status, is_replayed(&moved)), (202, false));
    }
    let original = format!("{}/original", document_path("c.txt"));
    gateway.wait("the text of the file", || gateway.send("GET", &original, None).status == 200);
    assert_eq!(gateway.send("GET", &original, None).text, "first text");
    let lines =
        send(&gateway, "key", ("POST", "/v1/ingest"), "application/x-ndjson", br#"{"id": "l", "text": "l"}"#);
    let problem = check_error(&lines, "invalid_parameter", "lines");
    assert_eq!(problem["error"]["param"], "Idempotency-Key");
    assert!(gateway.document("l").is_none());
}

#[test]
fn keys_are_those_of_the_caller_and_are_forgotten() {
    let variables = [("WEIR_INGEST_IDEMPOTENCY_KEYS_MAX", "2"), ("WEIR_INGEST_IDEMPOTENCY_KEPT_S", "3")];
    let gateway = Gateway::start_with(&variables);
    let key_of = |by: &str, name: &str| {
        let body = json!({"name": name, "scopes": ["admin", "ingest", "search"]}).to_string();
        let mut headers = vec![("content-type", "application/json")];
        if !by.is_empty() {
            headers.push(("x-api-key", by));
        }
        let made = gateway.try_send("POST", "/v1/keys", &headers, Some(body.as_bytes())).unwrap();
        made.json()["key"].as_str().unwrap().to_owned()
    };
    let first = key_of("", "first");
    let second = key_of(&first, "second");
    let call = |caller: &str, key: &str, text: &str| {
        let headers = [("content-type", "application/json"), ("x-api-key", caller), ("idempotency-key", key)];
        let body = of(&[json!({"id": format!("{key}-{text}"), "text": text})]).to_string();
        gateway.try_send("POST", "/v1/ingest", &headers, Some(body.as_bytes())).unwrap()
    };
    assert_eq!(call(&first, "k", "one").status, 202);
    let of_another = call(&second, "k", "two");
    assert_eq!(
        (of_another.status, is_replayed(&of_another)),
        (202, false),
        "another caller has keys of its own"
    );
    assert!(is_replayed(&call(&first, "k", "one")));
    for key in ["l", "m"] {
        assert_eq!(call(&first, key, "one").status, 202);
    }
    assert!(!is_replayed(&call(&first, "k", "other")), "the oldest of three is forgotten");
    assert!(is_replayed(&call(&second, "k", "two")), "others' keys are not counted");
    gateway.wait("the end of the time", || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        !is_replayed(&call(&second, "k", "two"))
    });
}
