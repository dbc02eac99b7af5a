//! OpenAI's responses.

use crate::support::start;
use serde_json::{Value, json};

const RESPONSES: &str = "/v1/responses";
const BODY: &str = r#"{"model":"m","input":"say hello","instructions":"be brief"}"#;

fn stream(flags: &[&str], body: &str) -> Vec<Value> {
    let body = body.replace("{\"model\"", "{\"stream\":true,\"model\"");
    let events = start(flags).post(RESPONSES, &[], &body).events();
    events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap()).collect()
}

#[test]
fn a_response_has_one_message() {
    let response = start(&["--tokens", "2"]).post(RESPONSES, &[], BODY).json();
    assert_eq!((&response["status"], &response["object"]), (&json!("completed"), &json!("response")));
    assert_eq!(response["output"][0]["content"][0]["text"], "t000001 t000002");
    assert_eq!(response["usage"], json!({"input_tokens": 4, "output_tokens": 2, "total_tokens": 6}));
}

#[test]
fn a_stream_ends_with_the_same_response() {
    let events = stream(&["--tokens", "2"], BODY);
    let expected = [
        "created",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), expected);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..9).collect::<Vec<u64>>());
    let deltas: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(deltas, "t000001 t000002");
    assert_eq!(events[8]["response"], start(&["--tokens", "2"]).post(RESPONSES, &[], BODY).json());
}

#[test]
fn a_shortened_stream_is_incomplete() {
    let limited = BODY.replace("{\"model\":\"m\"", "{\"model\":\"m\",\"max_output_tokens\":1");
    let last = stream(&["--tokens", "2"], &limited).pop().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"], json!({"reason": "max_output_tokens"}));
}

#[test]
fn a_function_call_is_streamed_in_parts() {
    let body = r#"{"model":"m","input":"call the tool","tools":[{"type":"function","name":"look_up"}]}"#;
    let events = stream(&["--tokens", "1"], body);
    let delta = "function_call_arguments.delta";
    let expected = [
        "created",
        "output_item.added",
        delta,
        delta,
        delta,
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), expected);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..8).collect::<Vec<u64>>());
    assert_eq!(events[5]["arguments"], r#"{"text":"t000001"}"#);
    assert_eq!(events[6]["item"]["name"], "look_up");
}
