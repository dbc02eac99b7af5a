//! Guardrails as their callers use them.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "every target of this folder is a test")]

mod disguises;
mod injection;
mod kinds;
mod linear;
mod parts;
mod placeholders;
mod rules;
mod windows;

use weir_guardrails::{Action, Detect, Finding, Origin, Rule, RuleSet};

/// A rule with this name.
fn rule(name: &str, detect: Detect, action: Action) -> Rule {
    Rule { name: name.to_owned(), detect, action }
}

/// All kinds that are built in: personal data and secrets are redacted, the rest is flagged.
fn default_rules() -> Vec<Rule> {
    vec![
        rule("email", Detect::Email, Action::Redact),
        rule("card", Detect::PaymentCard, Action::Redact),
        rule("iban", Detect::Iban, Action::Redact),
        rule("ip", Detect::IpAddress, Action::Redact),
        rule("credentials", Detect::UrlWithCredentials, Action::Redact),
        rule("ssn", Detect::UsSsn, Action::Redact),
        rule("phone", Detect::Phone, Action::Redact),
        rule("key", Detect::ApiKey, Action::Redact),
        rule("injection", Detect::Injection(Origin::Document), Action::Flag),
    ]
}

fn compile(rules: &[Rule]) -> RuleSet {
    RuleSet::compile(rules).expect("the rules are valid")
}

fn scan(rules: &RuleSet, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    rules.scan(text, &mut findings);
    findings
}

/// The text with `«` and `»` around findings.
fn marked(rules: &RuleSet, text: &str) -> String {
    let mut marked = String::new();
    let mut copied = 0;
    for finding in scan(rules, text) {
        marked += &text[copied..finding.start];
        marked += "«";
        marked += &text[finding.start..finding.end];
        marked += "»";
        copied = finding.end;
    }
    marked + &text[copied..]
}

/// Compares findings with those that are marked in `expected`.
#[track_caller]
fn check(rules: &RuleSet, expected: &str) {
    let text = expected.replace(['«', '»'], "");
    assert_eq!(marked(rules, &text), expected);
}
