//! Measures what guardrails cost: `cargo run --release -p weir-guardrails --example bench_guardrails`.
//!
//! All kinds that are built in are on, on one thread. A prompt is 1 KB of English; with hits, it has one of each of eight kinds in 1 KB. A
//! stream is pushed in pieces of four or five bytes, about a token each. Figures are medians of runs, with the fastest run beside.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::expect_used, reason = "the rules are constant")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use weir_guardrails::{Action, Detect, Origin, Placeholders, Rule, RuleSet, Window, redact};

/// Runs of each measurement.
const RUNS: usize = 101;
/// Scans in one run.
const REPEATS: usize = 200;

const CLEAN: &str = "Please summarise the following notes for the team and keep the tone friendly. The meeting began with a review \
of the last quarter: revenue grew by nine per cent, mostly because of the new product line, while costs stayed flat. Customers said \
that they like the shorter delivery times, but several of them asked for better documentation and for a way to export their data. \
We agreed to write a guide with examples, to add an export in the spring release, and to talk to five of the larger customers about \
what they need most. Maria will prepare a list of questions; Tom is going to look at how other companies present their interfaces. \
There was a longer discussion about hiring. Two engineers are leaving in the summer, and the search for people with experience in \
distributed systems takes time, so we want to start early and to offer remote work. The next meeting is on Thursday in the small \
room on the second floor. Bring ideas for the workshop, which should be practical, short and useful for people who have never \
used the tool before. Thank you for your work!";

const HITS: &str = " Ada's address is ada.lovelace@example.com, her card 4111 1111 1111 1111, the account DE89 3704 0044 0532 0130 00. \
She logs in from 192.168.17.4 with postgres://ada:engine@db.example.com/notes, her number is +44 7700 900123, SSN 123-45-6789, and the \
key sk-proj-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9b was in the notes.";

fn rules(has_injection: bool) -> RuleSet {
    let redacted = [
        ("email", Detect::Email),
        ("card", Detect::PaymentCard),
        ("iban", Detect::Iban),
        ("ip", Detect::IpAddress),
        ("credentials", Detect::UrlWithCredentials),
        ("ssn", Detect::UsSsn),
        ("phone", Detect::Phone),
        ("key", Detect::ApiKey),
    ];
    let mut rules: Vec<Rule> =
        redacted.map(|(name, detect)| Rule { name: name.to_owned(), detect, action: Action::Redact }).into();
    if has_injection {
        let detect = Detect::Injection(Origin::User);
        rules.push(Rule { name: "injection".to_owned(), detect, action: Action::Block });
    }
    RuleSet::compile(&rules).expect("the rules are valid")
}

/// Median and minimum over runs of the microseconds that `work` takes.
fn measure(mut work: impl FnMut()) -> (f64, f64) {
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            (0..REPEATS).for_each(|_| work());
            started.elapsed().as_secs_f64() * 1e6 / REPEATS as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    (runs[RUNS / 2], runs[0])
}

fn print(name: &str, unit: &str, per: f64, (median, best): (f64, f64), line: &str) {
    println!("| {name} | {:.2} | {:.2} | {line} | µs per {unit} |", median / per, best / per);
}

fn main() {
    let rules = Arc::new(rules(true));
    let personal = self::rules(false);
    let clean = CLEAN.to_owned();
    let hits = format!("{}{HITS}", CLEAN.split_at(1024 - HITS.len()).0);
    let german = "Die Besprechung begann mit einem Rückblick auf das letzte Quartal: Der Umsatz wuchs um neun Prozent, während die Kosten gleich \
        blieben. Für die nächste Woche müssen größere Änderungen geprüft werden. ".repeat(5);
    println!("| what | median | fastest | line | unit |\n|---|---|---|---|---|");
    let mut findings = Vec::new();
    for (name, text, line) in [
        ("scan, clean prompt", &clean, "4"),
        ("scan, clean, German", &german, ""),
        ("scan, with hits", &hits, "6"),
    ] {
        let kilobytes = text.len() as f64 / 1024.0;
        let time = measure(|| {
            findings.clear();
            rules.scan(black_box(text), &mut findings);
        });
        print(&format!("{name} ({} findings)", findings.len()), "KB", kilobytes, time, line);
    }
    let time = measure(|| personal.scan(black_box(&clean), &mut findings));
    print("scan without injection, clean prompt", "KB", clean.len() as f64 / 1024.0, time, "4");
    let kilobytes = hits.len() as f64 / 1024.0;
    let time = measure(|| {
        findings.clear();
        rules.scan(black_box(&hits), &mut findings);
        black_box(redact(&hits, &findings, &rules, &mut Placeholders::new()));
    });
    print("scan and redact, with hits", "KB", kilobytes, time, "6");
    for (name, text) in [("window, clean answer", &clean), ("window, with hits", &hits)] {
        let pieces: Vec<&str> = pieces(text);
        let mut out = String::with_capacity(2 * text.len());
        let time = measure(|| {
            out.clear();
            let mut window = Window::new(Arc::clone(&rules), Placeholders::new(), 1024);
            for piece in &pieces {
                black_box(window.push(piece, &mut out));
            }
            window.finish(&mut out);
        });
        print(name, "token", pieces.len() as f64, time, "2");
    }
}

/// Pieces of four and five bytes in turn.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.ceil_char_boundary((4 + pieces.len() % 2).min(text.len())));
        pieces.push(piece);
        text = rest;
    }
    pieces
}
