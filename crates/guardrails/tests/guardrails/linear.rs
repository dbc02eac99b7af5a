//! Time grows with the length of a text, whatever the text is made of.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_guardrails::{Action, Detect, Placeholders, RuleSet, Window, redact};

use crate::{compile, default_rules, rule, scan};

/// A longer text may take this many times the time of a shorter one for each byte. Quadratic time would give [`GROWTH`].
const RATIO_MAX: f64 = 4.0;
/// How many times as long the longer text is.
const GROWTH: usize = 16;
const SHORT_BYTES: usize = 2 << 10;

/// Units of which texts are made that detectors read for long, or again and again.
const UNITS: [&str; 44] = [
    "1",
    "12345678 ",
    "1 ",
    "1\n",
    "1234\n",
    "4111 1111 ",
    "1.",
    "1.1.1.1.",
    "1-",
    "(1) ",
    "+1 ",
    "@",
    "a@",
    "a@b",
    "a@b.co ",
    ".",
    "a.",
    ":",
    "a:",
    "::1 ",
    "://",
    "a://b:",
    "-",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n",
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9.eyJ",
    "sk-",
    "sk-aB3dE5gH7jK9mN1pQ3sT5vW7y ",
    "![",
    "![a](http://b?",
    "<|im_start|>",
    "ignore all ",
    "project ",
    "\u{200b}",
    "1\u{200b}",
    "１",
    "a\u{301}",
    "\u{e0041}",
    "\u{a0}",
    "é",
    "\n",
    "ab",
];

fn rules() -> RuleSet {
    let mut rules = default_rules();
    rules.push(rule("words", Detect::Words(vec!["project x".to_owned()]), Action::Redact));
    rules.push(rule("ticket", Detect::Pattern(r"\bTK-[0-9]{4,6}\b".to_owned()), Action::Redact));
    // Matches that overlap each other all along a text.
    rules.push(rule("odd", Detect::Pattern("ab".to_owned()), Action::Flag));
    rules.push(rule("even", Detect::Pattern("bab".to_owned()), Action::Flag));
    compile(&rules)
}

/// The shortest of several runs.
fn fastest(mut work: impl FnMut()) -> Duration {
    let run = |_| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    (0..2).map(run).min().unwrap_or_default()
}

#[track_caller]
fn check_growth(unit: &str, work: impl Fn(&str)) {
    // As many bytes in both measurements, so that other work on the machine disturbs both.
    let time = |bytes: usize, repeats: usize| {
        let text = unit.repeat(bytes / unit.len());
        fastest(|| (0..repeats).for_each(|_| work(&text))).as_secs_f64()
    };
    let mut ratios = Vec::new();
    while ratios.len() < 5 {
        let ratio = time(SHORT_BYTES * GROWTH, 1) / time(SHORT_BYTES, GROWTH);
        if ratio <= RATIO_MAX {
            return;
        }
        ratios.push(ratio);
    }
    panic!("{unit:?} takes {ratios:?} times as much for a byte of a longer text");
}

#[test]
fn a_scan_takes_time_that_is_linear_in_the_text() {
    let rules = rules();
    for unit in UNITS {
        check_growth(unit, |text| {
            let findings = scan(&rules, text);
            redact(text, &findings, &rules, &mut Placeholders::new());
        });
    }
}

#[test]
fn a_stream_takes_time_that_is_linear_in_its_length() {
    let rules = Arc::new(rules());
    for unit in UNITS {
        check_growth(unit, |text| {
            let mut window = Window::new(Arc::clone(&rules), Placeholders::new(), 1024);
            let mut out = String::new();
            let mut rest = text;
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.ceil_char_boundary(rest.len().min(61)));
                window.push(piece, &mut out);
                assert!(window.held_bytes() <= 4 * 1024, "the window is bounded");
                rest = after;
            }
            window.finish(&mut out);
        });
    }
}
