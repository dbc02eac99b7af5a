//! The pieces of text in an event of a stream, where they stand, and which texts end by it. A piece is part of a text that further events continue;
//! every other string of an event is complete in itself.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::Api;
use crate::json::{Kind as JsonKind, Tape, Value};

/// Which text of the reply a piece belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The choice, block or item.
    pub index: u32,
    /// Its kind.
    pub kind: Kind,
    /// The part of an item; 0 where there are none.
    pub part: u32,
    /// The names to the text within the event.
    pub path: String,
}

/// A kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The model's answer.
    Answer,
    /// The model's reasoning before the answer.
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

/// The pieces of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Pieces of texts: the place of their JSON value in the event's data, quotes included.
    pub texts: Vec<(Lane, Range<usize>)>,
    /// Choices, blocks or items that end by this event.
    pub ended: Vec<u32>,
    /// Calls of tools that name themselves in this event, as index, path and id: one of another id at the same place has ended.
    pub calls: Vec<(u32, String, String)>,
    /// Those of arguments in entries of lists without an index, which are whole in most streams.
    pub unnumbered: Vec<Lane>,
    /// Numbers in place of texts. Some clients append them.
    pub numbers: Vec<Range<usize>>,
    /// All strings that are no pieces.
    pub complete: Vec<CompleteString>,
    /// Where pieces begin, in order, with a hash of names as of complete strings.
    pub names: Vec<(usize, u64)>,
    /// Texts with which a block, part or item begins and that further events continue, whose lane may have another path: the place of their JSON value.
    pub begins: Vec<(Lane, Range<usize>)>,
    /// Whole texts that earlier events had in pieces.
    pub repeats: Vec<(Lane, Range<usize>)>,
    /// Whether all texts end before this event.
    pub ends_all: bool,
    /// Whether there is more than pieces, so that the event is sent also when nothing of them can be.
    pub has_more: bool,
}

/// A string that is complete in its event. Some clients append what comes under the same names later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteString {
    /// A hash of the names to the value and of the indices beside it.
    pub names: u64,
    /// The place of its JSON value, quotes included.
    pub place: Range<usize>,
    /// Whether it is of an entry of a list with the index of one before, to which clients append it.
    pub is_of_same_entry: bool,
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
    add_strings(event, (0, false), &at, &mut pieces);
    pieces
}

/// Adds the strings of a value that are no pieces, and the names of those that are. `names`: the hash of the names to the value. `starts`: where pieces
/// begin, in order.
fn add_strings(
    value: Value<'_>,
    (names, is_of_same_entry): (u64, bool),
    starts: &[usize],
    pieces: &mut Pieces,
) {
    match value.kind() {
        JsonKind::Null | JsonKind::True | JsonKind::False | JsonKind::Number => {}
        JsonKind::Plain | JsonKind::Escaped => {
            let place = value.range();
            match starts.binary_search(&place.start) {
                Ok(_) => pieces.names.push((place.start, names)),
                Err(_) => pieces.complete.push(CompleteString { names, place, is_of_same_entry }),
            }
        }
        JsonKind::Array => {
            let mut seen = HashSet::new();
            for item in value.items() {
                let index = item.get("index").and_then(index_in);
                let is_of_same_entry = is_of_same_entry || index.is_some_and(|index| !seen.insert(index));
                add_strings(item, (names, is_of_same_entry), starts, pieces);
            }
        }
        JsonKind::Object => {
            // of a choice, block, call or item; any other may change while a client appends
            let is_index = |name: &str| matches!(name, "index" | "output_index");
            let indices = value.entries().filter(|(name, _)| is_index(&name.string()));
            let indices = indices.filter_map(|(_, index)| index_in(index));
            // most clients take none for the first
            let names = hash_of(&(names, indices.filter(|index| *index > 0).collect::<Vec<_>>()));
            for (name, value) in value.entries() {
                // padding of random characters
                if !name.is("obfuscation") {
                    let names = hash_of(&(names, &*name.string()));
                    add_strings(value, (names, is_of_same_entry), starts, pieces);
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
        let delta = Lane { index: OF_STREAM, kind: Kind::Other, part: 0, path: String::new() };
        add_unknown(chunk, &delta, &mut pieces);
        return pieces;
    }
    for (name, value) in chunk.entries() {
        if name.is("choices") {
            for (number, choice) in (0..).zip(value.items()) {
                of_choice(choice, number, &mut pieces);
            }
        } else if is_text(&name.string()) && value.is_string() {
            let name = name.string();
            let (kind, path) = (kind_of(&name, Kind::Other), format!(".{name}"));
            pieces.texts.push((Lane { index: OF_STREAM, kind, part: 0, path }, value.range()));
        }
    }
    pieces
}

/// Adds the strings of an event that is none of the API's. `delta`: the lane of its delta, which some clients read whatever the type.
fn add_unknown(event: Value<'_>, delta: &Lane, pieces: &mut Pieces) {
    let lane = Lane { kind: Kind::Other, part: 0, path: String::new(), ..*delta };
    let has_text = has_text(event);
    for (name, value) in event.entries() {
        if name.is("delta") {
            add_text(value, delta.clone(), pieces);
        } else {
            add_field(&name.string(), value, has_text, &lane, pieces);
        }
    }
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
            name if is_text(name) => {
                let kind = kind_of(name, Kind::Other);
                add_text(value, Lane { index, kind, part: 0, path: name.to_owned() }, pieces);
            }
            _ => {}
        }
    }
}

fn of_message(event: Value<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    let index = index_of(event, "index").unwrap_or_default();
    let lane = Lane { index, kind: Kind::Other, part: 0, path: String::new() };
    match event.get("type").and_then(Value::as_str).as_deref() {
        Some("content_block_delta" | "ping") => {}
        Some("content_block_start") => {
            event.get("content_block").into_iter().for_each(|block| begin_block(block, index, &mut pieces));
        }
        Some("content_block_stop") => pieces.ended.push(index),
        Some("message_delta" | "message_stop" | "error") => pieces.ends_all = true,
        Some("message_start") => {
            let blocks = event.at(&["message", "content"]).into_iter().flat_map(Value::items);
            (0..).zip(blocks).for_each(|(number, block)| begin_block(block, number, &mut pieces));
        }
        _ => {
            add_unknown(event, &lane, &mut pieces);
            return pieces;
        }
    }
    // some clients read it whatever the type
    event.get("delta").into_iter().for_each(|delta| add(delta, lane.clone(), &mut pieces));
    pieces
}

fn of_response(event: Value<'_>) -> Pieces {
    let mut pieces = Pieces::default();
    let index = index_of(event, "output_index").unwrap_or_default();
    let part = index_of(event, "content_index").or_else(|| index_of(event, "summary_index"));
    let part = part.unwrap_or_default();
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let name_of_text = kind.strip_suffix(".delta").unwrap_or("response.output_text");
    let lane = Lane { index, kind: kind_of_response(name_of_text), part, path: name_of_text.to_owned() };
    if let Some(delta) = event.get("delta") {
        add_text(delta, lane.clone(), &mut pieces);
        if kind.ends_with(".delta") {
            return pieces;
        }
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
        _ => {
            pieces = Pieces::default();
            add_unknown(event, &lane, &mut pieces);
        }
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
    match value.kind() {
        JsonKind::Plain | JsonKind::Escaped => pieces.texts.push((lane, value.range())),
        JsonKind::Array => {
            for (number, item) in (0..).zip(value.items()) {
                let index = index_of(item, "index");
                let at = index.unwrap_or(number);
                let path = bounded(format!("{}[{at}]", lane.path));
                let texts = pieces.texts.len();
                match lane.kind {
                    // clients that expect a string append the list as one
                    Kind::Answer | Kind::Refusal | Kind::Reasoning | Kind::Arguments if item.is_string() => {
                        add(item, lane.clone(), pieces);
                    }
                    _ => add(item, Lane { path, ..lane.clone() }, pieces),
                }
                if index.is_none() {
                    let calls = pieces.texts[texts..].iter().filter(|(lane, _)| lane.kind == Kind::Arguments);
                    pieces.unnumbered.extend(calls.map(|(lane, _)| lane.clone()));
                }
            }
        }
        JsonKind::Object => {
            if let Some(id) = value.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) {
                pieces.calls.push((lane.index, lane.path.clone(), id.into_owned()));
            }
            let has_text = has_text(value);
            for (name, value) in value.entries() {
                add_field(&name.string(), value, has_text, &lane, pieces);
            }
        }
        JsonKind::Null | JsonKind::True | JsonKind::False | JsonKind::Number => {}
    }
}

/// The same of a value that is a text by its name.
fn add_text(value: Value<'_>, lane: Lane, pieces: &mut Pieces) {
    match value.kind() {
        JsonKind::Number => pieces.numbers.push(value.range()),
        _ => add(value, lane, pieces),
    }
}

/// Adds the strings of a field. `has_text`: whether its object has a text by a name that is known: beside it, strings by other names describe it.
/// `lane`: that of the object.
fn add_field(name: &str, value: Value<'_>, has_text: bool, lane: &Lane, pieces: &mut Pieces) {
    let is_text = is_text(name);
    let is_attribute = has_text && value.is_string() && !is_text;
    if is_complete(name) || is_attribute {
        return;
    }
    let path = bounded(format!("{}.{name}", lane.path));
    let lane = Lane { kind: kind_of(name, lane.kind), path, ..*lane };
    if is_text { add_text(value, lane, pieces) } else { add(value, lane, pieces) }
}

fn has_text(object: Value<'_>) -> bool {
    object.entries().any(|(name, value)| is_text(&name.string()) && value.is_string())
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

/// Whether a name says that its value is a text in pieces.
fn is_text(name: &str) -> bool {
    kind_of(name, Kind::Other) != Kind::Other
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
            | "stop_sequence"
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
    index_in(value.get(name)?)?.try_into().ok()
}

/// The index that clients take a value for: `1.0` and `"1"` too.
fn index_in(value: Value<'_>) -> Option<u64> {
    let text = value.string();
    let number: f64 = match value.kind() {
        JsonKind::Number | JsonKind::Plain | JsonKind::Escaped => text.trim().parse().ok()?,
        JsonKind::Null | JsonKind::True | JsonKind::False | JsonKind::Array | JsonKind::Object => {
            return None;
        }
    };
    (number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX)).then_some(number as u64)
}

#[cfg(test)]
mod tests;
