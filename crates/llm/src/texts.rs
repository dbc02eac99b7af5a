//! The texts of a JSON body, where they stand: what people and models wrote, without the names, ids and images around it. The body is not
//! built as a tree; its strings are found in one pass over the bytes, so that a text is replaced by an edit of the bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use memchr::memchr2;
use serde::Deserializer as _;
use serde::de::Visitor;

/// A text of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextSpan {
    /// The bytes between its quotes.
    pub(crate) range: Range<usize>,
    /// Whether escapes stand in it.
    has_escapes: bool,
}

impl TextSpan {
    /// The text.
    pub(crate) fn text<'b>(&self, body: &'b [u8]) -> Cow<'b, str> {
        if !self.has_escapes
            && let Ok(text) = std::str::from_utf8(&body[self.range.clone()])
        {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.decoded(body))
    }

    /// The bytes of the text.
    fn bytes<'b>(&self, body: &'b [u8]) -> Cow<'b, [u8]> {
        if self.has_escapes {
            Cow::Owned(self.decoded(body).into_bytes())
        } else {
            Cow::Borrowed(&body[self.range.clone()])
        }
    }

    /// The text without its escapes.
    fn decoded(&self, body: &[u8]) -> String {
        let quoted = body.get(self.range.start - 1..self.range.end + 1).unwrap_or_default();
        decoded(quoted).unwrap_or_else(|| String::from_utf8_lossy(&body[self.range.clone()]).into_owned())
    }
}

/// Whether strings under a key are texts, in the APIs of OpenAI and Anthropic: of messages, of their parts, of calls of tools and their results.
fn is_text_key(key: &[u8]) -> bool {
    matches!(
        key,
        b"messages" // some servers take a text
            | b"content"
            | b"text"
            | b"prompt"
            | b"input"
            | b"instructions"
            | b"system"
            | b"arguments"
            | b"output"
            | b"delta"
            | b"partial_json"
            | b"reasoning_content"
            | b"reasoning"
            | b"thinking"
            | b"refusal"
            | b"suffix"
    )
}

/// Whether strings under a key inside of the arguments of a tool are no texts: the frame of the APIs, and data.
fn is_frame_key(key: &[u8]) -> bool {
    matches!(
        key,
        b"type"
            | b"role"
            | b"id"
            | b"name"
            | b"call_id"
            | b"tool_use_id"
            | b"status"
            | b"url"
            | b"image_url"
            | b"data"
            | b"file_data"
            | b"media_type"
            | b"signature"
            | b"encrypted_content"
    )
}

/// What a container of the body is.
#[derive(Clone, Copy)]
struct Container {
    is_array: bool,
    /// Whether the strings of an array are texts.
    is_text: bool,
    /// Whether it belongs to the arguments of a tool, where strings are texts under any key but those of [`is_frame_key`].
    is_arguments: bool,
}

/// The text of a JSON string in its quotes. U+FFFD stands for what is no character, such as half of a surrogate pair: other readers take such a
/// string, so that the rest of it has to be checked.
pub(crate) fn decoded(quoted: &[u8]) -> Option<String> {
    struct Lossy;
    impl Visitor<'_> for Lossy {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    serde_json::Deserializer::from_slice(quoted).deserialize_bytes(Lossy).ok()
}

/// The texts of a valid JSON body, in order.
pub(crate) fn texts(body: &[u8]) -> Vec<TextSpan> {
    let mut found = Vec::new();
    let mut open: Vec<Container> = Vec::new();
    // whether the value that comes next is a text, and the key before it is `input`, whose objects are arguments of a tool
    let (mut is_text, mut is_input) = (false, false);
    let mut at = 0;
    while let Some(&byte) = body.get(at) {
        match byte {
            b'"' => {
                let (end, has_escapes) = end_of_string(body, at + 1);
                let range = at + 1..end;
                at = end + 1;
                let in_object = open.last().is_some_and(|container| !container.is_array);
                if in_object && next_is_colon(body, at) {
                    let key = TextSpan { range, has_escapes }.bytes(body);
                    is_input = *key == *b"input";
                    let is_argument = open.last().is_some_and(|object| object.is_arguments);
                    is_text = is_text_key(&key) || is_argument && !is_frame_key(&key);
                    continue;
                }
                let is_element = open.last().is_some_and(|container| container.is_array && container.is_text);
                if is_text || is_element {
                    found.push(TextSpan { range, has_escapes });
                }
                (is_text, is_input) = (false, false);
                continue;
            }
            b'[' => {
                let (in_texts, is_arguments) = open.last().map_or((false, false), |parent| {
                    (parent.is_array && parent.is_text, parent.is_arguments)
                });
                open.push(Container { is_array: true, is_text: is_text || in_texts, is_arguments });
                (is_text, is_input) = (false, false);
            }
            b'{' => {
                let is_arguments = is_input || open.last().is_some_and(|parent| parent.is_arguments);
                open.push(Container { is_array: false, is_text: false, is_arguments });
                (is_text, is_input) = (false, false);
            }
            b']' | b'}' => {
                open.pop();
            }
            b',' => (is_text, is_input) = (false, false),
            _ => {}
        }
        at += 1;
    }
    found
}

/// The place of the closing quote, and whether there are escapes before it.
fn end_of_string(body: &[u8], start: usize) -> (usize, bool) {
    let (mut at, mut has_escapes) = (start, false);
    while let Some(found) = body.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        if body[at + found] == b'"' {
            return (at + found, has_escapes);
        }
        has_escapes = true;
        at += found + 2;
    }
    (body.len(), has_escapes)
}

fn next_is_colon(body: &[u8], at: usize) -> bool {
    let rest = body.get(at..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// The body with some of its texts replaced, by spans in their order.
pub(crate) fn replaced(body: &[u8], edits: &[(Range<usize>, String)]) -> Vec<u8> {
    let more: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut written = Vec::with_capacity(body.len() + more);
    let mut at = 0;
    for (range, text) in edits {
        written.extend_from_slice(&body[at..range.start]);
        write_escaped(&mut written, text);
        at = range.end;
    }
    written.extend_from_slice(&body[at..]);
    written
}

/// Writes a text as between the quotes of a JSON string.
pub(crate) fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let quoted = serde_json::Value::from(text).to_string();
    out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &[&str]) {
        let value: serde_json::Value = serde_json::from_str(body).unwrap();
        let spans = texts(body.as_bytes());
        let found: Vec<Cow<'_, str>> = spans.iter().map(|span| span.text(body.as_bytes())).collect();
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn the_texts_of_each_api_are_found_and_nothing_else() {
        check(
            r#"{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","name":"n","content":[{"type":"text","text":"b\n\"c"},{"type":"image_url","image_url":{"url":"data:x"}}]},
               {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}],"user":"u","stop":["s"]}"#,
            &["a", "b\n\"c", "{\"x\":1}"],
        );
        check(r#"{"prompt":["a","b"],"suffix":"c","model":"m"}"#, &["a", "b", "c"]);
        check(
            r#"{"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"b"},
               {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"to":"c","more":{"deep":["d",{"to":"e"}],"id":"x"}}}]}]}"#,
            &["a", "b", "c", "d", "e"],
        );
        check(
            r#"{"instructions":"a","input":[{"role":"user","content":[{"type":"input_text","text":"b"},{"type":"input_image","image_url":"data:x"}]},{"type":"function_call_output","call_id":"c","output":"d"}]}"#,
            &["a", "b", "d"],
        );
        check(r#"{"input":"a","model":"m"}"#, &["a"]);
        check(r#"{"messages":"a","model":"m"}"#, &["a"]);
        check(r#"{"messages":["a",["b"]],"model":"m"}"#, &["a", "b"]);
        check(r#"{ "a" : "content" , "content" : "x\u00e9\\" }"#, &["xé\\"]);
        check(r#"{"cont\u0065nt":"a","\u0069nput":{"x":"b","n\u0061me":"c"}}"#, &["a", "b"]);
    }

    #[test]
    fn a_text_with_half_of_a_surrogate_pair_is_read_to_its_end() {
        let body = br#"{"content":"\ud83d ann\u0040example.com"}"#;
        let spans = texts(body);
        assert_eq!(spans[0].text(body), "\u{fffd}\u{fffd}\u{fffd} ann@example.com");
    }

    #[test]
    fn a_text_is_replaced_in_its_place() {
        let body = br#"{"messages":[{"content":"a\tb","role":"user"},{"content":"c"}],"n":1}"#;
        let spans = texts(body);
        let edits: Vec<_> =
            spans.iter().map(|span| (span.range.clone(), format!("<{}>\"", span.text(body)))).collect();
        let written = String::from_utf8(replaced(body, &edits)).unwrap();
        assert_eq!(
            written,
            r#"{"messages":[{"content":"<a\tb>\"","role":"user"},{"content":"<c>\""}],"n":1}"#
        );
    }
}
