//! OpenAI's `POST /v1/responses`: one message or one function call, as a reply or as a stream.

use serde_json::Value;

use crate::echo::{self, Message};
use crate::events::{CREATED, Exchange, Shape, json_string};
use crate::provider::{ERROR_IN_STREAM, Provider};
use crate::quirks::Quirk;
use crate::reply::Finish;
use crate::request::{self, Prompt, Refusal};
use crate::usage;

/// `POST /v1/responses`.
pub(crate) struct Responses;

/// `error` of a response that failed.
const FAILED: &str = r#"{"code":"server_error","message":"error requested by a flag or header"}"#;
/// Events before the first piece, in [`Responses::opening`], of a message.
const OPENING_EVENTS: u32 = 3;
/// The same of a function call, which has no content part.
const OPENING_EVENTS_OF_CALL: u32 = 2;

impl Responses {
    fn response(exchange: &Exchange, status: &str, output: &str, usage: &str) -> String {
        let (number, model) = (exchange.number, &exchange.model);
        let (mut error, mut details) = ("null", "null");
        match status {
            "incomplete" => details = r#"{"reason":"max_output_tokens"}"#,
            "failed" => error = FAILED,
            _ => {}
        }
        format!(
            r#"{{"id":"resp_{number}","object":"response","created_at":{CREATED},"status":"{status}","error":{error},"incomplete_details":{details},"model":{model},"output":[{output}],"usage":{usage}}}"#
        )
    }

    fn finished(exchange: &Exchange) -> String {
        let usage = usage::openai(exchange, ["input", "output"]);
        Responses::response(exchange, Responses::status(exchange), &Responses::done_item(exchange), &usage)
    }

    fn status(exchange: &Exchange) -> &'static str {
        match exchange.finish() {
            Finish::Stop | Finish::ToolCall => "completed",
            Finish::Length => "incomplete",
        }
    }

    /// The message or call, with its content so far.
    fn item(exchange: &Exchange, status: &str, content: &str, arguments: &str) -> String {
        let number = exchange.number;
        match exchange.tool() {
            None => format!(
                r#"{{"id":"msg_{number}","type":"message","status":"{status}","role":"assistant","content":[{content}]}}"#
            ),
            Some(name) => format!(
                r#"{{"id":"fc_{number}","type":"function_call","status":"{status}","call_id":"call_{number}","name":{name},"arguments":{arguments}}}"#
            ),
        }
    }

    fn done_item(exchange: &Exchange) -> String {
        let arguments = json_string(&exchange.reply.arguments());
        let part = output_text(&exchange.reply.text());
        Responses::item(exchange, Responses::status(exchange), &part, &arguments)
    }

    fn push_failed(exchange: &Exchange, pieces: u32, out: &mut String) {
        let mut sequence = sequence_after(exchange, pieces);
        if pieces == 0 {
            let response = Responses::response(exchange, "in_progress", "", "null");
            push_event("response.created", 0, &format!(",\"response\":{response}"), out);
            sequence = 1;
        }
        let response = Responses::response(exchange, "failed", "", "null");
        push_event("response.failed", sequence, &format!(",\"response\":{response}"), out);
    }

    /// The fields that events of a piece or part begin with.
    fn position(exchange: &Exchange) -> String {
        match &exchange.reply.tool {
            None => {
                format!(r#","item_id":"msg_{}","output_index":0,"content_index":0"#, exchange.number)
            }
            Some(_) => format!(r#","item_id":"fc_{}","output_index":0"#, exchange.number),
        }
    }
}

fn output_text(text: &str) -> String {
    format!(r#"{{"type":"output_text","text":{},"annotations":[]}}"#, json_string(text))
}

/// Appends an event; `fields` follow `type` and `sequence_number`.
fn push_event(name: &str, sequence: u32, fields: &str, out: &mut String) {
    out.push_str(&format!(
        "event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{sequence}{fields}}}\n\n"
    ));
}

/// Number of a stream's first event after `pieces` pieces.
fn sequence_after(exchange: &Exchange, pieces: u32) -> u32 {
    pieces + if exchange.reply.tool.is_some() { OPENING_EVENTS_OF_CALL } else { OPENING_EVENTS }
}

impl Shape for Responses {
    fn provider(&self) -> Provider {
        Provider::OpenAi
    }

    fn parse(&self, body: &Value) -> Result<Prompt, Refusal> {
        let input = request::required(body, "input")?;
        Ok(Prompt {
            model: request::string(body, "model")?,
            stream: request::flag(body, "stream")?,
            include_usage: false,
            tokens: request::words(input) + request::words(&body["instructions"]),
            tokens_max: request::tokens_max(body, "max_output_tokens")?,
            tool: request::tool_call(input, body["tools"][0]["name"].as_str()),
            echo: None,
        })
    }

    fn messages(&self, body: &Value) -> Vec<Message> {
        echo::messages(&[&body["instructions"]], &body["input"])
    }

    fn whole(&self, exchange: &Exchange) -> String {
        Responses::finished(exchange)
    }

    fn opening(&self, exchange: &Exchange, out: &mut String) {
        let response = Responses::response(exchange, "in_progress", "", "null");
        push_event("response.created", 0, &format!(",\"response\":{response}"), out);
        let item = Responses::item(exchange, "in_progress", "", "\"\"");
        push_event("response.output_item.added", 1, &format!(",\"output_index\":0,\"item\":{item}"), out);
        if exchange.reply.tool.is_none() {
            let fields = format!("{},\"part\":{}", Responses::position(exchange), output_text(""));
            push_event("response.content_part.added", 2, &fields, out);
        }
    }

    fn piece(&self, exchange: &Exchange, number: u32, out: &mut String) {
        let name = match &exchange.reply.tool {
            None => "response.output_text.delta",
            Some(_) => "response.function_call_arguments.delta",
        };
        let delta = json_string(&exchange.reply.piece(number));
        let fields = format!("{},\"delta\":{delta}", Responses::position(exchange));
        push_event(name, sequence_after(exchange, number - 1), &fields, out);
    }

    fn closing(&self, exchange: &Exchange, out: &mut String) {
        let (sequence, position) =
            (sequence_after(exchange, exchange.reply.pieces()), Responses::position(exchange));
        let last = if exchange.reply.tool.is_some() {
            let arguments = json_string(&exchange.reply.arguments());
            let fields = format!("{position},\"arguments\":{arguments}");
            push_event("response.function_call_arguments.done", sequence, &fields, out);
            sequence
        } else {
            let text = exchange.reply.text();
            push_event(
                "response.output_text.done",
                sequence,
                &format!("{position},\"text\":{}", json_string(&text)),
                out,
            );
            let fields = format!("{position},\"part\":{}", output_text(&text));
            push_event("response.content_part.done", sequence + 1, &fields, out);
            sequence + 1
        };
        let item = Responses::done_item(exchange);
        let fields = format!(",\"output_index\":0,\"item\":{item}");
        push_event("response.output_item.done", last + 1, &fields, out);
    }

    fn end(&self, exchange: &Exchange, out: &mut String) {
        let closing = if exchange.reply.tool.is_some() { 2 } else { 3 };
        let sequence = sequence_after(exchange, exchange.reply.pieces()) + closing;
        let name = format!("response.{}", Responses::status(exchange));
        push_event(&name, sequence, &format!(",\"response\":{}", Responses::finished(exchange)), out);
    }

    fn error(&self, exchange: &Exchange, pieces: u32, out: &mut String) {
        if exchange.quirks.has(Quirk::ResponseFailed) {
            return Responses::push_failed(exchange, pieces, out);
        }
        let fields = format!(r#","code":"server_error","message":"{ERROR_IN_STREAM}","param":null"#);
        push_event("error", sequence_after(exchange, pieces), &fields, out);
    }

    fn failed(&self, exchange: &Exchange) -> String {
        Responses::response(exchange, "failed", "", "null")
    }
}
