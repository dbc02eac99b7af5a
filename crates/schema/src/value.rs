//! JSON values that are read, changed and written again with their keys in order and their numbers as they were written: models answer in the
//! order of a schema's keys.

use std::collections::HashSet;
use std::fmt;
use std::ops::Index;

use crate::whole_characters;

/// Most arrays and objects within each other: what is made of them is a little deeper, and serde_json reads up to 128.
const DEPTH_MAX: usize = 120;
/// Keys of objects of up to this length are compared one by one.
const SMALL_OBJECT: usize = 16;

/// A JSON value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// As it was written.
    Number(Box<str>),
    /// A text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// An object.
    Object(Map),
}

/// The keys and values of an object, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map(Vec<(String, Value)>);

static NULL: Value = Value::Null;

/// An object with these keys and values.
#[macro_export]
macro_rules! object {
    ($($key:literal: $value:expr),* $(,)?) => {
        $crate::Value::Object([$(($key.to_owned(), $crate::Value::from($value))),*].into_iter().collect())
    };
}

impl Value {
    /// Reads JSON. The replacement character stands for halves of surrogate pairs.
    ///
    /// # Errors
    /// Why it can't be read: what was expected, and where.
    pub fn parse(json: &[u8]) -> Result<Value, String> {
        let json = whole_characters(json);
        let text = std::str::from_utf8(&json).map_err(|error| error.to_string())?;
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        parser.skip_space();
        match parser.at == text.len() {
            true => Ok(value),
            false => parser.expected("the end"),
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// A whole number of 64 bits that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        if let Value::Number(number) = self { number.parse().ok() } else { None }
    }

    /// The nearest number of 64 bits.
    pub fn as_f64(&self) -> Option<f64> {
        if let Value::Number(number) = self { number.parse().ok() } else { None }
    }

    /// The values of a list.
    pub fn as_array(&self) -> Option<&[Value]> {
        if let Value::Array(list) = self { Some(list) } else { None }
    }

    /// The keys and values of an object.
    pub fn as_object(&self) -> Option<&Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    /// The same, to be changed.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Value::Object(_))
    }

    /// The value; null stays in its place.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// The value at the end of a path of keys, such as `a/b`.
    pub fn at_mut(&mut self, path: &str) -> Option<&mut Value> {
        path.split('/').try_fold(self, |value, key| value.as_object_mut()?.get_mut(key))
    }

    /// The value that a JSON pointer leads to.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        let names = pointer.strip_prefix('/')?.split('/');
        names.map(|name| name.replace("~1", "/").replace("~0", "~")).try_fold(self, |value, name| match value
        {
            Value::Object(map) => map.get(&name),
            Value::Array(list) => list.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Writes JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(is_set) => out.extend_from_slice(if *is_set { b"true" } else { b"false" }),
            Value::Number(number) => out.extend_from_slice(number.as_bytes()),
            Value::String(text) => write_string(text, out),
            Value::Array(list) => {
                out.push(b'[');
                for (number, value) in list.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    value.write(out);
                }
                out.push(b']');
            }
            Value::Object(map) => map.write(out),
        }
    }

    /// The bytes of [`Value::write`].
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    // writing to memory does not fail
    let _ = serde_json::to_writer(out, text);
}

/// As JSON.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_json()))
    }
}

/// The value of a key; null for one that is missing.
impl Index<&str> for Value {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.as_object().and_then(|map| map.get(key)).unwrap_or(&NULL)
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, is_set: &bool) -> bool {
        matches!(self, Value::Bool(value) if value == is_set)
    }
}

impl From<bool> for Value {
    fn from(is_set: bool) -> Value {
        Value::Bool(is_set)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number.to_string().into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text)
    }
}

impl From<Vec<Value>> for Value {
    fn from(list: Vec<Value>) -> Value {
        Value::Array(list)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Value {
        Value::Object(map)
    }
}

impl Map {
    /// An object without keys.
    pub fn new() -> Map {
        Map::default()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Whether there is a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a value in the place of its key, or behind the others.
    pub fn insert(&mut self, key: &str, value: impl Into<Value>) {
        *self.or_insert(key, Value::Null) = value.into();
    }

    /// The value of a key, which is set if it is missing.
    pub fn or_insert(&mut self, key: &str, value: impl Into<Value>) -> &mut Value {
        let found = self.0.iter().position(|(name, _)| name == key);
        let position = found.unwrap_or_else(|| {
            self.0.push((key.to_owned(), value.into()));
            self.0.len() - 1
        });
        &mut self.0[position].1
    }

    /// Removes a key. Returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let position = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(position).1)
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Keys and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The values in their order, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Writes JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (number, (name, value)) in self.0.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            value.write(out);
        }
        out.push(b'}');
    }

    /// Keeps the last value of each key, in the place of the first.
    fn without_repeated_keys(self) -> Map {
        let is_repeated = match self.0.len() {
            0..=SMALL_OBJECT => {
                let mut entries = self.0.iter().enumerate();
                entries.any(|(number, (name, _))| self.0[..number].iter().any(|(other, _)| other == name))
            }
            length => self.keys().collect::<HashSet<_>>().len() < length,
        };
        if !is_repeated {
            return self;
        }
        let mut positions = std::collections::HashMap::new();
        let mut kept: Vec<(String, Value)> = Vec::with_capacity(self.0.len());
        for (name, value) in self.0 {
            match positions.get(&name) {
                Some(&position) => {
                    let (_, kept): &mut (String, Value) = &mut kept[position];
                    *kept = value;
                }
                None => {
                    positions.insert(name.clone(), kept.len());
                    kept.push((name, value));
                }
            }
        }
        Map(kept)
    }
}

impl FromIterator<(String, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Map {
        Map(entries.into_iter().collect())
    }
}

impl IntoIterator for Map {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("arrays and objects are nested more than {DEPTH_MAX} deep"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.expected("a value"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        let mut entries = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(Map(entries)));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return self.expected("a key in quotes");
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return self.expected("`:`");
            }
            self.at += 1;
            entries.push((key, self.value(depth + 1)?));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(Map(entries).without_repeated_keys()));
                }
                _ => return self.expected("`,` or `}`"),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, String> {
        let mut list = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(list));
        }
        loop {
            list.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(list));
                }
                _ => return self.expected("`,` or `]`"),
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let mut strings = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<String>();
        match strings.next() {
            Some(Ok(string)) => {
                self.at += strings.byte_offset();
                Ok(string)
            }
            _ => self.expected("a string of JSON"),
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = &self.text.as_bytes()[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let number = &self.text[self.at..self.at + length];
        if serde_json::from_str::<&serde_json::value::RawValue>(number).is_err() {
            return self.expected("a number");
        }
        self.at += length;
        Ok(Value::Number(number.into()))
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, String> {
        if !self.text[self.at..].starts_with(word) {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(value)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected<T>(&self, expected: &str) -> Result<T, String> {
        Err(format!("{expected} expected at offset {}", self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_numbers_their_spelling() {
        for json in [
            r#"{"z":1.0,"a":[1e3,-0,123456789012345678901234567890,true,false,null],"m":{"b":"\"\\é\n😀","a":{}}}"#,
            "[]",
            r#""""#,
        ] {
            assert_eq!(Value::parse(json.as_bytes()).unwrap().to_string(), json);
        }
        let value = Value::parse(br#" { "b" : [ 1 , 2 ] , "a" : "\ud83dx" } "#).unwrap();
        assert_eq!(value.to_string(), "{\"b\":[1,2],\"a\":\"\u{FFFD}x\"}");
        assert_eq!(value.pointer("/b/1").and_then(Value::as_u64), Some(2));
    }

    #[test]
    fn the_last_of_repeated_keys_counts() {
        assert_eq!(Value::parse(br#"{"a":1,"b":2,"a":3}"#).unwrap().to_string(), r#"{"a":3,"b":2}"#);
        let many: Vec<String> = (0..40).map(|number| format!(r#""k{}":{number}"#, number % 20)).collect();
        let value = Value::parse(format!("{{{}}}", many.join(",")).as_bytes()).unwrap();
        assert_eq!((value.as_object().unwrap().len(), value["k3"].as_u64()), (20, Some(23)));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for json in [
            "",
            "{",
            "[",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "\"",
            "\"\\",
            "\"\n\"",
            "\"\\x\"",
            "01",
            "1.",
            "-",
            "1e",
            "+1",
            "tru",
            "nul",
            "1 2",
            "{}x",
        ] {
            assert!(Value::parse(json.as_bytes()).is_err(), "{json}");
        }
        assert!(Value::parse(b"\"\xff\"").is_err());
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Value::parse(deep(120).as_bytes()).is_ok());
        assert!(Value::parse(deep(122).as_bytes()).is_err());
        assert!(Value::parse(deep(200_000).as_bytes()).is_err());
    }
}
