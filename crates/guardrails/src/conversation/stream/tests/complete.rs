//! Strings that are no pieces of texts, which some clients append nevertheless.

use super::*;

/// The rest of a value is sent by no rule that blocks or redacts, and what has none passes as it came.
fn check(api: Api, event: impl Fn(&str) -> Value) {
    let run = |action: Action, texts: [&str; 2]| {
        let mut filter = StreamFilter::new(api, Arc::new(rules(action)), Arc::default(), Vec::new());
        let written = texts.map(|text| format!("data: {}\n\n", event(text)));
        let mut out = Vec::new();
        let ended = written.iter().try_for_each(|event| filter.push(event.as_bytes(), &mut out));
        let is_blocked = ended.and_then(|()| filter.finish(&mut out)).is_err();
        (String::from_utf8(out).unwrap(), is_blocked, written.concat())
    };
    let email = "ann@example.com";
    // what ends in `.co` is an address
    for at in 1..email.len() - 1 {
        let (start, rest) = email.split_at(at);
        // the second one is of the form of the first, and the third is not
        for texts in [[start, rest], [&format!("of {start}"), rest]] {
            let (sent, is_blocked, all) = run(Action::Block, texts);
            let second = all.rfind("data:").unwrap();
            assert!(is_blocked && sent.len() <= second, "{all}\n{sent}");
            let (sent, is_blocked, all) = run(Action::Redact, texts);
            assert!(!is_blocked && sent != all && !sent.contains(&all[second..]), "{all}\n{sent}");
        }
    }
    for texts in [["a word", "another"], ["the same", "the same"]] {
        let (sent, is_blocked, all) = run(Action::Redact, texts);
        assert_eq!((sent, is_blocked), (all, false));
    }
}

fn chunk(delta: Value) -> Value {
    json!({"id": "c1", "choices": [{"index": 0, "delta": delta}]})
}

#[test]
fn values_that_a_delta_completes_are_checked_with_those_before() {
    let chat = Api::ChatCompletions;
    check(chat, |text| chunk(json!({"reasoning_details": [{"index": 0, "signature": text}]})));
    check(chat, |text| chunk(json!({"reasoning_details": [{"data": text}]})));
    check(chat, |text| {
        chunk(json!({"annotations": [{"type": "url_citation", "url_citation": {"title": text}}]}))
    });
    check(chat, |text| {
        chunk(json!({"tool_calls": [{"index": 1, "extra_content": {"a": {"signature": text}}}]}))
    });
    check(chat, |text| json!({"choices": [{"index": 0, "delta": {}, "provider": text}]}));
    let block = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    check(Api::Messages, |text| block(json!({"type": "signature_delta", "signature": text})));
    check(Api::Messages, |text| block(json!({"type": "citations_delta", "citation": {"title": text}})));
}

#[test]
fn values_beside_the_pieces_of_an_event_are_checked_with_those_before() {
    check(Api::ChatCompletions, |text| json!({"choices": [], "notes": [{"a": text}]}));
    check(Api::ChatCompletions, |text| json!({"choices": [], "notes": [text]}));
    check(Api::ChatCompletions, |text| json!({"choices": [], "citations": ["b", text]}));
    check(
        Api::Responses,
        |text| json!({"type": "response.output_text.delta", "output_index": 0, "delta": "", "note": {"b": text}}),
    );
    check(
        Api::Messages,
        |text| json!({"type": "message_delta", "delta": {"stop_reason": null}, "note": [text]}),
    );
}

#[test]
fn values_are_checked_together_whatever_changes_beside_them() {
    // a client appends by the number of a choice, call or item alone
    for (name, of_first, of_second) in [
        ("index", json!("a"), json!("b")),
        ("content_index", json!(0), json!(1)),
        ("note_index", json!(0), json!(1)),
        ("start", json!(0), json!(1)),
    ] {
        check(Api::ChatCompletions, |text| {
            let value = if text.ends_with(".com") { &of_second } else { &of_first };
            chunk(json!({"tool_calls": [{name: value, "extra_content": {"signature": text}}]}))
        });
    }
}

#[test]
fn values_of_one_entry_that_an_event_has_twice_are_checked_together() {
    let email = "ann@example.com";
    for at in 1..email.len() - 1 {
        let (start, rest) = email.split_at(at);
        let call = |name: &str| json!({"index": 0, "type": "function", "function": {"name": name}});
        let event = chunk(json!({"tool_calls": [call(start), call(rest)]}));
        let events = [format!("data: {event}\n\n")];
        assert!(run(&Arc::new(rules(Action::Block)), &events).0.is_err(), "{event}");
        let (ended, _, sent) = run(&redacting(), &events);
        assert!(ended.is_ok() && sent.contains("[EMAIL_1]") && !sent.contains(rest), "{sent}");
    }
    // entries of their own
    let call = |index: u32, name: &str| json!({"index": index, "function": {"name": name}});
    let event = chunk(json!({"tool_calls": [call(0, "ann@exam"), call(1, "ple.com")]}));
    let events = [format!("data: {event}\n\n")];
    assert_eq!(run(&redacting(), &events).2, events.concat());
}

#[test]
fn texts_of_deltas_are_joined_whatever_the_type_of_their_events() {
    let email = "ann@example.com";
    let delta = |kind: &str, text: &str| {
        let event = json!({"type": kind, "index": 0, "delta": {"type": "text_delta", "text": text}});
        format!("data: {event}\n\n")
    };
    for kind in [
        "ping",
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_stop",
        "message_stop",
    ] {
        for at in 1..email.len() {
            let events = [
                delta("content_block_delta", &email[..at]),
                "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n".to_owned(),
                delta(kind, &email[at..]),
            ];
            let mut filter =
                StreamFilter::new(Api::Messages, Arc::new(rules(Action::Block)), Arc::default(), Vec::new());
            let mut out = Vec::new();
            let ended = events.iter().try_for_each(|event| filter.push(event.as_bytes(), &mut out));
            assert!(ended.and_then(|()| filter.finish(&mut out)).is_err(), "{events:?}");
        }
    }
}

#[test]
fn what_is_sent_later_repeats_nothing_else_of_its_event() {
    let event = |text: &str, part: &str| {
        let call = json!({"index": 0, "extra_content": {"thought_signature": "S1"}, "function": {"name": "f", "arguments": "{"}});
        let mut delta = json!({"role": "assistant", "content": text, "annotations": [{"title": "S2"}], "images": [{"url": "S3"}], "tool_calls": [call]});
        delta.as_object_mut().unwrap().remove(part);
        let choice = json!({"index": 0, "delta": delta, "note": "S4"});
        json!({"id": "c1", "citations": ["S5"], "provider": "S6", "usage": {"prompt_tokens": 77}, "choices": [choice]})
    };
    for (part, text) in [("none", "mail ann@example"), ("tool_calls", "mail ann@example"), ("content", "")] {
        let events = [format!("data: {}\n\n", event("mail ann@example", part)), END.to_owned()];
        let (ended, seen, sent) = run(&redacting(), &events);
        assert_eq!((ended, seen.as_str()), (Ok(()), text));
        for value in ["S1", "S2", "S3", "S4", "S5", "S6", "77", "\"f\""] {
            let is_of_call = matches!(value, "S1" | "\"f\"");
            let count = usize::from(!is_of_call || part != "tool_calls");
            assert_eq!(sent.matches(value).count(), count, "{value}: {sent}");
        }
        // all events say to which choice and call they belong
        let count = if part == "tool_calls" { 3 } else { 5 };
        assert_eq!((sent.matches("\"index\":0").count(), sent.matches("c1").count()), (count, 2), "{sent}");
    }
}

#[test]
fn texts_of_the_first_event_are_checked_with_those_that_follow() {
    let email = "ann@example.com";
    for at in 1..email.len() {
        let (start, rest) = email.split_at(at);
        let message =
            json!({"type": "message_start", "message": {"content": [{"type": "text", "text": start}]}});
        let block =
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
        let delta =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": rest}});
        let of_messages = [message, block, delta];
        let item = json!({"type": "message", "content": [{"type": "output_text", "text": start}]});
        let created = json!({"type": "response.created", "response": {"output": [item]}});
        let delta = json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": rest});
        let of_responses = [created, delta];
        for (api, events) in [(Api::Messages, &of_messages[..]), (Api::Responses, &of_responses)] {
            let mut filter =
                StreamFilter::new(api, Arc::new(rules(Action::Block)), Arc::default(), Vec::new());
            let mut out = Vec::new();
            let mut written = events.iter().map(|event| format!("data: {event}\n\n"));
            let ended = written.try_for_each(|event| filter.push(event.as_bytes(), &mut out));
            assert!(ended.and_then(|()| filter.finish(&mut out)).is_err(), "{events:?}");
        }
    }
}

#[test]
fn a_stream_of_very_many_names_or_of_long_ones_is_bounded() {
    let named = |number: usize| format!("data: {}\n\n", chunk(json!({"data": {format!("n{number}"): "a"}})));
    let few: Vec<String> = (0..4_000).map(named).collect();
    assert_eq!(run(&redacting(), &few).0, Ok(()));
    let many: Vec<String> = (0..20_000).map(named).collect();
    assert!(run(&redacting(), &many).0.is_err());
    // 2,000 texts within a field whose name has 256 KiB
    let texts: serde_json::Map<String, Value> =
        (0..2_000).map(|number| (format!("n{number}"), json!("a"))).collect();
    let event = chunk(json!({"x".repeat(256 << 10): texts})).to_string();
    let tape = Tape::parse(event.as_bytes()).unwrap();
    let pieces = pieces_of(Api::ChatCompletions, tape.root(event.as_bytes()));
    assert!(pieces.texts.len() == 2_000 && pieces.texts.iter().all(|(lane, _)| lane.path.len() < 512));
}

/// Events of real services, in which nothing is found.
fn streams() -> Vec<(Api, Vec<Value>)> {
    let choice = |delta: Value| json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    let end = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let safe = json!({"hate": {"filtered": false, "severity": "safe"}, "violence": {"filtered": false, "severity": "safe"}});
    let azure = |text: &str| {
        json!({"id": "chatcmpl-9x", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt-4o", "system_fingerprint": "fp_1",
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null, "content_filter_results": safe}], "x_ms": "east"})
    };
    let perplexity = |text: &str, count: usize| {
        let page = |number: usize| format!("https://example.com/{number}");
        let results: Vec<Value> = (0..count)
            .map(|number| json!({"title": format!("Weirs of {number}"), "url": page(number), "date": "2024-05-01"}))
            .collect();
        let citations: Vec<String> = (0..count).map(page).collect();
        json!({"id": "p1", "model": "sonar", "created": 1, "object": "chat.completion.chunk", "citations": citations, "search_results": results,
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": null}]})
    };
    let open_router = |delta: Value| json!({"id": "gen-1", "provider": "Anthropic", "model": "m", "object": "chat.completion.chunk", "created": 1, "choices": choice(delta)});
    let block =
        |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let begin = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let stop = |index: u32| json!({"type": "content_block_stop", "index": index});
    let of_text = |kind: &str, number: u32, more: Value| {
        let mut event = json!({"type": kind, "item_id": "msg_1", "output_index": 1, "content_index": 0, "sequence_number": number});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let note = |number: u32| {
        let annotation = json!({"type": "url_citation", "start_index": number, "end_index": number + 5, "url": format!("https://example.com/{number}"),
            "title": format!("Page {number} of 12")});
        of_text(
            "response.output_text.annotation.added",
            number,
            json!({"annotation_index": number, "annotation": annotation}),
        )
    };
    vec![
        (
            Api::ChatCompletions,
            vec![
                json!({"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": safe}]}),
                azure("A weir "),
                azure("of stone. "),
                json!({"id": "chatcmpl-9x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "system_fingerprint": "fp_1", "choices": end}),
            ],
        ),
        (
            Api::ChatCompletions,
            vec![perplexity("A ", 2), perplexity("weir ", 2), perplexity("of ", 3), perplexity("stone. ", 3)],
        ),
        (
            Api::ChatCompletions,
            vec![
                open_router(
                    json!({"reasoning_details": [{"type": "reasoning.text", "text": "So: ", "index": 0, "format": "anthropic-claude-v1"}]}),
                ),
                open_router(
                    json!({"reasoning_details": [{"type": "reasoning.text", "signature": "EqQBCkgIBxABGAIiQL2", "index": 0, "format": "anthropic-claude-v1"}]}),
                ),
                open_router(json!({"content": "A weir. "})),
                json!({"id": "c", "x_groq": {"id": "req_01", "usage": {"queue_time": 0.01}}, "choices": end}),
            ],
        ),
        (
            Api::Messages,
            vec![
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 5}}}),
                begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                block(0, json!({"type": "thinking_delta", "thinking": "So: "})),
                block(0, json!({"type": "signature_delta", "signature": "EqQBCkgIBxABGAIiQL2+/="})),
                stop(0),
                begin(1, json!({"type": "text", "text": "", "citations": []})),
                block(1, json!({"type": "text_delta", "text": "A weir. "})),
                block(
                    1,
                    json!({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "A weir of 1900", "document_title": "Weirs", "document_index": 0}}),
                ),
                block(
                    1,
                    json!({"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "12 m high", "document_title": "Weirs", "document_index": 0}}),
                ),
                stop(1),
                begin(2, json!({"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}})),
                stop(2),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 9}}),
                json!({"type": "message_stop"}),
            ],
        ),
        (
            Api::Responses,
            vec![
                json!({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "status": "in_progress", "model": "m", "output": []}}),
                json!({"type": "response.in_progress", "sequence_number": 1, "response": {"id": "resp_1", "status": "in_progress", "model": "m", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "sequence_number": 2, "item": {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}}),
                json!({"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1", "sequence_number": 3}),
                json!({"type": "response.output_item.done", "output_index": 0, "sequence_number": 4, "item": {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "weirs of 1900"}}}),
                json!({"type": "response.output_item.added", "output_index": 1, "sequence_number": 5, "item": {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}}),
                of_text(
                    "response.output_text.delta",
                    6,
                    json!({"delta": "A weir ", "obfuscation": "x7Qa", "logprobs": []}),
                ),
                of_text(
                    "response.output_text.delta",
                    7,
                    json!({"delta": "of stone. ", "obfuscation": "9bZt1", "logprobs": []}),
                ),
                note(8),
                note(9),
                note(10),
                of_text(
                    "response.output_text.done",
                    11,
                    json!({"text": "A weir of stone. ", "logprobs": []}),
                ),
                json!({"type": "response.completed", "sequence_number": 12, "response": {"id": "resp_1", "status": "completed", "model": "m", "output": [
                    {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": "A weir of stone. ", "annotations": []}]}]}}),
            ],
        ),
    ]
}

#[test]
fn streams_in_which_nothing_is_found_pass_as_they_came() {
    for (api, events) in streams() {
        for action in [Action::Redact, Action::Block] {
            let written: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            let mut filter = StreamFilter::new(api, Arc::new(rules(action)), Arc::default(), Vec::new());
            let mut out = Vec::new();
            for event in &written {
                let start = out.len();
                assert_eq!(filter.push(event.as_bytes(), &mut out), Ok(()), "{event}");
                assert_eq!(str::from_utf8(&out[start..]).unwrap(), event);
            }
            assert_eq!(filter.finish(&mut out), Ok(()));
            assert_eq!(String::from_utf8(out).unwrap(), written.concat());
        }
    }
}
