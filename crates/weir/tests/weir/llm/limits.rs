//! Problem 5: requests at the same time never pass a limit together, and keys restrict chat as they do everything else.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::setup::{Mock, Proxy, ask, ask_stream, read_until, upstream};

#[test]
fn concurrent_requests_never_take_more_tokens_than_the_key_has() {
    let mock = Mock::start(&["--tokens", "10", "--latency-ms", "3000"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let mut body = ask("m");
    body["max_tokens"] = 10.into();
    // each request reserves its prompt, estimated from its bytes, and ten tokens
    let reserved = body.to_string().len() as u64 / 4 + 11;
    let key = proxy.key(
        &admin,
        &json!({"name": "app", "scopes": ["chat"], "limits": {"tokens_per_minute": 3 * reserved}}),
    );
    let bearer = format!("Bearer {key}");
    let (passed, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let reply = proxy.chat(&body, &[("authorization", &bearer)]).unwrap();
                match reply.status {
                    200 => passed.fetch_add(1, Ordering::Relaxed),
                    429 => {
                        assert_eq!(reply.json()["error"]["code"], "rate_limit_exceeded");
                        assert!(!reply.header("retry-after").is_empty());
                        refused.fetch_add(1, Ordering::Relaxed)
                    }
                    other => panic!("{other} {}", reply.text),
                };
            });
        }
    });
    // none of them ends before the last is sent
    assert_eq!(passed.load(Ordering::Relaxed), 3);
    let left = proxy.chat(&body, &[("authorization", &bearer)]).unwrap();
    assert!(!left.header("x-ratelimit-remaining-tokens").is_empty());
}

#[test]
fn a_stream_counts_as_a_running_request_until_its_end() {
    let mock = Mock::start(&["--tokens", "1000"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let key =
        proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"], "limits": {"concurrent_requests": 1}}));
    let bearer = format!("Bearer {key}");
    let mut stream = proxy.open(&ask_stream("m"), &[("authorization", &bearer), ("x-mock-token-ms", "50")]);
    read_until(&mut stream, "t000001");
    assert_eq!(proxy.chat(&ask("m"), &[("authorization", &bearer)]).unwrap().status, 429);
    drop(stream);
    proxy.client.wait("the end of the stream", || {
        proxy.chat(&ask("m"), &[("authorization", &bearer)]).unwrap().status == 200
    });
}

#[test]
fn a_key_calls_only_the_models_and_routes_that_it_may() {
    let mock = Mock::start(&[]);
    let routes = "[[routes]]\nmodel = \"open\"\ntargets = [{ upstream = \"mock\" }]\n[[routes]]\nmodel = \"secret\"\ntargets = [{ upstream = \"mock\" }]\n";
    let proxy = Proxy::start(&format!("{}{routes}", upstream("mock", &mock, "")));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"], "models": ["open"]}));
    let bearer = [("authorization", format!("Bearer {key}"))];
    let headers: Vec<(&str, &str)> = bearer.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(proxy.chat(&ask("open"), &headers).unwrap().status, 200);
    for model in ["secret", "mock/open", "unknown"] {
        let reply = proxy.chat(&ask(model), &headers).unwrap();
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_str()),
            (404, Some("model_not_found")),
            "{model}"
        );
    }
    let models = proxy.client.try_send("GET", "/v1/models", &headers, None).unwrap().json();
    assert_eq!(models["data"].as_array().unwrap().len(), 1, "{models}");
    for (scope, expected) in [("chat", vec!["open", "secret"]), ("embed", vec!["pseudo"]), ("rerank", vec![])]
    {
        let key = proxy.key(&admin, &json!({"name": scope, "scopes": [scope]}));
        let headers = [("x-api-key", key.as_str())];
        let models = proxy.client.try_send("GET", "/v1/models", &headers, None).unwrap().json();
        let listed: Vec<&str> =
            models["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
        assert_eq!(listed, expected, "{scope}");
        let one = proxy.client.try_send("GET", "/v1/models/pseudo", &headers, None).unwrap();
        assert_eq!(one.status, if scope == "embed" { 200 } else { 404 }, "{scope}");
    }
    let search = proxy.key(&admin, &json!({"name": "search", "scopes": ["search"]}));
    let refused = proxy.chat(&ask("open"), &[("x-api-key", &search)]).unwrap();
    assert_eq!(refused.status, 403, "{}", refused.text);
    let anthropic = proxy.post("/v1/messages", &ask("open"), &[("x-api-key", &search)]).unwrap();
    assert_eq!(anthropic.json()["error"]["type"], "permission_error", "{}", anthropic.text);
    let nobody = proxy.chat(&ask("open"), &[]).unwrap();
    assert_eq!((nobody.status, nobody.header("www-authenticate")), (401, "Bearer"));
}

#[test]
fn a_budget_is_kept_across_kills_and_never_passed_together() {
    let mock = Mock::start(&["--tokens", "10", "--latency-ms", "100"]);
    let price = "[[prices]]\nmodel = \"m\"\ninput = 0\noutput = 100000\n"; // 0.1 for a token, 1 for a reply
    let mut proxy = Proxy::start(&format!("{}{price}", upstream("mock", &mock, "")));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let limits = json!({"budget_per_day": 3.5, "budget_per_month": 100});
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"], "limits": limits}));
    let bearer = format!("Bearer {key}");
    let mut body = ask("m");
    body["max_tokens"] = 10.into();
    let passed = std::thread::scope(|scope| {
        let send = || proxy.chat(&body, &[("authorization", &bearer)]).unwrap().status;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|status| *status == 200).count()
    });
    assert_eq!(passed, 3, "three replies of 1 fit into 3.5");
    let refused = proxy.chat(&body, &[("authorization", &bearer)]).unwrap();
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].as_str()),
        (429, Some("budget_exceeded")),
        "{}",
        refused.text
    );
    let told = "may spend 3.5 in a day: 0.5 is left until midnight UTC, and the request may cost up to 1.";
    assert!(refused.text.contains(told), "{}", refused.text);
    assert_eq!(refused.header("x-should-retry"), "false");
    body["max_tokens"] = 5.into();
    std::thread::sleep(std::time::Duration::from_millis(1_500)); // a crash loses at most a second
    proxy.weir.kill();
    proxy.start_again();
    assert_eq!(proxy.chat(&body, &[("authorization", &bearer)]).unwrap().status, 200, "0.5 is left");
    assert_eq!(proxy.chat(&body, &[("authorization", &bearer)]).unwrap().status, 429);
}

#[test]
fn a_kill_charges_what_is_reserved_for_streams_and_a_stop_what_they_used() {
    let mock = Mock::start(&["--tokens", "600", "--token-ms", "100"]);
    let price = "[[prices]]\nmodel = \"m\"\ninput = 0\noutput = 100000\n"; // 0.1 for a token
    let server = "[server]\nshutdown_grace_ms = 300\n";
    let mut proxy = Proxy::start(&format!("{server}{}{price}", upstream("mock", &mock, "")));
    let admin = format!("Bearer {}", proxy.key("", &json!({"name": "admin", "scopes": ["admin"]})));
    let limits = json!({"budget_per_day": 100});
    let app = json!({"name": "app", "scopes": ["chat"], "limits": limits});
    let bearer = format!("Bearer {}", proxy.key(admin.trim_start_matches("Bearer "), &app));
    let spent = |proxy: &Proxy| {
        let keys =
            proxy.client.try_send("GET", "/v1/keys", &[("authorization", &admin)], None).unwrap().json();
        let app = keys["data"].as_array().unwrap().iter().find(|key| key["name"] == "app").cloned();
        app.unwrap()["spent"]["day"].as_f64().unwrap()
    };
    let mut body = ask_stream("m");
    body["max_tokens"] = 200.into();
    let start = |proxy: &Proxy| {
        let mut stream = proxy.open(&body, &[("authorization", &bearer)]);
        read_until(&mut stream, "t000002");
        std::thread::sleep(std::time::Duration::from_millis(1_500)); // the ledger is written within a second
        stream
    };
    drop(start(&proxy));
    proxy.client.wait("the end of the stream", || spent(&proxy) > 0.0);
    let used = spent(&proxy);
    assert!((0.3..15.0).contains(&used), "{used}");
    let running = start(&proxy);
    proxy.weir.kill();
    drop(running);
    proxy.start_again();
    let charged = spent(&proxy);
    assert!((charged - used - 20.0).abs() < 1e-6, "{charged} after {used}: what the second stream reserved");
    let running = start(&proxy);
    proxy.weir.terminate();
    drop(running);
    proxy.start_again();
    let used = spent(&proxy) - charged;
    assert!((0.3..15.0).contains(&used), "{used}: what the third stream used until the stop");
}

#[test]
fn a_budget_holds_for_texts_whose_model_has_a_price() {
    let mock = Mock::start(&[]);
    let price =
        |model: &str, input: u32| format!("[[prices]]\nmodel = \"{model}\"\ninput = {input}\noutput = 0\n");
    // 0.1 for a token; the price of all names is for chat
    let proxy =
        Proxy::start(&[upstream("mock", &mock, ""), price("*", 900_000), price("pseudo", 100_000)].concat());
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let limits = json!({"budget_per_day": 0.55});
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["embed"], "limits": limits}));
    let bearer = format!("Bearer {key}");
    let embed = |texts: &str| {
        let body = json!({"model": "pseudo", "input": texts});
        proxy.post("/v1/embeddings", &body, &[("authorization", &bearer)]).unwrap()
    };
    assert_eq!(embed("a b c").status, 200);
    let refused = embed("d e f");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("budget_exceeded")));
    assert_eq!(embed("d e").status, 200, "0.25 is left");
    let bearer = format!("Bearer {admin}");
    let headers = [("authorization", bearer.as_str())];
    let usage = || proxy.client.try_send("GET", "/v1/usage?group_by=model", &headers, None).unwrap().json();
    let of_model = || {
        let sums = usage()["data"].as_array().unwrap().clone();
        sums.into_iter().find(|sum| sum["model"] == "pseudo").unwrap_or_default()
    };
    proxy.client.wait("the rows", || of_model()["requests"] == 3);
    assert_eq!(of_model()["prompt_tokens"], 5, "what was refused used nothing");
    assert!((of_model()["cost"].as_f64().unwrap() - 0.5).abs() < 1e-9, "{}", of_model());
}
