//! The measurements of files and lines in `bench/`, at a tiny size, so that they do not rot.

use std::net::TcpListener;
use std::process::Command;

use super::in_repository;

/// Runs a script of `bench/` over this binary, and returns what it prints.
fn run(script: &str, sizes: &[(&str, &str)]) -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(in_repository(".venv/bin/python"));
    command.arg("-B").arg(in_repository("bench").join(script)).env_clear();
    command.env("HOME", home.path()).env("PORT", port.to_string()).envs(sizes.iter().copied());
    command.env("BINARY", env!("CARGO_BIN_EXE_weir")).env("MODEL", "pseudo");
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {printed}");
    printed.into_owned()
}

#[test]
fn files_that_are_sent_again_are_measured() {
    // the share of the time is that of starting the command
    let printed = run("known_files.py", &[("FILES", "30"), ("SHARE_MAX", "10")]);
    assert!(printed.contains("30 unchanged, 0 chunks"), "{printed}");
    let printed = run("known_files.py", &[("FILES", "10"), ("SHARE_MAX", "10"), ("KIND", "pdf")]);
    assert!(printed.contains("10 unchanged, 0 chunks"), "{printed}");
}

#[test]
fn damaged_files_are_measured() {
    let printed = run("damaged_files.py", &[("COPIES", "200")]);
    assert!(printed.contains("0 processes left"), "{printed}");
}

#[test]
fn a_stream_of_lines_is_measured() {
    let printed = run("lines.py", &[("LINES", "3000")]);
    assert!(printed.contains("3000 lines: on disk"), "{printed}");
}
