//! `/v1/embeddings` with the name of an upstream's model: passed on as chat is, with its keys, limits, usage, guardrails and fallback.

use serde_json::{Value, json};

use super::setup::{Mock, PROVIDER_KEY, Proxy, upstream};
use crate::upstreams::scripted::{Answer, Upstream};

const PATH: &str = "/v1/embeddings";

/// Embeddings of two texts by a model.
fn ask(model: &str) -> Value {
    json!({"model": model, "input": ["a weir", "a low dam"]})
}

fn code(proxy: &Proxy, body: &Value, headers: &[(&str, &str)]) -> (u16, String) {
    let reply = proxy.post(PATH, body, headers).unwrap();
    (reply.status, reply.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_model_of_an_upstream_is_embedded_there_and_its_bytes_are_those_of_the_provider() {
    let mock = Mock::start(&[]);
    let prices = "[[prices]]\nmodel = \"embed-*\"\ninput = 2.0\noutput = 8.0\n";
    let proxy = Proxy::start(&format!("{}{prices}", upstream("mock", &mock, "")));
    for more in [json!({}), json!({"encoding_format": "base64", "dimensions": 16, "task": "any text"})] {
        let (mut body, mut direct) = (ask("mock/embed-1"), ask("embed-1"));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        direct.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = proxy.post(PATH, &body, &[]).unwrap();
        assert_eq!((reply.status, reply.header("x-weir-upstream")), (200, "mock"), "{}", reply.text);
        assert_eq!(reply.text, mock.send(PATH, &direct).text);
        proxy.post("/embeddings", &body, &[]).unwrap();
        let sent: Value = serde_json::from_str(mock.last()["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent, direct);
        assert_eq!(mock.last_header("authorization"), Some(format!("Bearer {PROVIDER_KEY}")));
    }
    // each request has five words
    proxy.client.wait("the rows", || proxy.usage_of("mock/embed-1")["requests"] == 4);
    let row = proxy.usage_of("mock/embed-1");
    assert_eq!((&row["prompt_tokens"], &row["completion_tokens"]), (&json!(20), &json!(0)), "{row}");
    assert!((row["cost"].as_f64().unwrap() - 20.0 * 2.0 / 1e6).abs() < 1e-12, "{row}");
    let metrics = proxy.client.send("GET", "/metrics", None).text;
    let series = "weir_model_requests_total{model=\"mock/embed-1\",upstream=\"mock\",result=\"ok\"} 4";
    assert!(metrics.contains(series), "{metrics}");
}

#[test]
fn models_of_the_gateway_come_first_and_a_mistyped_name_leads_nowhere() {
    let upstream_asked = Upstream::willing();
    let url = &upstream_asked.url;
    let table =
        |id: &str| format!("[[upstreams]]\nid = \"{id}\"\nprovider = \"openai\"\nurl = \"{url}/v1\"\n");
    // one upstream without a route takes every name for chat, and so does the route `*`
    let route = "[[routes]]\nmodel = \"*\"\ntargets = [{ upstream = \"up\" }]\n";
    for tables in [table("up"), format!("{}{}{route}", table("up"), table("other"))] {
        let proxy = Proxy::start(&tables);
        let reply = proxy.post(PATH, &ask("pseudo"), &[]).unwrap();
        assert_eq!((reply.status, reply.header("x-weir-upstream")), (200, ""), "{}", reply.text);
        for model in ["pseudp", "none/pseudo", ""] {
            assert_eq!(code(&proxy, &ask(model), &[]), (404, "model_not_found".to_owned()), "{model}");
        }
        assert!(upstream_asked.asked().is_empty());
    }
    let proxy = Proxy::start(&format!("{}{}{route}", table("up"), table("other")));
    let reply = proxy.post(PATH, &ask("other/m"), &[]).unwrap();
    assert_eq!((reply.status, reply.header("x-weir-upstream")), (200, "other"), "{}", reply.text);
    assert_eq!(upstream_asked.asked()[0].body["model"], "m");
}

#[test]
fn a_key_embeds_only_by_models_that_it_may_and_within_its_limits() {
    let mock = Mock::start(&[]);
    let prices = "[[prices]]\nmodel = \"*\"\ninput = 1000000.0\noutput = 1000000.0\n";
    let proxy = Proxy::start(&format!("{}{prices}", upstream("mock", &mock, "")));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin"]}));
    let key = |more: Value| {
        let mut request = json!({"name": "app", "scopes": ["embed"]});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("Bearer {}", proxy.key(&admin, &request))
    };
    let try_with = |bearer: &str, model: &str| code(&proxy, &ask(model), &[("authorization", bearer)]);
    let one = key(json!({"models": ["mock/a*"]}));
    assert_eq!(try_with(&one, "mock/a-1").0, 200);
    for hidden in ["mock/b", "pseudo", "mock/"] {
        assert_eq!(try_with(&one, hidden), (404, "model_not_found".to_owned()), "{hidden}");
    }
    let chat = key(json!({"scopes": ["chat"]}));
    assert_eq!(try_with(&chat, "mock/a"), (403, "insufficient_scope".to_owned()));
    // the prompt is reserved as a quarter of the bytes, and the rest is given back
    let reserved = ask("mock/a").to_string().len() as u64 / 4 + 1;
    let few = key(json!({"limits": {"tokens_per_minute": reserved - 1}}));
    assert_eq!(try_with(&few, "mock/a"), (429, "rate_limit_exceeded".to_owned()));
    let enough = key(json!({"limits": {"tokens_per_minute": reserved + 5}}));
    assert_eq!([try_with(&enough, "mock/a").0, try_with(&enough, "mock/a").0], [200, 200]);
    let poor = key(json!({"limits": {"budget_per_day": reserved as f64 - 0.5}}));
    assert_eq!(try_with(&poor, "mock/a"), (429, "budget_exceeded".to_owned()));
    assert_eq!(mock.stats()["requests"], 3);
}

#[test]
fn the_targets_of_a_route_take_over_from_each_other() {
    let (broken, good) = (Mock::start(&["--status", "500"]), Mock::start(&[]));
    let route = "[[routes]]\nmodel = \"embed-*\"\ntargets = [{ upstream = \"broken\" }, { upstream = \"good\", model = \"n\", priority = 1 }]\n";
    let more = "retries_max = 0\n";
    let tables =
        [upstream("broken", &broken, more), upstream("good", &good, more), route.to_owned()].concat();
    let proxy = Proxy::start(&tables);
    let reply = proxy.post(PATH, &ask("embed-1"), &[]).unwrap();
    assert_eq!((reply.status, reply.header("x-weir-upstream")), (200, "good"), "{}", reply.text);
    assert_eq!(broken.stats()["requests"], 1);
    let sent: Value = serde_json::from_str(good.last()["body"].as_str().unwrap()).unwrap();
    assert_eq!(sent["model"], "n");
    assert_eq!(code(&proxy, &ask("broken/m"), &[]), (502, "upstream_error".to_owned()));
    let refused =
        proxy.post(PATH, &json!({"model": "good/m", "input": "a", "dimensions": 5000}), &[]).unwrap();
    assert_eq!((refused.status, refused.header("x-weir-upstream")), (400, "good"), "{}", refused.text);
}

#[test]
fn a_deployment_of_azure_has_its_path_and_a_server_without_usage_is_estimated() {
    let reply = json!({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": vec![0.25; 500]}], "model": "m"});
    let text = reply.to_string();
    let server = Upstream::start(move |_, _| Answer::Other(200, Vec::new(), text.clone()));
    let azure = format!(
        "[[upstreams]]\nid = \"azure\"\nprovider = \"azure\"\nurl = \"{0}\"\napi_key = \"env:PROVIDER_KEY\"\n\
         [[upstreams]]\nid = \"local\"\nprovider = \"ollama\"\nurl = \"{0}\"\n",
        server.url
    );
    let proxy = Proxy::start(&azure);
    for (model, path) in [
        ("azure/small one", "/openai/deployments/small%20one/embeddings?api-version="),
        ("local/nomic-embed-text", "/v1/embeddings"),
    ] {
        assert_eq!(proxy.post(PATH, &ask(model), &[]).unwrap().json(), reply);
        let asked = server.asked().last().unwrap().clone();
        assert!(asked.path.starts_with(path), "{}", asked.path);
        proxy.client.wait("the row", || proxy.usage_of(model)["requests"] == 1);
        let row = proxy.usage_of(model);
        let estimate = ask(model).to_string().len() / 4 + 1;
        assert_eq!(
            (&row["prompt_tokens"], &row["completion_tokens"]),
            (&json!(estimate), &json!(0)),
            "{row}"
        );
    }
    assert_eq!(server.asked()[0].headers.get("api-key").map(String::as_str), Some(PROVIDER_KEY));
}

#[test]
fn what_an_upstream_cannot_do_is_refused_with_the_remedy() {
    let mock = Mock::start(&[]);
    let other = |id: &str, provider: &str| {
        format!("[[upstreams]]\nid = \"{id}\"\nprovider = \"{provider}\"\nurl = \"{}\"\n", mock.url(""))
    };
    let guardrail = "[[guardrails]]\nid = \"words\"\nwords = [\"project x\"]\naction = \"block\"\n\
                     [[guardrails]]\nid = \"pii\"\ndetect = [\"email\"]\n";
    let route = "[[routes]]\nmodel = \"docs\"\ntargets = [{ upstream = \"mock\" }]\nretrieval = { collection = \"default\" }\n";
    let tables = [
        upstream("mock", &mock, ""),
        other("claude", "anthropic"),
        other("gemini", "gemini"),
        guardrail.to_owned(),
        route.to_owned(),
    ];
    let proxy = Proxy::start(&tables.concat());
    let check = |body: Value, headers: &[(&str, &str)], code: &str, param: &str, said: &str| {
        let reply = proxy.post(PATH, &body, headers).unwrap();
        let error = reply.json()["error"].clone();
        assert_eq!((reply.status, error["code"].as_str()), (400, Some(code)), "{body}: {}", reply.text);
        assert_eq!(error["param"].as_str().unwrap_or_default(), param, "{}", reply.text);
        assert!(error["message"].as_str().unwrap().contains(said), "{}", reply.text);
    };
    let with = |field: &str, value: Value| {
        let mut body = ask("mock/m");
        body[field] = value;
        body
    };
    let invalid = "invalid_parameter";
    check(ask("claude/m"), &[], invalid, "model", "OpenAI's API");
    check(ask("gemini/m"), &[], invalid, "model", "v1beta/openai");
    check(ask("docs"), &[], invalid, "model", "/v1/chat/completions");
    check(with("weir", json!({"collection": "default"})), &[], invalid, "weir", "/v1/chat/completions");
    check(with("stream", json!(true)), &[], invalid, "stream", "leave it out");
    check(with("encoding_format", json!("bytes")), &[], invalid, "encoding_format", "base64");
    for media in ["application/octet-stream", "application/vnd.apache.arrow.stream"] {
        check(ask("mock/m"), &[("accept", media)], invalid, "Accept", "application/json");
    }
    check(with("input", json!("about project x")), &[], "guardrail_blocked", "", "words");
    assert_eq!(mock.stats()["requests"], 0);
    let reply = proxy.post(PATH, &with("input", json!("mail to ada@example.com")), &[]).unwrap();
    assert_eq!((reply.status, reply.header("x-weir-guardrails")), (200, "input email redact 1"));
    assert!(!mock.last()["body"].as_str().unwrap().contains("ada@"), "{}", mock.last());
}
