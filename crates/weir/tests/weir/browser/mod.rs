//! The pages, and pages of other origins, in a real Chromium: `pages.py` uses them as people do.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::support::gateway::{Gateway, in_repository};
use clap::Parser as _;
use weir_mock::{MockServer, Settings};

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
fn files_that_are_dropped_on_the_first_page_are_sent_or_say_why_not() {
    run("upload", &[&Gateway::start_with(&[("WEIR_EXTRACT_KEEP_ORIGINALS", "true")]).weir.url]);
}

#[test]
fn the_first_page_asks_for_an_api_key_when_one_is_missing() {
    let gateway = Gateway::start();
    gateway.ingest(&[serde_json::json!({"id": "a", "text": "A weir is a low dam."})]);
    let created = |scopes: &[&str], headers: &[(&str, &str)]| {
        let body = serde_json::json!({"name": "page", "scopes": scopes}).to_string();
        let reply = gateway.try_send("POST", "/v1/keys", headers, Some(body.as_bytes())).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["key"].as_str().unwrap().to_owned()
    };
    let json = ("content-type", "application/json");
    let all = created(&["admin", "search"], &[json]);
    let narrow = created(&["embed"], &[json, ("x-api-key", &all)]);
    run("key", &[&gateway.weir.url, &all, &narrow]);
}

#[test]
fn hits_in_markdown_are_rendered_and_run_nothing() {
    run("markdown", &[&Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "512")]).weir.url]);
}

/// A gateway with the route `my-route` to a mock that was started with these arguments.
fn with_a_route(arguments: &[&str]) -> (Gateway, MockServer, tempfile::TempDir) {
    let mock = MockServer::start(Settings::parse_from([&["weir-mock"], arguments].concat())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    let url = format!("http://{}/v1", mock.addr());
    let upstream = format!("[[upstreams]]\nid = \"local\"\nprovider = \"openai\"\nurl = \"{url}\"\n");
    let route = "[[routes]]\nmodel = \"my-route\"\ntargets = [{ upstream = \"local\" }]\n";
    std::fs::write(&config, upstream + route).unwrap();
    (Gateway::start_with(&[("WEIR_CONFIG", config.to_str().unwrap())]), mock, folder)
}

#[test]
fn answers_are_rendered_with_what_they_cite() {
    let (cites, _mock, _folder) = with_a_route(&["--echo", "cite"]);
    let (echoes, _other, _config) = with_a_route(&["--echo", "last"]);
    run("answer", &[&cites.weir.url, &echoes.weir.url]);
}

#[test]
fn the_documentation_page_sends_its_examples() {
    let (gateway, _mock, _folder) = with_a_route(&[]);
    run("docs", &[&gateway.weir.url]);
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
