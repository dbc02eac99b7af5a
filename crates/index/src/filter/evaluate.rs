//! What a filter means: metadata in, yes or no out.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json};

use super::{Comparison, Filter, METADATA_DEPTH_MAX, Test, Value};

impl Filter {
    /// Whether metadata passes: the specification of filters.
    pub fn matches(&self, metadata: &Map<String, Json>) -> bool {
        match self {
            Filter::And(filters) => filters.iter().all(|filter| filter.matches(metadata)),
            Filter::Or(filters) => filters.iter().any(|filter| filter.matches(metadata)),
            Filter::Not(filter) => !filter.matches(metadata),
            Filter::Condition { path, test } => any_in_object(metadata, path, 1, test),
        }
    }
}

impl Test {
    /// Whether one value satisfies it.
    pub fn holds(&self, value: &Value) -> bool {
        let is_equal = |other: &Value| value.compare(other) == Some(Ordering::Equal);
        match self {
            Test::Exists => true,
            Test::Equals(other) => is_equal(other),
            Test::In(others) => others.iter().any(is_equal),
            Test::StartsWith(prefix) => matches!(value, Value::String(text) if text.starts_with(prefix)),
            Test::Compare(comparison, other) => {
                value.compare(other).is_some_and(|order| comparison.holds(order))
            }
        }
    }
}

impl Comparison {
    /// Whether a value that stands in this order to the filter's satisfies it.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
        }
    }
}

/// Every key that is the path, or its beginning up to a dot, is followed: keys may hold dots themselves.
fn any_in_object(object: &Map<String, Json>, path: &str, depth: usize, test: &Test) -> bool {
    object.iter().any(|(key, json)| match path.strip_prefix(key.as_str()) {
        Some("") => any_value(json, depth, test),
        Some(rest) => rest.strip_prefix('.').is_some_and(|rest| any_below(json, rest, depth, test)),
        None => false,
    })
}

/// At the end of the path.
fn any_value(json: &Json, depth: usize, test: &Test) -> bool {
    if let Json::Array(elements) = json {
        return depth < METADATA_DEPTH_MAX
            && elements.iter().any(|element| any_value(element, depth + 1, test));
    }
    Value::from_json(json).is_some_and(|value| test.holds(&value))
}

/// Before the rest of a path.
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

/// Gives every value in metadata with its path, in order; `null` is none. What an index stores.
///
/// A path comes more than once where it has several values. Values more than [`METADATA_DEPTH_MAX`] deep are left
/// out.
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
