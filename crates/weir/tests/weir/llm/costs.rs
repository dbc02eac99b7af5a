//! What requests cost, by class of token, and budgets that concurrent requests of any kind do not pass.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::setup::{Proxy, ask};

/// A provider that counts and charges as `answer` says: from the path and the body of a request, the body of its reply.
struct Counting(SocketAddr);

impl Counting {
    fn start(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Counting {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, answer) = (listener.local_addr().unwrap(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, answer) = (stream.unwrap(), answer.clone());
                std::thread::spawn(move || Counting::serve(stream, &*answer));
            }
        });
        Counting(address)
    }

    fn serve(mut stream: TcpStream, answer: &dyn Fn(&str, &Value) -> Value) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if reader.read_line(&mut first).unwrap_or(0) == 0 {
                return;
            }
            loop {
                let mut line = String::new();
                drop(reader.read_line(&mut line));
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            let reply = answer(&first, &serde_json::from_slice(&body).unwrap()).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
            if write!(stream, "{head}{}\r\n\r\n{reply}", reply.len()).is_err() {
                return;
            }
        }
    }

    fn upstream(&self, provider: &str) -> String {
        let path = if provider == "openai" { "/v1" } else { "" };
        format!("[[upstreams]]\nid = \"u\"\nprovider = \"{provider}\"\nurl = \"http://{}{path}\"\n", self.0)
    }
}

const PRICE: &str = "[[prices]]\nmodel = \"*\"\ninput = 3\ncached_input = 0.3\noutput = 15\n";

fn chat(usage: &Value) -> Value {
    let message = json!({"role": "assistant", "content": "ok"});
    json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})
}

fn classes(sum: &Value) -> Vec<(String, u64, f64)> {
    let of = |class: &Value| {
        let name = class["name"].as_str().unwrap().to_owned();
        (name, class["units"].as_u64().unwrap(), class["cost"].as_f64().unwrap())
    };
    sum["classes"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn costs_are_in_the_header_and_in_the_usage_by_class() {
    let usage = json!({"prompt_tokens": 2000, "completion_tokens": 100, "total_tokens": 2100,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1900}});
    let provider = Counting::start(move |_, _| chat(&usage));
    let proxy = Proxy::start(&format!("{}{PRICE}", provider.upstream("openai")));
    let reply = proxy.chat(&ask("m"), &[]).unwrap();
    assert_eq!(reply.header("x-weir-cost"), "0.008925");
    proxy.client.wait("the row", || proxy.usage_of("m")["requests"] == 1);
    let expected = [("cache_write", 1_900, 0.007_125), ("input", 100, 0.000_3), ("output", 100, 0.001_5)];
    let found = classes(&proxy.usage_of("m"));
    assert_eq!(found, expected.map(|(class, units, cost)| (class.to_owned(), units, cost)));
}

#[test]
fn caches_of_five_minutes_and_of_an_hour_have_prices_of_their_own() {
    let usage = json!({"input_tokens": 100, "cache_creation_input_tokens": 2000, "cache_read_input_tokens": 1000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 1000}, "output_tokens": 50});
    let provider = Counting::start(move |_, _| {
        json!({"id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": "end_turn", "stop_sequence": null,
            "content": [{"type": "text", "text": "ok"}], "usage": usage})
    });
    let proxy = Proxy::start(&format!("{}{PRICE}", provider.upstream("anthropic")));
    let mut body = ask("c");
    body["max_tokens"] = 50.into();
    for path in ["/v1/messages", "/v1/chat/completions"] {
        assert_eq!(proxy.post(path, &body, &[]).unwrap().header("x-weir-cost"), "0.0111", "{path}");
    }
}

#[test]
fn a_tier_that_is_not_sent_on_changes_no_price() {
    let provider = Counting::start(|_, body| {
        let mut reply = chat(&json!({"prompt_tokens": 1000, "completion_tokens": 0}));
        if body["messages"][0]["content"] == "soon" {
            reply["service_tier"] = "priority".into();
        }
        reply
    });
    let tier = |name: &str, input: u32| {
        format!("[[prices]]\nmodel = \"*\"\nservice_tier = \"{name}\"\ninput = {input}\noutput = 15\n")
    };
    let tables =
        [provider.upstream("openai"), PRICE.to_owned(), tier("flex", 1), tier("priority", 6)].concat();
    let proxy = Proxy::start(&tables);
    for (path, text, cost) in [
        ("/v1/messages", "Hi", "0.003"),
        ("/v1/messages", "soon", "0.006"),
        ("/v1/chat/completions", "Hi", "0.001"),
        ("/v1/chat/completions", "soon", "0.006"),
    ] {
        let body = json!({"model": "m", "max_tokens": 5, "service_tier": "flex", "messages": [{"role": "user", "content": text}]});
        let reply = proxy.post(path, &body, &[]).unwrap();
        assert_eq!(reply.header("x-weir-cost"), cost, "{path} {text}: {}", reply.text);
    }
}

#[test]
fn a_model_without_a_configured_price_has_the_public_one_or_is_counted_as_unpriced() {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 1000});
    let provider = Counting::start(move |_, _| chat(&usage));
    let proxy = Proxy::start(&provider.upstream("openai"));
    assert_eq!(proxy.chat(&ask("gpt-4o"), &[]).unwrap().header("x-weir-cost"), "0.0125");
    let unknown = proxy.chat(&ask("no-such-model"), &[]).unwrap();
    assert_eq!((unknown.status, unknown.header("x-weir-cost")), (200, ""));
    let of = |model: &str, value: u32| {
        format!("weir_model_requests_without_price_total{{model=\"{model}\",upstream=\"u\"}} {value}\n")
    };
    let metrics = || proxy.client.try_send("GET", "/metrics", &[], None).unwrap().text;
    proxy.client.wait("the metric", || metrics().contains(&of("no-such-model", 1)));
    assert!(metrics().contains(&of("gpt-4o", 0)));
}

#[test]
fn a_call_that_condenses_the_question_is_booked_to_its_own_model() {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 0});
    let provider = Counting::start(move |_, _| chat(&usage));
    let price =
        |model: &str, input: u32| format!("[[prices]]\nmodel = \"{model}\"\ninput = {input}\noutput = 0\n");
    let tables = [provider.upstream("openai"), price("m", 2), price("small", 1)].concat();
    let proxy = Proxy::start(&tables);
    let documents = json!({"documents": [{"id": "weirs", "text": "A weir is a low dam."}]});
    assert!(proxy.post("/v1/ingest?wait=true", &documents, &[]).unwrap().status < 300);
    let messages = json!([{"role": "user", "content": "What is a weir?"}, {"role": "assistant", "content": "A dam."},
        {"role": "user", "content": "And how high?"}]);
    let weir = json!({"collection": "default", "top_k": 1, "condense_model": "small"});
    let reply = proxy.chat(&json!({"model": "m", "messages": messages, "weir": weir}), &[]).unwrap();
    assert_eq!((reply.status, reply.header("x-weir-cost")), (200, "0.003"), "{}", reply.text);
    proxy
        .client
        .wait("the rows", || ["m", "small"].iter().all(|model| proxy.usage_of(model)["requests"] == 1));
    assert_eq!(proxy.usage_of("m")["cost"], 0.002);
    assert_eq!(proxy.usage_of("small")["cost"], 0.001);
}

/// A provider that counts more than the request shows: images, one token for each word, stored conversations.
fn charging(path: &str, body: &Value) -> Value {
    std::thread::sleep(Duration::from_millis(50));
    let text = body.to_string();
    let limit = body["max_tokens"].as_u64().or(body["max_output_tokens"].as_u64()).unwrap_or(7).min(1_000);
    let (prompt, completion) = if text.contains("image_url") {
        (1_105 * text.matches("\"image_url\":{").count(), 1)
    } else if text.contains("previous_response_id") {
        (20_000, 1)
    } else if text.contains("a a a") {
        (text.matches("a ").count(), 1)
    } else {
        (5, limit)
    };
    if path.contains("responses") {
        let usage = json!({"input_tokens": prompt, "output_tokens": completion});
        return json!({"id": "r", "object": "response", "output": [], "usage": usage});
    }
    chat(&json!({"prompt_tokens": prompt, "completion_tokens": completion * body["n"].as_u64().unwrap_or(1)}))
}

#[test]
fn concurrent_requests_of_any_kind_do_not_pass_a_budget() {
    let provider = Counting::start(charging);
    let price = "[[prices]]\nmodel = \"*\"\ninput = 1000\noutput = 1000\n";
    let proxy = Proxy::start(&format!("{}{price}", provider.upstream("openai")));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let ask = |content: Value, more: Value| {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let image = json!({"type": "image_url", "image_url": {"url": "http://x/a.png", "detail": "high"}});
    let previous =
        json!({"model": "m", "input": "go on", "previous_response_id": "resp_1", "max_output_tokens": 1});
    let kinds = [
        ("control", ask("hi".into(), json!({"max_tokens": 300})), 2),
        ("choices", ask("hi".into(), json!({"max_tokens": 1, "n": 200})), 2),
        ("both limits", ask("hi".into(), json!({"max_tokens": 1000, "max_completion_tokens": 1})), 0),
        ("images", ask(json!([image]), json!({"max_tokens": 1})), 0),
        ("words", ask("a ".repeat(400).into(), json!({"max_tokens": 1})), 2),
        ("no limit", ask("hi".into(), json!({})), 0),
        ("previous", previous, 0),
    ];
    for (name, body, answered_min) in kinds {
        let limits = json!({"budget_per_day": 1});
        let key = proxy.key(&admin, &json!({"name": name, "scopes": ["chat"], "limits": limits}));
        let bearer = format!("Bearer {key}");
        let path = if name == "previous" { "/v1/responses" } else { "/v1/chat/completions" };
        let answered = std::thread::scope(|scope| {
            let send = || proxy.post(path, &body, &[("authorization", &bearer)]).unwrap().status;
            let threads: Vec<_> = (0..40).map(|_| scope.spawn(send)).collect();
            let statuses: Vec<u16> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{name}: {statuses:?}");
            statuses.iter().filter(|status| **status == 200).count()
        });
        let headers = [("authorization", format!("Bearer {admin}"))];
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let keys = proxy.client.try_send("GET", "/v1/keys", &headers, None).unwrap().json();
        let key = keys["data"].as_array().unwrap().iter().find(|key| key["name"] == name).cloned().unwrap();
        let spent = key["spent"]["day"].as_f64().unwrap();
        assert!(spent <= 1.000_001 && answered >= answered_min, "{name}: {spent} spent, {answered} answered");
    }
}

#[test]
fn an_image_counts_as_an_image_and_not_by_its_bytes() {
    let provider = Counting::start(|_, _| chat(&json!({"prompt_tokens": 1105, "completion_tokens": 50})));
    let price = "[[prices]]\nmodel = \"*\"\ninput = 2.5\noutput = 10\n";
    let proxy = Proxy::start(&format!("{}{price}", provider.upstream("openai")));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let limits = json!({"tokens_per_minute": 100_000, "budget_per_day": 1});
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"], "limits": limits}));
    let url = format!("data:image/png;base64,{}", "A".repeat(1_000_000));
    let content =
        json!([{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}}]);
    let body = json!({"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": content}]});
    let reply = proxy.chat(&body, &[("authorization", &format!("Bearer {key}"))]).unwrap();
    assert_eq!((reply.status, reply.header("x-weir-cost")), (200, "0.0032625"), "{}", reply.text);
    // the same characters as text are text
    let text = json!([{"type": "text", "text": url}]);
    let body = json!({"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}]});
    assert_eq!(proxy.chat(&body, &[("authorization", &format!("Bearer {key}"))]).unwrap().status, 429);
}
