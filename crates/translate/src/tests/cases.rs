//! Requests and replies that were lost or refused between APIs, as they were reported.

use super::*;
use crate::{anthropic, gemini, messages};

fn to_anthropic(model: &str, request: &str) -> Value {
    parse(&String::from_utf8(anthropic::request(request.as_bytes(), model).unwrap()).unwrap())
}

fn to_openai(model: &str, request: &str) -> Value {
    parse(&String::from_utf8(messages::request(request.as_bytes(), model, true).unwrap()).unwrap())
}

/// The messages that Anthropic's `messages` become.
fn check_messages(request: &str, expected: &str) {
    let request = format!(r#"{{"max_tokens":9,"messages":[{request}]}}"#);
    assert_eq!(to_openai("m", &request)["messages"], parse(&format!("[{expected}]")));
}

/// The content that a message or the deltas of a stream become for Anthropic's clients.
fn check_reply(message: &str, reason: &str, content: &str, stop_reason: &str) {
    let reply = format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"{reason}"}}]}}"#);
    let (body, _) = messages::reply(reply.as_bytes(), &context(false)).unwrap();
    let message = parse(&String::from_utf8(body).unwrap());
    assert_eq!((&message["content"], &message["stop_reason"]), (&parse(content), &stop_reason.into()));
}

fn check_deltas(deltas: &[&str], content: &str) {
    let message = streamed_message(deltas, "stop").unwrap();
    assert_eq!(message["content"], parse(content));
}

/// The message that a client of Anthropic's makes of a stream with these deltas.
pub(super) fn streamed_message(deltas: &[&str], reason: &str) -> Result<Value, TranslateError> {
    let mut stream = StreamTranslator::messages(context(false));
    let mut out = Vec::new();
    for delta in deltas {
        stream.push(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#), &mut out)?;
    }
    stream.push(
        &format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#),
        &mut out,
    )?;
    stream.finish(&mut out)?;
    Ok(assembled(&String::from_utf8(out).unwrap()))
}

/// The message of the events of Anthropic's stream. The input of a call is its JSON text.
pub(super) fn assembled(events: &str) -> Value {
    let mut message = Value::Null;
    let mut is_open = false;
    for event in events.split_terminator("\n\n") {
        let event = parse(event.split_once("\ndata: ").expect("two lines").1);
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                assert!(!std::mem::replace(&mut is_open, true), "one block is open at a time");
                let mut block = event["content_block"].clone();
                if block["type"] == "tool_use" {
                    block["input"] = "".into();
                }
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!(event["index"], content.len());
                content.push(block);
            }
            "content_block_delta" => {
                assert!(is_open);
                let block = message["content"].as_array_mut().unwrap().last_mut().unwrap();
                let delta = event["delta"].as_object().unwrap();
                for (key, text) in delta.iter().filter(|(key, _)| *key != "type") {
                    let key = if key == "partial_json" { "input" } else { key };
                    block[key] = format!("{}{}", block[key].as_str().unwrap(), text.as_str().unwrap()).into();
                }
            }
            "content_block_stop" => assert!(std::mem::replace(&mut is_open, false)),
            "message_delta" => message["stop_reason"] = event["delta"]["stop_reason"].clone(),
            _ => {}
        }
    }
    message
}

#[test]
fn a_call_that_the_limit_cuts_off_is_no_error() {
    check_reply(
        r#"{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"write","arguments":"{\"text\":\"abc"}}]}"#,
        "length",
        r#"[{"type":"tool_use","id":"c","name":"write","input":{}}]"#,
        "max_tokens",
    );
}

#[test]
fn parallel_calls_are_kept_apart() {
    let expected = r#"[{"type":"tool_use","id":"a","name":"f","input":"{\"a\":\"1\"}"},{"type":"tool_use","id":"b","name":"f","input":"{\"a\":\"2\"}"}]"#;
    let call = |index: &str, id: &str, name: &str, arguments: &str| {
        format!(r#"{{"tool_calls":[{{{index}{id}"function":{{{name}"arguments":"{arguments}"}}}}]}}"#)
    };
    let (first, second) = (r#"{\"a\":\"1\"}"#, r#"{\"a\":\"2\"}"#);
    let (zero, one, a, b, name) =
        (r#""index":0,"#, r#""index":1,"#, r#""id":"a","#, r#""id":"b","#, r#""name":"f","#);
    for deltas in [
        // all have one index, or none
        vec![call(zero, a, name, first), call(zero, b, name, second)],
        vec![call("", a, name, first), call("", b, name, second)],
        vec![call("", a, name, r#"{\"a\":"#), call("", "", "", r#"\"1\"}"#), call("", b, name, second)],
        // each part has the id, or the name as well
        vec![call(zero, a, name, ""), call(zero, a, "", first), call(zero, b, name, ""), call(zero, b, "", second)],
        vec![call(zero, a, name, r#"{\"a\":"#), call(zero, a, name, r#"\"1\"}"#), call(one, b, name, second)],
        // parts take turns
        vec![
            call(zero, a, name, ""),
            call(one, b, name, ""),
            call(zero, "", "", r#"{\"a\":"#),
            call(one, "", "", r#"{\"a\":"#),
            call(zero, "", "", r#"\"1\"}"#),
            call(one, "", "", r#"\"2\"}"#),
        ],
        // an object instead of its text
        vec![
            r#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"a":"1"}}},{"id":"b","function":{"name":"f","arguments":{"a":"2"}}}]}"#.to_owned(),
        ],
    ] {
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        check_deltas(&deltas, expected);
    }
    let made = expected
        .replace(r#""a","name""#, r#""call_7_0","name""#)
        .replace(r#""b","name""#, r#""call_7_1","name""#);
    check_deltas(&[&call(zero, "", name, first), &call(zero, "", name, second)], &made);
    let both = r#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
    check_deltas(
        &[both],
        r#"[{"type":"tool_use","id":"a","name":"f","input":"{}"},{"type":"tool_use","id":"call_7_1","name":"f","input":"{}"}]"#,
    );
    check_reply(
        both,
        "tool_calls",
        r#"[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"call_7_1","name":"f","input":{}}]"#,
        "tool_use",
    );
    // what belongs to no call, or to one that is closed
    for deltas in [
        vec![call(zero, "", "", "{")],
        vec![
            call(zero, a, name, "{"),
            r#"{"content":"x"}"#.to_owned(),
            call(one, b, name, "{}"),
            call(zero, "", "", "}"),
        ],
    ] {
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        assert!(matches!(streamed_message(&deltas, "tool_calls"), Err(TranslateError::Reply(_))));
    }
}

#[test]
fn effort_beside_tools_is_what_the_model_takes() {
    let request = |tools: &str| {
        format!(
            r#"{{"max_tokens":100,"thinking":{{"type":"adaptive"}},"output_config":{{"effort":"high"}},{tools}"messages":[{{"role":"user","content":"hi"}}]}}"#
        )
    };
    let tools = r#""tools":[{"name":"f","input_schema":{"type":"object"}}],"#;
    for (model, tools, expected) in [
        ("gpt-5.6-sol", tools, Value::from("none")),
        ("gpt-5.4", tools, Value::Null),
        ("gpt-5.2", tools, "high".into()),
        ("gpt-5.6-sol", "", "high".into()),
        ("gpt-5-chat-latest", "", Value::Null),
        ("m", tools, Value::Null),
    ] {
        assert_eq!(to_openai(model, &request(tools))["reasoning_effort"], expected, "{model}");
    }
}

#[test]
fn models_of_openai_that_reason_get_no_sampling() {
    let request = r#"{"max_tokens":5,"temperature":0.5,"top_p":0.9,"tools":[{"name":"f"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"hi"}]}"#;
    let sent = to_openai("o3", request);
    assert_eq!(
        (&sent["temperature"], &sent["top_p"], &sent["parallel_tool_calls"], &sent["max_completion_tokens"]),
        (&Value::Null, &Value::Null, &Value::Null, &5.into())
    );
    let sent = to_openai("gpt-4o", request);
    assert_eq!(
        (&sent["temperature"], &sent["parallel_tool_calls"], &sent["max_tokens"]),
        (&0.5.into(), &false.into(), &5.into())
    );
}

#[test]
fn reasoning_comes_and_goes_back_in_the_field_of_its_provider() {
    let call = r#""tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]"#;
    for (given, blocks) in [
        (
            r#""content":"a","reasoning_content":"hm""#,
            r#"{"type":"thinking","thinking":"hm","signature":""}"#,
        ),
        (
            r#""content":"a","reasoning":"hm""#,
            r#"{"type":"thinking","thinking":"hm","signature":"reasoning"}"#,
        ),
        (
            r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]"#,
            r#"{"type":"thinking","thinking":"hm","signature":"content"}"#,
        ),
        (
            r#""content":"a","reasoning_details":[{"type":"reasoning.text","signature":"s","index":0,"format":"anthropic-claude-v1","text":"hm"},{"type":"reasoning.encrypted","data":"d","id":"r"}]"#,
            r#"{"type":"thinking","thinking":"hm","signature":"reasoning_details {\"type\":\"reasoning.text\",\"signature\":\"s\",\"index\":0,\"format\":\"anthropic-claude-v1\"}"},{"type":"redacted_thinking","data":"reasoning_details {\"type\":\"reasoning.encrypted\",\"data\":\"d\",\"id\":\"r\"}"}"#,
        ),
    ] {
        let (body, _) = messages::reply(
            format!(r#"{{"choices":[{{"message":{{{given},{call}}},"finish_reason":"tool_calls"}}]}}"#)
                .as_bytes(),
            &context(false),
        )
        .unwrap();
        let content = parse(&String::from_utf8(body).unwrap())["content"].clone();
        let expected = format!(
            r#"[{blocks},{{"type":"text","text":"a"}},{{"type":"tool_use","id":"t","name":"f","input":{{}}}}]"#
        );
        let unordered = |value: &Value| value.to_string().replace('\\', "");
        let keys = |value: &Value| {
            let mut characters: Vec<char> = unordered(value).chars().collect();
            characters.sort_unstable();
            characters
        };
        // the entries within signatures have no order of keys
        assert_eq!(keys(&content), keys(&parse(&expected)), "{content} {expected}");
        check_messages(
            &format!(r#"{{"role":"assistant","content":{content}}}"#),
            &format!(r#"{{"role":"assistant",{given},{call}}}"#),
        );
    }
    check_messages(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"must keep","signature":""},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"}]}"#,
        r#"{"role":"assistant","content":null,"reasoning_content":"must keep","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"toolu_1","content":"x"}"#,
    );
    // OpenAI's own API does not have these fields
    let thought = r#"{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":""},{"type":"text","text":"a"}]}]}"#;
    for (model, expected) in [
        ("gpt-4o", Value::Null),
        ("gpt-5.6", Value::Null),
        ("mistral-large-latest", Value::Null),
        ("gpt-oss-120b", "x".into()),
    ] {
        assert_eq!(to_openai(model, thought)["messages"][0]["reasoning_content"], expected, "{model}");
    }
    // Anthropic's own is of no use to others
    check_messages(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"EqQB"},{"type":"redacted_thinking","data":"Eq"},{"type":"text","text":"a"}]}"#,
        r#"{"role":"assistant","content":"a"}"#,
    );
}

#[test]
fn reasoning_of_streams_has_its_field() {
    let text = r#"{"type":"text","text":"ans"}"#;
    let thinking = |signature: &str| {
        format!(r#"[{{"type":"thinking","thinking":"because","signature":"{signature}"}},{text}]"#)
    };
    check_deltas(
        &[r#"{"reasoning":"be"}"#, r#"{"reasoning":"cause"}"#, r#"{"content":"ans"}"#],
        &thinking("reasoning"),
    );
    check_deltas(
        &[
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"be"}]}]}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"cause"}]}]}"#,
            r#"{"content":"ans"}"#,
        ],
        &thinking("content"),
    );
    check_deltas(
        &[
            r#"{"content":"","reasoning":"be","reasoning_details":[{"type":"reasoning.text","text":"be","index":0}]}"#,
            r#"{"content":"","reasoning":"cause","reasoning_details":[{"type":"reasoning.text","text":"cause","index":0}]}"#,
            r#"{"content":"","reasoning":null,"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]}"#,
            r#"{"content":"ans"}"#,
        ],
        &thinking(r#"reasoning_details {\"index\":0,\"signature\":\"s\",\"type\":\"reasoning.text\"}"#),
    );
}

#[test]
fn signatures_of_calls_go_back_through_anthropics_clients() {
    let calls = r#""tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s+/="}}}]"#;
    let content = r#"[{"type":"redacted_thinking","data":"thought_signature t s+/="},{"type":"tool_use","id":"t","name":"f","input":{}}]"#;
    check_reply(&format!(r#"{{"content":null,{calls}}}"#), "tool_calls", content, "tool_use");
    check_deltas(&[&format!("{{{calls}}}")], &content.replace(r#""input":{}"#, r#""input":"{}""#));
    check_messages(
        &format!(r#"{{"role":"assistant","content":{content}}}"#),
        &format!(r#"{{"role":"assistant","content":null,{calls}}}"#),
    );
}

#[test]
fn streams_are_asked_for_their_usage_where_the_server_knows_it() {
    let request = br#"{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let sent = messages::request(request, "x", false).unwrap();
    assert_eq!(
        String::from_utf8(sent).unwrap(),
        r#"{"model":"x","messages":[{"role":"user","content":"hi"}],"max_tokens":9,"stream":true}"#
    );
}

#[test]
fn results_of_tools_keep_their_texts() {
    let result = |fields: &str| {
        format!(r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t",{fields}}}]}}"#)
    };
    let tool = |text: &str| format!(r#"{{"role":"tool","tool_call_id":"t","content":"{text}"}}"#);
    check_messages(
        &result(
            r#""content":[{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"IMPORTANT"}]}]"#,
        ),
        &tool(r"t\ns\nIMPORTANT"),
    );
    check_messages(&result(r#""is_error":true,"content":"no such file""#), &tool("Error: no such file"));
    check_messages(&result(r#""is_error":true"#), &tool("Error: "));
    check_messages(
        &result(
            r#""content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a"}},{"type":"text","text":"b"}]"#,
        ),
        &tool(r"a\nb"),
    );
    let body = format!(r#"{{"messages":[{}]}}"#, result(r#""content":[{"type":"video","source":{}}]"#));
    check_refusal(
        messages::request(body.as_bytes(), "m", true),
        "`messages[0].content[0].content[0]`: \"video\" is not translated",
    );
}

#[test]
fn documents_are_texts_or_files() {
    let document = |fields: &str| format!(r#"{{"role":"user","content":[{{"type":"document",{fields}}}]}}"#);
    check_messages(
        &document(
            r#""title":"T","context":"C","source":{"type":"text","media_type":"text/plain","data":"d"}"#,
        ),
        r#"{"role":"user","content":"T\nC\nd"}"#,
    );
    check_messages(
        &document(
            r#""source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://a/b"}}]}"#,
        ),
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://a/b"}}]}"#,
    );
    for source in [r#"{"type":"url","url":"https://a/b.pdf"}"#, r#"{"type":"file","file_id":"f"}"#] {
        let body = format!(r#"{{"messages":[{}]}}"#, document(&format!(r#""source":{source}"#)));
        check_refusal(
            messages::request(body.as_bytes(), "m", true),
            "`messages[0].content[0]`: \"document\" is not translated; use text, or an image or document with its data",
        );
    }
}

#[test]
fn keys_of_schemas_and_inputs_keep_their_order() {
    let schema = r#"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":"number","multipleOf":1.50}},"required":["reasoning","answer"],"additionalProperties":false}"#;
    let chat = format!(
        r#"{{"messages":[{{"role":"user","content":"hi"}},{{"role":"assistant","tool_calls":[{{"id":"t","type":"function","function":{{"name":"f","arguments":"{{\"z\":1.0,\"a\":12345678901234567890123}}"}}}}]}},{{"role":"tool","tool_call_id":"t","content":"{{\"z\":1.0,\"a\":2}}"}}],"tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}],"response_format":{{"type":"json_schema","json_schema":{{"name":"r","schema":{schema}}}}}}}"#
    );
    let has = |body: Vec<u8>, parts: &[&str]| {
        let body = String::from_utf8(body).unwrap();
        for part in parts {
            assert!(body.contains(part), "{part} in {body}");
        }
    };
    let input = r#"{"z":1.0,"a":12345678901234567890123}"#;
    has(
        anthropic::request(chat.as_bytes(), "claude-sonnet-4-5").unwrap(),
        &[
            &format!(r#""input_schema":{schema}"#),
            r#""properties":{"reasoning":{"type":"string"},"answer":{"type":"number","description":"{multipleOf: 1.50}"}}"#,
            &format!(r#""input":{input}"#),
        ],
    );
    has(
        gemini::request(chat.as_bytes(), "gemini-3-pro").unwrap(),
        &[
            r#""properties":{"reasoning":{"type":"STRING"},"answer":{"type":"NUMBER"}},"required":["reasoning","answer"],"propertyOrdering":["reasoning","answer"]"#,
            &format!(r#""args":{input}"#),
            r#""response":{"z":1.0,"a":2}"#,
        ],
    );
    let request = format!(
        r#"{{"messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"f","input":{input}}}]}}],"tools":[{{"name":"f","input_schema":{schema}}}],"output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}}}"#
    );
    has(
        messages::request(request.as_bytes(), "m", true).unwrap(),
        &[
            &format!(r#""parameters":{schema}"#),
            &format!(r#""schema":{schema},"strict":true"#),
            r#""arguments":"{\"z\":1.0,\"a\":12345678901234567890123}""#,
        ],
    );
    let reply = r#"{"choices":[{"message":{"tool_calls":[{"id":"t","function":{"name":"f","arguments":"{\"z\":1.0,\"a\":12345678901234567890123}"}}]},"finish_reason":"stop"}]}"#;
    has(messages::reply(reply.as_bytes(), &context(false)).unwrap().0, &[&format!(r#""input":{input}"#)]);
}

#[test]
fn schemas_with_optional_properties_are_not_strict() {
    let request = r#"{"messages":[],"output_format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{}}}}}}}"#;
    let expected = r#"{"type":"json_schema","json_schema":{"name":"reply","schema":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{}},"additionalProperties":false}},"additionalProperties":false},"strict":false}}"#;
    assert_eq!(to_openai("m", request)["response_format"], parse(expected));
}

#[test]
fn thinking_is_left_out_beside_calls_without_its_blocks() {
    let request = |blocks: &str, fields: &str| {
        format!(
            r#"{{"max_tokens":4000,{fields},"tools":[{{"type":"function","function":{{"name":"f"}}}}],"messages":[{{"role":"user","content":"u"}},{{"role":"assistant",{blocks}"tool_calls":[{{"id":"t","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"t","content":"x"}}]}}"#
        )
    };
    let explicit = r#""thinking":{"type":"enabled","budget_tokens":2000}"#;
    let sent = to_anthropic("claude-sonnet-4-5", &request("", explicit));
    assert_eq!(sent["thinking"], Value::Null);
    let signed = r#""thinking_blocks":[{"index":0,"type":"thinking","thinking":"hm","signature":"s"}],"#;
    let details = r#""reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s","format":"anthropic-claude-v1","index":0}],"#;
    let parts = r#""content":[{"type":"thinking","thinking":"hm","signature":"s"}],"#;
    for blocks in [signed, details, parts] {
        let sent = to_anthropic("claude-sonnet-4-5", &request(blocks, explicit));
        assert_eq!(sent["thinking"]["budget_tokens"], 2000);
        assert_eq!(
            sent["messages"][1]["content"][0],
            parse(r#"{"type":"thinking","thinking":"hm","signature":"s"}"#)
        );
    }
    // reasoning that Anthropic has not signed
    let unsigned =
        r#""reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":""}],"#;
    let sent = to_anthropic("claude-sonnet-4-5", &request(unsigned, explicit));
    assert_eq!(
        (&sent["thinking"], &sent["messages"][1]["content"][0]["type"]),
        (&Value::Null, &"tool_use".into())
    );
    let forced = format!(r#"{explicit},"tool_choice":"required""#);
    assert_eq!(to_anthropic("claude-sonnet-4-5", &request(signed, &forced))["thinking"], Value::Null);
}

#[test]
fn thinking_is_what_the_model_takes() {
    for (model, fields, thinking) in [
        (
            "claude-opus-4-8",
            r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
            r#"{"type":"adaptive","display":"summarized"}"#,
        ),
        (
            "claude-opus-4-6",
            r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
            r#"{"type":"enabled","budget_tokens":2000}"#,
        ),
        (
            "claude-sonnet-4-5",
            r#""thinking":{"type":"adaptive"}"#,
            r#"{"type":"enabled","budget_tokens":8192}"#,
        ),
        (
            "claude-sonnet-4-5",
            r#""max_tokens":3000,"thinking":{"type":"enabled","budget_tokens":3000}"#,
            r#"{"type":"enabled","budget_tokens":1500}"#,
        ),
        (
            "claude-sonnet-4-5",
            r#""thinking":{"type":"disabled"},"reasoning_effort":"high""#,
            r#"{"type":"disabled"}"#,
        ),
    ] {
        let request = format!(r#"{{{fields},"messages":[{{"role":"user","content":"u"}}]}}"#);
        assert_eq!(to_anthropic(model, &request)["thinking"], parse(thinking), "{model} {fields}");
    }
    let request =
        r#"{"thinking":{"type":"enabled","budget_tokens":2000},"messages":[{"role":"user","content":"u"}]}"#;
    assert_eq!(to_anthropic("claude-opus-4-8", request)["output_config"]["effort"], "low");
}

#[test]
fn sampling_is_what_the_model_takes() {
    for (model, fields, expected) in [
        ("claude-sonnet-4-5", r#""temperature":0.2,"top_p":0.9,"top_k":5"#, "0.2 null 5"),
        ("claude-sonnet-4-5", r#""top_p":0.9"#, "null 0.9 null"),
        ("claude-opus-4-20250514", r#""temperature":0.2,"top_p":0.9"#, "0.2 0.9 null"),
        ("claude-opus-4-8", r#""temperature":0,"top_p":0.9,"top_k":5"#, "null null null"),
        ("claude-sonnet-5", r#""temperature":0"#, "null null null"),
        ("claude-sonnet-4-5", r#""temperature":0,"top_k":5,"reasoning_effort":"high""#, "null null null"),
    ] {
        let sent =
            to_anthropic(model, &format!(r#"{{{fields},"messages":[{{"role":"user","content":"u"}}]}}"#));
        assert_eq!(
            format!("{} {} {}", sent["temperature"], sent["top_p"], sent["top_k"]),
            expected,
            "{model} {fields}"
        );
    }
}

#[test]
fn white_space_is_left_out_or_trimmed() {
    let sent = to_anthropic(
        "claude-sonnet-4-5",
        r#"{"messages":[{"role":"system","content":"  "},{"role":"user","content":"\n"},{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":" u "}]},{"role":"assistant","content":" "},{"role":"assistant","tool_calls":[{"id":"t","function":{"name":"f","arguments":" "}}]},{"role":"tool","tool_call_id":"t","content":"\t"},{"role":"user","content":""},{"role":"assistant","content":"Answer: \n"}]}"#,
    );
    assert_eq!(sent["system"], Value::Null);
    assert_eq!(
        sent["messages"],
        parse(
            r#"[{"role":"user","content":[{"type":"text","text":" u "}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]},{"role":"assistant","content":[{"type":"text","text":"Answer:"}]}]"#
        )
    );
    let body = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":" "}]}"#;
    check_refusal(
        anthropic::request(body.as_bytes(), "claude"),
        "`messages[2].content`: is empty; send a text",
    );
}

#[test]
fn recursive_schemas_are_cut_at_the_first_repetition() {
    let schema = r##"{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"and":{"$ref":"#/$defs/N"},"or":{"$ref":"#/$defs/N"},"not":{"$ref":"#/$defs/N"}}}}}"##;
    let request = format!(
        r#"{{"messages":[{{"role":"user","content":"hi"}}],"response_format":{{"type":"json_schema","json_schema":{{"schema":{schema}}}}}}}"#
    );
    let body = gemini::request(request.as_bytes(), "gemini-2.5-pro").unwrap();
    assert_eq!(
        parse(&String::from_utf8(body).unwrap())["generationConfig"]["responseSchema"],
        parse(
            r#"{"type":"OBJECT","properties":{"n":{"type":"OBJECT","properties":{"and":{"type":"OBJECT"},"or":{"type":"OBJECT"},"not":{"type":"OBJECT"}},"propertyOrdering":["and","or","not"]}}}"#
        )
    );
    let sent = to_anthropic("claude-sonnet-4-5", &request);
    let closed = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
    assert_eq!(
        sent["output_config"]["format"]["schema"],
        parse(&format!(
            r#"{{"type":"object","properties":{{"n":{{"type":"object","properties":{{"and":{closed},"or":{closed},"not":{closed}}},"additionalProperties":false}}}},"additionalProperties":false}}"#
        ))
    );
}

#[test]
fn errors_in_bodies_are_errors() {
    for body in [
        r#"{"error":{"message":"m","code":429}}"#,
        r#"{"error":"m","choices":[]}"#,
        r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
        r#"{"choices":[{"index":0,"message":{"content":""},"error":{"message":"m"},"finish_reason":"error"}]}"#,
        r#"{"id":"g","error":{"message":"m"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
    ] {
        let error = messages::reply(body.as_bytes(), &context(false)).unwrap_err();
        assert_eq!(error.to_string(), "m");
        let error = StreamTranslator::messages(context(false)).push(body, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "m");
    }
}

#[test]
fn errors_of_other_providers_in_bodies_are_errors() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#;
    let expected = TranslateError::Provider { kind: "overloaded_error".to_owned(), message: "m".to_owned() };
    assert_eq!(anthropic::reply(body.as_bytes(), &context(false)).unwrap_err(), expected);
    assert!(matches!(anthropic::reply(b"{}", &context(false)), Err(TranslateError::Reply(_))));
}

#[test]
fn a_reply_ends_with_a_reason() {
    let mut stream = StreamTranslator::messages(context(false));
    stream
        .push(r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}"#, &mut Vec::new())
        .unwrap();
    assert!(stream.finish(&mut Vec::new()).is_err());
}

#[test]
fn halves_of_surrogate_pairs_are_replaced() {
    let reply = r#"{"choices":[{"message":{"content":"a\ud83d"},"finish_reason":"stop"}]}"#;
    let (body, _) = messages::reply(reply.as_bytes(), &context(false)).unwrap();
    assert!(String::from_utf8(body).unwrap().contains("a\u{FFFD}"));
    check_deltas(
        &[r#"{"content":"\ud83d"}"#, r#"{"content":"\ude00"}"#],
        "[{\"type\":\"text\",\"text\":\"\u{FFFD}\u{FFFD}\"}]",
    );
    let request = r#"{"messages":[{"role":"user","content":"\udc00"}]}"#;
    assert_eq!(to_anthropic("claude", request)["messages"][0]["content"][0]["text"], "\u{FFFD}");
    assert!(gemini::request(request.as_bytes(), "gemini-3-pro").is_ok());
}
