//! The pieces of text in an event of a stream, where they stand, and which texts end by it. Events are read without building trees.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Api;

/// Which text of the reply a piece belongs to: the choice, block or item, the kind of text, and the call of a tool or the part.
pub(crate) type Lane = (u32, Kind, u32);

/// A kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Answer,
    Reasoning,
    Refusal,
    Arguments,
}

/// What an event has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Pieces of texts: the place of their JSON value in the event's data, quotes included.
    pub(crate) texts: Vec<(Lane, Range<usize>)>,
    /// Choices, blocks or items that end by this event.
    pub(crate) ended: Vec<u32>,
    /// Whether all texts end before this event.
    pub(crate) ends_all: bool,
    /// Whether there is more than pieces, so that the event is sent also when nothing of them can be.
    pub(crate) has_more: bool,
    /// Whether the event repeats whole texts.
    pub(crate) repeats: bool,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    role: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageEvent<'a> {
    r#type: &'a str,
    #[serde(default)]
    index: u32,
    #[serde(borrow)]
    delta: Option<MessageDelta<'a>>,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResponseEvent<'a> {
    r#type: &'a str,
    #[serde(default)]
    output_index: u32,
    #[serde(default)]
    content_index: u32,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
}

/// The pieces of an event's data. Data that is not what the API describes has none.
pub(crate) fn pieces(api: Api, data: &str) -> Pieces {
    if data.trim() == "[DONE]" {
        return Pieces { ends_all: true, has_more: true, ..Pieces::default() };
    }
    let read = match api {
        Api::ChatCompletions | Api::Completions | Api::Embeddings => of_chunk(data),
        Api::Messages | Api::CountTokens => of_message(data),
        Api::Responses => of_response(data),
    };
    read.unwrap_or_else(|_| Pieces { has_more: true, repeats: true, ..Pieces::default() })
}

fn of_chunk(data: &str) -> serde_json::Result<Pieces> {
    let chunk: Chunk<'_> = serde_json::from_str(data)?;
    let mut pieces =
        Pieces { has_more: chunk.choices.is_empty() || chunk.usage.is_some(), ..Pieces::default() };
    for choice in chunk.choices {
        let index = choice.index;
        let mut add = |kind: Kind, number: u32, value: Option<&RawValue>| {
            let value = value.filter(|value| value.get().starts_with('"'));
            pieces.texts.extend(value.map(|value| ((index, kind, number), range_of(data, value))));
        };
        add(Kind::Answer, 0, choice.text);
        let mut has_more = choice.finish_reason.is_some();
        if let Some(delta) = choice.delta {
            has_more |= delta.role.is_some();
            add(Kind::Answer, 0, delta.content);
            add(Kind::Reasoning, 0, delta.reasoning_content);
            add(Kind::Reasoning, 1, delta.reasoning);
            add(Kind::Refusal, 0, delta.refusal);
            for call in delta.tool_calls.unwrap_or_default() {
                has_more |= call.id.is_some();
                add(Kind::Arguments, call.index, call.function.and_then(|function| function.arguments));
            }
        }
        if choice.finish_reason.is_some() {
            pieces.ended.push(index);
        }
        pieces.has_more |= has_more;
    }
    pieces.has_more |= pieces.texts.is_empty();
    Ok(pieces)
}

fn of_message(data: &str) -> serde_json::Result<Pieces> {
    let event: MessageEvent<'_> = serde_json::from_str(data)?;
    let mut pieces = Pieces::default();
    match event.r#type {
        "content_block_delta" => {
            let delta = event.delta;
            let mut add = |kind: Kind, value: Option<&RawValue>| {
                let value = value.filter(|value| value.get().starts_with('"'));
                pieces.texts.extend(value.map(|value| ((event.index, kind, 0), range_of(data, value))));
            };
            if let Some(delta) = delta {
                add(Kind::Answer, delta.text);
                add(Kind::Reasoning, delta.thinking);
                add(Kind::Arguments, delta.partial_json);
            }
        }
        "content_block_stop" => pieces.ended.push(event.index),
        "message_delta" | "message_stop" | "error" => pieces.ends_all = true,
        "content_block_start" => pieces.repeats = true,
        _ => {}
    }
    pieces.has_more = pieces.texts.is_empty();
    Ok(pieces)
}

fn of_response(data: &str) -> serde_json::Result<Pieces> {
    let event: ResponseEvent<'_> = serde_json::from_str(data)?;
    let kind = match event.r#type {
        "response.function_call_arguments.delta" => Kind::Arguments,
        "response.refusal.delta" => Kind::Refusal,
        name if name.starts_with("response.reasoning") => Kind::Reasoning,
        _ => Kind::Answer,
    };
    let delta = event.delta.filter(|delta| event.r#type.ends_with(".delta") && delta.get().starts_with('"'));
    if let Some(delta) = delta {
        let texts = vec![((event.output_index, kind, event.content_index), range_of(data, delta))];
        return Ok(Pieces { texts, ..Pieces::default() });
    }
    let mut pieces = Pieces { has_more: true, repeats: true, ..Pieces::default() };
    match event.r#type {
        name if name.ends_with(".done") => pieces.ended.push(event.output_index),
        "response.completed" | "response.incomplete" | "response.failed" | "error" => pieces.ends_all = true,
        _ => {}
    }
    Ok(pieces)
}

/// Where a value that was read without a copy stands in the data.
fn range_of(data: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - data.as_ptr().addr();
    start..start + value.get().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(api: Api, data: &str, expected: &[(Lane, &str)], has_more: bool) -> Pieces {
        let found = pieces(api, data);
        let seen: Vec<(Lane, &str)> =
            found.texts.iter().map(|(lane, range)| (*lane, &data[range.clone()])).collect();
        assert_eq!((seen.as_slice(), found.has_more), (expected, has_more), "{data}");
        found
    }

    #[test]
    fn the_pieces_of_each_api_are_found() {
        let chat = Api::ChatCompletions;
        let answer = (1, Kind::Answer, 0);
        check(
            chat,
            r#"{"choices":[{"index":1,"delta":{"content":"a\"b"},"finish_reason":null}]}"#,
            &[(answer, r#""a\"b""#)],
            false,
        );
        let first = r#"{"choices":[{"index":1,"delta":{"role":"assistant","content":""}}]}"#;
        check(chat, first, &[(answer, "\"\"")], true);
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":2,"function":{"arguments":"{"}}]}}]}"#;
        check(chat, call, &[((0, Kind::Arguments, 2), "\"{\"")], false);
        let end = check(chat, r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#, &[], true);
        assert_eq!(end.ended, [1]);
        assert!(check(chat, "[DONE]", &[], true).ends_all);
        check(Api::Completions, r#"{"choices":[{"index":1,"text":"a"}]}"#, &[(answer, "\"a\"")], false);
        let delta = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}"#;
        check(Api::Messages, delta, &[(answer, "\"a\"")], false);
        check(
            Api::Messages,
            r#"{"type":"content_block_delta","delta":{"text":null,"thinking":1}}"#,
            &[],
            true,
        );
        assert_eq!(check(Api::Messages, r#"{"type":"content_block_stop","index":1}"#, &[], true).ended, [1]);
        let delta = r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"a"}"#;
        check(Api::Responses, delta, &[(answer, "\"a\"")], false);
        assert!(check(Api::Responses, r#"{"type":"response.completed","response":{}}"#, &[], true).ends_all);
        assert!(check(chat, "no json", &[], true).repeats);
    }
}
