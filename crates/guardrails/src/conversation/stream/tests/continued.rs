//! Texts that clients join, whatever the server says of their ends.

use super::*;

/// The filtered stream, and whether it was blocked.
fn sent(api: Api, action: Action, events: &[Value]) -> (String, bool) {
    let mut filter = StreamFilter::new(api, Arc::new(rules(action)), Arc::default(), Vec::new());
    let mut out = Vec::new();
    let mut written = events.iter().map(|event| format!("data: {event}\n\n"));
    let ended = written.try_for_each(|event| filter.push(event.as_bytes(), &mut out));
    let ended = ended.and_then(|()| filter.finish(&mut out));
    (String::from_utf8(out).unwrap(), ended.is_err())
}

/// The rest of a text is sent by no rule that blocks or redacts.
fn check(api: Api, rest: &str, events: &[Value]) {
    let rest = Value::from(rest).to_string();
    let (all, is_blocked) = sent(api, Action::Block, events);
    assert!(is_blocked && !all.contains(&rest), "{all}");
    let (all, is_blocked) = sent(api, Action::Redact, events);
    assert!(!is_blocked && !all.contains(&rest), "{all}");
}

fn chunk(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

#[test]
fn what_comes_under_another_id_is_checked_as_a_new_text_and_as_the_rest_of_the_last_one() {
    let call = |id: &str, arguments: &str| {
        let call = json!({"index": 0, "id": id, "function": {"arguments": arguments}});
        chunk(json!({"tool_calls": [call]}))
    };
    for json in
        [r#"{"m":"ann@example.com"}"#, r#"{"m":"ann\u0040example.com"}"#, r#"{"m":4.111111111111111e15}"#]
    {
        for at in 1..json.len() {
            let (before, after) = json.split_at(at);
            check(Api::ChatCompletions, after, &[call("a", before), call("b", after)]);
        }
    }
    let reasoning = |id: &str, text: &str| chunk(json!({"id": id, "reasoning_content": text}));
    check(Api::ChatCompletions, "ple.com", &[reasoning("1", "ann@exam"), reasoning("2", "ple.com")]);
    check(
        Api::ChatCompletions,
        "ple.com",
        &[reasoning("1", "ann"), reasoning("2", "@exam"), reasoning("3", "ple.com")],
    );
    // the new one is found by itself too, where the last one hides it
    let number = r#"4111111111111111"}"#;
    check(Api::ChatCompletions, number, &[call("a", r#"{"n":"1"#), call("b", number)]);
}

#[test]
fn calls_under_other_ids_are_sent_whole() {
    let call = |id: &str, arguments: &str| {
        let call = json!({"index": 0, "id": id, "function": {"name": "look_up", "arguments": arguments}});
        chunk(json!({"tool_calls": [call]}))
    };
    let texts = [r#"{"to":"ann@example.com"}"#, r#"{"n":1}"#, r#"{"card":4111111111111111}"#];
    let events = [call("a", texts[0]), call("b", texts[1]), call("c", texts[2])];
    let (all, is_blocked) = sent(Api::ChatCompletions, Action::Redact, &events);
    assert!(!is_blocked);
    for text in [r#"{"to":"[EMAIL_1]"}"#, texts[1], r#"{"card":"[PAYMENT_CARD_1]"}"#] {
        assert!(all.contains(&Value::from(text).to_string()), "{text}: {all}");
    }
}

#[test]
fn a_name_goes_on_under_another_id() {
    let call = |id: &str, name: &str| {
        let call = json!({"index": 0, "id": id, "function": {"name": name, "arguments": ""}});
        chunk(json!({"tool_calls": [call]}))
    };
    check(Api::ChatCompletions, "ple.com", &[call("a", "ann@exam"), call("b", "ple.com")]);
}

#[test]
fn texts_of_each_kind_that_begin_with_their_event_are_found_with_what_follows() {
    let address = "ann@example.com";
    // what is longer by one letter begins with an address
    for at in 1..address.len() - 1 {
        let (before, after) = address.split_at(at);
        let thinking = [
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": before}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": after}}),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        check(Api::Messages, after, &thinking);
        let summary = [
            json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0,
                "part": {"type": "summary_text", "text": before}}),
            json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": after}),
        ];
        check(Api::Responses, after, &summary);
        let input = [
            json!({"type": "response.output_item.added", "output_index": 0,
                "item": {"type": "custom_tool_call", "name": "f", "input": before}}),
            json!({"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": after}),
        ];
        check(Api::Responses, after, &input);
        for at_sign in ["@", "\\u0040"] {
            let before = format!("{{\"to\":\"{before}").replace('@', at_sign);
            let after = format!("{}\"}}", after.replace('@', at_sign));
            let arguments = [
                json!({"type": "response.output_item.added", "output_index": 0,
                    "item": {"type": "function_call", "name": "f", "arguments": before}}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": after}),
                json!({"type": "response.function_call_arguments.done", "output_index": 0}),
            ];
            check(Api::Responses, &after, &arguments);
        }
    }
}

#[test]
fn thinking_that_begins_with_its_block_is_not_joined_to_the_answer() {
    let events = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "4111 1111"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": " 1111 1111"}}),
        json!({"type": "content_block_stop", "index": 1}),
    ];
    let (all, is_blocked) = sent(Api::Messages, Action::Block, &events);
    let is_sent = ["\" 1111 1111\"", "\"1111 1111\""].iter().any(|text| all.contains(text));
    assert!(!is_blocked && is_sent, "{all}");
}

#[test]
fn a_text_that_begins_with_its_block_goes_on_from_the_block_before() {
    let events = [
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "4111 1111"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": " 1111 1111"}}),
    ];
    check(Api::Messages, " 1111 1111", &events);
}

#[test]
fn the_parts_of_an_answer_are_checked_as_one_text_however_they_come() {
    let chat = Api::ChatCompletions;
    let (before, after) = ("4111 1111", " 1111 1111");
    let part = |text: &str| json!({"type": "text", "text": text});
    let numbered = |index: u32, text: &str| json!([{"type": "text", "index": index, "text": text}]);
    let content = |content: Value| chunk(json!({ "content": content }));
    check(chat, after, &[content(json!([part(before), part(after)]))]);
    check(chat, after, &[content(json!([before, after]))]);
    check(chat, " 1111", &[content(json!([part("4111"), part(" 1111 1111"), part(" 1111")]))]);
    check(chat, after, &[content(numbered(0, before)), content(numbered(1, after))]);
    check(chat, after, &[content(json!(before)), content(json!([part(after)]))]);
    check(chat, after, &[content(json!([part(before)])), content(json!(after))]);
    // by the numbers of the parts
    let events = [numbered(0, before), numbered(1, "or"), numbered(0, after)].map(content);
    check(chat, after, &events);
    let thinking = |parts: Value| chunk(json!({"reasoning_details": parts}));
    check(chat, after, &[thinking(json!([part(before), part(after)]))]);
    let block = |index: u32, text: &str| {
        let delta = json!({"type": "text_delta", "text": text});
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    };
    check(Api::Messages, after, &[block(0, before), block(1, after)]);
    let part = |number: u32, text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": number, "delta": text});
    check(Api::Responses, after, &[part(0, before), part(1, after)]);
}

#[test]
fn the_parts_of_one_event_stay_in_their_places() {
    let parts = json!([{"type": "text", "text": "Write to ann"}, {"type": "text", "text": " or bob"}]);
    let (all, is_blocked) = sent(Api::ChatCompletions, Action::Redact, &[chunk(json!({ "content": parts }))]);
    let texts = ["\"text\":\"Write to ann\"", " or", "bob\""];
    let places: Vec<Option<usize>> = texts.iter().map(|text| all.find(text)).collect();
    assert!(!is_blocked && places.iter().all(Option::is_some) && places.is_sorted(), "{all}");
}

#[test]
fn answers_of_other_choices_and_repeated_answers_are_not_joined() {
    let choice = |index: u32, text: &str| json!({"index": index, "delta": {"content": text}});
    let choices = json!({"choices": [choice(0, "4111 1111"), choice(1, " 1111 1111")]});
    let (all, is_blocked) = sent(Api::ChatCompletions, Action::Block, &[choices]);
    assert!(!is_blocked && all.matches("1111\"").count() == 2, "{all}");
    // some servers send the piece in two fields
    let both = |text: &str| json!({"choices": [{"index": 0, "text": text, "delta": {"content": text}}]});
    let (all, is_blocked) = sent(Api::ChatCompletions, Action::Redact, &[both("ann@exam"), both("ple.com")]);
    assert!(!is_blocked && !all.contains("ann@") && !all.contains("ple.com"), "{all}");
    assert_eq!(all.matches("[EMAIL_1]").count(), 2, "{all}");
}

#[test]
fn a_message_in_place_of_a_piece_is_one() {
    let chat = Api::ChatCompletions;
    let message = |text: &str| json!({"choices": [{"index": 0, "message": {"content": text}}]});
    let beside_null =
        |text: &str| json!({"choices": [{"index": 0, "delta": null, "message": {"content": text}}]});
    let delta = |text: &str| chunk(json!({ "content": text }));
    let address = "ann@example.com";
    // what is longer by one letter begins with an address
    for at in 1..address.len() - 1 {
        let (before, after) = address.split_at(at);
        check(chat, after, &[message(before), message(after)]);
        check(chat, after, &[beside_null(before), beside_null(after)]);
        check(chat, after, &[delta(before), message(after)]);
        check(chat, after, &[message(before), delta(after)]);
    }
}

#[test]
fn a_whole_message_stays_in_its_event() {
    let whole = |text: &str, arguments: &str| {
        let call = json!({"id": "a", "function": {"name": "f", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": text, "tool_calls": [call]});
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    };
    let event = whole("Write to ann@example.com", r#"{"to":"ann@example.com"}"#);
    let (all, is_blocked) = sent(Api::ChatCompletions, Action::Redact, &[event]);
    let expected = whole("Write to [EMAIL_1]", r#"{"to":"[EMAIL_1]"}"#);
    assert_eq!((all, is_blocked), (format!("data: {expected}\n\n"), false));
}

#[test]
fn of_several_names_of_an_event_the_last_one_is_written() {
    let written = |event: &str| {
        let mut filter = StreamFilter::new(Api::ChatCompletions, redacting(), Arc::default(), Vec::new());
        let mut out = Vec::new();
        filter.push(event.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    for data in ["{}", "[DONE]"] {
        for end in ["\n", "\r\n", "\r"] {
            for names in ["event: zyxmark\nevent: message\n", "event:zyxmark\nevent:message\n"] {
                let event = format!("{names}data: {data}\n\n").replace('\n', end);
                assert_eq!(written(&event), format!("event: message\ndata: {data}\n\n"));
                let event = format!("event: zyxmark\ndata: {data}\nevent: message\n\n").replace('\n', end);
                assert_eq!(written(&event), format!("event: message\ndata: {data}\n\n"));
            }
            for name in ["event\n", "event:\n"] {
                let event = format!("event: zyxmark\n{name}data: {data}\n\n").replace('\n', end);
                assert_eq!(written(&event), format!("data: {data}\n\n"));
            }
            let event = format!("event: message\ndata: {data}\n\n").replace('\n', end);
            assert_eq!(written(&event), event);
        }
    }
}
