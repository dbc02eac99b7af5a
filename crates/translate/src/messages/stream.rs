//! OpenAI's stream as Anthropic's.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Usage, stop_reason, usage_json};
use crate::TokenUsage;
use crate::{ReplyContext, TranslateError, read_reply};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(borrow)]
    refusal: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
}

/// A string that is borrowed when it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(default)]
    index: u64,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<Text<'a>>,
}

#[derive(Serialize)]
struct BlockDelta<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u64,
    delta: Fragment<'a>,
}

/// The text of a delta, under the key that belongs to its type.
#[derive(Serialize)]
#[serde(tag = "type")]
enum Fragment<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

/// The block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thinking,
    /// The call of this index.
    Call(u64),
}

/// Translates the chunks of a chat completion into the events of Anthropic's stream.
pub(crate) struct MessagesStream {
    context: ReplyContext,
    usage: TokenUsage,
    open: Option<Block>,
    /// Blocks that were opened.
    blocks: u64,
    calls: u64,
    finish_reason: Option<String>,
    has_started: bool,
}

impl MessagesStream {
    pub(crate) fn new(context: ReplyContext) -> MessagesStream {
        MessagesStream {
            context,
            usage: TokenUsage::default(),
            open: None,
            blocks: 0,
            calls: 0,
            finish_reason: None,
            has_started: false,
        }
    }

    /// The tokens counted so far.
    pub(crate) fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Appends the events that follow from one chunk.
    ///
    /// # Errors
    /// [`TranslateError`]; the stream is to be ended then.
    pub(crate) fn push(&mut self, data: &str, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if data.is_empty() || data.trim() == "[DONE]" {
            return Ok(());
        }
        let chunk: Chunk<'_> = read_reply(data.as_bytes())?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let message =
                error["message"].as_str().or(error.as_str()).unwrap_or("the provider ended the stream");
            return Err(TranslateError::Provider {
                kind: error["type"].as_str().unwrap_or("api_error").to_owned(),
                message: message.to_owned(),
            });
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.tokens();
        }
        self.start(out);
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.delta(&delta, out)?;
            }
            if choice.finish_reason.is_some() {
                self.finish_reason = choice.finish_reason;
            }
        }
        Ok(())
    }

    /// Appends what ends the message.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when the provider's stream ended before its `finish_reason`.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let Some(reason) = &self.finish_reason else {
            return Err(TranslateError::Reply("the stream ended before its `finish_reason`".to_owned()));
        };
        let delta = json!({"stop_reason": stop_reason(reason, self.calls > 0), "stop_sequence": null});
        self.close(out);
        let usage = usage_json(self.usage);
        push_event("message_delta", &json!({"type": "message_delta", "delta": delta, "usage": usage}), out);
        push_event("message_stop", &json!({"type": "message_stop"}), out);
        Ok(())
    }

    fn start(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let message = json!({
            "id": self.context.id,
            "type": "message",
            "role": "assistant",
            "model": self.context.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            // The provider counts at the end: `message_delta` has the numbers.
            "usage": usage_json(self.usage),
        });
        push_event("message_start", &json!({"type": "message_start", "message": message}), out);
    }

    fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if let Some(Text(text)) = delta.reasoning_content.as_ref().filter(|text| !text.0.is_empty()) {
            let block = json!({"type": "thinking", "thinking": "", "signature": ""});
            self.open(Block::Thinking, &block, out);
            self.add(Fragment::Thinking { thinking: text }, out);
        }
        for Text(text) in
            [&delta.content, &delta.refusal].into_iter().flatten().filter(|text| !text.0.is_empty())
        {
            self.open(Block::Text, &json!({"type": "text", "text": ""}), out);
            self.add(Fragment::Text { text }, out);
        }
        for call in delta.tool_calls.as_deref().unwrap_or_default() {
            self.call(call, out)?;
        }
        Ok(())
    }

    /// A part of a call. Calls come one after the other: Anthropic has one open block at a time.
    fn call(&mut self, call: &Call<'_>, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let function = call.function.as_ref();
        if self.open != Some(Block::Call(call.index)) {
            let name = function.and_then(|function| function.name.as_deref());
            let (Some(id), Some(name)) = (call.id.as_deref(), name) else {
                let message = format!("a part of call {} came without its beginning", call.index);
                return Err(TranslateError::Reply(message));
            };
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            self.open(Block::Call(call.index), &block, out);
            self.calls += 1;
        }
        let arguments = function.and_then(|function| function.arguments.as_ref());
        if let Some(Text(json)) = arguments.filter(|text| !text.0.is_empty()) {
            self.add(Fragment::InputJson { partial_json: json }, out);
        }
        Ok(())
    }

    /// Opens a block, unless it is open.
    fn open(&mut self, kind: Block, block: &Value, out: &mut Vec<u8>) {
        if self.open == Some(kind) {
            return;
        }
        self.close(out);
        let event = json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        push_event("content_block_start", &event, out);
        self.open = Some(kind);
        self.blocks += 1;
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            let event = json!({"type": "content_block_stop", "index": self.blocks - 1});
            push_event("content_block_stop", &event, out);
        }
    }

    fn add(&self, delta: Fragment<'_>, out: &mut Vec<u8>) {
        let event = BlockDelta { kind: "content_block_delta", index: self.blocks.saturating_sub(1), delta };
        push_event("content_block_delta", &event, out);
    }
}

fn push_event(name: &str, value: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    crate::chunk::push_data(value, out);
}
