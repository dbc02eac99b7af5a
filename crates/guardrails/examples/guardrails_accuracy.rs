//! Measures guardrails on labelled sets: `cargo run --release -p weir-guardrails --example guardrails_accuracy FOLDER`.
//!
//! The folder has `pii/presidio_synth_v2.jsonl` and `guardrails/*.jsonl`; `docs/benchmarks/guardrails.md` says where they come from. Prints
//! the tables of that page, and exits with 1 if a line is missed.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measurement prints its result")]

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use weir_guardrails::{Action, Detect, Finding, Origin, Rule, RuleSet};

/// A kind: its rule, the label of the set, the least F1.
const KINDS: [(&str, Detect, &str, f64); 6] = [
    ("email", Detect::Email, "EMAIL_ADDRESS", 0.95),
    ("card", Detect::PaymentCard, "CREDIT_CARD", 0.95),
    ("iban", Detect::Iban, "IBAN_CODE", 0.95),
    ("ip", Detect::IpAddress, "IP_ADDRESS", 0.95),
    ("ssn", Detect::UsSsn, "US_SSN", 0.95),
    ("phone", Detect::Phone, "PHONE_NUMBER", 0.85),
];

/// What a list of keywords would look for, whatever the case: the phrases of the attacks that everybody knows.
const KEYWORDS: [&str; 24] = [
    "ignore previous",
    "ignore all previous",
    "ignore the previous",
    "ignore all instructions",
    "ignore the above",
    "ignore your instructions",
    "disregard previous",
    "disregard all previous",
    "disregard the above",
    "forget previous",
    "forget all previous",
    "forget everything",
    "forget your instructions",
    "override your instructions",
    "system prompt",
    "your instructions",
    "you are now",
    "from now on you",
    "pretend to be",
    "do anything now",
    "developer mode",
    "jailbreak",
    "ignoriere alle",
    "vergiss alle",
];

/// Most false blocks.
const FALSE_BLOCKS_MAX: f64 = 0.02;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: guardrails_accuracy FOLDER");
        return ExitCode::from(2);
    };
    match measure(Path::new(&folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("guardrails_accuracy: {problem}");
            ExitCode::from(2)
        }
    }
}

fn measure(folder: &Path) -> Result<bool, String> {
    let rows = read(&folder.join("pii/presidio_synth_v2.jsonl"))?;
    let personal = measure_personal_data(&rows)?;
    println!();
    let disguised = measure_disguises(&rows)?;
    println!();
    Ok(measure_injection(folder)? && personal && disguised)
}

fn read(path: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display())))
        .collect()
}

fn rule(name: &str, detect: Detect) -> Rule {
    Rule { name: name.to_owned(), detect, action: Action::Redact }
}

fn compile(rules: &[Rule]) -> Result<RuleSet, String> {
    RuleSet::compile(rules).map_err(|error| error.to_string())
}

fn scan(rules: &RuleSet, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    rules.scan(text, &mut findings);
    findings
}

/// Spans found, missed and wrong.
#[derive(Default, Clone, Copy)]
struct Counts {
    hits: usize,
    found: usize,
    labelled: usize,
}

impl Counts {
    fn precision(self) -> f64 {
        self.hits as f64 / self.found.max(1) as f64
    }

    fn recall(self) -> f64 {
        self.hits as f64 / self.labelled.max(1) as f64
    }

    fn f1(self) -> f64 {
        2.0 * self.hits as f64 / (self.found + self.labelled).max(1) as f64
    }
}

/// All kinds of personal data and secrets.
fn personal_rules() -> Result<RuleSet, String> {
    let mut rules: Vec<Rule> = KINDS.iter().map(|(name, detect, ..)| rule(name, detect.clone())).collect();
    rules.push(rule("credentials", Detect::UrlWithCredentials));
    rules.push(rule("key", Detect::ApiKey));
    compile(&rules)
}

fn measure_personal_data(rows: &[Value]) -> Result<bool, String> {
    let rules = personal_rules()?;
    let mut exact = vec![Counts::default(); rules.rules().len()];
    let mut overlap = exact.clone();
    for row in rows {
        let text = row["text"].as_str().ok_or("a row has no text")?;
        let labelled = labelled_spans(row, text)?;
        let found = scan(&rules, text);
        for (rule, (exact, overlap)) in exact.iter_mut().zip(&mut overlap).enumerate() {
            let found: Vec<&Finding> = found.iter().filter(|finding| finding.rule == rule).collect();
            let labelled: Vec<_> = labelled.iter().filter(|(kind, ..)| *kind == rule).collect();
            let is_equal =
                |f: &Finding| labelled.iter().any(|(_, start, end)| (f.start, f.end) == (*start, *end));
            let meets = |f: &Finding| labelled.iter().any(|(_, start, end)| f.start < *end && *start < f.end);
            for (counts, hits) in [
                (exact, found.iter().filter(|f| is_equal(f)).count()),
                (overlap, found.iter().filter(|f| meets(f)).count().min(labelled.len())),
            ] {
                counts.hits += hits;
                counts.found += found.len();
                counts.labelled += labelled.len();
            }
            if std::env::args().any(|argument| argument == "--errors") {
                print_errors(text, rule, &found, &labelled);
            }
        }
    }
    println!("| kind | spans | found | precision | recall | F1, exact span | F1, overlap | line |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut is_met = true;
    for (index, (name, _, _, line)) in KINDS.iter().enumerate() {
        let (exact, overlap) = (exact[index], overlap[index]);
        is_met &= exact.f1() >= *line;
        println!(
            "| {name} | {} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {line} |",
            exact.labelled,
            exact.found,
            exact.precision(),
            exact.recall(),
            exact.f1(),
            overlap.f1()
        );
    }
    let wrong: usize = exact[KINDS.len()..].iter().map(|counts| counts.found).sum();
    println!("\nFindings of other kinds (URLs with credentials, keys), of which the set has none: {wrong}");
    Ok(is_met)
}

/// What stands for a character in a disguised text.
type Disguise = fn(char) -> [Option<char>; 2];

/// How a text is disguised.
const DISGUISES: [(&str, Disguise); 4] = [
    ("zero-width spaces between all characters", |character| [Some(character), Some('\u{200B}')]),
    ("full-width characters", |character| match character {
        '!'..='~' => [char::from_u32(u32::from(character) - 0x21 + 0xFF01), None],
        other => [Some(other), None],
    }),
    ("no-break spaces and en dashes", |character| match character {
        ' ' => [Some('\u{A0}'), None],
        '-' => [Some('\u{2013}'), None],
        other => [Some(other), None],
    }),
    ("variation selectors after digits", |character| match character {
        '0'..='9' => [Some(character), Some('\u{FE0F}')],
        other => [Some(other), None],
    }),
];

/// Disguises each finding in turn, then each text without findings.
fn measure_disguises(rows: &[Value]) -> Result<bool, String> {
    let rules = personal_rules()?;
    let texts = || rows.iter().filter_map(|row| row["text"].as_str());
    println!("| disguise | findings | found, whole | texts without findings | with findings |");
    println!("|---|---|---|---|---|");
    let mut is_met = true;
    for (name, disguise) in DISGUISES {
        let disguised = |text: &str| text.chars().flat_map(disguise).flatten().collect::<String>();
        let (mut of, mut found, mut clean, mut wrong) = (0, 0, 0, 0);
        for text in texts() {
            let findings = scan(&rules, text);
            if findings.is_empty() {
                clean += 1;
                wrong += usize::from(!scan(&rules, &disguised(text)).is_empty());
            }
            for finding in findings {
                let value = disguised(&text[finding.start..finding.end]);
                let whole = format!("{}{value}{}", &text[..finding.start], &text[finding.end..]);
                let end = finding.start + value.trim_end_matches(['\u{200B}', '\u{FE0F}']).len();
                let covers = |other: &Finding| other.start <= finding.start && other.end >= end;
                of += 1;
                found += usize::from(scan(&rules, &whole).iter().any(covers));
            }
        }
        println!("| {name} | {of} | {found} | {clean} | {wrong} |");
        is_met &= found == of && wrong == 0;
    }
    Ok(is_met)
}

/// Kinds and byte spans of a row, whose offsets are code points.
fn labelled_spans(row: &Value, text: &str) -> Result<Vec<(usize, usize, usize)>, String> {
    let offsets: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let number = |span: &Value, key: &str| -> Result<usize, String> {
        let code_point = span[key].as_u64().ok_or("a span has no offsets")? as usize;
        offsets.get(code_point).copied().ok_or_else(|| "a span is outside of its text".to_owned())
    };
    let spans = row["spans"].as_array().ok_or("a row has no spans")?;
    let kind = |span: &Value| KINDS.iter().position(|(_, _, label, _)| span["type"] == *label);
    spans
        .iter()
        .filter_map(|span| kind(span).map(|kind| Ok((kind, number(span, "start")?, number(span, "end")?))))
        .collect()
}

fn print_errors(text: &str, rule: usize, found: &[&Finding], labelled: &[&(usize, usize, usize)]) {
    let Some((name, ..)) = KINDS.get(rule) else { return };
    let spans: Vec<(usize, usize)> = labelled.iter().map(|(_, start, end)| (*start, *end)).collect();
    for finding in found.iter().filter(|f| !spans.contains(&(f.start, f.end))) {
        println!("{name}: wrong {:?} in {text:?}", &text[finding.start..finding.end]);
    }
    for (start, end) in spans.iter().filter(|span| !found.iter().any(|f| (f.start, f.end) == **span)) {
        println!("{name}: missed {:?} in {text:?}", &text[*start..*end]);
    }
}

/// A set of texts of which some are injections: its name, its file, whom its texts are from, and the half of its rows.
struct Set {
    name: &'static str,
    file: &'static str,
    origin: Origin,
    half: Option<usize>,
}

const SETS: [Set; 5] = [
    Set { name: "PIGuard, even rows", file: "piguard_valid", origin: Origin::User, half: Some(0) },
    Set { name: "PIGuard, odd rows, held out", file: "piguard_valid", origin: Origin::User, half: Some(1) },
    Set { name: "BIPIA, even rows", file: "bipia_text_attacks", origin: Origin::Document, half: Some(0) },
    Set {
        name: "BIPIA, odd rows, held out",
        file: "bipia_text_attacks",
        origin: Origin::Document,
        half: Some(1),
    },
    Set {
        name: "deepset, not seen",
        file: "deepset_prompt_injections_train",
        origin: Origin::User,
        half: None,
    },
];

fn measure_injection(folder: &Path) -> Result<bool, String> {
    println!(
        "| set | injections | benign | recall, keywords | false blocks, keywords | recall, as user | false blocks, as user | recall, as document | false blocks, as document |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let user = compile(&[rule("injection", Detect::Injection(Origin::User))])?;
    let document = compile(&[rule("injection", Detect::Injection(Origin::Document))])?;
    let by_keywords = |text: &str| {
        let text = text.to_lowercase();
        KEYWORDS.iter().any(|keyword| text.contains(keyword))
    };
    let mut is_met = true;
    let mut totals = [[Share::default(); 2]; 2];
    for set in &SETS {
        let rows = read(&folder.join(format!("guardrails/{}.jsonl", set.file)))?;
        let rows: Vec<&Value> = rows
            .iter()
            .enumerate()
            .filter(|(index, _)| set.half.is_none_or(|half| index % 2 == half))
            .map(|(_, row)| row)
            .collect();
        let by_rules = |rules: &RuleSet, text: &str| !scan(rules, text).is_empty();
        let keywords = shares(&rows, by_keywords);
        let as_user = shares(&rows, |text| by_rules(&user, text));
        let as_document = shares(&rows, |text| by_rules(&document, text));
        let ours = if set.origin == Origin::User { as_user } else { as_document };
        for (total, shares) in totals.iter_mut().zip([keywords, ours]) {
            total[0].add(shares[0]);
            total[1].add(shares[1]);
        }
        if std::env::args().any(|argument| argument == "--errors") && set.half == Some(0) {
            let rules = if set.origin == Origin::User { &user } else { &document };
            for row in &rows {
                let text = row["text"].as_str().unwrap_or("");
                if by_rules(rules, text) != is_injection(row) {
                    println!("{}: {} {text:?}", set.name, if is_injection(row) { "missed" } else { "wrong" });
                }
            }
        }
        println!(
            "| {} | {} | {} | {keywords} | {as_user} | {as_document} |",
            set.name,
            ours[0].of,
            ours[1].of,
            keywords = render(keywords),
            as_user = render(as_user),
            as_document = render(as_document)
        );
    }
    let [keywords, ours] = totals;
    println!(
        "\nAll, each set by its origin: recall {:.3} (keywords {:.3}), false blocks {:.3} (keywords {:.3})",
        ours[0].value(),
        keywords[0].value(),
        ours[1].value(),
        keywords[1].value()
    );
    is_met &= ours[0].value() > keywords[0].value() && ours[1].value() <= FALSE_BLOCKS_MAX;
    Ok(is_met)
}

/// How many of how many.
#[derive(Default, Clone, Copy)]
struct Share {
    count: usize,
    of: usize,
}

impl Share {
    fn value(self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }

    fn add(&mut self, other: Share) {
        self.count += other.count;
        self.of += other.of;
    }
}

fn is_injection(row: &Value) -> bool {
    // Files of attacks alone have no number.
    row["label"].as_i64() != Some(0)
}

/// Blocked injections and blocked benign texts.
fn shares(rows: &[&Value], is_blocked: impl Fn(&str) -> bool) -> [Share; 2] {
    let mut shares = [Share::default(); 2];
    for row in rows {
        let share = &mut shares[usize::from(!is_injection(row))];
        share.of += 1;
        share.count += usize::from(row["text"].as_str().is_some_and(&is_blocked));
    }
    shares
}

fn render([recall, false_blocks]: [Share; 2]) -> String {
    let benign = if false_blocks.of == 0 { "-".to_owned() } else { format!("{:.3}", false_blocks.value()) };
    format!("{:.3} | {benign}", recall.value())
}
