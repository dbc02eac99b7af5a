use serde_json::{Value as Json, json};

use super::*;

fn check(api: Api, data: &str, expected: &[(u32, Kind, &str)], has_more: bool) -> Pieces {
    let found = pieces(api, data);
    let seen: Vec<(u32, Kind, &str)> =
        found.texts.iter().map(|(lane, range)| (lane.index, lane.kind, &data[range.clone()])).collect();
    assert_eq!((seen.as_slice(), found.has_more), (expected, has_more), "{data}");
    found
}

#[test]
fn the_pieces_of_each_api_are_found() {
    let chat = Api::ChatCompletions;
    let (answer, arguments) = (Kind::Answer, Kind::Arguments);
    let text =
        r#"{"id":"1","model":"m","choices":[{"index":1,"delta":{"content":"a\"b"},"finish_reason":null}]}"#;
    check(chat, text, &[(1, answer, r#""a\"b""#)], false);
    let first = r#"{"choices":[{"index":1,"delta":{"role":"assistant","content":""}}]}"#;
    check(chat, first, &[(1, answer, "\"\"")], true);
    let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":2,"function":{"arguments":"{"}}]}}]}"#;
    assert!(check(chat, call, &[(0, arguments, "\"{\"")], false).calls.is_empty());
    let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":2,"id":"c","function":{"name":"f","arguments":""}}]}}]}"#;
    assert_eq!(
        check(chat, call, &[(0, arguments, "\"\"")], true).calls,
        [(0, ".tool_calls[2]".to_owned(), "c".to_owned())]
    );
    let end = check(chat, r#"{"choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}"#, &[], true);
    assert_eq!(end.ended, [1]);
    assert!(check(chat, "[DONE]", &[], true).ends_all);
    let message = r#"{"choices":[{"index":1,"message":{"content":"a"},"delta":null}]}"#;
    assert_eq!(check(chat, message, &[(1, answer, "\"a\"")], false).texts[0].0.path, ".content");
    let beside = r#"{"choices":[{"index":1,"message":{"content":"ab"},"delta":{"content":"b"}}]}"#;
    check(chat, beside, &[(1, answer, "\"b\"")], true);
    check(Api::Completions, r#"{"choices":[{"index":1,"text":"a"}]}"#, &[(1, answer, "\"a\"")], false);
    let delta = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}"#;
    check(Api::Messages, delta, &[(1, answer, "\"a\"")], false);
    let delta = r#"{"type":"content_block_delta","delta":{"text":null,"thinking":1}}"#;
    check(Api::Messages, delta, &[], true);
    assert_eq!(check(Api::Messages, r#"{"type":"content_block_stop","index":1}"#, &[], true).ended, [1]);
    let delta = r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"a"}"#;
    check(Api::Responses, delta, &[(1, answer, "\"a\"")], false);
    assert!(check(Api::Responses, r#"{"type":"response.completed","response":{}}"#, &[], true).ends_all);
}

#[test]
fn texts_with_which_blocks_parts_and_items_begin_are_found_with_their_kind() {
    let check = |api: Api, data: Json, expected: &[(Kind, u32, &str)]| {
        let data = data.to_string();
        let found = pieces(api, &data);
        let begins: Vec<(Kind, u32, &str)> =
            found.begins.iter().map(|(lane, place)| (lane.kind, lane.part, &data[place.clone()])).collect();
        assert_eq!((begins.as_slice(), found.texts.len()), (expected, 0), "{data}");
    };
    let block = |block: Json| json!({"type": "content_block_start", "index": 0, "content_block": block});
    let thinking = json!({"type": "thinking", "thinking": "a", "signature": "s"});
    check(Api::Messages, block(thinking), &[(Kind::Reasoning, 0, "\"a\"")]);
    check(Api::Messages, block(json!({"type": "text", "text": "a"})), &[(Kind::Answer, 0, "\"a\"")]);
    check(Api::Messages, block(json!({"type": "text", "text": ""})), &[]);
    check(
        Api::Messages,
        block(json!({"type": "tool_use", "id": "t", "name": "f", "input": {"a": "b"}})),
        &[],
    );
    let part = |of: &str, part: Json| json!({"type": format!("response.{of}.added"), "content_index": 1, "part": part});
    let text = json!({"type": "output_text", "text": "a"});
    check(Api::Responses, part("content_part", text), &[(Kind::Answer, 1, "\"a\"")]);
    let refusal = json!({"type": "refusal", "refusal": "a"});
    check(Api::Responses, part("content_part", refusal), &[(Kind::Refusal, 1, "\"a\"")]);
    let text = json!({"type": "reasoning_text", "text": "a"});
    check(Api::Responses, part("content_part", text), &[(Kind::Reasoning, 1, "\"a\"")]);
    let text = json!({"type": "summary_text", "text": "a"});
    check(Api::Responses, part("reasoning_summary_part", text), &[(Kind::Reasoning, 1, "\"a\"")]);
    let item = |item: Json| json!({"type": "response.output_item.added", "output_index": 0, "item": item});
    let call = json!({"type": "function_call", "id": "i", "name": "f", "arguments": "{"});
    check(Api::Responses, item(call), &[(Kind::Arguments, 0, "\"{\"")]);
    let call = json!({"type": "custom_tool_call", "name": "f", "input": "a"});
    check(Api::Responses, item(call), &[(Kind::Other, 0, "\"a\"")]);
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "a"}]});
    check(Api::Responses, item(message), &[(Kind::Answer, 0, "\"a\"")]);
}

#[test]
fn texts_under_names_that_no_api_has_are_pieces_too() {
    let chat = Api::ChatCompletions;
    let details = r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a"}]}}]}"#;
    check(chat, details, &[(0, Kind::Reasoning, "\"a\"")], false);
    let list = r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}"#;
    check(chat, list, &[(0, Kind::Answer, "\"a\"")], false);
    let call = r#"{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}"#;
    check(chat, call, &[(0, Kind::Arguments, "\"{\"")], true);
    check(
        chat,
        r#"{"choices":[{"delta":{"new":{"words":"a"}}}],"text":"b"}"#,
        &[(0, Kind::Other, "\"a\""), (OF_STREAM, Kind::Answer, "\"b\"")],
        false,
    );
    check(
        Api::Messages,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","words":"a"}}"#,
        &[(0, Kind::Other, "\"a\"")],
        false,
    );
    let custom = r#"{"type":"response.custom_tool_call_input.delta","delta":"a"}"#;
    check(Api::Responses, custom, &[(0, Kind::Other, "\"a\"")], false);
}

#[test]
fn strings_beside_a_text_tell_of_it() {
    let chat = Api::ChatCompletions;
    let filter = r#"{"choices":[{"content_filter_results":{"hate":{"severity":"safe"}},"delta":{"content":"a"}}],"x_ms":"b"}"#;
    let found = check(chat, filter, &[(0, Kind::Answer, "\"a\"")], true);
    let complete: Vec<&str> = found.complete.iter().map(|string| &filter[string.place.clone()]).collect();
    assert_eq!(complete, ["\"safe\"", "\"b\""]);
    let phase = r#"{"choices":[{"delta":{"content":"","phase":"think"}}]}"#;
    check(chat, phase, &[(0, Kind::Answer, "\"\"")], true);
    let custom =
        r#"{"choices":[{"delta":{"content":"","tool_calls":[{"custom":{"name":"f","input":"a"}}]}}]}"#;
    check(chat, custom, &[(0, Kind::Answer, "\"\""), (0, Kind::Other, "\"a\"")], true);
}

#[test]
fn a_delta_is_read_whatever_the_type_of_its_event() {
    for kind in ["ping", "message_start", "message_delta", "content_block_start", "content_block_stop"] {
        let event = json!({"type": kind, "delta": {"text": "a", "stop_sequence": "b"}}).to_string();
        check(Api::Messages, &event, &[(0, Kind::Answer, "\"a\"")], true);
    }
    let created = r#"{"type":"response.created","response":{},"delta":"a"}"#;
    check(Api::Responses, created, &[(0, Kind::Answer, "\"a\"")], false);
}

#[test]
fn strings_of_one_entry_of_a_list_are_told_from_others() {
    let are_of_same = |calls: Json| {
        let event = json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}).to_string();
        let found = pieces(Api::ChatCompletions, &event).complete;
        found.into_iter().map(|string| string.is_of_same_entry).collect::<Vec<_>>()
    };
    let call = |index: u32| json!({"index": index, "function": {"name": "f"}});
    assert_eq!(are_of_same(json!([call(0), call(1)])), [false, false]);
    assert_eq!(are_of_same(json!([call(1), call(1)])), [false, true]);
}
