//! The table of rules in the documentation of the crate against the tests.

use std::collections::BTreeSet;
use std::path::Path;

const RULES: &str = include_str!("../../src/lib.rs");
/// Where the tests are, from the folder of the crate.
const TESTS: [&str; 2] = ["tests/qdrant", "../index/src/qdrant/tests"];

/// The rules of the table, as tests name them.
fn rules() -> Vec<String> {
    let rows = RULES.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1);
    rows.map(|row| row.split(" | ").next().unwrap().replace(' ', "_")).collect()
}

fn tests() -> BTreeSet<String> {
    let files = TESTS.iter().flat_map(|folder| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        std::fs::read_dir(folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
    });
    let names = |source: String| -> Vec<String> {
        let functions = source.lines().filter_map(|line| line.strip_prefix("async fn row_"));
        functions.map(|line| line.split('(').next().unwrap().to_owned()).collect()
    };
    files.flat_map(names).collect()
}

#[test]
fn every_rule_has_a_test_that_names_it_and_every_such_test_a_rule() {
    let (rules, tests) = (rules(), tests());
    assert!(rules.len() == 19 && tests.len() > rules.len(), "{rules:?} {tests:?}");
    let is_of = |test: &str, rule: &str| test.strip_prefix(rule).is_some_and(|rest| rest.starts_with('_'));
    for rule in &rules {
        assert!(tests.iter().any(|test| is_of(test, rule)), "no test names the rule `{rule}`");
    }
    for test in &tests {
        assert!(rules.iter().any(|rule| is_of(test, rule)), "`{test}` names no rule");
    }
}
