//! Every string, number and unknown key of a JSON text passes a check, wherever it stands; what the check changes is edited in its place, so that the
//! rest stays as it was written. Structure decides how a value is read, not whether: see [`super::vocabulary`] for the few that are skipped.

use std::borrow::Cow;
use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::Range;

use weir_translate::json::{Edits, Kind, Tape, Value, unescaped};

use super::file::{File, is_file_field};
use super::joined::{is_of_tokens, repeats_text};
use super::json_text::{JsonText, Parts};
use super::vocabulary::{is_choice, is_count, is_name};
use crate::place::Place;
use crate::{Action, PartFindings, Placeholders, RuleSet};

/// Checks the texts of one message, which their reader takes for one text; `None` if all stay. Most have no other beside them.
pub(super) type Check<'a, E> = dyn FnMut(&[&str], Reading) -> Result<Option<Vec<String>>, E> + 'a;

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Text,
    /// The number of a JSON text, as it is written.
    Number,
    /// The parts of a JSON text: at odd places its keys and values, at even ones what stands between them. Only the first can be changed.
    Json,
    /// The same of JSON of which keys or values come in pieces: what flags is counted where they go on.
    JsonInPieces,
    /// A text that can't be changed: what would be redacted blocks, unless it is sent in another form.
    Fixed,
    /// A text of whose parts all was checked before. Only what blocks is looked for: all else was counted and changed there.
    Again,
}

impl Reading {
    /// Whether a finding is counted.
    pub(super) fn is_counted(self, action: Action) -> bool {
        match self {
            Reading::Again => action == Action::Block,
            Reading::JsonInPieces => action != Action::Flag,
            Reading::Text | Reading::Number | Reading::Json | Reading::Fixed => true,
        }
    }

    /// The findings in the texts of one message.
    pub(super) fn scan(self, texts: &[&str], rules: &RuleSet) -> PartFindings {
        match (self, texts) {
            (Reading::Number, [number]) => {
                let mut found = PartFindings { inside: vec![Vec::new()], crossing: Vec::new() };
                rules.scan_number(number, &mut found.inside[0]);
                found
            }
            (Reading::Json | Reading::JsonInPieces, parts) => rules.scan_json(parts),
            (Reading::Text | Reading::Number | Reading::Fixed | Reading::Again, texts) => {
                rules.scan_parts(texts)
            }
        }
    }
}

/// The replacement of one text.
pub(super) fn check_one<E>(
    text: &str,
    reading: Reading,
    check: &mut Check<'_, E>,
) -> Result<Option<String>, E> {
    Ok(check(&[text], reading)?.and_then(|mut texts| texts.pop()))
}

/// Longest number that is taken for a count, a place or a time: that of a payment card is longer.
const COUNT_BYTES_MAX: usize = 11;
/// Most digits of a version behind the name of a model: those of a date. What identifies people has more.
const VERSION_DIGITS_MAX: usize = 8;

/// How a JSON text is walked.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk<'a> {
    /// Strings in the order of their places that are pieces of texts, which are checked where they go on.
    pub(super) skipped: &'a [Range<usize>],
    /// Where the texts begin that were checked together, in order.
    pub(super) joined: &'a [usize],
    /// Whether tokens beside a text are removed: log probabilities, lists of numbers or tokens. They would repeat what the check changes in the text.
    pub(super) removes_tokens: bool,
    /// Whether lists of numbers may be embeddings.
    pub(super) has_embeddings: bool,
    /// Names of models that are no text.
    pub(super) models: &'a [String],
    /// Placeholders that are replaced by what they stand for, after the check.
    pub(super) restores: Option<&'a Placeholders>,
    /// The place in the answer at which its next text begins: an address may have begun in the text before.
    pub(super) place: Option<&'a RefCell<Place>>,
}

impl Walk<'_> {
    fn is_skipped(&self, range: &Range<usize>) -> bool {
        self.skipped.binary_search_by_key(&range.start, |place| place.start).is_ok()
    }

    /// The changes to a text.
    ///
    /// # Errors
    /// Those of the check.
    pub(super) fn edits<E>(self, root: Value<'_>, check: &mut Check<'_, E>) -> Result<Edits, E> {
        let mut edits = Edits::default();
        let place = RefCell::default();
        Walk { place: self.place.or(Some(&place)), ..self }.value(root, "", false, &mut edits, check)?;
        Ok(edits)
    }

    /// `field`: the key of the value, or of the array around it. `is_checked`: whether all keys and values in it were checked before, as one JSON text.
    fn value<E>(
        self,
        value: Value<'_>,
        field: &str,
        is_checked: bool,
        edits: &mut Edits,
        check: &mut Check<'_, E>,
    ) -> Result<(), E> {
        match value.kind() {
            Kind::Null | Kind::True | Kind::False => Ok(()),
            Kind::Number | Kind::Plain | Kind::Escaped if is_checked => Ok(()),
            Kind::Number if is_count(field) && value.raw().len() <= COUNT_BYTES_MAX => Ok(()),
            Kind::Number => {
                // what is no number any more is the text of a string
                if let Some(text) = check_one(&value.string(), Reading::Number, check)? {
                    edits.replace_by_string(value.range(), &text);
                }
                Ok(())
            }
            Kind::Plain | Kind::Escaped => self.string(value, field, edits, check),
            // an embedding is no text
            Kind::Array if self.has_embeddings && field == "embedding" && is_tokens(value) => Ok(()),
            Kind::Array if self.removes_tokens && repeats_text(value, field) => {
                edits.replace(value.range(), b"[]".to_vec());
                Ok(())
            }
            Kind::Array => {
                let joined = self.joined(value, field, is_checked, edits, check)?;
                value.items().try_for_each(|item| {
                    let of_choice = RefCell::default();
                    let place = if field == "choices" { Some(&of_choice) } else { self.place };
                    let walk = Walk { joined: joined.as_deref().unwrap_or(self.joined), place, ..self };
                    walk.value(item, field, is_checked, edits, check)
                })
            }
            Kind::Object => self.object(value, is_checked, edits, check),
        }
    }

    fn string<E>(
        self,
        value: Value<'_>,
        field: &str,
        edits: &mut Edits,
        check: &mut Check<'_, E>,
    ) -> Result<(), E> {
        let (text, range) = (value.string(), value.range());
        let is_frame = is_choice(field, &text) || field == "model" && self.is_model(&text);
        if is_frame || self.is_skipped(&range) || self.joined.binary_search(&range.start).is_ok() {
            return Ok(());
        }
        let file = File::of(is_file_field(field), &text);
        let of_file = file.as_ref().map_or(Ok(None), |file| file.checked(check))?;
        let changed = if file.is_some_and(|file| file.is_whole) {
            of_file
        } else {
            let walk = Walk { place: self.place.filter(|_| is_answer(field)), ..self };
            let is_json = matches!(field, "arguments" | "partial_json");
            walk.text(of_file.as_deref().unwrap_or(&text), is_json, check)?.or(of_file)
        };
        if let Some(text) = changed {
            edits.replace_by_string(range, &text);
        }
        Ok(())
    }

    /// Checks what a caller or model wrote as JSON, where no name is the API's: as its reader takes it, in which a name describes the value behind it.
    /// `key`: that of the value, if it is no name of the APIs either.
    fn data<E>(
        self,
        key: Option<Value<'_>>,
        value: Value<'_>,
        edits: &mut Edits,
        check: &mut Check<'_, E>,
    ) -> Result<(), E> {
        let mut parts = Parts::default();
        let json = JsonText::of(key, value, &mut parts, check)?;
        let is_in_pieces = json.has_any(self.skipped);
        let reading = if is_in_pieces { Reading::JsonInPieces } else { Reading::Json };
        for (range, changed) in json.changes(&parts, reading, check)? {
            let is_restored = !is_in_pieces || !self.is_skipped(&range);
            let restores = self.restores.filter(|restores| is_restored && !restores.is_empty());
            let restored = restores.and_then(|restores| {
                let before = || unescaped(&value.document()[range.clone()]);
                restored_text(&changed.clone().or_else(before)?, restores, &mut Place::default())
            });
            if let Some(text) = restored.or(changed) {
                edits.replace_by_string(range, &text);
            }
        }
        Ok(())
    }

    fn object<E>(
        self,
        object: Value<'_>,
        is_checked: bool,
        edits: &mut Edits,
        check: &mut Check<'_, E>,
    ) -> Result<(), E> {
        let joined = self.joined_fields(object, edits, check)?;
        let walk = Walk { joined: joined.as_deref().unwrap_or(self.joined), ..self };
        for (key, value) in object.entries() {
            let name = key.string();
            let is_unknown = !is_name(&name);
            let is_data = value.kind() == Kind::Object && is_data_name(&name);
            if !is_checked && (is_unknown || is_data) {
                self.data(Some(key).filter(|_| is_unknown), value, edits, check)?;
            }
            let is_list = !matches!(value.kind(), Kind::Null | Kind::True | Kind::False | Kind::Number);
            if self.removes_tokens && is_list && is_of_tokens(&name) {
                let empty: &[u8] = if value.kind() == Kind::Array { b"[]" } else { b"null" };
                edits.replace(value.range(), empty.to_vec());
                continue;
            }
            if is_data {
                continue;
            }
            // the data of a source of text are no file
            let is_text = name == "data" && object.get("type").is_some_and(|kind| kind.is("text"));
            let field = if is_text { "text" } else { &name };
            walk.value(value, field, is_checked || is_unknown, edits, check)?;
        }
        Ok(())
    }

    /// The replacement of a text. `is_json`: whether it is JSON also where it is no object and no list.
    pub(super) fn text<E>(
        self,
        text: &str,
        is_json: bool,
        check: &mut Check<'_, E>,
    ) -> Result<Option<String>, E> {
        let checked = checked_text(text, is_json, check)?;
        Ok(self.restored(checked.as_deref().unwrap_or(text)).or(checked))
    }

    /// A text with what placeholders stand for; `None` if it has none.
    pub(super) fn restored(self, text: &str) -> Option<String> {
        let mut own = Place::default();
        match self.place {
            Some(place) => restored_text(text, self.restores?, &mut place.borrow_mut()),
            None => restored_text(text, self.restores?, &mut own),
        }
    }

    /// Whether a text names a model of the request, also with the date of its version.
    fn is_model(&self, text: &str) -> bool {
        self.models.iter().any(|model| {
            let rest = text.strip_prefix(model.as_str()).or_else(|| {
                // without the upstream before it
                let (_, name) = model.split_once('/')?;
                text.strip_prefix(name)
            });
            rest.is_some_and(is_version)
        })
    }
}

/// Whether a text is the version of a model or its date, behind its name.
fn is_version(text: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b'0'..=b'9' | b'-' | b'@' | b':');
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits <= VERSION_DIGITS_MAX && text.bytes().all(is_part)
}

/// Whether an object under this name is what a caller or model wrote as JSON.
pub(super) fn is_data_name(name: &str) -> bool {
    matches!(name, "input" | "arguments" | "args" | "metadata" | "variables" | "parsed")
}

/// The field of a request whose text is given as tokens, which no guardrail can read.
pub(super) fn field_of_tokens(request: Value<'_>) -> Option<&'static str> {
    ["prompt", "input"].into_iter().find(|name| {
        let list = request.get(name);
        list.is_some_and(|list| is_tokens(list) || list.items().any(is_tokens))
    })
}

/// Whether an array may stand for a text: tokens, or bytes.
pub(super) fn is_tokens(array: Value<'_>) -> bool {
    let mut items = array.items().peekable();
    items.peek().is_some() && items.all(|item| item.kind() == Kind::Number)
}

/// The replacement of a text. JSON within it is checked as JSON and stays JSON: escapes hide nothing, and no quote is lost.
pub(super) fn checked_text<E>(
    text: &str,
    is_json: bool,
    check: &mut Check<'_, E>,
) -> Result<Option<String>, E> {
    let mut parts = Parts::default();
    let is_json = is_json || looks_like_json(text) || looks_like_string(text);
    let read =
        |parts: &mut Parts, check: &mut Check<'_, E>| JsonText::read(Cow::Borrowed(text), parts, check);
    match is_json.then(|| read(&mut parts, check)).transpose()?.flatten() {
        Some(json) => json.checked(&parts, check),
        None => checked_prose(text, Reading::Text, check),
    }
}

/// The replacement of a text that is no JSON as a whole. JSON that was cut off, or is within it, is read without its escapes, too.
pub(super) fn checked_prose<E>(
    text: &str,
    reading: Reading,
    check: &mut Check<'_, E>,
) -> Result<Option<String>, E> {
    let changed = check_one(text, reading, check)?;
    let plain = without_escapes(changed.as_deref().unwrap_or(text));
    let found = plain.map_or(Ok(None), |plain| check_one(&plain, reading, check))?;
    Ok(found.or(changed))
}

/// Whether a text may be an object or an array of JSON.
pub(super) fn looks_like_json(text: &str) -> bool {
    let trimmed = text.trim();
    trimmed.starts_with(['{', '[']) && trimmed.ends_with(['}', ']'])
}

/// Whether a text is an object or an array of JSON.
pub(super) fn is_json(text: &str) -> bool {
    looks_like_json(text) && Tape::parse(text.as_bytes()).is_ok()
}

/// Whether a text may be a string of JSON.
fn looks_like_string(text: &str) -> bool {
    let trimmed = text.trim();
    trimmed.len() > 1 && trimmed.starts_with('"') && trimmed.ends_with('"')
}

/// A text with the characters that escapes of JSON stand for, at any depth; `None` if there are none. Quotes and control characters stay escaped, so
/// that JSON stays what it was.
pub(super) fn without_escapes(text: &str) -> Option<String> {
    if !text.contains("\\u") {
        return None;
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        plain.push_str(before);
        let code = escape.trim_start_matches('\\');
        match escaped_character(code) {
            Some((character, length)) => {
                plain.push(character);
                rest = &code[length..];
            }
            None => {
                plain.push_str(&escape[..escape.len() - code.len()]);
                rest = code;
            }
        }
    }
    plain.push_str(rest);
    Some(plain)
}

/// The character that `code` begins with, such as `u0040`, and the length of its code.
fn escaped_character(code: &str) -> Option<(char, usize)> {
    const UNIT_BYTES: usize = 5;
    let unit = |code: &str| {
        let digits = code.strip_prefix('u')?.get(..UNIT_BYTES - 1)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(code)?;
    let low = code[UNIT_BYTES..].trim_start_matches('\\');
    let (units, length) = match (first, unit(low)) {
        (0xD800..=0xDBFF, Some(second)) => (vec![first, second], code.len() - low.len() + UNIT_BYTES),
        _ => (vec![first], UNIT_BYTES),
    };
    let character = char::decode_utf16(units).next()?.ok()?;
    (!character.is_control() && !matches!(character, '"' | '\\')).then_some((character, length))
}

/// A text at a place with what placeholders stand for; `None` if it has none. In JSON they are restored in its keys and values alone, so that it stays
/// valid.
pub(super) fn restored_text(text: &str, placeholders: &Placeholders, place: &mut Place) -> Option<String> {
    if placeholders.is_empty() {
        return None;
    }
    let mut restore = |texts: &[&str], reading: Reading| {
        if reading == Reading::Fixed {
            return Ok(None);
        }
        let restored: Vec<String> = texts.iter().map(|text| restored(text, placeholders, place)).collect();
        Ok::<_, Infallible>((restored != texts).then_some(restored))
    };
    let Ok(restored) = checked_text(text, false, &mut restore);
    place.pass(text);
    restored
}

/// The same for one text. What is an address only without escapes is one as well.
fn restored(text: &str, placeholders: &Placeholders, place: &Place) -> String {
    let restored = placeholders.restore_at(text, &mut place.clone());
    let Some(plain) = without_escapes(text) else { return restored };
    let of_plain = placeholders.restore_at(&plain, &mut place.clone());
    if without_escapes(&restored).as_ref() == Some(&of_plain) {
        restored
    } else if of_plain == plain {
        text.to_owned()
    } else {
        of_plain
    }
}

/// Whether a string of this field is a text of an answer, which readers are shown behind the others of it.
fn is_answer(field: &str) -> bool {
    matches!(field, "text" | "content" | "refusal" | "thinking" | "reasoning" | "reasoning_content")
}

/// The texts of a JSON text, in order: every string but those of the frame.
pub fn texts(root: Value<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut collect = |texts: &[&str], reading: Reading| {
        match reading {
            Reading::Json | Reading::JsonInPieces => found.push(texts.concat()),
            Reading::Text | Reading::Number | Reading::Fixed => {
                found.extend(texts.iter().map(|text| (*text).to_owned()));
            }
            Reading::Again => {}
        }
        Ok::<_, Infallible>(None)
    };
    let Ok(_) = Walk::default().edits(root, &mut collect);
    found
}

#[cfg(test)]
mod tests {
    use super::super::file::BASE64;
    use super::*;
    use base64::Engine as _;

    /// Replaces every `x` and every 7 by placeholders.
    fn check(body: &str, expected: &str) {
        let tape = Tape::parse(body.as_bytes()).unwrap();
        let mut replace = |texts: &[&str], _: Reading| {
            let replaced = |text: &&str| text.replace('x', "[X_1]").replace('J', "[J_1]").replace('7', "[7]");
            let replaced: Vec<String> = texts.iter().map(replaced).collect();
            Ok::<_, Infallible>((replaced != texts).then_some(replaced))
        };
        let walk = Walk { removes_tokens: true, models: &["m-x".to_owned()], ..Walk::default() };
        let Ok(edits) = walk.edits(tape.root(body.as_bytes()), &mut replace);
        assert_eq!(String::from_utf8(edits.apply(body.as_bytes())).unwrap(), expected);
    }

    #[test]
    fn strings_are_checked_under_any_key_and_numbers_become_strings() {
        check(
            r#"{"content":"a x", "other" : ["x",{"y":"x"}]}"#,
            r#"{"content":"a [X_1]", "other" : ["[X_1]",{"y":"[X_1]"}]}"#,
        );
        check(
            r#"{"a":7,"b":1.70,"created":7,"index":7,"total_tokens":7}"#,
            r#"{"a":"[7]","b":"1.[7]0","created":7,"index":7,"total_tokens":7}"#,
        );
        // no count is as long as the number of a card
        check(r#"{"index":10000000007,"n":100000000007}"#, r#"{"index":10000000007,"n":"10000000000[7]"}"#);
        check(r#"{"a":17e2}"#, r#"{"a":"1[7]e2"}"#);
        check(r#"{"a":1.07e3,"b":0.7e1}"#, r#"{"a":"1.0[7]e3","b":"0.[7]e1"}"#);
        check(r#"{"x":1}"#, r#"{"[X_1]":1}"#);
        check(
            r#"{"role":"x","type":"max","model":"m-x","id":"x"}"#,
            r#"{"role":"[X_1]","type":"max","model":"m-x","id":"[X_1]"}"#,
        );
        check(r#"{"model":"m-x-2024-01-01"}"#, r#"{"model":"m-x-2024-01-01"}"#);
        check(r#"{"model":"m-xy"}"#, r#"{"model":"m-[X_1]y"}"#);
        check(r#"{"model":"m-x-4111111111111111"}"#, r#"{"model":"m-[X_1]-4111111111111111"}"#);
        check(r#"{"model":"m-x-411-111-111"}"#, r#"{"model":"m-[X_1]-411-111-111"}"#);
        check(
            r#"{"input":{"role":"max","created":7,"max":1}}"#,
            r#"{"input":{"role":"ma[X_1]","created":"[7]","ma[X_1]":1}}"#,
        );
    }

    #[test]
    fn parts_of_a_message_are_checked_together_and_other_lists_are_not() {
        let together = |body: &str| {
            let tape = Tape::parse(body.as_bytes()).unwrap();
            let mut seen: Vec<Vec<String>> = Vec::new();
            let mut collect = |texts: &[&str], _: Reading| {
                seen.push(texts.iter().map(|text| (*text).to_owned()).collect());
                Ok::<_, Infallible>(None)
            };
            let Ok(_) = Walk::default().edits(tape.root(body.as_bytes()), &mut collect);
            seen
        };
        assert_eq!(
            together(
                r#"{"content":[{"type":"text","text":"a"},{"type":"image","url":"b"},{"type":"text","text":"c"},{"type":"text","text":"[]"}]}"#
            ),
            [vec!["a", "c"], vec!["[]"], vec!["b"]]
        );
        assert_eq!(together(r#"{"prompt":["a","b"]}"#), [["a"], ["b"]]);
        assert_eq!(together(r#"{"messages":[{"content":"a"},{"content":"b"}]}"#), [["a"], ["b"]]);
        let json = ["{\"", "list", "\":[{\"", "text", "\":\"", "a", "\"},{\"", "text", "\":\"", "b", "\"}]}"];
        assert_eq!(together(r#"{"input":{"list":[{"text":"a"},{"text":"b"}]}}"#), [json]);
        check(
            r#"{"content":[{"text":"a"},{"text":"x"},{"text":"7"}]}"#,
            r#"{"content":[{"text":"a"},{"text":"[X_1]"},{"text":"[7]"}]}"#,
        );
    }

    #[test]
    fn json_within_a_text_stays_json() {
        check(
            r#"{"arguments":"{\"a\":17,\"b\":\"\\u0078\",\"c\":1}"}"#,
            r#"{"arguments":"{\"a\":\"1[7]\",\"b\":\"[X_1]\",\"c\":1}"}"#,
        );
        check(r#"{"content":"[\"{\\\"a\\\":7}\"]"}"#, r#"{"content":"[\"{\\\"a\\\":\\\"[7]\\\"}\"]"}"#);
        check(r#"{"content":"{x}"}"#, r#"{"content":"{[X_1]}"}"#);
    }

    #[test]
    fn escapes_hide_nothing_in_json_that_is_cut_off_or_stands_in_prose() {
        check(
            r#"{"arguments":"{\"a\":\"\\u004A\",\"b\":\"\\u00"}"#,
            r#"{"arguments":"{\"a\":\"[J_1]\",\"b\":\"\\u00"}"#,
        );
        check(r#"{"content":"so: {\"a\":\"\\\\u004a\"}."}"#, r#"{"content":"so: {\"a\":\"[J_1]\"}."}"#);
        for text in [r"C:\users", r"\u0022 \u000a", r"\ud83d", r"\u00é0", r"\u+078"] {
            assert_eq!(without_escapes(text).unwrap_or_else(|| text.to_owned()), text);
        }
        assert_eq!(without_escapes(r"\ud83d\ude00\u00e9").as_deref(), Some("\u{1F600}é"));
    }

    #[test]
    fn a_text_in_base64_is_checked_and_an_image_is_none() {
        let encoded = |text: &str| BASE64.encode(text);
        let text = |mark: &str| format!("{}{mark}", "a long story; ".repeat(5));
        let (before, after) = (encoded(&text("x")), encoded(&text("[X_1]")));
        check(
            &format!(r#"{{"file_data":"data:text/plain;base64,{before}","data":"{before}"}}"#),
            &format!(r#"{{"file_data":"data:text/plain;base64,{after}","data":"{after}"}}"#),
        );
        let image = BASE64.encode([0xff; 90]) + "x7x7";
        let body = format!(r#"{{"url":"data:image/png;base64,{image}","source":{{"data":"{image}"}}}}"#);
        check(&body, &body);
        check(r#"{"data":"x"}"#, r#"{"data":"[X_1]"}"#);
        let (before, after) = (encoded("x"), encoded("[X_1]"));
        for form in [r#"{"data":"?"}"#, r#"{"url":"data:text/plain;base64,?"}"#] {
            check(&form.replace('?', &before), &form.replace('?', &after));
            check(&form.replace('?', before.trim_end_matches('=')), &form.replace('?', &after));
        }
    }

    #[test]
    fn a_text_in_the_place_of_a_file_is_checked_as_it_is() {
        // the key of a provider
        let key = format!("{}-x", "a".repeat(90));
        check(&format!(r#"{{"data":"{key}"}}"#), &format!(r#"{{"data":"{}"}}"#, key.replace('x', "[X_1]")));
        let word = format!("x{}", "a".repeat(91));
        check(
            &format!(r#"{{"source":{{"type":"text","data":"{word}"}}}}"#),
            &format!(r#"{{"source":{{"type":"text","data":"{}"}}}}"#, word.replace('x', "[X_1]")),
        );
    }

    #[test]
    fn tokens_beside_a_text_are_removed() {
        check(
            r#"{"logprobs":{"content":[{"token":"x"}]},"token_ids":[1,2],"a":[]}"#,
            r#"{"logprobs":null,"token_ids":[],"a":[]}"#,
        );
        check(
            r#"{"logprobs":[{"token":"x"}],"input":{"ids":[1,2]}}"#,
            r#"{"logprobs":[],"input":{"ids":[1,2]}}"#,
        );
        check(r#"{"prompt_logprobs":[null,{"5":{"decoded_token":"y"}}]}"#, r#"{"prompt_logprobs":[]}"#);
    }
}
