//! The checks, on bodies with random changes.

use proptest::prelude::*;

use super::*;

const REQUEST: &str = r##"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a","cache_control":{}},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},{"role":"assistant","content":"b","thinking_blocks":[{}],"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","$defs":{"P":{"type":["string","null"]}},"properties":{"a":{"$ref":"#/$defs/P"},"b":{"anyOf":[{"type":"null"},{"enum":["x"]}]}},"required":["a"]}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"f"}}]}},"stop":["a"],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array","items":{}}}},"reasoning_effort":"low","output_config":{},"thinking":{"type":"enabled"},"temperature":1.5}"##;
const ANTHROPIC: &str = r#"{"type":"content_block_start","message":{"usage":{"input_tokens":1}},"index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{}},"delta":{"text":"a","thinking":"b","partial_json":"c","stop_reason":"end_turn"},"usage":{"input_tokens":1,"cache_read_input_tokens":18446744073709551615,"output_tokens":2},"content":[{"type":"text","text":"a"},{"type":"tool_use","id":"a","name":"b","input":{}}],"stop_reason":"end_turn"}"#;
const GEMINI: &str = r#"{"candidates":[{"index":0,"content":{"parts":[{"text":"a","thought":true},{"functionCall":{"name":"f","args":{}},"thoughtSignature":"s"}]},"finishReason":"STOP"}],"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":1,"thoughtsTokenCount":18446744073709551615,"candidatesTokenCount":9}}"#;
const OPENAI: &str = r#"{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"b","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},"delta":{"content":"a","reasoning_content":"b","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}}}"#;
const MESSAGES: &str = r#"{"model":"m","max_tokens":5,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"A"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"a"},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}]}]}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"},"stop_sequences":["a"],"thinking":{"type":"enabled","budget_tokens":5},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}}}"#;

/// The replacement of a random value.
fn replacement(kind: u8) -> Value {
    match kind % 8 {
        0 => Value::Null,
        1 => true.into(),
        2 => u64::MAX.into(),
        3 => (-1.5).into(),
        4 => "\n\"é".into(),
        5 => Value::Array(vec![Value::Null, "type".into()]),
        6 => json!({"type": "text"}),
        _ => json!({}),
    }
}

/// Values inside of `value`, itself included.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
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
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mutate(json: &str, changes: &[(usize, u8)]) -> String {
    let mut value: Value = serde_json::from_str(json).unwrap();
    for &(number, kind) in changes {
        let mut number = number % count(&value);
        replace(&mut value, &mut number, &replacement(kind));
    }
    value.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn changed_bodies_are_refused_or_translated(
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        is_cut in prop::bool::weighted(0.1),
    ) {
        for json in [REQUEST, ANTHROPIC, GEMINI, OPENAI, MESSAGES] {
            let text = mutate(json, &changes);
            let mut bytes = text.as_bytes();
            if is_cut {
                bytes = &bytes[..cut.index(bytes.len())];
            }
            check_request(bytes);
            check_reply(bytes);
            let event = [b"data: ", bytes, b"\n\n"].concat();
            check_stream(&[3, 5, 250], &event.repeat(2));
        }
    }
}
