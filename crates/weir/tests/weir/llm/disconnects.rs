//! Problem 2: a client that leaves cancels the upstream's work, in all three phases. Problem 3: what was used by then is counted.

use std::time::{Duration, Instant};

use serde_json::json;

use super::setup::{Mock, Proxy, ask, ask_stream, read_until, upstream};

/// The upstream sees that a client has left within this time, in the best of [`TRIES`].
const CANCELLATION_MAX: Duration = Duration::from_millis(100);
const TRIES: usize = 5;

#[test]
fn a_client_that_leaves_cancels_the_upstream_in_every_phase() {
    let mock = Mock::start(&["--tokens", "200"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    for (phase, body, headers, seen) in [
        ("before_headers", ask("m"), [("x-mock-latency-ms", "60000")], ""),
        ("before_headers", ask_stream("m"), [("x-mock-latency-ms", "60000")], ""),
        ("before_first_token", ask_stream("m"), [("x-mock-first-token-ms", "60000")], ""),
        ("midstream", ask_stream("m"), [("x-mock-token-ms", "100")], "t000002"),
    ] {
        let cancelled = || mock.stats()["cancelled"][phase].as_u64().unwrap();
        let times: Vec<Duration> = (0..TRIES)
            .map(|_| {
                let before = cancelled();
                let mut client = proxy.open(&body, &headers);
                if seen.is_empty() {
                    proxy.client.wait("the request", || mock.stats()["requests_open"] == 1);
                    std::thread::sleep(Duration::from_millis(50));
                } else {
                    read_until(&mut client, seen);
                }
                drop(client);
                let left = Instant::now();
                while cancelled() == before {
                    assert!(left.elapsed() < Duration::from_secs(30), "{phase}: the upstream still works");
                    std::thread::sleep(Duration::from_millis(1));
                }
                left.elapsed()
            })
            .collect();
        println!("{phase}: cancelled after {times:?}");
        assert!(times.iter().any(|time| *time <= CANCELLATION_MAX), "{phase}: {times:?}");
    }
}

#[test]
fn tokens_of_a_stream_that_the_client_left_are_counted() {
    let mock = Mock::start(&["--tokens", "200"]);
    let claude = upstream("claude", &mock, "").replace("\"openai\"", "\"anthropic\"").replace("/v1\"", "\"");
    let proxy = Proxy::start(&format!("{}{claude}", upstream("mock", &mock, "")));
    // Anthropic counts the prompt when a stream begins, four words, and nothing or a token of the completion
    for (path, model, prompt) in [
        ("/v1/chat/completions", "mock/m", 10),
        ("/v1/chat/completions", "claude/m", 4),
        ("/v1/messages", "claude/n", 4),
        ("/v1/messages", "mock/n", 10),
    ] {
        let mut body = ask_stream(model);
        body["max_tokens"] = 300.into();
        let mut client = proxy.open_at(path, &body, &[("x-mock-token-ms", "20")]);
        read_until(&mut client, "t000005");
        drop(client);
        let row = || proxy.usage_of(model);
        proxy.client.wait("the row", || row()["requests"] == 1);
        let row = row();
        assert!(row["completion_tokens"].as_u64().unwrap() >= 5, "{row}");
        assert!(row["prompt_tokens"].as_u64().unwrap() >= prompt, "{row}");
        assert_eq!((&row["model"], &row["requests"]), (&json!(model), &json!(1)));
    }
}

#[test]
fn a_request_without_a_whole_reply_has_cost_its_prompt() {
    let mock = Mock::start(&["--tokens", "200"]);
    let proxy = Proxy::start(&upstream("mock", &mock, "header_timeout_ms = 400\n"));
    for (model, fault, status) in [
        ("broken", ("x-mock-drop-midstream", "1"), 502),
        ("dropped", ("x-mock-drop-headers", "1"), 502),
        ("late", ("x-mock-latency-ms", "60000"), 504),
    ] {
        let reply = proxy.chat(&ask(model), &[fault]).unwrap();
        assert_eq!(reply.status, status, "{model}: {}", reply.text);
        let row = || proxy.usage_of(model);
        proxy.client.wait("the row", || row()["requests"] == 1);
        assert!(row()["prompt_tokens"].as_u64().unwrap() >= 10, "{model}: {}", row());
    }
    // a refusal costs nothing
    let reply = proxy.chat(&ask("refused"), &[("x-mock-status-500", "1")]).unwrap();
    assert_eq!(reply.status, 502, "{}", reply.text);
    // and is summed without a name that anybody may invent
    let rows = || proxy.client.get("/v1/usage?group_by=model").1["data"].as_array().unwrap().clone();
    let row = || rows().into_iter().find(|row| row["model"].is_null()).unwrap_or_default();
    proxy.client.wait("the row", || row()["errors"] == 1);
    assert_eq!(row()["prompt_tokens"], 0, "{}", row());
}
