//! Translation between OpenAI's chat completions and the APIs of other providers. Pure functions: no IO, no clock.

use weir_upstream::SseEvent;

use crate::TokenUsage;

/// What a translated reply repeats of its request.
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
        /// What is wrong, and the remedy.
        reason: String,
    },
    /// The reply is not what the API describes.
    #[error("the reply can't be read: {0}")]
    Reply(String),
    /// The provider reported an error inside of a stream.
    #[error("{message}")]
    Provider {
        /// The provider's type of the error.
        kind: String,
        /// The provider's message.
        message: String,
    },
}

/// Translates the events of another provider's stream into chunks of a chat completion.
pub enum StreamTranslator {}

impl StreamTranslator {
    /// Appends the chunks, as server-sent events, that follow from one event.
    ///
    /// # Errors
    /// [`TranslateError`]; the stream is to be ended then.
    pub fn push(&mut self, _event: &SseEvent, _out: &mut Vec<u8>) -> Result<(), TranslateError> {
        match *self {}
    }

    /// Appends what ends the stream: the usage if it was asked for, and `[DONE]`.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] when the provider's stream ended before its last event.
    pub fn finish(&mut self, _out: &mut Vec<u8>) -> Result<(), TranslateError> {
        match *self {}
    }

    /// The tokens counted so far.
    pub fn usage(&self) -> TokenUsage {
        match *self {}
    }
}
