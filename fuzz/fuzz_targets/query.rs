//! No query panics, and what the strict parser takes the forgiving one reads alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_query::{parse, parse_forgiving};

fuzz_target!(|text: &str| {
    let query = parse_forgiving(text);
    assert_eq!(query.clone().with_fields(|_| true), query);
    if let Ok(strict) = parse(text) {
        assert_eq!(strict, query);
    }
});
