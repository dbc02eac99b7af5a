//! The LLM gateway: routing of chat requests to providers, translation between their APIs, streams, usage.

#![forbid(unsafe_code)]

mod translate;
mod usage;

pub use translate::{ReplyContext, StreamTranslator, TranslateError};
pub use usage::TokenUsage;
