//! Properties of any reply and any conversation: a stream gives the message of the whole reply, and a translation to another API and back is
//! as it was.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::cases::assembled;
use super::*;
use crate::{anthropic, gemini, messages};

/// Texts with what has to be escaped, and characters of several bytes.
fn text() -> impl Strategy<Value = String> {
    "[a-c \"\\\\\n\u{e9}\u{1F600}{}]{1,12}"
        .prop_filter("white space is left out", |text| !text.trim().is_empty())
}

fn input() -> impl Strategy<Value = Value> {
    vec(("[a-c]", text()), 0..3)
        .prop_map(|entries| entries.into_iter().map(|(key, text)| (key, json!(text))).collect())
}

/// A text in pieces of `length` characters.
fn pieces(text: &str, length: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(length).map(|piece| piece.iter().collect()).collect()
}

/// A block of Anthropic's. Calls get their ids by their place.
fn block() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        (text(), "[a-z]{1,4}").prop_map(|(text, title)| {
            let cited = json!({"type": "web_search_result_location", "url": "https://a/b", "title": title});
            json!({"type": "text", "text": text, "citations": [cited]})
        }),
        (text(), "[a-z]{1,4}").prop_map(
            |(text, signature)| json!({"type": "thinking", "thinking": text, "signature": signature})
        ),
        "[a-z]{1,4}".prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        input().prop_map(|input| json!({"type": "tool_use", "name": "f", "input": input})),
        Just(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}})),
    ]
}

fn with_ids(mut blocks: Vec<Value>) -> Vec<Value> {
    for (number, block) in blocks.iter_mut().enumerate().filter(|(_, block)| block["type"] == "tool_use") {
        block["id"] = format!("t{number}").into();
    }
    blocks
}

/// The events of Anthropic's stream of these blocks.
fn anthropic_events(blocks: &[Value], length: usize) -> Vec<Value> {
    let usage = json!({"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (index, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        let mut cut = |key: &str, kind: &str, name: &str| {
            let Some(text) = start[key].as_str().map(str::to_owned) else { return };
            start[key] = "".into();
            deltas.extend(pieces(&text, length).into_iter().map(|piece| json!({"type": kind, name: piece})));
        };
        cut("text", "text_delta", "text");
        cut("thinking", "thinking_delta", "thinking");
        cut("signature", "signature_delta", "signature");
        if let Some(input) =
            block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()))
        {
            start["input"] = json!({});
            let parts = pieces(&input.to_string(), length);
            deltas.extend(
                parts.into_iter().map(|part| json!({"type": "input_json_delta", "partial_json": part})),
            );
        }
        if let Some(citations) = start.as_object_mut().unwrap().remove("citations") {
            deltas.push(json!({"type": "citations_delta", "citation": citations[0]}));
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

/// The choice that a client of chat completions makes of a stream, and its usage.
fn streamed_choice(mut stream: StreamTranslator, events: &[Value]) -> (Value, TokenUsage) {
    let mut out = Vec::new();
    for event in events {
        stream.push(&event.to_string(), &mut out).unwrap();
    }
    stream.finish(&mut out).unwrap();
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let mut reason = Value::Null;
    for event in
        String::from_utf8(out).unwrap().split_terminator("\n\n").filter(|event| *event != "data: [DONE]")
    {
        let chunk = parse(event.strip_prefix("data: ").unwrap());
        let choice = &chunk["choices"][0];
        for (key, value) in choice["delta"].as_object().unwrap() {
            add(&mut message, key, value);
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
    }
    (json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason}), stream.usage())
}

fn add(message: &mut Value, key: &str, value: &Value) {
    match (key, value) {
        ("role", _) => {}
        ("tool_calls", _) => {
            let mut part = value[0].clone();
            let index = part.as_object_mut().unwrap().remove("index").unwrap().as_u64().unwrap() as usize;
            if message[key].is_null() {
                message[key] = json!([]);
            }
            match message[key].as_array_mut().unwrap().get_mut(index) {
                Some(call) => add(&mut call["function"], "arguments", &part["function"]["arguments"]),
                None => message[key].as_array_mut().unwrap().push(part),
            }
        }
        (_, Value::Array(items)) => {
            if message[key].is_null() {
                message[key] = json!([]);
            }
            for item in items {
                let mut item = item.clone();
                item.as_object_mut().unwrap().remove("index");
                message[key].as_array_mut().unwrap().push(item);
            }
        }
        (_, Value::String(text)) => {
            message[key] = format!("{}{text}", message[key].as_str().unwrap_or_default()).into();
        }
        _ => message[key] = value.clone(),
    }
}

/// The choice of a whole reply. A stream does not distinguish an empty content from none.
fn whole_choice(body: &[u8]) -> Value {
    let mut choice = parse(std::str::from_utf8(body).unwrap())["choices"][0].clone();
    if choice["message"]["content"].is_null() {
        choice["message"]["content"] = "".into();
    }
    choice
}

/// A message of a provider with OpenAI's API: reasoning in one of its fields, text, calls.
fn openai_message() -> impl Strategy<Value = Value> {
    let detail = |(text, signature): (String, String)| json!({"type": "reasoning.text", "text": text, "signature": signature, "format": "anthropic-claude-v1", "index": 0});
    let reasoning = prop_oneof![
        Just(json!({})),
        text().prop_map(|text| json!({"reasoning_content": text})),
        text().prop_map(|text| json!({"reasoning": text})),
        (text(), "[a-z]{1,4}").prop_map(move |parts| json!({"reasoning_details": [detail(parts)]})),
    ];
    (reasoning, prop::option::of(text()), vec(input(), 0..3)).prop_map(|(mut message, content, inputs)| {
        let call = |(number, input): (usize, Value)| {
            json!({"id": format!("t{number}"), "type": "function", "function": {"name": "f", "arguments": input.to_string()}})
        };
        message["role"] = "assistant".into();
        message["content"] = json!(content);
        if content.is_none() && inputs.is_empty() {
            message["content"] = "a".into();
        }
        if !inputs.is_empty() {
            message["tool_calls"] = inputs.into_iter().enumerate().map(call).collect();
        }
        message
    })
}

/// The deltas of a stream of a message.
fn openai_deltas(message: &Value, length: usize) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    for key in ["reasoning_content", "reasoning"] {
        let parts = pieces(message[key].as_str().unwrap_or_default(), length);
        deltas.extend(parts.into_iter().map(|part| json!({key: part})));
    }
    if let Some(detail) = message["reasoning_details"].get(0) {
        for part in pieces(detail["text"].as_str().unwrap(), length) {
            deltas.push(json!({"reasoning_details": [{"type": "reasoning.text", "text": part, "index": 0}]}));
        }
        let mut last = detail.clone();
        last.as_object_mut().unwrap().remove("text");
        deltas.push(json!({"reasoning_details": [last]}));
    }
    let parts = pieces(message["content"].as_str().unwrap_or_default(), length);
    deltas.extend(parts.into_iter().map(|part| json!({"content": part})));
    for (index, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
        let mut start = call.clone();
        start["index"] = index.into();
        start["function"]["arguments"] = "".into();
        deltas.push(json!({"tool_calls": [start]}));
        for part in pieces(call["function"]["arguments"].as_str().unwrap(), length) {
            deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}));
        }
    }
    deltas
}

/// A turn of the user and the answer to it, in Anthropic's API, after the calls of the turn before.
fn turn(
    calls: Vec<Value>,
    parts: Vec<Value>,
    answer: Option<String>,
    inputs: Vec<Value>,
) -> (Vec<Value>, Vec<Value>) {
    let result = |call: &Value| {
        let content = json!([{"type": "text", "text": "r"}]);
        json!({"type": "tool_result", "tool_use_id": call["id"], "content": content})
    };
    let results: Vec<Value> = calls.iter().map(result).collect();
    let mut turns = Vec::new();
    if !results.is_empty() {
        turns.push(json!({"role": "user", "content": results}));
    }
    turns.push(json!({"role": "user", "content": parts}));
    let text = answer.map(|text| json!({"type": "text", "text": text}));
    let calls = inputs.into_iter().map(|input| json!({"type": "tool_use", "name": "f", "input": input}));
    let calls = with_ids(calls.collect());
    let content: Vec<Value> = text.into_iter().chain(calls.clone()).collect();
    if !content.is_empty() {
        turns.push(json!({"role": "assistant", "content": content}));
    }
    (turns, calls)
}

fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        "[A-Z]{4}".prop_map(|data| {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
        }),
        Just(json!({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}})),
        "[A-Z]{4}".prop_map(|data| {
            let source = json!({"type": "base64", "media_type": "application/pdf", "data": data});
            json!({"type": "document", "title": "n.pdf", "source": source})
        }),
    ]
}

/// Values that are put in the place of others.
fn replacements() -> [Value; 8] {
    [
        Value::Null,
        true.into(),
        u64::MAX.into(),
        (-1.5).into(),
        "\n\"\u{e9}".into(),
        json!([null, "type"]),
        json!({"type": "text"}),
        json!({}),
    ]
}

/// Replaces the value of this number, or counts it down by the values passed.
fn replace(value: &mut Value, number: &mut usize, with: &Value) {
    if *number == 0 {
        *value = with.clone();
        *number = usize::MAX;
        return;
    }
    *number -= 1;
    match value {
        Value::Array(list) => list.iter_mut().for_each(|item| replace(item, number, with)),
        Value::Object(map) => map.values_mut().for_each(|item| replace(item, number, with)),
        _ => {}
    }
}

const SAMPLES: [&str; 5] = [
    r##"{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"file","file":{"file_data":"https://a"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}],"reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}],"extra_content":{"google":{"thought_signature":"s"}},"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]},{"role":"tool","tool_call_id":"a","is_error":true,"content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"anyOf":[{"required":["a"]}],"properties":{"a":{"$ref":"#"}}}}}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":["object","null"],"$defs":{"P":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/P"}]}},"properties":{"a":{"$ref":"#/$defs/P"},"b":{"prefixItems":[{}],"type":"array"}},"required":["a"]}}},"stop":["a"],"reasoning_effort":"low","thinking":{"type":"enabled","budget_tokens":2000},"temperature":1.5,"seed":3}"##,
    r#"{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"document","title":"t","source":{"type":"content","content":[{"type":"text","text":"a"}]}},{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"a"}]}]},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"reasoning_details {\"type\":\"reasoning.text\"}"},{"type":"redacted_thinking","data":"thought_signature a s"},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"A"}}]}]}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"properties":{"a":{}}}}},"max_tokens":5}"#,
    r#"{"type":"content_block_start","message":{"usage":{"input_tokens":1}},"index":0,"content_block":{"type":"text","text":"a","citations":[{"url":"https://a"}]},"delta":{"text":"a","thinking":"b","signature":"s","citation":{"url":"https://a"},"partial_json":"c","stop_reason":"end_turn"},"usage":{"input_tokens":1,"cache_creation":{"ephemeral_1h_input_tokens":18446744073709551615},"output_tokens":2},"content":[{"type":"text","text":"a","citations":[{"url":"https://a"}]},{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"b","input":{}}],"stop_reason":"end_turn"}"#,
    r#"{"candidates":[{"index":0,"content":{"parts":[{"text":"a","thought":true},{"text":"b","thoughtSignature":"s"},{"functionCall":{"name":"f","args":{}},"thoughtSignature":"s"}]},"finishReason":"STOP"}],"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":1,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":18446744073709551615}],"thoughtsTokenCount":9}}"#,
    r#"{"choices":[{"index":0,"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}],"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"t","index":0}],"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}},{"function":{"name":"g","arguments":{}}}]},"finish_reason":"stop","usage":{"prompt_tokens":1}}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":99,"prompt_tokens_details":{"cached_tokens":9}}}"#,
];

/// Reads a body in every way. What comes of it is JSON.
fn read_everywhere(body: &[u8]) {
    let is_json = |body: &[u8]| serde_json::from_slice::<Value>(body).is_ok();
    for request in [
        anthropic::request(body, "claude-sonnet-4-5"),
        anthropic::request(body, "claude-opus-4-8"),
        gemini::request(body, "gemini-3-pro"),
        messages::request(body, "gpt-5", true),
        messages::request(body, "m", false),
    ] {
        assert!(request.is_err() || request.is_ok_and(|body| is_json(&body)));
    }
    let context = context(true);
    for reply in
        [anthropic::reply(body, &context), gemini::reply(body, &context), messages::reply(body, &context)]
    {
        assert!(reply.is_err() || reply.is_ok_and(|(body, _)| is_json(&body)));
    }
    let tape = crate::json::Tape::parse(body).ok();
    let usage = tape.as_ref().and_then(|tape| TokenUsage::of(tape.root(body)));
    let _ = usage.map(|usage| (usage.fresh(), usage.cache_write_5m(), usage.total()));
    let Ok(data) = std::str::from_utf8(body) else { return };
    for mut stream in [
        StreamTranslator::anthropic(context.clone()),
        StreamTranslator::gemini(context.clone()),
        StreamTranslator::messages(context.clone()),
    ] {
        let mut out = Vec::new();
        let is_read = (0..2).all(|_| stream.push(data, &mut out).is_ok());
        let _ = is_read.then(|| stream.finish(&mut out));
        for data in String::from_utf8(out).unwrap().lines().filter_map(|line| line.strip_prefix("data: ")) {
            assert!(data == "[DONE]" || is_json(data.as_bytes()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn changed_bodies_are_refused_or_translated(
        sample in prop::sample::select(&SAMPLES[..]),
        changes in vec((0_usize..150, prop::sample::select(replacements().to_vec())), 0..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut value = parse(sample);
        for (mut number, with) in changes {
            replace(&mut value, &mut number, &with);
        }
        let text = value.to_string();
        let end = cut.map_or(text.len(), |cut| cut.index(text.len()));
        read_everywhere(&text.as_bytes()[..end]);
    }
}

/// Turns of one role that follow each other are one.
fn joined(turns: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for turn in turns {
        match joined.last_mut() {
            Some(last) if last["role"] == turn["role"] => {
                last["content"].as_array_mut().unwrap().extend(turn["content"].as_array().unwrap().clone());
            }
            _ => joined.push(turn.clone()),
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn streams_of_anthropic_give_the_whole_reply(blocks in vec(block(), 0..6), length in 1_usize..5) {
        let blocks = with_ids(blocks);
        let usage = json!({"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 7});
        let reply = json!({"content": blocks, "stop_reason": "end_turn", "usage": usage}).to_string();
        let (body, usage) = anthropic::reply(reply.as_bytes(), &context(false)).unwrap();
        let streamed = streamed_choice(StreamTranslator::anthropic(context(false)), &anthropic_events(&blocks, length));
        prop_assert_eq!(streamed, (whole_choice(&body), usage));
    }

    #[test]
    fn streams_of_gemini_give_the_whole_reply(parts in vec((text(), 0..4_u8, input()), 1..5), length in 1_usize..5) {
        let part = |(text, kind, input): &(String, u8, Value)| match kind {
            0 => json!({"text": text, "thought": true}),
            1 => json!({"text": text}),
            2 => json!({"text": text, "thoughtSignature": "s"}),
            _ => json!({"functionCall": {"name": "f", "args": input}, "thoughtSignature": "s"}),
        };
        let parts: Vec<Value> = parts.iter().map(part).collect();
        let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2});
        let of = |parts: Vec<Value>| json!({"candidates": [{"content": {"parts": parts}}]});
        let mut whole = of(parts.clone());
        whole["candidates"][0]["finishReason"] = "STOP".into();
        whole["usageMetadata"] = usage.clone();
        let (body, counted) = gemini::reply(whole.to_string().as_bytes(), &context(false)).unwrap();
        let mut events = Vec::new();
        for part in &parts {
            let texts = pieces(part["text"].as_str().unwrap_or_default(), length);
            for (number, text) in texts.iter().enumerate() {
                let mut event = part.clone();
                event["text"] = text.as_str().into();
                if number + 1 < texts.len() {
                    event.as_object_mut().unwrap().remove("thoughtSignature");
                }
                events.push(of(vec![event]));
            }
            if texts.is_empty() {
                events.push(of(vec![part.clone()]));
            }
        }
        events.push(json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}));
        let streamed = streamed_choice(StreamTranslator::gemini(context(false)), &events);
        prop_assert_eq!(streamed, (whole_choice(&body), counted));
    }

    #[test]
    fn streams_of_openai_give_the_whole_reply(message in openai_message(), length in 1_usize..5) {
        let usage = json!({"prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 2});
        let whole = json!({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).to_string();
        let (body, counted) = messages::reply(whole.as_bytes(), &context(false)).unwrap();
        let mut expected = parse(std::str::from_utf8(&body).unwrap());
        for block in expected["content"].as_array_mut().unwrap().iter_mut().filter(|block| block["type"] == "tool_use") {
            block["input"] = block["input"].to_string().into();
        }
        let mut stream = StreamTranslator::messages(context(false));
        let mut out = Vec::new();
        for delta in openai_deltas(&message, length) {
            stream.push(&json!({"choices": [{"index": 0, "delta": delta}]}).to_string(), &mut out).unwrap();
        }
        let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage}]});
        stream.push(&last.to_string(), &mut out).unwrap();
        stream.finish(&mut out).unwrap();
        let streamed = assembled(&String::from_utf8(out).unwrap());
        prop_assert_eq!(&streamed["content"], &expected["content"]);
        prop_assert_eq!(&streamed["stop_reason"], &expected["stop_reason"]);
        prop_assert_eq!(stream.usage(), counted);
    }

    #[test]
    fn answers_that_callers_send_back_are_as_they_came(message in openai_message()) {
        let whole = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
        let (body, _) = messages::reply(whole.as_bytes(), &context(false)).unwrap();
        let content = parse(std::str::from_utf8(&body).unwrap())["content"].clone();
        let request = json!({"messages": [{"role": "assistant", "content": content}]}).to_string();
        let sent = messages::request(request.as_bytes(), "m", true).unwrap();
        let mut sent = parse(std::str::from_utf8(&sent).unwrap())["messages"][0].clone();
        let is_call = sent["tool_calls"].is_array();
        prop_assert!(is_call || !sent["content"].is_null());
        if message["content"].is_null() {
            sent["content"] = Value::Null;
        }
        prop_assert_eq!(sent, message);
    }

    #[test]
    fn conversations_of_anthropic_are_the_same_after_chat_completions(
        turns in vec((vec(part(), 1..3), prop::option::of(text()), vec(input(), 0..3)), 1..4),
    ) {
        let mut conversation = Vec::new();
        let mut calls = Vec::new();
        for (parts, answer, inputs) in turns {
            let (turns, next) = turn(calls, parts, answer, inputs);
            conversation.extend(turns);
            calls = next;
        }
        // an answer at the end loses white space
        conversation.push(json!({"role": "user", "content": [{"type": "text", "text": "end"}]}));
        let request = json!({"messages": conversation}).to_string();
        let chat = messages::request(request.as_bytes(), "m", true).unwrap();
        let back = anthropic::request(&chat, "claude-sonnet-4-5").unwrap();
        let back = parse(std::str::from_utf8(&back).unwrap());
        prop_assert_eq!(joined(back["messages"].as_array().unwrap()), joined(&conversation));
    }
}
