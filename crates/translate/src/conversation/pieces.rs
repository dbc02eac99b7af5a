//! The pieces of text in an event of a stream, where they stand, and which texts end by it. A piece is part of a text that further events continue;
//! every other string of an event is complete in itself.

use std::hash::{DefaultHasher, Hash, Hasher};
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

/// The path of the summary of what a model of `/v1/responses` thinks.
const SUMMARY_PATH: &str = "response.reasoning_summary_text";

/// Longest path, in bytes; a longer one is replaced by its hash, since each text of an event has one.
const PATH_BYTES_MAX: usize = 256;

/// The quotes of an empty string.
const EMPTY_BYTES: usize = 2;

/// What an event has.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Pieces of texts: the place of their JSON value in the event's data, quotes included.
    pub texts: Vec<(Lane, Range<usize>)>,
    /// Choices, blocks or items that end by this event.
    pub ended: Vec<u32>,
    /// Calls of tools that name themselves in this event, as index, path and id: one of another id at the same place has ended.
    pub calls: Vec<(u32, String, String)>,
    /// Values that clients take once, and would append to themselves from another event: ids, names, roles.
    pub once: Vec<Range<usize>>,
    /// All strings that are no pieces, with a hash of the names to the value and of the indices beside it: some clients append what comes under the
    /// same names later.
    pub complete: Vec<(u64, Range<usize>)>,
    /// Texts with which a block, part or item begins and that further events continue, whose lane may have another path: the place of their JSON value.
    pub begins: Vec<(Lane, Range<usize>)>,
    /// Whole texts that earlier events had in pieces.
    pub repeats: Vec<(Lane, Range<usize>)>,
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
    let mut at: Vec<usize> = pieces.texts.iter().map(|(_, place)| place.start).collect();
    at.sort_unstable();
    pieces.has_more |= at.is_empty() || has_more(event, "", &at);
    at.extend(pieces.begins.iter().chain(&pieces.repeats).map(|(_, place)| place.start));
    at.sort_unstable();
    add_complete(event, 0, &at, &mut pieces.complete);
    pieces
}

/// Adds the strings of a value that are no pieces. `names`: the hash of the names to the value. `pieces`: where pieces begin, in order.
fn add_complete(value: Value<'_>, names: u64, pieces: &[usize], complete: &mut Vec<(u64, Range<usize>)>) {
    match value.kind() {
        JsonKind::Null | JsonKind::True | JsonKind::False | JsonKind::Number => {}
        JsonKind::Plain | JsonKind::Escaped => {
            let place = value.range();
            if pieces.binary_search(&place.start).is_err() {
                complete.push((names, place));
            }
        }
        JsonKind::Array => value.items().for_each(|item| add_complete(item, names, pieces, complete)),
        JsonKind::Object => {
            // of a choice, block, call or item; any other may change while a client appends
            let is_index = |name: &str| matches!(name, "index" | "output_index");
            let is_number = |index: Value<'_>| index.kind() == JsonKind::Number;
            let indices =
                value.entries().filter(|(name, index)| is_index(&name.string()) && is_number(*index));
            let names = hash_of(&(names, indices.map(|(_, index)| index.raw()).collect::<Vec<_>>()));
            for (name, value) in value.entries() {
                // padding of random characters
                if !name.is("obfuscation") {
                    add_complete(value, hash_of(&(names, &*name.string())), pieces, complete);
                }
            }
        }
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A path, or a short name for it.
fn bounded(path: String) -> String {
    if path.len() > PATH_BYTES_MAX { format!("#{:016x}", hash_of(&path)) } else { path }
}

fn of_chunk(chunk: Value<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    if chunk.get("choices").is_none() {
        return of_unknown(chunk, OF_STREAM);
    }
    for (name, value) in chunk.entries() {
        if name.is("choices") {
            for (number, choice) in (0..).zip(value.items()) {
                of_choice(choice, number, &mut pieces);
            }
        } else if !is_complete(&name.string()) && value.is_string() {
            let path = bounded(format!(".{}", name.string()));
            let lane = Lane { index: OF_STREAM, kind: Kind::Other, part: 0, path };
            pieces.texts.push((lane, value.range()));
        }
    }
    pieces
}

/// Adds the strings of an event that is none of the API's.
fn of_unknown(event: Value<'_>, index: u32) -> Pieces {
    let mut pieces = Pieces::default();
    add_fields(event, &Lane { index, kind: Kind::Other, part: 0, path: String::new() }, &mut pieces);
    pieces
}

fn of_choice(choice: Value<'_>, number: u32, pieces: &mut Pieces) {
    let index = index_of(choice, "index").unwrap_or(number);
    let has_delta = choice.get("delta").is_some_and(|delta| !delta.is_null());
    for (name, value) in choice.entries() {
        match &*name.string() {
            // some servers send an empty one with each piece
            "finish_reason" if value.is_string() && value.range().len() > EMPTY_BYTES => {
                pieces.ended.push(index)
            }
            // beside a piece it is the message so far, and in its place a piece
            "message" if has_delta => {}
            "delta" | "message" => {
                add(value, Lane { index, kind: Kind::Other, part: 0, path: String::new() }, pieces)
            }
            name if !is_complete(name) => {
                let kind = kind_of(name, Kind::Other);
                add(value, Lane { index, kind, part: 0, path: bounded(name.to_owned()) }, pieces);
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
            event.get("content_block").into_iter().for_each(|block| begin_block(block, index, &mut pieces));
        }
        Some("content_block_stop") => pieces.ended.push(index),
        Some("message_delta" | "message_stop" | "error") => pieces.ends_all = true,
        Some("message_start") => {
            let blocks = event.at(&["message", "content"]).into_iter().flat_map(Value::items);
            (0..).zip(blocks).for_each(|(number, block)| begin_block(block, number, &mut pieces));
        }
        Some("ping") => {}
        _ => return of_unknown(event, index),
    }
    pieces
}

fn of_response(event: Value<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    let index = index_of(event, "output_index").unwrap_or_default();
    let part = index_of(event, "content_index").or_else(|| index_of(event, "summary_index"));
    let part = part.unwrap_or_default();
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    if let (Some(text), Some(delta)) = (kind.strip_suffix(".delta"), event.get("delta")) {
        let lane = Lane { index, kind: kind_of_response(text), part, path: text.to_owned() };
        add(delta, lane, &mut pieces);
        return pieces;
    }
    if let Some(text) = kind.strip_suffix(".done") {
        pieces.ended.push(index);
        begin_part(event.get("part"), index, part, &mut pieces);
        begin_item(event.get("item"), index, &mut pieces);
        if let Some(value) = event.get("text").or(event.get("refusal")) {
            begin(
                value,
                Lane { index, kind: kind_of_response(text), part, path: text.to_owned() },
                &mut pieces,
            );
        }
        pieces.repeats = std::mem::take(&mut pieces.begins);
        return pieces;
    }
    match &*kind {
        "response.completed" | "response.incomplete" | "response.failed" | "error" => pieces.ends_all = true,
        "response.content_part.added" => begin_part(event.get("part"), index, part, &mut pieces),
        "response.reasoning_summary_part.added" => {
            let path = SUMMARY_PATH.to_owned();
            let lane = Lane { index, kind: Kind::Reasoning, part, path };
            event.at(&["part", "text"]).into_iter().for_each(|text| begin(text, lane.clone(), &mut pieces));
        }
        "response.output_item.added" => begin_item(event.get("item"), index, &mut pieces),
        kind if is_event_of_responses(kind) => {
            let items = event.at(&["response", "output"]).into_iter().flat_map(Value::items);
            (0..).zip(items).for_each(|(number, item)| begin_item(Some(item), number, &mut pieces));
        }
        _ => return of_unknown(event, index),
    }
    pieces
}

/// The kind of a text by the name of its events.
fn kind_of_response(text: &str) -> Kind {
    match text {
        "response.output_text" => Kind::Answer,
        "response.refusal" => Kind::Refusal,
        _ if text.ends_with("arguments") => Kind::Arguments,
        _ if text.starts_with("response.reasoning") => Kind::Reasoning,
        _ => Kind::Other,
    }
}

/// Whether an event of `/v1/responses` without a piece is one of the API's.
fn is_event_of_responses(kind: &str) -> bool {
    let states = [
        "created",
        "queued",
        "in_progress",
        "searching",
        "interpreting",
        "generating",
        "completed",
        "failed",
    ];
    let last = kind.rsplit('.').next().unwrap_or_default();
    kind.starts_with("response.") && (states.contains(&last) || matches!(last, "partial_image" | "added"))
}

/// Adds a text that further events continue, unless it is empty.
fn begin(value: Value<'_>, lane: Lane, pieces: &mut Pieces) {
    if value.is_string() && value.range().len() > EMPTY_BYTES {
        pieces.begins.push((lane, value.range()));
    }
}

/// Adds the texts with which a block begins.
fn begin_block(block: Value<'_>, index: u32, pieces: &mut Pieces) {
    for (name, value) in block.entries() {
        let name = name.string();
        if !is_complete(&name) {
            let kind = kind_of(&name, Kind::Other);
            let path = bounded(format!(".{name}"));
            begin(value, Lane { index, kind, part: 0, path }, pieces);
        }
    }
}

/// Adds the texts with which a part of an item begins.
fn begin_part(part: Option<Value<'_>>, index: u32, number: u32, pieces: &mut Pieces) {
    let Some(part) = part else { return };
    let (kind, path) = match part.get("type").and_then(Value::as_str).as_deref() {
        Some("reasoning_text") => (Kind::Reasoning, "response.reasoning_text"),
        Some("summary_text") => (Kind::Reasoning, SUMMARY_PATH),
        _ => (Kind::Answer, "response.output_text"),
    };
    for (name, value) in part.entries() {
        let (kind, path) = match &*name.string() {
            "text" => (kind, path),
            "refusal" => (Kind::Refusal, "response.refusal"),
            _ => continue,
        };
        begin(value, Lane { index, kind, part: number, path: path.to_owned() }, pieces);
    }
}

/// Adds the texts with which an item begins.
fn begin_item(item: Option<Value<'_>>, index: u32, pieces: &mut Pieces) {
    for (name, value) in item.into_iter().flat_map(Value::entries) {
        let name = name.string();
        let kind = match &*name {
            "arguments" => Kind::Arguments,
            // of tools that take a text, and of an interpreter
            "input" | "code" => Kind::Other,
            "content" | "summary" => {
                let parts = (0..).zip(value.items());
                parts.for_each(|(number, part)| begin_part(Some(part), index, number, pieces));
                continue;
            }
            _ => continue,
        };
        begin(value, Lane { index, kind, part: 0, path: name.into_owned() }, pieces);
    }
}

/// Adds the strings of a value that further events continue. `lane`: that of the value itself.
fn add(value: Value<'_>, lane: Lane, pieces: &mut Pieces) {
    let within =
        |kind: Kind, name: String| Lane { kind, path: bounded(format!("{}{name}", lane.path)), ..lane };
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
            add_fields(value, &lane, pieces);
        }
        JsonKind::Null | JsonKind::True | JsonKind::False | JsonKind::Number => {}
    }
}

/// Adds the strings of an object. `lane`: that of the object.
fn add_fields(object: Value<'_>, lane: &Lane, pieces: &mut Pieces) {
    for (name, value) in object.entries().map(|(key, value)| (key.string(), value)) {
        if matches!(&*name, "id" | "name" | "role" | "call_id" | "tool_call_id") && value.is_string() {
            pieces.once.push(value.range());
        } else if !is_complete(&name) {
            let path = bounded(format!("{}.{name}", lane.path));
            add(value, Lane { kind: kind_of(&name, lane.kind), path, ..*lane }, pieces);
        }
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
/// `texts`: where pieces begin, in order.
fn has_more(value: Value<'_>, field: &str, texts: &[usize]) -> bool {
    match value.kind() {
        JsonKind::Null => false,
        JsonKind::Plain | JsonKind::Escaped => {
            !is_repeated(field) && texts.binary_search(&value.range().start).is_err()
        }
        JsonKind::True | JsonKind::False | JsonKind::Number => !is_repeated(field),
        JsonKind::Array => value.items().any(|item| has_more(item, field, texts)),
        JsonKind::Object => value.entries().any(|(key, value)| {
            let name = key.string();
            // the id of the stream is repeated; that of a call is not
            let is_own_id = name == "id" && !field.is_empty();
            name != "id" && has_more(value, &name, texts) || is_own_id && !value.is_null()
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
    use serde_json::{Value as Json, json};

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
        let message = r#"{"choices":[{"index":1,"message":{"content":"a"},"delta":null}]}"#;
        assert_eq!(check(chat, message, &[(1, answer, "\"a\"")], false).texts[0].0.path, ".content");
        let beside = r#"{"choices":[{"index":1,"message":{"content":"ab"},"delta":{"content":"b"}}]}"#;
        check(chat, beside, &[(1, answer, "\"b\"")], true);
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
    fn texts_with_which_blocks_parts_and_items_begin_are_found_with_their_kind() {
        let check = |api: Api, data: Json, expected: &[(Kind, u32, &str)]| {
            let data = data.to_string();
            let found = pieces(api, &data);
            let begins: Vec<(Kind, u32, &str)> = found
                .begins
                .iter()
                .map(|(lane, place)| (lane.kind, lane.part, &data[place.clone()]))
                .collect();
            assert_eq!((begins.as_slice(), found.texts.len()), (expected, 0), "{data}");
        };
        let block = |block: Json| json!({"type": "content_block_start", "index": 0, "content_block": block});
        let thinking = json!({"type": "thinking", "thinking": "a", "signature": "s"});
        check(Api::Messages, block(thinking), &[(Kind::Reasoning, 0, "\"a\"")]);
        check(Api::Messages, block(json!({"type": "text", "text": "a"})), &[(Kind::Answer, 0, "\"a\"")]);
        check(Api::Messages, block(json!({"type": "text", "text": ""})), &[]);
        check(
            Api::Messages,
            block(json!({"type": "tool_use", "id": "t", "name": "f", "input": {"a": "b"}})),
            &[],
        );
        let part = |of: &str, part: Json| json!({"type": format!("response.{of}.added"), "content_index": 1, "part": part});
        let text = json!({"type": "output_text", "text": "a"});
        check(Api::Responses, part("content_part", text), &[(Kind::Answer, 1, "\"a\"")]);
        let refusal = json!({"type": "refusal", "refusal": "a"});
        check(Api::Responses, part("content_part", refusal), &[(Kind::Refusal, 1, "\"a\"")]);
        let text = json!({"type": "reasoning_text", "text": "a"});
        check(Api::Responses, part("content_part", text), &[(Kind::Reasoning, 1, "\"a\"")]);
        let text = json!({"type": "summary_text", "text": "a"});
        check(Api::Responses, part("reasoning_summary_part", text), &[(Kind::Reasoning, 1, "\"a\"")]);
        let item =
            |item: Json| json!({"type": "response.output_item.added", "output_index": 0, "item": item});
        let call = json!({"type": "function_call", "id": "i", "name": "f", "arguments": "{"});
        check(Api::Responses, item(call), &[(Kind::Arguments, 0, "\"{\"")]);
        let call = json!({"type": "custom_tool_call", "name": "f", "input": "a"});
        check(Api::Responses, item(call), &[(Kind::Other, 0, "\"a\"")]);
        let message = json!({"type": "message", "content": [{"type": "output_text", "text": "a"}]});
        check(Api::Responses, item(message), &[(Kind::Answer, 0, "\"a\"")]);
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
