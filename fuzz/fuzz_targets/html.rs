//! No page panics, and its title is never empty.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_text::HtmlPage;

fuzz_target!(|page: &str| {
    let page = HtmlPage::parse(page);
    assert_ne!(page.title.as_deref(), Some(""));
});
