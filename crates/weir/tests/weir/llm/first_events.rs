//! How a stream begins: until an event says something, an error leads to the next target; later it ends the stream.

use std::time::Duration;

use serde_json::{Value, json};

use super::setup::{Proxy, Scripted, ask_stream, read_to_close};
use crate::upstreams::scripted::{Answer, Upstream};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const ROUTES: &str = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"first\" }, { upstream = \"good\", priority = 1 }]\n[[routes]]\nmodel = \"kept\"\ntargets = [{ upstream = \"first\" }]\ncache = { mode = \"exact\" }\n";

const ROLE: &str =
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const TEXT: &str = r#"{"choices":[{"index":0,"delta":{"content":"A dam"},"finish_reason":null}]}"#;
const END: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const CHAT_ERROR: &str = r#"{"id":"gen-1","error":{"code":502,"message":"gone"},"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"error"}]}"#;
const START: &str = r#"{"type":"message_start","message":{"id":"x","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1}}}"#;
const OVERLOADED: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"gone"}}"#;
const CREATED: &str =
    r#"{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}"#;
const FAILED: &str = r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"gone"}}}"#;

/// The events of a stream. Chat completions have `[DONE]` at their end, also behind an error.
fn events(events: &[&str]) -> String {
    let is_chat = events.iter().any(|event| event.contains("choices"));
    let written: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!("{written}{}", if is_chat { "data: [DONE]\n\n" } else { "" })
}

/// A provider that sends this stream at once.
fn provider(stream: String) -> Upstream {
    Upstream::start(move |_, _| {
        Answer::Other(200, vec![("content-type", "text/event-stream".to_owned())], stream.clone())
    })
}

fn table(id: &str, provider: &str, upstream: &Upstream) -> String {
    let path = if provider == "openai" { "/v1" } else { "" };
    let url = &upstream.url;
    format!(
        "[[upstreams]]\nid = \"{id}\"\nprovider = \"{provider}\"\nurl = \"{url}{path}\"\nretries_max = 0\nretry_broken_replies = false\n"
    )
}

fn body(model: &str) -> Value {
    let mut body = ask_stream(model);
    (body["max_tokens"], body["input"]) = (50.into(), "hi".into());
    body
}

/// Paths, providers and streams of which the first event that says something is an error, behind what says that a reply begins.
fn failing() -> Vec<(&'static str, &'static str, String, String)> {
    let good_chat = events(&[ROLE, TEXT, END]);
    let good_message = events(&[
        START,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let good_response = events(&[r#"{"type":"response.completed","response":{"id":"good","output":[]}}"#]);
    vec![
        (CHAT, "openai", events(&[CHAT_ERROR]), good_chat.clone()),
        (CHAT, "openai", events(&[ROLE, CHAT_ERROR]), good_chat.clone()),
        (CHAT, "anthropic", events(&[START, r#"{"type":"ping"}"#, OVERLOADED]), good_message.clone()),
        (MESSAGES, "anthropic", events(&[START, OVERLOADED]), good_message),
        (MESSAGES, "openai", events(&[ROLE, CHAT_ERROR]), good_chat),
        (RESPONSES, "openai", events(&[FAILED]), good_response.clone()),
        (RESPONSES, "openai", events(&[CREATED, FAILED]), good_response),
    ]
}

#[test]
fn an_error_behind_the_beginning_of_a_reply_goes_to_the_next_target() {
    for (path, api, bad, good) in failing() {
        let (bad, good) = (provider(bad), provider(good));
        let proxy =
            Proxy::start(&format!("{}{}{ROUTES}", table("first", api, &bad), table("good", api, &good)));
        let (read, is_whole) = read_to_close(&mut proxy.open_at(path, &body("m"), &[]));
        assert!(is_whole && read.contains("x-weir-upstream: good"), "{path} {api}: {read}");
        assert!(!read.contains("gone"), "{path} {api}: {read}");
        for requests in 2..=3 {
            let reply = proxy.post(path, &body("kept"), &[]).unwrap();
            assert!(matches!(reply.status, 502 | 503), "{path} {api}: {}", reply.text);
            assert_eq!(bad.asked().len(), requests, "{path} {api}: it is not kept");
        }
    }
}

#[test]
fn a_stream_with_an_error_has_no_last_event() {
    for (path, api, stream) in [
        (CHAT, "openai", events(&[ROLE, TEXT, CHAT_ERROR])),
        (CHAT, "openai", events(&[TEXT, r#"{ "error" : "gone" }"#, END])),
        (MESSAGES, "openai", events(&[TEXT, CHAT_ERROR])),
    ] {
        let bad = provider(stream);
        let proxy =
            Proxy::start(&format!("{}{}{ROUTES}", table("first", api, &bad), table("good", api, &bad)));
        for requests in 1..=2 {
            let (read, is_whole) = read_to_close(&mut proxy.open_at(path, &body("kept"), &[]));
            assert!(read.contains("A dam") && read.contains("gone") && !is_whole, "{path}: {read}");
            assert!(!read.contains("[DONE]") && !read.contains("message_stop"), "{path}: {read}");
            assert!(!read.contains("\"stop\""), "{path}: {read}");
            assert_eq!(bad.asked().len(), requests, "{path}: it is not kept");
        }
    }
}

/// While another target could take over, the beginning is held for a second and no longer.
#[test]
fn the_beginning_of_a_reply_is_passed_on_when_nothing_follows_it() {
    let head = "200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let first = format!("{head}data: {CREATED}\n\n");
    let last = "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[]}}\n\n";
    let parts = vec![(Duration::ZERO, first.into_bytes()), (Duration::from_secs(4), last.into())];
    let slow = Scripted::in_parts(parts, Duration::ZERO);
    let limit = "first_token_timeout_ms = 3000\n";
    let proxy =
        Proxy::start(&format!("{}{}{ROUTES}", slow.upstream("first", limit), slow.upstream("good", limit)));
    let started = std::time::Instant::now();
    let mut client = proxy.open_at(RESPONSES, &body("m"), &[]);
    let read = super::setup::read_until(&mut client, "response.created");
    let took = started.elapsed();
    assert!(read.contains("x-weir-upstream: first"), "{read}");
    assert!(Duration::from_millis(900) < took && took < Duration::from_millis(2_900), "{took:?}");
    assert!(read_to_close(&mut client).0.contains("response.completed"));
}

/// An error of success that the provider lays to the request is the caller's, and no other target is asked.
#[test]
fn an_error_of_the_request_within_a_reply_of_success_goes_to_the_caller() {
    let error = json!({"error": {"message": "temperature is too high", "code": 400}}).to_string();
    for (media, reply) in
        [("application/json", error.clone()), ("text/event-stream", format!("data: {error}\n\n"))]
    {
        let bad = Upstream::start(move |_, _| {
            Answer::Other(200, vec![("content-type", media.to_owned())], reply.clone())
        });
        let good = provider(events(&[TEXT, END]));
        let proxy = Proxy::start(&format!(
            "{}{}{ROUTES}",
            table("first", "openai", &bad),
            table("good", "openai", &good)
        ));
        for path in [CHAT, MESSAGES] {
            let reply = proxy.post(path, &body("m"), &[]).unwrap();
            assert_eq!(reply.status, 400, "{}", reply.text);
            assert!(reply.text.contains("temperature is too high"), "{}", reply.text);
        }
        assert!(good.asked().is_empty());
        proxy.client.wait("the rows", || proxy.usage_of("m")["requests"] == 2);
        assert_eq!(proxy.usage_of("m")["prompt_tokens"], 0, "nothing was charged");
    }
}
