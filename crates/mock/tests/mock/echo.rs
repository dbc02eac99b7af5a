//! Replies that repeat the prompt, in every shape.

use crate::support::{CHAT, Mock, start};
use serde_json::{Value, json};

/// White space and characters that JSON escapes.
const QUESTION: &str = "what \"is\"\n  a\tweir\\ é?";
const PIECES: [&str; 7] = ["what ", "\"is\"\n", " ", " ", "a\t", "weir\\ ", "é?"];

fn chat() -> Value {
    json!({"model": "m", "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": null},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "data:"}}]},
    ]})
}

fn messages() -> Value {
    json!({"model": "m", "max_tokens": 100, "system": "be brief", "messages": [
        {"role": "user", "content": "hello"}, {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]})
}

fn generate() -> Value {
    json!({"systemInstruction": {"parts": [{"text": "be brief"}]}, "contents": [
        {"role": "user", "parts": [{"text": "hello"}]}, {"role": "user", "parts": [{"text": QUESTION}]},
    ]})
}

/// Checks the pieces of a stream and the text of a whole reply.
#[track_caller]
fn check(path: (&str, &str), body: &Value, whole: &str, piece: &str) {
    let mock = start(&["--echo", "last"]);
    let ask = |path: &str, stream: bool| {
        let mut body = body.clone();
        if stream && !path.contains("alt=sse") {
            body["stream"] = json!(true);
        }
        mock.post(path, &[], &body.to_string())
    };
    assert_eq!(ask(path.0, false).json().pointer(whole), Some(&json!(QUESTION)));
    let events = ask(path.1, true).events();
    let pieces: Vec<String> = events
        .iter()
        .filter_map(|event| {
            serde_json::from_str::<Value>(event).ok()?.pointer(piece)?.as_str().map(str::to_owned)
        })
        .filter(|piece| !piece.is_empty())
        .collect();
    assert_eq!(pieces, PIECES);
}

#[test]
fn every_shape_repeats_the_last_user_message_in_pieces() {
    check((CHAT, CHAT), &chat(), "/choices/0/message/content", "/choices/0/delta/content");
    check(("/v1/messages", "/v1/messages"), &messages(), "/content/0/text", "/delta/text");
    let paths = ("/v1beta/models/g:generateContent", "/v1beta/models/g:streamGenerateContent?alt=sse");
    let text = "/candidates/0/content/parts/0/text";
    check(paths, &generate(), text, text);
    let prompt = json!({"model": "m", "prompt": QUESTION});
    check(("/v1/completions", "/v1/completions"), &prompt, "/choices/0/text", "/choices/0/text");
    let input = json!({"model": "m", "input": [{"role": "user", "content": QUESTION}]});
    check(("/v1/responses", "/v1/responses"), &input, "/output/0/content/0/text", "/delta");
}

fn text_of(mock: &Mock, headers: &[(&str, &str)], path: &str, body: &Value, pointer: &str) -> String {
    let reply = mock.post(path, headers, &body.to_string()).json();
    reply.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{reply}")).to_owned()
}

#[test]
fn all_shows_the_texts_of_every_message_of_the_system_first() {
    let mock = start(&[]);
    let all = |path: &str, body: &Value, pointer: &str| {
        text_of(&mock, &[("x-mock-echo", "all")], path, body, pointer)
    };
    let expected = format!("be brief\nhello\n{QUESTION}");
    // the message without text is an empty line
    assert_eq!(all(CHAT, &chat(), "/choices/0/message/content"), format!("be brief\nhello\n\n{QUESTION}"));
    assert_eq!(all("/v1/messages", &messages(), "/content/0/text"), expected);
    let gemini = all("/v1beta/models/g:generateContent", &generate(), "/candidates/0/content/parts/0/text");
    assert_eq!(gemini, expected);
}

#[test]
fn sources_of_the_prompt_are_quoted() {
    let body = json!({"model": "m", "messages": [
        {"role": "system", "content": "<source n=\"1\" id=\"a\">A &lt;b&gt; &amp; c. More.</source>\n<source n=\"2\">Second!</source>"},
        {"role": "user", "content": "what is a?"},
    ]});
    let text = text_of(&start(&["--echo", "cite"]), &[], CHAT, &body, "/choices/0/message/content");
    assert_eq!(text, "\"A <b> & c.\" [1]\n\"Second!\" [2]");
}

#[test]
fn limits_and_tool_calls_hold_for_repeated_prompts() {
    let mock = start(&["--echo", "last"]);
    let mut body = chat();
    body["max_tokens"] = json!(2);
    let reply = mock.post(CHAT, &[], &body.to_string()).json();
    let choice = &reply["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("what \"is\"\n"), &json!("length"))
    );
    assert_eq!(reply["usage"]["completion_tokens"], 2);
    let call = json!({
        "model": "m", "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [{"role": "user", "content": "call the tool \"now\""}],
    });
    let reply = mock.post(CHAT, &[("x-mock-tokens", "1")], &call.to_string()).json();
    assert_eq!(
        reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
        json!("{\"text\":\"t000001\"}")
    );
    let refused = mock.post(CHAT, &[("x-mock-echo", "first")], &chat().to_string());
    let message = refused.json()["error"]["message"].clone();
    assert_eq!(
        (refused.status, message),
        (400, json!("`echo` is `first`, but must be off, last, all or cite"))
    );
}
