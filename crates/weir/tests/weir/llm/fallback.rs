//! Problem 11: another upstream takes over until the first event, and a stream that breaks later never looks complete.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, Scripted, ask, ask_stream, read_to_close, read_until, upstream};

/// A gateway whose route tries a broken mock first and a good one then.
fn before_two(broken: &[&str]) -> (Mock, Mock, Proxy) {
    let (broken, good) = (Mock::start(broken), Mock::start(&["--tokens", "3"]));
    let more = "retries_max = 0\nheader_timeout_ms = 500\nfirst_token_timeout_ms = 500\n";
    let route = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"broken\" }, { upstream = \"good\", model = \"n\", priority = 1 }]\n";
    let proxy =
        Proxy::start(&format!("{}{}{route}", upstream("broken", &broken, more), upstream("good", &good, "")));
    (broken, good, proxy)
}

#[test]
fn another_upstream_takes_over_until_the_first_event() {
    for broken in [
        ["--status", "500"],
        ["--status", "429"],
        ["--status", "401"],
        ["--drop-headers", "1"],
        ["--drop-first-token", "1"],
        ["--stall-headers", "1"],
        ["--stall-first-token", "1"],
    ] {
        let (first, good, proxy) = before_two(&broken);
        let reply = proxy.chat(&ask_stream("m"), &[]).unwrap();
        assert_eq!(reply.status, 200, "{broken:?} {}", reply.text);
        assert_eq!(reply.header("x-weir-upstream"), "good");
        assert!(reply.text.contains("t000003") && reply.text.ends_with("data: [DONE]\n\n"), "{}", reply.text);
        assert_eq!(first.stats()["requests"], 1, "{broken:?}");
        let sent: Value = serde_json::from_str(good.last()["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["model"], "n");
    }
}

/// A provider may charge for what it took and did not answer.
#[test]
fn the_prompt_counts_at_each_upstream_that_may_have_received_it() {
    let prompt_tokens = |first: &[&str], second: &[&str]| {
        let (first, second) = (Mock::start(first), Mock::start(second));
        let more = "retries_max = 0\nheader_timeout_ms = 500\n";
        let route = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"first\" }, { upstream = \"second\", priority = 1 }]\n";
        let upstreams = [upstream("first", &first, more), upstream("second", &second, "")].concat();
        let proxy = Proxy::start(&format!("{upstreams}{route}"));
        proxy.chat(&ask("m"), &[]).unwrap();
        proxy.client.wait("the row", || proxy.usage_of("m")["requests"] == 1);
        proxy.usage_of("m")["prompt_tokens"].as_u64().unwrap()
    };
    let once = prompt_tokens(&["--status", "500"], &[]);
    let refused = prompt_tokens(&["--status", "500"], &["--status", "400"]);
    let [dropped, late] =
        ["--drop-headers", "--stall-headers"].map(|fault| prompt_tokens(&[fault, "1"], &["--status", "400"]));
    assert!(once > 0 && refused == 0, "{once} {refused}");
    assert!(dropped >= 10 && late == dropped, "{dropped} {late}");
    assert_eq!(prompt_tokens(&["--drop-headers", "1"], &[]), dropped + once);
}

#[test]
fn a_target_that_cannot_be_asked_takes_no_retry_away() {
    let (busy, other) = (Mock::start(&["--status", "503"]), Mock::start(&[]));
    let route = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"busy\" }, { upstream = \"other\", priority = 1 }]\n";
    let anthropic =
        format!("[[upstreams]]\nid = \"other\"\nprovider = \"anthropic\"\nurl = \"{}\"\n", other.url(""));
    let proxy = Proxy::start(&format!("{}{anthropic}{route}", upstream("busy", &busy, "retries_max = 2\n")));
    let mut body = ask("m");
    body["n"] = 2.into();
    let reply = proxy.chat(&body, &[]).unwrap();
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (502, &"upstream_error".into()));
    assert_eq!((busy.stats()["requests"].as_u64(), other.stats()["requests"].as_u64()), (Some(3), Some(0)));
}

#[test]
fn a_retry_is_not_proposed_where_the_provider_refuses_the_key() {
    let mock = Mock::start(&["--status", "401"]);
    let reply = Proxy::start(&upstream("mock", &mock, "")).chat(&ask("m"), &[]).unwrap();
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (502, &"upstream_credentials".into()));
    assert_eq!((reply.header("retry-after"), reply.header("x-should-retry")), ("", "false"));
    assert!(!reply.text.contains("Retry"), "{}", reply.text);
}

/// A gateway whose route tries a provider with this stream first and a mock then.
fn before_scripted(events: &'static str, more: &str) -> (Scripted, Mock, Proxy) {
    let (first, good) = (Scripted::start(events, Duration::from_secs(5)), Mock::start(&["--tokens", "3"]));
    let route = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"first\" }, { upstream = \"good\", priority = 1 }]\n";
    let tables = format!("{}{}{route}", first.upstream("first", more), upstream("good", &good, ""));
    let proxy = Proxy::start(&tables);
    (first, good, proxy)
}

#[test]
fn a_comment_is_no_first_event() {
    let comment = "200 OK\r\ncontent-type: text/event-stream\r\n\r\n: processing\n\n";
    let (_first, _good, proxy) = before_scripted(comment, "first_token_timeout_ms = 300\n");
    let reply = proxy.chat(&ask_stream("m"), &[]).unwrap();
    assert_eq!((reply.status, reply.header("x-weir-upstream")), (200, "good"), "{}", reply.text);
}

#[test]
fn a_stream_that_begins_with_an_error_goes_to_the_next_target() {
    let error =
        "200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"error\":{\"message\":\"no room\"}}\n\n";
    let (_first, _good, proxy) = before_scripted(error, "");
    let reply = proxy.chat(&ask_stream("m"), &[]).unwrap();
    assert_eq!((reply.status, reply.header("x-weir-upstream")), (200, "good"), "{}", reply.text);
    let alone = proxy.chat(&ask_stream("first/m"), &[]).unwrap();
    assert!(alone.status == 502 && alone.text.contains("no room"), "{} {}", alone.status, alone.text);
}

#[test]
fn an_error_of_the_request_goes_to_the_caller_as_it_is() {
    let (_broken, good, proxy) = before_two(&["--status", "400"]);
    let reply = proxy.chat(&ask("m"), &[]).unwrap();
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(reply.json()["error"]["message"].is_string(), "{}", reply.text);
    assert_eq!(good.stats()["requests"], 0);
}

#[test]
fn a_failure_before_any_charge_is_tried_again() {
    // about half of the requests fail; two retries within the budget
    let mock = Mock::start(&["--status-503", "0.3"]);
    let proxy = Proxy::start(&upstream("mock", &mock, "retries_max = 5\n"));
    for _ in 0..8 {
        assert_eq!(proxy.chat(&ask("m"), &[]).unwrap().status, 200);
    }
    assert!(mock.stats()["requests"].as_u64().unwrap() > 8);
}

#[test]
fn a_request_that_the_upstream_may_have_is_sent_there_at_most_once_more() {
    let mock = Mock::start(&[]);
    let proxy = Proxy::start(&upstream("mock", &mock, "retries_max = 5\n"));
    // on a new connection, and on one that was used before
    for requests in [2, 5] {
        let reply = proxy.chat(&ask("m"), &[("x-mock-drop-headers", "1")]).unwrap();
        assert!(reply.status == 502 && reply.text.contains("broke off"), "{} {}", reply.status, reply.text);
        assert_eq!(mock.stats()["requests"], requests);
        assert_eq!(proxy.chat(&ask("m"), &[]).unwrap().status, 200);
    }
}

#[test]
fn targets_that_cannot_serve_a_request_are_left_out() {
    let mock = Mock::start(&["--tokens", "2"]);
    let claude =
        format!("[[upstreams]]\nid = \"claude\"\nprovider = \"anthropic\"\nurl = \"{}\"\n", mock.url(""));
    let gone =
        upstream("gone", &mock, "retries_max = 0\n").replace(&mock.url("/v1"), "http://127.0.0.1:9/v1");
    let routes = r#"
[[routes]]
model = "mixed"
targets = [{ upstream = "openai" }, { upstream = "claude" }]
[[routes]]
model = "down"
targets = [{ upstream = "gone" }, { upstream = "claude", priority = 1 }]
"#;
    let proxy = Proxy::start(&format!("{}{claude}{gone}{routes}", upstream("openai", &mock, "")));
    for (path, chosen) in
        [("/v1/responses", "openai"), ("/v1/messages/count_tokens", "claude"), ("/v1/completions", "openai")]
    {
        let mut body = ask("mixed");
        (body["input"], body["prompt"]) = ("a".into(), "a".into());
        for _ in 0..8 {
            let reply = proxy.post(path, &body, &[]).unwrap();
            assert_eq!(
                (reply.status, reply.header("x-weir-upstream")),
                (200, chosen),
                "{path}: {}",
                reply.text
            );
        }
    }
    // Anthropic gives one reply: what is told is the failure of the target that can give two
    let mut two = ask("down");
    two["n"] = 2.into();
    let reply = proxy.chat(&two, &[]).unwrap();
    assert!(reply.status == 502 && reply.text.contains("`gone`"), "{} {}", reply.status, reply.text);
    assert_eq!(proxy.chat(&ask("down"), &[]).unwrap().header("x-weir-upstream"), "claude");
}

#[test]
fn a_long_retry_after_is_told_and_not_waited_for() {
    let mock = Mock::start(&["--status-429", "1", "--retry-after-s", "20"]);
    let proxy = Proxy::start(&upstream("mock", &mock, "retries_max = 5\n"));
    let started = Instant::now();
    let reply = proxy.chat(&ask("m"), &[]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!((reply.status, reply.header("retry-after")), (503, "20"), "{}", reply.text);
    assert_eq!(mock.stats()["requests"], 1);
}

#[test]
fn a_stream_that_breaks_ends_by_an_error_event_and_a_closed_connection() {
    let mock = Mock::start(&["--tokens", "6"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let mut client = proxy.open(&ask_stream("m"), &[("x-mock-drop-midstream", "1")]);
    read_until(&mut client, "t000001");
    let (rest, is_whole) = read_to_close(&mut client);
    assert!(rest.contains("\"code\":\"upstream_error\""), "{rest}");
    assert!(!rest.contains("[DONE]") && !is_whole, "{rest}");
}

#[test]
fn a_chat_stream_is_whole_by_its_finish_reason_and_others_by_their_last_event() {
    let mock = Mock::start(&["--tokens", "6", "--no-done", "1"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let chat = proxy.chat(&ask_stream("m"), &[]).unwrap();
    assert_eq!(chat.text.matches("[DONE]").count(), 1, "{}", chat.text);
    assert!(chat.text.ends_with("data: [DONE]\n\n"), "{}", chat.text);
    let response = json!({"model": "m", "stream": true, "input": "hi"});
    let (text, is_whole) = read_to_close(&mut proxy.open_at("/v1/responses", &response, &[]));
    assert!(text.contains("\"code\":\"upstream_error\"") && !is_whole, "{text}");
}

#[test]
fn weights_conditions_and_sticky_keys_choose_among_targets() {
    let (a, b) = (Mock::start(&["--latency-ms", "60"]), Mock::start(&[]));
    let routes = r#"
[[routes]]
model = "weighted"
targets = [{ upstream = "a", weight = 9 }, { upstream = "b" }]
[[routes]]
model = "fast"
strategy = "latency"
targets = [{ upstream = "a" }, { upstream = "b" }]
[[routes]]
model = "sticky"
sticky_header = "x-session"
targets = [{ upstream = "a" }, { upstream = "b" }]
[[routes]]
model = "tier-*"
targets = [{ upstream = "a", when = { tier = "gold" } }]
"#;
    let proxy = Proxy::start(&format!("{}{}{routes}", upstream("a", &a, ""), upstream("b", &b, "")));
    let upstream_of = |body: &Value, headers: &[(&str, &str)]| {
        let reply = proxy.chat(body, headers).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.header("x-weir-upstream").to_owned()
    };
    let to_a = (0..200).filter(|_| upstream_of(&ask("weighted"), &[]) == "a").count();
    assert!((150..=198).contains(&to_a), "{to_a} of 200 with a weight of 9 in 10");
    for session in ["s1", "s2", "s3", "s4"] {
        let chosen = upstream_of(&ask("sticky"), &[("x-session", session)]);
        for _ in 0..5 {
            assert_eq!(upstream_of(&ask("sticky"), &[("x-session", session)]), chosen);
        }
    }
    let mut gold = ask("tier-1");
    gold["metadata"] = serde_json::json!({"tier": "gold"});
    assert_eq!(upstream_of(&gold, &[]), "a");
    let other = proxy.chat(&ask("tier-1"), &[]).unwrap();
    assert_eq!(
        (other.status, other.json()["error"]["code"].as_str()),
        (400, Some("invalid_parameter")),
        "{}",
        other.text
    );
    let to_b = (0..40).filter(|_| upstream_of(&ask("fast"), &[]) == "b").count();
    assert!(to_b >= 32, "{to_b} of 40 to the faster one");
    assert_eq!(upstream_of(&ask("b/any"), &[]), "b");
    let unknown = proxy.chat(&ask("unknown"), &[]).unwrap();
    assert_eq!((unknown.status, unknown.json()["error"]["code"].as_str()), (404, Some("model_not_found")));
    let models = proxy.client.get("/v1/models").1;
    let ids: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["pseudo", "fast", "sticky", "weighted"]);
    for (name, status) in
        [("fast", 200), ("tier-7", 200), ("b/any/name", 200), ("unknown", 404), ("c/any", 404)]
    {
        let model = proxy.client.get(&format!("/v1/models/{name}"));
        assert_eq!((model.0, model.1["id"].as_str().unwrap_or(name)), (status, name), "{}", model.1);
    }
}

#[test]
fn the_error_event_of_a_provider_is_told_once_and_nothing_before_it_is_lost() {
    let mock = Mock::start(&["--tokens", "6"]);
    let claude = format!(
        "[[upstreams]]\nid = \"claude\"\nprovider = \"anthropic\"\nurl = \"{}\"\nheaders = [\"x-mock-error-midstream\"]\n",
        mock.url("")
    );
    let proxy = Proxy::start(&format!("{}{claude}", upstream("mock", &mock, "")));
    for model in ["mock/m", "claude/m"] {
        let mut client = proxy.open(&ask_stream(model), &[("x-mock-error-midstream", "1")]);
        let (text, is_whole) = read_to_close(&mut client);
        assert!(text.contains("t000001") && text.contains("t000003"), "{model}: {text}");
        assert_eq!(text.matches("\"error\":").count(), 1, "{model}: {text}");
        assert!(!text.contains("[DONE]") && !is_whole, "{model}: {text}");
    }
    let metrics = proxy.client.send("GET", "/metrics", None).text;
    for upstream in ["mock", "claude"] {
        let series = format!("weir_upstream_errors_total{{upstream=\"{upstream}\",code=\"reply\"}} 1\n");
        assert!(metrics.contains(&series), "{series} is not in {metrics}");
    }
    let log = proxy.weir.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("the stream of an upstream broke")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines.iter().all(|line| line.contains("request_id") && line.contains("model")), "{lines:?}");
}
