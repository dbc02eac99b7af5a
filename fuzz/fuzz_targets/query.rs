//! No query panics, and no reading says more than the query has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_query::{NoVocabulary, Reading, parse, parse_auto};

fuzz_target!(|text: &str| {
    let Reading { query, as_text } = parse_auto(text, &NoVocabulary);
    assert!(as_text.iter().map(String::len).sum::<usize>() <= text.len());
    assert!(query.fields().is_empty());
    drop(parse(text).map(|query| query.to_string()));
});
