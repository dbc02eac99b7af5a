//! No filter panics; one and its opposite part all metadata. A line of metadata, then the filter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_index::filter::{Filter, flatten};

fuzz_target!(|text: &str| {
    let (metadata, filter) = text.split_once('\n').unwrap_or(("{}", text));
    let metadata: serde_json::Map<_, _> = serde_json::from_str(metadata).unwrap_or_default();
    flatten(&metadata, |_, value| assert!(value.compare(&value).is_some_and(|order| order.is_eq())));
    if let Ok(filter) = Filter::from_json(filter) {
        assert_ne!(filter.matches(&metadata), Filter::Not(Box::new(filter)).matches(&metadata));
    }
});
