//! OpenAI's whole reply as Anthropic's.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::delta::{CallDelta, Completion, Piece, Source};
use super::{made_id, reasoning, stop_reason, usage_json};
use crate::TokenUsage;
use crate::{ReplyContext, TranslateError, read_reply, write_json};
use weir_schema::whole_characters;

#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block>,
    stop_reason: &'static str,
    stop_sequence: (),
    usage: Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block {
    Call(ToolUse),
    Other(Value),
}

/// A call, with its input as it was written.
#[derive(Serialize)]
struct ToolUse {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    name: String,
    input: Box<RawValue>,
}

/// Translates a `chat.completion` object to a message.
///
/// # Errors
/// [`TranslateError::Reply`] when the body is not such an object, or a call's arguments are not JSON; [`TranslateError::Provider`] when it is an
/// error.
pub fn reply(body: &[u8], context: &ReplyContext) -> Result<(Vec<u8>, TokenUsage), TranslateError> {
    let body = whole_characters(body);
    let completion: Completion<'_> = read_reply(&body)?;
    completion.check()?;
    let usage = completion.usage().unwrap_or_default();
    let Some(choice) = completion.choices.unwrap_or_default().into_iter().next() else {
        return Err(TranslateError::Reply("it has no choices".to_owned()));
    };
    let Some(reason) = choice.finish_reason().map(str::to_owned) else {
        return Err(TranslateError::Reply("its choice has no `finish_reason`".to_owned()));
    };
    let Some(message) = choice.message() else {
        return Err(TranslateError::Reply("its choice has no message".to_owned()));
    };
    let mut content = Vec::new();
    let mut ids = HashSet::new();
    let mut refuses = false;
    for piece in message.pieces() {
        match piece {
            Piece::Thinking { text, source } => {
                let signature = match source {
                    Source::Field(signature) => signature.to_owned(),
                    Source::Detail(detail) => reasoning::signature(detail),
                };
                content.push(Block::Other(
                    json!({"type": "thinking", "thinking": text, "signature": signature}),
                ));
            }
            Piece::Redacted { data } => content.push(redacted(&data)),
            Piece::Text(text) => content.push(Block::Other(json!({"type": "text", "text": text}))),
            Piece::Refusal(text) => {
                refuses = true;
                content.push(Block::Other(json!({"type": "text", "text": text})));
            }
            Piece::Call(call) => {
                let id = call.id().filter(|id| !ids.contains(*id)).map(str::to_owned);
                let id = id.unwrap_or_else(|| made_id(&context.id, ids.len()));
                ids.insert(id.clone());
                if let Some(signature) = call.signature() {
                    content.push(redacted(&reasoning::call_signature(&id, signature)));
                }
                content.push(Block::Call(tool_use(&call, id, &reason)?));
            }
        }
    }
    let message = Message {
        id: &context.id,
        kind: "message",
        role: "assistant",
        model: &context.model,
        content,
        stop_reason: stop_reason(&reason, !ids.is_empty(), refuses),
        stop_sequence: (),
        usage: usage_json(usage),
    };
    Ok((write_json(&message), usage))
}

fn redacted(data: &str) -> Block {
    Block::Other(json!({"type": "redacted_thinking", "data": data}))
}

fn tool_use(call: &CallDelta<'_>, id: String, reason: &str) -> Result<ToolUse, TranslateError> {
    let Some(name) = call.name() else {
        return Err(TranslateError::Reply("a call has no name".to_owned()));
    };
    let arguments = call.arguments();
    let json = arguments.trim();
    // A call that the limit has cut off, as `stop_reason` says, has no whole input to give.
    let is_cut = || stop_reason(reason, true, false) == "max_tokens";
    let json = if json.is_empty() { "{}" } else { json };
    let invalid = |reason: String| TranslateError::Reply(format!("the arguments of a call {reason}"));
    let input = match serde_json::from_str::<Box<RawValue>>(json) {
        Ok(input) if input.get().starts_with('{') => Ok(input),
        Ok(_) => Err(invalid("are no object".to_owned())),
        Err(error) => Err(invalid(format!("are not JSON: {error}"))),
    };
    let input = match input {
        Err(_) if is_cut() => {
            RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
        }
        input => input?,
    };
    Ok(ToolUse { kind: "tool_use", id, name: name.to_owned(), input })
}
