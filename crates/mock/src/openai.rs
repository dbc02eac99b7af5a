//! OpenAI: chat completions, completions, models.

use serde_json::{Value, json};

use crate::echo::{self, Message};
use crate::events::{CREATED, Exchange, Shape, json_string};
use crate::provider::Provider;
use crate::reply::Finish;
use crate::request::{self, Prompt, Refusal};

/// `POST /v1/chat/completions`.
pub(crate) struct Chat;

/// `POST /v1/completions`.
pub(crate) struct Completions;

/// The body of `GET /v1/models`.
pub(crate) fn models(names: &[String]) -> String {
    json!({"object": "list", "data": names.iter().map(|name| model(name)).collect::<Vec<_>>()}).to_string()
}

/// The entry of one model.
pub(crate) fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": CREATED, "owned_by": "weir-mock"})
}

/// `stream` and `stream_options.include_usage`.
fn stream_options(body: &Value) -> Result<(bool, bool), Refusal> {
    let stream = request::flag(body, "stream")?;
    if !stream && !body["stream_options"].is_null() {
        return Err(Refusal::invalid("stream_options", "is only allowed when `stream` is true"));
    }
    Ok((stream, request::flag(&body["stream_options"], "include_usage")?))
}

fn finish_reason(exchange: &Exchange) -> &'static str {
    match exchange.finish() {
        Finish::Stop => "\"stop\"",
        Finish::Length => "\"length\"",
        Finish::ToolCall => "\"tool_calls\"",
    }
}

fn usage(exchange: &Exchange) -> String {
    exchange.usage("prompt_tokens", "completion_tokens")
}

/// Appends an event of a stream with these `choices`, and with `usage` if the request asked for it.
fn push_event(exchange: &Exchange, head: &str, choices: &str, usage: &str, out: &mut String) {
    let usage = if exchange.prompt.include_usage { format!(",\"usage\":{usage}") } else { String::new() };
    let (number, model) = (exchange.number, &exchange.model);
    let (prefix, object) = head.split_once(' ').unwrap_or((head, head));
    out.push_str(&format!(
        "data: {{\"id\":\"{prefix}-{number}\",\"object\":\"{object}\",\"created\":{CREATED},\"model\":{model},\"choices\":[{choices}]{usage}}}\n\n"
    ));
}

fn push_usage_event(exchange: &Exchange, head: &str, out: &mut String) {
    if exchange.prompt.include_usage {
        push_event(exchange, head, "", &usage(exchange), out);
    }
}

/// Prefix of ids and `object` of a chat's events.
const CHAT_EVENT: &str = "chatcmpl chat.completion.chunk";
/// The same of a completion's.
const COMPLETION_EVENT: &str = "cmpl text_completion";

impl Chat {
    fn push_delta(exchange: &Exchange, delta: &str, finish_reason: &str, out: &mut String) {
        let choice =
            format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish_reason}}}"#);
        push_event(exchange, CHAT_EVENT, &choice, "null", out);
    }

    fn message(exchange: &Exchange) -> String {
        match exchange.tool() {
            None => {
                let text = json_string(&exchange.reply.text());
                format!(r#"{{"role":"assistant","content":{text},"refusal":null}}"#)
            }
            Some(name) => {
                let arguments = json_string(&exchange.reply.arguments());
                let call = format!(
                    r#"{{"id":"call_{}","type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#,
                    exchange.number
                );
                format!(r#"{{"role":"assistant","content":null,"refusal":null,"tool_calls":[{call}]}}"#)
            }
        }
    }
}

impl Shape for Chat {
    fn provider(&self) -> Provider {
        Provider::OpenAi
    }

    fn parse(&self, body: &Value) -> Result<Prompt, Refusal> {
        let (stream, include_usage) = stream_options(body)?;
        let messages = request::required(body, "messages")?;
        let tokens_max = match request::tokens_max(body, "max_completion_tokens")? {
            Some(limit) => Some(limit),
            None => request::tokens_max(body, "max_tokens")?,
        };
        Ok(Prompt {
            model: request::string(body, "model")?,
            stream,
            include_usage,
            tokens: request::words(messages),
            tokens_max,
            tool: request::tool_call(messages, body["tools"][0]["function"]["name"].as_str()),
            echo: None,
        })
    }

    fn messages(&self, body: &Value) -> Vec<Message> {
        echo::messages(&[], &body["messages"])
    }

    fn whole(&self, exchange: &Exchange) -> String {
        let (number, model) = (exchange.number, &exchange.model);
        let (message, reason, usage) = (Chat::message(exchange), finish_reason(exchange), usage(exchange));
        format!(
            r#"{{"id":"chatcmpl-{number}","object":"chat.completion","created":{CREATED},"model":{model},"choices":[{{"index":0,"message":{message},"logprobs":null,"finish_reason":{reason}}}],"usage":{usage}}}"#
        )
    }

    fn opening(&self, exchange: &Exchange, out: &mut String) {
        let delta = match exchange.tool() {
            None => r#"{"role":"assistant","content":""}"#.to_owned(),
            Some(name) => format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"index":0,"id":"call_{}","type":"function","function":{{"name":{name},"arguments":""}}}}]}}"#,
                exchange.number
            ),
        };
        Chat::push_delta(exchange, &delta, "null", out);
    }

    fn piece(&self, exchange: &Exchange, number: u32, out: &mut String) {
        let piece = json_string(&exchange.reply.piece(number));
        let delta = match &exchange.reply.tool {
            None => format!(r#"{{"content":{piece}}}"#),
            Some(_) => {
                format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{piece}}}}}]}}"#)
            }
        };
        Chat::push_delta(exchange, &delta, "null", out);
    }

    fn closing(&self, exchange: &Exchange, out: &mut String) {
        Chat::push_delta(exchange, "{}", finish_reason(exchange), out);
        push_usage_event(exchange, CHAT_EVENT, out);
    }

    fn end(&self, _: &Exchange, out: &mut String) {
        out.push_str("data: [DONE]\n\n");
    }
}

impl Completions {
    fn choice(text: &str, finish_reason: &str) -> String {
        let text = json_string(text);
        format!(r#"{{"text":{text},"index":0,"logprobs":null,"finish_reason":{finish_reason}}}"#)
    }
}

impl Shape for Completions {
    fn provider(&self) -> Provider {
        Provider::OpenAi
    }

    fn parse(&self, body: &Value) -> Result<Prompt, Refusal> {
        let (stream, include_usage) = stream_options(body)?;
        Ok(Prompt {
            model: request::string(body, "model")?,
            stream,
            include_usage,
            tokens: request::words(request::required(body, "prompt")?),
            tokens_max: request::tokens_max(body, "max_tokens")?,
            tool: None,
            echo: None,
        })
    }

    fn messages(&self, body: &Value) -> Vec<Message> {
        echo::messages(&[], &body["prompt"])
    }

    fn whole(&self, exchange: &Exchange) -> String {
        let (number, model, usage) = (exchange.number, &exchange.model, usage(exchange));
        let choice = Completions::choice(&exchange.reply.text(), finish_reason(exchange));
        format!(
            r#"{{"id":"cmpl-{number}","object":"text_completion","created":{CREATED},"model":{model},"choices":[{choice}],"usage":{usage}}}"#
        )
    }

    fn opening(&self, _: &Exchange, _: &mut String) {}

    fn piece(&self, exchange: &Exchange, number: u32, out: &mut String) {
        let choice = Completions::choice(&exchange.reply.piece(number), "null");
        push_event(exchange, COMPLETION_EVENT, &choice, "null", out);
    }

    fn closing(&self, exchange: &Exchange, out: &mut String) {
        let choice = Completions::choice("", finish_reason(exchange));
        push_event(exchange, COMPLETION_EVENT, &choice, "null", out);
        push_usage_event(exchange, COMPLETION_EVENT, out);
    }

    fn end(&self, _: &Exchange, out: &mut String) {
        out.push_str("data: [DONE]\n\n");
    }
}
