//! Pages as generators of documentation and blogs write them, against recorded titles and texts.
//!
//! The pages were written for this test. `UPDATE_FIXTURES=1` writes the texts anew.

use std::fs;
use std::path::{Path, PathBuf};

use weir_text::HtmlPage;

pub(crate) const PAGES: [&str; 6] = ["blog", "doxygen", "javadoc", "manual", "mkdocs", "sphinx"];

pub(crate) fn read_page(name: &str) -> String {
    fs::read_to_string(folder().join(name).with_extension("html")).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/html")
}

#[test]
fn pages_give_the_recorded_titles_and_texts() {
    for name in PAGES {
        let page = HtmlPage::parse(&read_page(name));
        let found = format!("{}\n--------\n{}\n", page.title.unwrap_or_default(), page.text);
        let recorded = folder().join(name).with_extension("txt");
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::write(recorded, found).unwrap();
        } else {
            assert_eq!(found, fs::read_to_string(recorded).unwrap(), "{name}");
        }
    }
}
