//! Evaluation never panics, and a filter and its negation select complementary documents. Input: a line of metadata, then the filter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_filter::{Filter, flatten};

fuzz_target!(|text: &str| {
    let (metadata, filter) = text.split_once('\n').unwrap_or(("{}", text));
    let metadata: serde_json::Map<_, _> = serde_json::from_str(metadata).unwrap_or_default();
    flatten(&metadata, |_, value| assert!(value.compare(&value).is_some_and(|order| order.is_eq())));
    if let Ok(filter) = Filter::parse(filter) {
        assert_ne!(filter.evaluate(&metadata), Filter::Not(Box::new(filter)).evaluate(&metadata));
    }
});
