//! The binary: its first line, its end, usage errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// Runs it to its end; it is ended after 20 s if it serves instead of failing.
fn run(args: &[&str]) -> Output {
    Command::new("timeout").args(["20", env!("CARGO_BIN_EXE_weir-mock")]).args(args).output().unwrap()
}

/// A running server, which ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_prints_its_address_serves_and_ends_on_sigterm() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-mock"));
    let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut stdout = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    let address = started["address"].as_str().unwrap();
    assert_eq!(started["url"], format!("http://{address}"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /v1/models HTTP/1.1\r\nhost: m\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK") && reply.contains("mock-model"), "{reply}");

    let killed = Command::new("kill").args(["-TERM", &running.0.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn usage_errors_exit_with_2_and_name_the_remedy() {
    for (args, expected) in [
        (["--listen", "0.0.0.0:0"], "0.0.0.0:0 is not a loopback address; pass --allow-remote"),
        (["--ping", "2"], "`ping` is `2`, but must be a number from 0 to 1"),
        (["--threads", "0"], "1..=64"),
        (["--nothing", "1"], "--nothing"),
    ] {
        let output = run(&args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}

#[test]
fn an_address_in_use_exits_with_1() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let output = run(&["--listen", &listener.local_addr().unwrap().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr).unwrap().starts_with("weir-mock: could not listen on 127.0.0.1:")
    );
}
