//! Attacks of a reader on its process and on the gateway. This program is its own child: a file names the attack that the child runs.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a program of tests")]

mod attacks;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use weir_documents::{Extracted, Failure, Limits};
use weir_isolation::{COMMAND, ExtractError, Isolation, Sandbox, run_child};

/// A test: its name and what it runs.
type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("a_file_is_read_with_its_pages", a_file_is_read_with_its_pages),
    (
        "pages_that_end_the_child_are_lost_and_the_others_read",
        pages_that_end_the_child_are_lost_and_the_others_read,
    ),
    ("each_attack_fails_alone_with_its_reason", each_attack_fails_alone_with_its_reason),
    ("no_call_leaves_the_child", no_call_leaves_the_child),
    ("a_text_of_20_mb_passes", a_text_of_20_mb_passes),
    ("the_reader_refuses_what_it_does_not_know", the_reader_refuses_what_it_does_not_know),
    ("nothing_is_left_behind", nothing_is_left_behind),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|argument| argument == COMMAND) {
        return run_child(attacks::run);
    }
    // the arguments of the standard test harness that are used here: names of tests
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    for (name, test) in TESTS {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())) {
            let start = Instant::now();
            test();
            println!("test {name} ... ok ({:.1} s)", start.elapsed().as_secs_f64());
        }
    }
    ExitCode::SUCCESS
}

/// Limits that end an attack soon.
fn isolation() -> Isolation {
    Isolation {
        wall: Duration::from_secs(4),
        cpu_seconds: 1,
        memory_bytes: 512 << 20,
        text_bytes_max: 64 << 20,
        ..Isolation::default()
    }
}

fn extract(file: &str) -> Result<Extracted, ExtractError> {
    isolation().extract(file, &mut file.as_bytes())
}

fn pages_that_end_the_child_are_lost_and_the_others_read() {
    let read = extract("bad-pages").unwrap();
    assert_eq!(read.text, "page 1 page 2 page 4 page 6 ");
    let lost: Vec<(&str, &str)> =
        read.lost.iter().map(|lost| (lost.part.as_str(), lost.code.as_str())).collect();
    assert_eq!(lost, [("3", "extraction_timeout"), ("5", "extraction_crashed")]);
    assert_eq!((read.warnings[0].code.as_str(), read.warnings[0].count), ("broken_page", 2));
}

/// Runs an attack while another file is read. Returns the name of its end.
fn attack(name: &str) -> String {
    let name = name.to_owned();
    let attacker = std::thread::spawn(move || extract(&name));
    let neighbour = extract("read").expect("another file is read");
    assert_eq!(neighbour.text, "read");
    match attacker.join().unwrap() {
        Ok(extracted) => extracted.text,
        Err(error) => {
            println!("  {error}");
            error.code().to_owned()
        }
    }
}

fn a_file_is_read_with_its_pages() {
    let extracted = extract("pages").unwrap();
    assert_eq!(extracted, attacks::with_pages());
    let protections = isolation().probe().unwrap();
    assert_eq!(protections.seccomp, Ok(()));
    println!("  {protections}");
}

fn each_attack_fails_alone_with_its_reason() {
    for (name, expected) in [
        ("loop", "extraction_timeout"),
        ("sleep", "extraction_timeout"),
        ("abort", "extraction_crashed"),
        ("panic", "extraction_crashed"),
        ("stack", "extraction_crashed"),
        ("allocate-50-gb", "extraction_memory"),
        ("allocate-in-steps", "extraction_memory"),
        ("text-without-end", "extraction_crashed"),
        ("errors-without-end", "extraction_crashed"),
        ("huge-frame", "extraction_crashed"),
        ("cut-frame", "extraction_crashed"),
        ("silent-exit", "extraction_crashed"),
        ("failure", "encrypted"),
    ] {
        let start = Instant::now();
        assert_eq!(attack(name), expected, "{name}");
        assert!(start.elapsed() < Duration::from_secs(6), "{name} took {:?}", start.elapsed());
    }
}

fn no_call_leaves_the_child() {
    for name in attacks::CALLS {
        assert_eq!(attack(name), "Operation not permitted (os error 1)", "{name}");
    }
    assert_eq!(attack("environment"), "0", "the child has no environment");
}

fn a_text_of_20_mb_passes() {
    assert_eq!(extract("long").unwrap().text.len(), 20 << 20);
    let short = Isolation { text_bytes_max: 1 << 20, ..isolation() };
    let refused = short.extract("long", &mut b"long".as_slice()).unwrap_err();
    assert_eq!(refused.code(), "extraction_crashed", "the parent does not trust the child's limit");
}

fn the_reader_refuses_what_it_does_not_know() {
    let read = |name: &str, bytes: &[u8]| {
        weir_isolation::read(bytes, name, &Limits::default()).map(|extracted| extracted.text)
    };
    assert_eq!(read("a.md", b"\xef\xbb\xbf# A\n"), Ok("# A\n".to_owned()));
    assert_eq!(read("a.html", b"<p>one<p>two").unwrap().trim(), "one\n\ntwo");
    for (name, bytes) in [("a.exe", b"MZ\0\x01".as_slice()), ("photo", b"\xff\xd8\xff")] {
        assert!(matches!(read(name, bytes), Err(Failure::UnsupportedFormat(_))), "{name}");
    }
    assert!(matches!(read("a.txt", b" \n"), Err(Failure::NoText(_))));
}

/// After many files, read and failed, this process has no more descriptors and no child.
fn nothing_is_left_behind() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let _ = extract("read");
    let before = descriptors();
    let lenient = Isolation { sandbox: Sandbox::BestEffort, ..isolation() };
    for name in ["read", "abort", "huge-frame", "cut-frame"].iter().cycle().take(100) {
        let _ = lenient.extract(name, &mut name.as_bytes());
    }
    assert_eq!(descriptors(), before);
    let children = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    assert_eq!(children.unwrap_or_default(), "");
}
