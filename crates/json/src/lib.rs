//! JSON as it was sent. One pass over the bytes builds a flat list of values, each with its place in the text: the tape of simdjson (Langdale and
//! Lemire, VLDB Journal 28, 2019). Order of keys and spelling of numbers stay as they were written, and an edit changes the bytes of one value.

#![forbid(unsafe_code)]
#![allow(clippy::wildcard_enum_match_arm, reason = "`_` stands for every other kind of a JSON value")]

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use serde::Deserializer as _;
use serde::de::Visitor;

mod edits;
mod parser;

pub use edits::Edits;

/// Most arrays and objects within each other, as in serde_json.
const DEPTH_MAX: usize = 128;
/// Most values of a text: 16 MiB of tape.
const VALUES_MAX: usize = 1 << 20;
/// Largest number of keys of an object that are compared pairwise; more are looked up in a set.
const PAIRS_MAX: usize = 16;

/// Why a text is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is not UTF-8.
    #[error("the byte at offset {0} is not UTF-8")]
    Utf8(usize),
    /// It is not JSON.
    #[error("{expected} expected at offset {offset}")]
    Syntax {
        /// The byte where reading stopped.
        offset: usize,
        /// The expected syntax.
        expected: &'static str,
    },
    /// Arrays and objects are nested more than 128 deep.
    #[error("arrays and objects are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// It has more than a million values.
    #[error("it has more than {VALUES_MAX} values")]
    TooManyValues,
}

/// The values of a JSON text in their order. The tape has no reference to the text: [`Tape::root`] takes both together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tape {
    nodes: Vec<Node>,
}

/// A value. The keys of an object are values before those that they name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    kind: Kind,
    /// The bytes of the value in the text, quotes and brackets included.
    start: u32,
    end: u32,
    /// The node after this value and all in it.
    after: u32,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true`
    True,
    /// `false`
    False,
    /// A number.
    Number,
    /// A string without escapes.
    Plain,
    /// A string with escapes.
    Escaped,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Tape {
    /// Reads a text.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn parse(text: &[u8]) -> Result<Tape, JsonError> {
        if text.len() > u32::MAX as usize {
            return Err(JsonError::TooManyValues);
        }
        Ok(Tape { nodes: parser::nodes(text)? })
    }

    /// The whole value of the text that was parsed.
    pub fn root<'a>(&'a self, text: &'a [u8]) -> Value<'a> {
        Value { tape: self, text, index: 0 }
    }

    /// Whether a key or another string is this name.
    pub fn has_string(&self, text: &[u8], name: &str) -> bool {
        self.nodes.iter().any(|node| {
            let raw = || &text[node.start as usize..node.end as usize];
            match node.kind {
                Kind::Plain => &raw()[1..raw().len() - 1] == name.as_bytes(),
                // a letter has at most the six bytes of its escape
                Kind::Escaped => raw().len() <= 6 * name.len() + 2 && text_of(raw(), node.kind) == name,
                _ => false,
            }
        })
    }

    /// The first key of an object that is equal to another key of it, or, after case folding, to another one of which either is
    /// `known`, in lower case.
    /// Servers differ in which of the two counts; those written in Go take keys of another case (`encoding/json`).
    pub fn repeated_key<'a>(&self, text: &'a [u8], known: impl Fn(&str) -> bool) -> Option<Cow<'a, str>> {
        let mut found = None;
        for (index, node) in self.nodes.iter().enumerate() {
            if node.kind != Kind::Object {
                continue;
            }
            let object = Value { tape: self, text, index };
            let keys: Vec<Value<'_>> = object.entries().map(|(key, _)| key).collect();
            let repeated = match keys.len() {
                0 | 1 => None,
                2..=PAIRS_MAX => repeated_in_pairs(&keys, &known),
                _ => repeated_in_set(&keys, &known),
            };
            if let Some(key) = repeated {
                found = Some(self.nodes[key]);
                break;
            }
        }
        let node = found?;
        Some(text_of(&text[node.start as usize..node.end as usize], node.kind))
    }
}

fn repeated_in_pairs(keys: &[Value<'_>], known: &impl Fn(&str) -> bool) -> Option<usize> {
    for (number, key) in keys.iter().enumerate() {
        for other in &keys[..number] {
            let is_plain = key.kind() == Kind::Plain && other.kind() == Kind::Plain;
            // case folding changes the length of a few letters only, none of which a name that is known has in ASCII
            if is_plain
                && key.raw().len() != other.raw().len()
                && key.raw().is_ascii()
                && other.raw().is_ascii()
            {
                continue;
            }
            if are_equal(&key.string(), &other.string(), known) {
                return Some(key.index);
            }
        }
    }
    None
}

fn repeated_in_set(keys: &[Value<'_>], known: &impl Fn(&str) -> bool) -> Option<usize> {
    let mut seen = HashSet::with_capacity(keys.len());
    for key in keys {
        let name = key.string();
        let folded = folded(&name);
        let name = if known(&folded) { folded.into_owned() } else { name.into_owned() };
        if !seen.insert(name) {
            return Some(key.index);
        }
    }
    None
}

fn are_equal(a: &str, b: &str, known: &impl Fn(&str) -> bool) -> bool {
    a == b || folded(a) == folded(b) && known(&folded(a))
}

/// A name after simple case folding: `ſ` and the Kelvin sign become letters of ASCII.
pub fn folded(name: &str) -> Cow<'_, str> {
    match name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        true => Cow::Borrowed(name),
        false => name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect(),
    }
}

/// A value in its text.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    tape: &'a Tape,
    text: &'a [u8],
    index: usize,
}

impl<'a> Value<'a> {
    fn node(self) -> Node {
        self.tape.nodes[self.index]
    }

    /// The kind.
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// The range of the value in the text, quotes and brackets included.
    pub fn range(self) -> Range<usize> {
        self.node().start as usize..self.node().end as usize
    }

    /// The value as it was written.
    pub fn raw(self) -> &'a [u8] {
        &self.text[self.range()]
    }

    /// The tape that the value is on.
    pub fn tape(self) -> &'a Tape {
        self.tape
    }

    /// The text that contains the value.
    pub fn document(self) -> &'a [u8] {
        self.text
    }

    /// A string without its escapes, in which U+FFFD stands for halves of surrogate pairs; of another value, what was written.
    pub fn string(self) -> Cow<'a, str> {
        text_of(self.raw(), self.kind())
    }

    /// The string, if the value is one.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        self.is_string().then(|| self.string())
    }

    /// Whether it is a string.
    pub fn is_string(self) -> bool {
        matches!(self.kind(), Kind::Plain | Kind::Escaped)
    }

    /// Whether it is an array.
    pub fn is_array(self) -> bool {
        self.kind() == Kind::Array
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The number, if the value is a whole one from 0 to 2^64 - 1.
    pub fn as_u64(self) -> Option<u64> {
        (self.kind() == Kind::Number).then(|| std::str::from_utf8(self.raw()).ok()?.parse().ok()).flatten()
    }

    /// The number, if the value is one that is not too large for 64 bits of floating point.
    pub fn as_f64(self) -> Option<f64> {
        let number = || std::str::from_utf8(self.raw()).ok()?.parse::<f64>().ok();
        (self.kind() == Kind::Number).then(number).flatten().filter(|number| number.is_finite())
    }

    /// `true` or `false`, if the value is one of them.
    pub fn as_bool(self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            Kind::Null | Kind::Number | Kind::Plain | Kind::Escaped | Kind::Array | Kind::Object => None,
        }
    }

    /// The value of a key, of the last one if there are several, as most readers take it; `None` also for what is no object.
    pub fn get(self, name: &str) -> Option<Value<'a>> {
        self.entries().filter(|(key, _)| key.is(name)).last().map(|(_, value)| value)
    }

    /// The value at the end of a path of keys.
    pub fn at(self, path: &[&str]) -> Option<Value<'a>> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    /// Whether the value is this string.
    pub fn is(self, name: &str) -> bool {
        match self.kind() {
            Kind::Plain => &self.raw()[1..self.raw().len() - 1] == name.as_bytes(),
            Kind::Escaped => self.string() == name,
            Kind::Null | Kind::True | Kind::False | Kind::Number | Kind::Array | Kind::Object => false,
        }
    }

    /// Keys and values of an object, in their order; nothing of another value.
    pub fn entries(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let mut children = self.children(Kind::Object);
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    /// Where an entry of an object stands with the comma that separates it from the others, so that the object stays JSON without it.
    pub fn entry_range(self, name: &str) -> Option<Range<usize>> {
        let mut before: Option<usize> = None;
        let mut entries = self.entries();
        while let Some((key, value)) = entries.next() {
            if key.is(name) {
                return Some(match (before, entries.next()) {
                    (Some(end), _) => end..value.range().end,
                    (None, Some((next, _))) => key.range().start..next.range().start,
                    (None, None) => key.range().start..value.range().end,
                });
            }
            before = Some(value.range().end);
        }
        None
    }

    /// The values of an array; nothing of another value.
    pub fn items(self) -> impl Iterator<Item = Value<'a>> {
        self.children(Kind::Array)
    }

    fn children(self, of: Kind) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let node = self.node();
        let end = if node.kind == of { node.after as usize } else { 0 };
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            (index < end).then(|| {
                let child = Value { index, ..self };
                index = child.node().after as usize;
                child
            })
        })
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.raw()))
    }
}

fn text_of(raw: &[u8], kind: Kind) -> Cow<'_, str> {
    match kind {
        Kind::Plain => lossy(&raw[1..raw.len() - 1]),
        Kind::Escaped => Cow::Owned(unescaped(raw).unwrap_or_default()),
        Kind::Null | Kind::True | Kind::False | Kind::Number | Kind::Array | Kind::Object => lossy(raw),
    }
}

/// As `String::from_utf8_lossy`, which reads texts without any error a byte at a time.
fn lossy(text: &[u8]) -> Cow<'_, str> {
    str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed)
}

/// The text of a JSON string in its quotes. U+FFFD stands for what is no character, such as half of a surrogate pair: other readers take such a
/// string, so that the rest of it has to be read.
pub fn unescaped(quoted: &[u8]) -> Option<String> {
    struct Lossy;
    impl Visitor<'_> for Lossy {
        type Value = String;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    serde_json::Deserializer::from_slice(quoted).deserialize_bytes(Lossy).ok()
}

/// Writes a text as a JSON string in its quotes.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    // writing to memory does not fail
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests;
