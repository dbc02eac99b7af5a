//! The error of an invalid request, and the parsing of JSON bodies.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::ErrorCode;
use crate::object::Object;
use crate::similar::{similar_field, similar_value};

/// The result of reading or checking a request.
pub type Result<T, E = Invalid> = std::result::Result<T, E>;

/// Why a request, or one document of it, is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The error code.
    pub code: ErrorCode,
    /// The problem and the accepted values, in lower case.
    pub message: String,
    /// The position in dotted form: `fusion.weights.dense`, `documents[3].text`. `None`: the whole body.
    pub param: Option<String>,
    /// The position as a JSON pointer in a URI fragment: `#/documents/3/text`.
    pub pointer: Option<String>,
}

/// One step from the body's root to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Invalid {
    /// An error of the request as a whole.
    pub fn whole(code: ErrorCode, message: impl Into<String>) -> Invalid {
        Invalid { code, message: message.into(), param: None, pointer: None }
    }

    /// An error of the value at `path`: its keys from the root.
    pub fn at(code: ErrorCode, path: &[&str], message: impl Into<String>) -> Invalid {
        let steps: Vec<Step> = path.iter().map(|key| Step::Key((*key).to_owned())).collect();
        Invalid::at_steps(code, &steps, message)
    }

    /// An error of one item of the list `key`.
    pub fn at_item(code: ErrorCode, key: &str, index: usize, message: impl Into<String>) -> Invalid {
        Invalid::at_steps(code, &[Step::Key(key.to_owned()), Step::Index(index)], message)
    }

    fn at_steps(code: ErrorCode, steps: &[Step], message: impl Into<String>) -> Invalid {
        if steps.is_empty() {
            return Invalid::whole(code, message);
        }
        Invalid {
            code,
            message: message.into(),
            param: Some(render_param(steps)),
            pointer: Some(render_pointer(steps)),
        }
    }

    /// The same error with its position relative to the request: this document is `documents[index]`.
    pub fn in_document(self, index: usize) -> Invalid {
        self.in_item("documents", index)
    }

    /// The same error with its position relative to the parent object: this item is `key[index]`.
    pub fn in_item(mut self, key: &str, index: usize) -> Invalid {
        self.param = Some(match self.param {
            Some(inner) => format!("{key}[{index}].{inner}"),
            None => format!("{key}[{index}]"),
        });
        let inner = self.pointer.as_deref().and_then(|pointer| pointer.strip_prefix('#')).unwrap_or("");
        self.pointer = Some(format!("#/{key}/{index}{inner}"));
        self
    }

    /// An error at `pointer`, a JSON pointer relative to the value of `key`.
    pub fn at_pointer(code: ErrorCode, key: &str, pointer: &str, message: impl Into<String>) -> Invalid {
        Invalid { pointer: Some(format!("#/{key}{pointer}")), ..Invalid::at(code, &[key], message) }
    }
}

/// Requires a property of the value at `path`; otherwise `message` says what is wrong.
///
/// # Errors
/// `invalid_parameter`.
pub fn require<M: Into<String>>(has_it: bool, path: &[&str], message: impl FnOnce() -> M) -> Result<()> {
    if has_it { Ok(()) } else { Err(Invalid::at(ErrorCode::InvalidParameter, path, message())) }
}

fn render_param(steps: &[Step]) -> String {
    let mut param = String::new();
    for step in steps {
        match step {
            Step::Key(key) if param.is_empty() => param.push_str(key),
            Step::Key(key) => {
                param.push('.');
                param.push_str(key);
            }
            Step::Index(index) => param.push_str(&format!("[{index}]")),
        }
    }
    param
}

fn render_pointer(steps: &[Step]) -> String {
    let mut pointer = "#".to_owned();
    for step in steps {
        pointer.push('/');
        match step {
            Step::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => pointer.push_str(&index.to_string()),
        }
    }
    pointer
}

/// Parses `body`, one JSON object, into a `T`, which may borrow from the body.
///
/// # Errors
/// `invalid_utf8` with the offset of the first invalid byte; `invalid_json` with line and column; `unknown_field` and
/// `invalid_parameter` with the position.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Invalid::whole(
            ErrorCode::InvalidUtf8,
            format!("the body is not valid UTF-8: byte {offset} is the first invalid byte"),
        )
    })?;
    read(text, Part::Body)
}

/// Parses one item of a list in a body, a JSON object that messages call `name`, into a `T`.
///
/// Messages omit line and column, which would be relative to the item; [`Invalid::in_item`] adds the item's position.
///
/// # Errors
/// Those of [`parse`], except `invalid_utf8`.
pub fn parse_item<'a, T: Deserialize<'a>>(item: &'a str, name: &'static str) -> Result<T> {
    read(item, Part::Item(name))
}

/// Which part of a body a JSON text is.
#[derive(Clone, Copy)]
enum Part {
    Body,
    /// One item of a list, with the name that messages use for it.
    Item(&'static str),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Body => "body",
            Part::Item(name) => name,
        }
    }

    /// serde_json's message, with line and column where they are those of the body.
    fn message_of(self, error: &serde_json::Error) -> String {
        match self {
            Part::Body => with_json_type_names(error.to_string()),
            Part::Item(_) => with_json_type_names(without_position(error)),
        }
    }
}

/// serde_json's message without line and column.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&position).unwrap_or(&message).to_owned()
}

fn read<'a, T: Deserialize<'a>>(text: &'a str, part: Part) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let steps = steps_of(error.path());
        // serde_json reports a syntax error also for a value of another type in place of an enum variant
        let is_json =
            || text.len() <= REPARSED_BYTES_MAX && serde_json::from_str::<serde_json::Value>(text).is_ok();
        match error.inner().classify() {
            Category::Syntax if is_json() => {
                let message = part.message_of(error.inner());
                let message = message.replacen("expected value", "one of the texts that `/docs` lists", 1);
                let message = format!("a value of another type is expected here: {}", shortened(&message));
                Invalid::at_steps(ErrorCode::InvalidParameter, &steps, message)
            }
            Category::Syntax | Category::Data | Category::Eof | Category::Io => {
                invalid_from(error.inner(), steps, part, text)
            }
        }
    })?;
    reader.end().map_err(|error| invalid_from(&error, Vec::new(), part, text))?;
    Ok(value)
}

fn steps_of(path: &Path) -> Vec<Step> {
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(shortened(key).into_owned())),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

/// Longest text that is parsed a second time, to distinguish a syntax error from a value of the wrong type.
const REPARSED_BYTES_MAX: usize = 64 << 10;

/// Most bytes of the caller's input that a message quotes; the middle of a longer text is replaced by `…`.
const QUOTED_BYTES_MAX: usize = 1_000;

/// The text without its middle if it is long, so that the reply does not grow with the request.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= QUOTED_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let start = &text[..text.floor_char_boundary(QUOTED_BYTES_MAX / 2)];
    let end = &text[text.ceil_char_boundary(text.len() - QUOTED_BYTES_MAX / 2)..];
    Cow::Owned(format!("{start}…{end}"))
}

fn invalid_from(error: &serde_json::Error, mut steps: Vec<Step>, part: Part, text: &str) -> Invalid {
    let whole = part.message_of(error);
    let message = shortened(&whole);
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            let message = format!("the {} is not valid JSON: {message}", part.name());
            Invalid::whole(ErrorCode::InvalidJson, message)
        }
        Category::Data => match quoted_name(&whole, "unknown field `") {
            Some(field) => {
                let message = with_suggestion(&message, &field);
                let field = shortened(&field).into_owned();
                if steps.last() != Some(&Step::Key(field.clone())) {
                    steps.push(Step::Key(field));
                }
                Invalid::at_steps(ErrorCode::UnknownField, &steps, message)
            }
            None if let Some(plain) = plain_message(&whole, &steps) => {
                Invalid::at_steps(ErrorCode::InvalidParameter, &steps, plain)
            }
            None => {
                let mut message = message.into_owned();
                if let Some(field) = quoted_name(&whole, "missing field `") {
                    if let Some(sent) = misnamed(&field, text).filter(|_| steps.is_empty()) {
                        message.push_str(&format!("; rename `{sent}`"));
                    }
                    steps.push(Step::Key(field));
                }
                Invalid::at_steps(ErrorCode::InvalidParameter, &steps, message)
            }
        },
    }
}

/// The problem and the accepted values, where serde's message speaks of variants, or a list has one item without brackets.
fn plain_message(message: &str, steps: &[Step]) -> Option<String> {
    let name = render_param(steps);
    if let Some(value) = quoted_name(message, "unknown variant `") {
        let (_, expected) = message.rsplit_once("`, expected ")?;
        let accepted: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let listed: Vec<String> = accepted.iter().map(|value| format!("`{value}`")).collect();
        let meant = similar_value(&value, &accepted);
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let (name, value) = (if name.is_empty() { "the value" } else { &name }, shortened(&value));
        return Some(format!("{name} is `{value}`; it must be one of {}{meant}", listed.join(", ")));
    }
    let [Step::Key(key)] = steps else { return None };
    let is_list_of_names = LISTS_OF_NAMES.contains(&key.as_str());
    let item = message.strip_prefix("invalid type: string ").filter(|_| is_list_of_names)?;
    let (item, _) = item.rsplit_once(", expected a list")?;
    Some(format!("{key} is a string; it must be a list: `\"{key}\": [{}]`", shortened(item)))
}

/// The fields that are lists of names, also of a single one.
const LISTS_OF_NAMES: [&str; 2] = ["sort", "facets"];

/// The key in the JSON object `text` that was probably meant to be `field`.
fn misnamed(field: &str, text: &str) -> Option<String> {
    if text.len() > REPARSED_BYTES_MAX {
        return None;
    }
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let key = object.keys().find(|key| similar_field(key, &[field]).is_some())?;
    Some(shortened(key).into_owned())
}

/// The message about an unknown field, with the field that was probably meant.
fn with_suggestion<'m>(message: &'m str, field: &str) -> Cow<'m, str> {
    let Some((start, expected)) = message.split_once("`, expected ") else { return message.into() };
    // every second part is between backticks
    let accepted: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    match similar_field(field, &accepted) {
        Some(meant) => format!("{start}`; did you mean `{meant}`? Expected {expected}").into(),
        None => message.into(),
    }
}

/// The message with JSON's names of types in place of Rust's.
fn with_json_type_names(message: String) -> String {
    const EXPECTED: &str = ", expected ";
    let Some((found, rest)) = message.rsplit_once(EXPECTED) else { return message };
    let (rust_name, position) = rest.split_at(rest.find(" at line ").unwrap_or(rest.len()));
    let json_name = match rust_name {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if rust_name.starts_with("struct ") => "an object",
        _ => return message,
    };
    format!("{found}{EXPECTED}{json_name}{position}")
}

/// The name between `start`, which ends in a backtick, and the next backtick. serde gives the name only in the message.
fn quoted_name(message: &str, start: &str) -> Option<String> {
    let (name, _) = message.strip_prefix(start)?.split_once('`')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SearchRequest;

    /// Parses `body` as a search and compares `code param pointer`.
    fn check(body: &[u8], expected: &str) {
        let invalid = parse::<SearchRequest>(body).unwrap_err();
        let or_dash = |text: &Option<String>| text.clone().unwrap_or("-".to_owned());
        let seen = format!("{} {} {}", invalid.code, or_dash(&invalid.param), or_dash(&invalid.pointer));
        assert_eq!(seen, expected, "{}", invalid.message);
    }

    #[test]
    fn a_refusal_names_the_code_and_the_place() {
        check(b"{\"query\": ", "invalid_json - -");
        check(b"", "invalid_json - -");
        check(b"{\"query\":\"a\"} x", "invalid_json - -");
        check(b"{\"query\":\"\xff\"}", "invalid_utf8 - -");
        check(b"[]", "invalid_parameter - -");
        check(b"[\"a\"]", "invalid_parameter - -");
        check(b"{\"query\":\"a\",\"fusion\":[\"rrf\"]}", "invalid_parameter fusion #/fusion");
        check(b"{\"query\":1}", "invalid_parameter query #/query");
        check(b"{\"query\":\"a\",\"diversity\":\"5\"}", "invalid_parameter diversity #/diversity");
        check(b"{\"query\":\"a\",\"mode\":\"fast\"}", "invalid_parameter mode #/mode");
        check(b"{\"query\":\"a\",\"topk\":5}", "unknown_field topk #/topk");
        check(b"{\"query\":\"a\",\"a/b~\":5}", "unknown_field a/b~ #/a~1b~0");
        check(
            b"{\"query\":\"a\",\"fusion\":{\"method\":\"rrf\",\"weights\":{\"dens\":1}}}",
            "unknown_field fusion.weights.dens #/fusion/weights/dens",
        );
    }

    #[test]
    fn an_unknown_field_lists_the_accepted_names() {
        let message = parse::<SearchRequest>(b"{\"query\":\"a\",\"topk\":5}").unwrap_err().message;
        assert_eq!(
            message,
            "unknown field `topk`; did you mean `top_k`? Expected one of `query`, `collection`, `top_k`, `mode`, `filter`, `min_relevance`, `highlight`, \
             `sort`, `facets`, `facet_counts`, `group_by`, `rerank`, `late_interaction`, `fusion`, `smoothing`, `prefix`, `diversity`, `collapse`, `context`, `offset`, `cursor`, \
             `explain`, `why_not`, `syntax`, `vector`, `count`, `deadline_ms`, `at_least`, `log`, `queries` at line 1 column 19"
        );
    }

    #[test]
    fn a_value_that_is_not_accepted_is_answered_with_those_that_are() {
        let check = |body: &str, expected: &str| {
            assert_eq!(parse::<SearchRequest>(body.as_bytes()).unwrap_err().message, expected, "{body}");
        };
        let mode = |value: &str, end: &str| {
            let expected = format!("mode is `{value}`; it must be one of `hybrid`, `lexical`, `dense`{end}");
            check(&format!(r#"{{"query":"a","mode":"{value}"}}"#), &expected);
        };
        mode("semantic", "; did you mean `dense`?");
        mode("vector", "; did you mean `dense`?");
        mode("BM25", "; did you mean `lexical`?");
        mode("keyword", "; did you mean `lexical`?");
        mode("hybird", "; did you mean `hybrid`?");
        mode("fast", "");
        check(
            r#"{"query":"a","fusion":{"method":"sum"}}"#,
            "fusion.method is `sum`; it must be one of `rrf`, `convex`",
        );
        check(r#"{"sort":"-year"}"#, r#"sort is a string; it must be a list: `"sort": ["-year"]`"#);
        check(r#"{"facets":"a\"b"}"#, r#"facets is a string; it must be a list: `"facets": ["a\"b"]`"#);
    }

    #[test]
    fn messages_name_the_expected_json_type() {
        let check = |body: &str, expected: &str| {
            assert_eq!(parse::<SearchRequest>(body.as_bytes()).unwrap_err().message, expected);
        };
        check(
            r#"{"explain":"5, expected u64"}"#,
            "invalid type: string \"5, expected u64\", expected true or false at line 1 column 28",
        );
        let chunk = parse::<crate::FeedbackRequest>(br#"{"chunk":-1}"#).unwrap_err().message;
        assert_eq!(
            chunk,
            "invalid value: integer `-1`, expected a whole number of 0 or more at line 1 column 11"
        );
        check(r#"{"explain":1}"#, "invalid type: integer `1`, expected true or false at line 1 column 12");
        check(r#"{"diversity":[]}"#, "invalid type: sequence, expected a number at line 1 column 13");
        check(r#"{"facets":7}"#, "invalid type: integer `7`, expected a list at line 1 column 11");
        check(r#"{"query":7}"#, "invalid type: integer `7`, expected a string at line 1 column 10");
        check(r#"{"fusion":7}"#, "invalid type: integer `7`, expected a JSON object at line 1 column 11");
    }

    #[test]
    fn messages_about_an_item_have_no_line_and_column() {
        let check = |item: &str, expected: &str| {
            let invalid = parse_item::<SearchRequest>(item, "query").unwrap_err();
            assert_eq!(invalid.message, expected);
        };
        check(r#"{"query":7}"#, "invalid type: integer `7`, expected a string");
        check(
            r#"{"explain":" at line 1 column 2"}"#,
            "invalid type: string \" at line 1 column 2\", expected true or false",
        );
        check(r#"{"explain":none}"#, "the query is not valid JSON: expected ident");
        check(r#"{"query":"\ud800"}"#, "the query is not valid JSON: unexpected end of hex escape");
        check("7", "invalid type: integer `7`, expected a JSON object");
    }

    #[test]
    fn an_unknown_field_is_answered_with_the_one_that_was_meant() {
        let message = |body: &str| parse::<SearchRequest>(body.as_bytes()).unwrap_err().message;
        let limit = message(r#"{"query":"a","limit":3}"#);
        assert!(
            limit.starts_with("unknown field `limit`; did you mean `top_k`? Expected one of `"),
            "{limit}"
        );
        let colour = message(r#"{"query":"a","colour":3}"#);
        assert!(colour.starts_with("unknown field `colour`, expected one of `"), "{colour}");
    }

    #[test]
    fn a_missing_field_is_answered_with_the_one_that_was_sent_for_it() {
        let message = |body: &str| parse::<crate::EmbeddingsRequest>(body.as_bytes()).unwrap_err().message;
        let inputs = message(r#"{"model":"a","inputs":["b"]}"#);
        assert!(
            inputs.starts_with("missing field `input`") && inputs.ends_with("; rename `inputs`"),
            "{inputs}"
        );
        assert!(!message(r#"{"model":"a"}"#).contains("rename"));
    }

    #[test]
    fn a_message_shortens_a_long_name() {
        let body = format!("{{\"query\":\"a\",\"{}\":5}}", "é".repeat(100_000));
        let invalid = parse::<SearchRequest>(body.as_bytes()).unwrap_err();
        let name = invalid.param.unwrap();
        assert_eq!(invalid.code, ErrorCode::UnknownField);
        assert!(
            name.len() < 1_100 && invalid.message.len() < 1_100,
            "{} {}",
            name.len(),
            invalid.message.len()
        );
        assert!(
            name.starts_with("éé") && invalid.message.contains("unknown field `éé"),
            "{}",
            invalid.message
        );
    }

    #[test]
    fn the_position_of_an_error_in_a_document_is_relative_to_the_request() {
        let invalid = Invalid::at(ErrorCode::InvalidParameter, &["text"], "empty").in_document(3);
        assert_eq!(invalid.param.as_deref(), Some("documents[3].text"));
        assert_eq!(invalid.pointer.as_deref(), Some("#/documents/3/text"));
        let whole = Invalid::whole(ErrorCode::InvalidJson, "no").in_document(0);
        assert_eq!(
            (whole.param.as_deref(), whole.pointer.as_deref()),
            (Some("documents[0]"), Some("#/documents/0"))
        );
    }
}
