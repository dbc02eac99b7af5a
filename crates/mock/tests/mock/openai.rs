//! Replies in OpenAI's shape, byte by byte.

use crate::support::{CHAT, CHAT_BODY, CHAT_STREAM, start};
use serde_json::{Value, json};

const TOOLS: &str = r#"{"model":"m","tools":[{"type":"function","function":{"name":"look_up"}}],"messages":[{"role":"user","content":"call the tool"}]}"#;

#[test]
fn a_chat_completion_has_the_text_the_usage_and_the_ids() {
    let reply = start(&["--tokens", "3"]).post(CHAT, &[], CHAT_BODY);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.header("x-request-id"), Some("1"));
    assert_eq!(
        reply.text(),
        r#"{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"t000001 t000002 t000003","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7}}"#
    );
}

#[test]
fn a_stream_has_exactly_these_bytes() {
    let reply = start(&["--tokens", "2"]).post(CHAT, &[], CHAT_STREAM);
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let expected = [
        event(r#"{"role":"assistant","content":""}"#, "null"),
        event(r#"{"content":"t000001"}"#, "null"),
        event(r#"{"content":" t000002"}"#, "null"),
        event("{}", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(reply.text(), expected.concat());
    assert!(reply.is_complete);
}

#[test]
fn usage_is_sent_before_done_when_it_is_asked_for() {
    let body = CHAT_STREAM.replace("true,", r#"true,"stream_options":{"include_usage":true},"#);
    let events = start(&["--tokens", "2"]).post(CHAT, &[], &body).events();
    let (usage, before) = events[..events.len() - 1].split_last().unwrap();
    let usage: Value = serde_json::from_str(usage).unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"], json!({"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}));
    assert_eq!(before.len(), 4);
    assert!(before.iter().all(|event| event.ends_with(",\"usage\":null}")), "{before:?}");
}

#[test]
fn the_limit_of_tokens_shortens_the_reply() {
    let mock = start(&["--tokens", "9"]);
    for limit in ["max_tokens", "max_completion_tokens"] {
        let reply =
            mock.post(CHAT, &[], &CHAT_BODY.replace("{\"model\"", &format!("{{\"{limit}\":2,\"model\"")));
        let choice = &reply.json()["choices"][0];
        assert_eq!(choice["message"]["content"], "t000001 t000002");
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(reply.json()["usage"]["completion_tokens"], 2);
    }
}

#[test]
fn a_tool_is_called_in_one_reply_or_in_parts() {
    let mock = start(&["--tokens", "2"]);
    let choice = mock.post(CHAT, &[], TOOLS).json()["choices"][0].clone();
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    assert_eq!(call["function"], json!({"name": "look_up", "arguments": r#"{"text":"t000001 t000002"}"#}));

    let events = mock.post(CHAT, &[], &TOOLS.replace("{\"model\"", "{\"stream\":true,\"model\"")).events();
    let choices: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str::<Value>(event).unwrap()["choices"][0].clone())
        .collect();
    assert_eq!(choices[0]["delta"]["tool_calls"][0]["function"]["name"], "look_up");
    assert_eq!(choices[0]["delta"]["tool_calls"][0]["id"], "call_2");
    let arguments = |choice: &Value| {
        choice["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
    };
    let parts: Vec<String> = choices.iter().filter_map(arguments).collect();
    assert_eq!(parts, ["", r#"{"text":""#, "t000001", " t000002", r#""}"#]);
    assert_eq!(choices.last().unwrap()["finish_reason"], "tool_calls");
}

#[test]
fn completions_are_plain_text() {
    let mock = start(&["--tokens", "2"]);
    let body = r#"{"model":"m","prompt":"once upon a time"}"#;
    assert_eq!(
        mock.post("/v1/completions", &[], body).text(),
        r#"{"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[{"text":"t000001 t000002","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}"#
    );
    let events =
        mock.post("/v1/completions", &[], &body.replace("{\"model\"", "{\"stream\":true,\"model\"")).events();
    let text = |event: &String| {
        serde_json::from_str::<Value>(event).ok()?["choices"][0]["text"].as_str().map(str::to_owned)
    };
    assert_eq!(events.iter().filter_map(text).collect::<Vec<_>>(), ["t000001", " t000002", ""]);
    assert_eq!(events.last().unwrap(), "[DONE]");
}

#[test]
fn embeddings_depend_on_the_text_alone() {
    let mock = start(&[]);
    let embed = |input: Value, more: &str| {
        let body = format!(r#"{{"model":"m","input":{input}{more}}}"#);
        mock.post("/v1/embeddings", &[], &body).json()
    };
    let both = embed(json!(["one two", "three"]), "");
    assert_eq!(both["data"][1]["embedding"], embed(json!("three"), "")["data"][0]["embedding"]);
    assert_ne!(both["data"][0]["embedding"], both["data"][1]["embedding"]);
    assert_eq!((&both["data"][1]["index"], &both["usage"]["prompt_tokens"]), (&json!(1), &json!(3)));
    let vector: Vec<f64> = serde_json::from_value(both["data"][0]["embedding"].clone()).unwrap();
    let norm: f64 = vector.iter().map(|value| value * value).sum();
    assert!(vector.len() == 8 && (norm - 1.0).abs() < 1e-6, "{vector:?}");
    assert_eq!(embed(json!("a"), ",\"dimensions\":3")["data"][0]["embedding"].as_array().unwrap().len(), 3);
    let encoded = embed(json!("a"), ",\"encoding_format\":\"base64\"");
    assert_eq!(encoded["data"][0]["embedding"].as_str().unwrap().len(), 44);
    assert_eq!(embed(json!([7, 8, 9]), "")["usage"]["prompt_tokens"], 3);
}

#[test]
fn models_are_listed_and_found() {
    let mock = start(&["--model", "a/b", "--model", "c"]);
    let list = mock.get("/v1/models").json();
    assert_eq!((&list["data"][0]["id"], &list["data"][1]["id"]), (&json!("a/b"), &json!("c")));
    assert_eq!(mock.get("/v1/models/a/b").json()["id"], "a/b");
    let missing = mock.get("/v1/models/d");
    assert_eq!((missing.status, &missing.json()["error"]["param"]), (404, &json!("model")));
}

#[test]
fn errors_have_openais_shape() {
    let mock = start(&["--body-bytes-max", "300"]);
    let check = |path: &str, body: &str, status: u16, message: &str, param: Value| {
        let reply = mock.post(path, &[], body);
        let error = reply.json()["error"].clone();
        assert_eq!(reply.status, status, "{body}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(error["param"], param);
        assert_eq!(error.as_object().unwrap().len(), 4);
    };
    check(CHAT, "{", 400, "the body is not valid JSON", Value::Null);
    check(CHAT, r#"{"model":"m"}"#, 400, "`messages` is required", json!("messages"));
    check(CHAT, r#"{"messages":"a"}"#, 400, "`model` must be a string", json!("model"));
    let usage = r#"{"model":"m","messages":"a","stream_options":{}}"#;
    check(CHAT, usage, 400, "only allowed when `stream` is true", json!("stream_options"));
    check(CHAT, r#"{"model":"m","messages":"a","max_tokens":0}"#, 400, "at least 1", json!("max_tokens"));
    check("/v1/embeddings", r#"{"model":"m","input":[]}"#, 400, "`input` is required", json!("input"));
    check("/v1/nothing", "{}", 404, "there is no route /v1/nothing", Value::Null);
    check("/v1/models", "{}", 405, "use GET", Value::Null);
    check(CHAT, &" ".repeat(301), 413, "larger than 300 bytes", Value::Null);
}
