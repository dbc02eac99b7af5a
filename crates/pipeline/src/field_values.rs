//! Metadata as the API defines it: the values of a field, their order, and how documents are ordered by them.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json};
use weir_filter::{Value, flatten, parse_timestamp};

use crate::{FacetSpec, SortKey, ValueCount};

/// Metadata from its JSON; empty if that is no object.
pub fn metadata(json: &str) -> Map<String, Json> {
    serde_json::from_str(json).unwrap_or_default()
}

/// The distinct values of a field, in order: booleans, numbers, dates, other strings.
pub fn values_of(json: &str, field: &str) -> Vec<Value> {
    let mut values = Vec::new();
    flatten(&metadata(json), |path, value| {
        if path == field && !values.contains(&value) {
            values.push(value);
        }
    });
    values.sort_by(by_place);
    values
}

/// Counts the values of a field in documents, given by their metadata: most frequent first, then in the order of values.
pub fn count_values<'m>(documents: impl Iterator<Item = &'m str>, facet: &FacetSpec) -> Vec<ValueCount> {
    let mut counts: HashMap<Value, u64> = HashMap::new();
    for value in documents.flat_map(|json| values_of(json, &facet.field)) {
        *counts.entry(value).or_default() += 1;
    }
    let counts = counts.into_iter().map(|(value, count)| ValueCount { value, count });
    let mut counts: Vec<ValueCount> = counts.collect();
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| by_place(&a.value, &b.value)));
    counts.truncate(facet.limit);
    counts
}

/// The number of groups of documents, given by their metadata, with the same smallest value of a field. One without a value is alone.
pub fn count_groups<'m>(documents: impl Iterator<Item = &'m str>, field: &str) -> u64 {
    let first: Vec<Option<Value>> = documents.map(|json| values_of(json, field).into_iter().next()).collect();
    let alone = first.iter().filter(|value| value.is_none()).count();
    (first.iter().flatten().collect::<HashSet<_>>().len() + alone) as u64
}

/// The order of the values of a field: booleans, numbers, dates, other strings, each in their own order.
pub fn by_place(a: &Value, b: &Value) -> Ordering {
    let class = |value: &Value| match value {
        Value::Boolean(_) => 0,
        Value::Number(_) => 1,
        Value::String(text) if parse_timestamp(text).is_some() => 2,
        Value::String(_) => 3,
    };
    let spelling = |value: &Value| format!("{value:?}");
    class(a)
        .cmp(&class(b))
        .then_with(|| a.compare(b).unwrap_or(Ordering::Equal))
        .then_with(|| spelling(a).cmp(&spelling(b)))
}

/// The order of two documents by their metadata.
pub fn by_keys(keys: &[SortKey], a: &str, b: &str) -> Ordering {
    for key in keys {
        let of = |json| {
            let values = values_of(json, &key.field);
            if key.descending { values.last().cloned() } else { values.first().cloned() }
        };
        let order = match (of(a), of(b)) {
            (Some(a), Some(b)) if key.descending => by_place(&b, &a),
            (Some(a), Some(b)) => by_place(&a, &b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
