use super::*;
use crate::{Dialect, error, gemini};

/// A request to Gemini must be this.
fn check(request: &str, expected: &str) {
    check_model("gemini-2.0-flash", request, expected);
}

fn check_model(model: &str, request: &str, expected: &str) {
    let body = gemini::request(request.as_bytes(), model).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), parse(expected));
}

const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;
const CONTENTS: &str = r#""contents":[{"role":"user","parts":[{"text":"hi"}]}]"#;

fn check_fields(fields: &str, expected: &str) {
    check(&format!("{{{HI},{fields}}}"), &format!("{{{CONTENTS},{expected}}}"));
}

#[test]
fn messages_become_contents() {
    check(
        r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"image_url","image_url":{"url":"https://a/b.JPG?x"}},{"type":"image_url","image_url":{"url":"https://a/b"}},{"type":"input_audio","input_audio":{"data":"BB","format":"wav"}}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#,
        r#"{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"fileData":{"mimeType":"image/jpeg","fileUri":"https://a/b.JPG?x"}},{"fileData":{"fileUri":"https://a/b"}},{"inlineData":{"mimeType":"audio/wav","data":"BB"}}]},{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}]}"#,
    );
}

#[test]
fn results_have_the_name_of_their_call() {
    let calls = |extra: &str| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":"{{\"x\":1}}"}}{extra}}},{{"id":"b","type":"function","function":{{"name":"g","arguments":"{{}}"}}}}]}}"#
        )
    };
    let results = r#"{"role":"tool","tool_call_id":"a","content":"{\"y\":2}"},{"role":"tool","tool_call_id":"b","content":"text"}"#;
    for (model, extra, signature) in [
        ("gemini-3-pro", "", r#","thoughtSignature":"skip_thought_signature_validator""#),
        ("gemini-2.5-pro", "", ""),
        (
            "gemini-2.5-pro",
            r#","extra_content":{"google":{"thought_signature":"s"}}"#,
            r#","thoughtSignature":"s""#,
        ),
    ] {
        check_model(
            model,
            &format!(r#"{{"messages":[{{"role":"user","content":"w"}},{},{results}]}}"#, calls(extra)),
            &format!(
                r#"{{"contents":[{{"role":"user","parts":[{{"text":"w"}}]}},{{"role":"model","parts":[{{"functionCall":{{"id":"a","name":"f","args":{{"x":1}}}}{signature}}},{{"functionCall":{{"id":"b","name":"g","args":{{}}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"id":"a","name":"f","response":{{"y":2}}}}}},{{"functionResponse":{{"id":"b","name":"g","response":{{"output":"text"}}}}}}]}}]}}"#
            ),
        );
    }
}

#[test]
fn parameters() {
    check_fields(
        r#""max_tokens":7,"temperature":1.5,"top_p":0.5,"stop":"x","seed":3,"n":2,"presence_penalty":1,"frequency_penalty":0.5,"stream":true,"user":"u""#,
        r#""generationConfig":{"maxOutputTokens":7,"temperature":1.5,"topP":0.5,"stopSequences":["x"],"seed":3,"candidateCount":2,"presencePenalty":1,"frequencyPenalty":0.5}"#,
    );
    check_fields(
        r#""response_format":{"type":"json_object"}"#,
        r#""generationConfig":{"responseMimeType":"application/json"}"#,
    );
    // no sequence is empty, and seeds have 32 bits
    check_fields(r#""stop":["","x"],"seed":5000000000"#, r#""generationConfig":{"stopSequences":["x"]}"#);
    check_model(
        "gemini-2.5-flash",
        &format!(r#"{{{HI},"presence_penalty":1,"frequency_penalty":1}}"#),
        &format!("{{{CONTENTS}}}"),
    );
}

#[test]
fn effort_is_a_budget_or_a_level_by_model() {
    for (model, fields, expected) in [
        (
            "gemini-2.5-flash",
            r#""reasoning_effort":"low""#,
            r#"{"thinkingBudget":1024,"includeThoughts":true}"#,
        ),
        ("gemini-2.5-flash", r#""reasoning_effort":"none""#, r#"{"thinkingBudget":0}"#),
        ("gemini-2.5-pro", r#""reasoning_effort":"none""#, r#"{"thinkingBudget":128}"#),
        ("gemini-2.5-pro", r#""thinking":{"type":"disabled"}"#, r#"{"thinkingBudget":128}"#),
        (
            "gemini-2.5-flash",
            r#""thinking":{"type":"enabled","budget_tokens":50000}"#,
            r#"{"thinkingBudget":24576,"includeThoughts":true}"#,
        ),
        (
            "gemini-2.5-flash-lite",
            r#""thinking":{"type":"enabled","budget_tokens":50}"#,
            r#"{"thinkingBudget":512,"includeThoughts":true}"#,
        ),
        ("gemini-3-pro-preview", r#""reasoning_effort":"none""#, r#"{"thinkingLevel":"low"}"#),
        ("gemini-3-pro-preview", r#""thinking":{"type":"disabled"}"#, r#"{"thinkingLevel":"low"}"#),
        (
            "gemini-3-pro-preview",
            r#""reasoning_effort":"low""#,
            r#"{"thinkingLevel":"low","includeThoughts":true}"#,
        ),
        (
            "gemini-3-pro-preview",
            r#""reasoning_effort":"medium""#,
            r#"{"thinkingLevel":"high","includeThoughts":true}"#,
        ),
        (
            "gemini-3.1-pro-preview",
            r#""reasoning_effort":"medium""#,
            r#"{"thinkingLevel":"medium","includeThoughts":true}"#,
        ),
        (
            "gemini-3-flash-preview",
            r#""reasoning_effort":"high""#,
            r#"{"thinkingLevel":"high","includeThoughts":true}"#,
        ),
        ("gemini-3-flash-preview", r#""reasoning_effort":"none""#, r#"{"thinkingLevel":"minimal"}"#),
        (
            "gemini-3-flash-preview",
            r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
            r#"{"thinkingBudget":2000,"includeThoughts":true}"#,
        ),
    ] {
        check_model(
            model,
            &format!("{{{HI},{fields}}}"),
            &format!(r#"{{{CONTENTS},"generationConfig":{{"thinkingConfig":{expected}}}}}"#),
        );
    }
    check_model(
        "gemini-2.0-flash",
        &format!(r#"{{{HI},"reasoning_effort":"low"}}"#),
        &format!("{{{CONTENTS}}}"),
    );
}

#[test]
fn tools_and_choices() {
    let given = r#""tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}}},{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}]"#;
    let tools = r#""tools":[{"functionDeclarations":[{"name":"f","description":"d","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}},{"name":"g"}]}]"#;
    check_fields(given, tools);
    for (choice, expected) in [
        (r#""auto""#, r#"{"mode":"AUTO"}"#),
        (r#""none""#, r#"{"mode":"NONE"}"#),
        (r#""required""#, r#"{"mode":"ANY"}"#),
        (r#"{"type":"function","function":{"name":"f"}}"#, r#"{"mode":"ANY","allowedFunctionNames":["f"]}"#),
    ] {
        check_fields(
            &format!(r#"{given},"tool_choice":{choice}"#),
            &format!(r#"{tools},"toolConfig":{{"functionCallingConfig":{expected}}}"#),
        );
    }
}

/// A schema in `response_format` must become this one.
fn check_schema(schema: &str, expected: &str) {
    check_fields(
        &format!(
            r#""response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{schema}}}}}"#
        ),
        &format!(
            r#""generationConfig":{{"responseMimeType":"application/json","responseSchema":{expected}}}"#
        ),
    );
}

#[test]
fn schemas() {
    check_schema(
        r#"{"$schema":"x","type":"object","additionalProperties":false,"required":["a","z"],"properties":{"a":{"type":["string","null"],"format":"uri","minLength":1},"b":{"type":"array"},"c":{"anyOf":[{"type":"integer","exclusiveMinimum":0},{"type":"null"}]},"d":{"const":"x"},"e":{"oneOf":[{"type":"string","format":"date-time"},{"type":"number"}]},"f":{"type":"integer","enum":[1,2]}}}"#,
        r#"{"type":"OBJECT","required":["a"],"properties":{"a":{"type":"STRING","nullable":true,"minLength":1},"b":{"type":"ARRAY","items":{"type":"STRING"}},"c":{"type":"INTEGER","nullable":true},"d":{"type":"STRING","enum":["x"]},"e":{"anyOf":[{"type":"STRING","format":"date-time"},{"type":"NUMBER"}]},"f":{"type":"INTEGER","description":"One of [1,2]"}},"propertyOrdering":["a","b","c","d","e","f"]}"#,
    );
    check_schema(
        r##"{"$defs":{"P":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}},"type":"object","properties":{"p":{"$ref":"#/$defs/P","description":"d"},"q":{"allOf":[{"$ref":"#/$defs/P"},{"properties":{"y":{"type":"boolean"}},"required":["y"]}]}}}"##,
        r#"{"type":"OBJECT","properties":{"p":{"type":"OBJECT","description":"d","properties":{"x":{"type":"NUMBER"}},"required":["x"]},"q":{"type":"OBJECT","properties":{"x":{"type":"NUMBER"},"y":{"type":"BOOLEAN"}},"required":["x","y"],"propertyOrdering":["x","y"]}},"propertyOrdering":["p","q"]}"#,
    );
}

#[test]
fn schemas_without_types_get_them() {
    check_schema(
        r#"{"properties":{"a":{"items":{"type":"string"}}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
        r#"{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":{"type":"STRING"}}}}"#,
    );
    check_schema(
        r#"{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}]}"#,
        r#"{"type":"ARRAY","items":{"anyOf":[{"type":"STRING"},{"type":"INTEGER"}]}}"#,
    );
}

#[test]
fn types_of_a_list_are_alternatives_with_their_own_keys() {
    check_schema(
        r#"{"description":"d","type":["string","array"],"items":{"type":"string"}}"#,
        r#"{"description":"d","anyOf":[{"type":"STRING"},{"type":"ARRAY","items":{"type":"STRING"}}]}"#,
    );
    check_schema(
        r#"{"type":["object","string","null"],"properties":{"a":{"type":"integer"},"b":{"type":"boolean"}},"required":["a"],"minLength":1}"#,
        r#"{"nullable":true,"anyOf":[{"type":"OBJECT","properties":{"a":{"type":"INTEGER"},"b":{"type":"BOOLEAN"}},"required":["a"],"propertyOrdering":["a","b"]},{"type":"STRING","minLength":1}]}"#,
    );
    check_schema(
        r#"{"type":["string","integer"],"enum":["a",1],"minimum":0,"format":"int32"}"#,
        r#"{"anyOf":[{"type":"STRING","enum":["a"]},{"type":"INTEGER","minimum":0,"format":"int32","description":"One of [1]"}]}"#,
    );
    // an array is no value of it
    check_schema(
        r#"{"type":["string","array","null"],"enum":["a",null],"items":{}}"#,
        r#"{"type":"STRING","nullable":true,"enum":["a"]}"#,
    );
}

#[test]
fn empty_values_are_left_out() {
    check_schema(r#"{"type":"string","enum":["","a"]}"#, r#"{"type":"STRING","enum":["a"]}"#);
    check_schema(r#"{"enum":[""]}"#, r#"{"type":"STRING"}"#);
}

#[test]
fn a_schema_keeps_its_keys_beside_a_single_alternative() {
    check_schema(
        r##"{"type":"object","properties":{"b":{"description":"billing","anyOf":[{"$ref":"#/$defs/Address"},{"type":"null"}]}},"$defs":{"Address":{"title":"Address","description":"an address","type":"object","properties":{"street":{"type":"string"}}}}}"##,
        r#"{"type":"OBJECT","properties":{"b":{"title":"Address","description":"billing","nullable":true,"type":"OBJECT","properties":{"street":{"type":"STRING"}}}}}"#,
    );
    for list in [
        r#"{"anyOf":[{"type":"array","items":{"type":"integer"}}]}"#,
        r#"{"allOf":[{"type":"array","items":{"type":"integer"}},{"type":"array"}]}"#,
    ] {
        check_schema(list, r#"{"type":"ARRAY","items":{"type":"INTEGER"}}"#);
    }
}

#[test]
fn formats_beside_tools_are_for_models_that_take_both() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
    for format in [
        r#""response_format":{"type":"json_object"}"#,
        r#""response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string"}}}"#,
    ] {
        let request = |model: &str, fields: &str| {
            gemini::request(format!("{{{HI},{format}{fields}}}").as_bytes(), model)
        };
        for model in ["gemini-1.5-pro", "gemini-2.0-flash", "gemini-2.5-pro"] {
            for choice in ["", r#","tool_choice":"auto""#, r#","tool_choice":"required""#] {
                check_refusal(
                    request(model, &format!(",{tools}{choice}")),
                    "`response_format`: is refused by models before Gemini 3 beside `tools`",
                );
            }
            for fields in
                [String::new(), r#","tools":[]"#.to_owned(), format!(r#",{tools},"tool_choice":"none""#)]
            {
                assert!(request(model, &fields).is_ok(), "{model} {fields}");
            }
        }
        assert!(request("gemini-3-pro-preview", &format!(",{tools}")).is_ok());
    }
    check_model(
        "gemini-2.5-pro",
        &format!(r#"{{{HI},{tools},"response_format":{{"type":"text"}}}}"#),
        &format!(r#"{{{CONTENTS},"tools":[{{"functionDeclarations":[{{"name":"f"}}]}}]}}"#),
    );
}

#[test]
fn references_that_lead_nowhere_are_refused() {
    let refuses = |schema: &str, expected: &str| {
        let body = format!(
            r#"{{{HI},"response_format":{{"type":"json_schema","json_schema":{{"schema":{schema}}}}}}}"#
        );
        check_refusal(gemini::request(body.as_bytes(), "m"), expected);
    };
    refuses(r##"{"$ref":"#/a"}"##, "`response_format.json_schema.schema`: has the reference");
}

#[test]
fn what_changes_the_meaning_is_refused() {
    let refuses = |fields: &str, expected: &str| {
        check_refusal(gemini::request(format!("{{{HI},{fields}}}").as_bytes(), "m"), expected);
    };
    refuses(r#""stop":["a","b","c","d","e","f"]"#, "`stop`: has more than the 5 sequences");
    refuses(r#""n":9"#, "`n`: Gemini gives at most 8 replies");
    refuses(r#""logprobs":true"#, "`logprobs`");
    refuses(r#""web_search_options":{}"#, "`web_search_options`");
    refuses(r#""tools":[{"type":"web_search_20250305"}]"#, "`tools[0]`");
    let body = r#"{"messages":[{"role":"tool","tool_call_id":"x","content":"a"}]}"#;
    check_refusal(
        gemini::request(body.as_bytes(), "m"),
        "`messages[0].tool_call_id`: no earlier message has a call with the id `x`",
    );
}

const USAGE: &str = r#""usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2,"totalTokenCount":15}"#;

fn check_reply(candidates: &str, choices: &str) {
    let reply = format!("{{{candidates},{USAGE}}}");
    let (body, usage) = gemini::reply(reply.as_bytes(), &context(false)).unwrap();
    let expected = format!(
        r#"{{"id":"chatcmpl-7","object":"chat.completion","created":5,"model":"alias","choices":{choices},"usage":{{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{{"cached_tokens":4}},"completion_tokens_details":{{"reasoning_tokens":2}}}}}}"#
    );
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), parse(&expected));
    assert_eq!(
        usage,
        TokenUsage { prompt: 10, cached: 4, completion: 5, reasoning: 2, ..TokenUsage::default() }
    );
}

#[test]
fn every_finish_reason() {
    for (reason, expected) in [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("LANGUAGE", "content_filter"),
        ("OTHER", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
    ] {
        check_reply(
            &format!(
                r#""candidates":[{{"content":{{"parts":[{{"text":"hm","thought":true}},{{"text":"a"}},{{"text":"b"}}]}},"finishReason":"{reason}"}}]"#
            ),
            &format!(
                r#"[{{"index":0,"message":{{"role":"assistant","content":"ab","refusal":null,"reasoning_content":"hm"}},"logprobs":null,"finish_reason":"{expected}"}}]"#
            ),
        );
    }
    for reason in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    ] {
        let reply = format!(r#"{{"candidates":[{{"finishReason":"{reason}","finishMessage":"m"}}]}}"#);
        assert_eq!(
            gemini::reply(reply.as_bytes(), &context(false)).unwrap_err(),
            TranslateError::Provider { kind: reason.to_owned(), message: "m".to_owned() }
        );
    }
}

#[test]
fn calls_get_ids_and_finish_as_calls() {
    check_reply(
        r#""candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"s"},{"functionCall":{"id":"i","name":"g"}}]},"finishReason":"STOP","index":0},{"finishReason":"STOP","index":1}]"#,
        r#"[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_7_0","type":"function","function":{"name":"f","arguments":"{\"x\":1}"},"extra_content":{"google":{"thought_signature":"s"}}},{"id":"i","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"},{"index":1,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"stop"}]"#,
    );
}

#[test]
fn blocked_prompts_are_filtered() {
    check_reply(
        r#""promptFeedback":{"blockReason":"SAFETY"}"#,
        r#"[{"index":0,"message":{"role":"assistant","content":null,"refusal":"the prompt was blocked: SAFETY"},"logprobs":null,"finish_reason":"content_filter"}]"#,
    );
}

#[test]
fn stream_of_text_and_calls_of_two_candidates() {
    check_stream(
        StreamTranslator::gemini(context(true)),
        &[
            r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a"}],"role":"model"},"index":0}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"s"}]},"index":1}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP","index":1}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"MAX_TOKENS","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}"#,
        ],
        &[
            r#"0 {"content":"","role":"assistant"} -"#,
            r#"0 {"reasoning_content":"hm"} -"#,
            r#"0 {"content":"a"} -"#,
            r#"1 {"content":"","role":"assistant"} -"#,
            r#"1 {"tool_calls":[{"extra_content":{"google":{"thought_signature":"s"}},"function":{"arguments":"{\"x\":1}","name":"f"},"id":"call_7_0","index":0,"type":"function"}]} -"#,
            "1 {} tool_calls",
            r#"0 {"content":"b"} -"#,
            "0 {} length",
            r#"usage {"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":0},"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":3}"#,
        ],
    );
}

#[test]
fn stream_of_a_blocked_prompt() {
    check_stream(
        StreamTranslator::gemini(context(false)),
        &[r#"{"promptFeedback":{"blockReason":"OTHER"}}"#],
        &[
            r#"0 {"content":"","role":"assistant"} -"#,
            r#"0 {"refusal":"the prompt was blocked: OTHER"} -"#,
            "0 {} content_filter",
        ],
    );
}

#[test]
fn broken_streams_are_errors() {
    let run = |events: &[&str]| run(StreamTranslator::gemini(context(false)), events).unwrap_err();
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#;
    assert!(matches!(run(&[]), TranslateError::Reply(_)));
    assert!(matches!(run(&[text]), TranslateError::Reply(_)));
    assert!(matches!(run(&[text, "{"]), TranslateError::Reply(_)));
    assert!(matches!(run(&[r#"{"candidates":[{"index":4000000000}]}"#]), TranslateError::Reply(_)));
    assert_eq!(
        run(&[text, r#"{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}"#]),
        TranslateError::Provider { kind: "UNAVAILABLE".to_owned(), message: "m".to_owned() }
    );
}

#[test]
fn errors_keep_their_message() {
    let json = r#"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}"#;
    for body in [json.to_owned(), format!("[{json}]")] {
        let body = error(Dialect::Gemini, 400, body.as_bytes());
        let expected = r#"{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"INVALID_ARGUMENT"}}"#;
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), parse(expected));
    }
}

#[test]
fn results_are_errors_and_have_files() {
    let messages = r#""messages":[{"role":"user","content":"w"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"z\":1.50,\"a\":2}"}}]},{"role":"tool","tool_call_id":"a","is_error":true,"content":[{"type":"text","text":"t"},{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"data:image/JPG;base64,AA"}}]}]"#;
    let image = r#"{"inlineData":{"mimeType":"image/jpeg","data":"AA"}}"#;
    let call = r#"{"functionCall":{"id":"a","name":"f","args":{"z":1.50,"a":2}}"#;
    let response = r#"{"functionResponse":{"id":"a","name":"f","response":{"error":"t\nu"}"#;
    for (model, call, response) in [
        ("gemini-2.5-pro", format!("{call}}}"), format!("{response}}}}},{image}")),
        (
            "gemini-3-pro",
            format!(r#"{call},"thoughtSignature":"skip_thought_signature_validator"}}"#),
            format!(r#"{response},"parts":[{image}]}}}}"#),
        ),
    ] {
        let body = gemini::request(format!("{{{messages}}}").as_bytes(), model).unwrap();
        let expected = format!(
            r#"{{"contents":[{{"role":"user","parts":[{{"text":"w"}}]}},{{"role":"model","parts":[{call}]}},{{"role":"user","parts":[{response}]}}]}}"#
        );
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }
}

#[test]
fn signatures_of_texts_go_back() {
    check_reply(
        r#""candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"s"}]},"finishReason":"STOP"}]"#,
        r#"[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"extra_content":{"google":{"thought_signature":"s"}}},"logprobs":null,"finish_reason":"stop"}]"#,
    );
    check_stream(
        StreamTranslator::gemini(context(false)),
        &[
            r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"s"}]},"finishReason":"STOP"}]}"#,
        ],
        &[
            r#"0 {"content":"","role":"assistant"} -"#,
            r#"0 {"content":"a"} -"#,
            r#"0 {"extra_content":{"google":{"thought_signature":"s"}}} -"#,
            "0 {} stop",
        ],
    );
    check(
        r#"{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a","extra_content":{"google":{"thought_signature":"s"}}},{"role":"user","content":"b"}]}"#,
        r#"{"contents":[{"role":"user","parts":[{"text":"u"}]},{"role":"model","parts":[{"text":"a","thoughtSignature":"s"}]},{"role":"user","parts":[{"text":"b"}]}]}"#,
    );
}

#[test]
fn counts_have_modalities() {
    let reply = r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"toolUsePromptTokenCount":5,"promptTokensDetails":[{"modality":"TEXT","tokenCount":40},{"modality":"AUDIO","tokenCount":20},{"modality":"IMAGE","tokenCount":30},{"modality":"IMAGE","tokenCount":10}],"candidatesTokenCount":8,"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":6}],"thoughtsTokenCount":-1,"cachedContentTokenCount":1e300}}"#;
    let (_, usage) = gemini::reply(reply.as_bytes(), &context(false)).unwrap();
    let expected = TokenUsage {
        prompt: 105,
        cached: 105,
        prompt_audio: 20,
        prompt_image: 40,
        completion: 8,
        completion_image: 6,
        ..TokenUsage::default()
    };
    assert_eq!(usage, expected);
}
