//! Gemini's whole reply as OpenAI's.

use super::{Candidate, Response, finish_reason};
use crate::TokenUsage;
use crate::completion::{self, AssistantMessage, Choice, ExtraContent};
use crate::messages::made_id;
use crate::{ReplyContext, TranslateError, read_reply};
use weir_schema::whole_characters;

/// Translates a reply of `:generateContent` to a `chat.completion` object.
///
/// # Errors
/// [`TranslateError::Reply`] when the body is not such a reply, [`TranslateError::Provider`] when the model failed.
pub fn reply(body: &[u8], context: &ReplyContext) -> Result<(Vec<u8>, TokenUsage), TranslateError> {
    let body = whole_characters(body);
    let response: Response<'_> = read_reply(&body)?;
    response.check()?;
    let usage = response.usage_metadata.unwrap_or_default().tokens();
    let candidates = response.candidates.unwrap_or_default();
    if candidates.is_empty() {
        let Some(refusal) = response.prompt_feedback.and_then(super::PromptFeedback::refusal) else {
            return Err(TranslateError::Reply("it has no candidates".to_owned()));
        };
        let message = AssistantMessage { refusal: Some(refusal), ..AssistantMessage::empty() };
        let choice = Choice { index: 0, message, logprobs: (), finish_reason: "content_filter" };
        return Ok((completion::write(context, &[choice], usage), usage));
    }
    // Made before the choices, which borrow them.
    let calls = candidates.iter().map(|candidate| parts(candidate).len()).sum();
    let made_ids: Vec<String> = (0..calls).map(|number| made_id(&context.id, number)).collect();
    let mut made_ids = made_ids.iter();
    let mut choices = Vec::with_capacity(candidates.len());
    for (number, candidate) in candidates.iter().enumerate() {
        let Some(reason) = &candidate.finish_reason else {
            return Err(TranslateError::Reply("a candidate has no `finishReason`".to_owned()));
        };
        let mut message = AssistantMessage::empty();
        for part in parts(candidate) {
            if let Some(call) = &part.function_call {
                let made_id = made_ids.next().map_or("", String::as_str);
                message.tool_calls.push(call.tool_call(made_id, part.thought_signature.as_deref()));
                continue;
            }
            if let Some(signature) = &part.thought_signature {
                message.extra_content = Some(ExtraContent::signature(signature));
            }
            if let Some(text) = &part.text {
                let target = if part.thought == Some(true) {
                    &mut message.reasoning_content
                } else {
                    &mut message.content
                };
                target.get_or_insert_default().push_str(&text.0);
            }
        }
        let finish_reason = finish_reason(candidate, reason, !message.tool_calls.is_empty())?;
        if message.content.is_none() && message.tool_calls.is_empty() {
            message.content = Some(String::new());
        }
        let index = candidate.index.unwrap_or(number as u64);
        choices.push(Choice { index, message, logprobs: (), finish_reason });
    }
    Ok((completion::write(context, &choices, usage), usage))
}

fn parts<'b, 'a>(candidate: &'b Candidate<'a>) -> &'b [super::Part<'a>] {
    candidate.content.as_ref().and_then(|content| content.parts.as_deref()).unwrap_or_default()
}
