//! Upstreams that fail: which failures are tried again, when they are left alone, and what callers hear.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scripted::{Answer, Upstream, error};
use super::{embed, embeddings, gateway, metric};
use crate::support::client::Reply;
use crate::support::gateway::Gateway;

fn check(reply: &Reply, status: u16, code: &str, words: &[&str]) {
    let body = reply.json();
    assert_eq!((reply.status, &body["error"]["code"]), (status, &json!(code)), "{}", reply.text);
    for words in words {
        assert!(body["error"]["message"].as_str().unwrap().contains(words), "`{words}` is not in {body}");
    }
}

fn failed(gateway: &Gateway, code: &str) -> f64 {
    metric(gateway, &format!("weir_upstream_errors_total{{upstream=\"m\",code=\"{code}\"}}"))
}

#[test]
fn a_429_is_tried_again_after_the_time_that_it_names() {
    let upstream = Upstream::start(|number, _| match number {
        0 => Answer::Other(429, vec![("retry-after", "1".to_owned())], "slow down".to_owned()),
        _ => Answer::Embeddings,
    });
    let (gateway, _file) = gateway("openai", &upstream.url, "dimension = 4", &[]);
    embeddings(&embed(&gateway, json!("a")));
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].at - asked[0].at >= Duration::from_secs(1), "{:?}", asked[1].at - asked[0].at);
    assert_eq!(failed(&gateway, "429"), 1.0);
}

#[test]
fn a_429_that_stays_is_overloaded_with_the_time_that_it_names() {
    let limited = || Answer::Other(429, vec![("retry-after", "60".to_owned())], String::new());
    let upstream = Upstream::start(move |_, _| limited());
    let (gateway, _file) = gateway("openai", &upstream.url, "dimension = 4", &[]);
    let reply = embed(&gateway, json!("a"));
    check(&reply, 503, "overloaded", &["`m`", &upstream.url, "takes no more requests"]);
    assert_eq!(reply.header("retry-after"), "60");
    assert_eq!(upstream.asked().len(), 1, "a minute is too long to wait");
}

#[test]
fn failures_in_passing_are_tried_again_and_others_are_not() {
    let upstream = Upstream::start(|number, asked| match (asked.texts()[0].as_str(), number) {
        ("passing", 0 | 1) => error(503),
        ("wrong", _) => error(400),
        _ => Answer::Embeddings,
    });
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4", &[]);
    embeddings(&embed(&gateway, json!("passing")));
    assert_eq!(upstream.asked().len(), 3);
    check(&embed(&gateway, json!("wrong")), 502, "upstream_error", &["answered 400: scripted 400"]);
    assert_eq!(upstream.asked().len(), 4);
    assert_eq!((failed(&gateway, "503"), failed(&gateway, "400")), (2.0, 1.0));
}

#[test]
fn an_upstream_that_keeps_failing_is_left_alone_until_a_probe_succeeds() {
    let is_well = Arc::new(AtomicBool::new(false));
    let script = is_well.clone();
    let upstream = Upstream::start(move |_, _| match script.load(Ordering::Relaxed) {
        true => Answer::Embeddings,
        false => error(500),
    });
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4\nretries_max = 0", &[]);
    for n in 0..5 {
        check(&embed(&gateway, json!(format!("a{n}"))), 502, "upstream_error", &["answered 500"]);
    }
    let refused = embed(&gateway, json!("b"));
    let told = ["failed too often and is not asked for", "the last failure: the upstream ", " answered 500"];
    check(&refused, 502, "upstream_error", &told);
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(upstream.asked().len(), 5, "it was left alone");
    assert_eq!((failed(&gateway, "500"), failed(&gateway, "breaker")), (5.0, 1.0));
    is_well.store(true, Ordering::Relaxed);
    gateway.wait("the breaker to close", || embed(&gateway, json!("c")).status == 200);
    assert_eq!(upstream.asked().len(), 6, "the probe was the first request");
    for change in ["opened", "closed"] {
        let told = format!("the circuit breaker of an upstream has {change}");
        gateway.wait(&told, || gateway.weir.log().contains(&told));
    }
}

#[test]
fn retries_in_an_outage_are_few() {
    let upstream = Upstream::start(|_, _| error(429));
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4\nretries_max = 5", &[]);
    std::thread::scope(|scope| {
        for n in 0..30 {
            let gateway = &gateway;
            scope.spawn(move || check(&embed(gateway, json!(format!("a{n}"))), 503, "overloaded", &[]));
        }
    });
    let asked = upstream.asked().len();
    assert!((40..=43).contains(&asked), "30 requests, 10 saved retries and 3 that they earned, not {asked}");
}

#[test]
fn what_a_busy_upstream_refuses_costs_nothing() {
    let is_busy = Arc::new(AtomicBool::new(true));
    let script = is_busy.clone();
    let upstream = Upstream::start(move |_, _| match script.load(Ordering::Relaxed) {
        true => error(429),
        false => Answer::Embeddings,
    });
    let more = "dimension = 4\nretries_max = 0\n[[prices]]\nmodel = \"m\"\ninput = 1000\noutput = 0";
    let (gateway, _file) = gateway("tei", &upstream.url, more, &[]);
    for _ in 0..2 {
        check(&embed(&gateway, json!("a b c")), 503, "overloaded", &[]);
    }
    is_busy.store(false, Ordering::Relaxed);
    let tokens = embed(&gateway, json!("a b c")).json()["usage"]["prompt_tokens"].as_u64().unwrap();
    let of_model = || {
        let sums = gateway.get("/v1/usage?group_by=model").1;
        let found = sums["data"].as_array().unwrap().iter().find(|sum| sum["model"] == "m").cloned();
        found.unwrap_or_default()
    };
    gateway.wait("the rows", || of_model()["requests"] == 3);
    let sum = of_model();
    assert_eq!(sum["prompt_tokens"].as_u64(), Some(tokens), "{sum}");
    assert_eq!(sum["cost"].as_f64(), Some(tokens as f64 / 1000.0), "{sum}");
}

#[test]
fn silence_is_a_timeout() {
    let upstream = Upstream::start(|_, _| Answer::Late(Duration::from_secs(3)));
    let more = "dimension = 4\ntimeout_ms = 150\nretries_max = 1";
    let (gateway, _file) = gateway("openai", &upstream.url, more, &[]);
    let started = Instant::now();
    check(&embed(&gateway, json!("a")), 504, "upstream_timeout", &["`m`", "within 150 ms", "`timeout_ms`"]);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(failed(&gateway, "timeout"), 2.0);
}

#[test]
fn embeddings_of_another_length_or_number_are_refused() {
    let upstream = Upstream::start(|_, asked| match asked.texts()[0].as_str() {
        "short" => Answer::Other(200, Vec::new(), "[[1,2,3]]".to_owned()),
        "few" => Answer::Other(200, Vec::new(), "[]".to_owned()),
        "huge" => Answer::Other(200, Vec::new(), "[[1,2,3,1e300]]".to_owned()),
        _ => Answer::Other(200, Vec::new(), "<html>".to_owned()),
    });
    let (gateway, _file) = gateway("tei", &upstream.url, "dimension = 4", &[]);
    for (text, words) in [
        ("short", "an embedding of 3 floats instead of 4"),
        ("few", "0 embeddings for 1 texts"),
        ("huge", "answered with something else than was asked for"),
        ("other", "its reply can't be read"),
    ] {
        check(&embed(&gateway, json!(text)), 502, "upstream_error", &["`m`", words]);
    }
}

#[test]
fn a_gateway_starts_while_its_upstream_is_down_and_learns_the_length_later() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let folder = tempfile::tempdir().unwrap();
    let file = super::configuration("tei", &format!("http://{address}"), "retries_max = 0");
    let variables = [("WEIR_MODEL", ""), ("WEIR_CONFIG", file.path().to_str().unwrap())];
    let dimension = |gateway: &Gateway| gateway.get("/v1/models/m").1["dimensions"].clone();
    let gateway = Gateway::start_in(folder.path(), &variables);
    assert_eq!(dimension(&gateway), Value::Null);
    check(&embed(&gateway, json!("a")), 502, "upstream_error", &["can't be reached", "`url`"]);
    let body = json!({"documents": [{"text": "a weir"}]}).to_string();
    let refused = gateway.send("POST", "/v1/ingest", Some(body.as_bytes()));
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (502, &json!("upstream_error")),
        "{}",
        refused.text
    );

    let upstream = Upstream::start_at(TcpListener::bind(address).unwrap(), |_, _| Answer::Embeddings);
    gateway.wait("the upstream to be used", || embed(&gateway, json!("a")).status == 200);
    assert_eq!(dimension(&gateway), json!(4));
    let fingerprint = gateway.get("/v1/models/m").1["fingerprint"].clone();
    gateway.weir.terminate();
    drop(gateway);

    let asked = upstream.asked().len();
    let again = Gateway::start_in(folder.path(), &variables);
    assert_eq!(dimension(&again), json!(4), "it was kept");
    assert_eq!(again.get("/v1/models/m").1["fingerprint"], fingerprint);
    assert_eq!(upstream.asked().len(), asked);
}
