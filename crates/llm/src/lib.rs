//! The LLM gateway: requests of several APIs are routed to providers, translated where the APIs differ ([`weir_translate`]), streamed, and counted.
//!
//! A request passes these steps:
//! 1. [`request`]: the body is parsed once, and the fields that decide something are read. Changes are made to its bytes.
//! 2. [`table`]: the model's name leads to targets. Upstreams, routes and prices are one table that is swapped as a whole.
//! 3. The tokens of the prompt and of the allowed output are reserved of the key's limits.
//! 4. [`forward`]: the targets are tried in the order of [`weir_policy::routing`] until one replies. A stream has replied when its first event is
//!    there, so that another target can take over until then.
//! 5. [`stream`]: events are passed on as they come; when the reply ends, breaks or is dropped, its usage is settled.

#![forbid(unsafe_code)]

mod annotations;
mod attached;
mod attached_stream;
mod attempt;
mod augment;
mod cache;
mod citations;
mod decode;
mod empty_reply;
mod error;
mod filter;
mod forward;
mod frames;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod judge;
mod listing;
mod long_scans;
mod ollama;
mod output;
mod pieces;
#[cfg(test)]
mod planted;
mod prompt;
mod provider;
mod question;
mod reply_key;
mod request;
mod response_stream;
mod settlement;
mod similarity;
mod source_list;
mod stream;
mod strings;
mod table;
mod vocabulary;

pub use error::LlmError;
pub use forward::{LlmBody, LlmCall, LlmReply};
pub use ollama::LineStream;
pub use provider::Api;
pub use similarity::Embedding;
pub use stream::{ReplyStream, StreamBroken};
pub use table::{Llm, TableError};
pub use weir_translate::ollama::Endpoint as OllamaEndpoint;
