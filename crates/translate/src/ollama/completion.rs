//! Replies of providers with OpenAI's API: a chat completion or a completion, whole or a chunk of one. Messages have the shapes that
//! [`crate::messages`] reads.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::events::FAILURES;
use crate::json::Tape;
use crate::messages::{CallDelta, Delta, Piece, provider_error};
use crate::{TokenUsage, TranslateError, read_reply};

/// A completion, or a chunk of one.
#[derive(Deserialize)]
pub(super) struct Completion<'a> {
    #[serde(borrow)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    /// The tokens that it counts, wherever they stand.
    #[serde(skip)]
    pub(super) usage: Option<TokenUsage>,
    pub(super) sources: Option<Box<RawValue>>,
    pub(super) citations: Option<Box<RawValue>>,
    pub(super) weir: Option<Box<RawValue>>,
    error: Option<Value>,
    /// `error` in a body of vLLM's that is an error itself.
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    index: Option<u64>,
    /// Of a whole chat completion. Chunks of Perplexity's have it beside the delta, with the whole text so far.
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    /// Of a chunk.
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    /// Of a completion without chat.
    #[serde(borrow)]
    text: Option<Text<'a>>,
    finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
    error: Option<Value>,
}

/// A string that is borrowed when it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The log probabilities of the tokens: their list has Ollama's shape.
#[derive(Deserialize)]
struct Logprobs {
    content: Option<Box<RawValue>>,
}

/// The content of a choice, or of a chunk's addition to it. Absent texts are empty.
pub(super) struct Part<'a> {
    pub(super) content: Cow<'a, str>,
    thinking: Cow<'a, str>,
    pub(super) calls: Vec<CallDelta<'a>>,
    pub(super) logprobs: Option<Box<RawValue>>,
    pub(super) finish_reason: Option<String>,
}

impl<'a> Completion<'a> {
    /// Reads JSON that has whole characters.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when it is no completion, [`TranslateError::Provider`] when it is an error.
    pub(super) fn read(json: &'a [u8]) -> Result<Completion<'a>, TranslateError> {
        let completion: Completion<'a> = read_reply(json)?;
        completion.check()?;
        let usage = Tape::parse(json).ok().and_then(|tape| TokenUsage::of(tape.root(json)));
        Ok(Completion { usage, ..completion })
    }

    /// Refuses a body that is an error, or has one in a choice: what [`crate::messages`] refuses.
    fn check(&self) -> Result<(), TranslateError> {
        let choices = self.choices.as_deref().unwrap_or_default();
        let of_choices = || choices.iter().find_map(|choice| choice.error.as_ref());
        if let Some(error) = self.error.as_ref().or_else(of_choices) {
            return Err(provider_error(error));
        }
        if self.object.is_some_and(|object| object.get() == "\"error\"") {
            let message = self.message.and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
            return Err(provider_error(&message.unwrap_or_default()));
        }
        match choices.iter().filter_map(Choice::finish_reason).find(|reason| FAILURES.contains(reason)) {
            Some(reason) => {
                Err(provider_error(&Value::from(format!("the provider ended the reply: {reason}"))))
            }
            None => Ok(()),
        }
    }
}

impl<'a> Choice<'a> {
    /// Whether it is the one that is translated.
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or(0) == 0
    }

    /// Some servers have an empty one until the end.
    fn finish_reason(&self) -> Option<&str> {
        self.finish_reason.as_deref().filter(|reason| !reason.is_empty())
    }

    /// Its content in a whole reply.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when its message can't be read.
    pub(super) fn whole(self) -> Result<Part<'a>, TranslateError> {
        let message = self.message;
        self.part(message)
    }

    /// Its addition in a chunk. A message alone is an answer of which no earlier chunk had a part.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when its delta can't be read.
    pub(super) fn added(self, has_answer: bool) -> Result<Part<'a>, TranslateError> {
        let delta = self.delta.or(self.message.filter(|_| !has_answer));
        self.part(delta)
    }

    fn part(self, message: Option<&'a RawValue>) -> Result<Part<'a>, TranslateError> {
        let message: Option<Delta<'a>> = match message {
            Some(json) => Some(read_reply(json.get().as_bytes())?),
            None => None,
        };
        let mut part = Part {
            content: Cow::default(),
            thinking: Cow::default(),
            calls: Vec::new(),
            finish_reason: self.finish_reason().map(str::to_owned),
            logprobs: self.logprobs.and_then(|logprobs| logprobs.content),
        };
        let mut refusal: Cow<'a, str> = Cow::default();
        for piece in message.into_iter().flat_map(|message| message.pieces()) {
            match piece {
                Piece::Thinking { text, .. } => part.thinking += text,
                Piece::Text(text) => part.content += text,
                Piece::Refusal(text) => refusal += text,
                Piece::Call(call) => part.calls.push(call),
                Piece::Redacted { .. } => {}
            }
        }
        if part.content.is_empty() {
            let text = self.text.map(|Text(text)| text).unwrap_or_default();
            part.content = if refusal.is_empty() { text } else { refusal };
        }
        Ok(part)
    }
}

impl Part<'_> {
    /// The reasoning, from whichever field it came in.
    pub(super) fn thinking(&self) -> Option<&str> {
        Some(&*self.thinking).filter(|text| !text.is_empty())
    }
}
