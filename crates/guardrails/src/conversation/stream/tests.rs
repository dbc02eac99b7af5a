use std::iter;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Detect, Rule, RuleSet};

mod clients;
mod complete;
mod continued;
mod ends;

/// Rules for personal data in both directions.
fn rules(action: Action) -> Checks {
    let rule = |name: &str, detect: Detect| Rule { name: name.to_owned(), detect, action };
    let rules = [rule("email", Detect::Email), rule("payment_card", Detect::PaymentCard)];
    let set = Some(Arc::new(RuleSet::compile(&rules).unwrap()));
    Checks { input: set.clone(), output: set, restores: false, mode: StreamMode::Window, window_bytes: 1_000 }
}

fn redacting() -> Arc<Checks> {
    Arc::new(rules(Action::Redact))
}

fn chat(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}

const END: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// The text of a stream's answer, and of all its events.
fn run(checks: &Arc<Checks>, events: &[String]) -> (Result<(), BlockedBy>, String, String) {
    let mut filter = StreamFilter::new(Api::ChatCompletions, checks.clone(), Arc::default(), Vec::new());
    let mut out = Vec::new();
    let mut ended = Ok(());
    for event in events {
        ended = filter.push(event.as_bytes(), &mut out);
        if ended.is_err() {
            break;
        }
    }
    let ended = ended.and_then(|()| filter.finish(&mut out));
    let all = String::from_utf8(out).unwrap();
    let data = all.split("\n\n").filter_map(|event| event.strip_prefix("data: {"));
    let pieces = data.map(|data| serde_json::from_str::<Value>(&format!("{{{data}")).unwrap());
    let text =
        pieces.map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned());
    (ended, text.collect(), all.clone())
}

#[test]
fn a_match_is_redacted_wherever_it_is_cut() {
    let answer = "Write to ann@example.com now, or pay by 4111 1111 1111 1111. Ünder \"it\"\n";
    let expected = "Write to [EMAIL_1] now, or pay by [PAYMENT_CARD_1]. Ünder \"it\"\n";
    let checks = redacting();
    for size in 1..answer.len() {
        let chars: Vec<char> = answer.chars().collect();
        let mut events: Vec<String> =
            chars.chunks(size).map(|piece| chat(&piece.iter().collect::<String>())).collect();
        events.push(END.to_owned());
        let (ended, text, all) = run(&checks, &events);
        assert_eq!((ended, text.as_str()), (Ok(()), expected), "{size}");
        assert!(!all.contains("ann@") && all.ends_with(END), "{size}: {all}");
    }
}

#[test]
fn events_without_findings_are_passed_on_byte_by_byte() {
    let events = [
        "event: message\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\\u00e9 \"}}]}\r\n\r\n".to_owned(),
        ":\n\n".to_owned(),
        END.to_owned(),
    ];
    let mut filter = StreamFilter::new(Api::ChatCompletions, redacting(), Arc::default(), Vec::new());
    let mut out = Vec::new();
    events.iter().for_each(|event| filter.push(event.as_bytes(), &mut out).unwrap());
    assert_eq!(String::from_utf8(out).unwrap(), events.concat());
}

#[test]
fn events_of_one_chunk_are_checked_each_whatever_ends_their_lines() {
    for end in ["\n", "\r\n", "\r"] {
        let events =
            [chat("Write to ann@exam"), chat("ple.com "), END.to_owned()].concat().replace('\n', end);
        let mut filter = StreamFilter::new(Api::ChatCompletions, redacting(), Arc::default(), Vec::new());
        let mut out = Vec::new();
        filter.push(events.as_bytes(), &mut out).unwrap();
        let all = String::from_utf8(out).unwrap();
        assert!(all.contains("Write to") && all.contains("[EMAIL_1]") && !all.contains("ple.com"), "{all}");
    }
}

#[test]
fn an_event_that_the_end_cuts_is_completed_if_it_can_be_checked() {
    let whole = chat("mail ann@example.com");
    for cut in ["\n", ""] {
        let event = whole.replace("\n\n", cut);
        let (_, text, all) = run(&redacting(), &[event]);
        assert_eq!((text.as_str(), all.ends_with("\n\n")), ("mail [EMAIL_1]", true), "{all}");
    }
    let part = r#"data: {"choices":[{"index":0,"delta":{"content":"mail ann@example.com "#;
    assert_eq!(run(&redacting(), &[part.to_owned()]).2, "");
    let done = [chat("ann@example.com"), "data: [DONE]".to_owned()];
    assert!(run(&redacting(), &done).2.ends_with("[EMAIL_1]\"},\"index\":0}]}\n\ndata: [DONE]\n\n"));
}

#[test]
fn arguments_of_tools_are_checked() {
    let call = |arguments: &str| {
        let call = json!({"index": 0, "function": {"arguments": arguments}});
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
    };
    let events = [call("{\"to\":\"ann@exa"), call("mple.com\"}"), END.to_owned()];
    // the id is repeated in each event by some servers, and names another call after that
    let named =
        |event: &String, id: &str| event.replace("{\"function\"", &format!("{{\"id\":\"{id}\",\"function\""));
    let repeated = [
        named(&events[0], "a"),
        named(&events[1], "a"),
        named(&call("{\"n\":4111111111111111}"), "b"),
        END.to_owned(),
    ];
    for events in [events.to_vec(), repeated.to_vec()] {
        let (_, _, all) = run(&redacting(), &events);
        assert!(all.contains(r#"{\"to\":\"[EMAIL_1]\"}"#), "{all}");
        assert!(!all.contains("ann@") && !all.contains("mple.com") && !all.contains("4111"), "{all}");
        assert_eq!(all.contains(r#"{\"n\":\"[PAYMENT_CARD_1]\"}"#), events.len() == 4, "{all}");
    }
}

#[test]
fn a_text_with_half_of_a_surrogate_pair_is_checked() {
    let half = r#"data: {"choices":[{"index":0,"delta":{"content":"\ud83d ann\u0040example.com "}}]}"#;
    let (ended, text, _) = run(&redacting(), &[format!("{half}\n\n"), END.to_owned()]);
    assert_eq!((ended, text.trim_start_matches('\u{fffd}')), (Ok(()), " [EMAIL_1] "));
}

#[test]
fn values_that_are_no_texts_leave_events_as_they_are() {
    let null = r#"data: {"type":"content_block_delta","index":0,"delta":{"text":null}}"#;
    let text = r#"data: {"type":"content_block_delta","index":0,"delta":{"text":"ann@example.com"}}"#;
    let mut filter = StreamFilter::new(Api::Messages, redacting(), Arc::default(), Vec::new());
    let mut out = Vec::new();
    filter.push(format!("{null}\n\n{text}\n\n").as_bytes(), &mut out).unwrap();
    filter.finish(&mut out).unwrap();
    let expected = format!("{null}\n\n{}\n\n", text.replace("ann@example.com", "[EMAIL_1]"));
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_finding_that_blocks_ends_the_stream_before_it() {
    let checks = Arc::new(rules(Action::Block));
    let events = [chat("It is "), chat("ann@exam"), chat("ple.com and more "), END.to_owned()];
    let (ended, text, _) = run(&checks, &events);
    assert_eq!((ended, text.as_str()), (Err(BlockedBy("email".to_owned())), "It is "));
}

#[test]
fn a_buffered_stream_is_sent_at_its_end_and_an_audited_one_at_once() {
    let events = [chat("It is ann@example.com "), END.to_owned()];
    let check = |mode: StreamMode, first: &str, all: &str| {
        let checks = Arc::new(Checks { mode, ..rules(Action::Redact) });
        let mut filter = StreamFilter::new(Api::ChatCompletions, checks.clone(), Arc::default(), Vec::new());
        let mut out = Vec::new();
        filter.push(events[0].as_bytes(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out.clone()).unwrap(), first, "{mode:?}");
        filter.push(events[1].as_bytes(), &mut out).unwrap();
        assert_eq!(filter.report().to_text(), "output email redact 1", "{mode:?}");
        assert_eq!(run(&checks, &events).1, all, "{mode:?}");
    };
    check(StreamMode::Buffer, "", "It is [EMAIL_1] ");
    check(StreamMode::Audit, &events[0], "It is ann@example.com ");
}

#[test]
fn blocks_of_messages_are_flushed_before_they_end() {
    let delta = |text: &str| {
        let event =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        format!("event: content_block_delta\ndata: {event}\n\n")
    };
    let stop = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
    let mut filter = StreamFilter::new(Api::Messages, redacting(), Arc::default(), Vec::new());
    let mut out = Vec::new();
    for event in [delta("mail ann@"), delta("example.com"), stop.to_owned()] {
        filter.push(event.as_bytes(), &mut out).unwrap();
    }
    let all = String::from_utf8(out).unwrap();
    assert!(all.ends_with(stop) && all.contains("[EMAIL_1]") && !all.contains("ann@"), "{all}");
}

#[test]
fn what_crosses_from_one_block_into_the_next_is_found_wherever_it_is_cut() {
    let event = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let block = |index: usize, text: &str| {
        let delta = json!({"type": "text_delta", "text": text});
        [
            event(json!({"type": "content_block_delta", "index": index, "delta": delta})),
            event(json!({"type": "content_block_stop", "index": index})),
        ]
        .concat()
    };
    let sent = |checks: Checks, texts: [&str; 2]| {
        let mut filter = StreamFilter::new(Api::Messages, Arc::new(checks), Arc::default(), Vec::new());
        let mut out = Vec::new();
        let events = [block(0, texts[0]), block(1, texts[1]), event(json!({"type": "message_stop"}))];
        let ended = events.iter().try_for_each(|event| filter.push(event.as_bytes(), &mut out));
        (ended, String::from_utf8(out).unwrap(), filter.report().to_text())
    };
    let card = "4111 1111 1111 1111";
    for at in 1..card.len() {
        let texts = [&card[..at], &card[at..]];
        for mode in [StreamMode::Window, StreamMode::Buffer] {
            let (ended, out, report) = sent(Checks { mode, ..rules(Action::Redact) }, texts);
            assert_eq!((ended, report.as_str()), (Ok(()), "output payment_card redact 1"), "{texts:?}");
            assert!(!out.contains(&format!("\"text\":\"{}\"", texts[1])), "{out}");
        }
        let (ended, out, _) = sent(rules(Action::Block), texts);
        assert_eq!(ended, Err(BlockedBy("payment_card".to_owned())), "{texts:?}: {out}");
    }
    let (ended, out, report) = sent(rules(Action::Redact), ["It is 4111", " steps away."]);
    assert_eq!((ended, report.as_str()), (Ok(()), ""));
    assert!(out.contains("\"4111\"") && out.contains(" steps away."), "{out}");
}

/// The filtered answer of these pieces, in one text.
fn answer(checks: &Arc<Checks>, pieces: &[&str]) -> String {
    let mut events: Vec<String> = pieces.iter().map(|piece| chat(piece)).collect();
    events.push(END.to_owned());
    let (ended, text, _) = run(checks, &events);
    assert_eq!(ended, Ok(()), "{pieces:?}");
    text
}

#[test]
fn an_answer_that_is_json_is_checked_as_json_wherever_it_is_cut() {
    let before = r#" [ {"mail":"ann\u0040example.com","card":4.111111111111111e15,"n":1}, "it"] "#;
    let after = r#" [ {"mail":"[EMAIL_1]","card":"[PAYMENT_CARD_1]","n":1}, "it"] "#;
    for mode in [StreamMode::Window, StreamMode::Buffer] {
        let checks = Arc::new(Checks { mode, ..rules(Action::Redact) });
        for at in 0..before.len() {
            assert_eq!(answer(&checks, &[&before[..at], &before[at..]]), after, "{at}");
        }
    }
    for (before, after) in [
        ("[ 4111111111111111 ]", r#"[ "[PAYMENT_CARD_1]" ]"#),
        ("[true, 4111111111111111]", r#"[true, "[PAYMENT_CARD_1]"]"#),
        ("[[1],[4111111111111111]]", r#"[[1],["[PAYMENT_CARD_1]"]]"#),
    ] {
        for at in 0..before.len() {
            assert_eq!(answer(&redacting(), &[&before[..at], &before[at..]]), after, "{at}");
        }
    }
    // of what the limit of tokens cuts off, the escapes are read
    let cut = r#"{"mail":"ann\u0040example.com","to"#;
    assert_eq!(answer(&redacting(), &[cut]), r#"{"mail":"[EMAIL_1]","to"#);
}

#[test]
fn an_answer_that_only_begins_like_json_is_sent_as_it_comes() {
    let texts = [
        "[1] says so.",
        "[1], [2] say",
        "[not] so",
        "{{name}} is",
        "{ x }",
        "[EMAIL_7]",
        "[",
        " {",
        "[[7]] is",
        "{} is",
        "[]",
        "[1]",
    ];
    for text in texts {
        for at in 0..text.len() {
            assert_eq!(answer(&redacting(), &[&text[..at], &text[at..]]), text);
        }
    }
    let mut filter = StreamFilter::new(Api::ChatCompletions, redacting(), Arc::default(), Vec::new());
    let mut out = Vec::new();
    filter.push(chat("[1] says that ").as_bytes(), &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("says"));
}

#[test]
fn findings_in_json_of_responses_are_counted_once() {
    let delta = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text});
    let text = r#"{"mail":"ann@example.com"}"#;
    let done =
        json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": text});
    let mut filter = StreamFilter::new(Api::Responses, redacting(), Arc::default(), Vec::new());
    let mut out = Vec::new();
    for event in [delta(&text[..9]), delta(&text[9..]), done] {
        filter.push(format!("data: {event}\n\n").as_bytes(), &mut out).unwrap();
    }
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.matches("[EMAIL_1]").count(), 2, "{out}");
    assert!(!out.contains("ann@"), "{out}");
    assert_eq!(filter.report().to_text(), "output email redact 1");
}

#[test]
fn a_name_in_pieces_is_checked_as_clients_append_it() {
    let call = |name: &str| {
        let call = json!({"index": 0, "function": {"name": name, "arguments": ""}});
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
    };
    let address = "ann@example.com";
    // what is longer by one letter begins with an address
    for at in 1..address.len() - 1 {
        let events = [call(&address[..at]), call(&address[at..]), END.to_owned()];
        let (ended, _, all) = run(&Arc::new(rules(Action::Block)), &events);
        assert_eq!(ended, Err(BlockedBy("email".to_owned())), "{at}: {all}");
        let (ended, _, all) = run(&redacting(), &events);
        let rest = format!("\"name\":\"{}\"", &address[at..]);
        assert!(ended.is_ok() && !all.contains(&rest), "{at}: {all}");
    }
    let repeated = [call("look_up"), call("look_up"), call(""), END.to_owned()];
    let (ended, _, all) = run(&redacting(), &repeated);
    assert_eq!((ended, all), (Ok(()), repeated.concat()));
}

#[test]
fn a_stream_of_very_many_texts_or_calls_is_stopped() {
    let of_choice = |index: usize| json!({"index": index, "delta": {"content": "a"}});
    let of_call = |index: usize| {
        let call =
            json!({"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": "{"}});
        json!({"index": 0, "delta": {"tool_calls": [call]}})
    };
    let event = |choice: Value| format!("data: {}\n\n", json!({"choices": [choice]}));
    for part in [&of_choice as &dyn Fn(usize) -> Value, &of_call] {
        // a call has a name and an id
        let events: Vec<String> = (0..PLACES_MAX / 2).map(|index| event(part(index))).collect();
        assert_eq!(run(&redacting(), &events).0, Ok(()));
        let more: Vec<String> = (0..3 * PLACES_MAX).map(|index| event(part(index))).collect();
        assert_eq!(run(&redacting(), &more).0, Err(BlockedBy(PLACES_RULE.to_owned())));
    }
}

#[test]
fn one_event_of_very_many_texts_is_stopped() {
    let event = |count: usize, index: &dyn Fn(usize) -> usize| {
        let choices: Vec<Value> =
            (0..count).map(|number| json!({"index": index(number), "delta": {"content": "a"}})).collect();
        format!("data: {}\n\n", json!({"choices": choices}))
    };
    for index in [&|number| number, &|_| 0] as [&dyn Fn(usize) -> usize; 2] {
        assert_eq!(run(&redacting(), &[event(128, index), END.to_owned()]).0, Ok(()));
        for count in [2_500, 20_000] {
            let stopped = run(&redacting(), &[event(count, index)]).0;
            assert_eq!(stopped, Err(BlockedBy(PLACES_RULE.to_owned())), "{count}");
        }
    }
}

#[test]
fn a_text_that_begins_with_its_block_is_found_with_what_follows() {
    let written = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let address = "ann@example.com";
    // what is longer by one letter begins with an address
    for at in 1..address.len() - 1 {
        let (before, after) = address.split_at(at);
        let messages = [
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": before}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": after}}),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        let responses = [
            json!({"type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": before}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": after}),
            json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": address}),
        ];
        for (api, events) in [(Api::Messages, messages), (Api::Responses, responses)] {
            let sent = |action: Action| {
                let mut filter = StreamFilter::new(api, Arc::new(rules(action)), Arc::default(), Vec::new());
                let mut out = Vec::new();
                let mut events = events.iter().cloned().map(written);
                let ended = events.try_for_each(|event| filter.push(event.as_bytes(), &mut out));
                (ended.is_err(), String::from_utf8(out).unwrap())
            };
            let (is_blocked, out) = sent(Action::Block);
            assert!(is_blocked && !out.contains(&format!("\"{after}\"")), "{at}: {out}");
            let (_, out) = sent(Action::Redact);
            assert!(!out.contains(&format!("\"{after}\"")), "{at}: {out}");
        }
    }
}

/// Texts in which findings, JSON and signs of every kind stand beside each other.
fn texts() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(&[
        "ann@example.com",
        "4111 1111 1111 1111",
        "4111111111111111",
        "4111 1111 ",
        "1111 1111",
        "ann@",
        "example.com",
        "ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ",
        "４１１１１１１１１１１１１１１１",
        "\u{200b}",
        "\u{a0}",
        "\u{301}",
        "[EMAIL_1]",
        "[1]",
        "{\"a\":\"",
        "\",\"b\":",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ", ",
        " ",
        "\n",
        "it is",
        "é\u{1F600}",
    ]);
    let prose = prop::collection::vec(fragment.clone(), 1..8).prop_map(|parts| parts.concat());
    let leaf = prop_oneof![
        fragment.prop_map(Value::from),
        Just(json!(4_111_111_111_111_111_u64)),
        Just(json!(1.5)),
        Just(Value::Null)
    ];
    let json = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            ("[a-c]|ann@example\\.com", inner).prop_map(|(key, value)| json!({ key: value })),
        ]
    });
    let json = json.prop_filter("not the JSON of one value", |json| json.is_array() || json.is_object());
    prop_oneof![prose, json.prop_map(|json| json.to_string())]
}

#[test]
fn events_of_one_form_are_checked_as_if_each_were_read() {
    let event = |id: &str, delta: Value| {
        format!("data: {}\n\n", json!({"id": id, "choices": [{"index": 0, "delta": delta}]}))
    };
    let parts = [
        event("c1", json!({"role": "assistant", "content": ""})),
        event("c1", json!({"content": "Write to ann@"})),
        event("c1", json!({"content": "example.com or "})),
        event("bob@example.com", json!({"content": "call"})),
        event("bob@example.com", json!({"content": " me"})),
        event("c1", json!({"content": "."})),
        event("c1", json!({"content": " Now", "note": "ann@example.com"})),
        event("c1", json!({"content": " again", "note": "ann@example.com"})),
        event(
            "c1",
            json!({"content": "", "tool_calls": [{"index": 0, "id": "t", "function": {"arguments": "{}"}}]}),
        ),
        event("c1", json!({"content": " ends"})),
        END.to_owned(),
    ];
    for action in [Action::Redact, Action::Block, Action::Flag] {
        let checks = Arc::new(rules(action));
        let run = |keeps_form: bool| {
            let mut filter =
                StreamFilter::new(Api::ChatCompletions, checks.clone(), Arc::default(), Vec::new());
            let (mut out, mut forms) = (Vec::new(), 0);
            let ended = parts.iter().try_for_each(|part| {
                filter.form.take_if(|_| !keeps_form);
                forms += usize::from(filter.form.is_some());
                filter.push(part.as_bytes(), &mut out)
            });
            let ended = ended.and_then(|()| filter.finish(&mut out));
            (ended, String::from_utf8(out).unwrap(), filter.report().to_text(), forms)
        };
        let ((ended, sent, report, forms), read) = (run(true), run(false));
        assert!(forms > 0);
        assert_eq!((&ended, &sent, &report), (&read.0, &read.1, &read.2));
        if action == Action::Redact {
            assert!(!sent.contains("example.com"), "{sent}");
        }
    }
}

#[test]
fn an_unknown_field_is_checked_in_each_event_and_over_them() {
    let checks = redacting();
    for parts in [["4111111111111111"; 2], ["ann@exam", "ple.com"]] {
        let event = |part: &str| {
            format!(
                "data: {}\n\n",
                json!({"note": part, "choices": [{"index": 0, "delta": {"content": "a"}}]})
            )
        };
        let mut events: Vec<String> = parts.map(event).into();
        events.push(END.to_owned());
        let (ended, _, all) = run(&checks, &events);
        assert!(ended.is_ok() && !all.contains("1111") && !all.contains("ple.com"), "{all}");
        // beside a text it is sent in each event: what was sent before stays
        assert!(all.contains("[PAYMENT_CARD_1]") || all.contains("ann@exam"), "{all}");
    }
}

#[test]
fn a_character_that_is_cut_between_its_halves_comes_whole() {
    let chunk = |text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
    };
    let check = |texts: &[&str], expected: &str| {
        let mut events: Vec<String> = texts.iter().map(|text| chunk(text)).collect();
        events.push(END.to_owned());
        let (ended, text, _) = run(&redacting(), &events);
        assert_eq!((ended, text.as_str()), (Ok(()), expected), "{texts:?}");
    };
    check(&["hi \\ud83d", "\\ude00 4", "2 x"], "hi \u{1F600} 42 x");
    check(&["\\uD83D", "\\uDE00"], "\u{1F600}");
    check(&["a \\\\ud83d", "b"], "a \\ud83db");
    // a card in digits beyond the basic plane
    let digits = "4111111111111111".bytes().map(|digit| 0xDFCE + u16::from(digit - b'0'));
    let halves: Vec<String> = digits.flat_map(|low| ["\\ud835".to_owned(), format!("\\u{low:x}")]).collect();
    let mut halves: Vec<&str> = halves.iter().map(String::as_str).collect();
    halves.push(" x");
    check(&halves, "[PAYMENT_CARD_1] x");
}

#[test]
fn the_message_so_far_beside_a_piece_is_not_passed() {
    let event = |piece: &str, so_far: &str| {
        let choice = json!({"index": 0, "delta": {"content": piece}, "message": {"content": so_far}});
        format!("data: {}\n\n", json!({"choices": [choice]}))
    };
    let events = [event("ann@", "ann@"), event("example.com", "ann@example.com"), END.to_owned()];
    let (ended, text, all) = run(&redacting(), &events);
    assert!(ended.is_ok() && text == "[EMAIL_1]" && !all.contains("ann@"), "{all}");
}

#[test]
fn of_an_index_that_is_given_twice_the_last_one_is_read() {
    let event = |index: u8, text: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":{index},\"index\":1,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
        )
    };
    let (_, text, _) = run(&redacting(), &[event(0, "ann@exam"), event(2, "ple.com"), END.to_owned()]);
    assert_eq!(text, "[EMAIL_1]");
}

/// A text whose placeholders have no numbers: a stream can't leave out those that its rest has.
fn unnumbered(text: &str) -> String {
    (1..9).fold(text.to_owned(), |text, number| text.replace(&format!("_{number}]"), "_]"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// An answer in pieces is filtered as the whole answer is.
    #[test]
    fn an_answer_is_redacted_as_if_it_came_whole(
        text in texts(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let letters: Vec<char> = text.chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(letters.len() + 1)).collect();
        cuts.extend([0, letters.len()]);
        cuts.sort_unstable();
        let pieces: Vec<String> = cuts.windows(2).map(|cut| letters[cut[0]..cut[1]].iter().collect()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let whole = json!({"choices": [{"message": {"content": text}}]}).to_string().into();
        let checks = redacting();
        let whole = checks.check_output(Api::ChatCompletions, whole, &[], &Placeholders::new(), &mut Report::default()).unwrap();
        let whole: Value = serde_json::from_slice(&whole).unwrap();
        let whole = whole["choices"][0]["message"]["content"].as_str().unwrap();
        prop_assert_eq!(unnumbered(&answer(&checks, &pieces)), unnumbered(whole));
    }
}
