//! Quirks by flag and by header, and shapes that a gateway's tests cannot tell apart.

use crate::support::{CHAT, CHAT_BODY, CHAT_STREAM, start};
use serde_json::{Value, json};

const CALL: &str = r#"{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"call the tool"}]}"#;

#[test]
fn flags_are_repeatable_and_a_header_replaces_them() {
    let mock = start(&["--tokens", "2", "--quirk", "reasoning", "--quirk", "usage-kimi,usage-xai"]);
    let reply = |quirk: Option<&str>| {
        let headers = quirk.map(|quirk| ("x-mock-quirk", quirk));
        mock.post(CHAT, headers.as_slice(), CHAT_BODY).json()
    };
    let (flags, header, none) = (reply(None), reply(Some("reasoning-content")), reply(Some("none")));
    assert_eq!(flags["choices"][0]["message"]["reasoning"], "because");
    assert_eq!(
        flags["usage"],
        json!({"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 8,
            "completion_tokens_details": {"reasoning_tokens": 2}, "cached_tokens": 2})
    );
    assert_eq!(
        header["choices"][0]["message"],
        json!({"role": "assistant", "content": "t000001 t000002", "refusal": null, "reasoning_content": "because"})
    );
    assert_eq!(none["usage"], json!({"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}));
    let wrong = mock.post(CHAT, &[("x-mock-quirk", "bum")], CHAT_BODY);
    assert!(wrong.status == 400 && wrong.text().contains("usage-in-choice"), "{}", wrong.text());
}

#[test]
fn calls_have_their_parts_and_indexes() {
    let mock = start(&["--tokens", "1"]);
    let calls = |quirk: &str| -> Vec<Value> {
        let events = mock.post(CHAT, &[("x-mock-quirk", quirk)], CALL).events();
        let events = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
        let calls = events.map(|event| event["choices"][0]["delta"]["tool_calls"].clone());
        calls
            .filter_map(|calls| calls.as_array().cloned())
            .flatten()
            .map(|call| json!([call["index"], call["id"], call["function"]["arguments"]]))
            .collect()
    };
    let whole = r#"{"text":"t000001"}"#;
    assert_eq!(calls("none").len(), 4);
    assert_eq!(calls("calls-same-index"), [json!([0, "call_2", whole]), json!([0, "call_2_2", whole])]);
    assert_eq!(
        calls("calls-without-index"),
        [json!([null, "call_3", whole]), json!([null, "call_3_2", whole])]
    );
    let interleaved = calls("calls-interleaved");
    assert_eq!(interleaved.iter().map(|call| call[0].clone()).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1]);
    let arguments = |index: usize| {
        let parts = interleaved.iter().skip(index).step_by(2);
        parts.map(|call| call[2].as_str().unwrap()).collect::<String>()
    };
    assert_eq!([arguments(0), arguments(1)], [whole, whole]);
}

#[test]
fn the_framing_of_a_stream_is_changed_and_its_events_are_not() {
    let mock = start(&["--tokens", "2"]);
    let plain = start(&["--tokens", "2"]).post(CHAT, &[], CHAT_STREAM);
    let stream = |quirks: &str| {
        mock.post("/mock/reset", &[], "");
        mock.post(CHAT, &[("x-mock-quirk", quirks)], CHAT_STREAM).text().to_owned()
    };
    assert_eq!(stream("bom"), format!("\u{FEFF}{}", plain.text()));
    assert_eq!(
        stream("comments-first,bom"),
        format!("\u{FEFF}{}{}", ": OPENROUTER PROCESSING\n\n".repeat(4), plain.text())
    );
    let lines = stream("data-lines");
    assert_eq!(lines.replace("data: {\ndata: ", "data: {"), plain.text());
    assert_eq!(lines.matches("data: {\ndata: ").count(), plain.events().len() - 1);
}

#[test]
fn an_error_first_is_the_whole_stream() {
    let mock = start(&[]);
    let events = |quirk: &str| mock.post(CHAT, &[("x-mock-quirk", quirk)], CHAT_STREAM).events();
    assert_eq!(events("error-first").len(), 1);
    let openrouter = events("error-first,openrouter-error");
    assert!(openrouter.len() == 2 && openrouter[0].contains(r#""finish_reason":"error""#), "{openrouter:?}");
    let body = CHAT_STREAM.replace("messages", "input");
    let failed = mock.post("/v1/responses", &[("x-mock-quirk", "error-first,response-failed")], &body);
    assert_eq!(failed.text().matches("event: response.").count(), 2);
    assert!(
        failed.text().contains(r#""status":"failed","error":{"code":"server_error""#),
        "{}",
        failed.text()
    );
}
