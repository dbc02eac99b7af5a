//! Texts that only their reader takes for one: keys with their values, and what comes in several events.

use super::*;

/// The filtered events of a stream, by their data.
fn streamed(api: Api, checks: Checks, events: &[Value]) -> Result<Vec<Value>, BlockedBy> {
    let mut filter = StreamFilter::new(api, Arc::new(checks), Arc::default(), Vec::new());
    let mut out = Vec::new();
    for event in events {
        filter.push(format!("data: {event}\n\n").as_bytes(), &mut out)?;
    }
    filter.finish(&mut out)?;
    let sent = String::from_utf8(out).unwrap();
    let data = sent.lines().filter_map(|line| line.strip_prefix("data: "));
    Ok(data.map(|data| serde_json::from_str(data).unwrap()).collect())
}

/// The texts at a place of all events, as a client appends them.
fn appended(events: &[Value], place: &str) -> String {
    events.iter().filter_map(|event| event.pointer(place)?.as_str()).collect()
}

#[test]
fn an_object_is_checked_as_one_text_wherever_it_stands() {
    for (before, after) in [
        (r#"{"phone":5551234567}"#, r#"{"phone":"[PHONE_1]"}"#),
        (r#"{"a":{"phone":"5551234567"},"n":[1,2]}"#, r#"{"a":{"phone":"[PHONE_1]"},"n":[1,2]}"#),
        (r#"{"project":"x","role":"user"}"#, r#"{"[ID-WORDS_1]":"[ID-WORDS_2]","role":"user"}"#),
    ] {
        for form in [
            r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":?}]}]}"#,
            r#"{"metadata":?}"#,
            r#"{"choices":[{"message":{"content":"a","parsed":?}}]}"#,
            r#"{"zz":[?]}"#,
        ] {
            check(&form.replace('?', before), &form.replace('?', after));
        }
    }
    check(
        r#"{"messages":[{"content":"a","phone":5551234567}]}"#,
        r#"{"messages":[{"content":"a","phone":"[PHONE_1]"}]}"#,
    );
    let score = r#"{"score":0.5392234688708106,"zz":{"call":[0.5551234567]}}"#;
    check(score, score);
    check(r#"{"zz":{"index":12,"created":1700000000}}"#, r#"{"zz":{"index":12,"created":1700000000}}"#);
}

#[test]
fn an_object_in_an_event_is_checked_as_one_text() {
    let start = |input: Value| {
        let block = json!({"type": "tool_use", "id": "t", "name": "f", "input": input});
        json!({"type": "content_block_start", "index": 0, "content_block": block})
    };
    let events = [start(json!({"phone": 5551234567_u64, "a": "b"})), start(json!({"phone": "5551234567"}))];
    let sent = streamed(Api::Messages, checks(Action::Redact), &events).unwrap();
    assert_eq!(sent[0]["content_block"]["input"], json!({"phone": "[PHONE_1]", "a": "b"}));
    assert_eq!(sent[1]["content_block"]["input"]["phone"], "[PHONE_1]");
    assert!(streamed(Api::Messages, checks(Action::Block), &events).is_err());
    // in pieces, of which each event has a whole value
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    for value in [json!(5551234567_u64), json!("5551234567")] {
        let call = json!({"index": 0, "function": {"name": "f", "arguments": {"a": "b", "phone": value}}});
        let events = [
            chunk(json!({"phone": "a"})),
            chunk(json!({"phone": value})),
            chunk(json!({"tool_calls": [call]})),
        ];
        let sent = streamed(Api::ChatCompletions, checks(Action::Redact), &events).unwrap();
        let text = json!(sent).to_string();
        assert!(!text.contains("5551234567") && text.contains("[PHONE_1]"), "{text}");
    }
}

#[test]
fn names_in_several_events_are_checked_together_beside_findings_of_their_own() {
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    type Form = fn(&str) -> Value;
    let forms: [(Form, &str); 4] = [
        (
            |name| json!({"tool_calls": [{"index": 0, "function": {"name": name}}]}),
            "tool_calls/0/function/name",
        ),
        (|name| json!({"tool_calls": [{"index": 0, "id": name}]}), "tool_calls/0/id"),
        (|name| json!({"function_call": {"name": name}}), "function_call/name"),
        (|name| json!({"tool_calls": [{"index": 0, "call_id": name}]}), "tool_calls/0/call_id"),
    ];
    for (form, place) in forms {
        for mode in [StreamMode::Window, StreamMode::Buffer] {
            let events = ["ann@exam", "ple.com 4111111111111111", ".x"].map(|name| chunk(form(name)));
            let sent =
                streamed(Api::ChatCompletions, Checks { mode, ..checks(Action::Redact) }, &events).unwrap();
            let name = appended(&sent, &format!("/choices/0/delta/{place}"));
            assert_eq!(name, "ann@exam [PAYMENT_CARD_1].x", "{place}");
        }
    }
}

/// The events of an answer in two parts, of which each comes in one piece and is repeated when it has ended.
fn parts_of_response(texts: [&str; 2]) -> Vec<Value> {
    let mut events = Vec::new();
    for (part, text) in texts.into_iter().enumerate() {
        let event = |kind: &str, field: &str, value: Value| json!({"type": format!("response.{kind}"), "output_index": 0, "content_index": part, field: value});
        events.push(event("output_text.delta", "delta", json!(text)));
        events.push(event("output_text.done", "text", json!(text)));
        events.push(event("content_part.done", "part", json!({"type": "output_text", "text": text})));
    }
    let parts = texts.map(|text| json!({"type": "output_text", "text": text}));
    let item = json!({"type": "message", "content": parts});
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
    events.push(json!({"type": "response.completed", "response": {"output": [item]}}));
    events
}

#[test]
fn what_repeats_a_part_lacks_what_began_in_the_part_before() {
    let events = parts_of_response(["card 4111 1111", " 1111 1111 y"]);
    let sent = streamed(Api::Responses, checks(Action::Redact), &events).unwrap();
    let of = |kind: &str, place: &str| -> Vec<String> {
        let events = sent.iter().filter(|event| event["type"] == format!("response.{kind}"));
        events.filter_map(|event| Some(event.pointer(place)?.as_str()?.to_owned())).collect()
    };
    assert_eq!(of("output_text.delta", "/delta").concat(), "card 4111 1111 y");
    assert_eq!(of("output_text.done", "/text"), ["card 4111 1111", " y"]);
    assert_eq!(of("content_part.done", "/part/text"), ["card 4111 1111", " y"]);
    assert_eq!(of("output_item.done", "/item/content/1/text"), [" y"]);
    assert!(streamed(Api::Responses, checks(Action::Block), &events).is_err());
    let clean = parts_of_response(["a, ", "b, "]);
    assert_eq!(streamed(Api::Responses, checks(Action::Redact), &clean).unwrap(), clean);
}

#[test]
fn pieces_of_different_parts_or_items_are_joined_without_events_between() {
    for place in ["content_index", "output_index"] {
        let delta = |at: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, place: at, "delta": text});
        let events = [delta(0, "x ann@exam"), delta(1, "ple.com y"), json!({"type": "response.completed"})];
        let sent = streamed(Api::Responses, checks(Action::Redact), &events).unwrap();
        assert!(!appended(&sent, "/delta").contains("ple.com"), "{sent:?}");
        assert!(streamed(Api::Responses, checks(Action::Block), &events).is_err());
    }
}

#[test]
fn texts_at_one_place_of_unknown_events_are_joined() {
    let zz = |text: &str| json!({"type": "zz_event", "index": 0, "foo": text});
    let nested = |text: &str| json!({"type": "zz_event", "foo": [{"bar": text}]});
    let chat = |text: &str| json!({"choices": [{"index": "0", "delta": {"content": text}}]});
    let without_index = |text: &str| json!({"choices": [{"delta": {"content": text}}]});
    type Form<'a> = &'a dyn Fn(&str) -> Value;
    let forms: [(Form<'_>, &str); 4] = [
        (&zz, "/foo"),
        (&nested, "/foo/0/bar"),
        (&chat, "/choices/0/delta/content"),
        (&without_index, "/choices/0/delta/content"),
    ];
    for api in [Api::Messages, Api::Responses, Api::ChatCompletions] {
        for (form, place) in forms {
            let events = [form("mail ann@exam"), form("ple.com now")];
            let sent = streamed(api, checks(Action::Redact), &events).unwrap();
            assert_eq!(appended(&sent, place), "mail [EMAIL_1] now", "{api:?} {sent:?}");
            assert!(streamed(api, checks(Action::Block), &events).is_err(), "{api:?} {events:?}");
        }
    }
}

#[test]
fn unknown_events_without_findings_stay_as_they_are() {
    let event = |named: &str, more: &str| format!("event: {named}\ndata: {{\"type\":\"{named}\"{more}}}\n\n");
    let stream = |api: Api, named: &str| {
        let (first, last) = if api == Api::Messages {
            ("message_start", "message_stop")
        } else {
            ("response.created", "response.completed")
        };
        [event(first, ""), event(named, ",\"foo\":\"bar\""), event(last, "")].concat()
    };
    let sent = |api: Api, events: &str| {
        let mut filter = StreamFilter::new(api, Arc::new(checks(Action::Redact)), Arc::default(), Vec::new());
        let mut out = Vec::new();
        filter.push(events.as_bytes(), &mut out).unwrap();
        filter.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    for api in [Api::Messages, Api::Responses] {
        assert_eq!(sent(api, &stream(api, "zz_event")), stream(api, "zz_event"));
        let found = sent(api, &stream(api, "ann@example.com"));
        assert!(!found.contains("ann@") && found.contains("data: {\"type\":\"[EMAIL_1]\""), "{found}");
    }
    let parts = sent(Api::Messages, "event: ann@exam\ndata: {}\n\nevent: ple.com\ndata: {}\n\n");
    assert_eq!(parts, "event: ann@exam\ndata: {}\n\ndata: {}\n\n");
}

/// The filtered whole reply.
fn replied(api: Api, reply: &Value) -> Value {
    let body = Bytes::from(reply.to_string());
    let sent =
        checks(Action::Redact).check_output(api, body, &[], &Placeholders::new(), &mut Report::default());
    serde_json::from_slice(&sent.unwrap()).unwrap()
}

#[test]
fn lists_of_tokens_are_removed_from_replies() {
    let token = |token: &str| json!({"token": token, "content": token, "tok_str": token});
    let tokens = ["mail ", "ann@", "exam", "ple.com"];
    for (before, after) in [
        (json!({"completion_probabilities": tokens.map(token)}), json!({"completion_probabilities": []})),
        (json!({"zz": {"tokens": tokens}}), json!({"zz": {"tokens": []}})),
        (json!({"zz": tokens.map(token)}), json!({"zz": []})),
        (
            json!({"choices": [{"message": {"embedding": [4111111111111111_u64]}}]}),
            json!({"choices": [{"message": {"embedding": []}}]}),
        ),
    ] {
        assert_eq!(replied(Api::ChatCompletions, &before), after);
        let sent =
            streamed(Api::ChatCompletions, checks(Action::Redact), std::slice::from_ref(&before)).unwrap();
        assert_eq!(sent, [after]);
    }
    let numbers = json!({"data": [{"embedding": [1, 0.5]}]});
    assert_eq!(replied(Api::Embeddings, &numbers), numbers);
}

#[test]
fn lists_of_short_strings_in_unknown_fields_are_checked_as_one_text() {
    for (before, after) in [
        (r#"["mail ","ann@","exam","ple.com"," now"]"#, r#"["mail ","[EMAIL_1]","",""," now"]"#),
        (r#"["call","555","123","4567"]"#, r#"["call","[PHONE_1]","",""]"#),
        (r#"["project","y"]"#, r#"["project","y"]"#),
    ] {
        for form in [r#"{"zz":?}"#, r#"{"zz":{"pieces":?}}"#] {
            check(&form.replace('?', before), &form.replace('?', after));
        }
    }
    let texts = r#"{"prompt":["call","555","123","4567"]}"#;
    check(texts, texts);
}

#[test]
fn texts_that_the_gateway_joins_are_checked_together() {
    let [first, second] = ["card 4111 1111", " 1111 1111 y"];
    let [after, rest] = ["card [PAYMENT_CARD_1]", " y"];
    let message = |role: &str, content: Value| json!({"role": role, "content": content});
    let part = |text: &str| json!([{"type": "text", "text": text}]);
    type Form<'a> = &'a dyn Fn(&str, &str) -> Value;
    let messages: Form<'_> =
        &|a, b| json!({"messages": [message("system", json!(a)), message("developer", json!(b))]});
    let lists: Form<'_> = &|a, b| json!({"messages": [message("system", part(a)), message("user", json!("q")), message("system", part(b))]});
    let refusal: Form<'_> = &|a, b| json!({"messages": [{"role": "assistant", "content": a, "refusal": b}]});
    let parts: Form<'_> = &|a, b| json!({"messages": [{"role": "assistant", "content": [{"type": "text", "text": a}, {"type": "refusal", "refusal": b}]}]});
    let title: Form<'_> = &|a, b| json!({"content": [{"type": "document", "title": a, "source": {"type": "text", "media_type": "text/plain", "data": b}}]});
    let behind: Form<'_> = &|a, b| json!({"content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": a}}, {"type": "text", "text": b}]});
    let found: Form<'_> = &|a, b| json!({"content": [{"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": a}]}, {"type": "text", "text": b}]});
    for form in [messages, lists, refusal, parts, title, behind, found] {
        check(&form(first, second).to_string(), &form(after, rest).to_string());
    }
    let users =
        json!({"messages": [message("user", json!(first)), message("user", json!(second))]}).to_string();
    check(&users, &users);
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let events = [delta(json!({"content": first})), delta(json!({"refusal": second}))];
    let sent = streamed(Api::ChatCompletions, checks(Action::Redact), &events).unwrap();
    assert!(!json!(sent).to_string().contains(second), "{sent:?}");
    assert!(streamed(Api::ChatCompletions, checks(Action::Block), &events).is_err());
}
