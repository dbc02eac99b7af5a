//! Traces and the log of slow requests, through the gateway.

use std::time::Duration;

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, ask, ask_stream, upstream};
use crate::upstreams::scripted::{Answer, Upstream};

#[test]
fn a_trace_goes_on_to_the_upstream_and_its_span_to_the_collector() {
    let mock = Mock::start(&["--tokens", "3"]);
    let collector = Upstream::start(|_, _| Answer::Other(200, Vec::new(), "{}".to_owned()));
    let variables = [("WEIR_TELEMETRY_TRACES_URL", collector.url.as_str())];
    let proxy = Proxy::start_with(&upstream("eu", &mock, ""), &variables);
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let traceparent = format!("00-{trace}-{parent}-01");
    let sent = [("traceparent", traceparent.as_str()), ("tracestate", "vendor=1")];
    assert_eq!(proxy.chat(&ask_stream("m"), &sent).unwrap().status, 200);
    let passed = mock.last_header("traceparent").expect("a traceparent");
    let ids: Vec<&str> = passed.split('-').collect();
    assert_eq!((ids[1], ids[3], ids[2] == parent), (trace, "01", false), "{passed}");
    assert_eq!(mock.last_header("tracestate").as_deref(), Some("vendor=1"));

    let spans = || -> Vec<Value> {
        let sent = collector.asked();
        let all = sent.iter().filter(|asked| asked.path == "/v1/traces").map(|asked| {
            asked.body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        });
        all.flatten().filter(|span| span["traceId"] == trace).collect()
    };
    proxy.client.wait("the span", || spans().len() == 1);
    let span = &spans()[0];
    assert_eq!((&span["spanId"], &span["parentSpanId"]), (&json!(ids[2]), &json!(parent)), "{span}");
    assert_eq!(span["name"], "chat m");
    let attributes = span["attributes"].as_array().unwrap();
    for (key, value) in [
        ("gen_ai.operation.name", json!({"stringValue": "chat"})),
        ("gen_ai.provider.name", json!({"stringValue": "openai"})),
        ("weir.upstream", json!({"stringValue": "eu"})),
        ("gen_ai.usage.output_tokens", json!({"intValue": "3"})),
    ] {
        assert!(attributes.contains(&json!({"key": key, "value": value})), "{key}: {span}");
    }
    assert!(!span.to_string().contains("what is a weir"), "no prompt: {span}");
}

#[test]
fn slow_requests_are_logged_without_their_text() {
    let mock = Mock::start(&["--tokens", "3"]);
    let variables = [("WEIR_TELEMETRY_SLOW_REQUEST_MS", "400"), ("WEIR_LOG_FORMAT", "json")];
    let proxy = Proxy::start_with(&upstream("mock", &mock, ""), &variables);
    assert_eq!(proxy.chat(&ask("fast"), &[]).unwrap().status, 200);
    assert_eq!(proxy.chat(&ask("slow"), &[("x-mock-latency-ms", "500")]).unwrap().status, 200);
    let lines = || -> Vec<Value> {
        let log = proxy.weir.log();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap_or_default());
        lines.filter(|line: &Value| line["message"] == "slow request").collect()
    };
    proxy.client.wait("the line", || !lines().is_empty());
    std::thread::sleep(Duration::from_millis(300));
    let lines = lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["model"], &lines[0]["upstream"]), (&json!("slow"), &json!("mock")));
    assert!(lines[0]["duration_ms"].as_u64().unwrap() >= 500, "{}", lines[0]);
    assert!(!lines[0].to_string().contains("what is a weir"), "{}", lines[0]);
}

#[test]
fn series_are_shown_before_their_first_event() {
    let mock = Mock::start(&[]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let metrics = proxy.client.send("GET", "/metrics", None).text;
    for series in [
        "weir_upstream_errors_total{upstream=\"mock\",code=\"timeout\"} 0",
        "weir_upstream_errors_total{upstream=\"mock\",code=\"503\"} 0",
        "weir_search_degraded_total{reason=\"rerank_failed\"} 0",
        "weir_request_log_rows_total{result=\"dropped\"} 0",
    ] {
        assert!(metrics.lines().any(|line| line == series), "{series} is not in {metrics}");
    }
}
