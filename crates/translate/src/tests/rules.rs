//! Rules of single models and providers that a request or a reply meets on its way to another API.

use super::*;
use crate::{anthropic, gemini, messages, ollama};

fn sent(result: Result<Vec<u8>, TranslateError>) -> Value {
    parse(std::str::from_utf8(&result.unwrap()).unwrap())
}

fn chat(fields: &str) -> String {
    format!(r#"{{{fields},"messages":[{{"role":"user","content":"u"}}]}}"#)
}

fn to_anthropic(model: &str, fields: &str) -> Value {
    sent(anthropic::request(chat(fields).as_bytes(), model))
}

fn from_messages(model: &str, fields: &str) -> Value {
    sent(messages::request(chat(fields).as_bytes(), model, true))
}

#[test]
fn fields_that_are_not_known_are_refused() {
    for field in ["thread", "compaction", "fallbacks"] {
        let body = chat(&format!(r#""{field}":{{"a":1}}"#));
        check_refusal(
            messages::request(body.as_bytes(), "gpt-4o", true),
            &format!("`{field}`: is not known"),
        );
    }
    let moderated = chat(r#""moderation":{"policy":"block"}"#);
    check_refusal(anthropic::request(moderated.as_bytes(), "claude-opus-5"), "`moderation`: is not known");
    check_refusal(gemini::request(moderated.as_bytes(), "gemini-3-pro"), "`moderation`: is not known");
    // null asks for nothing
    assert_eq!(from_messages("m", r#""thread":null"#)["messages"][0]["content"], "u");
}

#[test]
fn models_that_think_by_default_think_as_little_as_they_can_where_they_are_not_to() {
    let none = r#""reasoning_effort":"none""#;
    assert_eq!(to_anthropic("claude-opus-5", none)["thinking"], parse(r#"{"type":"disabled"}"#));
    let always = to_anthropic("claude-opus-5-5", none);
    assert_eq!((&always["thinking"], &always["output_config"]["effort"]), (&Value::Null, &"low".into()));
    assert_eq!(to_anthropic("claude-sonnet-4-5", none)["thinking"], Value::Null);
    let forced = r#""tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required""#;
    assert_eq!(to_anthropic("claude-sonnet-5", forced)["thinking"], parse(r#"{"type":"disabled"}"#));
    let between = to_anthropic("claude-sonnet-5-5", r#""thinking":{"type":"between_tools"}"#);
    assert_eq!(between["thinking"]["type"], "between_tools");
    assert_eq!(between["output_config"], Value::Null);
}

#[test]
fn a_limit_that_is_not_given_has_room_for_thoughts() {
    for (model, fields, expected) in [
        ("claude-sonnet-4-5", r#""reasoning_effort":"high""#, 28_672),
        ("claude-opus-4-6", r#""reasoning_effort":"high""#, 28_672),
        ("claude-sonnet-5", r#""temperature":1"#, 28_672),
        ("claude-sonnet-5", r#""thinking":{"type":"disabled"}"#, 4096),
        ("claude-sonnet-4-5", r#""temperature":1"#, 4096),
        ("claude-opus-5", r#""max_tokens":9"#, 9),
    ] {
        assert_eq!(to_anthropic(model, fields)["max_tokens"], expected, "{model} {fields}");
    }
    assert_eq!(anthropic::limit_max("claude-sonnet-5", false), 28_672);
    assert_eq!(anthropic::limit_max("claude-sonnet-4-5", false), 4096);
}

#[test]
fn efforts_keep_their_words_where_the_model_has_them() {
    for (model, effort, expected) in [
        ("claude-opus-5", "max", "max"),
        ("claude-opus-4-7", "xhigh", "xhigh"),
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-opus-5", "minimal", "low"),
    ] {
        let request = to_anthropic(model, &format!(r#""reasoning_effort":"{effort}""#));
        assert_eq!(request["output_config"]["effort"], expected, "{model} {effort}");
    }
    for (model, effort, expected) in
        [("gpt-5.6", "max", "max"), ("gpt-5.2", "max", "xhigh"), ("gpt-5.1", "xhigh", "high")]
    {
        let request = from_messages(model, &format!(r#""output_config":{{"effort":"{effort}"}}"#));
        assert_eq!(request["reasoning_effort"], expected, "{model} {effort}");
    }
    let routed = to_anthropic("claude-sonnet-4-5", r#""reasoning":{"max_tokens":2000}"#);
    assert_eq!(routed["thinking"]["budget_tokens"], 2000);
    let effort = to_anthropic("claude-opus-5", r#""reasoning":{"effort":"low"}"#);
    assert_eq!(effort["output_config"]["effort"], "low");
    let minimal = chat(r#""reasoning_effort":"minimal""#);
    let flash = sent(gemini::request(minimal.as_bytes(), "gemini-3-flash-preview"));
    assert_eq!(flash["generationConfig"]["thinkingConfig"]["thinkingLevel"], "minimal");
    let display = to_anthropic("claude-opus-4-7", r#""reasoning_effort":"high""#);
    assert_eq!(display["thinking"]["display"], "summarized");
}

#[test]
fn mistral_takes_its_own_ids_turns_and_fields() {
    let request = r#"{"max_tokens":9,"metadata":{"user_id":"u1"},"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"redacted_thinking","data":"thought_signature toolu_01A s"},{"type":"tool_use","id":"toolu_01A","name":"f","input":{}},{"type":"tool_use","id":"ABCdef123","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01A","content":"r"},{"type":"tool_result","tool_use_id":"ABCdef123","content":"r"},{"type":"text","text":"go on"}]},{"role":"assistant","content":"begun"}]}"#;
    let sent = sent(messages::request(request.as_bytes(), "mistral-medium-latest", true));
    let list = sent["messages"].as_array().unwrap();
    let roles: Vec<&str> = list.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]);
    let id = list[1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!((&list[2]["tool_call_id"], &list[3]["tool_call_id"]), (&id.into(), &"ABCdef123".into()));
    assert_eq!((&list[1]["tool_calls"][0]["extra_content"], &sent["user"]), (&Value::Null, &Value::Null));
    assert_eq!((&list[6]["prefix"], &list[4]["content"]), (&true.into(), &"Done.".into()));
}

#[test]
fn what_other_providers_gave_does_not_go_to_anthropic() {
    let clean = |body: &str| {
        messages::without_made_reasoning(body.as_bytes())
            .map(|body| parse(std::str::from_utf8(&body).unwrap()))
    };
    let call = |id: &str| {
        format!(
            r#"{{"messages":[{{"role":"assistant","content":[{{"type":"thinking","thinking":"t","signature":""}},{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"functions.f:0"}}]}}],"thinking":{{"type":"adaptive"}},"context_management":{{"edits":[{{"type":"clear_thinking_20251015"}},{{"type":"clear_tool_uses_20250919"}}]}}}}"#
        )
    };
    let sent = clean(&call("functions.f:0")).unwrap();
    assert_eq!(
        sent["messages"][0]["content"],
        parse(r#"[{"type":"tool_use","id":"functions_f_0","name":"f","input":{}}]"#)
    );
    assert_eq!(sent["messages"][1]["content"][0]["tool_use_id"], "functions_f_0");
    assert_eq!(sent["messages"][1]["content"][0]["content"], "functions.f:0");
    assert_eq!(sent["thinking"], Value::Null);
    assert_eq!(sent["context_management"]["edits"], parse(r#"[{"type":"clear_tool_uses_20250919"}]"#));
    let own = r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}]}"#;
    assert_eq!(clean(own), None);
}

#[test]
fn schemas_that_a_provider_refuses_are_said_otherwise() {
    let strict = |property: &str| {
        let schema = format!(
            r#"{{"type":"object","properties":{{"a":{property}}},"required":["a"],"additionalProperties":false}}"#
        );
        let fields = format!(r#""output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}"#);
        from_messages("gpt-4o", &fields)["response_format"]["json_schema"]["strict"].clone()
    };
    assert_eq!(strict(r#"{"type":"string","format":"email"}"#), true);
    for property in [
        r#"{"type":"string","format":"uri"}"#,
        r#"{"type":"string","default":"x"}"#,
        r#"{"oneOf":[{"type":"string"}]}"#,
        r#"{"allOf":[{"type":"string"}]}"#,
    ] {
        assert_eq!(strict(property), false, "{property}");
    }
    let format = |schema: &str| {
        let fields =
            format!(r#""response_format":{{"type":"json_schema","json_schema":{{"schema":{schema}}}}}"#);
        to_anthropic("claude-sonnet-4-5", &fields)
    };
    let both = format(
        r#"{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]}"#,
    );
    let schema = &both["output_config"]["format"]["schema"];
    assert_eq!((&schema["allOf"], &schema["required"]), (&Value::Null, &parse(r#"["a","b"]"#)));
    let open = format(
        r#"{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
    );
    assert_eq!(open["output_config"], Value::Null);
    assert!(
        open["system"][0]["text"].as_str().unwrap().contains(r#""additionalProperties":{"type":"string"}"#)
    );
    let tool = r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":["object","null"],"properties":{"o":{"type":"object","properties":{}}}}}}]"#;
    assert_eq!(to_anthropic("claude-opus-5", tool)["tools"][0]["input_schema"]["type"], "object");
    let declared = sent(gemini::request(chat(tool).as_bytes(), "gemini-2.5-flash"));
    assert_eq!(
        declared["tools"][0]["functionDeclarations"][0]["parameters"]["properties"]["o"],
        parse(r#"{"type":"OBJECT"}"#)
    );
}

/// The deltas of a stream of chat completions as Anthropic's.
fn messages_stream(deltas: &[&str], finish: &str) -> Result<String, TranslateError> {
    let mut stream = StreamTranslator::messages(context(false));
    let mut out = Vec::new();
    for delta in deltas {
        stream.push(&format!(r#"{{"choices":[{{"index":null,"delta":{delta}}}]}}"#), &mut out)?;
    }
    stream.push(
        &format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}"#),
        &mut out,
    )?;
    stream.finish(&mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn calls_whose_arguments_are_no_object_are_not_passed_on_as_whole() {
    let call = |arguments: &str| {
        format!(
            r#"{{"tool_calls":[{{"index":0,"id":"c","function":{{"name":"rm","arguments":"{arguments}"}}}}]}}"#
        )
    };
    for arguments in [r#"{\"path\":\"/tmp/a"#, "[1]", "5", r#"{\"a\":1"#] {
        let streamed = messages_stream(&[&call(arguments)], "tool_calls");
        assert!(matches!(streamed, Err(TranslateError::Reply(_))), "{arguments}: {streamed:?}");
        assert!(messages_stream(&[&call(arguments)], "length").is_ok(), "{arguments}");
        let whole =
            format!(r#"{{"choices":[{{"message":{},"finish_reason":"tool_calls"}}]}}"#, call(arguments));
        assert!(messages::reply(whole.as_bytes(), &context(false)).is_err(), "{arguments}");
    }
    for arguments in ["", r#"{\"a\":{}}"#, "null"] {
        assert!(messages_stream(&[&call(arguments)], "tool_calls").is_ok(), "{arguments}");
    }
    let parts = [
        &*call(r#"{\"a\""#),
        r#"{"content":"\n"}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#,
    ];
    assert!(messages_stream(&parts, "tool_calls").unwrap().contains(r#""partial_json":":1}""#));
}

#[test]
fn a_name_may_come_after_its_call_and_a_message_may_repeat_the_deltas() {
    let call = r#"{"tool_calls":[{"index":0,"id":"c"}]}"#;
    let name = r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}"#;
    let streamed = messages_stream(&[call, name], "tool_calls").unwrap();
    assert!(streamed.contains(r#""id":"c","input":{},"name":"f""#), "{streamed}");
    assert!(messages_stream(&[call], "tool_calls").is_err());
    let mut stream = StreamTranslator::messages(context(false));
    let mut out = Vec::new();
    for choice in [
        r#""delta":{"content":"Hel"}"#,
        r#""delta":{"content":"lo"}"#,
        r#""finish_reason":"stop","message":{"content":"Hello"}"#,
    ] {
        stream
            .push(&format!(r#"{{"service_tier":"flex","choices":[{{"index":0,{choice}}}]}}"#), &mut out)
            .unwrap();
    }
    stream.push(r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#, &mut out).unwrap();
    stream.finish(&mut out).unwrap();
    assert!(!String::from_utf8(out).unwrap().contains("Hello"));
    assert_eq!(stream.usage().tier.unwrap().name(), "flex");
}

#[test]
fn calls_that_the_limit_cuts_off_are_said_so_to_callers_of_ollama() {
    let body = r#"{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"text\":\"abc"}}]},"finish_reason":"length","usage":{"prompt_tokens":50,"completion_tokens":100}}]}"#;
    let reply =
        ollama::Reply { endpoint: ollama::Endpoint::Chat, model: "m".to_owned(), shows_thinking: true };
    let moment = ollama::Moment { time: "t".to_owned(), elapsed: std::time::Duration::ZERO };
    let line = parse(std::str::from_utf8(&reply.whole(body.as_bytes(), &moment).unwrap()).unwrap());
    assert_eq!((&line["done_reason"], &line["prompt_eval_count"]), (&"length".into(), &50.into()));
    assert_eq!(line["message"]["tool_calls"][0]["function"]["arguments"], parse("{}"));
    let stopped = body.replace("length", "tool_calls");
    assert!(reply.whole(stopped.as_bytes(), &moment).is_err());
}

#[test]
fn lists_and_signatures_of_a_stream_come_once() {
    let citation = |url: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"citations_delta","citation":{{"type":"web_search_result_location","url":"{url}","title":"t"}}}}}}"#
        )
    };
    let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let end =
        [r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#, r#"{"type":"message_stop"}"#];
    let (one, two) = (citation("https://a"), citation("https://b"));
    let events = [text, &one, stop, text, &two, stop, end[0], end[1]];
    let (chunks, _) = run(StreamTranslator::anthropic(context(false)), &events).unwrap();
    let cited: Vec<&String> = chunks.iter().filter(|chunk| chunk.contains("annotations")).collect();
    assert!(
        cited.len() == 1 && cited[0].contains("https://a") && cited[0].contains("https://b"),
        "{chunks:?}"
    );

    let part = |signature: &str, finish: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"parts":[{{"text":"a","thought":null,"thoughtSignature":"{signature}"}}]}}{finish}}}]}}"#
        )
    };
    let (first, last) = (part("SIGA", ""), part("SIGB", r#","finishReason":"STOP""#));
    let (chunks, _) = run(StreamTranslator::gemini(context(false)), &[&first, &last]).unwrap();
    let signed: Vec<&String> = chunks.iter().filter(|chunk| chunk.contains("SIG")).collect();
    assert!(signed.len() == 1 && signed[0].contains("SIGB"), "{chunks:?}");
}
