//! How replies end: what an error costs that the provider counted, what is an error within events, and what comes after the last one.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::setup::{Proxy, Scripted, ask, ask_stream, read_to_close};

const PRICE: &str = "[[prices]]\nmodel = \"*\"\ninput = 2\noutput = 20\n";
/// Routes that keep replies, one for each provider.
const KEPT: &str =
    "[[routes]]\nmodel = \"c\"\ncache = { mode = \"exact\" }\ntargets = [{ upstream = \"first\" }]\n";

fn head(media: &str, length: Option<usize>) -> String {
    let length = length.map_or_else(String::new, |length| format!("content-length: {length}\r\n"));
    format!("200 OK\r\ncontent-type: {media}\r\nconnection: close\r\n{length}\r\n")
}

/// A provider that always replies so.
fn whole(body: &str) -> Scripted {
    let reply = format!("{}{body}", head("application/json", Some(body.len())));
    Scripted::in_parts(vec![(Duration::ZERO, reply.into_bytes())], Duration::from_millis(10))
}

/// A provider of this stream, which keeps the connection for a while.
fn stream(text: &str, open_for: Duration) -> Scripted {
    let reply = format!("{}{text}", head("text/event-stream", None));
    Scripted::in_parts(vec![(Duration::ZERO, reply.into_bytes())], open_for)
}

/// A request of a route for a stream.
fn streamed(model: &str, path: &str) -> Value {
    let mut request = ask_stream(model);
    if path == "/v1/messages" {
        request["max_tokens"] = 9.into();
    }
    request
}

const BRIEF: Duration = Duration::from_millis(10);
const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A dam\"}}]}\n\n";
const END: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[test]
fn an_error_that_the_provider_counted_is_charged_and_asked_for_once_more_at_most() {
    let counted = r#""usage":{"prompt_tokens":1000,"completion_tokens":5000}"#;
    for (path, provider, body) in [
        (
            "/v1/chat/completions",
            "gemini",
            r#"{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}],"usageMetadata":{"promptTokenCount":1000,"thoughtsTokenCount":5000}}"#.to_owned(),
        ),
        (
            "/v1/chat/completions",
            "gemini",
            r#"{"candidates":[],"usageMetadata":{"promptTokenCount":1000,"thoughtsTokenCount":5000}}"#.to_owned(),
        ),
        (
            "/v1/chat/completions",
            "openai",
            format!(r#"{{"choices":[{{"message":{{"content":""}},"finish_reason":"insufficient_system_resource"}}],{counted}}}"#),
        ),
        (
            "/v1/messages",
            "openai",
            format!(r#"{{"choices":[{{"message":{{"content":""}},"finish_reason":"error"}}],{counted}}}"#),
        ),
        (
            "/v1/responses",
            "openai",
            r#"{"status":"failed","error":{"message":"m"},"output":[],"usage":{"input_tokens":1000,"input_tokens_details":{},"output_tokens":5000}}"#.to_owned(),
        ),
    ] {
        let first = whole(&body);
        let proxy = Proxy::start(&format!("{}{PRICE}", first.upstream_of(provider, "first", "")));
        let request = json!({"model": "m", "max_tokens": 9, "input": "hi", "messages": [{"role": "user", "content": "hi"}]});
        let reply = proxy.post(path, &request, &[]).unwrap();
        assert_eq!(reply.status, 502, "{body}: {}", reply.text);
        let asked = first.requests.load(Ordering::Relaxed);
        assert_eq!(asked, 2, "{body}");
        proxy.client.wait("the row", || proxy.usage_of("m")["requests"] == 1);
        assert_eq!(proxy.usage_of("m")["cost"], 0.204, "{body}");
    }
}

#[test]
fn an_error_by_its_status_that_the_provider_counted_is_charged_too() {
    let body = r#"{"error":{"message":"m"},"usage":{"prompt_tokens":1000,"completion_tokens":5000}}"#;
    for (status, asked, cost) in [
        ("500 Internal Server Error", 2, 0.204),
        ("429 Too Many Requests", 2, 0.204),
        ("400 Bad Request", 1, 0.102),
        ("404 Not Found", 1, 0.102),
    ] {
        let length = body.len();
        let reply = format!(
            "{status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let first = Scripted::in_parts(vec![(Duration::ZERO, reply.into_bytes())], BRIEF);
        let proxy = Proxy::start(&format!("{}{PRICE}", first.upstream_of("openai", "first", "")));
        assert!(proxy.post("/v1/chat/completions", &ask("m"), &[]).unwrap().status >= 400);
        assert_eq!(first.requests.load(Ordering::Relaxed), asked, "{status}");
        proxy.client.wait("the row", || proxy.usage_of("m")["requests"] == 1);
        assert_eq!(proxy.usage_of("m")["cost"], cost, "{status}");
    }
}

#[test]
fn an_answer_whose_tokens_the_provider_did_not_count_is_estimated() {
    let cost = |first: Scripted, request: &Value| {
        let proxy = Proxy::start(&format!("{}{PRICE}", first.upstream("first", "")));
        let reply = proxy.post("/v1/chat/completions", request, &[]).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text);
        proxy.client.wait("the row", || proxy.usage_of("m")["requests"] == 1);
        proxy.usage_of("m")["cost"].as_f64().unwrap()
    };
    let text = "word ".repeat(2_000);
    for usage in [r#"{"prompt_tokens":10}"#, r#"{"prompt_tokens":10,"completion_tokens":0}"#] {
        let message = format!(r#"{{"role":"assistant","content":"{text}"}}"#);
        let body = format!(
            r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}],"usage":{usage}}}"#
        );
        let cost = cost(whole(&body), &ask("m"));
        assert!((0.04..0.06).contains(&cost), "about 2,300 tokens for {usage}: {cost}");
    }
    let empty = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":0}}"#;
    assert_eq!(cost(whole(empty), &ask("m")), 0.00002, "no answer");
    let counted = |completion: u64| {
        let usage = format!(r#"{{"prompt_tokens":10,"completion_tokens":{completion}}}"#);
        format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\n")
    };
    let events = TEXT.repeat(100);
    for (events, expected) in [
        (format!("{}{events}{END}", counted(1)), 0.00206),
        (format!("{events}{}{END}", counted(0)), 0.00208),
        (format!("{}{events}{}{END}", counted(1), counted(50)), 0.00102),
    ] {
        let cost = cost(stream(&events, BRIEF), &ask_stream("m"));
        assert!((cost - expected).abs() < 0.0001, "{cost} instead of {expected}");
    }
}

#[test]
fn an_error_of_any_form_ends_a_stream_and_is_not_kept() {
    for error in [
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"r\",\"error\":\"over capacity\"}}\n\n",
        "event: error\ndata: {\"message\":\"over capacity\",\"code\":503}\n\n",
        "data: {\"detail\":\"over capacity\"}\n\n",
    ] {
        for (path, before) in [
            ("/v1/chat/completions", TEXT),
            ("/v1/messages", TEXT),
            ("/api/chat", TEXT),
            ("/v1/chat/completions", ""),
            ("/v1/messages", ""),
        ] {
            let first = stream(&format!("{before}{error}{END}"), BRIEF);
            let upstream = first.upstream("first", "retry_broken_replies = false");
            let proxy = Proxy::start(&format!("{upstream}{KEPT}"));
            let request = streamed("c", path);
            for asked in 1..=2 {
                if before.is_empty() {
                    let reply = proxy.post(path, &request, &[]).unwrap();
                    assert_eq!(reply.status, 502, "{path} {error}: {}", reply.text);
                } else {
                    let (read, _) = read_to_close(&mut proxy.open_at(path, &request, &[]));
                    assert!(
                        read.contains("A dam") && read.contains("over capacity"),
                        "{path} {error}: {read}"
                    );
                    assert!(!read.contains("message_stop"), "{path} {error}: {read}");
                }
                assert_eq!(first.requests.load(Ordering::Relaxed), asked, "{path} {error}: it was kept");
            }
        }
    }
}

#[test]
fn a_reply_that_a_caller_of_ollama_can_not_read_is_not_kept() {
    let broken = r#"{"choices":[{"index":0,"message":{"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"text\":"}}]},"finish_reason":"stop"}]}"#;
    let first = whole(broken);
    let proxy = Proxy::start(&format!("{}{KEPT}", first.upstream("first", "retry_broken_replies = false")));
    let mut request = ask("c");
    request["stream"] = false.into();
    for asked in 1..=2 {
        let reply = proxy.post("/api/chat", &request, &[]).unwrap();
        assert_eq!((reply.status, first.requests.load(Ordering::Relaxed)), (502, asked), "{}", reply.text);
    }
    let nothing = stream(&format!("{TEXT}data: null\n\n{END}"), BRIEF);
    let proxy = Proxy::start(&format!("{}{KEPT}", nothing.upstream("first", "retry_broken_replies = false")));
    for asked in 1..=2 {
        let (read, _) = read_to_close(&mut proxy.open(&ask_stream("c"), &[]));
        assert!(read.contains("upstream_error"), "{read}");
        assert_eq!(nothing.requests.load(Ordering::Relaxed), asked);
    }
}

#[test]
fn nothing_counts_after_the_last_event() {
    let late = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" late\"}}]}\n\n";
    let first = stream(&format!("{TEXT}{END}{late}"), Duration::from_secs(5));
    let limits = "idle_timeout_ms = 1500\nretry_broken_replies = false";
    let proxy = Proxy::start(&format!("{}{KEPT}", first.upstream("first", limits)));
    for (path, last) in [
        ("/v1/chat/completions", "data: [DONE]"),
        ("/v1/messages", "event: message_stop"),
        ("/api/chat", "\"done\":true"),
    ] {
        let request = streamed("c", path);
        let started = Instant::now();
        let (read, is_whole) = read_to_close(&mut proxy.open_at(path, &request, &[]));
        assert!(is_whole && read.contains(last) && !read.contains("late"), "{path}: {read}");
        assert!(!read.contains("error"), "{path}: {read}");
        assert!(started.elapsed() < Duration::from_millis(1_400), "{path}: {:?}", started.elapsed());
    }
    assert_eq!(first.requests.load(Ordering::Relaxed), 3);
}

#[test]
fn signs_of_life_do_not_put_off_the_first_event() {
    let empty = [b"data:\n\n".to_vec(), vec![b'\n'; 60_000]];
    for (sign, path) in [(0, "/v1/messages"), (1, "/v1/chat/completions"), (1, "/v1/messages")] {
        let pause = Duration::from_millis(10);
        let mut parts = vec![(Duration::ZERO, head("text/event-stream", None).into_bytes())];
        parts.extend((0..500).map(|_| (pause, empty[sign].clone())));
        let first = Scripted::in_parts(parts, BRIEF);
        let limits = "first_token_timeout_ms = 1000\nretry_broken_replies = false";
        let proxy = Proxy::start(&first.upstream("first", limits));
        let request = streamed("m", path);
        let started = Instant::now();
        // the head may have gone to the caller with the first sign: then the reply breaks off
        let reply = proxy.post(path, &request, &[]);
        let took = started.elapsed();
        assert!(reply.is_none_or(|reply| reply.status == 504), "{path}");
        assert!(took < Duration::from_secs(3), "{path}: {took:?}");
    }
}

#[test]
fn a_limit_of_nothing_reserves_what_a_reply_without_a_limit_may_cost() {
    let body = r#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":400}}"#;
    let first = whole(body);
    let proxy = Proxy::start(&format!(
        "{}[[prices]]\nmodel = \"*\"\ninput = 1000\noutput = 1000\n",
        first.upstream("first", "")
    ));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin", "chat"]}));
    let key = proxy.key(&admin, &json!({"name": "k", "scopes": ["chat"], "limits": {"budget_per_day": 1}}));
    let bearer = format!("Bearer {key}");
    let mut request = ask("m");
    request["max_tokens"] = 0.into();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = || proxy.chat(&request, &[("authorization", &bearer)]).unwrap().status;
        let senders: Vec<_> = (0..12).map(|_| scope.spawn(send)).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let answered = statuses.iter().filter(|status| **status == 200).count();
    assert!(answered <= 3, "{statuses:?}");
}
