//! Chat replies that are kept and given again: [in memory](ReplyCache), and [in Redis](SharedReplies) where gateways share them.
//!
//! A reply is kept as the provider sent it, before guardrails put back what placeholders stand for and before citations are checked, so that both
//! are done for each request.

#![forbid(unsafe_code)]

mod encoding;
mod memory;
mod shared;

use bytes::Bytes;
use http::HeaderMap;
use weir_translate::TokenUsage;

pub use memory::{BYTES_MAX, ReplyCache};
pub use shared::{SharedReplies, SharedReply};

/// Largest reply that is kept.
pub const REPLY_BYTES_MAX: usize = 1 << 20;

/// The hash of all that decides what is answered.
pub type Key = [u8; 32];

/// The last question of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Of the conversation before it and of the words that a question with the same meaning has too.
    pub key: Key,
    /// The question.
    pub text: String,
}

/// A reply as its provider sent it, in the API of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its body, whole or as events.
    pub body: Bytes,
    /// Its headers.
    pub headers: HeaderMap,
    /// The tokens that the provider counted.
    pub usage: TokenUsage,
    /// Its cost, in billionths.
    pub cost_nanos: u64,
}
