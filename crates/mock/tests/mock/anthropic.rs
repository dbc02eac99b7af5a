//! Replies in Anthropic's shape.

use crate::support::start;
use serde_json::{Value, json};

const MESSAGES: &str = "/v1/messages";
const BODY: &str = r#"{"model":"m","max_tokens":50,"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"say hello"}]}]}"#;

fn streaming(body: &str) -> String {
    body.replace("{\"model\"", "{\"stream\":true,\"model\"")
}

#[test]
fn a_message_has_the_text_and_the_usage() {
    let reply = start(&["--tokens", "3"]).post(MESSAGES, &[], BODY);
    assert_eq!(reply.header("request-id"), Some("1"));
    assert_eq!(
        reply.text(),
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"t000001 t000002 t000003"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":4,"output_tokens":3}}"#
    );
}

#[test]
fn a_stream_has_exactly_these_bytes() {
    let reply = start(&["--tokens", "2"]).post(MESSAGES, &[], &streaming(BODY));
    let expected = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":4,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t000001"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" t000002"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

"#;
    assert_eq!(reply.text(), expected);
    assert!(reply.is_complete);
}

#[test]
fn a_tool_is_called_in_one_reply_or_in_parts() {
    let body = BODY
        .replace("say hello", "now call the tool")
        .replace("{\"model\"", r#"{"tools":[{"name":"look_up"}],"model""#);
    let mock = start(&["--tokens", "1"]);
    let message = mock.post(MESSAGES, &[], &body).json();
    assert_eq!(message["stop_reason"], "tool_use");
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"text": "t000001"}});
    assert_eq!(message["content"], json!([block]));

    let stream = body.replace("{\"tools\"", "{\"stream\":true,\"tools\"");
    let events: Vec<Value> = mock
        .post(MESSAGES, &[], &stream)
        .events()
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let block = json!({"type": "tool_use", "id": "toolu_2", "name": "look_up", "input": {}});
    assert_eq!(events[1]["content_block"], block);
    let parts: Vec<&str> =
        events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(parts, [r#"{"text":""#, "t000001", r#""}"#]);
    assert_eq!(events[2]["delta"]["type"], "input_json_delta");
}

#[test]
fn the_limit_is_required_and_shortens_the_reply() {
    let mock = start(&["--tokens", "9"]);
    let message = mock.post(MESSAGES, &[], &BODY.replace("50", "2")).json();
    assert_eq!(
        (&message["stop_reason"], &message["usage"]["output_tokens"]),
        (&json!("max_tokens"), &json!(2))
    );
    let refused = mock.post(MESSAGES, &[], &BODY.replace("\"max_tokens\":50,", ""));
    let error = json!({"type": "invalid_request_error", "message": "`max_tokens` is required"});
    assert_eq!((refused.status, refused.json()), (400, json!({"type": "error", "error": error})));
}
