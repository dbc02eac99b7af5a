//! Shapes in which single providers differ from the API that they follow: `weir-mock` answers in each, and callers get what every provider gives.

use serde_json::{Value, json};
use weir_mock::QUIRKS;

use super::setup::{Mock, Proxy, ask, ask_stream, read_to_close, read_until, upstream};
use crate::support::client::Reply;

const TEXT: &str = "t000001 t000002 t000003";
/// Of a million tokens: one of the prompt costs .001, one that is read from a cache .0001, one of the completion .01.
const PRICE: &str = "[[prices]]\nmodel = \"*\"\ninput = 1000\ncached_input = 100\noutput = 10000\n";
const PROVIDERS: [&str; 3] = ["openai", "anthropic", "gemini"];

/// A gateway before one mock with the API of each provider, and a route from each to `good`, which has no quirk.
struct Gateway {
    mock: Mock,
    proxy: Proxy,
}

impl Gateway {
    fn start(more: &str) -> Gateway {
        let mock = Mock::start(&["--tokens", "3"]);
        let limits = "retries_max = 0\nfirst_token_timeout_ms = 2000\n";
        let openai = upstream("openai", &mock, limits);
        let other = |id: &str| {
            openai.replace("\"openai\"", &format!("\"{id}\"")).replace(&mock.url("/v1"), &mock.url(""))
        };
        let good =
            format!("[[upstreams]]\nid = \"good\"\nprovider = \"openai\"\nurl = \"{}\"\n", mock.url("/v1"));
        let route = |id: &str| {
            format!(
                "[[routes]]\nmodel = \"via-{id}\"\ntargets = [{{ upstream = \"{id}\" }}, {{ upstream = \"good\", priority = 1 }}]\n[[routes]]\nmodel = \"kept-{id}\"\ntargets = [{{ upstream = \"{id}\" }}]\ncache = {{ mode = \"exact\" }}\n"
            )
        };
        let routes = PROVIDERS.map(route).concat();
        let tables = [&openai, &other("anthropic"), &other("gemini"), &good, &routes, PRICE, more].concat();
        Gateway { proxy: Proxy::start(&tables), mock }
    }

    fn post(&self, path: &str, body: &Value, quirks: &str) -> Reply {
        let mut body = body.clone();
        body["max_tokens"] = 50.into();
        let reply = self.proxy.post(path, &body, &[("x-mock-quirk", quirks)]);
        reply.unwrap_or_else(|| panic!("{quirks}: the reply to {body} broke off"))
    }

    fn chat(&self, body: &Value, quirks: &str) -> Reply {
        self.post("/v1/chat/completions", body, quirks)
    }

    /// What arrives of a stream until its connection ends, and whether it is whole.
    fn broken(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> (String, bool) {
        read_to_close(&mut self.proxy.open_at(path, body, headers))
    }

    fn requests(&self) -> u64 {
        self.mock.stats()["requests"].as_u64().unwrap()
    }

    /// `good` answers instead, and without it the caller gets the status of an error, which is not kept.
    fn check_error(&self, path: &str, provider: &str, body: &Value, quirks: &str, status: u16) {
        let with_model = |kind: &str| {
            let mut body = body.clone();
            body["model"] = format!("{kind}-{provider}").into();
            body
        };
        let other = self.post(path, &with_model("via"), quirks);
        let answered_by = (other.status, other.header("x-weir-upstream"));
        assert_eq!(answered_by, (200, "good"), "{quirks} of {provider}: {}", other.text);
        for _ in 0..2 {
            let before = self.requests();
            let alone = self.post(path, &with_model("kept"), quirks);
            assert_eq!(alone.status, status, "{quirks} of {provider}: {}", alone.text);
            assert_eq!(self.requests(), before + 1, "{quirks} of {provider}: it is not kept");
        }
    }
}

/// The blocks of a message, whole or streamed. The input of a streamed call is parsed.
fn blocks(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    if let Some(blocks) = reply.json()["content"].as_array() {
        return blocks.clone();
    }
    let mut blocks: Vec<Value> = Vec::new();
    let mut inputs: Vec<String> = Vec::new();
    for line in reply.text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["type"] == "content_block_start" {
            blocks.push(event["content_block"].clone());
            inputs.push(String::new());
        }
        let index = event["index"].as_u64().unwrap_or(0) as usize;
        for name in ["text", "thinking"] {
            if let Some(part) = event["delta"][name].as_str() {
                blocks[index][name] = format!("{}{part}", blocks[index][name].as_str().unwrap()).into();
            }
        }
        if let Some(input) = inputs.get_mut(index) {
            *input += event["delta"]["partial_json"].as_str().unwrap_or("");
        }
    }
    for (block, input) in blocks.iter_mut().zip(inputs).filter(|(_, input)| !input.is_empty()) {
        block["input"] = serde_json::from_str(&input).unwrap_or_else(|wrong| panic!("{wrong} in {input}"));
    }
    blocks
}

fn with_input(model: &str, is_stream: bool) -> Value {
    json!({"model": model, "input": "what is a weir", "stream": is_stream})
}

#[test]
fn every_quirk_stands_in_a_test() {
    let tests = include_str!("quirks.rs");
    let missing: Vec<&str> = QUIRKS
        .iter()
        .map(|row| row.1)
        .filter(|name| !tests.contains(&format!("\"{name}\"")) && !tests.contains(&format!(",{name}\"")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The prompt has four tokens and the completion three.
#[test]
fn counts_of_every_provider_have_their_price() {
    let gateway = Gateway::start("");
    for (path, model, quirk, cost) in [
        ("/v1/chat/completions", "openai/m", "none", "0.034"),
        ("/v1/chat/completions", "openai/m", "usage-kimi", "0.0322"),
        ("/v1/chat/completions", "openai/m", "usage-deepseek", "0.0322"),
        // 2 × .0001 + 2 × .00125 + 3 × .01
        ("/v1/chat/completions", "openai/m", "usage-cache-write", "0.0327"),
        ("/v1/responses", "openai/m", "usage-cache-write", "0.0327"),
        // 4 × (.001 + .0001 + .00125 + .002) + 3 × .01
        ("/v1/messages", "anthropic/m", "usage-cache-creation", "0.0474"),
        ("/v1/chat/completions", "anthropic/m", "usage-cache-creation", "0.0474"),
        // 4 × .001 + 6 × .01
        ("/v1/chat/completions", "openai/m", "usage-xai", "0.064"),
        ("/v1/messages", "openai/m", "usage-xai", "0.064"),
    ] {
        let body = if path == "/v1/responses" { with_input(model, false) } else { ask(model) };
        let reply = gateway.post(path, &body, quirk);
        assert_eq!(
            (reply.status, reply.header("x-weir-cost")),
            (200, cost),
            "{path} {quirk}: {}",
            reply.text
        );
    }
    for (path, model, quirk, cost) in [
        ("/v1/chat/completions", "openai/choice", "usage-in-choice,usage-kimi", 0.032_2),
        ("/v1/messages", "openai/choice-of-messages", "usage-in-choice", 0.034),
        ("/v1/messages", "anthropic/creation", "usage-cache-creation", 0.047_4),
        ("/v1/chat/completions", "openai/xai", "usage-xai", 0.064),
    ] {
        assert_eq!(gateway.post(path, &ask_stream(model), quirk).status, 200);
        let row = || gateway.proxy.usage_of(model);
        gateway.proxy.client.wait("the row", || row()["requests"] == 1);
        let found = row()["cost"].as_f64().unwrap();
        assert!((found - cost).abs() < 1e-9, "{path} {quirk}: {}", row());
    }
}

#[test]
fn reasoning_is_a_block_of_its_own_in_messages() {
    let gateway = Gateway::start("");
    for quirk in ["reasoning", "reasoning-content", "content-list"] {
        for body in [ask("openai/m"), ask_stream("openai/m")] {
            let blocks = blocks(&gateway.post("/v1/messages", &body, quirk));
            assert_eq!((&blocks[0]["type"], &blocks[0]["thinking"]), (&"thinking".into(), &"because".into()));
            assert_eq!((&blocks[1], blocks.len()), (&json!({"type": "text", "text": TEXT}), 2), "{quirk}");
        }
    }
}

#[test]
fn parallel_calls_are_kept_apart() {
    let gateway = Gateway::start("");
    for quirk in ["calls-same-index", "calls-without-index", "calls-interleaved"] {
        for is_stream in [false, true] {
            let body = json!({"model": "openai/m", "stream": is_stream, "tools": [{"name": "f", "input_schema": {"type": "object"}}],
                "messages": [{"role": "user", "content": "call the tool"}]});
            let calls = blocks(&gateway.post("/v1/messages", &body, quirk));
            let inputs: Vec<&Value> = calls.iter().map(|call| &call["input"]).collect();
            assert_eq!(inputs, [&json!({ "text": TEXT }); 2], "{quirk}");
            assert_ne!(calls[0]["id"], calls[1]["id"], "{quirk}");
        }
    }
}

#[test]
fn clients_of_ollama_get_reasoning_and_calls_in_every_shape() {
    let gateway = Gateway::start("");
    let messages = |text: &str, is_stream: bool, quirk: &str| -> Vec<Value> {
        let function = json!({"name": "f", "parameters": {"type": "object"}});
        let body = json!({"model": "openai/m", "stream": is_stream, "tools": [{"type": "function", "function": function}],
            "messages": [{"role": "user", "content": text}]});
        let reply = gateway.proxy.post("/api/chat", &body, &[("x-mock-quirk", quirk)]).unwrap();
        assert_eq!(reply.status, 200, "{quirk}: {}", reply.text);
        let lines = reply.text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["message"].clone()).collect()
    };
    for is_stream in [false, true] {
        for quirk in ["reasoning", "reasoning-content", "content-list"] {
            let answer = messages("what is a weir", is_stream, quirk);
            let joined =
                |name: &str| answer.iter().filter_map(|message| message[name].as_str()).collect::<String>();
            assert_eq!((&*joined("thinking"), &*joined("content")), ("because", TEXT), "{quirk}");
        }
        for quirk in ["calls-same-index", "calls-without-index", "calls-interleaved"] {
            let answer = messages("call the tool", is_stream, quirk);
            let calls = answer.iter().filter_map(|message| message["tool_calls"].as_array());
            let calls: Vec<&Value> = calls.flatten().collect();
            let arguments: Vec<&Value> = calls.iter().map(|call| &call["function"]["arguments"]).collect();
            assert_eq!(arguments, [&json!({ "text": TEXT }); 2], "{quirk}");
            assert_ne!(calls[0]["id"], calls[1]["id"], "{quirk}");
        }
    }
}

#[test]
fn the_framing_of_a_stream_is_of_no_account() {
    let rule = "[[guardrails]]\nid = \"pii\"\ndetect = [\"pii\"]\non = [\"output\"]\n";
    let gateway = Gateway::start(rule);
    let mut body = ask_stream("m");
    body["messages"][0]["content"] = "Mail ann@example.com now".into();
    for quirk in ["data-lines", "bom", "comments-first", "comments-first,bom,data-lines"] {
        for (path, provider) in PROVIDERS
            .map(|provider| ("/v1/chat/completions", provider))
            .into_iter()
            .chain([("/v1/messages", "openai"), ("/v1/messages", "anthropic")])
        {
            body["model"] = format!("{provider}/m").into();
            body["max_tokens"] = 50.into();
            body["stream_options"] = match path {
                "/v1/messages" => Value::Null,
                _ => json!({"include_usage": true}),
            };
            let headers = [("x-mock-quirk", quirk), ("x-mock-echo", "last")];
            let reply = gateway.proxy.post(path, &body, &headers).unwrap();
            let end = if path == "/v1/messages" { "message_stop" } else { "[DONE]" };
            assert!(reply.status == 200 && reply.text.contains(end), "{quirk} of {provider}: {}", reply.text);
            assert!(
                reply.text.contains("[EMAIL_1]") && reply.text.contains("now"),
                "{quirk} of {provider}: {}",
                reply.text
            );
            assert!(!reply.text.contains("ann@"), "{quirk} of {provider}: {}", reply.text);
        }
    }
}

#[test]
fn comments_before_the_first_event_put_off_its_limit() {
    let gateway = Gateway::start("");
    let headers = [("x-mock-quirk", "comments-first"), ("x-mock-first-token-ms", "3600")];
    let mut client = gateway.proxy.open(&ask_stream("openai/m"), &headers);
    let head = read_until(&mut client, "OPENROUTER PROCESSING");
    assert!(!head.contains("t000001"), "{head}");
    let (rest, is_whole) = read_to_close(&mut client);
    assert!(is_whole && rest.contains("t000003") && rest.contains("[DONE]"), "{rest}");
    assert_eq!(rest.matches("OPENROUTER PROCESSING").count(), 3, "{rest}");
}

#[test]
fn an_error_with_the_status_200_is_an_error() {
    let gateway = Gateway::start("");
    for provider in PROVIDERS {
        for body in [ask(""), ask_stream("")] {
            gateway.check_error("/v1/chat/completions", provider, &body, "error-in-200", 503);
        }
    }
    gateway.check_error("/v1/messages", "anthropic", &ask(""), "error-in-200", 503);
    gateway.check_error("/v1/responses", "openai", &with_input("", false), "error-in-200", 502);
    for (provider, body) in [("openai", ask("")), ("gemini", ask("")), ("gemini", ask_stream(""))] {
        gateway.check_error("/v1/chat/completions", provider, &body, "empty-choices", 502);
    }
}

#[test]
fn an_error_as_the_first_event_goes_to_the_next_target() {
    let gateway = Gateway::start("");
    for provider in PROVIDERS {
        gateway.check_error("/v1/chat/completions", provider, &ask_stream(""), "error-first", 502);
    }
    gateway.check_error("/v1/messages", "anthropic", &ask_stream(""), "error-first", 502);
    gateway.check_error("/v1/responses", "openai", &with_input("", true), "error-first", 502);
}

#[test]
fn a_later_error_in_the_shape_of_its_provider_ends_the_stream_and_is_not_kept() {
    let gateway = Gateway::start("");
    for (path, body, quirk) in [
        ("/v1/chat/completions", ask_stream("kept-openai"), "openrouter-error"),
        ("/v1/responses", with_input("kept-openai", true), "response-failed"),
    ] {
        for _ in 0..2 {
            let before = gateway.requests();
            let headers = [("x-mock-quirk", quirk), ("x-mock-error-midstream", "1")];
            let (read, is_whole) = gateway.broken(path, &body, &headers);
            assert!(read.contains("t000001") && read.contains("error requested"), "{quirk}: {read}");
            assert!(!read.contains("t000002") && !is_whole, "{quirk}: {read}");
            assert_eq!(gateway.requests(), before + 1, "{quirk}: it is not kept");
        }
    }
    let metrics = gateway.proxy.client.send("GET", "/metrics", None).text;
    let errors = "weir_upstream_errors_total{upstream=\"openai\",code=\"reply\"} 4\n";
    assert!(metrics.contains(errors), "{metrics}");
}

#[test]
fn an_error_of_the_account_goes_to_the_next_target() {
    for (quirk, providers) in [
        ("credit-error", &PROVIDERS[..]),
        ("payment-required", &PROVIDERS[..1]),
        ("key-error", &PROVIDERS[..]),
        ("region-error", &["openai", "gemini"]),
    ] {
        let gateway = Gateway::start("");
        for provider in providers {
            for body in [ask(""), ask_stream("")] {
                gateway.check_error("/v1/chat/completions", provider, &body, quirk, 502);
            }
            let alone = gateway.chat(&ask(&format!("{provider}/m")), quirk);
            assert_eq!(alone.json()["error"]["code"], "upstream_credentials", "{quirk} of {provider}");
        }
    }
}

#[test]
fn the_delay_in_the_details_of_an_error_is_that_of_the_caller() {
    let gateway = Gateway::start("");
    let headers = [("x-mock-quirk", "retry-delay"), ("x-mock-status", "429"), ("x-mock-retry-after-s", "34")];
    let reply = gateway.proxy.chat(&ask("gemini/m"), &headers).unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (503, "34"), "{}", reply.text);
}
