//! OpenAI's whole reply as Anthropic's.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Usage, stop_reason, usage_json};
use crate::TokenUsage;
use crate::{ReplyContext, TranslateError, read_reply, write_json};

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

/// Translates a `chat.completion` object to a message.
///
/// # Errors
/// [`TranslateError::Reply`] when the body is not such an object, or a call's arguments are not JSON.
pub fn reply(body: &[u8], context: &ReplyContext) -> Result<(Vec<u8>, TokenUsage), TranslateError> {
    let completion: Completion = read_reply(body)?;
    let usage = completion.usage.unwrap_or_default().tokens();
    let Some(choice) = completion.choices.into_iter().next() else {
        return Err(TranslateError::Reply("it has no choices".to_owned()));
    };
    let Some(reason) = choice.finish_reason else {
        return Err(TranslateError::Reply("its choice has no `finish_reason`".to_owned()));
    };
    let mut content: Vec<Value> = Vec::new();
    let message = choice.message;
    if let Some(thinking) = message.reasoning_content.filter(|text| !text.is_empty()) {
        content.push(json!({"type": "thinking", "thinking": thinking, "signature": ""}));
    }
    for text in [message.content, message.refusal].into_iter().flatten().filter(|text| !text.is_empty()) {
        content.push(json!({"type": "text", "text": text}));
    }
    let calls = message.tool_calls.unwrap_or_default();
    let stop_reason = stop_reason(&reason, !calls.is_empty());
    for call in calls {
        let Function { name, arguments } = call.function;
        let input = input(&arguments)?;
        content.push(json!({"type": "tool_use", "id": call.id, "name": name, "input": input}));
    }
    let message = json!({
        "id": context.id,
        "type": "message",
        "role": "assistant",
        "model": context.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage_json(usage),
    });
    Ok((write_json(&message), usage))
}

fn input(arguments: &str) -> Result<Value, TranslateError> {
    match arguments.trim() {
        "" => Ok(json!({})),
        json => serde_json::from_str(json)
            .map_err(|error| TranslateError::Reply(format!("the arguments of a call are not JSON: {error}"))),
    }
}
