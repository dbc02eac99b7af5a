//! Parts of a message, and numbers of JSON.

use weir_guardrails::{Action, CrossingFinding, PartSpan, Placeholders, redact_parts};

use crate::{check, compile, default_rules, rule, scan};
use weir_guardrails::Detect;

fn span(part: usize, start: usize, end: usize) -> PartSpan {
    PartSpan { part, start, end }
}

/// Redacts parts and compares them; equal values have equal placeholders in all texts.
#[track_caller]
fn check_parts(parts: &[&str], expected: &[&str]) {
    let rules = compile(&default_rules());
    let found = rules.scan_parts(parts);
    let mut placeholders = Placeholders::new();
    let redacted = redact_parts(parts, &found, &rules, &mut placeholders);
    assert_eq!(redacted, expected);
    assert_eq!(placeholders.restore(&redacted.concat()), parts.concat(), "it can be restored");
}

#[test]
fn a_finding_that_crosses_parts_is_redacted_in_all_of_them() {
    check_parts(&["card 4111 1111 ", "1111 1111, ok"], &["card [CARD_1]", ", ok"]);
    check_parts(&["ada@exam", "", "ple", ".com and"], &["[EMAIL_1]", "", "", " and"]);
    check_parts(&["ada@exa", "mple.com bob@exa", "mple.com"], &["[EMAIL_1]", " [EMAIL_2]", ""]);
    check_parts(&["4111\u{200b}1111", "１１１１", "1111"], &["[CARD_1]", "", ""]);
}

#[test]
fn findings_inside_of_parts_are_those_of_each_part() {
    check_parts(&["ada@example.com", " or 10.0.0.1", "x"], &["[EMAIL_1]", " or [IP_1]", "x"]);
    check_parts(&["ada@example.com", ".evil.org"], &["[EMAIL_1]", ".evil.org"]);
    check_parts(&["[EMAIL_1] ada@exa", "mple.com"], &["[EMAIL_1] [EMAIL_2]", ""]);
    check_parts(&[], &[]);
}

#[test]
fn crossing_findings_name_their_spans() {
    let rules = compile(&default_rules());
    let found = rules.scan_parts(&["a 4111 11", "11 1111 11", "11"]);
    let spans = vec![span(0, 2, 9), span(1, 0, 10), span(2, 0, 2)];
    assert_eq!(found.crossing, [CrossingFinding { rule: 1, spans }]);
    assert_eq!(found.rules().collect::<Vec<_>>(), [1]);
    assert!(found.inside.iter().all(Vec::is_empty) && !found.is_empty());
    assert!(rules.scan_parts(&["nothing", " here"]).is_empty());
}

#[test]
fn a_weaker_finding_inside_of_a_part_does_not_hide_a_stronger_one_that_crosses() {
    let mut rules = vec![rule("card", Detect::PaymentCard, Action::Block)];
    rules.push(rule("four", Detect::Pattern("4111 1111".to_owned()), Action::Flag));
    let rules = compile(&rules);
    let found = rules.scan_parts(&["4111 1111", " 1111 1111"]);
    assert_eq!(found.crossing.len(), 1);
    assert_eq!(found.inside, [vec![], vec![]], "what it covers is a part of it");
}

#[test]
fn numbers_of_json_are_checked_as_written_and_in_plain_notation() {
    let rules = compile(&default_rules());
    let found = |number: &str| {
        let mut findings = Vec::new();
        rules.scan_number(number, &mut findings);
        findings.iter().map(|finding| (finding.start, finding.end)).collect::<Vec<_>>()
    };
    for (number, expected) in [
        ("4111111111111111", vec![(0, 16)]),
        ("-4111111111111111", vec![(1, 17)]),
        ("4.111111111111111e15", vec![(0, 20)]),
        ("4111111111111111.0", vec![(0, 18)]),
        ("41111111111111110E-1", vec![(0, 20)]),
        ("0.004111111111111111e18", vec![(0, 23)]),
        ("4111111111111112", vec![]),
        ("4111111111111111.5", vec![]),
        ("3.14159", vec![]),
        ("0.5392234688708106", vec![]),
        ("-12.5392234688708106", vec![]),
        ("0.5392234688708106e3", vec![]),
        ("0.5392234688708106e16", vec![(0, 21)]),
        ("5392234688708106e-3", vec![]),
        ("1e400", vec![]),
        ("1e99999999999", vec![]),
        ("0", vec![]),
        ("0.0e5", vec![]),
        ("4.111111111111111e-5", vec![]),
        ("4111111111111111e-20", vec![(0, 20)]),
        ("4111111111111111e99999999999999999999", vec![(0, 37)]),
    ] {
        assert_eq!(found(number), expected, "{number}");
    }
    let zeros = "0".repeat(60);
    for number in [
        format!("4111111111111111.{zeros}"),
        format!("0.{zeros}4111111111111111e76"),
        format!("4111111111111111{zeros}{zeros}e-120"),
        format!("4111111111111111{zeros}.{zeros}"),
    ] {
        assert_eq!(found(&number), [(0, number.len())], "{number}");
    }
}

#[test]
fn a_value_that_is_allowed_is_so_as_it_is_shown() {
    let mut rules = default_rules();
    rules.push(rule("ours", Detect::Words(vec!["support@example.com".to_owned()]), Action::Allow));
    let rules = compile(&rules);
    check(
        &rules,
        "support@example.com ｓｕｐｐｏｒｔ＠ｅｘａｍｐｌｅ．ｃｏｍ support@example.com\u{200b} «ada@example.com»",
    );
    let hidden = "support@\u{e0061}\u{e0062}example.com";
    assert_eq!(scan(&rules, hidden).len(), 1, "a model may read the tag characters");
}
