//! Where texts end, and seem to end.

use super::*;

#[test]
fn an_empty_reason_to_finish_ends_no_text() {
    for reason in [json!(""), json!(null), json!(false), json!(0), json!({})] {
        let chunk = |text: &str| {
            let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": reason});
            format!("data: {}\n\n", json!({"choices": [choice]}))
        };
        let mut events: Vec<String> = ["4111", " 1111", " 1111", " 1111", " x"].map(chunk).into();
        events.push(END.to_owned());
        let (ended, text, _) = run(&redacting(), &events);
        assert_eq!((ended, text.as_str()), (Ok(()), "[PAYMENT_CARD_1] x"), "{reason}");
    }
}

#[test]
fn a_finding_over_more_than_two_texts_is_found() {
    let chunk = |text: &str| {
        let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
        format!("data: {}\n\n", json!({"choices": [choice]}))
    };
    let block = |number: usize, text: &str| {
        let start = json!({"type": "content_block_start", "index": number, "content_block": {"type": "text", "text": ""}});
        let delta = json!({"type": "content_block_delta", "index": number, "delta": {"type": "text_delta", "text": text}});
        let stop = json!({"type": "content_block_stop", "index": number});
        [start, delta, stop]
            .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap()))
            .concat()
    };
    for texts in [
        &["4111 ", "1111 ", "1111 ", "1111 x"][..],
        &["ann", "@exam", "ple.com", " x"],
        &["ann@", "", "example.com "],
    ] {
        for action in [Action::Block, Action::Redact] {
            let checks = Arc::new(rules(action));
            for api in [Api::ChatCompletions, Api::Messages] {
                let mut filter = StreamFilter::new(api, checks.clone(), Arc::default(), Vec::new());
                let mut out = Vec::new();
                let ended = texts.iter().enumerate().try_for_each(|(number, text)| {
                    let event = if api == Api::Messages { block(number, text) } else { chunk(text) };
                    filter.push(event.as_bytes(), &mut out)
                });
                let ended = ended.and_then(|()| filter.finish(&mut out));
                assert_eq!(ended.is_err(), action == Action::Block, "{texts:?} {api:?}");
                let count = filter.report().iter().map(|found| found.count).sum::<u64>();
                assert_eq!(count, 1, "{texts:?} {api:?} {action:?}");
            }
        }
    }
}

#[test]
fn a_text_that_goes_on_after_its_end_is_checked_with_what_was_sent() {
    let texts = [
        r#"{"to":"ann@example.com","n":1}"#,
        r#"{"to":"ann\u0040example.com"}"#,
        r#"{"card":4111111111111111}"#,
        "Write to ann@example.com now",
    ];
    for (name, text) in ["arguments", "content", "reasoning", "refusal"]
        .iter()
        .flat_map(|name| texts.map(|text| (name, text)))
    {
        let chunk = |piece: &str, reason: Option<&str>| {
            let delta = match *name {
                "arguments" => json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
                name => json!({ name: piece }),
            };
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            format!("data: {}\n\n", json!({"choices": [choice]}))
        };
        for (at, _) in text.char_indices().skip(1) {
            let pieces = [&text[..at], &text[at..]];
            let mut events: Vec<String> = pieces.map(|piece| chunk(piece, Some("stop"))).into();
            events.push(END.to_owned());
            let (ended, _, sent) = run(&redacting(), &events);
            assert!(
                ended.is_ok() && !pieces.iter().all(|piece| sent.contains(&Value::from(*piece).to_string())),
                "{name} {at}: {sent}"
            );
            let (ended, _, sent) = run(&Arc::new(rules(Action::Block)), &events);
            assert!(ended.is_err(), "{name} {at}: {sent}");
        }
        // without a finding, nothing is lost
        let text = text.replace("ann", "").replace("4111", "");
        let events: Vec<String> = text
            .char_indices()
            .map(|(at, letter)| chunk(&text[at..at + letter.len_utf8()], Some("stop")))
            .collect();
        let (ended, _, sent) = run(&redacting(), &events);
        let field = format!("\"{}\":\"", name);
        let all: String = sent
            .split(&field)
            .skip(1)
            .map(|rest| {
                let end = rest
                    .char_indices()
                    .find(|(at, letter)| *letter == '"' && !rest[..*at].ends_with('\\'))
                    .unwrap()
                    .0;
                serde_json::from_str::<String>(&format!("\"{}\"", &rest[..end])).unwrap()
            })
            .collect();
        assert_eq!((ended, all), (Ok(()), text), "{sent}");
    }
}

#[test]
fn the_text_of_the_event_that_ends_it_is_sent_once() {
    for text in ["@", ".", "1", "a", "{}"] {
        let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
        let event = format!("data: {}\n\n", json!({"choices": [choice]}));
        let (ended, sent, all) = run(&redacting(), &[chat("Yes "), event]);
        assert_eq!((ended, sent), (Ok(()), format!("Yes {text}")), "{all}");
    }
}
