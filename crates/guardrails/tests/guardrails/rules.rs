//! Compiling rules, and overlapping findings.

use weir_guardrails::{Action, Detect, Rule, RuleError, RuleSet};

use crate::{check, compile, default_rules, rule, scan};

fn pattern(name: &str, expression: &str, action: Action) -> Rule {
    rule(name, Detect::Pattern(expression.to_owned()), action)
}

fn error(rules: &[Rule]) -> RuleError {
    RuleSet::compile(rules).expect_err("the rules are refused")
}

#[test]
fn patterns_are_matched_as_by_a_regex_engine_with_ascii_boundaries() {
    let rules = compile(&[pattern("ticket", r"(?i)\bTK-[0-9]{4,6}\b", Action::Redact)]);
    check(&rules, "«tk-1234» «TK-123456»; TK-1234567 xTK-1234 TK-123");
    let rules = compile(&[pattern("line", "(?m)^secret: .*$", Action::Redact)]);
    check(&rules, "a\n«secret: b c»\nnot secret: d");
    let rules = compile(&[pattern("greek", r"\p{Greek}+", Action::Redact)]);
    check(&rules, "x «λόγος» y");
}

#[test]
#[allow(clippy::wildcard_enum_match_arm, reason = "every other error fails the test")]
fn a_pattern_that_would_explode_is_refused_with_advice() {
    for expression in
        [r"\w{200}x", "(a|b|ab)*c[ab]{30}[^c]{40}d|.*[ab].{25}e", "[0-9]{1,2000}(a{1,2000}){1,2000}"]
    {
        match error(&[pattern("big", expression, Action::Flag)]) {
            RuleError::TooLarge { rule, .. } => assert_eq!(rule, "big"),
            other => panic!("{expression}: {other}"),
        }
    }
}

#[test]
fn what_a_linear_search_cannot_do_is_refused_and_named() {
    for (expression, problem) in
        [(r"(a)\1", "backreferences"), ("(?=a)b", "look-around"), ("a(", "unclosed group")]
    {
        let message = error(&[pattern("odd", expression, Action::Flag)]).to_string();
        assert!(message.contains("`odd`") && message.contains(problem), "{message}");
    }
    let empty = RuleError::MatchesEmpty { rule: "any".to_owned() };
    assert_eq!(error(&[pattern("any", "a*", Action::Flag)]), empty);
}

#[test]
fn names_kinds_and_actions_that_make_no_sense_are_refused() {
    let email = |name: &str| rule(name, Detect::Email, Action::Flag);
    for name in ["", "e mail", "é", &"x".repeat(33)] {
        assert!(matches!(error(&[email(name)]), RuleError::Name { .. }), "{name}");
    }
    assert!(matches!(error(&[email("a"), email("a")]), RuleError::Name { .. }));
    assert!(matches!(error(&[email("a"), email("b")]), RuleError::Duplicate { .. }));
    assert!(matches!(error(&[rule("a", Detect::Email, Action::Allow)]), RuleError::Action { .. }));
    let length = Detect::Length { bytes_max: 1 };
    assert!(matches!(error(&[rule("a", length, Action::Redact)]), RuleError::Action { .. }));
    for words in [vec![], vec!["--".to_owned()], vec!["x".repeat(65)]] {
        assert!(matches!(error(&[rule("a", Detect::Words(words), Action::Flag)]), RuleError::Words { .. }));
    }
}

#[test]
fn allowed_values_are_no_findings() {
    let mut rules = default_rules();
    let words = vec!["Support@Example.com".to_owned(), "10.0.0.1".to_owned()];
    rules.push(rule("ours", Detect::Words(words), Action::Allow));
    rules.push(pattern("inside", r"(?i)[^@]+@weir\.example", Action::Allow));
    let rules = compile(&rules);
    check(
        &rules,
        "support@example.com «ada@example.com» 10.0.0.1 «10.0.0.2» x@WEIR.example «x@weir.example.org»",
    );
}

#[test]
fn the_strongest_action_names_a_finding_and_then_the_longest() {
    let rules = compile(&[
        pattern("flag", "[a-z]{12}", Action::Flag),
        pattern("short", "bcd", Action::Redact),
        pattern("long", "bcde", Action::Redact),
        pattern("block", "z", Action::Block),
    ]);
    let found = |text: &str| -> Vec<(usize, usize, usize)> {
        scan(&rules, text).iter().map(|finding| (finding.start, finding.end, finding.rule)).collect()
    };
    assert_eq!(found("aaaaaaaaaaaa"), [(0, 12, 0)]);
    assert_eq!(found("aaaabcdeaaaa"), [(4, 8, 2)]);
    assert_eq!(found("bcd bcde z"), [(0, 3, 1), (4, 8, 2), (9, 10, 3)]);
}

#[test]
fn findings_that_overlap_are_redacted_as_one_so_that_no_part_is_left() {
    let rules = compile(&[
        pattern("left", "abcd", Action::Redact),
        pattern("right", "cdefg", Action::Redact),
        pattern("block", "ghi", Action::Block),
    ]);
    check(&rules, "x «abcdefghi» y");
    assert_eq!(scan(&rules, "x abcdefg y")[0].rule, 1);
    assert_eq!(scan(&rules, "x abcdefghi y")[0].rule, 2);
}
