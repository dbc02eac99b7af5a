//! The child's part: runs the attack that the file names.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit};
use weir_documents::{Extracted, Failure, Limits, Page};

/// Attacks that each make one system call, and report its error.
pub(crate) const CALLS: &[&str] = &[
    "fork",
    "exec",
    "thread",
    "open",
    "open-to-write",
    "list",
    "own-memory",
    "connect",
    "connect-unix",
    "listen",
    "signal",
    "memfd",
    "raise-limit",
];

pub(crate) fn run(bytes: &[u8], _: &str, limits: &Limits) -> Result<Extracted, Failure> {
    let attack = std::str::from_utf8(bytes).expect("the name of an attack");
    if CALLS.contains(&attack) {
        return text(call(attack));
    }
    match attack {
        "read" | "probe" => text(attack.to_owned()),
        "pages" => Ok(with_pages()),
        "bad-pages" => bad_pages(limits),
        "long" => text("x".repeat(20 << 20)),
        "failure" => Err(Failure::Encrypted),
        "environment" => text(std::env::vars_os().count().to_string()),
        _ => never_returns(attack),
    }
}

pub(crate) fn with_pages() -> Extracted {
    let page = |end| Page { end, label: None, approximate: false };
    Extracted {
        text: "one\n\ntwo".to_owned(),
        title: Some("Title".to_owned()),
        pages: vec![page(5), page(8)],
        ..Extracted::default()
    }
}

/// Six pages: the third is read without end, the fifth ends the process.
fn bad_pages(limits: &Limits) -> Result<Extracted, Failure> {
    let mut read = String::new();
    for page in (0..6.min(limits.pages)).filter(|page| !limits.skipped_pages.contains(page)) {
        limits.on_page.unwrap()(page);
        match page {
            2 => never_returns("loop"),
            4 => never_returns("abort"),
            page => read.push_str(&format!("page {} ", page + 1)),
        }
    }
    text(read)
}

fn text(text: String) -> Result<Extracted, Failure> {
    Ok(Extracted { text, ..Extracted::default() })
}

fn call(name: &str) -> String {
    fn report<T>(result: std::io::Result<T>) -> String {
        result.map_or_else(|error| error.to_string(), |_| "it worked".to_owned())
    }
    match name {
        "fork" => report(Command::new("/bin/true").env("A", "b").spawn()),
        "exec" => report(Err::<(), _>(Command::new("/bin/true").exec())),
        "thread" => report(std::thread::Builder::new().spawn(|| ())),
        "open" => report(File::open("/etc/passwd")),
        "open-to-write" => report(File::create("/tmp/escaped")),
        "list" => report(std::fs::read_dir("/")),
        "own-memory" => report(File::open("/proc/self/mem")),
        "connect" => report(TcpStream::connect("127.0.0.1:22")),
        "connect-unix" => report(UnixStream::connect("/run/any")),
        "listen" => report(std::net::TcpListener::bind("127.0.0.1:0")),
        "signal" => report(rustix::process::test_kill_process(Pid::INIT).map_err(Into::into)),
        "memfd" => report(
            rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::empty()).map_err(std::io::Error::from),
        ),
        "raise-limit" => {
            let all = Rlimit { current: None, maximum: None };
            report(rustix::process::setrlimit(Resource::Fsize, all).map_err(Into::into))
        }
        other => panic!("unknown call {other}"),
    }
}

fn never_returns(attack: &str) -> ! {
    match attack {
        "loop" => {
            let mut n = 0_u64;
            loop {
                n = black_box(n.wrapping_add(1));
            }
        }
        "sleep" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        "abort" => std::process::abort(),
        "panic" => panic!("malformed"),
        "stack" => {
            black_box(recurse(0));
            std::process::exit(0)
        }
        "allocate-50-gb" => {
            black_box(vec![1_u8; 50 << 30]);
            std::process::exit(0)
        }
        "allocate-in-steps" => {
            let mut all = Vec::new();
            loop {
                all.push(vec![1_u8; 1 << 20]);
                black_box(&all);
            }
        }
        "silent-exit" => std::process::exit(0),
        _ => writes(attack),
    }
}

fn recurse(n: u64) -> u64 {
    let frame = [n; 64];
    black_box(&frame);
    if n == u64::MAX { 0 } else { 1 + recurse(black_box(n + 1)) + frame[3] }
}

/// Attacks by output, past the lock of the standard output, which the child holds.
fn writes(attack: &str) -> ! {
    let write = |bytes: &[u8]| rustix::io::write(rustix::stdio::stdout(), bytes).is_ok();
    match attack {
        "text-without-end" => {
            let mut frame = b"T\0\x04\0\0".to_vec();
            frame.resize(5 + 1024, b'x');
            while write(&frame) {}
        }
        "errors-without-end" => while std::io::stderr().write_all(&[b'e'; 4096]).is_ok() {},
        "huge-frame" => {
            write(b"T\xff\xff\xff\xff");
            std::thread::sleep(Duration::from_secs(20));
        }
        "cut-frame" => drop(write(b"T\x10\0\0\0abc")),
        other => panic!("unknown attack {other}"),
    }
    std::process::exit(0)
}
