use std::time::Duration;

use serde_json::json;

use super::*;
use crate::ollama::{Endpoint, Moment, OllamaStream, Reply, request};

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

fn moment(ms: u64) -> Moment {
    Moment { time: "2026-01-02T03:04:05Z".to_owned(), elapsed: Duration::from_millis(ms) }
}

/// A request that is not streamed must become this.
fn check(endpoint: Endpoint, fields: &str, expected: &str) {
    let body = format!(r#"{{"model":"m:latest","stream":false,{fields}}}"#);
    let request = request(endpoint, body.as_bytes()).unwrap();
    let mut expected = parse(expected);
    expected["model"] = "m".into();
    expected["stream"] = false.into();
    assert_eq!(serde_json::from_slice::<Value>(&request.body("m")).unwrap(), expected, "{fields}");
    assert_eq!((request.model.as_str(), request.load), ("m:latest", None), "{fields}");
}

fn check_refused(endpoint: Endpoint, fields: &str, expected: &str) {
    let body = format!(r#"{{"model":"m",{fields}}}"#);
    check_refusal(request(endpoint, body.as_bytes()).map(|request| request.body("m")), expected);
}

#[test]
fn a_conversation_with_images_and_calls_becomes_openais() {
    check(
        Endpoint::Chat,
        r#""messages":[{"role":"system","content":"s"},{"role":"User","content":"u","images":["iVBORw0KGgoAA","/9j/4A"]},
           {"role":"assistant","content":"","thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":"x"}}},{"id":"own","function":{"name":"g","arguments":{}}}]},
           {"role":"tool","content":"of g","tool_name":"g"},{"role":"tool","content":"of f"},{"role":"assistant","content":"done"}],
           "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#,
        r#"{"messages":[{"role":"system","content":"s"},
            {"role":"user","content":[{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAA"}},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9j/4A"}}]},
            {"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":\"x\"}"}},{"id":"own","type":"function","function":{"name":"g","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"own","content":"of g"},{"role":"tool","tool_call_id":"call_1","content":"of f"},{"role":"assistant","content":"done"}],
            "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}"#,
    );
    check_refused(
        Endpoint::Chat,
        r#""messages":[{"role":"tool","content":"x"}]"#,
        "`messages[0]`: answers no call",
    );
    check_refused(
        Endpoint::Chat,
        r#""messages":[{"role":"user","images":["data:image/png;base64,iVBORw0KGgo"]}]"#,
        "`messages[0].images[0]`: is not PNG, JPEG, GIF or WebP in base64",
    );
    check_refused(
        Endpoint::Chat,
        r#""messages":[{"role":"user","content":["x"]}]"#,
        "`messages[0]`: can't be read",
    );
    check_refused(Endpoint::Chat, r#""messages":[{"role":"robot"}]"#, "`messages[0].role`: must be");
}

#[test]
fn thinking_goes_back_to_models_that_want_it() {
    let sent = |model: &str, thinking: &str| {
        let message = json!({"role": "assistant", "content": "a", "thinking": thinking});
        let body = json!({"model": model, "messages": [message]}).to_string();
        let sent = request(Endpoint::Chat, body.as_bytes()).unwrap().body(model);
        serde_json::from_slice::<Value>(&sent).unwrap()["messages"][0]["reasoning_content"].take()
    };
    for model in ["ds/deepseek-chat", "moonshot/Kimi-K2-thinking:latest"] {
        assert_eq!(sent(model, "hm"), "hm", "{model}");
        assert_eq!(sent(model, ""), Value::Null, "{model}");
    }
    assert_eq!(sent("gpt-5.4", "hm"), Value::Null);
}

#[test]
fn options_are_sent_ignored_or_refused_by_name() {
    let options = |options: &str| format!(r#"{HI},"options":{{{options}}}"#);
    check(
        Endpoint::Chat,
        &options(
            r#""temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":7,"repeat_penalty":1.1,"presence_penalty":1,"frequency_penalty":2,"num_predict":5,"stop":["x"],"num_ctx":4096,"num_gpu":1,"mirostat":0"#,
        ),
        &format!(
            r#"{{{HI},"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":7,"repetition_penalty":1.1,"presence_penalty":1,"frequency_penalty":2,"max_tokens":5,"stop":["x"]}}"#
        ),
    );
    check(Endpoint::Chat, &options(r#""num_predict":-1,"stop":[],"seed":null"#), &format!("{{{HI}}}"));
    let refused = |given: &str, expected: &str| check_refused(Endpoint::Chat, &options(given), expected);
    refused(r#""mirostat":2"#, "`options.mirostat`: is not possible");
    refused(r#""temprature":2"#, "`options.temprature`: is not known");
    refused(r#""temperature":"2""#, "`options.temperature`: must be a number");
    refused(r#""num_predict":1.5"#, "`options.num_predict`: must be a whole number");
    refused(r#""stop":[1]"#, "`options.stop`: must be a list of texts");
    let limited = request(Endpoint::Chat, br#"{"model":"gpt-5","options":{"num_predict":5}}"#).unwrap();
    let body = String::from_utf8(limited.body("gpt-5")).unwrap();
    assert!(body.contains(r#""max_completion_tokens":5"#) && !body.contains("max_tokens"), "{body}");
}

#[test]
fn formats_keep_the_order_of_their_properties() {
    check(
        Endpoint::Chat,
        &format!(r#"{HI},"format":"json","think":"max","keep_alive":"5m","truncate":true"#),
        &format!(r#"{{{HI},"response_format":{{"type":"json_object"}},"reasoning_effort":"high"}}"#),
    );
    let schema = r#"{"type":"object","properties":{"reason":{"type":"string"},"answer":{"type":"string"}}}"#;
    let body = format!(r#"{{"model":"m",{HI},"format":{schema},"think":false}}"#);
    let request = request(Endpoint::Chat, body.as_bytes()).unwrap();
    let sent = String::from_utf8(request.body("m")).unwrap();
    let expected = format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"reply","schema":{schema}}}}}"#
    );
    assert!(sent.contains(&expected) && sent.contains(r#""reasoning_effort":"none""#), "{sent}");
    assert!(sent.contains(r#""stream":true,"stream_options":{"include_usage":true}"#), "{sent}");
    assert!(request.is_stream && !request.shows_thinking);
    check_refused(Endpoint::Chat, &format!(r#"{HI},"format":"xml""#), "`format`: must be");
    check_refused(Endpoint::Chat, &format!(r#"{HI},"think":"hard""#), "`think`: must be");
}

#[test]
fn a_prompt_becomes_messages_and_a_raw_one_a_completion() {
    check(
        Endpoint::Generate,
        r#""prompt":"p","system":"s","template":"","context":[],"images":["R0lGODlh"]"#,
        r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"p"},{"type":"image_url","image_url":{"url":"data:image/gif;base64,R0lGODlh"}}]}]}"#,
    );
    check(Endpoint::Generate, r#""prompt":"p","raw":true"#, r#"{"prompt":"p"}"#);
    check(Endpoint::Generate, r#""prompt":"p","suffix":"s""#, r#"{"prompt":"p","suffix":"s"}"#);
    let refused = |fields: &str, expected: &str| check_refused(Endpoint::Generate, fields, expected);
    refused(r#""prompt":"p","template":"t""#, "`template`: is not possible");
    refused(r#""prompt":"p","context":[1,2]"#, "`context`: is not possible");
    refused(r#""prompt":"p","raw":true,"system":"s""#, "`system`: is not possible together with `raw`");
    refused(
        r#""prompt":"p","suffix":"x","format":"json""#,
        "`format`: is not possible together with `suffix`",
    );
    refused(r#""prompt":"p","messages":[]"#, "`messages`: is a field of /api/chat");
    refused(r#""prompt":"p","temperature":1"#, "`temperature`: is not known");
    check_refused(Endpoint::Chat, r#""messages":[],"system":"s""#, "`system`: is a field of /api/generate");
}

#[test]
fn a_request_without_a_question_only_loads_the_model() {
    let load = |endpoint, body: &str| request(endpoint, body.as_bytes()).unwrap().load;
    assert_eq!(load(Endpoint::Chat, r#"{"model":"m","messages":[]}"#), Some("load"));
    assert_eq!(load(Endpoint::Chat, r#"{"model":"m","keep_alive":0}"#), Some("unload"));
    assert_eq!(load(Endpoint::Generate, r#"{"model":"m","keep_alive":"0s"}"#), Some("unload"));
    assert_eq!(load(Endpoint::Generate, r#"{"model":"m","keep_alive":"10m"}"#), Some("load"));
    assert_eq!(load(Endpoint::Generate, r#"{"model":"m","prompt":"p","keep_alive":0}"#), None);
}

fn reply(endpoint: Endpoint, shows_thinking: bool) -> Reply {
    Reply { endpoint, model: "m:latest".to_owned(), shows_thinking }
}

#[test]
fn a_whole_reply_has_counts_and_nanoseconds() {
    let completion = r#"{"choices":[{"message":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2},"sources":[{"n":1}]}"#;
    let whole = reply(Endpoint::Chat, true).whole(completion.as_bytes(), &moment(2)).unwrap();
    assert_eq!(
        String::from_utf8(whole).unwrap(),
        r#"{"model":"m:latest","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":"","thinking":"hm","tool_calls":[{"id":"c","function":{"index":0,"name":"f","arguments":{"b":1,"a":2}}}]},"done":true,"done_reason":"stop","total_duration":2000000,"load_duration":0,"prompt_eval_count":3,"prompt_eval_duration":0,"eval_count":2,"eval_duration":2000000,"sources":[{"n":1}]}"#
    );
    let text = br#"{"choices":[{"text":"x","finish_reason":"length"}]}"#;
    let whole = reply(Endpoint::Generate, true).whole(text, &moment(0)).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!((&whole["response"], &whole["done_reason"]), (&"x".into(), &"length".into()));
    assert_eq!((whole.get("eval_count"), &whole["eval_duration"]), (None, &1.into()));
    let broken = br#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}}]}"#;
    assert!(reply(Endpoint::Chat, true).whole(broken, &moment(0)).is_err());
}

/// The lines of a stream, without what all have in common.
fn lines(reply: Reply, events: &[&str]) -> Result<Vec<Value>, TranslateError> {
    let (mut stream, mut out) = (OllamaStream::new(reply), Vec::new());
    for (number, data) in events.iter().enumerate() {
        stream.push(data, &moment(1 + number as u64), &mut out)?;
    }
    stream.finish(&moment(10), &mut out)?;
    let text = String::from_utf8(out).unwrap();
    let line = |line: &str| {
        let mut line = parse(line);
        let object = line.as_object_mut().unwrap();
        assert_eq!(object.remove("model"), Some("m:latest".into()));
        assert_eq!(object.remove("created_at"), Some("2026-01-02T03:04:05Z".into()));
        line
    };
    Ok(text.lines().map(line).collect())
}

#[test]
fn a_stream_becomes_lines_with_whole_calls() {
    let events = [
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"x\""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"id":"d","function":{"name":"g"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
        "[DONE]",
    ];
    let message = |rest: &str| parse(&format!(r#"{{"message":{{"role":"assistant",{rest}}},"done":false}}"#));
    let last = parse(
        r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":10000000,"load_duration":0,"prompt_eval_count":3,"prompt_eval_duration":1000000,"eval_count":2,"eval_duration":9000000}"#,
    );
    let calls = message(
        r#""content":"","tool_calls":[{"id":"c","function":{"index":0,"name":"f","arguments":{"x":1}}},{"id":"d","function":{"index":1,"name":"g","arguments":{}}}]"#,
    );
    let expected = vec![
        message(r#""content":"","thinking":"hm""#),
        message(r#""content":"a""#),
        calls.clone(),
        last.clone(),
    ];
    assert_eq!(lines(reply(Endpoint::Chat, true), &events).unwrap(), expected);
    let without_thoughts = vec![message(r#""content":"a""#), calls, last];
    assert_eq!(lines(reply(Endpoint::Chat, false), &events).unwrap(), without_thoughts);
}

#[test]
fn a_stream_of_a_prompt_has_its_text_and_an_error_ends_it() {
    let events = [
        r#"{"choices":[{"index":0,"text":"a"}]}"#,
        r#"{"choices":[{"index":0,"text":"","finish_reason":"content_filter"}],"weir":{"guardrail":"r"}}"#,
    ];
    let lines_of = lines(reply(Endpoint::Generate, true), &events).unwrap();
    assert_eq!(lines_of[0], parse(r#"{"response":"a","done":false}"#));
    let last = &lines_of[1];
    assert_eq!((&last["response"], &last["done_reason"]), (&"".into(), &"content_filter".into()));
    assert_eq!(last["weir"]["guardrail"], "r");
    let failed = lines(reply(Endpoint::Chat, true), &[r#"{"error":{"message":"no room"}}"#]);
    assert_eq!(failed.unwrap_err().to_string(), "no room");
    let cut = [
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}"#,
    ];
    assert!(lines(reply(Endpoint::Chat, true), &cut).is_err());
    assert_eq!(crate::ollama::error(400, br#"{"error":{"message":"bad"}}"#), b"{\"error\":\"bad\"}\n");
}

/// The messages of a stream with these deltas, up to the last line.
fn streamed(deltas: &[&str]) -> Result<Vec<Value>, TranslateError> {
    let event = |delta: &&str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let events: Vec<String> = deltas.iter().map(event).collect();
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let events: Vec<&str> = events.iter().map(String::as_str).chain([end]).collect();
    let mut lines = lines(reply(Endpoint::Chat, true), &events)?;
    assert_eq!(lines.pop().map(|last| last["done"].clone()), Some(true.into()));
    Ok(lines.iter().map(|line| line["message"].clone()).collect())
}

/// The message of a whole reply with this one.
fn whole(message: &str) -> Result<Value, TranslateError> {
    let body = format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#);
    let body = reply(Endpoint::Chat, true).whole(body.as_bytes(), &moment(0))?;
    Ok(parse(&String::from_utf8(body).unwrap())["message"].clone())
}

#[test]
fn parallel_calls_are_kept_apart() {
    let call = |index: &str, id: &str, name: &str, arguments: &str| {
        format!(r#"{{"tool_calls":[{{{index}{id}"function":{{{name}"arguments":"{arguments}"}}}}]}}"#)
    };
    let expected = r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"f","arguments":{"a":"1"}}},{"id":"b","function":{"index":1,"name":"f","arguments":{"a":"2"}}}]}"#;
    let check = |deltas: &[String], expected: &str| {
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        assert_eq!(streamed(&deltas).unwrap(), [parse(expected)], "{deltas:?}");
    };
    let (first, second) = (r#"{\"a\":\"1\"}"#, r#"{\"a\":\"2\"}"#);
    let (a, b, name) = (r#""id":"a","#, r#""id":"b","#, r#""name":"f","#);
    let (zero, one) = (r#""index":0,"#, r#""index":1,"#);
    // all have one index, or none
    for index in [zero, "", r#""index":null,"#] {
        check(&[call(index, a, name, first), call(index, b, name, second)], expected);
        let (start, end) = (r#"{\"a\":"#, r#"\"1\"}"#);
        let in_parts = [call(index, a, name, start), call(index, "", "", end), call(index, b, name, second)];
        check(&in_parts, expected);
    }
    // parts take turns
    for (of_a, of_b) in [((zero, ""), (one, "")), (("", a), ("", b))] {
        let turns = [
            call(of_a.0, a, name, ""),
            call(of_b.0, b, name, ""),
            call(of_a.0, of_a.1, "", first),
            call(of_b.0, of_b.1, "", second),
        ];
        check(&turns, expected);
    }
    let without_ids = expected.replace(a, "").replace(b, "");
    check(&[call(zero, "", name, first), call(zero, "", name, second)], &without_ids);
    let unknown = call(zero, "", "", "{");
    assert!(matches!(streamed(&[&unknown]), Err(TranslateError::Reply(_))));
}

#[test]
fn arguments_are_objects_in_one_line_however_they_are_written() {
    let expected = parse(
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"index":0,"name":"f","arguments":{"b":1,"a":2}}}]}"#,
    );
    for arguments in [r#"{"b":1,"a":2}"#, r#""{\n\"b\":1,\r\n\"a\":2}""#] {
        let message =
            format!(r#"{{"tool_calls":[{{"id":"c","function":{{"name":"f","arguments":{arguments}}}}}]}}"#);
        assert_eq!(whole(&message).unwrap(), expected, "{arguments}");
        assert_eq!(streamed(&[&message]).unwrap(), std::slice::from_ref(&expected), "{arguments}");
    }
    let nameless = r#"{"tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}"#;
    assert!(matches!(whole(nameless), Err(TranslateError::Reply(_))));
}

#[test]
fn contents_that_are_lists_become_text_and_thinking() {
    let expected = parse(r#"{"role":"assistant","content":"ab","thinking":"hm"}"#);
    let thinking = r#"{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}"#;
    let text =
        r#"{"type":"text","text":"a"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"b"}"#;
    let message = format!(r#"{{"content":[{thinking},{text}]}}"#);
    assert_eq!(whole(&message).unwrap(), expected);
    assert_eq!(streamed(&[&message]).unwrap(), [expected]);
    // the text so far, beside what is added
    let chunk = r#"{"choices":[{"index":0,"message":{"content":"ab"},"delta":{"content":"b"}}]}"#;
    let lines = lines(reply(Endpoint::Chat, true), &[chunk]).unwrap();
    assert_eq!(lines[0]["message"]["content"], "b");
}

#[test]
fn halves_of_surrogate_pairs_are_replaced() {
    check(
        Endpoint::Chat,
        r#""messages":[{"role":"user","content":"\ud83d"}]"#,
        r#"{"messages":[{"role":"user","content":"\ufffd"}]}"#,
    );
    let message = r#"{"content":"a\ud83d"}"#;
    let expected = parse(r#"{"role":"assistant","content":"a\ufffd"}"#);
    assert_eq!(whole(message).unwrap(), expected);
    assert_eq!(streamed(&[message]).unwrap(), [expected]);
}

#[test]
fn errors_of_a_provider_are_errors_in_every_form() {
    for (body, kind, message) in [
        (r#"{"error":"no room"}"#, "api_error", "no room"),
        (r#"{"object":"error","message":"no room","code":400}"#, "api_error", "no room"),
        (
            r#"{"choices":[{"index":0,"delta":{"content":"a"},"error":{"message":"no room","type":"t"}}]}"#,
            "t",
            "no room",
        ),
        (
            r#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"error"}]}"#,
            "api_error",
            "the provider ended the reply: error",
        ),
        (
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            "api_error",
            "the provider ended the reply: insufficient_system_resource",
        ),
    ] {
        let expected = TranslateError::Provider { kind: kind.to_owned(), message: message.to_owned() };
        assert_eq!(lines(reply(Endpoint::Chat, true), &[body]).unwrap_err(), expected, "{body}");
        let whole = reply(Endpoint::Chat, true).whole(body.as_bytes(), &moment(0));
        assert_eq!(whole.unwrap_err(), expected, "{body}");
    }
}

#[test]
fn the_effort_is_one_that_the_model_takes() {
    let effort = |model: &str, think: &str, tools: &str| {
        let body = format!(r#"{{"model":"x",{HI},"think":{think},"tools":{tools}}}"#);
        let body: Value =
            serde_json::from_slice(&request(Endpoint::Chat, body.as_bytes()).unwrap().body(model)).unwrap();
        body["reasoning_effort"].as_str().map(str::to_owned)
    };
    let tools = r#"[{"type":"function","function":{"name":"f","parameters":{}}}]"#;
    for (model, think, tools, expected) in [
        ("gpt-5.6", "\"high\"", tools, Some("none")),
        ("openai/gpt-5.4", "true", tools, None),
        ("gpt-5.4", "true", "[]", Some("medium")),
        ("gpt-5", "false", "[]", Some("minimal")),
        ("gpt-5.1", "false", "[]", Some("none")),
        ("o4-mini", "false", "[]", Some("low")),
        ("gpt-4o", "false", "[]", None),
        ("m", "false", tools, Some("none")),
    ] {
        assert_eq!(effort(model, think, tools).as_deref(), expected, "{model} {think}");
    }
}
