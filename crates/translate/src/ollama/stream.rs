//! OpenAI's stream as Ollama's lines of JSON.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::reply::Logprobs;
use super::{Extras, Function, Line, Metrics, Moment, Reply, ToolCall, Usage, arguments, done_reason};
use crate::sse::{EventTooLarge, SseDecoder};
use crate::{TranslateError, read_reply};

/// Most bytes of an event. The gateway bounds those of a provider before.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Most bytes of the calls of one reply, which are held until they are complete.
const CALL_BYTES_MAX: usize = 16 << 20;
/// Most calls of one reply.
const CALLS_MAX: usize = 1_024;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    error: Option<Value>,
    sources: Option<Box<RawValue>>,
    citations: Option<Box<RawValue>>,
    weir: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
}

#[derive(Deserialize, Default)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(borrow)]
    refusal: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning: Option<Text<'a>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallPart<'a>>>,
}

/// A string that is borrowed when it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct CallPart<'a> {
    #[serde(default)]
    index: u64,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionPart<'a>>,
}

#[derive(Deserialize)]
struct FunctionPart<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<Text<'a>>,
}

/// A call whose arguments are not complete.
#[derive(Default)]
struct OpenCall {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

/// Translates the events of a completion, with or without chat, into lines.
pub struct OllamaStream {
    decoder: SseDecoder,
    reply: Reply,
    usage: Option<Usage>,
    /// When the first event came.
    first: Option<Duration>,
    calls: Vec<OpenCall>,
    call_bytes: usize,
    finish_reason: Option<String>,
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
            calls: Vec::new(),
            call_bytes: 0,
            finish_reason: None,
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
        let chunk: Chunk<'_> = read_reply(data.as_bytes())?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let message =
                error["message"].as_str().or(error.as_str()).unwrap_or("the provider ended the stream");
            return Err(TranslateError::Provider {
                kind: error["type"].as_str().unwrap_or("api_error").to_owned(),
                message: message.to_owned(),
            });
        }
        self.first.get_or_insert(moment.elapsed);
        self.usage = chunk.usage.or(self.usage);
        let Extras { sources, citations, weir } = &mut self.extras;
        *sources = chunk.sources.or(sources.take());
        *citations = chunk.citations.or(citations.take());
        *weir = chunk.weir.or(weir.take());
        for choice in chunk.choices.unwrap_or_default().into_iter().filter(|choice| choice.index == 0) {
            self.choice(choice, moment, out)?;
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

    fn choice(
        &mut self,
        choice: Choice<'_>,
        moment: &Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), TranslateError> {
        let delta = choice.delta.unwrap_or_default();
        let thinking = [&delta.reasoning_content, &delta.reasoning].into_iter().find_map(text_of);
        let thinking = thinking.filter(|_| self.reply.shows_thinking);
        let content = [&delta.content, &delta.refusal, &choice.text].into_iter().find_map(text_of);
        let logprobs = choice.logprobs.as_ref().and_then(|logprobs| logprobs.content.as_deref());
        if thinking.is_some() || content.is_some() || logprobs.is_some() {
            let line = self.reply.line(moment, content.unwrap_or_default(), thinking, &[]);
            push_line(&Line { logprobs, ..line }, out);
        }
        for part in delta.tool_calls.unwrap_or_default() {
            self.add(part)?;
        }
        if choice.finish_reason.is_some() {
            self.finish_reason = choice.finish_reason;
            self.complete_calls(moment, out)?;
        }
        Ok(())
    }

    fn add(&mut self, part: CallPart<'_>) -> Result<(), TranslateError> {
        let known = self.calls.iter().position(|call| call.index == part.index);
        let place = known.unwrap_or(self.calls.len());
        if known.is_none() {
            self.calls.push(OpenCall { index: part.index, ..OpenCall::default() });
        }
        let call = &mut self.calls[place];
        if let Some(id) = part.id.filter(|id| !id.is_empty()) {
            call.id = id;
        }
        if let Some(function) = part.function {
            if let Some(name) = function.name.filter(|name| !name.is_empty()) {
                call.name = name;
            }
            if let Some(Text(arguments)) = function.arguments {
                self.call_bytes += arguments.len();
                call.arguments.push_str(&arguments);
            }
        }
        if self.calls.len() > CALLS_MAX || self.call_bytes > CALL_BYTES_MAX {
            let message =
                format!("its calls have more than {CALL_BYTES_MAX} bytes, or are more than {CALLS_MAX}");
            return Err(TranslateError::Reply(message));
        }
        Ok(())
    }

    /// A line with the calls: Ollama's have their arguments at once.
    fn complete_calls(&mut self, moment: &Moment, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let open = std::mem::take(&mut self.calls);
        if open.is_empty() {
            return Ok(());
        }
        let mut calls = Vec::with_capacity(open.len());
        for (index, call) in open.iter().enumerate() {
            let arguments = arguments(&call.arguments)?;
            let function = Function { index, name: &call.name, arguments };
            calls.push(ToolCall { id: &call.id, function });
        }
        push_line(&self.reply.line(moment, "", None, &calls), out);
        Ok(())
    }
}

fn text_of<'a>(text: &'a Option<Text<'_>>) -> Option<&'a str> {
    text.as_ref().map(|Text(text)| text.as_ref()).filter(|text| !text.is_empty())
}

fn push_line(line: &Line<'_>, out: &mut Vec<u8>) {
    // writing to memory can't fail, and the values are structs of strings and numbers
    let _ = serde_json::to_writer(&mut *out, line);
    out.push(b'\n');
}
