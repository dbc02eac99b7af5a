//! The pages, and pages of other origins, in a real Chromium: `pages.py` uses them as people do.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::support::gateway::{Gateway, in_repository};

/// Runs a function of `pages.py`, which must succeed.
fn run(test: &str, arguments: &[&str]) {
    let python = in_repository(".venv/bin/python");
    assert!(python.is_file(), "`make setup` makes the Python environment");
    let script = in_repository("crates/weir/tests/weir/browser/pages.py");
    let run = Command::new(&python).arg("-B").arg(script).arg(test).args(arguments).output().unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_first_page_shows_how_to_ingest_and_then_searches() {
    let model = in_repository("models/all-MiniLM-L6-v2");
    let settings = [("WEIR_CHUNKING_MAX_TOKENS", "128"), ("WEIR_MODEL", model.to_str().unwrap())];
    run("start", &[&Gateway::start_with(&settings).weir.url]);
}

#[test]
fn the_first_page_asks_for_an_api_key_when_one_is_missing() {
    let gateway = Gateway::start();
    gateway.ingest(&[serde_json::json!({"id": "a", "text": "A weir is a low dam."})]);
    run("key", &[&gateway.weir.url]);
}

#[test]
fn the_documentation_page_sends_its_examples() {
    run("docs", &[&Gateway::start().weir.url]);
}

#[test]
fn a_page_of_another_origin_needs_the_setting() {
    let page = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = page.local_addr().unwrap().port();
    // a thread each: the browser opens connections ahead of time, on which it sends nothing for a minute
    std::thread::spawn(move || {
        for connection in page.incoming().map_while(Result::ok) {
            std::thread::spawn(|| serve_page(connection));
        }
    });
    let closed = Gateway::start();
    let listed = format!("http://app.example:{port}");
    let open = Gateway::start_with(&[("WEIR_SERVER_CORS_ORIGINS", &listed)]);
    run("cors", &[&closed.weir.url, &open.weir.url, &port.to_string()]);
}

/// Answers every request with an empty page.
fn serve_page(mut connection: std::net::TcpStream) {
    const PAGE: &str = "<!doctype html><title>app</title>";
    drop(connection.read(&mut [0; 4096]));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
    drop(write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{PAGE}", PAGE.len()));
}
