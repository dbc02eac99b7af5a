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
