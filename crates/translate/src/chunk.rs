//! Writes chunks of a chat completion as server-sent events.

use serde::Serialize;

use super::ReplyContext;
use super::completion::{Annotation, CompletionUsage, ExtraContent, ToolCall};
use crate::TokenUsage;

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    /// Missing unless the caller asked for the usage; null in all chunks but the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<CompletionUsage>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u64,
    delta: Delta<'a>,
    logprobs: (),
    finish_reason: Option<&'static str>,
}

/// The addition of one chunk.
#[derive(Serialize, Default)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking_blocks: Option<[ThinkingBlock<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<&'a [Annotation]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<[ToolCall<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<ExtraContent<'a>>,
}

/// A block of Anthropic's thinking, whole, so that the caller can send it back.
#[derive(Serialize)]
pub(super) struct ThinkingBlock<'a> {
    pub(super) index: usize,
    #[serde(flatten)]
    pub(super) kind: Thinking<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum Thinking<'a> {
    #[serde(rename = "thinking")]
    Signed { thinking: &'a str, signature: &'a str },
    #[serde(rename = "redacted_thinking")]
    Redacted { data: &'a str },
}

/// Appends `value` as the data of an event.
pub(super) fn push_data(value: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    // Writing to memory can't fail, and the values are structs of strings and numbers.
    let _ = serde_json::to_writer(&mut *out, value);
    out.extend_from_slice(b"\n\n");
}

/// Writes the chunks of one reply.
pub(super) struct ChunkWriter(ReplyContext);

impl ChunkWriter {
    pub(super) fn new(context: ReplyContext) -> ChunkWriter {
        ChunkWriter(context)
    }

    /// The id of the reply.
    pub(super) fn id(&self) -> &str {
        &self.0.id
    }

    /// The first chunk of a choice.
    pub(super) fn role(&self, index: u64, out: &mut Vec<u8>) {
        self.delta(index, Delta { role: Some("assistant"), content: Some(""), ..Delta::default() }, out);
    }

    pub(super) fn content(&self, index: u64, text: &str, out: &mut Vec<u8>) {
        if !text.is_empty() {
            self.delta(index, Delta { content: Some(text), ..Delta::default() }, out);
        }
    }

    pub(super) fn reasoning(&self, index: u64, text: &str, out: &mut Vec<u8>) {
        if !text.is_empty() {
            self.delta(index, Delta { reasoning_content: Some(text), ..Delta::default() }, out);
        }
    }

    pub(super) fn call(&self, index: u64, call: ToolCall<'_>, out: &mut Vec<u8>) {
        self.delta(index, Delta { tool_calls: Some([call]), ..Delta::default() }, out);
    }

    pub(super) fn delta(&self, index: u64, delta: Delta<'_>, out: &mut Vec<u8>) {
        self.choice(Choice { index, delta, logprobs: (), finish_reason: None }, out);
    }

    /// The last chunk of a choice.
    pub(super) fn finish_reason(&self, index: u64, reason: &'static str, out: &mut Vec<u8>) {
        let delta = Delta::default();
        self.choice(Choice { index, delta, logprobs: (), finish_reason: Some(reason) }, out);
    }

    /// The end of the stream.
    pub(super) fn end(&self, usage: TokenUsage, out: &mut Vec<u8>) {
        if self.0.include_usage {
            self.chunk(&[], Some(Some(usage.into())), out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn choice(&self, choice: Choice<'_>, out: &mut Vec<u8>) {
        self.chunk(&[choice], self.0.include_usage.then_some(None), out);
    }

    fn chunk(&self, choices: &[Choice<'_>], usage: Option<Option<CompletionUsage>>, out: &mut Vec<u8>) {
        let ReplyContext { id, created, model, .. } = &self.0;
        let chunk = Chunk { id, object: "chat.completion.chunk", created: *created, model, choices, usage };
        push_data(&chunk, out);
    }
}
