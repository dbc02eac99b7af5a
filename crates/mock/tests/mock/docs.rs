//! The page of the mock has every option and quirk.

use std::path::Path;

use weir_mock::{QUIRKS, options, published_headers};

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mock.md");
    std::fs::read_to_string(page).unwrap()
}

#[test]
fn every_option_and_header_is_documented() {
    let page = page().to_lowercase();
    let rows = options().map(|option| format!("| `{}` |", option.name));
    let headers = published_headers().map(|(header, option)| format!("| `{header}` | `{option}`"));
    let missing: Vec<String> = rows.chain(headers).filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "docs/mock.md lacks {missing:?}");
}

#[test]
fn the_table_of_quirks_is_that_of_the_code() {
    let rows = QUIRKS.map(|(_, name, of, effect)| format!("| `{name}` | {of} | {effect} |\n"));
    let table = format!("| quirk | of | effect |\n|---|---|---|\n{}\n", rows.concat());
    assert!(page().contains(&table), "the table of docs/mock.md must be\n{table}");
}
