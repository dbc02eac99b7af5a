//! Replies that the gateway makes in the shape of each API: a reply without a call of a model, and the events that end a stream.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Api, write_named};
use weir_sse::SseEvent;

/// The fields that all chunks of a stream repeat.
#[derive(Deserialize)]
pub struct ChunkHead {
    id: Value,
    created: Value,
    model: Value,
}

impl ChunkHead {
    /// That of the first event that has it. Other APIs than those of chunks have none.
    pub fn read(api: Api, events: &[u8]) -> Option<ChunkHead> {
        let has_chunks = matches!(api, Api::ChatCompletions | Api::Completions);
        let events = has_chunks.then(|| SseEvent::all(events))?;
        events.iter().find_map(|event| serde_json::from_slice(event.data()?).ok())
    }

    /// The fields of a chunk that continues a stream.
    pub(super) fn fields(head: Option<&ChunkHead>) -> Map<String, Value> {
        let Some(ChunkHead { id, created, model }) = head else { return Map::new() };
        let fields = [("id", id), ("created", created), ("model", model)];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }
}

/// The events that end a stream which a rule blocked: as a provider's own filter ends one. `head`: what its chunks repeat.
pub fn blocked_events(api: Api, head: Option<&ChunkHead>, rule: &str) -> String {
    let message = format!("the answer was blocked by the guardrail rule `{rule}`");
    match api {
        Api::ChatCompletions | Api::Completions | Api::Embeddings => {
            let (object, field, value) = match api == Api::Completions {
                true => ("text_completion", "text", json!("")),
                false => ("chat.completion.chunk", "delta", json!({})),
            };
            let choice = json!({"index": 0, field: value, "finish_reason": "content_filter"});
            let mut chunk = ChunkHead::fields(head);
            let fields = [
                ("object", json!(object)),
                ("choices", json!([choice])),
                ("weir", json!({"guardrail": rule})),
            ];
            chunk.extend(fields.map(|(name, value)| (name.to_owned(), value)));
            format!("data: {}\n\ndata: [DONE]\n\n", Value::Object(chunk))
        }
        Api::Messages | Api::CountTokens => named(&[
            json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_sequence": null},
                "usage": {"output_tokens": 0}, "weir": {"guardrail": rule}}),
            json!({"type": "message_stop"}),
        ]),
        Api::Responses => error_event(api, &message, "guardrail_blocked", false),
    }
}

/// The event by which a caller is informed that a stream broke.
pub fn error_event(api: Api, message: &str, code: &str, is_timeout: bool) -> String {
    match api {
        Api::Messages | Api::CountTokens => {
            let kind = if is_timeout { "timeout_error" } else { "api_error" };
            named(&[json!({"type": "error", "error": {"type": kind, "message": message}})])
        }
        Api::Responses => named(&[json!({"type": "error", "code": code, "message": message, "param": null})]),
        Api::ChatCompletions | Api::Completions | Api::Embeddings => {
            let error = json!({"message": message, "type": "server_error", "param": null, "code": code});
            format!("data: {}\n\n", json!({"error": error}))
        }
    }
}

/// A reply with this text, whole or as events: the body of a reply that no model was called for. `id`: unique. `created`: Unix seconds.
pub fn made_reply(api: Api, is_stream: bool, text: &str, id: &str, model: &str, created: u64) -> String {
    let made = Made { text, id, model, created };
    let events =
        |events: Vec<Value>| events.iter().map(|data| format!("data: {data}\n\n")).collect::<String>();
    match (api, is_stream) {
        (Api::ChatCompletions, false) => made.chat().to_string(),
        (Api::ChatCompletions, true) => format!("{}data: [DONE]\n\n", events(made.chat_events())),
        (Api::Completions | Api::Embeddings, false) => made.completion().to_string(),
        (Api::Completions | Api::Embeddings, true) => {
            format!("{}data: [DONE]\n\n", events(vec![made.completion()]))
        }
        (Api::Messages | Api::CountTokens, false) => made.message().to_string(),
        (Api::Messages | Api::CountTokens, true) => named(&made.message_events()),
        (Api::Responses, false) => made.response(true).to_string(),
        (Api::Responses, true) => named(&made.response_events()),
    }
}

/// Events that have their type as a name too.
fn named(events: &[Value]) -> String {
    let mut out = Vec::new();
    events.iter().for_each(|event| write_named(event, &mut out));
    String::from_utf8_lossy(&out).into_owned()
}

/// The parts of a reply.
#[derive(Clone, Copy)]
struct Made<'a> {
    text: &'a str,
    id: &'a str,
    model: &'a str,
    created: u64,
}

impl Made<'_> {
    fn chat(self) -> Value {
        let Made { id, model, created, .. } = self;
        let message = json!({"role": "assistant", "content": self.text});
        json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": created, "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}})
    }

    fn chat_events(self) -> Vec<Value> {
        let Made { id, model, created, .. } = self;
        let chunk = |delta: Value, finish: Value| {
            json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": created, "model": model,
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let delta = json!({"role": "assistant", "content": self.text});
        vec![chunk(delta, Value::Null), chunk(json!({}), json!("stop"))]
    }

    fn completion(self) -> Value {
        let Made { id, model, created, .. } = self;
        json!({"id": format!("cmpl-{id}"), "object": "text_completion", "created": created, "model": model,
            "choices": [{"index": 0, "text": self.text, "logprobs": null, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}})
    }

    fn message(self) -> Value {
        let Made { id, model, .. } = self;
        json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model,
            "content": [{"type": "text", "text": self.text}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 0, "output_tokens": 0}})
    }

    fn message_events(self) -> Vec<Value> {
        let mut begun = self.message();
        begun["content"] = json!([]);
        begun["stop_reason"] = Value::Null;
        vec![
            json!({"type": "message_start", "message": begun}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": self.text}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                "usage": {"output_tokens": 0}}),
            json!({"type": "message_stop"}),
        ]
    }

    fn response(self, is_complete: bool) -> Value {
        let Made { id, model, created, .. } = self;
        let output = if is_complete { json!([self.response_item(true)]) } else { json!([]) };
        json!({"id": format!("resp_{id}"), "object": "response", "created_at": created, "model": model,
            "status": response_status(is_complete), "error": null, "incomplete_details": null, "instructions": null,
            "metadata": {}, "output": output, "parallel_tool_calls": true, "temperature": null, "top_p": null,
            "tool_choice": "auto", "tools": [],
            "usage": {"input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
                "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0}})
    }

    fn response_item(self, is_complete: bool) -> Value {
        let Made { id, .. } = self;
        let content = if is_complete { json!([response_part(self.text)]) } else { json!([]) };
        json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "status": response_status(is_complete),
            "content": content})
    }

    fn response_events(self) -> Vec<Value> {
        let Made { id, .. } = self;
        let at = |name: &str, fields: Value| {
            let mut event =
                json!({"type": name, "item_id": format!("msg_{id}"), "output_index": 0, "content_index": 0});
            for (field, value) in fields.as_object().into_iter().flatten() {
                event[field] = value.clone();
            }
            event
        };
        let mut events = vec![
            json!({"type": "response.created", "response": self.response(false)}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": self.response_item(false)}),
            at("response.content_part.added", json!({"part": response_part("")})),
            at("response.output_text.delta", json!({"delta": self.text, "logprobs": []})),
            at("response.output_text.done", json!({"text": self.text, "logprobs": []})),
            at("response.content_part.done", json!({"part": response_part(self.text)})),
            json!({"type": "response.output_item.done", "output_index": 0, "item": self.response_item(true)}),
            json!({"type": "response.completed", "response": self.response(true)}),
        ];
        (0..)
            .zip(&mut events)
            .for_each(|(number, event): (u64, &mut Value)| event["sequence_number"] = number.into());
        events
    }
}

fn response_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn response_status(is_complete: bool) -> &'static str {
    if is_complete { "completed" } else { "in_progress" }
}
