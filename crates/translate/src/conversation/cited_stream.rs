//! The sources of an answer, attached to a stream: what is known when a text ends is sent before the event that ends it.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::answer::{Additions, annotate};
use super::cited_response::ResponseStream;
use super::made::ChunkHead;
use super::pieces::{Kind, Lane, Pieces, pieces};
use super::{Api, write_named};
use crate::json::unescaped;
use weir_sse::SseEvent;

/// Attaches sources to the events of one stream.
pub struct CitedStream<A: Additions> {
    api: Api,
    additions: A,
    texts: Texts,
    /// Choices that call a tool; 0 where there are no choices.
    calls: Vec<u32>,
    /// Blocks of a message so far.
    blocks: u64,
    /// Of a message: whether its end was seen.
    is_ended: bool,
    response: ResponseStream<A::Reference>,
}

/// The texts of an answer, by choice, block, or item and part.
#[derive(Default)]
pub(super) struct Texts(Vec<Text>);

struct Text {
    lane: (u32, u32),
    /// As the model wrote it.
    written: String,
    /// As the caller gets it.
    sent: String,
}

impl Texts {
    fn at(&mut self, lane: (u32, u32)) -> &mut Text {
        let found = self.0.iter().position(|text| text.lane == lane);
        let index = found.unwrap_or_else(|| {
            self.0.push(Text { lane, written: String::new(), sent: String::new() });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// The text as it was written, and as it was sent.
    pub(super) fn both(&mut self, lane: (u32, u32)) -> (&str, &str) {
        let text = self.at(lane);
        (&text.written, &text.sent)
    }
}

impl<A: Additions> CitedStream<A> {
    /// Before the first event.
    pub fn new(api: Api, additions: A) -> CitedStream<A> {
        CitedStream {
            api,
            additions,
            texts: Texts::default(),
            calls: Vec::new(),
            blocks: 0,
            is_ended: false,
            response: ResponseStream::default(),
        }
    }

    /// The additions.
    pub fn additions(&self) -> &A {
        &self.additions
    }

    /// Takes in the answer as it was written.
    pub fn read(&mut self, events: &[u8]) {
        for event in SseEvent::all(events) {
            let data = event.text().unwrap_or_default();
            for (Lane { index, kind, part, .. }, range) in pieces(self.api, data).texts {
                if kind == Kind::Answer {
                    let text = unescaped(&data.as_bytes()[range]).unwrap_or_default();
                    self.texts.at((index, part)).written.push_str(&text);
                }
            }
        }
    }

    /// The events that are sent for whole events. `head`: what the chunks of the stream repeat.
    pub fn push(&mut self, events: &[u8], head: Option<&ChunkHead>) -> Bytes {
        let mut out = Vec::with_capacity(events.len());
        for event in SseEvent::all(events) {
            self.push_event(&event, head, &mut out);
        }
        out.into()
    }

    /// The held events of a stream that ends without its last event.
    pub fn end(&mut self) -> Bytes {
        let mut out = Vec::new();
        self.response.release(&mut out);
        out.into()
    }

    fn push_event(&mut self, event: &SseEvent, head: Option<&ChunkHead>, out: &mut Vec<u8>) {
        let Some(data) = event.text() else { return out.extend_from_slice(event.raw()) };
        let event = event.raw();
        let found = pieces(self.api, data);
        for (Lane { index, kind, part, .. }, range) in &found.texts {
            match kind {
                Kind::Answer => {
                    let text = unescaped(&data.as_bytes()[range.clone()]).unwrap_or_default();
                    self.texts.at((*index, *part)).sent.push_str(&text);
                }
                Kind::Arguments => self.calls.push(if self.has_choices() { *index } else { 0 }),
                Kind::Reasoning | Kind::Refusal | Kind::Other => {}
            }
        }
        self.calls.dedup();
        // the events of messages and responses without a piece begin, end or repeat texts
        let is_more = !self.has_choices() && found.texts.is_empty();
        let is_looked_at = found.ends_all || is_more || !found.ended.is_empty();
        if !is_looked_at {
            return out.extend_from_slice(event);
        }
        match self.api {
            Api::ChatCompletions | Api::Completions | Api::Embeddings => {
                self.push_chunk(event, data, &found, head, out)
            }
            Api::Messages | Api::CountTokens => self.push_message(event, data, out),
            Api::Responses => {
                let CitedStream { additions, texts, response, .. } = self;
                response.push(event, data, additions, texts, out);
            }
        }
    }

    fn has_choices(&self) -> bool {
        matches!(self.api, Api::ChatCompletions | Api::Completions)
    }

    /// A chunk that ends choices, or the end of the stream.
    fn push_chunk(
        &mut self,
        event: &[u8],
        data: &str,
        found: &Pieces,
        head: Option<&ChunkHead>,
        out: &mut Vec<u8>,
    ) {
        if found.ends_all {
            let (written, _) = self.texts.both((0, 0));
            let references = self.additions.references(written);
            for item in self.additions.source_events() {
                let fields = json!({"event": {"type": "source", "data": item}});
                self.write_chunk(0, Map::new(), fields, head, out);
            }
            let fields = Value::Object(self.additions.fields(&references));
            self.write_chunk(0, Map::new(), fields, head, out);
            return out.extend_from_slice(event);
        }
        let mut chunk: Value = serde_json::from_str(data).unwrap_or_default();
        let mut is_edited = false;
        for choice in &found.ended {
            let Some(ended) = chunk["choices"].as_array_mut().and_then(|choices| {
                choices.iter_mut().find(|one| one["index"].as_u64().unwrap_or_default() == u64::from(*choice))
            }) else {
                continue;
            };
            let has_call = self.calls.contains(choice)
                || matches!(ended["finish_reason"].as_str(), Some("tool_calls" | "function_call"));
            let Some(delta) = self.last_delta(*choice, has_call) else { continue };
            match text_at_end(self.api, ended) {
                Some(text) => {
                    append(text, &delta);
                    if let Some(annotations) = delta.get("annotations").and_then(Value::as_array) {
                        annotate(self.api, &mut ended["delta"], annotations.clone());
                    }
                    is_edited = true;
                }
                None => self.write_chunk(*choice, delta, json!({}), head, out),
            }
        }
        match is_edited {
            true => out.extend_from_slice(format!("data: {chunk}\n\n").as_bytes()),
            false => out.extend_from_slice(event),
        }
    }

    /// The addition to a choice before it ends; `None`: nothing.
    fn last_delta(&mut self, choice: u32, has_call: bool) -> Option<Map<String, Value>> {
        let (written, sent) = self.texts.both((choice, 0));
        let references = self.additions.references(written);
        let annotations = self.additions.annotations(sent, &references);
        let list = if has_call { None } else { self.additions.list(&references) };
        let mut delta = Map::new();
        if let Some(list) = list {
            delta.insert("content".to_owned(), list.into());
        }
        if !annotations.is_empty() {
            delta.insert("annotations".to_owned(), annotations.into());
        }
        (!delta.is_empty()).then_some(delta)
    }

    fn write_chunk(
        &self,
        choice: u32,
        delta: Map<String, Value>,
        fields: Value,
        head: Option<&ChunkHead>,
        out: &mut Vec<u8>,
    ) {
        let mut chunk = ChunkHead::fields(head);
        // clients read the first choice of every chunk, but of one that they asked for
        let (object, choice) = if self.api == Api::Completions {
            let text = delta.get("content").cloned().unwrap_or_else(|| json!(""));
            (
                "text_completion",
                json!({"index": choice, "text": text, "logprobs": null, "finish_reason": null}),
            )
        } else {
            ("chat.completion.chunk", json!({"index": choice, "delta": delta, "finish_reason": null}))
        };
        chunk.insert("object".to_owned(), json!(object));
        chunk.insert("choices".to_owned(), json!([choice]));
        if let Value::Object(fields) = fields {
            chunk.extend(fields);
        }
        out.extend_from_slice(format!("data: {}\n\n", Value::Object(chunk)).as_bytes());
    }

    /// An event of a message that is more than a piece of a text.
    fn push_message(&mut self, event: &[u8], data: &str, out: &mut Vec<u8>) {
        let mut value: Value = serde_json::from_str(data).unwrap_or_default();
        let index = value["index"].as_u64().unwrap_or_default();
        match value["type"].as_str() {
            Some("content_block_start") => {
                self.blocks = self.blocks.max(index.saturating_add(1));
                if value["content_block"]["type"] == "tool_use" {
                    self.calls.push(0);
                }
            }
            Some("content_block_stop") => {
                let lane = (u32::try_from(index).unwrap_or(u32::MAX), 0);
                let (written, sent) = self.texts.both(lane);
                let references = self.additions.references(written);
                for citation in self.additions.annotations(sent, &references) {
                    let delta = json!({"type": "citations_delta", "citation": citation});
                    let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
                    write_named(&event, out);
                }
            }
            Some("message_delta") if !self.is_ended => {
                self.is_ended = true;
                let references = self.all_references();
                let has_call = !self.calls.is_empty() || value["delta"]["stop_reason"] == "tool_use";
                if !has_call && let Some(list) = self.additions.list(&references) {
                    let block = json!({"type": "text", "text": ""});
                    let delta = json!({"type": "text_delta", "text": list});
                    let at = self.blocks;
                    for event in [
                        json!({"type": "content_block_start", "index": at, "content_block": block}),
                        json!({"type": "content_block_delta", "index": at, "delta": delta}),
                        json!({"type": "content_block_stop", "index": at}),
                    ] {
                        write_named(&event, out);
                    }
                }
                let fields = self.additions.fields(&references);
                value.as_object_mut().into_iter().for_each(|value| value.extend(fields.clone()));
                return write_named(&value, out);
            }
            _ => {}
        }
        out.extend_from_slice(event);
    }

    /// The references of all blocks of a message.
    fn all_references(&self) -> Vec<A::Reference> {
        self.texts.0.iter().flat_map(|text| self.additions.references(&text.written)).collect()
    }
}

/// The text of a choice in the chunk that ends it, if it has one there.
fn text_at_end(api: Api, choice: &mut Value) -> Option<&mut Value> {
    let text = if api == Api::Completions {
        choice.get_mut("text")
    } else {
        choice.get_mut("delta").and_then(|delta| delta.get_mut("content"))
    };
    text.filter(|text| text.as_str().is_some_and(|text| !text.is_empty()))
}

fn append(text: &mut Value, delta: &Map<String, Value>) {
    let list = delta.get("content").and_then(Value::as_str).unwrap_or_default();
    *text = format!("{}{list}", text.as_str().unwrap_or_default()).into();
}
