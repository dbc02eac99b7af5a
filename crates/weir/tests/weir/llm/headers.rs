//! Problem 15: credentials of callers never reach a provider or the log, and headers of the provider's API do.

use std::time::Duration;

use serde_json::json;

use super::setup::{Mock, PROVIDER_KEY, Proxy, Scripted, ask, ask_stream, read_to_close};

#[test]
fn the_callers_key_never_reaches_a_provider() {
    let mock = Mock::start(&[]);
    let anthropic = format!(
        "[[upstreams]]\nid = \"claude\"\nprovider = \"anthropic\"\nurl = \"{}\"\napi_key = \"env:PROVIDER_KEY\"\n",
        mock.url("")
    );
    let variables = [("WEIR_LOG_LEVEL", "trace"), ("WEIR_LOG_FORMAT", "json")];
    let openai = format!(
        "[[upstreams]]\nid = \"mock\"\nprovider = \"openai\"\nurl = \"{}\"\napi_key = \"env:PROVIDER_KEY\"\nheaders = [\"x-team\"]\n",
        mock.url("/v1")
    );
    let proxy = Proxy::start_with(&format!("{openai}{anthropic}"), &variables);
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"]}));
    let bearer = format!("Bearer {key}");
    let prompt = "a prompt that nobody may log";
    let mut body = ask("mock/m");
    body["messages"][0]["content"] = prompt.into();
    let sent = [
        ("authorization", bearer.as_str()),
        ("cookie", "session=1"),
        ("openai-beta", "b"),
        ("x-team", "t"),
        ("x-other", "o"),
    ];
    assert_eq!(proxy.chat(&body, &sent).unwrap().status, 200);
    assert_eq!(mock.last_header("authorization"), Some(format!("Bearer {PROVIDER_KEY}")));
    assert_eq!(mock.last_header("openai-beta").as_deref(), Some("b"));
    assert_eq!(mock.last_header("x-team").as_deref(), Some("t"));
    for name in ["cookie", "x-other", "x-api-key"] {
        assert_eq!(mock.last_header(name), None, "{name}");
    }
    assert!(!mock.last().to_string().contains(&key[13..]));
    let message =
        json!({"model": "claude/m", "max_tokens": 9, "messages": [{"role": "user", "content": prompt}]});
    let sent =
        [("x-api-key", key.as_str()), ("anthropic-beta", "tools-1"), ("anthropic-version", "2023-06-01")];
    let reply = proxy.post("/v1/messages", &message, &sent).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(mock.last_header("x-api-key").as_deref(), Some(PROVIDER_KEY));
    assert_eq!(mock.last_header("anthropic-beta").as_deref(), Some("tools-1"));
    assert_eq!(mock.last_header("authorization"), None);
    let log = proxy.weir.log();
    for secret in [&key[13..], &admin[13..], PROVIDER_KEY, prompt] {
        assert!(!log.contains(secret), "`{secret}` is in the log");
    }
}

#[test]
fn what_a_provider_repeats_of_a_prompt_is_not_in_the_log() {
    let refused = "500 Internal Server Error\r\ncontent-length: 44\r\n\r\n{\"error\":{\"message\":\"can't do: ask nobody\"}}";
    let stream = "200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"error\":{\"message\":\"can't do: ask nobody\"}}\n\n";
    let event = "200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"type\":\"error\",\"error\":{\"message\":\"can't do: ask nobody\"}}\n\n";
    let providers = [refused, stream, event].map(|reply| Scripted::start(reply, Duration::ZERO));
    let [a, b, c] = &providers;
    let claude = c.upstream("c", "").replace("\"openai\"", "\"anthropic\"").replace("/v1\"", "\"");
    let tables = format!("{}{}{claude}", a.upstream("a", ""), b.upstream("b", ""));
    let proxy = Proxy::start_with(&tables, &[("WEIR_LOG_LEVEL", "trace"), ("WEIR_LOG_FORMAT", "json")]);
    for model in ["a/m", "b/m", "c/m"] {
        let (reply, _) = read_to_close(&mut proxy.open(&ask_stream(model), &[("connection", "close")]));
        assert!(reply.contains("502 Bad Gateway") && reply.contains("ask nobody"), "{model}: {reply}");
    }
    let log = proxy.weir.log();
    assert!(log.contains("a request to an upstream failed") && !log.contains("ask nobody"), "{log}");
}
