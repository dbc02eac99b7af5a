//! Evaluation of a filter against a document's metadata.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json};

use crate::{Comparison, Filter, METADATA_DEPTH_MAX, Test, Value};

impl Filter {
    /// Whether metadata passes the filter. This is the specification of the language.
    pub fn evaluate(&self, metadata: &Map<String, Json>) -> bool {
        match self {
            Filter::And(filters) => filters.iter().all(|filter| filter.evaluate(metadata)),
            Filter::Or(filters) => filters.iter().any(|filter| filter.evaluate(metadata)),
            Filter::Not(filter) => !filter.evaluate(metadata),
            Filter::Condition { path, test } => any_in_object(metadata, path, 1, test),
        }
    }
}

impl Test {
    /// Whether a value satisfies the test.
    pub fn is_satisfied_by(&self, value: &Value) -> bool {
        let is_equal = |other: &Value| value.compare(other) == Some(Ordering::Equal);
        match self {
            Test::Exists => true,
            Test::Equals(other) => is_equal(other),
            Test::In(others) => others.iter().any(is_equal),
            Test::StartsWith(prefix) => matches!(value, Value::String(text) if text.starts_with(prefix)),
            Test::Compare(comparison, other) => {
                value.compare(other).is_some_and(|order| comparison.accepts(order))
            }
        }
    }
}

impl Comparison {
    /// Whether a value satisfies the comparison, given its order relative to the filter's value.
    pub fn accepts(self, order: Ordering) -> bool {
        match self {
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
        }
    }
}

/// Follows every key that equals the path or a prefix of it up to a dot, because keys may contain dots.
fn any_in_object(object: &Map<String, Json>, path: &str, depth: usize, test: &Test) -> bool {
    object.iter().any(|(key, json)| match path.strip_prefix(key.as_str()) {
        Some("") => any_value(json, depth, test),
        Some(rest) => rest.strip_prefix('.').is_some_and(|rest| any_below(json, rest, depth, test)),
        None => false,
    })
}

/// Tests the values at the end of the path.
fn any_value(json: &Json, depth: usize, test: &Test) -> bool {
    if let Json::Array(elements) = json {
        return depth < METADATA_DEPTH_MAX
            && elements.iter().any(|element| any_value(element, depth + 1, test));
    }
    Value::from_json(json).is_some_and(|value| test.is_satisfied_by(&value))
}

/// Follows the rest of the path.
fn any_below(json: &Json, rest: &str, depth: usize, test: &Test) -> bool {
    if depth == METADATA_DEPTH_MAX {
        return false;
    }
    match json {
        Json::Object(object) => any_in_object(object, rest, depth + 1, test),
        Json::Array(elements) => elements.iter().any(|element| any_below(element, rest, depth + 1, test)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

/// Calls `each` with path and value of every value in metadata, in order, for an index to store. `null` is no value.
///
/// A path with several values is repeated. Values deeper than [`METADATA_DEPTH_MAX`] are omitted.
pub fn flatten(metadata: &Map<String, Json>, mut each: impl FnMut(&str, Value)) {
    let mut path = String::new();
    for (key, json) in metadata {
        path.clear();
        path.push_str(key);
        flatten_value(json, &mut path, 1, &mut each);
    }
}

fn flatten_value(json: &Json, path: &mut String, depth: usize, each: &mut impl FnMut(&str, Value)) {
    match json {
        Json::Array(_) | Json::Object(_) if depth == METADATA_DEPTH_MAX => {}
        Json::Array(elements) => {
            for element in elements {
                flatten_value(element, path, depth + 1, each);
            }
        }
        Json::Object(object) => {
            let length = path.len();
            for (key, json) in object {
                path.push('.');
                path.push_str(key);
                flatten_value(json, path, depth + 1, each);
                path.truncate(length);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            if let Some(value) = Value::from_json(json) {
                each(path, value);
            }
        }
    }
}
