//! The frame of an event: what a text that is sent later needs around it.

use std::ops::Range;

use crate::json::{Edits, Kind, Value, write_string};

/// `""`, `[]` and `{}`.
const EMPTY_BYTES: usize = 2;

/// An event that has these texts in the places of its pieces, and of its other values only what says to which texts they belong: no other value
/// reaches a client twice. `edits`: changes to the event. `texts`: in the order of their places.
pub fn frame(event: Value<'_>, edits: &Edits, texts: &[(Range<usize>, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    Frame { edits, texts }.write_object(event, true, &mut out);
    out
}

/// The number of an event in its stream, where events have one, and its place.
pub fn sequence_number(event: Value<'_>) -> Option<(u64, Range<usize>)> {
    let number = event.get("sequence_number")?;
    Some((number.as_u64()?, number.range()))
}

struct Frame<'a> {
    edits: &'a Edits,
    texts: &'a [(Range<usize>, String)],
}

impl Frame<'_> {
    /// The first text in a value.
    fn text_in(&self, value: Value<'_>) -> Option<&(Range<usize>, String)> {
        let place = value.range();
        let next = self.texts.partition_point(|(text, _)| text.start < place.start);
        self.texts.get(next).filter(|(text, _)| text.end <= place.end)
    }

    /// Writes a value with a text.
    fn write(&self, value: Value<'_>, out: &mut Vec<u8>) {
        match (value.kind(), self.text_in(value)) {
            (Kind::Object, _) => self.write_object(value, false, out),
            (Kind::Array, _) => self.write_list(value, out),
            (_, Some((_, text))) => write_string(out, text),
            (_, None) => out.extend_from_slice(b"null"),
        }
    }

    fn write_object(&self, object: Value<'_>, is_event: bool, out: &mut Vec<u8>) {
        // an entry beside that of a text, whose objects clients may look into
        let is_beside = self.text_in(object).is_none();
        out.push(b'{');
        for (number, (name, value)) in object.entries().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            self.write_as_it_is(name, out);
            out.push(b':');
            let is_scalar = !matches!(value.kind(), Kind::Array | Kind::Object);
            if self.text_in(value).is_some() || is_beside && value.kind() == Kind::Object {
                self.write(value, out);
            } else if is_empty(value) || is_scalar && is_kept(&name.string(), is_event) {
                self.write_as_it_is(value, out);
            } else {
                out.extend_from_slice(b"null");
            }
        }
        out.push(b'}');
    }

    /// Entries with an index are found by it, and others by their place, so that those before them stay.
    fn write_list(&self, list: Value<'_>, out: &mut Vec<u8>) {
        let has_text = |item: &Value<'_>| self.text_in(*item).is_some();
        let is_numbered = list.items().filter(has_text).all(|item| item.get("index").is_some());
        let last = list.items().filter(has_text).last().map(|item| item.range().start).unwrap_or_default();
        let items = list.items().take_while(|item| item.range().start <= last);
        out.push(b'[');
        for (number, item) in items.filter(|item| !is_numbered || has_text(item)).enumerate() {
            if number > 0 {
                out.push(b',');
            }
            match item.kind() {
                Kind::Plain | Kind::Escaped if !has_text(&item) => out.extend_from_slice(b"\"\""),
                Kind::Array if !has_text(&item) => out.extend_from_slice(b"[]"),
                _ => self.write(item, out),
            }
        }
        out.push(b']');
    }

    fn write_as_it_is(&self, value: Value<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.edits.get(&value.range()).unwrap_or(value.raw()));
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
    use crate::json::{Tape, unescaped};

    /// The frame of the texts of these numbers.
    fn check(api: Api, event: &Json, texts: &[usize], expected: &Json) {
        let data = event.to_string();
        let tape = Tape::parse(data.as_bytes()).unwrap();
        let root = tape.root(data.as_bytes());
        let texts =
            pieces_of(api, root).texts.into_iter().enumerate().filter(|(number, _)| texts.contains(number));
        let texts: Vec<_> = texts
            .map(|(_, (_, place))| (place.clone(), unescaped(&data.as_bytes()[place]).unwrap()))
            .collect();
        let frame = frame(root, &Edits::default(), &texts);
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
        check(Api::ChatCompletions, &event, &[0], &chunk(content, Json::Null, Json::Null));
        let call = json!({"index": 1, "id": null, "type": "function", "function": {"name": null, "arguments": "{"}, "extra_content": null});
        let calls =
            json!({"content": null, "role": null, "annotations": null, "images": [], "tool_calls": [call]});
        check(Api::ChatCompletions, &event, &[1], &chunk(calls, Json::Null, Json::Null));
        let delta =
            json!({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "a"}});
        check(Api::Messages, &delta, &[0], &delta);
        let delta = |padding: Json| {
            json!({"type": "response.output_text.delta", "item_id": "i", "output_index": 1, "content_index": 0, "sequence_number": 7, "delta": "a",
                "logprobs": [], "obfuscation": padding})
        };
        check(Api::Responses, &delta(json!("x")), &[0], &delta(Json::Null));
    }

    #[test]
    fn entries_with_an_index_stand_alone_and_texts_together() {
        let call = |index: u32, id: Json| json!({"index": index, "id": id, "function": {"arguments": "{"}});
        let event = |content: Json, calls: Json| json!({"choices": [{"index": 3, "delta": {"content": content, "tool_calls": calls}}]});
        let (a, b) = (call(0, json!("a")), call(1, json!("b")));
        let whole = event(json!("c"), json!([a, b]));
        check(Api::ChatCompletions, &whole, &[2], &event(Json::Null, json!([call(1, Json::Null)])));
        let calls = json!([call(0, Json::Null), call(1, Json::Null)]);
        check(Api::ChatCompletions, &whole, &[0, 1, 2], &event(json!("c"), calls));
    }

    #[test]
    fn entries_of_lists_keep_their_places() {
        let event = |first: Json, content: Json| json!({"choices": [{"delta": {"note": first}}, {"delta": {"content": content}}]});
        let whole = event(json!("a"), json!(["b", {"text": "c"}]));
        check(Api::ChatCompletions, &whole, &[2], &event(Json::Null, json!(["", {"text": "c"}])));
    }
}
