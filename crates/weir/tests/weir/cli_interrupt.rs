//! Ctrl-C: what each command says and leaves, and the exit code.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::cli_support::{Response, ScriptedGateway, Weir, folder_with, job, job_with};

#[test]
fn ctrl_c_prints_how_to_continue() {
    let folder = folder_with(&[("a.txt", "alpha")]);
    let pending = || Response::json(200, &job("job_1", "running", 1, "[]"));
    let responses = std::iter::once(Response::json(202, &job("job_1", "pending", 1, "[]")));
    let gateway = ScriptedGateway::serve(responses.chain((0..1000).map(|_| pending())).collect());
    let weir = Weir::new().in_folder(&folder);
    let child = weir.start(&["ingest", "a.txt", "--url", &gateway.url]);
    gateway.wait_for_calls(3);
    child.interrupt();
    let run = child.finish();
    assert_eq!(run.code, 130);
    assert_eq!(
        run.err,
        "error: interrupted: 0 documents are searchable, 1 more are accepted and will be\n\
         hint: run the same command again to continue: unchanged documents cost nothing\n"
    );
}

#[test]
fn ctrl_c_counts_the_documents_that_the_jobs_have_processed() {
    let folder = folder_with(&[("in/a.txt", "a"), ("in/b.txt", "b"), ("in/c.txt", "c"), ("in/d.txt", "d")]);
    let accepted = (1..=2).map(|_| Response::json(202, &job_with("job", "pending", 2, 0, "[]")));
    let running = (0..1000).map(|_| Response::json(200, &job_with("job", "running", 2, 1, "[]")));
    let gateway = ScriptedGateway::serve(accepted.chain(running).collect());
    let weir = Weir::new().in_folder(&folder);
    let child = weir.start(&["ingest", "in", "--batch", "2", "--url", &gateway.url]);
    gateway.wait_for_calls(4);
    child.interrupt();
    let run = child.finish();
    assert_eq!(run.code, 130);
    let expected = "error: interrupted: 2 documents are searchable, 2 more are accepted and will be\n";
    assert!(run.err.starts_with(expected), "{}", run.err);
}

/// Whether a gateway answers.
fn answers(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let request = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).is_ok() && stream.read(&mut [0; 16]).is_ok_and(|count| count > 0)
}

fn wait_until(address: &str, is_answered: bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while answers(address) != is_answered {
        assert!(Instant::now() < end, "{address}: answered is not {is_answered}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_demo_that_is_interrupted_before_its_documents_are_in_exits_with_130() {
    let folder = folder_with(&[]);
    let pipe = folder.path().join("pipe.txt");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let weir = Weir::new().in_folder(&folder).env("TMPDIR", ".");
    let running = weir.start(&["demo", "pipe.txt", "--model", "pseudo", "--listen", &address]);
    wait_until(&address, true);
    running.interrupt();
    wait_until(&address, false);
    // reading waits for this
    std::fs::write(&pipe, "alpha").unwrap();
    let run = running.finish();
    assert_eq!((run.code, run.out.as_str()), (130, ""), "{}", run.err);
    assert!(run.err.contains("error: interrupted\n"), "{}", run.err);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the pipe is left");
}

#[test]
fn a_pull_that_is_interrupted_exits_with_130_and_leaves_nothing() {
    let folder = folder_with(&[]);
    // accepts connections and never answers
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let weir = Weir::new().in_folder(&folder);
    let mut running = weir.start(&["model", "pull", "own/tiny", "--hub", &url]);
    running.wait_for_line("fetching");
    running.interrupt();
    let run = running.finish();
    assert_eq!((run.code, run.err.as_str()), (130, "error: interrupted; nothing was kept\n"));
    assert!(!folder.path().join("models").exists());
}
