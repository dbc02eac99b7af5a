//! The reply to a question for which nothing was found, in each API. No model is called for it.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use crate::Api;
use crate::augment::NOTHING_FOUND;
use crate::cache::Kept;
use crate::request::Request;
use crate::settlement::unix_now;

/// The reply to a question for which nothing was found.
pub(crate) fn nothing_found(api: Api, request: &Request) -> Kept {
    let id = format!("{:032x}", rand::random::<u128>());
    let (model, created) = (&*request.model, unix_now() as u64);
    let events =
        |events: Vec<Value>| events.iter().map(|data| format!("data: {data}\n\n")).collect::<String>();
    let body = match (api, request.is_stream) {
        (Api::ChatCompletions, false) => chat(&id, model, created).to_string(),
        (Api::ChatCompletions, true) => {
            format!("{}data: [DONE]\n\n", events(chat_events(&id, model, created)))
        }
        (Api::Completions, false) => completion(&id, model, created).to_string(),
        (Api::Completions, true) => {
            format!("{}data: [DONE]\n\n", events(vec![completion(&id, model, created)]))
        }
        (Api::Messages | Api::CountTokens, false) => message(&id, model).to_string(),
        (Api::Messages | Api::CountTokens, true) => named(&message_events(&id, model)),
        (Api::Responses, false) => response(&id, model, created, true).to_string(),
        (Api::Responses, true) => named(&response_events(&id, model, created)),
    };
    let media = if request.is_stream { "text/event-stream" } else { "application/json" };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media))]);
    Kept { body: body.into(), headers, usage: Default::default(), cost_nanos: 0 }
}

/// Events that have their type as a name too.
fn named(events: &[Value]) -> String {
    let event =
        |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default());
    events.iter().map(event).collect()
}

fn chat(id: &str, model: &str, created: u64) -> Value {
    let message = json!({"role": "assistant", "content": NOTHING_FOUND});
    json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": created, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}})
}

fn chat_events(id: &str, model: &str, created: u64) -> Vec<Value> {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": created, "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let delta = json!({"role": "assistant", "content": NOTHING_FOUND});
    vec![chunk(delta, Value::Null), chunk(json!({}), json!("stop"))]
}

fn completion(id: &str, model: &str, created: u64) -> Value {
    json!({"id": format!("cmpl-{id}"), "object": "text_completion", "created": created, "model": model,
        "choices": [{"index": 0, "text": NOTHING_FOUND, "logprobs": null, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}})
}

fn message(id: &str, model: &str) -> Value {
    json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model,
        "content": [{"type": "text", "text": NOTHING_FOUND}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 0, "output_tokens": 0}})
}

fn message_events(id: &str, model: &str) -> Vec<Value> {
    let mut begun = message(id, model);
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    vec![
        json!({"type": "message_start", "message": begun}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": NOTHING_FOUND}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 0}}),
        json!({"type": "message_stop"}),
    ]
}

fn response(id: &str, model: &str, created: u64, is_complete: bool) -> Value {
    let output = if is_complete { json!([response_item(id, true)]) } else { json!([]) };
    json!({"id": format!("resp_{id}"), "object": "response", "created_at": created, "model": model,
        "status": response_status(is_complete), "error": null, "incomplete_details": null, "instructions": null,
        "metadata": {}, "output": output, "parallel_tool_calls": true, "temperature": null, "top_p": null,
        "tool_choice": "auto", "tools": [],
        "usage": {"input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0}})
}

fn response_item(id: &str, is_complete: bool) -> Value {
    let content = if is_complete { json!([response_part(NOTHING_FOUND)]) } else { json!([]) };
    json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "status": response_status(is_complete),
        "content": content})
}

fn response_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn response_status(is_complete: bool) -> &'static str {
    if is_complete { "completed" } else { "in_progress" }
}

fn response_events(id: &str, model: &str, created: u64) -> Vec<Value> {
    let at = |name: &str, fields: Value| {
        let mut event =
            json!({"type": name, "item_id": format!("msg_{id}"), "output_index": 0, "content_index": 0});
        for (field, value) in fields.as_object().into_iter().flatten() {
            event[field] = value.clone();
        }
        event
    };
    let mut events = vec![
        json!({"type": "response.created", "response": response(id, model, created, false)}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": response_item(id, false)}),
        at("response.content_part.added", json!({"part": response_part("")})),
        at("response.output_text.delta", json!({"delta": NOTHING_FOUND, "logprobs": []})),
        at("response.output_text.done", json!({"text": NOTHING_FOUND, "logprobs": []})),
        at("response.content_part.done", json!({"part": response_part(NOTHING_FOUND)})),
        json!({"type": "response.output_item.done", "output_index": 0, "item": response_item(id, true)}),
        json!({"type": "response.completed", "response": response(id, model, created, true)}),
    ];
    (0..)
        .zip(&mut events)
        .for_each(|(number, event): (u64, &mut Value)| event["sequence_number"] = number.into());
    events
}
