use super::*;
use crate::messages;

/// A request of Anthropic's API to the model `m` must become this.
fn check(request: &str, expected: &str) {
    check_model("m", request, expected);
}

fn check_model(model: &str, request: &str, expected: &str) {
    let mut expected = parse(expected);
    expected["model"] = model.into();
    let body = messages::request(request.as_bytes(), model, true).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

fn check_fields(fields: &str, expected: &str) {
    check(&format!("{{{HI},{fields}}}"), &format!("{{{HI},{expected}}}"));
}

#[test]
fn blocks_become_messages() {
    check(
        r#"{"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}],"messages":[{"role":"user","content":[{"type":"text","text":"c"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"d"},{"type":"tool_use","id":"t","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]},{"type":"text","text":"e"}]},{"role":"assistant","content":"g"}]}"#,
        r#"{"messages":[{"role":"system","content":"a\nb"},{"role":"user","content":"c"},{"role":"assistant","content":"d","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"t","content":"r"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"text","text":"e"}]},{"role":"assistant","content":"g"}]}"#,
    );
}

#[test]
fn parameters() {
    check_fields(
        r#""max_tokens":5,"temperature":0.5,"top_p":0.1,"top_k":3,"stop_sequences":["x"],"stream":true,"metadata":{"user_id":"u"},"thinking":{"type":"enabled","budget_tokens":5000}"#,
        r#""max_tokens":5,"temperature":0.5,"top_p":0.1,"stop":["x"],"stream":true,"stream_options":{"include_usage":true},"user":"u""#,
    );
    let request = format!(
        r#"{{{HI},"max_tokens":5,"thinking":{{"type":"enabled","budget_tokens":5000}},"output_config":{{"format":{{"type":"json_schema","schema":{{}}}}}}}}"#
    );
    let expected = format!(
        r#"{{{HI},"max_completion_tokens":5,"reasoning_effort":"medium","response_format":{{"type":"json_schema","json_schema":{{"name":"reply","schema":{{}},"strict":false}}}}}}"#
    );
    check_model("gpt-5-mini", &request, &expected);
}

#[test]
fn tools_and_choices() {
    let given = r#""tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}]"#;
    let tools = r#""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}]"#;
    check_fields(given, tools);
    for (choice, expected) in [
        (r#"{"type":"auto","disable_parallel_tool_use":true}"#, r#""auto","parallel_tool_calls":false"#),
        (r#"{"type":"any"}"#, r#""required""#),
        (r#"{"type":"none"}"#, r#""none""#),
        (r#"{"type":"tool","name":"f"}"#, r#"{"type":"function","function":{"name":"f"}}"#),
    ] {
        check_fields(
            &format!(r#"{given},"tool_choice":{choice}"#),
            &format!(r#"{tools},"tool_choice":{expected}"#),
        );
    }
    let body = format!(r#"{{{HI},"tools":[{{"type":"web_search_20250305","name":"web_search"}}]}}"#);
    check_refusal(
        messages::request(body.as_bytes(), "m", true),
        "`tools[0]`: \"web_search_20250305\" is a tool of Anthropic's",
    );
}

#[test]
fn inputs_that_are_objects_have_properties() {
    for (given, expected) in [
        (
            r#"{"type":"object","additionalProperties":false}"#,
            r#"{"type":"object","additionalProperties":false,"properties":{}}"#,
        ),
        (
            r#"{"required":["z"],"properties":{"z":{},"a":{"type":"object"}},"type":"object"}"#,
            r#"{"required":["z"],"properties":{"z":{},"a":{"type":"object"}},"type":"object"}"#,
        ),
        ("{}", "{}"),
    ] {
        let body = format!(r#"{{{HI},"tools":[{{"name":"f","input_schema":{given}}}]}}"#);
        let body = String::from_utf8(messages::request(body.as_bytes(), "m", true).unwrap()).unwrap();
        assert!(body.contains(&format!(r#""parameters":{expected}}}"#)), "{body}");
    }
}

fn check_reply(message: &str, reason: &str, content: &str, stop_reason: &str) {
    let reply = format!(
        r#"{{"id":"x","choices":[{{"index":0,"message":{message},"finish_reason":"{reason}"}}],"usage":{{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"prompt_tokens_details":{{"cached_tokens":4}}}}}}"#
    );
    let (body, usage) = messages::reply(reply.as_bytes(), &context(false)).unwrap();
    let expected = format!(
        r#"{{"id":"chatcmpl-7","type":"message","role":"assistant","model":"alias","content":{content},"stop_reason":"{stop_reason}","stop_sequence":null,"usage":{{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":3}}}}"#
    );
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), parse(&expected));
    assert_eq!(usage, TokenUsage { prompt: 10, cached: 4, completion: 3, ..TokenUsage::default() });
}

#[test]
fn every_finish_reason() {
    for (reason, expected) in [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("content_filter", "refusal"),
    ] {
        check_reply(
            r#"{"role":"assistant","content":"a"}"#,
            reason,
            r#"[{"type":"text","text":"a"}]"#,
            expected,
        );
    }
    check_reply(
        r#"{"content":null,"reasoning_content":"hm","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}"#,
        "stop",
        r#"[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"t","name":"f","input":{"x":1}}]"#,
        "tool_use",
    );
}

fn run_messages(chunks: &[&str]) -> Result<Vec<String>, TranslateError> {
    let mut stream = StreamTranslator::messages(context(false));
    let mut out = Vec::new();
    for data in chunks {
        stream.push(data, &mut out)?;
    }
    stream.finish(&mut out)?;
    let text = String::from_utf8(out).unwrap();
    let line = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").expect("two lines");
        let mut data = parse(data);
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data.as_object_mut().unwrap().remove("type");
        format!("{} {data}", &name["event: ".len()..])
    };
    Ok(text.split_terminator("\n\n").map(line).collect())
}

const START: &str = r#"message_start {"message":{"content":[],"id":"chatcmpl-7","model":"alias","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":0,"output_tokens":0}}}"#;

#[test]
fn stream_of_thinking_text_and_calls() {
    let events = run_messages(&[
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"a\n"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"b"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"u","function":{"name":"g","arguments":"{\"x\":1}"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}"#,
        "[DONE]",
    ]);
    let expected = [
        START,
        r#"content_block_start {"content_block":{"signature":"","thinking":"","type":"thinking"},"index":0}"#,
        r#"content_block_delta {"delta":{"thinking":"hm","type":"thinking_delta"},"index":0}"#,
        r#"content_block_stop {"index":0}"#,
        r#"content_block_start {"content_block":{"text":"","type":"text"},"index":1}"#,
        r#"content_block_delta {"delta":{"text":"a\n","type":"text_delta"},"index":1}"#,
        r#"content_block_delta {"delta":{"text":"b","type":"text_delta"},"index":1}"#,
        r#"content_block_stop {"index":1}"#,
        r#"content_block_start {"content_block":{"id":"t","input":{},"name":"f","type":"tool_use"},"index":2}"#,
        r#"content_block_delta {"delta":{"partial_json":"{}","type":"input_json_delta"},"index":2}"#,
        r#"content_block_stop {"index":2}"#,
        r#"content_block_start {"content_block":{"id":"u","input":{},"name":"g","type":"tool_use"},"index":3}"#,
        r#"content_block_delta {"delta":{"partial_json":"{\"x\":1}","type":"input_json_delta"},"index":3}"#,
        r#"content_block_stop {"index":3}"#,
        r#"message_delta {"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"input_tokens":6,"output_tokens":3}}"#,
        "message_stop {}",
    ];
    assert_eq!(events.unwrap(), expected);
}

#[test]
fn broken_streams_are_errors() {
    let run = |chunks: &[&str]| run_messages(chunks).unwrap_err();
    let text = r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#;
    assert!(matches!(run(&[text]), TranslateError::Reply(_)));
    assert!(matches!(run(&[text, "{"]), TranslateError::Reply(_)));
    let part =
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#;
    assert!(matches!(run(&[part]), TranslateError::Reply(_)));
    assert_eq!(
        run(&[text, r#"{"error":{"message":"m","type":"server_error"}}"#]),
        TranslateError::Provider { kind: "server_error".to_owned(), message: "m".to_owned() }
    );
}

#[test]
fn errors_keep_their_message() {
    for (status, kind) in
        [(400, "invalid_request_error"), (401, "authentication_error"), (429, "rate_limit_error")]
    {
        let body =
            messages::error(status, br#"{"error":{"message":"m","type":"x","param":null,"code":null}}"#);
        let expected = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"m"}}}}"#);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), parse(&expected));
    }
}

#[test]
fn calls_without_ids_and_arguments_are_told_apart_by_their_names() {
    let part = |name: &str| {
        format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"name":"{name}"}}}}]}}}}]}}"#
        )
    };
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let out = run_messages(&[&part("f"), &part("f"), &part("g"), end]).unwrap().concat();
    let names = ["f", "g"].map(|name| out.matches(&format!(r#""name":"{name}""#)).count());
    assert_eq!(names, [1, 1], "{out}");
}
