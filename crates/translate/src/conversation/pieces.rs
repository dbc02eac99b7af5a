//! The pieces of text in an event of a stream, where they stand, and which texts end by it. A piece is part of a text that further events continue;
//! every other string of an event is complete in itself.

use std::ops::Range;

use super::Api;
use crate::json::{Kind as JsonKind, Tape, Value};

/// Which text of the reply a piece belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The choice, block or item.
    pub index: u32,
    /// What it is.
    pub kind: Kind,
    /// The part of an item; 0 where there are none.
    pub part: u32,
    /// The names to the text within the event.
    pub path: String,
}

/// A kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What the model answers.
    Answer,
    /// What it thinks before.
    Reasoning,
    /// Why it does not answer.
    Refusal,
    /// Arguments of a tool: JSON that is complete when the text ends.
    Arguments,
    /// Any other text.
    Other,
}

/// The index of texts that belong to no choice, block or item: they end with the stream.
const OF_STREAM: u32 = u32::MAX;

/// What an event has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Pieces of texts: the place of their JSON value in the event's data, quotes included.
    pub texts: Vec<(Lane, Range<usize>)>,
    /// Choices, blocks or items that end by this event.
    pub ended: Vec<u32>,
    /// Calls of tools that name themselves in this event, as index, path and id: one of another id at the same place has ended.
    pub calls: Vec<(u32, String, String)>,
    /// Values that clients take once, and would append to themselves from another event: ids, names, roles. With the choice, block or item, and the
    /// names to the value.
    pub once: Vec<(u32, String, Range<usize>)>,
    /// A text with which an answer begins and that further events continue.
    pub begins: Option<Range<usize>>,
    /// Whether all texts end before this event.
    pub ends_all: bool,
    /// Whether there is more than pieces, so that the event is sent also when nothing of them can be.
    pub has_more: bool,
}

/// The pieces of an event's data. Data that is no JSON has none.
pub fn pieces(api: Api, data: &str) -> Pieces {
    if data.trim() == "[DONE]" {
        return Pieces { ends_all: true, has_more: true, ..Pieces::default() };
    }
    match Tape::parse(data.as_bytes()) {
        Ok(tape) => pieces_of(api, tape.root(data.as_bytes())),
        Err(_) => Pieces { has_more: true, ..Pieces::default() },
    }
}

/// The pieces of an event.
pub fn pieces_of(api: Api, event: Value<'_>) -> Pieces {
    let mut pieces = match api {
        Api::ChatCompletions | Api::Completions | Api::Embeddings => of_chunk(event),
        Api::Messages | Api::CountTokens => of_message(event),
        Api::Responses => of_response(event),
    };
    pieces.has_more |= pieces.texts.is_empty() || has_more(event, "", &pieces);
    pieces
}

fn of_chunk(chunk: Value<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    for (name, value) in chunk.entries() {
        if name.is("choices") {
            for (number, choice) in (0..).zip(value.items()) {
                of_choice(choice, number, &mut pieces);
            }
        } else if !is_complete(&name.string()) && value.is_string() {
            let path = name.string().into_owned();
            let lane = Lane { index: OF_STREAM, kind: Kind::Other, part: 0, path };
            pieces.texts.push((lane, value.range()));
        }
    }
    pieces
}

fn of_choice(choice: Value<'_>, number: u32, pieces: &mut Pieces) {
    let index = index_of(choice, "index").unwrap_or(number);
    for (name, value) in choice.entries() {
        match &*name.string() {
            // some servers send an empty one with each piece
            "finish_reason" if value.is_string() && value.range().len() > 2 => pieces.ended.push(index),
            // a whole message in an event is complete
            "message" => {}
            "delta" => add(value, Lane { index, kind: Kind::Other, part: 0, path: String::new() }, pieces),
            name if !is_complete(name) => {
                let kind = kind_of(name, Kind::Other);
                add(value, Lane { index, kind, part: 0, path: name.to_owned() }, pieces);
            }
            _ => {}
        }
    }
}

fn of_message(event: Value<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    let index = index_of(event, "index").unwrap_or_default();
    match event.get("type").and_then(Value::as_str).as_deref() {
        Some("content_block_delta") => {
            if let Some(delta) = event.get("delta") {
                add(delta, Lane { index, kind: Kind::Other, part: 0, path: String::new() }, &mut pieces);
            }
        }
        Some("content_block_start") => {
            pieces.begins = text_at(event, &["content_block", "text"])
                .or_else(|| text_at(event, &["content_block", "thinking"]));
        }
        Some("content_block_stop") => pieces.ended.push(index),
        Some("message_delta" | "message_stop" | "error") => pieces.ends_all = true,
        _ => {}
    }
    pieces
}

fn of_response(event: Value<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    let index = index_of(event, "output_index").unwrap_or_default();
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    if let (Some(text), Some(delta)) = (kind.strip_suffix(".delta"), event.get("delta")) {
        let part = index_of(event, "content_index").or_else(|| index_of(event, "summary_index"));
        let kind = match text {
            "response.output_text" => Kind::Answer,
            "response.refusal" => Kind::Refusal,
            _ if text.ends_with("arguments") => Kind::Arguments,
            _ if text.starts_with("response.reasoning") => Kind::Reasoning,
            _ => Kind::Other,
        };
        let lane = Lane { index, kind, part: part.unwrap_or_default(), path: text.to_owned() };
        add(delta, lane, &mut pieces);
        return pieces;
    }
    match &*kind {
        "response.completed" | "response.incomplete" | "response.failed" | "error" => pieces.ends_all = true,
        "response.content_part.added" => pieces.begins = text_at(event, &["part", "text"]),
        kind if kind.ends_with(".done") => pieces.ended.push(index),
        _ => {}
    }
    pieces
}

/// The place of a text that is not empty.
fn text_at(event: Value<'_>, path: &[&str]) -> Option<Range<usize>> {
    event.at(path).filter(|text| text.is_string() && text.range().len() > 2).map(Value::range)
}

/// Adds the strings of a value that further events continue. `lane`: that of the value itself.
fn add(value: Value<'_>, lane: Lane, pieces: &mut Pieces) {
    let within = |kind: Kind, name: String| Lane { kind, path: format!("{}{name}", lane.path), ..lane };
    match value.kind() {
        JsonKind::Plain | JsonKind::Escaped => pieces.texts.push((lane, value.range())),
        JsonKind::Array => {
            for (number, item) in (0..).zip(value.items()) {
                let number = index_of(item, "index").unwrap_or(number);
                add(item, within(lane.kind, format!("[{number}]")), pieces);
            }
        }
        JsonKind::Object => {
            if let Some(id) = value.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) {
                pieces.calls.push((lane.index, lane.path.clone(), id.into_owned()));
            }
            for (name, value) in value.entries().map(|(key, value)| (key.string(), value)) {
                if matches!(&*name, "id" | "name" | "role") && value.is_string() {
                    pieces.once.push((lane.index, format!("{}.{name}", lane.path), value.range()));
                }
                if !is_complete(&name) {
                    add(value, within(kind_of(&name, lane.kind), format!(".{name}")), pieces);
                }
            }
        }
        JsonKind::Null | JsonKind::True | JsonKind::False | JsonKind::Number => {}
    }
}

fn kind_of(name: &str, outer: Kind) -> Kind {
    match name {
        "content" | "text" if outer == Kind::Other => Kind::Answer,
        "refusal" => Kind::Refusal,
        "arguments" | "partial_json" => Kind::Arguments,
        name if name.starts_with("reasoning") || name == "thinking" => Kind::Reasoning,
        _ => outer,
    }
}

/// Whether the value of a field is complete in the event that has it. What is not named here is taken for a piece.
fn is_complete(name: &str) -> bool {
    matches!(
        name,
        "id" | "type"
            | "role"
            | "name"
            | "object"
            | "model"
            | "status"
            | "format"
            | "index"
            | "annotations"
            | "citations"
            | "citation"
            | "sources"
            | "search_results"
            | "images"
            | "image_url"
            | "url"
            | "data"
            | "signature"
            | "thought_signature"
            | "encrypted_content"
            | "extra_content"
            | "logprobs"
            | "finish_reason"
            | "system_fingerprint"
            | "service_tier"
            | "provider"
            | "usage"
            | "error"
            | "weir"
            | "call_id"
            | "item_id"
            | "obfuscation"
            | "expires_at"
            | "tool_call_id"
            | "stop_reason"
            | "native_finish_reason"
    )
}

/// Whether an event has something of its own beside pieces and what every event of its stream repeats.
fn has_more(value: Value<'_>, field: &str, pieces: &Pieces) -> bool {
    match value.kind() {
        JsonKind::Null => false,
        JsonKind::Plain | JsonKind::Escaped => {
            !is_repeated(field) && !pieces.texts.iter().any(|(_, range)| *range == value.range())
        }
        JsonKind::True | JsonKind::False | JsonKind::Number => !is_repeated(field),
        JsonKind::Array => value.items().any(|item| has_more(item, field, pieces)),
        JsonKind::Object => value.entries().any(|(key, value)| {
            let name = key.string();
            // the id of the stream is repeated; that of a call is not
            let is_own_id = name == "id" && !field.is_empty();
            name != "id" && has_more(value, &name, pieces) || is_own_id && !value.is_null()
        }),
    }
}

fn is_repeated(field: &str) -> bool {
    matches!(
        field,
        "object"
            | "model"
            | "created"
            | "system_fingerprint"
            | "service_tier"
            | "index"
            | "type"
            | "item_id"
            | "obfuscation"
            | "sequence_number"
            | "provider"
    ) || field.ends_with("_index")
}

fn index_of(value: Value<'_>, name: &str) -> Option<u32> {
    value.get(name)?.as_u64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(api: Api, data: &str, expected: &[(u32, Kind, &str)], has_more: bool) -> Pieces {
        let found = pieces(api, data);
        let seen: Vec<(u32, Kind, &str)> =
            found.texts.iter().map(|(lane, range)| (lane.index, lane.kind, &data[range.clone()])).collect();
        assert_eq!((seen.as_slice(), found.has_more), (expected, has_more), "{data}");
        found
    }

    #[test]
    fn the_pieces_of_each_api_are_found() {
        let chat = Api::ChatCompletions;
        let (answer, arguments) = (Kind::Answer, Kind::Arguments);
        let text = r#"{"id":"1","model":"m","choices":[{"index":1,"delta":{"content":"a\"b"},"finish_reason":null}]}"#;
        check(chat, text, &[(1, answer, r#""a\"b""#)], false);
        let first = r#"{"choices":[{"index":1,"delta":{"role":"assistant","content":""}}]}"#;
        check(chat, first, &[(1, answer, "\"\"")], true);
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":2,"function":{"arguments":"{"}}]}}]}"#;
        assert!(check(chat, call, &[(0, arguments, "\"{\"")], false).calls.is_empty());
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":2,"id":"c","function":{"name":"f","arguments":""}}]}}]}"#;
        assert_eq!(
            check(chat, call, &[(0, arguments, "\"\"")], true).calls,
            [(0, ".tool_calls[2]".to_owned(), "c".to_owned())]
        );
        let end = check(chat, r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#, &[], true);
        assert_eq!(end.ended, [1]);
        assert!(check(chat, "[DONE]", &[], true).ends_all);
        check(Api::Completions, r#"{"choices":[{"index":1,"text":"a"}]}"#, &[(1, answer, "\"a\"")], false);
        let delta = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}"#;
        check(Api::Messages, delta, &[(1, answer, "\"a\"")], false);
        let delta = r#"{"type":"content_block_delta","delta":{"text":null,"thinking":1}}"#;
        check(Api::Messages, delta, &[], true);
        assert_eq!(check(Api::Messages, r#"{"type":"content_block_stop","index":1}"#, &[], true).ended, [1]);
        let delta = r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"a"}"#;
        check(Api::Responses, delta, &[(1, answer, "\"a\"")], false);
        assert!(check(Api::Responses, r#"{"type":"response.completed","response":{}}"#, &[], true).ends_all);
    }

    #[test]
    fn texts_under_names_that_no_api_has_are_pieces_too() {
        let chat = Api::ChatCompletions;
        let details =
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a"}]}}]}"#;
        check(chat, details, &[(0, Kind::Reasoning, "\"a\"")], false);
        let list = r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}"#;
        check(chat, list, &[(0, Kind::Answer, "\"a\"")], false);
        let call = r#"{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}"#;
        check(chat, call, &[(0, Kind::Arguments, "\"{\"")], true);
        check(
            chat,
            r#"{"choices":[{"delta":{"new":{"words":"a"}}}],"other":"b"}"#,
            &[(0, Kind::Other, "\"a\""), (OF_STREAM, Kind::Other, "\"b\"")],
            false,
        );
        check(
            Api::Messages,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","words":"a"}}"#,
            &[(0, Kind::Other, "\"a\"")],
            false,
        );
        let custom = r#"{"type":"response.custom_tool_call_input.delta","delta":"a"}"#;
        check(Api::Responses, custom, &[(0, Kind::Other, "\"a\"")], false);
    }
}
