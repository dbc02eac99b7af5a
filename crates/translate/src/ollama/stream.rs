//! OpenAI's stream as Ollama's lines of JSON.

use std::time::Duration;

use bytes::Bytes;

use super::completion::{Choice, Completion, Part};
use super::{Extras, Function, Line, Metrics, Moment, Reply, ToolCall, arguments, done_reason};
use crate::events::{EventFacts, ProviderError};
use crate::json::Tape;
use crate::messages::{CallDelta, Calls};
use crate::{TokenUsage, TranslateError};
use weir_schema::whole_characters;
use weir_sse::{EventTooLarge, SseDecoder};

/// Most bytes of an event. The gateway bounds those of a provider before.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Most bytes of the calls of one reply, which are held until they are complete.
const CALL_BYTES_MAX: usize = 16 << 20;

/// Translates the events of a completion, with or without chat, into lines.
pub struct OllamaStream {
    decoder: SseDecoder,
    reply: Reply,
    usage: Option<TokenUsage>,
    /// When the first event came.
    first: Option<Duration>,
    calls: Calls,
    call_bytes: usize,
    finish_reason: Option<String>,
    /// Whether a part of the answer came.
    has_answer: bool,
    extras: Extras,
}

impl OllamaStream {
    /// A stream from its beginning.
    pub fn new(reply: Reply) -> OllamaStream {
        OllamaStream {
            decoder: SseDecoder::new(EVENT_BYTES_MAX),
            reply,
            usage: None,
            first: None,
            calls: Calls::default(),
            call_bytes: 0,
            finish_reason: None,
            has_answer: false,
            extras: Extras::default(),
        }
    }

    /// Appends the lines that follow from a part of the stream, which may end anywhere.
    ///
    /// # Errors
    /// [`TranslateError`]; the stream is to be ended then.
    pub fn push_part(
        &mut self,
        part: Bytes,
        moment: &Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), TranslateError> {
        self.decoder.push(part);
        let too_large =
            |EventTooLarge| TranslateError::Reply(format!("an event has more than {EVENT_BYTES_MAX} bytes"));
        while let Some(event) = self.decoder.next_event().map_err(too_large)? {
            if let Some(data) = event.data() {
                let error = Tape::parse(data)
                    .ok()
                    .and_then(|tape| EventFacts::named(event.name(), tape.root(data)).error);
                if let Some(ProviderError { message, .. }) = error {
                    return Err(TranslateError::Provider { kind: "error".to_owned(), message });
                }
                self.push(&String::from_utf8_lossy(data), moment, out)?;
            }
        }
        Ok(())
    }

    /// Appends the lines that follow from the data of one event.
    ///
    /// # Errors
    /// [`TranslateError`]; the stream is to be ended then.
    pub fn push(&mut self, data: &str, moment: &Moment, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if data.is_empty() || data.trim() == "[DONE]" {
            return Ok(());
        }
        let data = whole_characters(data.as_bytes());
        let chunk = Completion::read(&data)?;
        self.first.get_or_insert(moment.elapsed);
        self.usage = chunk.usage.or(self.usage);
        let Extras { sources, citations, weir } = &mut self.extras;
        *sources = chunk.sources.or(sources.take());
        *citations = chunk.citations.or(citations.take());
        *weir = chunk.weir.or(weir.take());
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(Choice::is_first) {
            self.part(choice.added(self.has_answer)?, moment, out)?;
        }
        Ok(())
    }

    /// Appends the last line.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when the arguments of a call are no JSON object.
    pub fn finish(&mut self, moment: &Moment, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        self.complete_calls(moment, out)?;
        let reason = self.finish_reason.as_deref().map_or("stop", done_reason);
        let first = self.first.unwrap_or(moment.elapsed);
        let line = Line {
            done: true,
            done_reason: Some(reason),
            metrics: Some(Metrics::new(self.usage, first, moment.elapsed)),
            ..self.reply.line(moment, "", None, &[])
        };
        push_line(&line.with(&self.extras), out);
        Ok(())
    }

    fn part(&mut self, part: Part<'_>, moment: &Moment, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        self.has_answer |= !part.content.is_empty() || !part.calls.is_empty();
        let thinking = part.thinking().filter(|_| self.reply.shows_thinking);
        if thinking.is_some() || !part.content.is_empty() || part.logprobs.is_some() {
            let line = self.reply.line(moment, &part.content, thinking, &[]);
            push_line(&Line { logprobs: part.logprobs.as_deref(), ..line }, out);
        }
        for call in &part.calls {
            self.add(call)?;
        }
        if part.finish_reason.is_some() {
            self.finish_reason = part.finish_reason;
            self.complete_calls(moment, out)?;
        }
        Ok(())
    }

    fn add(&mut self, call: &CallDelta<'_>) -> Result<(), TranslateError> {
        self.call_bytes += call.arguments().len();
        if self.call_bytes > CALL_BYTES_MAX {
            let message = format!("its calls have more than {CALL_BYTES_MAX} bytes");
            return Err(TranslateError::Reply(message));
        }
        // Ollama's calls may be without an id
        self.calls.push(call, true, |_| String::new())
    }

    /// A line with the calls: Ollama's have their arguments at once.
    fn complete_calls(&mut self, moment: &Moment, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let open = std::mem::take(&mut self.calls).calls;
        if open.is_empty() {
            return Ok(());
        }
        let mut calls = Vec::with_capacity(open.len());
        for (index, call) in open.iter().enumerate() {
            let arguments = arguments(&call.arguments, self.finish_reason.as_deref())?;
            let function = Function { index, name: &call.name, arguments };
            calls.push(ToolCall { id: &call.id, function });
        }
        push_line(&self.reply.line(moment, "", None, &calls), out);
        Ok(())
    }
}

fn push_line(line: &Line<'_>, out: &mut Vec<u8>) {
    // writing to memory can't fail, and the values are structs of strings and numbers
    let _ = serde_json::to_writer(&mut *out, line);
    out.push(b'\n');
}
