use serde_json::{Value, json};

use super::*;
use crate::{Detect, Rule, RuleSet};

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
