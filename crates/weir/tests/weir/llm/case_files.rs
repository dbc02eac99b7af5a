//! Requests and replies that were answered wrongly before, each as a request, the provider's reply and the right value.

use std::time::Duration;

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, Scripted, ask, ask_stream, read_to_close, read_until, upstream};
use crate::support::client::Reply;
use crate::upstreams::scripted::{Answer, Upstream};

const ADDRESS: &str = "ann@example.com";
const CARD: u64 = 4_111_111_111_111_111;
const REDACTS: &str = "[[guardrails]]\nid = \"pii\"\ndetect = [\"pii\"]\n";
const BLOCKS: &str = "[[guardrails]]\nid = \"pii\"\ndetect = [\"pii\"]\naction = \"block\"\n";
const RESTORES: &str = "[[guardrails]]\nid = \"secrets\"\ndetect = [\"secrets\"]\nrestore = true\n";
const PRICE: &str = "[[prices]]\nmodel = \"*\"\ninput = 3\ncached_input = 0.3\noutput = 15\n";
const STREAM: &str = "text/event-stream";
const WHOLE: &str = "application/json";

/// A gateway before a server that gives one reply: with OpenAI's API as `oa` and with Anthropic's as `an`.
struct Case {
    proxy: Proxy,
    provider: Upstream,
}

impl Case {
    /// `more` ends the table of `oa`.
    fn start(media: &'static str, reply: &str, more: &str) -> Case {
        let reply = reply.to_owned();
        let provider = Upstream::start(move |_, _| {
            Answer::Other(200, vec![("content-type", media.to_owned())], reply.clone())
        });
        let url = &provider.url;
        let tables = format!(
            "[[upstreams]]\nid = \"an\"\nprovider = \"anthropic\"\nurl = \"{url}\"\n[[upstreams]]\nid = \"oa\"\nprovider = \"openai\"\nurl = \"{url}/v1\"\n{more}"
        );
        Case { proxy: Proxy::start(&tables), provider }
    }

    fn reply(&self, path: &str, body: &Value) -> Reply {
        self.proxy.post(path, body, &[]).unwrap()
    }

    /// What the provider gets of a request.
    fn sent(&self, path: &str, body: &Value) -> Value {
        let reply = self.reply(path, body);
        assert_eq!(reply.status, 200, "{}", reply.text);
        self.provider.asked().last().expect("a request").body.clone()
    }

    fn check_blocked(&self, path: &str, body: &Value) {
        let reply = self.reply(path, body);
        assert!(reply.status == 400 && reply.text.contains("guardrail"), "{body}: {}", reply.text);
        assert!(self.provider.asked().is_empty(), "{body}");
    }
}

fn completion(message: &Value, reason: &str, usage: &Value) -> String {
    json!({"id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage})
    .to_string()
}

/// A whole reply of OpenAI's with this text.
fn said(text: &str) -> String {
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    completion(&json!({"role": "assistant", "content": text}), "stop", &usage)
}

/// A whole message of Anthropic's.
fn message() -> String {
    json!({"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
    .to_string()
}

fn call(arguments: &Value) -> Value {
    json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments.to_string()}})
}

/// A conversation with a call of a tool in the API of chat completions.
fn called(model: &str, arguments: &Value) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "tool_calls": [call(arguments)]},
        {"role": "tool", "tool_call_id": "c", "content": "x"}]})
}

#[test]
fn inputs_of_tools_are_checked_under_the_names_of_fields_of_the_api() {
    let names = ["to", "name", "url", "data", "id", "status", "role", "type", "text", "source"];
    let body = |name: &str, value: Value| {
        json!({"model": "an/m", "max_tokens": 50, "messages": [{"role": "user", "content": "q"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {name: value, "deep": [{name: value}]}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}]})
    };
    let (redacts, blocks) = (Case::start(WHOLE, &message(), REDACTS), Case::start(WHOLE, &message(), BLOCKS));
    for name in names {
        for (value, shown) in [(json!(ADDRESS), "[EMAIL_1]"), (json!(CARD), "[PAYMENT_CARD_1]")] {
            let sent = redacts.sent("/v1/messages", &body(name, value.clone()));
            let input = &sent["messages"][1]["content"][0]["input"];
            assert_eq!(input, &json!({name: shown, "deep": [{name: shown}]}), "{name}");
            blocks.check_blocked("/v1/messages", &body(name, value));
        }
    }
}

#[test]
fn the_text_of_a_document_is_checked_wherever_it_goes() {
    for (model, reply) in [("oa/m", said("ok")), ("an/m", message())] {
        let source = json!({"type": "text", "media_type": "text/plain", "data": format!("Mail {ADDRESS}")});
        let body = json!({"model": model, "max_tokens": 50, "messages": [{"role": "user",
            "content": [{"type": "document", "source": source}, {"type": "text", "text": "q"}]}]});
        let sent = Case::start(WHOLE, &reply, REDACTS).sent("/v1/messages", &body).to_string();
        assert!(sent.contains("Mail [EMAIL_1]") && !sent.contains(ADDRESS), "{sent}");
        Case::start(WHOLE, &reply, BLOCKS).check_blocked("/v1/messages", &body);
    }
}

#[test]
fn numbers_in_arguments_are_redacted_and_arguments_stay_json() {
    let redacted = json!({"card": "[PAYMENT_CARD_1]"});
    let to_anthropic = Case::start(WHOLE, &message(), REDACTS);
    let sent = to_anthropic.sent("/v1/chat/completions", &called("an/m", &json!({ "card": CARD })));
    assert_eq!(sent["messages"][1]["content"][0]["input"], redacted);
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1});
    let given = json!({"role": "assistant", "content": null, "tool_calls": [call(&json!({ "card": CARD }))]});
    let answers = Case::start(WHOLE, &completion(&given, "tool_calls", &usage), REDACTS);
    let reply = answers.reply("/v1/chat/completions", &ask("oa/m")).json();
    let arguments = &reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(serde_json::from_str::<Value>(arguments.as_str().unwrap()).unwrap(), redacted);
    let mut body = ask("oa/m");
    body["max_tokens"] = 50.into();
    let reply = answers.reply("/v1/messages", &body).json();
    assert_eq!(reply["content"][0]["input"], redacted, "{reply}");
}

#[test]
fn what_is_restored_is_escaped_for_the_json_in_which_it_stands() {
    let lines = "MIIEowIBAAKCAQEA".repeat(4);
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----");
    let asking = |is_stream: bool| {
        json!({"model": "oa/m", "stream": is_stream, "response_format": {"type": "json_object"},
            "messages": [{"role": "user", "content": key.clone()}]})
    };
    let inner = r#"{"key":"[API_KEY_1]"}"#;
    let restored = json!({ "key": key.clone() });
    let parsed =
        |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"));
    let reply =
        Case::start(WHOLE, &said(inner), RESTORES).reply("/v1/chat/completions", &asking(false)).json();
    assert_eq!(parsed(reply["choices"][0]["message"]["content"].as_str().unwrap()), restored);

    let chunk = |delta: Value| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}));
    let part =
        |arguments: &str| chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}));
    let mut head = call(&json!({}));
    head["function"]["arguments"] = "".into();
    head["index"] = 0.into();
    let events = [
        chunk(json!({"role": "assistant", "tool_calls": [head]})),
        part(r#"{"key":"[API_"#),
        part(r#"KEY_1]"}"#),
    ];
    let last = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let streamed = Case::start(STREAM, &format!("{}{last}", events.concat()), RESTORES);
    let text = streamed.reply("/v1/chat/completions", &asking(true)).text;
    let arguments =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let arguments: String = arguments
        .filter_map(|event| {
            event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
        })
        .collect();
    assert_eq!(parsed(&arguments), restored, "{text}");
}

#[test]
fn what_is_written_to_the_cache_costs_more_in_responses_too() {
    let usage = json!({"input_tokens": 2000, "output_tokens": 100, "total_tokens": 2100,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1900}});
    let reply = json!({"id": "r", "object": "response", "status": "completed", "output": [], "usage": usage});
    let case = Case::start(WHOLE, &reply.to_string(), PRICE);
    let reply = case.reply("/v1/responses", &json!({"model": "oa/m", "input": "hi"}));
    assert_eq!((reply.status, reply.header("x-weir-cost")), (200, "0.008925"), "{}", reply.text);
}

#[test]
fn a_client_that_leaves_a_stream_pays_for_its_image_as_an_image() {
    let chunk = r#"data: {"choices":[{"index":0,"delta":{"content":"A dam. "}}]}"#;
    let events = format!("200 OK\r\ncontent-type: text/event-stream\r\n\r\n{chunk}\n\n{chunk}\n\n");
    let provider = Scripted::in_parts(vec![(Duration::ZERO, events.into_bytes())], Duration::from_secs(20));
    let price = "[[prices]]\nmodel = \"*\"\ninput = 2.5\noutput = 10\n";
    let proxy = Proxy::start(&format!("{}{price}", provider.upstream("oa", "")));
    let url = format!("data:image/png;base64,{}", "A".repeat(1_000_000));
    let mut body = ask_stream("m");
    body["max_tokens"] = 100.into();
    body["messages"][0]["content"] =
        json!([{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}}]);
    let mut client = proxy.open(&body, &[]);
    read_until(&mut client, "A dam. ");
    drop(client);
    proxy.client.wait("the row", || proxy.usage_of("m")["requests"] == 1);
    let cost = proxy.usage_of("m")["cost"].as_f64().unwrap();
    assert!((0.0001..0.005).contains(&cost), "{}", proxy.usage_of("m"));
}

#[test]
fn a_call_that_the_limit_cuts_off_is_given_and_charged() {
    let cut =
        json!({"id": "c", "type": "function", "function": {"name": "write", "arguments": "{\"text\":\"abc"}});
    let usage = json!({"prompt_tokens": 50, "completion_tokens": 4096, "total_tokens": 4146});
    let given = json!({"role": "assistant", "content": null, "tool_calls": [cut]});
    let case = Case::start(WHOLE, &completion(&given, "length", &usage), PRICE);
    let body = json!({"model": "oa/m", "max_tokens": 4096, "tools": [{"name": "write", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "hi"}]});
    let reply = case.reply("/v1/messages", &body);
    assert_eq!((reply.status, &reply.json()["stop_reason"]), (200, &"max_tokens".into()), "{}", reply.text);
    case.proxy.client.wait("the row", || case.proxy.usage_of("oa/m")["requests"] == 1);
    let row = case.proxy.usage_of("oa/m");
    assert_eq!((&row["prompt_tokens"], &row["completion_tokens"]), (&50.into(), &4096.into()), "{row}");
}

#[test]
fn a_server_that_refuses_stream_options_gets_none_from_any_api() {
    let events = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for (more, expected) in [("", json!({"include_usage": true})), ("stream_usage = false\n", Value::Null)] {
        let case = Case::start(STREAM, events, more);
        for path in ["/v1/chat/completions", "/v1/messages", "/api/chat"] {
            let mut body = ask_stream("oa/m");
            if path == "/v1/messages" {
                body["max_tokens"] = 9.into();
            }
            assert_eq!(case.sent(path, &body)["stream_options"], expected, "{path} {more}");
        }
        let mut asks = ask_stream("oa/m");
        asks["stream_options"] = json!({"include_usage": true});
        assert_eq!(case.sent("/v1/chat/completions", &asks)["stream_options"], expected, "{more}");
    }
}

/// As the first event an error leads to the next target; later it ends the stream. It is never kept.
#[test]
fn error_events_are_found_in_any_spelling() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A dam\"}}]}\n\n";
    let done = "data: [DONE]\n\n";
    for error in [
        "data: { \"error\": { \"message\": \"gone\" } }\n\n",
        "data: {\ndata: \"error\":{\"message\":\"gone\"}}\n\n",
        "data: {\"object\":\"error\",\"message\":\"gone\",\"code\":500}\n\n",
        "data: {\"id\":\"gen-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\"}],\"error\":{\"code\":502,\"message\":\"gone\"}}\n\n",
        "event: error\ndata: {\"error\":{\"message\":\"gone\"}}\n\n",
    ] {
        let good = Mock::start(&["--tokens", "3"]);
        let routes = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"oa\" }, { upstream = \"good\", priority = 1 }]\n[[routes]]\nmodel = \"kept\"\ntargets = [{ upstream = \"oa\" }]\ncache = { mode = \"exact\" }\n";
        let more = format!("retries_max = 0\n{}{routes}", upstream("good", &good, ""));
        let first = Case::start(STREAM, error, &more);
        let (read, is_whole) = read_to_close(&mut first.proxy.open(&ask_stream("m"), &[]));
        assert!(is_whole && read.contains("x-weir-upstream: good"), "{error}: {read}");
        let later = Case::start(STREAM, &format!("{text}{error}{done}"), &more);
        for requests in 1..=2 {
            let (read, is_whole) = read_to_close(&mut later.proxy.open(&ask_stream("kept"), &[]));
            assert!(read.contains("A dam") && read.contains("gone"), "{error}: {read}");
            assert!(!is_whole, "{error}: {read}");
            assert_eq!(later.provider.asked().len(), requests, "{error}: it is not kept");
        }
        let metrics = later.proxy.client.send("GET", "/metrics", None).text;
        let errors = "weir_upstream_errors_total{upstream=\"oa\",code=\"reply\"} 2\n";
        assert!(metrics.contains(errors), "{error}: {metrics}");
    }
}

#[test]
fn an_event_that_is_cut_is_an_error_in_every_api() {
    let mock = Mock::start(&["--tokens", "6"]);
    let openai = upstream("openai", &mock, "");
    let other = |id: &str| {
        openai.replace("\"openai\"", &format!("\"{id}\"")).replace(&mock.url("/v1"), &mock.url(""))
    };
    let proxy = Proxy::start(&[openai.clone(), other("anthropic"), other("gemini")].concat());
    for (path, model) in [
        ("/v1/chat/completions", "openai/m"),
        ("/v1/chat/completions", "anthropic/m"),
        ("/v1/chat/completions", "gemini/m"),
        ("/v1/messages", "openai/m"),
        ("/v1/messages", "anthropic/m"),
        ("/v1/completions", "openai/m"),
        ("/v1/responses", "openai/m"),
    ] {
        let mut body = ask_stream(model);
        if path != "/v1/responses" {
            body["max_tokens"] = 50.into();
        }
        (body["prompt"], body["input"]) = ("hi".into(), "hi".into());
        if path == "/v1/chat/completions" || path == "/v1/messages" {
            body.as_object_mut().unwrap().retain(|name, _| name != "prompt" && name != "input");
        }
        let (read, is_whole) = read_to_close(&mut proxy.open_at(path, &body, &[("x-mock-malformed", "1")]));
        assert!(read.contains("t000001") && !read.contains("t000006"), "{path} {model}: {read}");
        let ends = ["[DONE]", "message_stop", "response.completed"];
        assert!(!is_whole && ends.iter().all(|end| !read.contains(end)), "{path} {model}: {read}");
        assert!(read.contains("error"), "{path} {model}: {read}");
    }
    let metrics = proxy.client.send("GET", "/metrics", None).text;
    for (upstream, count) in [("openai", 4), ("anthropic", 2), ("gemini", 1)] {
        let series =
            format!("weir_upstream_errors_total{{upstream=\"{upstream}\",code=\"reply\"}} {count}\n");
        assert!(metrics.contains(&series), "{series} is not in {metrics}");
    }
}

/// Models that think for minutes send nothing meanwhile. A chat completion that is silent for a minute has broken.
#[test]
fn a_response_may_be_silent_for_longer_than_a_chat_completion() {
    let mock = Mock::start(&["--tokens", "4", "--stall-midstream", "1", "--stall-ms", "62000"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let response = json!({"model": "m", "input": "hi", "stream": true});
    let mut clients = [proxy.open_at("/v1/responses", &response, &[]), proxy.open(&ask_stream("m"), &[])];
    for client in &clients {
        client.get_ref().set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    }
    let [response, chat] = &mut clients;
    let (chat, is_whole) = read_to_close(chat);
    assert!(chat.contains("upstream_timeout") && !is_whole, "{chat}");
    let (response, is_whole) = read_to_close(response);
    assert!(response.contains("response.completed"), "{is_whole} {response}");
}
