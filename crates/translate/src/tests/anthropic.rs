use super::*;
use crate::{Dialect, anthropic, error};

/// A request to Anthropic must be this, apart from `model` and `max_tokens` of 4096.
fn check(request: &str, expected: &str) {
    check_model("claude-opus-4-6", request, expected);
}

fn check_model(model: &str, request: &str, expected: &str) {
    let mut expected = parse(expected);
    expected["model"] = model.into();
    if expected["max_tokens"].is_null() {
        expected["max_tokens"] = 4096.into();
    }
    let body = anthropic::request(request.as_bytes(), model).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
}

fn refuses(fields: &str, expected: &str) {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"a"}}],{fields}}}"#);
    check_refusal(anthropic::request(body.as_bytes(), "claude"), expected);
}

const HI: &str = r#""messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#;

fn check_fields(fields: &str, expected: &str) {
    check(&format!("{{{HI},{fields}}}"), &format!("{{{HI},{expected}}}"));
}

#[test]
fn system_and_developer_messages_are_hoisted() {
    check(
        r#"{"model":"x","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"developer","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}]}]}"#,
        r#"{"system":[{"type":"text","text":"a"},{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"b"}]}]}"#,
    );
}

#[test]
fn the_mark_of_a_text_that_is_left_out_goes_to_the_block_before_it() {
    check(
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":" ","cache_control":{"type":"x"}},{"type":"text","text":"a"},{"type":"text","text":"\n","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]}]}"#,
    );
}

#[test]
fn images_and_files_become_sources() {
    check(
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"image_url","image_url":{"url":"https://a/b.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,BBBB"}}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://a/b.png"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"BBBB"},"title":"a.pdf"}]}]}"#,
    );
}

#[test]
fn consecutive_tool_results_are_one_turn() {
    check(
        r#"{"messages":[{"role":"user","content":"w"},{"role":"assistant","content":null,"tool_calls":[{"id":"a.1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":""}}]},{"role":"tool","tool_call_id":"a.1","content":"one"},{"role":"tool","tool_call_id":"b","content":""},{"role":"user","content":"next"}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"w"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a_1","name":"f","input":{"x":1}},{"type":"tool_use","id":"b","name":"g","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_1","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"b"}]},{"role":"user","content":[{"type":"text","text":"next"}]}]}"#,
    );
}

#[test]
fn tools_and_choices() {
    let given = r#""tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"g"}}]"#;
    let tools = r#""tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{}}},{"name":"g","input_schema":{"type":"object","properties":{}}}]"#;
    check_fields(given, tools);
    for (choice, expected) in [
        (r#""tool_choice":"auto""#, r#"{"type":"auto"}"#),
        (r#""tool_choice":"none","parallel_tool_calls":false"#, r#"{"type":"none"}"#),
        (r#""tool_choice":"required""#, r#"{"type":"any"}"#),
        (r#""tool_choice":{"type":"function","function":{"name":"f"}}"#, r#"{"type":"tool","name":"f"}"#),
        (
            r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}}"#,
            r#"{"type":"auto"}"#,
        ),
        (r#""parallel_tool_calls":false"#, r#"{"type":"auto","disable_parallel_tool_use":true}"#),
    ] {
        check_fields(&format!("{given},{choice}"), &format!(r#"{tools},"tool_choice":{expected}"#));
    }
}

#[test]
fn parameters() {
    check_fields(
        r#""max_tokens":9,"max_completion_tokens":7,"temperature":1.5,"top_p":0.5,"stop":"x","stream":true,"user":"u","seed":1,"n":1,"logprobs":false"#,
        r#""max_tokens":7,"temperature":1,"stop_sequences":["x"],"stream":true,"metadata":{"user_id":"u"}"#,
    );
    check_fields(r#""stop":["a"," "],"top_k":3"#, r#""stop_sequences":["a"],"top_k":3"#);
}

#[test]
fn formats() {
    check_fields(
        r#""response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"a":{"type":"string"}}}}}"#,
        r#""output_config":{"format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}}}"#,
    );
    check_fields(
        r#""response_format":{"type":"json_object"}"#,
        r#""system":[{"type":"text","text":"Answer with one JSON object and nothing else: no text before or after it, no code fence."}]"#,
    );
}

#[test]
fn effort_is_a_budget_or_an_effort_by_model() {
    check_fields(
        r#""reasoning_effort":"medium","temperature":0.5"#,
        r#""max_tokens":12288,"thinking":{"type":"adaptive"},"output_config":{"effort":"medium"}"#,
    );
    check_fields(r#""reasoning_effort":"none""#, r#""max_tokens":4096"#);
    check_fields(
        r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
        r#""max_tokens":6096,"thinking":{"type":"enabled","budget_tokens":2000}"#,
    );
    let with = |fields: &str| format!("{{{HI},{fields}}}");
    for (given, expected) in [
        (
            r#""reasoning_effort":"low""#,
            r#""max_tokens":5120,"thinking":{"type":"enabled","budget_tokens":1024}"#,
        ),
        (
            r#""reasoning_effort":"high","max_tokens":8000"#,
            r#""max_tokens":8000,"thinking":{"type":"enabled","budget_tokens":4000}"#,
        ),
        (r#""reasoning_effort":"high","max_tokens":1000"#, r#""max_tokens":1000"#),
    ] {
        check_model("claude-sonnet-4-5", &with(given), &with(expected));
    }
    for asked in [r#""reasoning_effort":"high""#, r#""thinking":{"type":"enabled","budget_tokens":2000}"#] {
        check_model(
            "claude-3-5-haiku-latest",
            &with(&format!(r#"{asked},"max_tokens":9000"#)),
            &with(r#""max_tokens":9000"#),
        );
    }
}

#[test]
fn what_changes_the_meaning_is_refused() {
    refuses(r#""n":2"#, "`n`: is more than Anthropic gives, one reply per request");
    refuses(r#""logprobs":true"#, "`logprobs`");
    refuses(r#""logit_bias":{"1":5}"#, "`logit_bias`");
    refuses(r#""functions":[{}]"#, "`functions`");
    refuses(r#""modalities":["audio"]"#, "`modalities`");
    refuses(r#""max_tokens":0"#, "`max_tokens`: must be a whole number above 0");
    refuses(r#""tools":[{"type":"custom","custom":{}}]"#, "`tools[0]`");
    refuses(
        r##""tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","parameters":{"$ref":"#/a"}}}]"##,
        "`tools[1].function.parameters`: has the reference",
    );
    let request = |message: &str| {
        let body = format!(r#"{{"messages":[{message}]}}"#);
        anthropic::request(body.as_bytes(), "m")
    };
    check_refusal(request(""), "`messages`");
    check_refusal(request(r#"{"role":"user","content":""}"#), "`messages[0].content`: is empty");
    check_refusal(
        request(
            r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"A","format":"wav"}}]}"#,
        ),
        "`messages[0].content[0]`: Anthropic reads images (JPEG, PNG, GIF, WebP) and PDFs",
    );
    check_refusal(
        request(r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"["}}]}"#),
        "`messages[0].tool_calls[0].function.arguments`",
    );
}

fn check_reply(reply: &str, message: &str, reason: &str) {
    let (body, usage) = anthropic::reply(reply.as_bytes(), &context(false)).unwrap();
    let expected = format!(
        r#"{{"id":"chatcmpl-7","object":"chat.completion","created":5,"model":"alias","choices":[{{"index":0,"message":{message},"logprobs":null,"finish_reason":"{reason}"}}],"usage":{{"prompt_tokens":16,"completion_tokens":3,"total_tokens":19,"prompt_tokens_details":{{"cached_tokens":4,"cache_write_tokens":2}},"completion_tokens_details":{{"reasoning_tokens":1}}}}}}"#
    );
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), parse(&expected));
    assert_eq!(
        usage,
        TokenUsage {
            prompt: 16,
            cached: 4,
            cache_write: 2,
            completion: 3,
            reasoning: 1,
            ..TokenUsage::default()
        }
    );
}

fn reply_of(content: &str, reason: &str) -> String {
    format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"m","content":{content},"stop_reason":"{reason}","usage":{{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":2,"output_tokens":3,"output_tokens_details":{{"thinking_tokens":1}}}}}}"#
    )
}

#[test]
fn every_stop_reason() {
    for (reason, expected) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
    ] {
        let reply = reply_of(r#"[{"type":"text","text":"a"},{"type":"text","text":"b\n"}]"#, reason);
        check_reply(&reply, r#"{"role":"assistant","content":"ab\n","refusal":null}"#, expected);
    }
}

#[test]
fn thinking_and_calls() {
    check_reply(
        &reply_of(
            r#"[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"t","name":"f","input":{"a": 1}}]"#,
            "tool_use",
        ),
        r#"{"role":"assistant","content":null,"refusal":null,"reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}],"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]}"#,
        "tool_calls",
    );
}

const START: &str = r#"{"type":"message_start","message":{"id":"m","type":"message","content":[],"usage":{"input_tokens":9,"cache_read_input_tokens":1,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

#[test]
fn stream_of_text() {
    check_stream(
        StreamTranslator::anthropic(context(true)),
        &[
            START,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\n"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}"#,
            STOP,
        ],
        &[
            r#"0 {"content":"","role":"assistant"} -"#,
            r#"0 {"content":"a\n"} -"#,
            "0 {} stop",
            r#"usage {"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":0},"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":1},"total_tokens":15}"#,
        ],
    );
}

#[test]
fn stream_of_thinking_and_calls() {
    check_stream(
        StreamTranslator::anthropic(context(false)),
        &[
            START,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t2","name":"g","input":{}}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#,
            STOP,
        ],
        &[
            r#"0 {"content":"","role":"assistant"} -"#,
            r#"0 {"reasoning_content":"hm"} -"#,
            r#"0 {"thinking_blocks":[{"index":0,"signature":"s","thinking":"hm","type":"thinking"}]} -"#,
            r#"0 {"tool_calls":[{"function":{"arguments":"","name":"f"},"id":"t1","index":0,"type":"function"}]} -"#,
            r#"0 {"tool_calls":[{"function":{"arguments":"{\"a\":"},"index":0}]} -"#,
            r#"0 {"tool_calls":[{"function":{"arguments":"1}"},"index":0}]} -"#,
            r#"0 {"tool_calls":[{"function":{"arguments":"","name":"g"},"id":"t2","index":1,"type":"function"}]} -"#,
            r#"0 {"tool_calls":[{"function":{"arguments":"{}"},"index":1}]} -"#,
            "0 {} tool_calls",
        ],
    );
}

#[test]
fn exact_bytes_of_a_chunk() {
    let mut out = Vec::new();
    StreamTranslator::anthropic(context(true)).push(START, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "data: {\"id\":\"chatcmpl-7\",\"object\":\"chat.completion.chunk\",\"created\":5,\"model\":\"alias\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"
    );
}

#[test]
fn broken_streams_are_errors() {
    let run = |events: &[&str]| run(StreamTranslator::anthropic(context(false)), events).unwrap_err();
    assert!(matches!(run(&[START]), TranslateError::Reply(_)));
    assert!(matches!(run(&[START, STOP]), TranslateError::Reply(_)));
    assert!(matches!(run(&[START, "{\"type\":"]), TranslateError::Reply(_)));
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(
        run(&[START, error]),
        TranslateError::Provider { kind: "overloaded_error".to_owned(), message: "Overloaded".to_owned() }
    );
}

#[test]
fn errors_keep_their_message() {
    for (status, body, expected) in [
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
            r#"{"message":"slow","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}"#,
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            r#"{"message":"m","type":"server_error","param":null,"code":"overloaded_error"}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 2 tokens > 1 maximum"}}"#,
            r#"{"message":"prompt is too long: 2 tokens > 1 maximum","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}"#,
        ),
        (
            502,
            "<html>",
            r#"{"message":"the provider answered with status 502: <html>","type":"server_error","param":null,"code":null}"#,
        ),
    ] {
        let body = error(Dialect::Anthropic, status, body.as_bytes());
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["error"], parse(expected));
    }
}
