//! A request that is refused, and the reading of JSON bodies into one.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::ErrorCode;
use crate::object::Object;

/// Why a request, or one document of it, is refused: never the server's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The row of the error table.
    pub code: ErrorCode,
    /// What is wrong and what is accepted, in lower case.
    pub message: String,
    /// The place as a person writes it: `fusion.weights.dense`, `documents[3].text`. `None`: the whole body.
    pub param: Option<String>,
    /// The same place as a JSON pointer in a URI fragment: `#/documents/3/text`.
    pub pointer: Option<String>,
}

/// One step from the body's root to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Invalid {
    /// A refusal of the request as a whole.
    pub fn whole(code: ErrorCode, message: impl Into<String>) -> Invalid {
        Invalid { code, message: message.into(), param: None, pointer: None }
    }

    /// A refusal of the value under `path`, the keys from the root.
    pub fn at(code: ErrorCode, path: &[&str], message: impl Into<String>) -> Invalid {
        let steps: Vec<Step> = path.iter().map(|key| Step::Key((*key).to_owned())).collect();
        Invalid::at_steps(code, &steps, message)
    }

    /// A refusal of one item of the list under `key`.
    pub(crate) fn at_item(code: ErrorCode, key: &str, index: usize, message: impl Into<String>) -> Invalid {
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

    /// The same refusal, seen from the request that holds this document as `documents[index]`.
    pub fn in_document(self, index: usize) -> Invalid {
        self.in_item("documents", index)
    }

    /// The same refusal, seen from what holds the refused thing as the item `index` of its list `key`.
    pub fn in_item(mut self, key: &str, index: usize) -> Invalid {
        self.param = Some(match self.param {
            Some(inner) => format!("{key}[{index}].{inner}"),
            None => format!("{key}[{index}]"),
        });
        let inner = self.pointer.as_deref().and_then(|pointer| pointer.strip_prefix('#')).unwrap_or("");
        self.pointer = Some(format!("#/{key}/{index}{inner}"));
        self
    }

    /// A refusal of what lies under `key` at `pointer`, a JSON pointer from there.
    pub fn at_pointer(code: ErrorCode, key: &str, pointer: &str, message: impl Into<String>) -> Invalid {
        Invalid { pointer: Some(format!("#/{key}{pointer}")), ..Invalid::at(code, &[key], message) }
    }
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

/// Reads the JSON object that fills `body` into a `T`; what it borrows is borrowed from the body.
///
/// # Errors
/// `invalid_utf8` with the offset of the first bad byte; `invalid_json` with line and column; `unknown_field` and
/// `invalid_parameter` with the place.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Invalid> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Invalid::whole(
            ErrorCode::InvalidUtf8,
            format!("the body is not valid UTF-8: byte {offset} is the first bad one"),
        )
    })?;
    read(text, Extent::Body)
}

/// Reads a JSON object that is an item of a list in a body, `name` by name, into a `T`. Line and column, which would count from the item,
/// are not told: [`Invalid::in_item`] says which item it is.
///
/// # Errors
/// As [`parse`], but for `invalid_utf8`.
pub fn parse_item<'a, T: Deserialize<'a>>(item: &'a str, name: &'static str) -> Result<T, Invalid> {
    read(item, Extent::Item(name))
}

/// What a text is of a body.
#[derive(Clone, Copy)]
enum Extent {
    Body,
    /// One of a list, with what it is called.
    Item(&'static str),
}

impl Extent {
    fn name(self) -> &'static str {
        match self {
            Extent::Body => "body",
            Extent::Item(name) => name,
        }
    }

    /// What serde_json says, with the place where that is one in the body.
    fn message_of(self, error: &serde_json::Error) -> String {
        match self {
            Extent::Body => in_words(error.to_string()),
            Extent::Item(_) => in_words(without_place(error)),
        }
    }
}

/// What serde_json says, without line and column.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    said.strip_suffix(&place).unwrap_or(&said).to_owned()
}

fn read<'a, T: Deserialize<'a>>(text: &'a str, extent: Extent) -> Result<T, Invalid> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let steps = steps_of(error.path());
        // serde_json calls it a fault of syntax, too, when a name stands where a number is
        let is_json =
            || text.len() <= TOLD_APART_BYTES_MAX && serde_json::from_str::<serde_json::Value>(text).is_ok();
        match error.inner().classify() {
            Category::Syntax if is_json() => {
                let message = format!(
                    "a value of another type is expected here: {}",
                    shortened(&extent.message_of(error.inner()))
                );
                Invalid::at_steps(ErrorCode::InvalidParameter, &steps, message)
            }
            Category::Syntax | Category::Data | Category::Eof | Category::Io => {
                invalid_from(error.inner(), steps, extent)
            }
        }
    })?;
    reader.end().map_err(|error| invalid_from(&error, Vec::new(), extent))?;
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

/// Bodies of more bytes are not read once more to tell a fault of syntax from a value of another type.
const TOLD_APART_BYTES_MAX: usize = 64 << 10;

/// Bytes of a name or a message of the caller's that are repeated to it; what is left out of the middle is `…`.
const REPEATED_BYTES_MAX: usize = 1_000;

/// The text without its middle when it is long: a reply must not grow with a bad request.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= REPEATED_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let start = &text[..text.floor_char_boundary(REPEATED_BYTES_MAX / 2)];
    let end = &text[text.ceil_char_boundary(text.len() - REPEATED_BYTES_MAX / 2)..];
    Cow::Owned(format!("{start}…{end}"))
}

fn invalid_from(error: &serde_json::Error, mut steps: Vec<Step>, extent: Extent) -> Invalid {
    let whole = extent.message_of(error);
    let message = shortened(&whole);
    match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => {
            let message = format!("the {} is not valid JSON: {message}", extent.name());
            Invalid::whole(ErrorCode::InvalidJson, message)
        }
        Category::Data => match named_after(&whole, "unknown field `") {
            Some(field) => {
                let field = shortened(&field).into_owned();
                if steps.last() != Some(&Step::Key(field.clone())) {
                    steps.push(Step::Key(field));
                }
                Invalid::at_steps(ErrorCode::UnknownField, &steps, message)
            }
            None => {
                if let Some(field) = named_after(&whole, "missing field `") {
                    steps.push(Step::Key(field));
                }
                Invalid::at_steps(ErrorCode::InvalidParameter, &steps, message)
            }
        },
    }
}

/// The message with names of Rust's types as words.
fn in_words(message: String) -> String {
    const EXPECTED: &str = ", expected ";
    let Some((said, behind)) = message.rsplit_once(EXPECTED) else { return message };
    let (name, place) = behind.split_at(behind.find(" at line ").unwrap_or(behind.len()));
    let words = match name {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if name.starts_with("struct ") => "an object",
        _ => return message,
    };
    format!("{said}{EXPECTED}{words}{place}")
}

/// The name between `start`, which ends in a backtick, and the next backtick. Serde offers no other way to learn it.
fn named_after(message: &str, start: &str) -> Option<String> {
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
        let place = |place: &Option<String>| place.clone().unwrap_or("-".to_owned());
        let seen = format!("{} {} {}", invalid.code, place(&invalid.param), place(&invalid.pointer));
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
            "unknown field `topk`, expected one of `query`, `strict`, `vector`, `top_k`, `offset`, `cursor`, `collection`, \
             `mode`, `fusion`, `rerank`, `late_interaction`, `min_relevance`, `filter`, `facets`, `sort`, `group_by`, `diversity`, `collapse`, `context`, `highlight`, \
             `explain`, `why_not`, `count`, `deadline_ms`, `queries` at line 1 column 19"
        );
    }

    #[test]
    fn what_is_expected_is_said_in_words() {
        let check = |body: &str, expected: &str| {
            assert_eq!(parse::<SearchRequest>(body.as_bytes()).unwrap_err().message, expected);
        };
        check(
            r#"{"strict":"5, expected u64"}"#,
            "invalid type: string \"5, expected u64\", expected true or false at line 1 column 27",
        );
        let chunk = parse::<crate::FeedbackRequest>(br#"{"chunk":-1}"#).unwrap_err().message;
        assert_eq!(
            chunk,
            "invalid value: integer `-1`, expected a whole number of 0 or more at line 1 column 11"
        );
        check(r#"{"strict":1}"#, "invalid type: integer `1`, expected true or false at line 1 column 11");
        check(r#"{"diversity":[]}"#, "invalid type: sequence, expected a number at line 1 column 13");
        check(r#"{"facets":7}"#, "invalid type: integer `7`, expected a list at line 1 column 11");
        check(r#"{"query":7}"#, "invalid type: integer `7`, expected a string at line 1 column 10");
        check(r#"{"fusion":7}"#, "invalid type: integer `7`, expected a JSON object at line 1 column 11");
    }

    #[test]
    fn an_item_is_not_counted_into_by_lines_and_columns() {
        let check = |item: &str, expected: &str| {
            let invalid = parse_item::<SearchRequest>(item, "query").unwrap_err();
            assert_eq!(invalid.message, expected);
        };
        check(r#"{"query":7}"#, "invalid type: integer `7`, expected a string");
        check(
            r#"{"strict":" at line 1 column 2"}"#,
            "invalid type: string \" at line 1 column 2\", expected true or false",
        );
        check(r#"{"strict":none}"#, "the query is not valid JSON: expected ident");
        check(r#"{"query":"\ud800"}"#, "the query is not valid JSON: unexpected end of hex escape");
        check("7", "invalid type: integer `7`, expected a JSON object");
    }

    #[test]
    fn a_refusal_does_not_repeat_a_long_name() {
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
    fn a_documents_refusal_is_placed_in_its_request() {
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
