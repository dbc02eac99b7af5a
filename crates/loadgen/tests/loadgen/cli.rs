//! The binary: exit codes, stdout, files.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use crate::support::{reply, serve, serve_ok};
use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir-bench")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The exit code and the text on stderr.
fn error_of(args: &[&str]) -> (Option<i32>, String) {
    let output = bench(args);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_successful_run_exits_with_0_and_writes_a_table_and_json() {
    let url = format!("http://{}/", serve_ok(|_| {}));
    let folder = tempfile::tempdir().unwrap();
    let (bodies, json) = (folder.path().join("queries.jsonl"), folder.path().join("out.json"));
    std::fs::write(&bodies, "{\"query\":\"a\"}\n\n{\"query\":\"b\"}\r\n").unwrap();
    let output = bench(&[
        "load",
        "--url",
        &url,
        "--requests",
        "40",
        "--body-file",
        bodies.to_str().unwrap(),
        "--shuffle",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("40 sent, 40 ok, 0 failed; status 200: 40"), "{}", stdout(&output));
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!((&report["mode"], &report["requests_ok"]), (&"closed".into(), &40.into()));
    assert_eq!(report["failures"]["bad_status"], 0);
    assert!(report["latency_ms_p50"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_generated_chat_request_is_sent_and_its_stream_compared_with_a_reference() {
    let events = "data: {\"id\":\"ID\"}\n\ndata: [DONE]\n\n";
    let url = format!(
        "http://{}/",
        serve(move |request, stream| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            assert_eq!((request.body.len(), &body["stream"]), (500, &true.into()));
            reply(stream, "200 OK", &events.replace("ID", &request.number.to_string()))
        })
    );
    let folder = tempfile::tempdir().unwrap();
    let reference = folder.path().join("reference.sse");
    std::fs::write(&reference, events).unwrap();
    let output = bench(&[
        "load",
        "--url",
        &url,
        "--requests",
        "12",
        "--stream",
        "--chat-bytes",
        "500",
        "--expect-events",
        "2",
        "--reference",
        reference.to_str().unwrap(),
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!((&report["events"], &report["failures"]["stream_differs"]), (&24.into(), &0.into()));
    assert!(report["first_event_ms_p95"].as_f64().unwrap() > 0.0);
}

#[test]
fn failed_requests_exit_with_1_unless_allowed() {
    let url = format!("http://{}/", serve(|_, stream| reply(stream, "500 Broken", "no")));
    let args = ["load", "--url", &url, "--requests", "5", "--json", "-"];
    let output = bench(&args);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!((&report["failures"]["bad_status"], &report["statuses"]["500"]), (&5.into(), &5.into()));
    assert_eq!(bench(&[args.as_slice(), &["--allow-errors"]].concat()).status.code(), Some(0));
}

#[test]
fn the_first_failure_is_reported_on_one_line() {
    let shown = |body: String| {
        let url = format!("http://{}/", serve(move |_, stream| reply(stream, "400 Bad", &body)));
        let output = bench(&["load", "--url", &url, "--requests", "3"]);
        let failed = stdout(&output).lines().find(|line| line.contains("FAILED")).unwrap().to_owned();
        failed.strip_prefix("  FAILED     3 bad_status, first: ").unwrap().to_owned()
    };
    let long = "it must be \"from\" 1 to 1000, ".repeat(20);
    let problem = serde_json::json!({"type": "about:blank", "detail": long, "error": {"message": long}});
    assert_eq!(shown(problem.to_string()), format!("400 {long}"));
    let page = format!("<p class=\"a\">\n{}", "no ".repeat(100));
    assert_eq!(shown(page.clone()), format!("400 {}…", page.replace('\n', " ").get(..200).unwrap()));
}

#[test]
fn a_target_on_another_machine_is_a_usage_error() {
    let (code, message) = error_of(&["load", "--url", "http://192.0.2.7:8000/"]);
    assert_eq!(code, Some(2));
    assert_eq!(
        message,
        "weir-bench: 192.0.2.7:8000 is not a loopback address; pass --allow-remote if you may put load on that machine\n"
    );
    assert_eq!(error_of(&["null", "--listen", "0.0.0.0:0"]).0, Some(2));
}

#[test]
fn usage_errors_exit_with_2_and_name_the_remedy() {
    let url = "http://127.0.0.1:9/";
    for (args, expected) in [
        (vec!["load"], "--url"),
        (vec!["load", "--url", url, "--requests", "0"], "requests is 0, but must be 1 to 100000000"),
        (vec!["load", "--url", url, "--duration", "25h"], "duration is 90000s, but must be 1ms to 86400s"),
        (vec!["load", "--url", url, "--rate", "0"], "rate is 0, but must be above 0"),
        (vec!["load", "--url", url, "--expect-status", "2x"], "isn't a list of statuses"),
        (vec!["load", "--url", url, "--body-file", "/nowhere"], "could not read --body-file /nowhere"),
        (vec!["load", "--url", url, "--body", "a", "--body-file", "b"], "cannot be used with"),
        (vec!["load", "--url", "https://127.0.0.1/"], "the scheme isn't http"),
        (vec!["load", "--url", url, "--hold"], "--stream"),
        (
            vec!["load", "--url", url, "--stream", "--chat-bytes", "9"],
            "--chat-bytes is 9, but must be more than",
        ),
        (
            vec!["load", "--url", url, "--stream", "--reference", "/nowhere"],
            "could not read --reference /nowhere",
        ),
    ] {
        let (code, message) = error_of(&args);
        assert_eq!(code, Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}

#[test]
fn a_missing_server_exits_with_1() {
    let addr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, message) = error_of(&["load", "--url", &format!("http://{addr}/"), "--requests", "5"]);
    assert_eq!(code, Some(1));
    assert!(message.contains("start the server first"), "{message}");
}

/// A null server in a process of its own, which ends with the test.
struct NullProcess {
    child: Child,
    url: String,
}

impl NullProcess {
    fn start(args: &[&str]) -> NullProcess {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
        let mut child = command.arg("null").args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        NullProcess { child, url: url.trim().to_owned() }
    }
}

impl Drop for NullProcess {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn the_delay_memory_and_cpu_time_of_the_null_server_are_reported() {
    let null = NullProcess::start(&["--latency", "2ms", "--body", r#"{"null":1}"#]);
    let pid = null.child.id().to_string();
    let output = bench(&[
        "load",
        "--url",
        &null.url,
        "--requests",
        "4000",
        "--body",
        "{}",
        "--expect-body",
        r#"{"null":1}"#,
        "--pid",
        &pid,
        "--pid-tree",
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    let number = |name: &str| report[name].as_f64().unwrap();
    assert!(number("latency_ms_p50") >= 2.0, "{report}");
    assert_eq!(report["server_processes"][0]["pid"].to_string(), pid);
    assert_eq!(report["server_processes"][0]["name"], "weir-bench");
    assert!(number("server_rss_bytes_min") > 500_000.0, "{report}");
    assert!(number("server_rss_bytes_min") <= number("server_rss_bytes_mean"), "{report}");
    assert!(number("server_rss_bytes_mean") <= number("server_rss_bytes_max"), "{report}");
    assert!(number("server_cpu_s") > 0.0 && number("server_cores_mean") < 4.0, "{report}");
    let per_cpu_s = number("requests_ok") / number("server_cpu_s");
    assert!((number("server_requests_per_cpu_s") / per_cpu_s - 1.0).abs() < 1e-9, "{report}");
}

#[test]
fn one_command_measures_the_ceiling() {
    let output = bench(&["ceiling", "--duration", "200ms", "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert!(report["requests_per_s"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["generator_cpu_s"].as_f64().unwrap() > 0.0, "{report}");
}
