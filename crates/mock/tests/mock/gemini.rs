//! Replies in Gemini's shape.

use crate::support::start;
use serde_json::{Value, json};

const WHOLE: &str = "/v1beta/models/gem:generateContent";
const STREAM: &str = "/v1beta/models/gem:streamGenerateContent?alt=sse";
const BODY: &str = r#"{"contents":[{"role":"user","parts":[{"text":"say"},{"text":"hello"}]}],"systemInstruction":{"parts":[{"text":"be brief"}]}}"#;

#[test]
fn content_has_the_text_and_the_usage() {
    assert_eq!(
        start(&["--tokens", "2"]).post(WHOLE, &[], BODY).text(),
        r#"{"candidates":[{"content":{"parts":[{"text":"t000001 t000002"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2,"totalTokenCount":6},"modelVersion":"gem","responseId":"mock-1"}"#
    );
}

#[test]
fn a_stream_has_exactly_these_bytes() {
    let event = |text: &str, finish: &str, received: u32| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}],\"role\":\"model\"}}{finish},\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":4,\"candidatesTokenCount\":{received},\"totalTokenCount\":{}}},\"modelVersion\":\"gem\",\"responseId\":\"mock-1\"}}\r\n\r\n",
            received + 4
        )
    };
    let expected =
        [event("t000001", "", 1), event(" t000002", "", 2), event("", ",\"finishReason\":\"STOP\"", 2)];
    let reply = start(&["--tokens", "2"]).post(STREAM, &[], BODY);
    assert_eq!(reply.text(), expected.concat());
    assert!(reply.is_complete);
}

#[test]
fn a_function_call_is_one_part() {
    let body = BODY
        .replace("hello", "call the tool")
        .replace("{\"contents\"", r#"{"tools":[{"functionDeclarations":[{"name":"look_up"}]}],"contents""#);
    let mock = start(&["--tokens", "1"]);
    let part = json!({"functionCall": {"name": "look_up", "args": {"text": "t000001"}}});
    let parts = |event: &Value| event["candidates"][0]["content"]["parts"].clone();
    assert_eq!(parts(&mock.post(WHOLE, &[], &body).json()), json!([part]));
    let events = mock.post(STREAM, &[], &body).events();
    assert_eq!(events.len(), 2);
    assert_eq!(parts(&serde_json::from_str(&events[0]).unwrap()), json!([part]));
}

#[test]
fn the_limit_shortens_and_errors_have_geminis_shape() {
    let mock = start(&["--tokens", "9"]);
    let limited = BODY.replace("{\"contents\"", r#"{"generationConfig":{"maxOutputTokens":1},"contents""#);
    assert_eq!(mock.post(WHOLE, &[], &limited).json()["candidates"][0]["finishReason"], "MAX_TOKENS");
    let refused = mock.post(&STREAM.replace("?alt=sse", ""), &[], BODY);
    let message = "`alt` must be sse: the mock streams events only";
    let error = json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT"});
    assert_eq!((refused.status, refused.json()), (400, json!({"error": error})));
    let missing = mock.post("/v1beta/models/gem:embedContent", &[], BODY);
    assert_eq!((missing.status, &missing.json()["error"]["status"]), (404, &json!("NOT_FOUND")));
}
