//! A filter as bytes, for hashes that are stored and for keys of caches.
//!
//! | bytes | what |
//! |---|---|
//! | [`VERSION`] | once, at the start |
//! | `A`, `O`, count, filters | all, any of these |
//! | `N`, filter | not this one |
//! | `C`, path, test | a condition |
//! | `x`; `=`, value; `i`, count, values; `p`, text; `>` `G` `<` `L`, value | exists; equals; in; starts with; greater, or equal; less, or equal |
//! | `s`, text; `n`, 16 bytes; `f`, 8 bytes; `b`, 1 byte | a string, an integer, the bits of a float, a boolean |
//!
//! A text is its length and its UTF-8 bytes. Counts and lengths have 8 bytes, and all numbers are little-endian.

use crate::{Comparison, Filter, Number, Test, Value};

/// Version of the encoding. Whoever changes the encoding changes it too: hashes of another version never match.
const VERSION: u8 = 1;

impl Filter {
    /// The canonical encoding: filters have the same bytes exactly if they are equal.
    pub fn canonical(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put_filter(&mut bytes, self);
        bytes
    }
}

fn put_filter(bytes: &mut Vec<u8>, filter: &Filter) {
    match filter {
        Filter::And(filters) => put_all(bytes, b'A', filters, put_filter),
        Filter::Or(filters) => put_all(bytes, b'O', filters, put_filter),
        Filter::Not(filter) => {
            bytes.push(b'N');
            put_filter(bytes, filter);
        }
        Filter::Condition { path, test } => {
            bytes.push(b'C');
            put_text(bytes, path);
            put_test(bytes, test);
        }
    }
}

fn put_test(bytes: &mut Vec<u8>, test: &Test) {
    match test {
        Test::Exists => bytes.push(b'x'),
        Test::Equals(value) => {
            bytes.push(b'=');
            put_value(bytes, value);
        }
        Test::In(values) => put_all(bytes, b'i', values, put_value),
        Test::StartsWith(prefix) => {
            bytes.push(b'p');
            put_text(bytes, prefix);
        }
        Test::Compare(comparison, value) => {
            bytes.push(match comparison {
                Comparison::Greater => b'>',
                Comparison::GreaterOrEqual => b'G',
                Comparison::Less => b'<',
                Comparison::LessOrEqual => b'L',
            });
            put_value(bytes, value);
        }
    }
}

fn put_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => {
            bytes.push(b's');
            put_text(bytes, text);
        }
        Value::Number(Number::Integer(integer)) => {
            bytes.push(b'n');
            bytes.extend(integer.to_le_bytes());
        }
        Value::Number(Number::Float(float)) => {
            bytes.push(b'f');
            bytes.extend(float.to_bits().to_le_bytes());
        }
        Value::Boolean(boolean) => bytes.extend([b'b', u8::from(*boolean)]),
    }
}

fn put_all<T>(bytes: &mut Vec<u8>, tag: u8, all: &[T], put: fn(&mut Vec<u8>, &T)) {
    bytes.push(tag);
    bytes.extend((all.len() as u64).to_le_bytes());
    all.iter().for_each(|one| put(bytes, one));
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fixed: the stored hashes of jobs depend on it. A change needs another [`VERSION`].
    #[test]
    fn the_encoding_of_a_version_never_changes() {
        let filter =
            Filter::parse(r#"{"or": [{"a": {"ne": "x"}}, {"b": {"gte": 2}}, {"c": {"in": [1.5, true]}}]}"#);
        let mut expected =
            b"\x01O\x03\0\0\0\0\0\0\0NC\x01\0\0\0\0\0\0\0a=s\x01\0\0\0\0\0\0\0xC\x01\0\0\0\0\0\0\0bGn\x02"
                .to_vec();
        expected.extend([0; 15]);
        expected.extend(b"C\x01\0\0\0\0\0\0\0ci\x02\0\0\0\0\0\0\0f\0\0\0\0\0\0\xf8\x3fb\x01");
        assert_eq!(filter.unwrap().canonical(), expected);
    }

    #[test]
    fn filters_have_the_same_bytes_exactly_if_they_are_equal() {
        let filters = [
            r#"{}"#,
            r#"{"a": 1}"#,
            r#"{"a": 1.0}"#,
            r#"{"a": 1.5}"#,
            r#"{"a": "1"}"#,
            r#"{"a": true}"#,
            r#"{"a": false}"#,
            r#"{"a": {"ne": 1}}"#,
            r#"{"a": {"in": [1, 2]}}"#,
            r#"{"a": {"in": [12]}}"#,
            r#"{"a": {"in": ["1, 2"]}}"#,
            r#"{"a": {"exists": true}}"#,
            r#"{"a": {"gt": 1}}"#,
            r#"{"a": {"gte": 1}}"#,
            r#"{"a": {"lt": 1}}"#,
            r#"{"a": {"lte": 1}}"#,
            r#"{"a": "b\", test: Equals("}"#,
            r#"{"aa": "b"}"#,
            r#"{"a": "ab"}"#,
            r#"{"and": [{"a": 1}, {"b": 2}]}"#,
            r#"{"a": 1, "b": 2}"#,
            r#"{"or": [{"a": 1}, {"b": 2}]}"#,
        ]
        .map(|text| Filter::parse(text).unwrap());
        for a in &filters {
            for b in &filters {
                assert_eq!(a.canonical() == b.canonical(), a == b, "{a:?} {b:?}");
            }
        }
        let prefix =
            |text: &str| Filter::Condition { path: "a".to_owned(), test: Test::StartsWith(text.to_owned()) };
        assert_ne!(prefix("b").canonical(), Filter::parse(r#"{"a": "b"}"#).unwrap().canonical());
    }
}
