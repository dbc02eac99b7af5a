//! A text that a rule blocks, planted anywhere in a request or reply of each API, is never passed.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use weir_translate::SseDecoder;
use weir_translate::conversation::Api;

use super::{Checks, Report, StreamFilter, StreamMode};
use crate::{Action, Detect, Placeholders, Rule, RuleSet};

/// Upper bound of the bytes of an event here.
const EVENT_BYTES_MAX: usize = 1 << 20;
const MARKER: &str = "zyxmark";
const CARD: u64 = 4_111_111_111_111_111;

fn checks() -> Arc<Checks> {
    let rule = |name: &str, detect: Detect| Rule { name: name.to_owned(), detect, action: Action::Block };
    let rules =
        [rule("marker", Detect::Pattern(MARKER.to_owned())), rule("payment_card", Detect::PaymentCard)];
    let set = Some(Arc::new(RuleSet::compile(&rules).unwrap()));
    Arc::new(Checks {
        input: set.clone(),
        output: set,
        restores: false,
        mode: StreamMode::Window,
        window_bytes: 4_096,
    })
}

/// Every form of a value in which one string is the marker, one number a card's, or one key holds the marker.
fn planted(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::String(_) => found.push(json!(MARKER)),
        Value::Number(_) => found.push(json!(CARD)),
        Value::Array(list) => {
            for (at, item) in list.iter().enumerate() {
                found.extend(planted(item).into_iter().map(|item| {
                    let mut list = list.clone();
                    list[at] = item;
                    Value::Array(list)
                }));
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let mut forms = planted(value);
                // in the place of a number too, where the API has a count
                forms.extend(value.is_number().then(|| json!(MARKER)));
                found.extend(forms.into_iter().map(|value| {
                    let mut map = map.clone();
                    map.insert(key.clone(), value);
                    Value::Object(map)
                }));
            }
            for value in
                [json!({MARKER: 1}), json!({"unknown": {"deep": [MARKER]}}), json!({"unknown": CARD})]
            {
                let mut map = map.clone();
                map.extend(value.as_object().unwrap().clone());
                found.push(Value::Object(map));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    found
}

fn requests() -> Vec<Value> {
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"for\":\"a\",\"n\":12345}"}});
    vec![
        json!({"model": "m", "temperature": 0.5, "user": "u", "stop": ["s"], "metadata": {"a": "b"},
            "messages": [
                {"role": "system", "content": "a"},
                {"role": "user", "name": "n", "content": [{"type": "text", "text": "b"},
                    {"type": "image_url", "image_url": {"url": "https://example.com/a", "detail": "low"}},
                    {"type": "file", "file": {"file_data": "data:text/plain;base64,YQ==", "filename": "f"}},
                    {"type": "input_audio", "input_audio": {"data": "YQ==", "format": "wav"}}]},
                {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "c"}],
            "tools": [{"type": "function", "function": {"name": "look", "description": "d",
                "parameters": {"type": "object", "properties": {"for": {"type": "string", "enum": ["x"]}}}}}]}),
        json!({"model": "m", "system": [{"type": "text", "text": "a"}], "max_tokens": 5,
            "messages": [
                {"role": "user", "content": [{"type": "document", "title": "t",
                    "source": {"type": "text", "media_type": "text/plain", "data": "b"}}]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"name": "n", "id": 12345, "type": "x"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
                    "content": [{"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "c"}]}]}]}]}),
        json!({"model": "m", "instructions": "a", "prompt": {"id": "p", "variables": {"v": "w"}}, "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "b"}]},
                {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{\"for\":\"a\"}"},
                {"type": "function_call_output", "call_id": "c", "output": "d"},
                {"type": "custom_tool_call", "call_id": "e", "name": "run", "input": "f"},
                {"type": "code_interpreter_call", "id": "i", "code": "print(1)", "outputs": [{"type": "logs", "logs": "1"}]}]}),
        json!({"model": "m", "prompt": ["a", "b"], "suffix": "c"}),
    ]
}

fn replies() -> Vec<Value> {
    vec![
        json!({"id": "1", "object": "chat.completion", "created": 5, "model": "m", "citations": ["https://example.com"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a", "refusal": null,
                "reasoning_details": [{"type": "reasoning.text", "text": "r"}], "audio": {"id": "x", "transcript": "t"},
                "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 1}}],
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\":\"b\"}"}}]}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
        json!({"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "a", "citations": [{"type": "char_location", "cited_text": "c", "document_title": "t"}]},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"status": "b", "n": 12345}}],
            "usage": {"input_tokens": 1, "output_tokens": 2}}),
        json!({"id": "1", "object": "text_completion", "created": 5, "model": "m",
            "choices": [{"index": 0, "text": "a", "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
        json!({"id": "1", "object": "response", "model": "m", "status": "completed", "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]},
                {"type": "file_search_call", "queries": ["q"], "results": [{"text": "t", "filename": "f"}]}]}),
    ]
}

/// Streams of each API: the data of their events.
fn streams() -> Vec<(Api, Vec<Value>)> {
    let chunk = |delta: Value| json!({"id": "1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [{"index": 0, "delta": delta}]});
    let text = |text: &str, reason: Value| {
        let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": reason});
        json!({"id": "1", "object": "text_completion", "created": 5, "model": "m", "choices": [choice]})
    };
    vec![
        (Api::Completions, vec![text("a", Value::Null), text("b", Value::Null), text("", json!("stop"))]),
        (
            Api::ChatCompletions,
            vec![
                chunk(json!({"role": "assistant", "content": "a"})),
                chunk(json!({"reasoning_details": [{"type": "reasoning.text", "text": "r"}]})),
                chunk(json!({"function_call": {"name": "f", "arguments": "{\"a\":\"b\"}"}})),
                chunk(
                    json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\":\"b\"}"}}]}),
                ),
                chunk(json!({"content": [{"type": "text", "text": "p"}, {"type": "text", "text": "q"}]})),
                json!({"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "m"}}]}),
                json!({"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            ],
        ),
        (
            Api::Messages,
            vec![
                json!({"type": "message_start", "message": {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [],
                "usage": {"input_tokens": 1, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"type": "page_location", "cited_text": "c"}}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
                json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":\"b\"}"}}),
                json!({"type": "content_block_stop", "index": 1}),
                json!({"type": "content_block_start", "index": 2, "content_block": {"type": "thinking", "thinking": "t", "signature": ""}}),
                json!({"type": "content_block_delta", "index": 2, "delta": {"type": "thinking_delta", "thinking": "u"}}),
                json!({"type": "content_block_stop", "index": 2}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
                json!({"type": "message_stop"}),
            ],
        ),
        (
            Api::Responses,
            vec![
                json!({"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "a"}),
                json!({"type": "response.output_text.annotation.added", "output_index": 0, "annotation": {"type": "url_citation", "url": "u", "title": "t"}}),
                json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "a"}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"a\":\"b\"}"}),
                json!({"type": "response.new_kind.delta", "output_index": 2, "delta": {"words": "w"}}),
                json!({"type": "response.output_item.added", "output_index": 3, "item": {"type": "function_call", "name": "f", "arguments": "{\"a\":"}}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 3, "delta": "\"b\"}"}),
                json!({"type": "response.reasoning_summary_part.added", "output_index": 4, "summary_index": 0, "part": {"type": "summary_text", "text": "s"}}),
                json!({"type": "response.reasoning_summary_text.delta", "output_index": 4, "summary_index": 0, "delta": "t"}),
                json!({"type": "response.completed", "response": {"id": "1", "output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}]}}),
            ],
        ),
    ]
}

#[test]
fn a_request_with_it_is_refused_wherever_it_stands() {
    let checks = checks();
    let models = ["m".to_owned()];
    for request in requests() {
        let check = |body: &Value| {
            let body = Bytes::from(body.to_string());
            checks
                .check_input(&body, &models, &mut Placeholders::new(), &mut Report::default())
                .map(|sent| sent == body)
        };
        assert_eq!(check(&request), Ok(true), "{request}");
        for planted in planted(&request) {
            assert!(check(&planted).is_err(), "{planted}");
        }
    }
}

#[test]
fn a_reply_with_it_is_blocked_wherever_it_stands() {
    let checks = checks();
    let models = ["m".to_owned()];
    for reply in replies() {
        let check = |body: &Value| {
            let body = Bytes::from(body.to_string());
            let sent = checks.check_output(
                Api::ChatCompletions,
                body.clone(),
                &models,
                &Placeholders::new(),
                &mut Report::default(),
            );
            sent.map(|sent| sent == body)
        };
        assert_eq!(check(&reply), Ok(true), "{reply}");
        for planted in planted(&reply) {
            assert!(check(&planted).is_err(), "{planted}");
        }
    }
}

/// The filtered stream, for a stream that arrives in two parts.
fn sent(api: Api, checks: &Arc<Checks>, stream: &[u8], cut: usize) -> (Vec<u8>, bool) {
    let mut filter = StreamFilter::new(api, checks.clone(), Arc::default(), vec!["m".to_owned()]);
    let (mut decoder, mut out) = (SseDecoder::new(EVENT_BYTES_MAX), Vec::new());
    for part in [&stream[..cut], &stream[cut..]] {
        decoder.push(Bytes::copy_from_slice(part));
        while let Some(event) = decoder.next_event().unwrap() {
            if filter.push(event.raw(), &mut out).is_err() {
                return (out, true);
            }
        }
    }
    let is_blocked = filter.finish(&mut out).is_err();
    (out, is_blocked)
}

/// The event with a piece of text.
type Form<'a> = &'a dyn Fn(&str) -> Value;

fn written(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>().into_bytes()
}

#[test]
fn a_stream_is_ended_before_it_wherever_it_stands() {
    let checks = checks();
    for (api, events) in streams() {
        let stream = written(&events);
        let (passed, is_blocked) = sent(api, &checks, &stream, 0);
        assert!(!is_blocked, "{}", String::from_utf8_lossy(&passed));
        let mut cut = 0;
        for (at, event) in events.iter().enumerate() {
            for planted in planted(event) {
                let mut events = events.clone();
                events[at] = planted;
                cut += 37;
                let stream = written(&events);
                let (passed, is_blocked) = sent(api, &checks, &stream, cut % stream.len());
                let passed = String::from_utf8(passed).unwrap();
                let is_passed = passed.contains(MARKER) || passed.contains(&CARD.to_string());
                assert!(is_blocked && !is_passed, "{} passed as {passed}", events[at]);
            }
        }
    }
}

#[test]
fn a_text_in_pieces_is_found_wherever_text_and_stream_are_cut() {
    let checks = checks();
    let chunk = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let delta = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "words": text}});
    let response = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text});
    let completion = |text: &str| json!({"choices": [{"index": 0, "text": text}]});
    let message = |text: &str| json!({"choices": [{"index": 0, "message": {"content": text}}]});
    let part = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": text}]}}]});
    let forms: [(Api, Form<'_>); 6] = [
        (Api::ChatCompletions, &chunk),
        (Api::ChatCompletions, &message),
        (Api::ChatCompletions, &part),
        (Api::Completions, &completion),
        (Api::Messages, &delta),
        (Api::Responses, &response),
    ];
    for (api, event) in forms {
        for at in 1..MARKER.len() {
            let (before, after) = MARKER.split_at(at);
            let stream = written(&[event("an "), event(before), event(after), event(" answer")]);
            for cut in 0..stream.len() {
                let (passed, is_blocked) = sent(api, &checks, &stream, cut);
                let passed = String::from_utf8(passed).unwrap();
                assert!(is_blocked && !passed.contains(before), "{api:?} {at} {cut}: {passed}");
            }
        }
    }
}
