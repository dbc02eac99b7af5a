//! Gemini: `:generateContent` and `:streamGenerateContent?alt=sse`.
//!
//! Lines of its streams end by CRLF. A function call is one part of one event; Gemini does not send it in pieces.

use serde_json::Value;

use crate::echo::{self, Message};
use crate::events::{Exchange, Shape, json_string};
use crate::provider::Provider;
use crate::quirks::Quirk;
use crate::reply::Finish;
use crate::request::{self, Prompt, Refusal};

/// `POST /v1beta/models/{model}:…`. The path has the model and whether the reply is a stream.
pub(crate) struct Generate;

impl Generate {
    fn finish_reason(exchange: &Exchange) -> &'static str {
        match exchange.finish() {
            Finish::Stop | Finish::ToolCall => ",\"finishReason\":\"STOP\"",
            Finish::Length => ",\"finishReason\":\"MAX_TOKENS\"",
        }
    }

    fn call(exchange: &Exchange, name: &str) -> String {
        format!(r#"{{"functionCall":{{"name":{name},"args":{}}}}}"#, exchange.reply.arguments())
    }

    fn response(exchange: &Exchange, part: &str, finish_reason: &str, received: u32) -> String {
        let (number, model, sent) = (exchange.number, &exchange.model, exchange.prompt.tokens);
        let total = sent + u64::from(received);
        let candidate =
            format!(r#"{{"content":{{"parts":[{part}],"role":"model"}}{finish_reason},"index":0}}"#);
        let candidates = if exchange.quirks.has(Quirk::EmptyChoices) { "" } else { &candidate };
        format!(
            r#"{{"candidates":[{candidates}],"usageMetadata":{{"promptTokenCount":{sent},"candidatesTokenCount":{received},"totalTokenCount":{total}}},"modelVersion":{model},"responseId":"mock-{number}"}}"#
        )
    }
}

fn text_part(text: &str) -> String {
    format!(r#"{{"text":{}}}"#, json_string(text))
}

fn push_event(json: &str, out: &mut String) {
    out.push_str("data: ");
    out.push_str(json);
    out.push_str("\r\n\r\n");
}

impl Shape for Generate {
    fn provider(&self) -> Provider {
        Provider::Gemini
    }

    fn parse(&self, body: &Value) -> Result<Prompt, Refusal> {
        let contents = request::required(body, "contents")?;
        let system =
            ["systemInstruction", "system_instruction"].iter().map(|name| request::words(&body[*name]));
        Ok(Prompt {
            tokens: request::words(contents) + system.sum::<u64>(),
            tokens_max: request::tokens_max(&body["generationConfig"], "maxOutputTokens")?,
            tool: request::tool_call(contents, body["tools"][0]["functionDeclarations"][0]["name"].as_str()),
            ..Prompt::default()
        })
    }

    fn messages(&self, body: &Value) -> Vec<Message> {
        echo::messages(&[&body["systemInstruction"], &body["system_instruction"]], &body["contents"])
    }

    fn whole(&self, exchange: &Exchange) -> String {
        let part = match exchange.tool() {
            None => text_part(&exchange.reply.text()),
            Some(name) => Generate::call(exchange, &name),
        };
        Generate::response(exchange, &part, Generate::finish_reason(exchange), exchange.reply.pieces())
    }

    fn opening(&self, _: &Exchange, _: &mut String) {}

    fn piece(&self, exchange: &Exchange, number: u32, out: &mut String) {
        let part = match exchange.tool() {
            None => text_part(&exchange.reply.piece(number)),
            Some(name) if number == exchange.reply.pieces() => Generate::call(exchange, &name),
            Some(_) => return,
        };
        push_event(&Generate::response(exchange, &part, "", number), out);
    }

    fn closing(&self, _: &Exchange, _: &mut String) {}

    fn end(&self, exchange: &Exchange, out: &mut String) {
        let (reason, pieces) = (Generate::finish_reason(exchange), exchange.reply.pieces());
        push_event(&Generate::response(exchange, &text_part(""), reason, pieces), out);
    }
}
