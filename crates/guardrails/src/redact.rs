//! Replacing findings by placeholders, and placeholders by what they stand for.
//!
//! A placeholder is `[NAME_n]`: the name of the rule in capitals and a number from 1. Equal values of a rule have the same placeholder.
//!
//! It is restored byte for byte only. One with full-width brackets or invisible characters stays as it is: no value is shown too much, and what
//! looks like a placeholder in a text of the caller has to be kept from values in fewer forms.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use ahash::RandomState;

use crate::normalise::shown;
use crate::place::Place;
use crate::{Action, Finding, NAME_BYTES_MAX, RuleSet};

/// Longest placeholder: brackets, name, underscore, and a number of up to ten digits.
const PLACEHOLDER_BYTES_MAX: usize = NAME_BYTES_MAX + 13;

/// The placeholders of one request or conversation, and the values for which they stand. They are hashed with random keys, because callers
/// choose both.
#[derive(Debug, Clone, Default)]
pub struct Placeholders {
    values: HashMap<Arc<str>, Arc<str>, RandomState>,
    /// By the number of the rule and the value.
    placeholders: HashMap<(usize, Arc<str>), Arc<str>, RandomState>,
    /// By the number of the rule.
    last_numbers: Vec<u32>,
    reserved: HashSet<String>,
}

impl Placeholders {
    /// No placeholders yet.
    pub fn new() -> Placeholders {
        Placeholders::default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The placeholders and the values for which they stand, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(placeholder, value)| (&**placeholder, &**value))
    }

    /// Keeps what looks like a placeholder in `text` from being given to a value: it would be restored to a value that never stood there.
    /// [`redact`] does so for its text; call it before, for all of them, when a request has several texts.
    ///
    /// So is what looks like one as it is shown: `[EMAIL_1]` with an invisible character or in full-width letters, which a model may repeat
    /// without them.
    pub fn reserve(&mut self, text: &str) {
        self.reserve_exact(text);
        if let Some(shown) = shown(text) {
            self.reserve_exact(&shown);
        }
    }

    fn reserve_exact(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find('[') {
            rest = &rest[at..];
            match placeholder_length(rest.as_bytes()) {
                Shape::Whole(length) => {
                    if !self.values.contains_key(&rest[..length]) {
                        self.reserved.insert(rest[..length].to_owned());
                    }
                    rest = &rest[length..];
                }
                Shape::Begun | Shape::Other => rest = &rest[1..],
            }
        }
    }

    /// Puts values back for their placeholders. A placeholder that was altered, and one within the address of a link, stays as it is: a client that
    /// loads the address would send the value to its server.
    pub fn restore(&self, text: &str) -> String {
        self.restore_at(text, &mut Place::default())
    }

    /// The same in a text that goes on at a place.
    pub(crate) fn restore_at(&self, text: &str, place: &mut Place) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let held = self.restore_part(text, place, &mut out);
        place.pass(&text[held..]);
        out.push_str(&text[held..]);
        out
    }

    /// The placeholder of a value that a rule found.
    pub(crate) fn placeholder(&mut self, rules: &RuleSet, rule: usize, value: &str) -> &str {
        let (values, reserved) = (&mut self.values, &self.reserved);
        if self.last_numbers.len() <= rule {
            self.last_numbers.resize(rule + 1, 0);
        }
        let number = &mut self.last_numbers[rule];
        let value: Arc<str> = value.into();
        self.placeholders.entry((rule, value)).or_insert_with_key(|(_, value)| {
            let mut text = String::with_capacity(PLACEHOLDER_BYTES_MAX);
            text.push('[');
            text.push_str(rules.label(rule));
            text.push('_');
            let start = text.len();
            loop {
                *number += 1;
                text.truncate(start);
                text.push_str(itoa::Buffer::new().format(*number));
                text.push(']');
                let placeholder: Arc<str> = text.as_str().into();
                // Two rules whose names differ in their case only have the same label.
                if !reserved.contains(&text)
                    && let Entry::Vacant(free) = values.entry(placeholder.clone())
                {
                    free.insert(value.clone());
                    return placeholder;
                }
            }
        })
    }

    /// Restores up to the first byte of a placeholder that `text` cuts off, and returns that byte's position, or the text's length.
    fn restore_part(&self, text: &str, place: &mut Place, out: &mut String) -> usize {
        let (mut copied, mut at) = (0, 0);
        while let Some(found) = text[at..].find('[') {
            place.pass(&text[at..at + found]);
            at += found;
            match placeholder_length(&text.as_bytes()[at..]) {
                Shape::Whole(length) => {
                    let value = self.values.get(&text[at..at + length]).filter(|_| !place.is_in_link());
                    if let Some(value) = value {
                        out.push_str(&text[copied..at]);
                        out.push_str(&place.written(value));
                        copied = at + length;
                    }
                    place.pass(&text[at..at + length]);
                    at += length;
                }
                Shape::Begun => {
                    out.push_str(&text[copied..at]);
                    return at;
                }
                Shape::Other => {
                    place.pass("[");
                    at += 1;
                }
            }
        }
        place.pass(&text[at..]);
        out.push_str(&text[copied..]);
        text.len()
    }
}

/// Whether text from `[` on has the form of a placeholder.
enum Shape {
    /// It has, with this length in bytes.
    Whole(usize),
    /// It has as far as it goes.
    Begun,
    /// It has not.
    Other,
}

fn placeholder_length(bytes: &[u8]) -> Shape {
    let inside =
        |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    let longest = &bytes[1..bytes.len().min(PLACEHOLDER_BYTES_MAX)];
    match longest.iter().position(|byte| !inside(byte)) {
        Some(0) => Shape::Other,
        Some(length) if longest[length] == b']' => Shape::Whole(length + 2),
        Some(_) => Shape::Other,
        None if bytes.len() < PLACEHOLDER_BYTES_MAX => Shape::Begun,
        None => Shape::Other,
    }
}

/// The text with a placeholder for each finding whose rule redacts or blocks. `findings` are those of [`RuleSet::scan`] in this text.
pub fn redact(text: &str, findings: &[Finding], rules: &RuleSet, placeholders: &mut Placeholders) -> String {
    placeholders.reserve(text);
    placeholders.values.reserve(findings.len());
    placeholders.placeholders.reserve(findings.len());
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for finding in findings {
        if rules.rules()[finding.rule].action >= Action::Redact {
            out.push_str(&text[copied..finding.start]);
            out.push_str(placeholders.placeholder(rules, finding.rule, &text[finding.start..finding.end]));
            copied = finding.end;
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Puts values back in a stream whose pieces may cut placeholders anywhere.
#[derive(Debug)]
pub struct Restorer {
    placeholders: Arc<Placeholders>,
    place: Place,
    held: String,
}

impl Restorer {
    /// A restorer for a stream that begins.
    pub fn new(placeholders: impl Into<Arc<Placeholders>>) -> Restorer {
        Restorer::at(placeholders, Place::default())
    }

    /// A restorer for a text that goes on at a place.
    pub(crate) fn at(placeholders: impl Into<Arc<Placeholders>>, place: Place) -> Restorer {
        Restorer { placeholders: placeholders.into(), place, held: String::new() }
    }

    /// The place behind what was pushed.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Takes the next piece and appends all text to `out` that does not belong to a placeholder which has only begun.
    pub fn push(&mut self, text: &str, out: &mut String) {
        if self.held.is_empty() {
            let held = self.placeholders.restore_part(text, &mut self.place, out);
            self.held.push_str(&text[held..]);
        } else {
            self.held.push_str(text);
            let held = self.placeholders.restore_part(&self.held, &mut self.place, out);
            self.held.drain(..held);
        }
    }

    /// Appends what is left when the stream has ended.
    pub fn finish(&mut self, out: &mut String) {
        self.place.pass(&self.held);
        out.push_str(&std::mem::take(&mut self.held));
    }
}
