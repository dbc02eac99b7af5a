//! Translation between OpenAI's chat completions and the APIs of other providers, and the tokens that they count. Pure functions: no IO, no
//! clock.
//!
//! `anthropic` and `gemini` serve callers of OpenAI's API from these providers; `messages` serves callers of Anthropic's API from
//! providers with OpenAI's, and `ollama` callers of Ollama's from both. Fields without a counterpart are left out when the reply's meaning stays the same (`seed`, `store`,
//! penalties) and refused otherwise.

#![forbid(unsafe_code)]
#![allow(clippy::wildcard_enum_match_arm, reason = "`_` stands for every other kind of a JSON value")]

mod answer_size;
pub mod anthropic;
mod chat;
mod chunk;
mod completion;
pub mod conversation;
mod conversion;
mod error;
pub mod events;
pub mod gemini;
pub mod messages;
pub mod ollama;
mod prompt_size;
mod refusal;
mod seen;
#[cfg(test)]
mod tests;
mod usage;

pub use answer_size::answer_tokens;
pub use conversion::{Conversion, can_be_kept};
pub use error::{Dialect, error};
pub use prompt_size::PromptSize;
pub use refusal::{Account, Cause};
pub use seen::Seen;
pub use usage::{ServiceTier, TokenUsage};
pub use weir_json as json;
pub use weir_sse::{EventTooLarge, JoinedBytes, SseDecoder, SseEvent};

/// The fields of the request that a translated reply repeats.
#[derive(Debug, Clone)]
pub struct ReplyContext {
    /// The id of the reply, `chatcmpl-…`.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// The name of the model that the caller asked for.
    pub model: String,
    /// Whether the caller asked for a chunk with the usage.
    pub include_usage: bool,
}

/// A request or a reply that has no counterpart in the other API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// The request has a value that the provider can't be sent.
    #[error("`{field}`: {reason}")]
    Request {
        /// The field, such as `messages[2].content`.
        field: String,
        /// The problem and its remedy.
        reason: String,
    },
    /// The reply is not what the API describes.
    #[error("the reply can't be read: {0}")]
    Reply(String),
    /// The provider reported an error inside of a reply or a stream.
    #[error("{message}")]
    Provider {
        /// The provider's type of the error.
        kind: String,
        /// The provider's message.
        message: String,
    },
}

impl From<weir_schema::SchemaError> for TranslateError {
    fn from(error: weir_schema::SchemaError) -> TranslateError {
        TranslateError::Request { field: error.field, reason: error.reason }
    }
}

/// A request that can't be translated.
fn refuse(field: impl Into<String>, reason: impl Into<String>) -> TranslateError {
    TranslateError::Request { field: field.into(), reason: reason.into() }
}

/// Reads JSON of a provider.
fn read_reply<'a, T: serde::Deserialize<'a>>(json: &'a [u8]) -> Result<T, TranslateError> {
    serde_json::from_slice(json).map_err(|error| TranslateError::Reply(without_value(&error.to_string())))
}

/// serde's message about a reply, without the value in it: it is written in another form than in the reply, in which guardrails do not
/// find it.
fn without_value(reason: &str) -> String {
    const VALUES: [&str; 5] =
        ["invalid type", "invalid value", "unknown variant", "unknown field", "duplicate field"];
    let kind = VALUES.into_iter().find(|kind| reason.starts_with(kind));
    let Some(kind) = kind else { return reason.to_owned() };
    match reason.rfind(", expected ").or_else(|| reason.rfind(" at line ")) {
        Some(at) => format!("{kind}{}", &reason[at..]),
        None => kind.to_owned(),
    }
}

/// A body that was built in memory: it can always be written.
fn write_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// Translates the events of a provider's stream into those of the caller's API.
pub struct StreamTranslator(Stream);

enum Stream {
    Anthropic(anthropic::AnthropicStream),
    Gemini(gemini::GeminiStream),
    Messages(messages::MessagesStream),
}

impl StreamTranslator {
    /// From Anthropic's messages API to chunks of a chat completion.
    pub fn anthropic(context: ReplyContext) -> StreamTranslator {
        StreamTranslator(Stream::Anthropic(anthropic::AnthropicStream::new(context)))
    }

    /// From Gemini's `streamGenerateContent` to chunks of a chat completion.
    pub fn gemini(context: ReplyContext) -> StreamTranslator {
        StreamTranslator(Stream::Gemini(gemini::GeminiStream::new(context)))
    }

    /// From chunks of a chat completion to the events of Anthropic's messages API.
    pub fn messages(context: ReplyContext) -> StreamTranslator {
        StreamTranslator(Stream::Messages(messages::MessagesStream::new(context)))
    }

    /// Appends the server-sent events that follow from the data of one event.
    ///
    /// # Errors
    /// [`TranslateError`]; the stream is to be ended then.
    pub fn push(&mut self, data: &str, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        match &mut self.0 {
            Stream::Anthropic(stream) => stream.push(data, out),
            Stream::Gemini(stream) => stream.push(data, out),
            Stream::Messages(stream) => stream.push(data, out),
        }
    }

    /// Appends what ends the stream.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when the provider's stream ended before its last event.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        match &mut self.0 {
            Stream::Anthropic(stream) => stream.finish(out),
            Stream::Gemini(stream) => stream.finish(out),
            Stream::Messages(stream) => stream.finish(out),
        }
    }

    /// The tokens counted so far.
    pub fn usage(&self) -> TokenUsage {
        match &self.0 {
            Stream::Anthropic(stream) => stream.usage(),
            Stream::Gemini(stream) => stream.usage(),
            Stream::Messages(stream) => stream.usage(),
        }
    }
}
