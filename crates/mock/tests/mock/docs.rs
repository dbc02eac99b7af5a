//! The page of the mock names every option.

use std::path::Path;

use weir_mock::{options, published_headers};

#[test]
fn every_option_and_header_is_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mock.md");
    let page = std::fs::read_to_string(page).unwrap().to_lowercase();
    let rows = options().map(|option| format!("| `{}` |", option.name));
    let headers = published_headers().map(|(header, option)| format!("| `{header}` | `{option}`"));
    let missing: Vec<String> = rows.chain(headers).filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "docs/mock.md lacks {missing:?}");
}
