//! Writers of OpenAI's chat completions: whole replies, calls, usage.

use serde::Serialize;

use super::{ReplyContext, write_json};
use crate::TokenUsage;

/// A `chat.completion` object.
#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    usage: CompletionUsage,
}

#[derive(Serialize)]
pub(super) struct Choice<'a> {
    pub(super) index: u64,
    pub(super) message: AssistantMessage<'a>,
    pub(super) logprobs: (),
    pub(super) finish_reason: &'static str,
}

/// The assistant's message. `content` is null when there is none.
#[derive(Serialize)]
pub(super) struct AssistantMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: Option<String>,
    pub(super) refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) thinking_blocks: Vec<&'a serde_json::value::RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) annotations: Vec<Annotation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<ExtraContent<'a>>,
}

/// A source that a part of the text is taken from.
#[derive(Debug, Serialize)]
pub(super) struct Annotation {
    #[serde(rename = "type")]
    kind: &'static str,
    url_citation: UrlCitation,
}

#[derive(Debug, Serialize)]
struct UrlCitation {
    /// Characters of the content before the part, and those up to its end.
    start_index: usize,
    end_index: usize,
    url: String,
    title: String,
}

impl Annotation {
    pub(super) fn url(span: std::ops::Range<usize>, url: &str, title: &str) -> Annotation {
        let url_citation = UrlCitation {
            start_index: span.start,
            end_index: span.end,
            url: url.to_owned(),
            title: title.to_owned(),
        };
        Annotation { kind: "url_citation", url_citation }
    }
}

impl AssistantMessage<'_> {
    pub(super) fn empty() -> Self {
        AssistantMessage {
            role: "assistant",
            content: None,
            refusal: None,
            reasoning_content: None,
            thinking_blocks: Vec::new(),
            annotations: Vec::new(),
            tool_calls: Vec::new(),
            extra_content: None,
        }
    }
}

/// A call, whole or a part of it in a chunk.
#[derive(Serialize, Default)]
pub(super) struct ToolCall<'a> {
    /// Only in chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    pub(super) function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<ExtraContent<'a>>,
}

#[derive(Serialize, Default)]
pub(super) struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

/// Where Google's own API for OpenAI's clients has the signature that must come back with the call.
#[derive(Serialize)]
pub(super) struct ExtraContent<'a> {
    google: GoogleContent<'a>,
}

#[derive(Serialize)]
struct GoogleContent<'a> {
    thought_signature: &'a str,
}

impl<'a> ExtraContent<'a> {
    pub(super) fn signature(thought_signature: &'a str) -> ExtraContent<'a> {
        ExtraContent { google: GoogleContent { thought_signature } }
    }
}

#[derive(Serialize)]
pub(super) struct CompletionUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_write_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    audio_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    image_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    audio_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    image_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<TokenUsage> for CompletionUsage {
    fn from(usage: TokenUsage) -> CompletionUsage {
        CompletionUsage {
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
            total_tokens: usage.prompt.saturating_add(usage.completion),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached,
                cache_write_tokens: usage.cache_write,
                audio_tokens: usage.prompt_audio,
                image_tokens: usage.prompt_image,
            },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning,
                audio_tokens: usage.completion_audio,
                image_tokens: usage.completion_image,
            },
        }
    }
}

/// Writes a whole reply.
pub(super) fn write(context: &ReplyContext, choices: &[Choice<'_>], usage: TokenUsage) -> Vec<u8> {
    write_json(&Completion {
        id: &context.id,
        object: "chat.completion",
        created: context.created,
        model: &context.model,
        choices,
        usage: usage.into(),
    })
}
