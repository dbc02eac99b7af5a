//! Whole requests and replies after guardrails.

mod joined;
mod restored;

use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use serde_json::{Value, json};
use weir_translate::conversation::Api;

use super::file::BASE64;
use super::{BlockedBy, Checks, Direction, Refused, Report, StreamFilter, StreamMode};
use crate::{Action, Detect, Placeholders, Rule, RuleSet};

/// Rules for personal data, the words `project x` and a pattern, in both directions.
fn checks(action: Action) -> Checks {
    let rule = |name: &str, detect: Detect| Rule { name: name.to_owned(), detect, action };
    let rules = [
        rule("email", Detect::Email),
        rule("payment_card", Detect::PaymentCard),
        rule("phone", Detect::Phone),
        rule("id-words", Detect::Words(vec!["project x".to_owned()])),
        rule("id", Detect::Pattern(r"EMP-\S+".to_owned())),
    ];
    let set = Some(Arc::new(RuleSet::compile(&rules).unwrap()));
    Checks { input: set.clone(), output: set, restores: true, mode: StreamMode::Window, window_bytes: 1_000 }
}

/// Compares what is sent of a request. One of which something is redacted is refused where the rules block.
#[track_caller]
fn check(body: &str, expected: &str) {
    let sent = |action: Action| {
        let body = Bytes::copy_from_slice(body.as_bytes());
        checks(action).check_input(&body, &[], &mut Placeholders::new(), &mut Report::default())
    };
    let redacted = sent(Action::Redact).unwrap();
    assert_eq!(String::from_utf8_lossy(&redacted), expected);
    assert_eq!(sent(Action::Block).is_err(), body != expected, "{body}");
}

/// The same for the arguments of a tool, of which `body` has the JSON.
#[track_caller]
fn check_arguments(arguments: &str, expected: &str) {
    let body = |arguments: &str| {
        let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
        json!({"messages": [{"role": "assistant", "tool_calls": [call]}]}).to_string()
    };
    check(&body(arguments), &body(expected));
    assert!(serde_json::from_str::<Value>(expected).is_ok(), "{expected}");
}

#[test]
fn what_only_json_as_a_whole_shows_is_replaced_in_its_values() {
    check_arguments(r#"{"phone":5551234567}"#, r#"{"phone":"[PHONE_1]"}"#);
    check_arguments(r#"{"phone": "5551234567 "}"#, r#"{"phone": "[PHONE_1] "}"#);
    check_arguments(
        r#"{"phone":5551234567,"mail":"ann@example.com"}"#,
        r#"{"phone":"[PHONE_1]","mail":"[EMAIL_1]"}"#,
    );
    check_arguments(r#"{"phone":"5551234567 or ann@example.com"}"#, r#"{"phone":"[PHONE_1] or [EMAIL_1]"}"#);
    check_arguments(r#"{"project":"x"}"#, r#"{"[ID-WORDS_1]":"[ID-WORDS_2]"}"#);
    check_arguments(r#"{"\u0070roject":"x","y":1}"#, r#"{"[ID-WORDS_1]":"[ID-WORDS_2]","y":1}"#);
    check_arguments(r#"{"a":"{\"phone\":\"555\\u0031234567\"}"}"#, r#"{"a":"{\"phone\":\"[PHONE_1]\"}"}"#);
    check_arguments(r#"{"id":"EMP-1","n":1}"#, r#"{"id":"[ID_1]","n":1}"#);
    let clean = r#" { "a" : [true, 1.50, "\u00e9"], "b": "[{\"c\": null}]" } "#;
    check_arguments(clean, clean);
}

#[test]
fn a_finding_between_values_of_json_is_refused() {
    let pattern = Detect::Pattern(r"\}\]".to_owned());
    let rules = [Rule { name: "end".to_owned(), detect: pattern, action: Action::Redact }];
    let output = Some(Arc::new(RuleSet::compile(&rules).unwrap()));
    let checks =
        Checks { input: None, output, restores: false, mode: StreamMode::Window, window_bytes: 1_000 };
    let text = r#"[{"a":1}]"#;
    let body = Bytes::from(json!({ "arguments": text }).to_string());
    let refused =
        checks.check_output(Api::ChatCompletions, body, &[], &Placeholders::new(), &mut Report::default());
    assert_eq!(refused, Err(Refused::Blocked { direction: Direction::Output, rule: "end".to_owned() }));
    let event = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let mut filter = StreamFilter::new(Api::ChatCompletions, Arc::new(checks), Arc::default(), Vec::new());
    let mut out = Vec::new();
    let pushed = filter.push(format!("data: {event}\n\n").as_bytes(), &mut out);
    assert_eq!(pushed.and_then(|()| filter.finish(&mut out)), Err(BlockedBy("end".to_owned())));
}

#[test]
fn escapes_are_read_in_a_reply_that_is_not_one_document_of_json() {
    let text = r#"{"error":{"message":"mail ann\u0040example.com"}}"#;
    let redacted = text.replace(r"ann\u0040example.com", "[EMAIL_1]");
    for (before, after) in [("\u{feff}", ""), ("", r#"{"a":1}"#), ("", "\nand more"), ("so: ", "")] {
        let body = Bytes::from(format!("{before}{text}{after}"));
        let sent = |action: Action| {
            checks(action).check_output(
                Api::ChatCompletions,
                body.clone(),
                &[],
                &Placeholders::new(),
                &mut Report::default(),
            )
        };
        let before = before.trim_start_matches('\u{feff}');
        assert_eq!(sent(Action::Redact), Ok(Bytes::from(format!("{before}{redacted}{after}"))));
        assert!(sent(Action::Block).is_err(), "{body:?}");
    }
    let tokens = Bytes::from("\u{feff}{\"prompt\":[1,2]}");
    let sent =
        checks(Action::Redact).check_input(&tokens, &[], &mut Placeholders::new(), &mut Report::default());
    assert_eq!(sent, Err(Refused::Tokens { field: "prompt" }));
}

/// Compares what the caller gets of a reply to a prompt that had `ann@example.com`.
#[track_caller]
fn check_restored(body: &Value, expected: &Value) {
    let checks = checks(Action::Redact);
    let mut placeholders = Placeholders::new();
    let prompt = Bytes::from_static(br#"{"prompt":"ann@example.com"}"#);
    checks.check_input(&prompt, &[], &mut placeholders, &mut Report::default()).unwrap();
    let body = Bytes::from(body.to_string());
    let sent =
        checks.check_output(Api::ChatCompletions, body, &[], &placeholders, &mut Report::default()).unwrap();
    assert_eq!(String::from_utf8_lossy(&sent), expected.to_string());
}

#[test]
fn a_value_is_restored_in_no_address_however_it_is_escaped() {
    let body = |mail: &str| json!({"arguments": format!(r#"{{"to":"{mail}","url":"a"}}"#)});
    check_restored(&body("[EMAIL_1]"), &body("ann@example.com"));
    for text in [
        r"https\u003a\u002f\u002fevil.example\u002f?q=[EMAIL_1]",
        r"https:\u002f\u002fevil.example\/?q=[EMAIL_1]",
        r"https\\u003a\\u002f\\u002fevil.example?q=[EMAIL_1]",
    ] {
        for body in [json!({"arguments": format!(r#"{{"url":"{text}"}}"#)}), json!({ "content": text })] {
            check_restored(&body, &body);
        }
    }
}

#[test]
fn a_text_that_looks_like_the_url_of_a_file_is_checked() {
    check(
        r#"{"messages":[{"role":"user","content":"data: my card is 4111 1111 1111 1111, ann@example.com;base64,"}]}"#,
        r#"{"messages":[{"role":"user","content":"data: my card is [PAYMENT_CARD_1], [EMAIL_1];base64,"}]}"#,
    );
    check(
        r#"{"content":[{"text":"data:;base64,aaa/4111"},{"text":" 1111 1111 1111"}]}"#,
        r#"{"content":[{"text":"data:;base64,aaa/[PAYMENT_CARD_1]"},{"text":""}]}"#,
    );
    for base64 in ["4111111111111111", "4111111111111111 is it"] {
        for media_type in ["text/plain", ""] {
            let body = format!(r#"{{"content":"data:{media_type};base64,{base64}"}}"#);
            check(&body, &body.replace("4111111111111111", "[PAYMENT_CARD_1]"));
        }
    }
}

#[test]
fn what_stands_before_a_file_is_checked() {
    check(
        r#"{"file_data":"data:text/plain;name=ann@example.com;base64,YQ=="}"#,
        r#"{"file_data":"data:text/plain;name=[EMAIL_1];base64,YQ=="}"#,
    );
    check(
        r#"{"url":"data:text/4111111111111111;base64,YQ=="}"#,
        r#"{"url":"data:text/[PAYMENT_CARD_1];base64,YQ=="}"#,
    );
    check(
        r#"{"url":"DATA:text/plain;BASE64,YW5uQGV4YW1wbGUuY29t"}"#,
        r#"{"url":"DATA:text/plain;BASE64,W0VNQUlMXzFd"}"#,
    );
    for url in ["data:image/png;base64,YQ==", "data:application/x-new;name=a.b;base64,YQ==", "data:,a"] {
        let body = format!(r#"{{"url":"{url}"}}"#);
        check(&body, &body);
    }
}

/// The same for a file with these bytes, which can't be changed: with a finding it is refused.
#[track_caller]
fn check_refused(file: &[u8], is_refused: bool) {
    let encoded = BASE64.encode(file);
    for body in [
        json!({"file_data": format!("data:text/plain;base64,{encoded}")}),
        json!({"variables": {"file": {"type": "input_file", "file_data": encoded}}}),
        json!({"arguments": json!({"file": {"data": encoded}}).to_string()}),
    ] {
        let body = Bytes::from(body.to_string());
        let sent =
            checks(Action::Redact).check_input(&body, &[], &mut Placeholders::new(), &mut Report::default());
        let rule = "payment_card".to_owned();
        let refused = Err(Refused::Blocked { direction: Direction::Input, rule });
        let expected = if is_refused { refused } else { Ok(body.clone()) };
        assert_eq!(sent, expected, "{}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn a_text_in_any_encoding_is_refused_with_a_finding_in_it() {
    let text = "Please pay by the card 4111 1111 1111 1111, which is mine, until Monday.";
    let utf16: Vec<u16> = text.encode_utf16().collect();
    let little: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    for file in [
        [text.as_bytes(), b"\xff"].concat(),
        [b"\xe9t\xe9: ", text.as_bytes()].concat(),
        [b"\xff\xfe", &*little].concat(),
        [b"\xfe\xff", &*big].concat(),
    ] {
        check_refused(&file, true);
    }
    check_refused(b"Nothing is in this text of another time, but caf\xe9 and more than that.", false);
    let image: Vec<u8> = [b"\x89PNG", "4111 1111 1111 1111".as_bytes(), &[0x80_u8; 90]].concat();
    let body = format!(r#"{{"url":"data:image/png;base64,{}"}}"#, BASE64.encode(image));
    check(&body, &body);
}

#[test]
fn files_in_data_are_checked() {
    let (before, after) = (BASE64.encode("4111111111111111"), BASE64.encode("[PAYMENT_CARD_1]"));
    for form in [
        r#"{"variables":{"f":{"type":"input_file","file_data":"data:text/plain;base64,?"}}}"#,
        r#"{"metadata":{"data":"?"}}"#,
        r#"{"content":[{"type":"tool_use","input":{"source":{"type":"text","data":"?"}}}]}"#,
        r#"{"arguments":"{\"any\":[\"data:text/plain;base64,?\"],\"file_data\":[\"?\"]}"}"#,
    ] {
        check(&form.replace('?', &before), &form.replace('?', &after));
    }
}
