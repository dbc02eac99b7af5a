//! Anthropic's stream as OpenAI's.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{annotation, finish_reason};
use crate::TokenUsage;
use crate::chunk::{ChunkWriter, Delta as ChunkDelta, Thinking, ThinkingBlock};
use crate::completion::{Annotation, Function, ToolCall};
use crate::{ReplyContext, TranslateError, read_reply};
use weir_schema::whole_characters;

/// Calls of one reply that are translated.
const CALLS_MAX: usize = 1024;
/// Citations of one reply that are translated.
const ANNOTATIONS_MAX: usize = 4096;
/// The longest thinking that is kept until its signature.
const THINKING_BYTES_MAX: usize = 16 << 20;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    message: Option<Start<'a>>,
    index: Option<u64>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<ErrorBody<'a>>,
}

/// The start of a message: only its usage is read.
#[derive(Deserialize)]
struct Start<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<Cow<'a, str>>,
    citations: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    thinking: Option<Text<'a>>,
    #[serde(borrow)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
    citation: Option<Value>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
}

/// A string that is borrowed when it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct ErrorBody<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

/// A call whose block was opened.
struct OpenCall {
    /// The index of its block.
    block: u64,
    /// The input that the block began with, sent if no other comes.
    input: String,
    has_arguments: bool,
}

/// A block that is open, with what is sent when it ends.
#[derive(Default)]
struct Open {
    thinking: String,
    signature: String,
    citations: Vec<Value>,
    /// Characters of text before the block.
    start: usize,
}

/// Translates the events of `POST /v1/messages`.
pub(crate) struct AnthropicStream {
    chunks: ChunkWriter,
    usage: TokenUsage,
    calls: Vec<OpenCall>,
    open: Open,
    /// Characters of text.
    characters: usize,
    /// Citations of the blocks that have ended. Clients put lists of several chunks together by an index, which these have not.
    annotations: Vec<Annotation>,
    /// Thinking blocks that were sent.
    thinking_blocks: usize,
    has_started: bool,
    has_finish_reason: bool,
    has_ended: bool,
}

impl AnthropicStream {
    pub(crate) fn new(context: ReplyContext) -> AnthropicStream {
        AnthropicStream {
            chunks: ChunkWriter::new(context),
            usage: TokenUsage::default(),
            calls: Vec::new(),
            open: Open::default(),
            characters: 0,
            annotations: Vec::new(),
            thinking_blocks: 0,
            has_started: false,
            has_finish_reason: false,
            has_ended: false,
        }
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        self.usage
    }

    fn count(&mut self, usage: Option<&RawValue>) {
        self.usage = self.usage.merged(usage.and_then(TokenUsage::of_raw).unwrap_or_default());
    }

    pub(crate) fn push(&mut self, data: &str, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        // vLLM ends its stream as OpenAI does
        if data.is_empty() || data.trim() == "[DONE]" {
            return Ok(());
        }
        let data = whole_characters(data.as_bytes());
        let event: Event<'_> = read_reply(&data)?;
        match &*event.kind {
            "message_start" => {
                self.count(event.message.and_then(|message| message.usage));
                self.start(out);
            }
            "content_block_start" => {
                let block = event.content_block.ok_or_else(|| missing("content_block"))?;
                self.start(out);
                self.open_block(event.index.ok_or_else(|| missing("index"))?, &block, out)?;
            }
            "content_block_delta" => {
                let delta = event.delta.ok_or_else(|| missing("delta"))?;
                self.start(out);
                self.delta(event.index.ok_or_else(|| missing("index"))?, delta, out)?;
            }
            "content_block_stop" => self.close_block(event.index.ok_or_else(|| missing("index"))?, out),
            "message_delta" => {
                self.count(event.usage);
                self.start(out);
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.stop(&reason.0, out);
                }
            }
            "message_stop" => self.has_ended = true,
            "error" => {
                let (kind, message) = event.error.map_or((None, None), |error| (error.kind, error.message));
                return Err(TranslateError::Provider {
                    kind: kind.map_or_else(|| "api_error".to_owned(), Cow::into_owned),
                    message: message
                        .map_or_else(|| "the provider ended the stream".to_owned(), Cow::into_owned),
                });
            }
            // `ping`, and kinds that do not exist yet
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if !self.has_ended || !self.has_finish_reason {
            return Err(TranslateError::Reply("the stream ended before its last event".to_owned()));
        }
        self.chunks.end(self.usage(), out);
        Ok(())
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.chunks.role(0, out);
        }
    }

    fn stop(&mut self, reason: &str, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_finish_reason, true) {
            let annotations = std::mem::take(&mut self.annotations);
            if !annotations.is_empty() {
                let annotations = Some(&*annotations);
                self.chunks.delta(0, ChunkDelta { annotations, ..ChunkDelta::default() }, out);
            }
            self.chunks.finish_reason(0, finish_reason(reason), out);
        }
    }

    fn open_block(&mut self, index: u64, block: &Block<'_>, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let citations = block.citations.clone().unwrap_or_default();
        self.open = Open { start: self.characters, citations, ..Open::default() };
        match &*block.kind {
            "text" => self.text(block.text.as_deref().unwrap_or_default(), out),
            "thinking" => {
                self.thinking(block.thinking.as_deref().unwrap_or_default(), out)?;
                self.open.signature.push_str(block.signature.as_deref().unwrap_or_default());
            }
            "redacted_thinking" => {
                let data = block.data.as_deref().unwrap_or_default();
                self.thinking_block(Thinking::Redacted { data }, out);
            }
            "tool_use" => {
                let (Some(id), Some(name)) = (block.id.as_deref(), block.name.as_deref()) else {
                    return Err(missing("id` or `name"));
                };
                if self.calls.len() == CALLS_MAX {
                    return Err(TranslateError::Reply(format!("it has more than {CALLS_MAX} calls")));
                }
                let function = Function { name: Some(name), arguments: "" };
                let number = self.calls.len();
                let call = ToolCall {
                    index: Some(number),
                    id: Some(id),
                    kind: Some("function"),
                    function,
                    ..ToolCall::default()
                };
                self.chunks.call(0, call, out);
                let input = block.input.map_or("{}", RawValue::get).to_owned();
                self.calls.push(OpenCall { block: index, input, has_arguments: false });
            }
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: Delta<'_>, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if let Some(text) = &delta.text {
            self.text(&text.0, out);
        }
        if let Some(text) = &delta.thinking {
            self.thinking(&text.0, out)?;
        }
        if let Some(signature) = &delta.signature {
            self.open.signature.push_str(&signature.0);
        }
        self.open.citations.extend(delta.citation);
        // Blocks of Anthropic's own tools have deltas of JSON, too, which are not the caller's.
        let Some(json) = delta.partial_json.as_ref().filter(|json| !json.0.is_empty()) else { return Ok(()) };
        if let Some(number) = self.calls.iter().rposition(|call| call.block == index) {
            self.calls[number].has_arguments = true;
            self.arguments(number, &json.0, out);
        }
        Ok(())
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        self.characters += text.chars().count();
        self.chunks.content(0, text, out);
    }

    fn thinking(&mut self, text: &str, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if self.open.thinking.len() + text.len() > THINKING_BYTES_MAX {
            return Err(TranslateError::Reply("its thinking is too long".to_owned()));
        }
        self.open.thinking.push_str(text);
        self.chunks.reasoning(0, text, out);
        Ok(())
    }

    fn thinking_block(&mut self, kind: Thinking<'_>, out: &mut Vec<u8>) {
        let block = ThinkingBlock { index: self.thinking_blocks, kind };
        self.chunks.delta(0, ChunkDelta { thinking_blocks: Some([block]), ..ChunkDelta::default() }, out);
        self.thinking_blocks += 1;
    }

    /// Ends a block: its signature, citations, or the input that it began with follow.
    fn close_block(&mut self, index: u64, out: &mut Vec<u8>) {
        let Open { thinking, signature, citations, start } = std::mem::take(&mut self.open);
        if !signature.is_empty() {
            self.thinking_block(Thinking::Signed { thinking: &thinking, signature: &signature }, out);
        }
        let span = start..self.characters;
        let left = ANNOTATIONS_MAX - self.annotations.len();
        let cited = citations.iter().filter_map(|citation| annotation(citation, &span));
        self.annotations.extend(cited.take(left));
        let Some(number) = self.calls.iter().rposition(|call| call.block == index) else { return };
        if !std::mem::replace(&mut self.calls[number].has_arguments, true) {
            let input = std::mem::take(&mut self.calls[number].input);
            self.arguments(number, &input, out);
        }
    }

    fn arguments(&self, number: usize, arguments: &str, out: &mut Vec<u8>) {
        let function = Function { name: None, arguments };
        self.chunks.call(0, ToolCall { index: Some(number), function, ..ToolCall::default() }, out);
    }
}

fn missing(field: &str) -> TranslateError {
    TranslateError::Reply(format!("an event has no `{field}`"))
}
