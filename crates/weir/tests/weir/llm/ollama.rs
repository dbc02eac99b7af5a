//! Ollama's chat over the routes: the same keys, guardrails, kept replies and sources as of chat completions.

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, Scripted, read_to_close, upstream};
use crate::support::client::Reply;

const TEXT: &str = "t000001 t000002 t000003";

fn say(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

/// The lines of a stream.
fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/x-ndjson"), "{}", reply.text);
    reply.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(lines: &[Value]) -> String {
    lines
        .iter()
        .filter_map(|line| line["message"]["content"].as_str().or(line["response"].as_str()))
        .collect()
}

fn sent(mock: &Mock) -> Value {
    serde_json::from_str(mock.last()["body"].as_str().unwrap()).unwrap()
}

#[test]
fn a_chat_is_streamed_in_lines_by_default_and_whole_when_asked() {
    let mock = Mock::start(&["--tokens", "3"]);
    let claude =
        format!("[[upstreams]]\nid = \"claude\"\nprovider = \"anthropic\"\nurl = \"{}\"\n", mock.url(""));
    let routes = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"mock\", model = \"real\" }]\n";
    let proxy = Proxy::start(&format!("{}{claude}{routes}", upstream("mock", &mock, "")));
    for model in ["m", "m:latest", "claude/x"] {
        let mut body = say("what is a weir");
        body["model"] = model.into();
        let streamed = lines(&proxy.post("/api/chat", &body, &[]).unwrap());
        assert_eq!(text(&streamed), TEXT, "{model}");
        assert!(streamed.len() > 2 && streamed.iter().all(|line| line["model"] == model), "{streamed:?}");
        let last = streamed.last().unwrap();
        assert_eq!(last["done"], true);
        assert_eq!(last["done_reason"], "stop");
        assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(4), &json!(3)), "{last}");
        let (total, eval) =
            (last["total_duration"].as_u64().unwrap(), last["eval_duration"].as_u64().unwrap());
        assert!(total >= eval && eval > 0, "{last}");
        body["stream"] = false.into();
        let whole = proxy.post("/api/chat", &body, &[]).unwrap();
        assert_eq!(whole.header("content-type"), "application/json");
        let whole = whole.json();
        assert_eq!((&whole["message"]["content"], &whole["done"]), (&json!(TEXT), &json!(true)), "{whole}");
        assert_eq!((&whole["prompt_eval_count"], &whole["eval_count"]), (&json!(4), &json!(3)), "{whole}");
    }
    let body = json!({"model": "m", "prompt": "p", "system": "s", "options": {"num_predict": 2, "seed": 5}});
    let generated = lines(&proxy.post("/api/generate", &body, &[]).unwrap());
    assert_eq!(text(&generated), "t000001 t000002");
    assert_eq!(generated.last().unwrap()["done_reason"], "length");
    let request = sent(&mock);
    assert_eq!(
        (&request["model"], &request["max_tokens"], &request["seed"]),
        (&json!("real"), &json!(2), &json!(5))
    );
    assert_eq!(request["messages"][0], json!({"role": "system", "content": "s"}));
    let raw = json!({"model": "m", "prompt": "[INST] p", "raw": true, "stream": false});
    assert_eq!(proxy.post("/api/generate", &raw, &[]).unwrap().json()["response"], TEXT);
    assert_eq!(
        (mock.last()["path"].clone(), sent(&mock)["prompt"].clone()),
        (json!("/v1/completions"), json!("[INST] p"))
    );
    proxy.client.wait("the usage", || !proxy.usage_of("m").is_null());
    assert!(proxy.usage_of("m:latest").is_null());
}

#[test]
fn tools_are_called_with_objects_and_answered() {
    let mock = Mock::start(&["--tokens", "3"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let mut body = say("call the tool");
    body["tools"] =
        json!([{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]);
    let streamed = lines(&proxy.post("/api/chat", &body, &[]).unwrap());
    let calls = &streamed[0]["message"]["tool_calls"];
    assert_eq!(calls[0]["function"]["name"], "look_up", "{streamed:?}");
    assert_eq!(calls[0]["function"]["arguments"], json!({"text": TEXT}));
    // the client's own history: the message as it came, and the result by the name of the tool
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(streamed[0]["message"].clone());
    messages.push(json!({"role": "tool", "content": "a low dam", "tool_name": "look_up"}));
    assert_eq!(text(&lines(&proxy.post("/api/chat", &body, &[]).unwrap())), TEXT);
    let request = sent(&mock);
    let id = &request["messages"][1]["tool_calls"][0]["id"];
    assert!(id.is_string() && request["messages"][2]["tool_call_id"] == *id, "{request}");
}

#[test]
fn guardrails_kept_replies_and_sources_are_those_of_chat_completions() {
    let mock = Mock::start(&["--echo", "last"]);
    let tables = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"mock\" }]\ncache = { mode = \"exact\" }\n
        [[routes]]\nmodel = \"docs\"\ntargets = [{ upstream = \"mock\" }]\nretrieval = { collection = \"default\", top_k = 1 }\n
        [[guardrails]]\nid = \"pii\"\ndetect = [\"pii\"]\nrestore = true\n
        [[guardrails]]\nid = \"words\"\nwords = [\"project x\"]\naction = \"block\"\n";
    let proxy = Proxy::start(&format!("{}{tables}", upstream("mock", &mock, "")));
    let private = say("Write to ann@example.com twice.");
    for result in ["miss", "hit"] {
        let reply = proxy.post("/api/chat", &private, &[]).unwrap();
        assert_eq!(reply.header("x-weir-cache"), result);
        assert_eq!(text(&lines(&reply)), "Write to ann@example.com twice.");
    }
    assert_eq!(mock.stats()["requests"], 1);
    assert!(mock.last()["body"].as_str().unwrap().contains("[EMAIL_1]"));
    let blocked = proxy.post("/api/chat", &say("about project x"), &[]).unwrap();
    assert_eq!(blocked.status, 400);
    assert!(blocked.json()["error"].as_str().unwrap().contains("guardrail"), "{}", blocked.text);

    let document = json!({"documents": [{"id": "weirs", "text": "A weir is a low dam across a river."}]});
    assert!(proxy.post("/v1/ingest?wait=true", &document, &[]).unwrap().status < 300);
    let mut asked = say("\"a low dam\" [1]: what is a weir?");
    asked["model"] = "docs".into();
    let streamed = lines(&proxy.post("/api/chat", &asked, &[]).unwrap());
    let last = streamed.last().unwrap();
    assert_eq!(last["sources"][0]["document_id"], "weirs", "{last}");
    assert_eq!(last["citations"][0]["verified"], true, "{last}");
    asked["stream"] = false.into();
    let whole = proxy.post("/api/chat", &asked, &[]).unwrap().json();
    assert_eq!(whole["citations"], last["citations"]);
}

#[test]
fn a_key_sees_and_calls_its_own_models_alone() {
    let mock = Mock::start(&[]);
    let routes = ["mine", "theirs"]
        .map(|name| format!("[[routes]]\nmodel = \"{name}\"\ntargets = [{{ upstream = \"mock\" }}]\n"));
    let proxy = Proxy::start(&format!("{}{}", upstream("mock", &mock, ""), routes.concat()));
    let admin = proxy.key("", &json!({"name": "admin", "scopes": ["admin", "chat"]}));
    let key = proxy.key(&admin, &json!({"name": "app", "scopes": ["chat"], "models": ["mine"]}));
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    let get = |path: &str| proxy.client.try_send("GET", path, &headers, None).unwrap().json();
    let names = |list: &Value| {
        list["models"].as_array().unwrap().iter().map(|model| model["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&get("/api/tags")), ["mine"]);
    let of = |path: &str, model: &str| {
        let body = json!({"model": model, "prompt": "p"});
        let body = if path == "/api/show" { json!({"model": model, "name": ""}) } else { body };
        proxy.post(path, &body, &headers).unwrap()
    };
    for path in ["/api/show", "/api/generate"] {
        assert_eq!(of(path, "mine:latest").status, 200, "{path}");
        let refused = of(path, "theirs");
        assert_eq!(refused.status, 404, "{path}");
        assert!(refused.json()["error"].as_str().unwrap().contains("`theirs`"), "{}", refused.text);
    }
    assert_eq!(of("/api/show", "mine").json()["capabilities"], json!(["completion", "tools", "vision"]));
    assert!(get("/api/version")["version"].as_str().unwrap().starts_with("0."));
    let requests = mock.stats()["requests"].clone();
    let load = json!({"model": "mine", "keep_alive": 0});
    assert_eq!(proxy.post("/api/generate", &load, &headers).unwrap().json()["done_reason"], "unload");
    assert_eq!(proxy.post("/api/generate", &json!({"model": "theirs"}), &headers).unwrap().status, 404);
    assert_eq!(mock.stats()["requests"], requests, "nothing is sent to load a model");
    let nobody = proxy.post("/api/chat", &say("hi"), &[]).unwrap();
    assert_eq!(nobody.status, 401);
    assert!(nobody.json()["error"].is_string(), "{}", nobody.text);
}

#[test]
fn errors_are_texts_and_a_broken_stream_ends_by_one() {
    let mock = Mock::start(&["--tokens", "20"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    for (body, expected) in [
        (json!({"model": "m", "messages": [], "system": "s"}), "`system` is a field of /api/generate"),
        (
            json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "options": {"foo": 1}}),
            "`options.foo` is not known",
        ),
        (json!({"messages": []}), "`model` is missing"),
        (json!([]), "is not a JSON object"),
    ] {
        let reply = proxy.post("/api/chat", &body, &[]).unwrap();
        assert_eq!(reply.status, 400);
        assert!(reply.json()["error"].as_str().unwrap().contains(expected), "{}", reply.text);
    }
    let refused = proxy.post("/api/chat", &say("hi"), &[("x-mock-status", "422")]).unwrap();
    assert_eq!(refused.status, 422);
    assert!(refused.json()["error"].is_string(), "{}", refused.text);
    let check = |fault: &str, reply: &str| {
        let error = reply.lines().filter(|line| line.starts_with("{\"error\":\"")).count();
        assert!(
            error == 1 && reply.contains("t000002") && !reply.contains("\"done\":true"),
            "{fault}: {reply}"
        );
    };
    for fault in ["x-mock-drop-midstream", "x-mock-error-midstream", "x-mock-malformed"] {
        let (reply, _) = read_to_close(&mut proxy.open_at("/api/chat", &say("hi"), &[(fault, "1")]));
        check(fault, &reply);
    }
    let usage = "200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let odd = Scripted::start(usage, std::time::Duration::ZERO);
    let proxy = Proxy::start(&odd.upstream("odd", ""));
    let reply = proxy.post("/api/chat", &say("hi"), &[]).unwrap();
    assert!(reply.status == 502 && reply.json()["error"].is_string(), "{}", reply.text);
}
