//! Problem 4: the usage of streams is counted by the provider, and only callers who asked see it.

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, ask, ask_stream, upstream};

#[test]
fn a_stream_is_counted_and_its_bytes_are_those_that_the_provider_sends_directly() {
    let mock = Mock::start(&["--tokens", "7"]);
    let prices = "[[prices]]\nmodel = \"m\"\ninput = 1.0\noutput = 2.0\n";
    let proxy = Proxy::start(&format!("{}{prices}", upstream("mock", &mock, "")));
    let without_id = |text: &str| {
        let parts: Vec<&str> = text.split("\"id\":\"").collect();
        parts.iter().map(|part| part.split_once('"').map_or(*part, |(_, rest)| rest)).collect::<String>()
    };
    let mut asked = ask_stream("m");
    asked["stream_options"] = json!({"include_usage": true});
    for body in [ask_stream("m"), asked] {
        let direct = mock.send("/v1/chat/completions", &body);
        let reply = proxy.chat(&body, &[]).unwrap();
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), direct.header("content-type"));
        assert_eq!(reply.header("x-weir-upstream"), "mock");
        assert_eq!(without_id(&reply.text), without_id(&direct.text));
        assert!(mock.last()["body"].as_str().unwrap().contains("\"include_usage\":true"));
    }
    let whole = proxy.chat(&ask("m"), &[]).unwrap();
    let direct = mock.send("/v1/chat/completions", &ask("m"));
    assert_eq!(without_id(&whole.text), without_id(&direct.text));
    let usage = whole.json()["usage"].clone();
    let row = || proxy.usage_of("m");
    proxy.client.wait("the rows", || row()["requests"] == 3);
    let row = row();
    let prompt = usage["prompt_tokens"].as_u64().unwrap();
    assert_eq!(row["completion_tokens"], json!(21), "{row}");
    assert_eq!(row["prompt_tokens"], json!(3 * prompt), "{row}");
    let cost = row["cost"].as_f64().unwrap();
    assert!((cost - 3.0 * (prompt as f64 + 14.0) / 1e6).abs() < 1e-12, "{row}");
}

/// Anthropic counts the prompt in the first event of a stream and the completion in a later one: here they come in one read.
#[test]
fn a_stream_of_messages_is_counted_whole() {
    let mock = Mock::start(&["--tokens", "3"]);
    let proxy = Proxy::start(&format!(
        "[[upstreams]]\nid = \"claude\"\nprovider = \"anthropic\"\nurl = \"{}\"\n",
        mock.url("")
    ));
    let mut body = ask_stream("m");
    body["max_tokens"] = 9.into();
    let reply = proxy.post("/v1/messages", &body, &[]).unwrap();
    assert!(reply.status == 200 && reply.text.contains("\"input_tokens\":4"), "{}", reply.text);
    let row = || proxy.usage_of("m");
    proxy.client.wait("the row", || row()["requests"] == 1);
    assert_eq!((&row()["prompt_tokens"], &row()["completion_tokens"]), (&json!(4), &json!(3)), "{}", row());
}

#[test]
fn requests_that_are_refused_have_one_sum_whatever_model_they_name() {
    let mock = Mock::start(&[]);
    let route = "[[routes]]\nmodel = \"own/*\"\ntargets = [{ upstream = \"mock\" }]\n";
    let proxy = Proxy::start(&format!("{}{route}", upstream("mock", &mock, "retries_max = 0\n")));
    for number in 0..5 {
        assert_eq!(proxy.chat(&ask(&format!("invented-{number}")), &[]).unwrap().status, 404);
        let unknown = proxy.chat(&ask(&format!("own/{number}")), &[("x-mock-status", "404")]).unwrap();
        assert_eq!(unknown.status, 404, "{}", unknown.text);
    }
    assert_eq!(proxy.chat(&ask("own/real"), &[]).unwrap().status, 200);
    let rows = || -> Vec<Value> {
        let sums = proxy.client.get("/v1/usage?group_by=model").1;
        sums["data"].as_array().unwrap().clone()
    };
    proxy.client.wait("the rows", || rows().iter().any(|row| row["model"] == "own/real"));
    let rows = rows();
    assert_eq!(rows.len(), 2, "{rows:?}");
    let refused = rows.iter().find(|row| row["model"].is_null()).expect("the sum of the refused");
    assert_eq!((&refused["errors"], &refused["prompt_tokens"]), (&json!(10), &json!(0)), "{refused}");
}
