//! Sources attached to a stream of a response. Its last events repeat the text, and events have numbers: both are changed with what is added.
//!
//! A text is known to be the answer when no call of a tool follows it. The events that end it are held until then, if a list is to be appended.

use serde_json::{Map, Value, json};

use super::answer::{Additions, annotate, is_call};
use super::cited_stream::Texts;
use super::{Api, write_named};

/// Most bytes of events that are held. Then the text gets no list.
const HELD_BYTES_MAX: usize = 4 << 20;

/// The additions so far.
pub(super) struct ResponseStream<R> {
    /// Events that were added, by which the numbers of further ones grow.
    added: u64,
    /// The citations of each part.
    annotations: Vec<(Part, Vec<Value>)>,
    /// The references of all texts.
    references: Vec<R>,
    has_call: bool,
    /// The events since a text ended.
    held: Vec<Value>,
    held_bytes: usize,
    /// The list, and the part that has it.
    list: Option<(Part, String)>,
}

/// An item of the response, and a part of it.
type Part = (u32, u32);

impl<R> Default for ResponseStream<R> {
    fn default() -> ResponseStream<R> {
        ResponseStream {
            added: 0,
            annotations: Vec::new(),
            references: Vec::new(),
            has_call: false,
            held: Vec::new(),
            held_bytes: 0,
            list: None,
        }
    }
}

impl<R> ResponseStream<R> {
    /// An event that is no piece of a text.
    pub(super) fn push(
        &mut self,
        event: &[u8],
        data: &str,
        additions: &mut impl Additions<Reference = R>,
        texts: &mut Texts,
        out: &mut Vec<u8>,
    ) {
        let Ok(value) = serde_json::from_str::<Value>(data) else { return out.extend_from_slice(event) };
        let kind = value["type"].as_str().unwrap_or_default();
        match kind {
            "response.output_item.added" => {
                let item = value["item"]["type"].as_str().unwrap_or_default();
                self.has_call |= is_call(item);
                if self.has_call || item == "message" {
                    self.release(out);
                }
            }
            "response.output_text.done" => {
                self.release(out);
                self.end_text(&value, additions, texts, out);
                if !self.has_call && additions.makes_lists() {
                    return self.hold(value, data.len());
                }
            }
            "response.completed" | "response.incomplete" => {
                self.append_list(additions, out);
                self.release(out);
                let fields = additions.fields(&self.references);
                return self.write(value, Some(fields), out);
            }
            "response.failed" | "error" => self.release(out),
            _ => {}
        }
        if !self.held.is_empty() {
            self.hold(value, data.len());
            if self.held_bytes > HELD_BYTES_MAX {
                self.release(out);
            }
            return;
        }
        self.write(value, None, out);
    }

    /// Sends what is held.
    pub(super) fn release(&mut self, out: &mut Vec<u8>) {
        self.held_bytes = 0;
        for value in std::mem::take(&mut self.held) {
            self.write(value, None, out);
        }
    }

    fn hold(&mut self, value: Value, bytes: usize) {
        self.held_bytes += bytes;
        self.held.push(value);
    }

    /// Sends the citations of a text that ends.
    fn end_text(
        &mut self,
        done: &Value,
        additions: &mut impl Additions<Reference = R>,
        texts: &mut Texts,
        out: &mut Vec<u8>,
    ) {
        let part = part_of(done);
        let (written, sent) = texts.both(part);
        let references = additions.references(written);
        let annotations = additions.annotations(sent, &references);
        for (index, annotation) in annotations.iter().enumerate() {
            let fields = json!({"annotation_index": index, "annotation": annotation});
            self.add("response.output_text.annotation.added", done, fields, out);
        }
        self.annotations.push((part, annotations));
        self.references.extend(references);
    }

    /// Sends the list as the last piece of the text whose end is held.
    fn append_list(&mut self, additions: &mut impl Additions<Reference = R>, out: &mut Vec<u8>) {
        let Some(done) = self.held.first().cloned() else { return };
        if let Some(list) = additions.list(&self.references) {
            self.add("response.output_text.delta", &done, json!({"delta": list, "logprobs": []}), out);
            self.list = Some((part_of(&done), list));
        }
    }

    /// Sends an event before `next`, at the same part.
    fn add(&mut self, kind: &str, next: &Value, fields: Value, out: &mut Vec<u8>) {
        let mut event = json!({"type": kind});
        for field in ["item_id", "output_index", "content_index"] {
            event[field] = next[field].clone();
        }
        if let Some(number) = next["sequence_number"].as_u64() {
            event["sequence_number"] = number.saturating_add(self.added).into();
            self.added += 1;
        }
        if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        write_named(&event, out);
    }

    /// Sends an event with its number, and what is added to the texts that it repeats. `fields`: for the last event, which has the response.
    fn write(&self, mut value: Value, fields: Option<Map<String, Value>>, out: &mut Vec<u8>) {
        if let Some(number) = value["sequence_number"].as_u64() {
            value["sequence_number"] = number.saturating_add(self.added).into();
        }
        let part = part_of(&value);
        match value["type"].as_str() {
            Some("response.output_text.done") => self.append_to(&mut value, part),
            Some("response.content_part.done") => self.complete(&mut value["part"], part),
            Some("response.output_item.done") => self.complete_item(&mut value["item"], part.0),
            Some("response.completed" | "response.incomplete" | "response.failed") => {
                for (index, item) in
                    (0..).zip(value["response"]["output"].as_array_mut().into_iter().flatten())
                {
                    self.complete_item(item, index);
                }
                if let (Some(fields), Some(response)) = (fields, value["response"].as_object_mut()) {
                    response.extend(fields);
                }
            }
            _ => {}
        }
        write_named(&value, out);
    }

    fn complete_item(&self, item: &mut Value, index: u32) {
        for (number, part) in (0..).zip(item["content"].as_array_mut().into_iter().flatten()) {
            self.complete(part, (index, number));
        }
    }

    fn complete(&self, part: &mut Value, at: Part) {
        if part["type"] != "output_text" {
            return;
        }
        if let Some((_, annotations)) = self.annotations.iter().find(|(part, _)| *part == at) {
            annotate(Api::Responses, part, annotations.clone());
        }
        self.append_to(part, at);
    }

    fn append_to(&self, object: &mut Value, at: Part) {
        if let Some((_, list)) = self.list.as_ref().filter(|(part, _)| *part == at) {
            object["text"] = format!("{}{list}", object["text"].as_str().unwrap_or_default()).into();
        }
    }
}

fn part_of(event: &Value) -> Part {
    let number = |field: &str| event[field].as_u64().and_then(|number| u32::try_from(number).ok());
    (number("output_index").unwrap_or_default(), number("content_index").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_event_is_its_item_and_part() {
        assert_eq!(part_of(&json!({"output_index": 2, "content_index": 1})), (2, 1));
        assert_eq!(part_of(&json!({"type": "response.completed"})), (0, 0));
    }
}
