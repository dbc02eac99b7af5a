//! A text that a rule blocks, planted anywhere in the reply or stream of a provider whose API is not the caller's, is never passed.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use weir_guardrails::Placeholders;
use weir_guardrails::conversation::{Checks, Report, StreamFilter};
use weir_translate::conversation::Api;
use weir_translate::{Conversion, ReplyContext, SseDecoder};

use crate::guard::Guards;

const MARKER: &str = "zyxmark";
const CARD: u64 = 4_111_111_111_111_111;

/// How a provider's reply comes to a caller.
const WAYS: [(Conversion, Api); 3] = [
    (Conversion::FromAnthropic, Api::ChatCompletions),
    (Conversion::FromGemini, Api::ChatCompletions),
    (Conversion::ToMessages, Api::Messages),
];

fn checks() -> Arc<Checks> {
    let guardrail = json!({"id": "all", "patterns": [MARKER], "detect": ["payment_card"], "action": "block",
        "on": ["input", "output"]});
    let guardrail = serde_json::from_value(guardrail).unwrap();
    let guards = Guards::new(&[guardrail], &weir_telemetry::Metrics::new("planted")).unwrap();
    guards.of("m", None).unwrap().unwrap().checks.clone()
}

fn context() -> ReplyContext {
    ReplyContext { id: "chatcmpl-7".to_owned(), created: 5, model: "m".to_owned(), include_usage: true }
}

/// The forms of a value in which one string, number or key is another.
fn planted(value: &Value) -> Vec<Value> {
    match value {
        Value::String(_) => vec![json!(MARKER), json!(format!("a {MARKER} b")), json!({MARKER: MARKER})],
        Value::Number(_) => vec![json!(CARD), json!(MARKER)],
        Value::Array(list) => {
            let with = |at: usize, item: Value| {
                let mut list = list.clone();
                list[at] = item;
                Value::Array(list)
            };
            let of = |(at, item)| planted(item).into_iter().map(move |item| with(at, item));
            list.iter().enumerate().flat_map(of).collect()
        }
        Value::Object(map) => {
            let with = |key: &str, value: Value| {
                let mut map = map.clone();
                map.insert(key.to_owned(), value);
                Value::Object(map)
            };
            let of = |(key, value): (&String, &Value)| {
                planted(value).into_iter().map(|value| with(key, value)).collect::<Vec<_>>()
            };
            map.iter()
                .flat_map(of)
                .chain([with(MARKER, json!(1)), with("unknown", json!([MARKER]))])
                .collect()
        }
        Value::Null | Value::Bool(_) => Vec::new(),
    }
}

fn whole(conversion: Conversion) -> Value {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\":\"b\",\"n\":12345}"}});
    match conversion {
        Conversion::FromAnthropic => json!({"id": "1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "a", "citations": [{"type": "web_search_result_location", "url": "https://a/b", "title": "t"}]},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"status": "b", "n": 12345}}],
            "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 2}}),
        Conversion::FromGemini => {
            json!({"responseId": "r", "candidates": [{"index": 0, "finishReason": "STOP",
                "content": {"role": "model", "parts": [{"text": "t", "thought": true}, {"text": "a", "thoughtSignature": "s"},
                    {"functionCall": {"name": "f", "args": {"id": "b", "n": 12345}}, "thoughtSignature": "s"}]}}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2}})
        }
        Conversion::ToMessages | Conversion::Same => {
            json!({"id": "1", "object": "chat.completion", "created": 5, "model": "m",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": "a", "reasoning": "r",
                "reasoning_details": [{"type": "reasoning.text", "text": "r", "signature": "s"}], "tool_calls": [call]}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
        }
    }
}

fn stream(conversion: Conversion) -> Vec<Value> {
    let block = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let chunk = |delta: Value| json!({"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}]});
    let call = json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a\":\"b\"}"}});
    match conversion {
        Conversion::FromAnthropic => vec![
            json!({"type": "message_start", "message": {"id": "1", "model": "m", "usage": {"input_tokens": 1}}}),
            block(0, json!({"type": "text", "text": ""})),
            delta(0, json!({"type": "text_delta", "text": "a"})),
            delta(0, json!({"type": "citations_delta", "citation": {"url": "https://a/b", "title": "t"}})),
            json!({"type": "content_block_stop", "index": 0}),
            block(1, json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
            delta(1, json!({"type": "input_json_delta", "partial_json": "{\"a\":\"b\"}"})),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}),
            json!({"type": "message_stop"}),
        ],
        Conversion::FromGemini => vec![
            json!({"candidates": [{"index": 0, "content": {"parts": [{"text": "a"}]}}]}),
            whole(conversion),
        ],
        Conversion::ToMessages | Conversion::Same => vec![
            chunk(json!({"role": "assistant", "content": ""})),
            chunk(json!({"reasoning": "r"})),
            chunk(json!({"content": "a"})),
            chunk(json!({"tool_calls": [call]})),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        ],
    }
}

/// The caller's view of a stream that arrives in two parts, and whether it is complete.
fn sent((conversion, api): (Conversion, Api), events: &[Value], cut: usize) -> (String, bool) {
    let written: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let mut translator = conversion.stream(context).unwrap();
    let mut filter = StreamFilter::new(api, checks(), Arc::default(), vec!["m".to_owned()]);
    let (mut decoder, mut out) = (SseDecoder::new(1 << 20), Vec::new());
    let (before, after) = written.as_bytes().split_at(cut % written.len());
    for part in [before, after] {
        decoder.push(Bytes::copy_from_slice(part));
        while let Some(event) = decoder.next_event().unwrap() {
            let mut translated = Vec::new();
            let data = String::from_utf8_lossy(event.data().unwrap()).into_owned();
            let is_translated = translator.push(&data, &mut translated).is_ok();
            if filter.push(&translated, &mut out).is_err() || !is_translated {
                return (String::from_utf8(out).unwrap(), false);
            }
        }
    }
    let is_whole = filter.finish(&mut out).is_ok();
    (String::from_utf8(out).unwrap(), is_whole)
}

#[test]
fn a_reply_of_another_api_with_it_is_never_passed() {
    let checks = checks();
    for (conversion, api) in WAYS {
        let passed = |reply: &Value| {
            let (body, _) = conversion.reply(api, &reply.to_string().into(), context).ok()?;
            let (of_request, mut report) = (Placeholders::new(), Report::default());
            checks.check_output(api, body, &["m".to_owned()], &of_request, &mut report).ok()
        };
        let reply = whole(conversion);
        assert!(passed(&reply).is_some(), "{reply}");
        for planted in planted(&reply) {
            let text = passed(&planted).map(|body| String::from_utf8_lossy(&body).into_owned());
            let text = text.unwrap_or_default();
            assert!(
                !text.contains(MARKER) && !text.contains(&CARD.to_string()),
                "{planted} passed as {text}"
            );
        }
    }
}

#[test]
fn a_stream_of_another_api_is_ended_before_it_wherever_the_stream_is_cut() {
    for way in WAYS {
        let events = stream(way.0);
        let (text, is_whole) = sent(way, &events, 0);
        assert!(is_whole, "{text}");
        let mut cut = 0;
        for (at, event) in events.iter().enumerate() {
            for planted in planted(event) {
                let mut events = events.clone();
                events[at] = planted;
                cut += 37;
                let (text, _) = sent(way, &events, cut);
                assert!(
                    !text.contains(MARKER) && !text.contains(&CARD.to_string()),
                    "{} passed as {text}",
                    events[at]
                );
            }
        }
    }
}

#[test]
fn a_text_in_pieces_of_another_api_is_never_passed_wherever_it_is_cut() {
    for at in 1..MARKER.len() {
        let pieces = [&MARKER[..at], &MARKER[at..]];
        let anthropic = pieces.map(|text| {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        });
        let gemini =
            pieces.map(|text| json!({"candidates": [{"index": 0, "content": {"parts": [{"text": text}]}}]}));
        let openai = pieces.map(|text| json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
        for (way, [first, second]) in WAYS.into_iter().zip([anthropic, gemini, openai]) {
            let mut events = stream(way.0);
            let place = events.iter().position(|event| event.to_string().contains("\"a\"")).unwrap();
            events.splice(place..=place, [first, second]);
            let length = events.iter().map(|event| event.to_string().len() + 8).sum();
            for cut in 0..length {
                let (text, is_whole) = sent(way, &events, cut);
                assert!(!is_whole && !text.contains(pieces[0]), "{way:?} {cut}: {text}");
            }
        }
    }
}
