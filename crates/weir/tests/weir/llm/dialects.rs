//! Every API before every provider that it is translated for.

use serde_json::{Value, json};

use super::setup::{Mock, PROVIDER_KEY, Proxy, ask, ask_stream, upstream};

/// A gateway before a mock of each provider. The address of Anthropic's is with the version, which is part of the paths too.
fn before_all(mock: &Mock) -> Proxy {
    Proxy::start(&tables(mock))
}

fn tables(mock: &Mock) -> String {
    let one = |id: &str, path: &str| {
        format!(
            "[[upstreams]]\nid = \"{id}\"\nprovider = \"{id}\"\nurl = \"{}\"\napi_key = \"env:PROVIDER_KEY\"\n",
            mock.url(path)
        )
    };
    format!("{}{}{}", upstream("openai", mock, ""), one("anthropic", "/v1"), one("gemini", ""))
}

#[test]
fn chat_completions_come_from_every_provider() {
    let mock = Mock::start(&["--tokens", "4"]);
    let proxy = before_all(&mock);
    for provider in ["openai", "anthropic", "gemini"] {
        let model = format!("{provider}/m");
        let reply = proxy.chat(&ask(&model), &[]).unwrap();
        assert_eq!(reply.status, 200, "{provider}: {}", reply.text);
        let reply = reply.json();
        assert_eq!(reply["object"], "chat.completion", "{provider}");
        assert_eq!(
            reply["choices"][0]["message"]["content"], "t000001 t000002 t000003 t000004",
            "{provider}: {reply}"
        );
        assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{provider}");
        assert_eq!(reply["usage"]["completion_tokens"], 4, "{provider}: {reply}");
        let mut body = ask_stream(&model);
        body["stream_options"] = json!({"include_usage": true});
        let stream = proxy.chat(&body, &[]).unwrap();
        assert!(stream.header("content-type").starts_with("text/event-stream"), "{provider}");
        let (mut text, mut usage) = (String::new(), Value::Null);
        for line in stream.text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let chunk: Value = serde_json::from_str(line).unwrap_or_default();
            text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
            if chunk["usage"].is_object() {
                usage = chunk["usage"].clone();
            }
        }
        assert_eq!(text, "t000001 t000002 t000003 t000004", "{provider}: {}", stream.text);
        assert_eq!(usage["completion_tokens"], 4, "{provider}: {}", stream.text);
        assert!(stream.text.ends_with("data: [DONE]\n\n"), "{provider}");
    }
}

#[test]
fn tools_are_called_through_every_provider() {
    let mock = Mock::start(&["--tokens", "2"]);
    let proxy = before_all(&mock);
    for provider in ["openai", "anthropic", "gemini"] {
        let body = json!({"model": format!("{provider}/m"), "messages": [{"role": "user", "content": "call the tool"}],
            "tools": [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}}]});
        let reply = proxy.chat(&body, &[]).unwrap().json();
        let call = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(call["name"], "look_up", "{provider}: {reply}");
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments["text"], "t000001 t000002", "{provider}");
        assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls", "{provider}");
    }
}

#[test]
fn messages_come_from_anthropic_and_from_providers_with_openais_api() {
    let mock = Mock::start(&["--tokens", "3"]);
    let proxy = before_all(&mock);
    for provider in ["anthropic", "openai"] {
        let mut body = json!({"model": format!("{provider}/m"), "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]});
        let reply = proxy.post("/v1/messages", &body, &[]).unwrap().json();
        assert_eq!(reply["content"][0]["text"], "t000001 t000002 t000003", "{provider}: {reply}");
        assert_eq!(
            (&reply["stop_reason"], &reply["usage"]["output_tokens"]),
            (&json!("end_turn"), &json!(3)),
            "{provider}"
        );
        body["stream"] = true.into();
        let stream = proxy.post("/v1/messages", &body, &[]).unwrap().text;
        assert!(
            stream.starts_with("event: message_start\n") && stream.contains("t000003"),
            "{provider}: {stream}"
        );
        assert!(stream.contains("\"type\":\"message_stop\""), "{provider}: {stream}");
    }
    let refused = proxy.post("/v1/messages", &json!({"model": "gemini/m", "messages": []}), &[]).unwrap();
    assert_eq!((refused.status, refused.json()["type"].as_str()), (400, Some("error")), "{}", refused.text);
}

#[test]
fn tokens_of_messages_are_counted_by_anthropic_and_cost_nothing() {
    let mock = Mock::start(&[]);
    let prices = "[[prices]]\nmodel = \"*\"\ninput = 1000000\noutput = 1000000\n";
    let proxy = Proxy::start(&format!("{}{prices}", tables(&mock)));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let limits = json!({"budget_per_day": 1_000_000});
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"], "limits": limits}));
    // its budget is overspent, which does not concern what costs nothing
    let bearer = |key: &str| format!("Bearer {key}");
    assert_eq!(proxy.chat(&ask("openai/m"), &[("authorization", &bearer(&key))]).unwrap().status, 200);
    let limits = json!({"limits": {"tokens_per_minute": 1, "budget_per_day": 0.1}}).to_string();
    let headers = [("authorization", bearer(&admin)), ("content-type", "application/json".to_owned())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let lowered = proxy.client.try_send("PATCH", "/v1/keys/2", &headers, Some(limits.as_bytes())).unwrap();
    assert_eq!(lowered.status, 200, "{}", lowered.text);
    let count = |model: &str| {
        let body = json!({"model": model, "system": "be brief", "messages": [{"role": "user", "content": "one two three"}]});
        proxy.post("/v1/messages/count_tokens", &body, &[("x-api-key", &key)]).unwrap()
    };
    for _ in 0..2 {
        let counted = count("anthropic/m");
        assert_eq!((counted.status, counted.text.as_str()), (200, r#"{"input_tokens":5}"#));
        assert_eq!(counted.header("x-ratelimit-remaining-tokens"), "1");
    }
    assert_eq!(mock.last()["path"], "/v1/messages/count_tokens");
    let usage = || {
        let sums =
            proxy.client.try_send("GET", "/v1/usage?group_by=key,model", &headers, None).unwrap().json();
        let found =
            sums["data"].as_array().unwrap().iter().find(|sum| sum["model"] == "anthropic/m").cloned();
        found.unwrap_or_default()
    };
    proxy.client.wait("the rows", || usage()["requests"] == 2);
    let sum = usage();
    assert_eq!(
        (&sum["prompt_tokens"], &sum["cost"], &sum["key_name"]),
        (&json!(0), &json!(0.0), &json!("app"))
    );
    let refused = count("openai/m");
    assert_eq!((refused.status, refused.json()["type"].as_str()), (400, Some("error")), "{}", refused.text);
}

#[test]
fn completions_and_responses_are_passed_on() {
    let mock = Mock::start(&["--tokens", "3"]);
    let proxy = before_all(&mock);
    let completion =
        proxy.post("/v1/completions", &json!({"model": "openai/m", "prompt": "a"}), &[]).unwrap().json();
    assert_eq!(completion["choices"][0]["text"], "t000001 t000002 t000003", "{completion}");
    let response =
        proxy.post("/v1/responses", &json!({"model": "openai/m", "input": "a"}), &[]).unwrap().json();
    assert_eq!(response["object"], "response", "{response}");
    let stream = proxy
        .post("/v1/responses", &json!({"model": "openai/m", "input": "a", "stream": true}), &[])
        .unwrap();
    assert!(stream.text.contains("response.completed"), "{}", stream.text);
    let refused = proxy.post("/v1/responses", &json!({"model": "anthropic/m", "input": "a"}), &[]).unwrap();
    assert_eq!(
        (refused.status, refused.json()["error"]["param"].as_str()),
        (400, Some("model")),
        "{}",
        refused.text
    );
}

#[test]
fn azure_ollama_and_vllm_have_openais_api_each_at_its_own_address() {
    let mock = Mock::start(&["--tokens", "2"]);
    let tables: String = [("azure", ""), ("azure-v1", "/openai/v1/"), ("ollama", "/v1"), ("vllm", "")]
        .map(|(id, path)| {
            let key = if id == "ollama" { "" } else { "api_key = \"env:PROVIDER_KEY\"\n" };
            let (provider, url) = (id.trim_end_matches("-v1"), mock.url(path));
            format!("[[upstreams]]\nid = \"{id}\"\nprovider = \"{provider}\"\nurl = \"{url}\"\n{key}")
        })
        .concat();
    let proxy = Proxy::start(&tables);
    let bearer = format!("Bearer {PROVIDER_KEY}");
    for (model, route, path, authorization, key) in [
        (
            "azure/gpt 4",
            "/v1/chat/completions",
            "/openai/deployments/gpt%204/chat/completions?api-version=2024-10-21",
            None,
            Some(PROVIDER_KEY),
        ),
        ("azure/m", "/v1/responses", "/openai/v1/responses", None, Some(PROVIDER_KEY)),
        ("azure-v1/m", "/v1/responses", "/openai/v1/responses", None, Some(PROVIDER_KEY)),
        ("azure-v1/m", "/v1/chat/completions", "/openai/v1/chat/completions", None, Some(PROVIDER_KEY)),
        ("ollama/m", "/v1/chat/completions", "/v1/chat/completions", None, None),
        ("vllm/m", "/v1/chat/completions", "/v1/chat/completions", Some(bearer.as_str()), None),
        ("vllm/m", "/v1/messages", "/v1/chat/completions", Some(bearer.as_str()), None),
    ] {
        for stream in [false, true] {
            let mut body = if stream { ask_stream(model) } else { ask(model) };
            body["input"] = "a".into();
            body["max_tokens"] = 9.into();
            let reply = proxy.post(route, &body, &[]).unwrap();
            assert!(reply.status == 200 && reply.text.contains("t000002"), "{model} {route}: {}", reply.text);
            assert_eq!(mock.last()["path"], path, "{model} {route}");
            assert_eq!(mock.last_header("authorization").as_deref(), authorization, "{model} {route}");
            assert_eq!(mock.last_header("api-key").as_deref(), key, "{model} {route}");
            let sent: Value = serde_json::from_str(mock.last()["body"].as_str().unwrap()).unwrap();
            assert_eq!(sent["model"], model.split_once('/').unwrap().1, "{model} {route}");
        }
    }
}

#[test]
fn a_body_that_cant_be_read_is_a_clear_error() {
    let mock = Mock::start(&[]);
    let proxy = before_all(&mock);
    for (body, code) in [
        ("{", "invalid_json"),
        ("[]", "invalid_json"),
        ("{}", "invalid_parameter"),
        (r#"{"model": 1}"#, "invalid_parameter"),
        (r#"{"model": "openai/m", "stream_options": {}}"#, "invalid_parameter"),
        (r#"{"model": "openai/m", "stream": "yes"}"#, "invalid_parameter"),
        (r#"{"model": "openai/m", "max_tokens": -5}"#, "invalid_parameter"),
    ] {
        let reply = proxy.client.send("POST", "/v1/chat/completions", Some(body.as_bytes()));
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_str()),
            (400, Some(code)),
            "{body}: {}",
            reply.text
        );
    }
    assert_eq!(mock.stats()["requests"], 0);
}

#[test]
fn a_gateway_for_chat_alone_needs_no_model() {
    let mock = Mock::start(&["--tokens", "4"]);
    let mut proxy = Proxy::start_with(&upstream("mock", &mock, ""), &[("WEIR_MODEL", "")]);
    let reply = proxy.chat(&ask("m"), &[]).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(proxy.client.get("/readyz").0, 200);
    for (path, body, code) in [
        ("/v1/embeddings", json!({"model": "m", "input": "a weir"}), "model_not_found"),
        ("/v1/rerank", json!({"query": "a", "documents": ["a weir"]}), "model_not_found"),
        ("/v1/search", json!({"query": "a weir"}), "collection_not_found"),
    ] {
        let reply = proxy.post(path, &body, &[]).unwrap();
        assert_eq!(reply.status, 404, "{path}: {}", reply.text);
        assert!(reply.text.contains(code), "{path}: {}", reply.text);
    }
    proxy.weir.kill();
    proxy.start_again(); // with a model, which the default collection gets
    let collections = proxy.client.get("/v1/collections").1;
    assert_eq!(collections["data"][0]["model"], "pseudo", "{collections}");
}
