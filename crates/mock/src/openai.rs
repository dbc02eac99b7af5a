//! OpenAI: chat completions, completions, models.

use serde_json::{Value, json};

use crate::echo::{self, Message};
use crate::events::{CREATED, Exchange, Shape, json_string};
use crate::provider::{ERROR_IN_STREAM, Provider};
use crate::quirks::Quirk;
use crate::reply::Finish;
use crate::request::{self, Prompt, Refusal};
use crate::usage;

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
    usage::openai(exchange, ["prompt", "completion"])
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
    if exchange.prompt.include_usage && !exchange.quirks.has(Quirk::UsageInChoice) {
        push_event(exchange, head, "", &usage(exchange), out);
    }
}

/// Prefix of ids and `object` of a chat's events.
const CHAT_EVENT: &str = "chatcmpl chat.completion.chunk";
/// The same of a completion's.
const COMPLETION_EVENT: &str = "cmpl text_completion";

/// The parts of a streamed reasoning, `because`.
const REASONING: [&str; 2] = ["be", "cause"];

impl Chat {
    fn push_delta(exchange: &Exchange, delta: &str, finish_reason: &str, out: &mut String) {
        Chat::push_choice(exchange, delta, finish_reason, "", out);
    }

    /// Appends an event with one choice, whose last fields are `more`.
    fn push_choice(exchange: &Exchange, delta: &str, finish_reason: &str, more: &str, out: &mut String) {
        let choice =
            format!(r#"{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish_reason}{more}}}"#);
        push_event(exchange, CHAT_EVENT, Chat::choices(exchange, &choice), "null", out);
    }

    fn choices<'a>(exchange: &Exchange, choice: &'a str) -> &'a str {
        if exchange.quirks.has(Quirk::EmptyChoices) { "" } else { choice }
    }

    fn message(exchange: &Exchange) -> String {
        let reasoning = Chat::reasoning_field(exchange)
            .map_or_else(String::new, |name| format!(r#","{name}":"{}""#, REASONING.concat()));
        match exchange.tool() {
            None => {
                let mut text = json_string(&exchange.reply.text());
                if exchange.quirks.has(Quirk::ContentList) {
                    text = format!("[{},{}]", thinking_part(&REASONING.concat()), text_part(&text));
                }
                format!(r#"{{"role":"assistant","content":{text},"refusal":null{reasoning}}}"#)
            }
            Some(name) => {
                let arguments = json_string(&exchange.reply.arguments());
                let calls = Chat::call_ids(exchange).map(|id| call("", Some((&id, &name)), &arguments));
                let calls = calls.collect::<Vec<_>>().join(",");
                format!(
                    r#"{{"role":"assistant","content":null,"refusal":null{reasoning},"tool_calls":[{calls}]}}"#
                )
            }
        }
    }

    /// The field that has the reasoning.
    fn reasoning_field(exchange: &Exchange) -> Option<&'static str> {
        let fields =
            [(Quirk::Reasoning, "reasoning"), (Quirk::ReasoningContent, "reasoning_content")].into_iter();
        fields.filter(|(quirk, _)| exchange.quirks.has(*quirk)).map(|(_, name)| name).next()
    }

    fn push_reasoning(exchange: &Exchange, out: &mut String) {
        for part in REASONING {
            if let Some(name) = Chat::reasoning_field(exchange) {
                Chat::push_delta(exchange, &format!(r#"{{"{name}":"{part}"}}"#), "null", out);
            }
            if exchange.quirks.has(Quirk::ContentList) && exchange.reply.tool.is_none() {
                let delta = format!(r#"{{"content":[{}]}}"#, thinking_part(part));
                Chat::push_delta(exchange, &delta, "null", out);
            }
        }
    }

    /// The ids of the calls: of one, or of two with a quirk of calls.
    fn call_ids(exchange: &Exchange) -> impl Iterator<Item = String> {
        let number = exchange.number;
        let quirks = [Quirk::CallsSameIndex, Quirk::CallsWithoutIndex, Quirk::CallsInterleaved];
        let second = exchange.quirks.has_any(&quirks).then(|| format!("call_{number}_2"));
        [format!("call_{number}")].into_iter().chain(second)
    }

    /// The field `index` of a streamed call.
    fn index(exchange: &Exchange, index: usize) -> String {
        if exchange.quirks.has(Quirk::CallsWithoutIndex) {
            return String::new();
        }
        let index = if exchange.quirks.has(Quirk::CallsSameIndex) { 0 } else { index };
        format!(r#""index":{index},"#)
    }

    /// Whether each call is sent whole.
    fn sends_whole_calls(exchange: &Exchange) -> bool {
        exchange.quirks.has_any(&[Quirk::CallsSameIndex, Quirk::CallsWithoutIndex])
    }

    fn push_call_piece(exchange: &Exchange, name: &str, number: u32, out: &mut String) {
        let is_whole = Chat::sends_whole_calls(exchange);
        if is_whole && number < exchange.reply.pieces() {
            return;
        }
        let arguments = match is_whole {
            true => json_string(&exchange.reply.arguments()),
            false => json_string(&exchange.reply.piece(number)),
        };
        for (index, id) in Chat::call_ids(exchange).enumerate() {
            let head = is_whole.then_some((id.as_str(), name));
            let call = call(&Chat::index(exchange, index), head, &arguments);
            Chat::push_delta(exchange, &format!(r#"{{"tool_calls":[{call}]}}"#), "null", out);
        }
    }
}

/// A call, or a part of one. `name` and `arguments` are JSON strings.
fn call(index: &str, head: Option<(&str, &str)>, arguments: &str) -> String {
    match head {
        Some((id, name)) => format!(
            r#"{{{index}"id":"{id}","type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#
        ),
        None => format!(r#"{{{index}"function":{{"arguments":{arguments}}}}}"#),
    }
}

/// A part of a list of contents; `text` is a JSON string.
fn text_part(text: &str) -> String {
    format!(r#"{{"type":"text","text":{text}}}"#)
}

fn thinking_part(text: &str) -> String {
    format!(r#"{{"type":"thinking","thinking":[{}]}}"#, text_part(&json_string(text)))
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
        let choice = format!(r#"{{"index":0,"message":{message},"logprobs":null,"finish_reason":{reason}}}"#);
        let choices = Chat::choices(exchange, &choice);
        format!(
            r#"{{"id":"chatcmpl-{number}","object":"chat.completion","created":{CREATED},"model":{model},"choices":[{choices}],"usage":{usage}}}"#
        )
    }

    fn opening(&self, exchange: &Exchange, out: &mut String) {
        let delta = match exchange.tool() {
            None => r#"{"role":"assistant","content":""}"#.to_owned(),
            Some(_) if Chat::sends_whole_calls(exchange) => {
                r#"{"role":"assistant","content":null}"#.to_owned()
            }
            Some(name) => {
                let calls = Chat::call_ids(exchange)
                    .enumerate()
                    .map(|(index, id)| call(&Chat::index(exchange, index), Some((&id, &name)), r#""""#));
                let calls = calls.collect::<Vec<_>>().join(",");
                format!(r#"{{"role":"assistant","content":null,"tool_calls":[{calls}]}}"#)
            }
        };
        Chat::push_delta(exchange, &delta, "null", out);
        Chat::push_reasoning(exchange, out);
    }

    fn piece(&self, exchange: &Exchange, number: u32, out: &mut String) {
        if let Some(name) = exchange.tool() {
            return Chat::push_call_piece(exchange, &name, number, out);
        }
        let mut content = json_string(&exchange.reply.piece(number));
        if exchange.quirks.has(Quirk::ContentList) {
            content = format!("[{}]", text_part(&content));
        }
        Chat::push_delta(exchange, &format!(r#"{{"content":{content}}}"#), "null", out);
    }

    fn closing(&self, exchange: &Exchange, out: &mut String) {
        let usage = match exchange.quirks.has(Quirk::UsageInChoice) {
            true => format!(",\"usage\":{}", usage(exchange)),
            false => String::new(),
        };
        Chat::push_choice(exchange, "{}", finish_reason(exchange), &usage, out);
        push_usage_event(exchange, CHAT_EVENT, out);
    }

    fn end(&self, _: &Exchange, out: &mut String) {
        out.push_str("data: [DONE]\n\n");
    }

    fn error(&self, exchange: &Exchange, _: u32, out: &mut String) {
        match exchange.quirks.has(Quirk::OpenRouterError) {
            true => push_openrouter_error(out),
            false => out.push_str(&self.provider().error_event()),
        }
    }

    fn failed(&self, _: &Exchange) -> String {
        json!({"error": {"message": ERROR_IN_STREAM, "code": 429}}).to_string()
    }
}

/// The chunk by which OpenRouter reports an error, after which its stream ends as others do.
fn push_openrouter_error(out: &mut String) {
    let choice = r#"{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"error","native_finish_reason":null}"#;
    out.push_str(&format!(
        "data: {{\"id\":\"gen-1\",\"object\":\"chat.completion.chunk\",\"error\":{{\"code\":502,\"message\":\"{ERROR_IN_STREAM}\"}},\"choices\":[{choice}]}}\n\ndata: [DONE]\n\n"
    ));
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
