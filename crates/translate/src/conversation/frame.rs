//! The frame of an event: what a text that is sent later needs around it.

use std::ops::Range;

use crate::json::{Edits, Kind, Value};

/// `""`, `[]` and `{}`.
const EMPTY_BYTES: usize = 2;

/// Changes that leave of an event what says to which text a piece belongs, so that its other values do not reach clients twice: they become null.
/// `text`: the place of the piece.
pub fn frame_of(event: Value<'_>, text: &Range<usize>) -> Edits {
    let mut edits = Edits::default();
    add_fields(event, text, true, &mut edits);
    edits
}

/// Adds the changes to a value with the text.
fn add(value: Value<'_>, text: &Range<usize>, edits: &mut Edits) {
    match value.kind() {
        Kind::Object => add_fields(value, text, false, edits),
        // clients may find an entry by its place
        Kind::Array => value.items().for_each(|item| add(item, text, edits)),
        Kind::Plain | Kind::Escaped if value.range() != *text => edits.replace_by_string(value.range(), ""),
        Kind::Null | Kind::True | Kind::False | Kind::Number | Kind::Plain | Kind::Escaped => {}
    }
}

fn add_fields(object: Value<'_>, text: &Range<usize>, is_event: bool, edits: &mut Edits) {
    let has_text = |value: Value<'_>| value.range().start <= text.start && text.end <= value.range().end;
    // an entry beside that of the text, whose objects clients may look into
    let is_beside = !has_text(object);
    for (name, value) in object.entries() {
        let place = value.range();
        let has_fields = matches!(value.kind(), Kind::Array | Kind::Object);
        if has_text(value) || is_beside && value.kind() == Kind::Object {
            add(value, text, edits);
        } else if !is_empty(value) && (has_fields || !is_kept(&name.string(), is_event)) {
            edits.replace(place, b"null".to_vec());
        }
    }
}

fn is_empty(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::Null | Kind::True | Kind::False => true,
        Kind::Plain | Kind::Escaped | Kind::Array | Kind::Object => value.raw().len() == EMPTY_BYTES,
        Kind::Number => false,
    }
}

/// Whether a field says what an event or one of its values is, or where it belongs. `is_event`: whether it is a field of the event itself.
fn is_kept(name: &str, is_event: bool) -> bool {
    match name {
        "id" | "object" | "created" | "model" => is_event,
        "type" | "index" | "item_id" | "sequence_number" => true,
        name => name.ends_with("_index"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::conversation::{Api, pieces_of};
    use crate::json::Tape;

    /// Of an event with one text, that of number `text`.
    fn check(api: Api, event: &Json, text: usize, expected: &Json) {
        let data = event.to_string();
        let tape = Tape::parse(data.as_bytes()).unwrap();
        let root = tape.root(data.as_bytes());
        let place = pieces_of(api, root).texts.swap_remove(text).1;
        let frame = frame_of(root, &place).apply(data.as_bytes());
        assert_eq!(serde_json::from_slice::<Json>(&frame).unwrap(), *expected, "{data}");
    }

    #[test]
    fn a_frame_says_where_a_text_belongs_and_nothing_else() {
        let call = json!({"index": 1, "id": "call", "type": "function", "function": {"name": "f", "arguments": "{"}, "extra_content": {"google": {"a": "s"}}});
        let delta = json!({"content": "a", "role": "assistant", "annotations": [{"type": "url_citation"}], "images": [], "tool_calls": [call]});
        let chunk = |delta: Json, usage: Json, provider: Json| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": null, "logprobs": usage});
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], "usage": usage, "provider": provider})
        };
        let event = chunk(delta, json!({"prompt_tokens": 3}), json!("p"));
        let content =
            json!({"content": "a", "role": null, "annotations": null, "images": [], "tool_calls": null});
        check(Api::ChatCompletions, &event, 0, &chunk(content, Json::Null, Json::Null));
        let call = json!({"index": 1, "id": null, "type": "function", "function": {"name": null, "arguments": "{"}, "extra_content": null});
        let calls =
            json!({"content": null, "role": null, "annotations": null, "images": [], "tool_calls": [call]});
        check(Api::ChatCompletions, &event, 1, &chunk(calls, Json::Null, Json::Null));
        let delta =
            json!({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "a"}});
        check(Api::Messages, &delta, 0, &delta);
        let delta = |padding: Json| {
            json!({"type": "response.output_text.delta", "item_id": "i", "output_index": 1, "content_index": 0, "sequence_number": 7, "delta": "a",
                "logprobs": [], "obfuscation": padding})
        };
        check(Api::Responses, &delta(json!("x")), 0, &delta(Json::Null));
    }

    #[test]
    fn entries_of_lists_keep_their_places() {
        let event = |first: Json, content: Json| json!({"choices": [{"delta": {"note": first}}, {"delta": {"content": content}}]});
        let whole = event(json!("a"), json!(["b", {"text": "c"}]));
        check(Api::ChatCompletions, &whole, 2, &event(Json::Null, json!(["", {"text": "c"}])));
    }
}
