//! OpenAI's stream as Anthropic's.

use serde::Serialize;
use serde_json::{Value, json};

use super::calls::Calls;
use super::delta::{Choice, Completion, Delta, Piece, Source};
use super::{made_id, reasoning, stop_reason, usage_json};
use crate::TokenUsage;
use crate::{ReplyContext, TranslateError, read_reply};
use weir_schema::whole_characters;

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
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

/// The block that is open.
enum Block {
    Text,
    Thinking(Source),
    /// The call that was opened last.
    Call,
}

/// Translates the chunks of a chat completion into the events of Anthropic's stream.
pub(crate) struct MessagesStream {
    context: ReplyContext,
    usage: TokenUsage,
    open: Option<Block>,
    /// Blocks that were opened.
    blocks: u64,
    calls: Calls,
    refuses: bool,
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
            calls: Calls::default(),
            refuses: false,
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
        let data = whole_characters(data.as_bytes());
        let chunk: Completion<'_> = read_reply(&data)?;
        self.usage.tier = chunk.tier().or(self.usage.tier);
        if let Some(usage) = chunk.usage() {
            self.usage = self.usage.merged(usage);
        }
        chunk.check()?;
        self.start(out);
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(Choice::is_first) {
            if let Some(reason) = choice.finish_reason() {
                self.finish_reason = Some(reason.to_owned());
            }
            let has_answer = self.blocks > 0 || self.calls.len() > 0;
            for piece in choice.delta(has_answer).into_iter().flat_map(Delta::pieces) {
                self.piece(piece, out)?;
            }
        }
        Ok(())
    }

    /// Appends what ends the message.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when the provider's stream ended before its `finish_reason`, or within the arguments of a call.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let Some(reason) = self.finish_reason.take() else {
            return Err(TranslateError::Reply("the stream ended before its `finish_reason`".to_owned()));
        };
        let stop_reason = stop_reason(&reason, self.calls.len() > 0, self.refuses);
        // a call that the limit has cut off is said to be so
        if stop_reason != "max_tokens" && !self.calls.are_whole() {
            return Err(TranslateError::Reply("the arguments of a call are no whole JSON object".to_owned()));
        }
        self.close(out);
        let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
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

    fn piece(&mut self, piece: Piece<'_>, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        match piece {
            Piece::Thinking { text, source } => self.thinking(&text, source, out),
            Piece::Redacted { data } => {
                self.close(out);
                self.open(&json!({"type": "redacted_thinking", "data": data}), out);
                self.stop(out);
            }
            // some servers have a line end between the parts of a call
            Piece::Text(text) if matches!(self.open, Some(Block::Call)) && text.trim().is_empty() => {}
            Piece::Text(text) => self.text(&text, out),
            Piece::Refusal(text) => {
                self.refuses = true;
                self.text(&text, out);
            }
            Piece::Call(call) => {
                let reply = &self.context.id;
                let is_open = matches!(self.open, Some(Block::Call));
                self.calls.push(&call, is_open, |number| made_id(reply, number))?;
                self.advance(out);
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        if !matches!(self.open, Some(Block::Text)) {
            self.close(out);
            self.open(&json!({"type": "text", "text": ""}), out);
            self.open = Some(Block::Text);
        }
        self.add(Fragment::Text { text }, out);
    }

    fn thinking(&mut self, text: &str, source: Source, out: &mut Vec<u8>) {
        let continues = match &mut self.open {
            Some(Block::Thinking(open)) => continues(open, &source),
            _ => false,
        };
        if !continues {
            self.close(out);
            self.open(&json!({"type": "thinking", "thinking": "", "signature": ""}), out);
            self.open = Some(Block::Thinking(source));
        }
        if !text.is_empty() {
            self.add(Fragment::Thinking { thinking: text }, out);
        }
    }

    /// Sends what has come of the calls: all of the open one, and the next ones when those before them are complete.
    fn advance(&mut self, out: &mut Vec<u8>) {
        loop {
            if let (Some(Block::Call), Some(call)) = (&self.open, self.calls.last_opened()) {
                let arguments = std::mem::take(&mut call.arguments);
                if !arguments.is_empty() {
                    self.add(Fragment::InputJson { partial_json: &arguments }, out);
                }
            }
            let is_free = !matches!(self.open, Some(Block::Call)) || self.calls.is_last_complete();
            if !self.open_call(is_free, out) {
                return;
            }
        }
    }

    /// Opens the next call, after the block that is open.
    fn open_call(&mut self, is_free: bool, out: &mut Vec<u8>) -> bool {
        let Some(call) = self.calls.open_next(is_free) else { return false };
        let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        let signed = call.signature.take().map(|signature| reasoning::call_signature(&call.id, &signature));
        self.stop(out);
        if let Some(data) = signed {
            self.open(&json!({"type": "redacted_thinking", "data": data}), out);
            self.stop(out);
        }
        self.open(&block, out);
        self.open = Some(Block::Call);
        true
    }

    /// Closes the open block; calls that wait for their end are sent before.
    fn close(&mut self, out: &mut Vec<u8>) {
        while self.open_call(true, out) {
            if let Some(call) = self.calls.last_opened() {
                let arguments = std::mem::take(&mut call.arguments);
                if !arguments.is_empty() {
                    self.add(Fragment::InputJson { partial_json: &arguments }, out);
                }
            }
        }
        self.stop(out);
    }

    fn open(&mut self, block: &Value, out: &mut Vec<u8>) {
        let event = json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        push_event("content_block_start", &event, out);
        // replaced by callers who add to the block
        self.open = Some(Block::Text);
        self.blocks += 1;
    }

    /// Closes the open block.
    fn stop(&mut self, out: &mut Vec<u8>) {
        let Some(block) = self.open.take() else { return };
        let signature = match block {
            Block::Thinking(Source::Field(signature)) => signature.to_owned(),
            Block::Thinking(Source::Detail(detail)) => reasoning::signature(detail),
            Block::Text | Block::Call => String::new(),
        };
        if !signature.is_empty() {
            self.add(Fragment::Signature { signature: &signature }, out);
        }
        let event = json!({"type": "content_block_stop", "index": self.blocks - 1});
        push_event("content_block_stop", &event, out);
    }

    fn add(&self, delta: Fragment<'_>, out: &mut Vec<u8>) {
        let event = BlockDelta { kind: "content_block_delta", index: self.blocks.saturating_sub(1), delta };
        push_event("content_block_delta", &event, out);
    }
}

/// Whether reasoning belongs to the open block. The parts of an entry of `reasoning_details` have one index; what a later one adds, such as the
/// signature, becomes a part of the open one.
fn continues(open: &mut Source, next: &Source) -> bool {
    match (open, next) {
        (Source::Field(open), Source::Field(next)) => open == next,
        (Source::Detail(Value::Object(open)), Source::Detail(Value::Object(next))) => {
            let is_same = open.get("index") == next.get("index") && open.get("type") == next.get("type");
            if is_same {
                let set = next.iter().filter(|(_, value)| !value.is_null());
                open.extend(set.map(|(key, value)| (key.clone(), value.clone())));
            }
            is_same
        }
        _ => false,
    }
}

fn push_event(name: &str, value: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    crate::chunk::push_data(value, out);
}
