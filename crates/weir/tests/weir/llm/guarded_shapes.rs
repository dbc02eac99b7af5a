//! Problem 13, by shape: a text is checked wherever a request or a reply has it, and JSON stays JSON.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::setup::{Proxy, ask};
use crate::upstreams::scripted::{Answer, Upstream};

const REDACTS: &str = "[[guardrails]]\nid = \"pii\"\ndetect = [\"pii\"]\n";
const RESTORES: &str = "[[guardrails]]\nid = \"pii\"\ndetect = [\"secrets\", \"pii\"]\nrestore = true\n";
const ADDRESS: &str = "ann@example.com";
const CARD: &str = "4111";

/// A gateway before a server of OpenAI's API, `oa`, and one of Anthropic's, `an`, which both send this reply.
struct Guarded {
    proxy: Proxy,
    upstream: Upstream,
}

impl Guarded {
    fn start(guardrail: &str, media: &'static str, reply: &str) -> Guarded {
        let reply = reply.to_owned();
        let upstream = Upstream::start(move |_, _| {
            Answer::Other(200, vec![("content-type", media.to_owned())], reply.clone())
        });
        let url = &upstream.url;
        let tables = format!(
            "[[upstreams]]\nid = \"oa\"\nprovider = \"openai\"\nurl = \"{url}/v1\"\n[[upstreams]]\nid = \"an\"\nprovider = \"anthropic\"\nurl = \"{url}\"\n{guardrail}"
        );
        Guarded { proxy: Proxy::start(&tables), upstream }
    }

    /// The text of the reply to a request.
    fn reply(&self, path: &str, body: &Value) -> String {
        let reply = self.proxy.post(path, body, &[]).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.text
    }

    /// What the provider gets of a request.
    fn sent(&self, path: &str, body: &Value) -> Value {
        let _reply = self.proxy.post(path, body, &[]).unwrap();
        self.upstream.asked().last().expect("a request").body.clone()
    }
}

const WHOLE: &str = r#"{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;
const MESSAGE: &str = r#"{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}"#;

#[test]
fn every_shape_of_a_stream_is_redacted() {
    for delta in [
        r#"{"role":"assistant","function_call":{"name":"f","arguments":"{\"to\":\"ann@example.com\"}"}}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"ann@example.com"}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"ann@example.com"}]}"#,
        r#"{"content":"ann@example.com"},"logprobs":{"content":[{"token":"ann@example.com","logprob":-0.1,"top_logprobs":[]}]"#,
    ] {
        let last = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        let more = if delta.contains("logprobs") { "}" } else { "" };
        let events = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}{more},\"finish_reason\":null}}]}}\n\ndata: {last}\n\ndata: [DONE]\n\n"
        );
        let guarded = Guarded::start(REDACTS, "text/event-stream", &events);
        let mut body = ask("oa/m");
        body["stream"] = true.into();
        let reply = guarded.reply("/v1/chat/completions", &body);
        assert!(reply.contains("[EMAIL_1]") && !reply.contains(ADDRESS), "{delta}: {reply}");
    }
}

#[test]
fn every_shape_of_a_whole_reply_is_redacted() {
    for (path, reply) in [
        (
            "/v1/chat/completions",
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ann@example.com"},"logprobs":{"content":[{"token":"ann@example.com","logprob":-0.1,"top_logprobs":[]}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
        ),
        (
            "/v1/chat/completions",
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok","reasoning_details":[{"type":"reasoning.summary","summary":"ann@example.com"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
        ),
        (
            "/v1/messages",
            r#"{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t","name":"f","input":{"name":"ann@example.com","card":4111111111111111}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}"#,
        ),
    ] {
        let mut body = ask(if path == "/v1/messages" { "an/m" } else { "oa/m" });
        body["max_tokens"] = 50.into();
        let guarded = Guarded::start(REDACTS, "application/json", reply);
        let seen = guarded.reply(path, &body);
        assert!(seen.contains("[EMAIL_1]") && !seen.contains(ADDRESS) && !seen.contains(CARD), "{seen}");
        let blocks = format!("{REDACTS}action = \"block\"\n");
        let guarded = Guarded::start(&blocks, "application/json", reply);
        let refused = guarded.proxy.post(path, &body, &[]).unwrap();
        assert!(refused.status == 400 && refused.text.contains("guardrail"), "{}", refused.text);
    }
}

#[test]
fn every_shape_of_a_request_is_redacted() {
    let guarded = Guarded::start(REDACTS, "application/json", WHOLE);
    let said = |content: Value| json!({"model": "oa/m", "max_tokens": 50, "messages": [{"role": "user", "content": content}]});
    let document = json!([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": ADDRESS}},
        {"type": "text", "text": "q"}]);
    let sent = guarded.sent("/v1/messages", &said(document)).to_string();
    assert!(sent.contains("[EMAIL_1]") && !sent.contains(ADDRESS), "{sent}");
    // two parts are one text for the model
    let parts = json!([{"type": "text", "text": "the card 4111 1111"}, {"type": "text", "text": " 1111 1111 and ann@"},
        {"type": "text", "text": "example.com"}]);
    let sent = guarded.sent("/v1/chat/completions", &said(parts.clone()));
    let texts: Vec<&str> = sent["messages"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["the card [PAYMENT_CARD_1]", " and [EMAIL_1]", ""]);
    let tool = |number: &str| -> Value {
        let call = format!(
            r#"{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{\"card\":{number}}}"}}}}"#
        );
        let call: Value = serde_json::from_str(&call).unwrap();
        json!({"model": "oa/m", "messages": [{"role": "user", "content": "q"},
            {"role": "assistant", "content": null, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "x"}]})
    };
    for number in ["4111111111111111", "4.111111111111111e15", "41111111111111110e-1"] {
        let sent = guarded.sent("/v1/chat/completions", &tool(number));
        let arguments = sent["messages"][1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(arguments["card"], "[PAYMENT_CARD_1]", "{number}");
    }
    let blocks = Guarded::start(&format!("{REDACTS}action = \"block\"\n"), "application/json", WHOLE);
    for body in [said(parts), tool("4.111111111111111e15")] {
        let refused = blocks.proxy.chat(&body, &[]).unwrap();
        assert!(refused.status == 400 && refused.text.contains("guardrail_blocked"), "{}", refused.text);
    }
    assert!(blocks.upstream.asked().is_empty());
}

#[test]
fn the_history_of_messages_is_redacted_under_any_name() {
    let guarded = Guarded::start(REDACTS, "application/json", MESSAGE);
    let body = json!({"model": "an/m", "max_tokens": 50, "messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"name": ADDRESS, "id": 4_111_111_111_111_111_u64}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}]});
    let sent = guarded.sent("/v1/messages", &body);
    let input = &sent["messages"][1]["content"][0]["input"];
    assert_eq!(input, &json!({"name": "[EMAIL_1]", "id": "[PAYMENT_CARD_1]"}));
}

#[test]
fn a_restored_value_of_several_lines_is_escaped_within_arguments() {
    let key = format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA".repeat(4)
    );
    let call = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"save","arguments":"{\"key\":\"[API_KEY_1]\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let guarded = Guarded::start(RESTORES, "application/json", call);
    let mut body = ask("oa/m");
    body["messages"][0]["content"] = key.clone().into();
    let reply: Value = serde_json::from_str(&guarded.reply("/v1/chat/completions", &body)).unwrap();
    let arguments =
        reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(arguments["key"], key);
}

#[test]
fn names_in_another_case_are_refused() {
    let guarded = Guarded::start(REDACTS, "application/json", WHOLE);
    for body in [
        json!({"model": "oa/m", "messages": [], "Model": "other"}),
        json!({"model": "oa/m", "messages": [{"role": "user", "Content": ADDRESS}]}),
        json!({"model": "oa/m", "max_tokens": 5, "MAX_TOKENS": 1_000_000, "messages": []}),
        json!({"model": "oa/m", "max_to\u{212a}ens": 1_000_000, "messages": []}),
    ] {
        let reply = guarded.proxy.chat(&body, &[]).unwrap();
        let sent = guarded.upstream.asked();
        let passed = sent.last().map(|asked| asked.body.to_string()).unwrap_or_default();
        assert!(reply.status == 400 || !passed.contains(ADDRESS) && sent.len() == 1, "{}", reply.text);
    }
}

#[test]
fn long_prompts_are_checked_beside_the_threads_that_answer() {
    let guarded = Guarded::start(
        "[[guardrails]]\nid = \"all\"\ndetect = [\"pii\", \"secrets\", \"injection\"]\n",
        "application/json",
        WHOLE,
    );
    let mut body = ask("oa/m");
    body["messages"][0]["content"] = "We met +44 people at 10.0.0 on 2024-01-05, ok? ".repeat(22_000).into();
    let (slowest, whole) = std::thread::scope(|scope| {
        let started = Instant::now();
        let (guarded, body) = (&guarded, &body);
        let senders: Vec<_> =
            (0..4).map(|_| scope.spawn(move || guarded.proxy.chat(body, &[]).unwrap().status)).collect();
        let mut slowest = Duration::ZERO;
        while senders.iter().any(|sender| !sender.is_finished()) {
            let asked = Instant::now();
            assert_eq!(guarded.proxy.client.send("GET", "/livez", None).status, 200);
            slowest = slowest.max(asked.elapsed());
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(senders.into_iter().all(|sender| sender.join().unwrap() == 200));
        (slowest, started.elapsed())
    });
    println!("the slowest of /livez: {slowest:?} within {whole:?}");
    assert!(slowest < Duration::from_millis(50), "{slowest:?}");
}

#[test]
fn what_a_provider_says_in_an_error_is_redacted() {
    let said = format!("no such user {ADDRESS}");
    for (status, body) in [
        (400, json!({"error": {"message": said}}).to_string()),
        (404, said.clone()),
        (429, json!({"error": {"message": said}}).to_string()),
        (500, json!({"error": {"message": said}}).to_string()),
        (200, json!({"error": {"message": said, "code": 400}}).to_string()),
        (200, json!({"error": {"message": said}}).to_string()),
    ] {
        let upstream = Upstream::start(move |_, _| Answer::Other(status, Vec::new(), body.clone()));
        let url = &upstream.url;
        let tables = ["openai", "anthropic", "gemini"].map(|provider| {
            let path = if provider == "openai" { "/v1" } else { "" };
            format!("[[upstreams]]\nid = \"{provider}\"\nprovider = \"{provider}\"\nurl = \"{url}{path}\"\nretries_max = 0\n")
        });
        let proxy = Proxy::start(&format!("{}{REDACTS}", tables.concat()));
        for (path, model) in [
            ("/v1/chat/completions", "openai/m"),
            ("/v1/chat/completions", "anthropic/m"),
            ("/v1/chat/completions", "gemini/m"),
            ("/v1/messages", "openai/m"),
        ] {
            let mut body = ask(model);
            body["max_tokens"] = 50.into();
            let reply = proxy.post(path, &body, &[]).unwrap();
            assert!(reply.status >= 400 && !reply.text.contains(ADDRESS), "{path} {model}: {}", reply.text);
        }
        let reply = proxy.post("/v1/chat/completions", &ask("openai/m"), &[]).unwrap();
        assert!(reply.text.contains("[EMAIL_1]"), "{status}: {}", reply.text);
    }
    let told = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"so \"}}\n\n";
    let error = json!({"type": "error", "error": {"type": "api_error", "message": said}});
    let guarded = Guarded::start(REDACTS, "text/event-stream", &format!("{told}data: {error}\n\n"));
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let mut body = super::setup::ask_stream("an/m");
        body["max_tokens"] = 50.into();
        let (read, _) = super::setup::read_to_close(&mut guarded.proxy.open_at(path, &body, &[]));
        assert!(
            read.contains("so ") && read.contains("[EMAIL_1]") && !read.contains(ADDRESS),
            "{path}: {read}"
        );
    }
}

/// Structured output is checked as JSON in a stream as it is in a whole reply.
#[test]
fn a_streamed_answer_that_is_json_stays_json() {
    let text = r#"{"mail":"ann\u0040example.com","card":4111111111111111}"#;
    let redacted = json!({"mail": "[EMAIL_1]", "card": "[PAYMENT_CARD_1]"});
    for at in [1, 9, 13, 30, 45] {
        let chunk = |text: &str| {
            format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
        };
        let end =
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let events = [&chunk(&text[..at]), &chunk(&text[at..]), end].concat();
        let guarded = Guarded::start(REDACTS, "text/event-stream", &events);
        let reply = guarded.reply("/v1/chat/completions", &super::setup::ask_stream("oa/m"));
        let data =
            reply.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        let said: String = data
            .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap_or_default(), redacted, "{at}: {reply}");
    }
}

#[test]
fn a_key_in_the_place_of_a_file_does_not_reach_the_provider() {
    let guarded = Guarded::start(RESTORES, "application/json", MESSAGE);
    let key = format!("sk-proj-{}", "Ab1".repeat(40));
    let source = json!({"type": "text", "media_type": "text/plain", "data": key});
    let file = json!({"type": "file", "file": {"filename": "f", "file_data": key}});
    let encoded = "data:text/plain;base64,YW5uQGV4YW1wbGUuY29t";
    let short = json!({"type": "file", "file": {"filename": "f", "file_data": encoded}});
    for (path, part) in [
        ("/v1/messages", json!({"type": "document", "source": source})),
        ("/v1/chat/completions", file),
        ("/v1/chat/completions", short),
    ] {
        let model = if path == "/v1/messages" { "an/m" } else { "oa/m" };
        let body =
            json!({"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": [part]}]});
        let sent = guarded.sent(path, &body).to_string();
        assert!(!sent.contains("Ab1Ab1") && !sent.contains(encoded), "{sent}");
    }
}
