//! Anthropic's whole reply as OpenAI's.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{annotation, finish_reason};
use crate::TokenUsage;
use crate::completion::{self, AssistantMessage, Choice, Function, ToolCall};
use crate::{ReplyContext, TranslateError, read_reply};
use weir_schema::whole_characters;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    error: Option<Value>,
    stop_reason: Option<String>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    citations: Option<Vec<Value>>,
}

/// Translates a reply of `POST /v1/messages` to a `chat.completion` object.
///
/// # Errors
/// [`TranslateError::Reply`] when the body is not a message, [`TranslateError::Provider`] when it is an error.
pub fn reply(body: &[u8], context: &ReplyContext) -> Result<(Vec<u8>, TokenUsage), TranslateError> {
    let body = whole_characters(body);
    let message: Message<'_> = read_reply(&body)?;
    if let Some(error) = message.error.filter(|error| !error.is_null()) {
        return Err(TranslateError::Provider {
            kind: error["type"].as_str().unwrap_or("api_error").to_owned(),
            message: error["message"].as_str().unwrap_or("the provider ended the reply").to_owned(),
        });
    }
    let Some(content) = message.content else {
        return Err(TranslateError::Reply("it has no `content`".to_owned()));
    };
    let Some(stop_reason) = message.stop_reason else {
        return Err(TranslateError::Reply("it has no `stop_reason`".to_owned()));
    };
    let mut blocks = Vec::with_capacity(content.len());
    for raw in &content {
        blocks.push((read_reply::<Block<'_>>(raw.get().as_bytes())?, *raw));
    }
    let mut assistant = AssistantMessage::empty();
    let mut characters = 0;
    for (block, raw) in &blocks {
        match &*block.kind {
            "text" => {
                let text = block.text.as_deref().unwrap_or_default();
                assistant.content.get_or_insert_default().push_str(text);
                let span = characters..characters + text.chars().count();
                characters = span.end;
                let citations = block.citations.as_deref().unwrap_or_default();
                assistant.annotations.extend(citations.iter().filter_map(|cited| annotation(cited, &span)));
            }
            "thinking" => {
                let text = block.thinking.as_deref().unwrap_or_default();
                assistant.reasoning_content.get_or_insert_default().push_str(text);
                if block.signature.as_ref().is_some_and(|signature| !signature.is_empty()) {
                    assistant.thinking_blocks.push(raw);
                }
            }
            "redacted_thinking" => assistant.thinking_blocks.push(raw),
            "tool_use" => assistant.tool_calls.push(tool_call(block)?),
            // Anthropic's own tools and their results, which it has run itself
            _ => {}
        }
    }
    if assistant.content.is_none() && assistant.tool_calls.is_empty() {
        assistant.content = Some(String::new());
    }
    let finish_reason = finish_reason(&stop_reason);
    let usage = message.usage.and_then(TokenUsage::of_raw).unwrap_or_default();
    let choice = Choice { index: 0, message: assistant, logprobs: (), finish_reason };
    Ok((completion::write(context, &[choice], usage), usage))
}

fn tool_call<'b>(block: &'b Block<'_>) -> Result<ToolCall<'b>, TranslateError> {
    let (Some(id), Some(name)) = (block.id.as_deref(), block.name.as_deref()) else {
        return Err(TranslateError::Reply("a `tool_use` block has no id or no name".to_owned()));
    };
    let arguments = block.input.map_or("{}", RawValue::get);
    let function = Function { name: Some(name), arguments };
    Ok(ToolCall { id: Some(id), kind: Some("function"), function, ..ToolCall::default() })
}
