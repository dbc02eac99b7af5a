//! Anthropic: `POST /v1/messages`.

use serde_json::Value;

use crate::echo::{self, Message};
use crate::events::{Exchange, Shape, json_string};
use crate::provider::Provider;
use crate::reply::Finish;
use crate::request::{self, Prompt, Refusal};
use crate::usage;

/// `POST /v1/messages`.
pub(crate) struct Messages;

impl Messages {
    fn stop_reason(exchange: &Exchange) -> &'static str {
        match exchange.finish() {
            Finish::Stop => "\"end_turn\"",
            Finish::Length => "\"max_tokens\"",
            Finish::ToolCall => "\"tool_use\"",
        }
    }

    fn message(exchange: &Exchange, content: &str, stop_reason: &str, output_tokens: u32) -> String {
        let (number, model, usage) =
            (exchange.number, &exchange.model, usage::anthropic(exchange, output_tokens));
        format!(
            r#"{{"id":"msg_{number}","type":"message","role":"assistant","model":{model},"content":[{content}],"stop_reason":{stop_reason},"stop_sequence":null,"usage":{usage}}}"#
        )
    }

    fn block(exchange: &Exchange, text: &str, input: &str) -> String {
        match exchange.tool() {
            None => format!(r#"{{"type":"text","text":{}}}"#, json_string(text)),
            Some(name) => {
                let id = exchange.number;
                format!(r#"{{"type":"tool_use","id":"toolu_{id}","name":{name},"input":{input}}}"#)
            }
        }
    }
}

/// Appends an event; `fields` follow its `type`.
fn push_event(name: &str, fields: &str, out: &mut String) {
    out.push_str(&format!("event: {name}\ndata: {{\"type\":\"{name}\"{fields}}}\n\n"));
}

/// The words of a request, as its tokens.
fn tokens(body: &Value, messages: &Value) -> u64 {
    request::words(messages) + request::words(&body["system"])
}

/// `POST /v1/messages/count_tokens`.
pub(crate) fn count_tokens(body: &Value) -> Result<String, Refusal> {
    let messages = request::required(body, "messages")?;
    Ok(format!(r#"{{"input_tokens":{}}}"#, tokens(body, messages)))
}

impl Shape for Messages {
    fn provider(&self) -> Provider {
        Provider::Anthropic
    }

    fn parse(&self, body: &Value) -> Result<Prompt, Refusal> {
        let messages = request::required(body, "messages")?;
        let Some(tokens_max) = request::tokens_max(body, "max_tokens")? else {
            return Err(Refusal::invalid("max_tokens", "is required"));
        };
        Ok(Prompt {
            model: request::string(body, "model")?,
            stream: request::flag(body, "stream")?,
            include_usage: false,
            tokens: tokens(body, messages),
            tokens_max: Some(tokens_max),
            tool: request::tool_call(messages, body["tools"][0]["name"].as_str()),
            echo: None,
        })
    }

    fn messages(&self, body: &Value) -> Vec<Message> {
        echo::messages(&[&body["system"]], &body["messages"])
    }

    fn whole(&self, exchange: &Exchange) -> String {
        let reply = &exchange.reply;
        let block = Messages::block(exchange, &reply.text(), &reply.arguments());
        Messages::message(exchange, &block, Messages::stop_reason(exchange), reply.pieces())
    }

    fn opening(&self, exchange: &Exchange, out: &mut String) {
        let message = Messages::message(exchange, "", "null", 0);
        push_event("message_start", &format!(",\"message\":{message}"), out);
        let block = Messages::block(exchange, "", "{}");
        push_event("content_block_start", &format!(",\"index\":0,\"content_block\":{block}"), out);
    }

    fn piece(&self, exchange: &Exchange, number: u32, out: &mut String) {
        let piece = json_string(&exchange.reply.piece(number));
        let delta = match &exchange.reply.tool {
            None => format!(r#"{{"type":"text_delta","text":{piece}}}"#),
            Some(_) => format!(r#"{{"type":"input_json_delta","partial_json":{piece}}}"#),
        };
        push_event("content_block_delta", &format!(",\"index\":0,\"delta\":{delta}"), out);
    }

    fn closing(&self, exchange: &Exchange, out: &mut String) {
        push_event("content_block_stop", ",\"index\":0", out);
        let (reason, tokens) = (Messages::stop_reason(exchange), exchange.reply.pieces());
        let fields = format!(
            r#","delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{{"output_tokens":{tokens}}}"#
        );
        push_event("message_delta", &fields, out);
    }

    fn end(&self, _: &Exchange, out: &mut String) {
        push_event("message_stop", "", out);
    }
}
