//! Streams as clients put them together.

use super::*;

fn event(event: &Value) -> String {
    format!("data: {event}\n\n")
}

fn delta(delta: Value) -> Value {
    json!({"id": "c1", "choices": [{"index": 0, "delta": delta}]})
}

fn filtered(api: Api, action: Action, events: &[Value]) -> (bool, Vec<Value>) {
    let mut filter = StreamFilter::new(api, Arc::new(rules(action)), Arc::default(), Vec::new());
    let mut out = Vec::new();
    let ended = events.iter().try_for_each(|data| filter.push(event(data).as_bytes(), &mut out));
    let is_blocked = ended.and_then(|()| filter.finish(&mut out)).is_err();
    let sent = String::from_utf8(out).unwrap();
    let data = sent.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    (is_blocked, data.map(|data| serde_json::from_str(data).unwrap()).collect())
}

/// A finding that begins in one event and ends in another is blocked, however it is cut.
fn check(api: Api, events: impl Fn(&str, &str) -> Vec<Value>) {
    let email = "ann@example.com";
    for at in 1..email.len() - 1 {
        let (start, rest) = email.split_at(at);
        let events = events(start, rest);
        let (is_blocked, sent) = filtered(api, Action::Block, &events);
        assert!(is_blocked, "{events:?}: {sent:?}");
    }
}

#[test]
fn a_string_that_becomes_a_piece_is_joined_with_those_before() {
    check(Api::ChatCompletions, |start, rest| {
        vec![delta(json!({"content": "a", "foo": start})), delta(json!({"foo": rest}))]
    });
    check(Api::ChatCompletions, |start, rest| {
        let item = |text: Value| delta(json!({"reasoning_details": [text]}));
        vec![
            item(json!({"index": 0, "text": "a", "summary": start})),
            item(json!({"index": 0, "summary": rest})),
        ]
    });
    check(Api::Messages, |start, rest| {
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
        vec![
            delta(json!({"type": "text_delta", "text": "a", "foo": start})),
            delta(json!({"type": "text_delta", "foo": rest})),
        ]
    });
}

#[test]
fn indices_that_clients_take_for_one_are_one() {
    for index in [json!(1.0), json!("1"), json!(1e0)] {
        let call = |index: &Value, arguments: String| {
            delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
        };
        check(Api::ChatCompletions, |start, rest| {
            vec![call(&json!(1), format!("{{\"a\":\"{start}")), call(&index, format!("{rest}\"}}"))]
        });
        check(Api::ChatCompletions, |start, rest| {
            let call = |index: &Value, name: &str| {
                delta(json!({"tool_calls": [{"index": index, "function": {"name": name}}]}))
            };
            vec![call(&json!(1), start), call(&index, rest)]
        });
        check(Api::Messages, |start, rest| {
            let delta = |index: &Value, text: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "signature_delta", "signature": text}});
            vec![delta(&json!(1), start), delta(&index, rest)]
        });
    }
    for index in [json!(null), json!("0"), json!(0.0)] {
        check(Api::ChatCompletions, |start, rest| {
            let call = |index: &Value, name: &str| {
                delta(json!({"tool_calls": [{"index": index, "function": {"name": name}}]}))
            };
            vec![call(&json!(0), start), call(&index, rest)]
        });
    }
}

#[test]
fn a_delta_of_an_unknown_event_goes_on() {
    for kind in [json!("foo"), json!(null)] {
        check(Api::Messages, |start, rest| {
            let delta = |kind: &Value, text: String| json!({"type": kind, "index": 1, "delta": {"partial_json": text}});
            vec![
                delta(&json!("content_block_delta"), format!("{{\"a\":\"{start}")),
                delta(&kind, format!("{rest}\"}}")),
            ]
        });
    }
}

#[test]
fn what_clients_append_as_a_string_is_read_as_one() {
    let digits = |content: Value| delta(json!({"content": content}));
    let numbers = [digits(json!(41_111_111)), digits(json!(11_111_111))];
    let sent = filtered(Api::ChatCompletions, Action::Redact, &numbers).1;
    assert!(sent.iter().all(|event| event["choices"][0]["delta"]["content"].is_null()), "{sent:?}");
    let numbers =
        [41_111_111, 11_111_111].map(|delta| json!({"type": "response.output_text.delta", "delta": delta}));
    let sent = filtered(Api::Responses, Action::Redact, &numbers).1;
    assert!(sent.iter().all(|event| event["delta"].is_null()), "{sent:?}");
    for is_first in [true, false] {
        let list = |text: &str, is_list: bool| if is_list { json!([text]) } else { json!(text) };
        check(Api::ChatCompletions, |start, rest| {
            let call = |arguments: Value| {
                delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}))
            };
            vec![call(list(start, is_first)), call(list(rest, !is_first))]
        });
        check(Api::Messages, |start, rest| {
            let delta =
                |text: Value| json!({"type": "content_block_delta", "index": 0, "delta": {"text": text}});
            let stop = json!({"type": "content_block_stop", "index": 0});
            vec![delta(list(start, is_first)), stop, delta(list(rest, !is_first))]
        });
    }
}

#[test]
fn blocks_of_reasoning_are_joined() {
    check(Api::Messages, |start, rest| {
        let delta = |index: u32, text: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "thinking_delta", "thinking": text}});
        vec![delta(0, start), json!({"type": "content_block_stop", "index": 0}), delta(1, rest)]
    });
}

#[test]
fn a_whole_call_without_an_index_stays_in_its_event() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"city\":\"Paris\"}"}, "extra_content": {"a": "s"}});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let events = [delta(json!({"role": "assistant", "tool_calls": [call, call]})), end];
    for action in [Action::Redact, Action::Block] {
        assert_eq!(filtered(Api::ChatCompletions, action, &events), (false, events.to_vec()));
    }
    // one in pieces is held
    let piece = |arguments: &str| delta(json!({"tool_calls": [{"function": {"arguments": arguments}}]}));
    let sent =
        filtered(Api::ChatCompletions, Action::Redact, &[piece("{\"a\":\"ann@exa"), piece("mple.com\"}")]).1;
    let sent = json!(sent).to_string();
    assert!(sent.contains("[EMAIL_1]") && !sent.contains("mple.com"), "{sent}");
}

#[test]
fn texts_of_one_event_are_sent_together_and_in_their_order() {
    let reasoning = |text: &str| {
        delta(
            json!({"content": "", "reasoning": text, "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0}]}),
        )
    };
    let content = delta(json!({"content": "So: 42"}));
    let events = [
        reasoning("Let me"),
        reasoning(" see"),
        reasoning(" 41"),
        reasoning(" 42"),
        content.clone(),
        content,
    ];
    let (_, sent) = filtered(Api::ChatCompletions, Action::Redact, &events);
    let mut kinds = String::new();
    let (mut reasoning, mut details) = (String::new(), String::new());
    for event in &sent {
        let delta = &event["choices"][0]["delta"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let piece = text(&delta["reasoning"]);
        assert_eq!(text(&delta["reasoning_details"][0]["text"]), piece, "{event}");
        details.push_str(&piece);
        reasoning.push_str(&piece);
        kinds.push_str(if piece.is_empty() { "c" } else { "r" });
    }
    assert_eq!((reasoning.as_str(), details.as_str()), ("Let me see 41 42", "Let me see 41 42"));
    assert!(kinds.trim_start_matches('r').bytes().all(|kind| kind == b'c'), "{kinds}");
}

#[test]
fn what_a_model_thinks_is_sent_together_where_an_event_has_it_twice() {
    let summary = |text: &str| {
        delta(
            json!({"reasoning": text, "reasoning_details": [{"type": "reasoning.summary", "summary": text, "index": 0}]}),
        )
    };
    let encrypted = delta(
        json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 0}]}),
    );
    let events = [summary("**Plan** 7"), summary(" 8"), encrypted, delta(json!({"content": "Done. "}))];
    let (_, sent) = filtered(Api::ChatCompletions, Action::Redact, &events);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut reasoning = String::new();
    for event in &sent {
        let delta = &event["choices"][0]["delta"];
        assert_eq!(text(&delta["reasoning"]), text(&delta["reasoning_details"][0]["summary"]), "{event}");
        reasoning.push_str(&text(&delta["reasoning"]));
    }
    assert_eq!(reasoning, "**Plan** 7 8");
}

#[test]
fn numbers_of_events_increase_and_calls_come_behind_the_text_before_them() {
    let piece = |number: u64, text: &str| json!({"type": "response.output_text.delta", "sequence_number": number, "output_index": 0, "content_index": 0, "delta": text});
    let note = |number: u64| json!({"type": "response.output_text.annotation.added", "sequence_number": number, "annotation_index": 0, "output_index": 0});
    let done = json!({"type": "response.output_text.done", "sequence_number": 8, "output_index": 0, "content_index": 0, "text": "It is 42"});
    let events = [piece(3, "It "), piece(4, "is "), piece(5, "42"), note(6), note(7), done];
    let (_, sent) = filtered(Api::Responses, Action::Redact, &events);
    let numbers: Vec<u64> = sent.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    // those of a provider stay as long as none is added
    let others = [note(9), note(3), note(3)];
    assert_eq!(filtered(Api::Responses, Action::Redact, &others), (false, others.to_vec()));
    assert!(
        numbers.is_sorted_by(|a, b| a < b) && sent.iter().any(|event| event["delta"] == "42"),
        "{sent:?}"
    );
    let text = delta(json!({"content": "Call 4"}));
    let call = |arguments: &str| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}]}),
        )
    };
    let (_, sent) = filtered(Api::ChatCompletions, Action::Redact, &[text, call(""), call("{}")]);
    let first_call =
        sent.iter().position(|event| !event["choices"][0]["delta"]["tool_calls"].is_null()).unwrap();
    let mut behind = sent[first_call..].iter();
    assert!(behind.all(|event| event["choices"][0]["delta"]["content"].is_null()), "{sent:?}");
}

#[test]
fn a_stream_of_lists_of_texts_costs_and_makes_no_more_than_a_bound() {
    let list = event(&delta(json!({"l": vec!["1"; 1_900]})));
    let lists = vec![list; 40];
    let (ended, _, sent) = run(&redacting(), &lists);
    let bytes: usize = lists.iter().map(String::len).sum();
    assert!(sent.len() < 2 * bytes, "{} of {bytes}: {ended:?}", sent.len());
    // each ends in an event of its own
    for count in [128, 2_000] {
        let choices: Vec<Value> =
            (0..count).map(|index| json!({"index": index, "delta": {"content": "1"}})).collect();
        let end = |index| json!({"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]});
        let ends = (0..count).map(|index| event(&end(index)));
        let events: Vec<String> = iter::once(event(&json!({"choices": choices}))).chain(ends).collect();
        let bytes: usize = events.iter().map(String::len).sum();
        let (ended, _, sent) = run(&redacting(), &events);
        assert!(
            ended.is_ok() == (count == 128) && sent.len() < 3 * bytes,
            "{} of {bytes}: {ended:?}",
            sent.len()
        );
    }
}
