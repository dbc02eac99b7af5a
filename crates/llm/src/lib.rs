//! The LLM gateway: requests of several APIs are routed to providers, translated where the APIs differ ([`weir_translate`]), streamed, and counted.
//!
//! [`forward`] is the list of the stages that a request passes, as one [`exchange`]:
//! 1. It is read once ([`weir_translate::conversation::Request`]). Changes are made to its bytes.
//! 2. Route: the model's name leads to targets ([`table`]). Upstreams, routes and prices are one table that is swapped as a whole.
//! 3. Guard: the guardrails check it ([`guard`]).
//! 4. Augment: sources are searched and placed before the question ([`augment`]).
//! 5. Cache: a reply that was kept is looked for ([`kept`]).
//! 6. Send: what it may use is reserved of the key's limits ([`reservation`]), and the targets are tried until one replies ([`send`]). A stream has
//!    replied when its first event is there, so that another target can take over until then.
//! 7. The reply is guarded, cited and kept on its way ([`output`]); events of a stream are passed on as they come ([`stream`]). When it ends, breaks
//!    or is dropped, its usage is settled ([`settlement`]).

#![forbid(unsafe_code)]

mod attached;
mod attempt;
mod augment;
mod broken;
mod citations;
mod error;
mod exchange;
mod forward;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod judge;
mod kept;
mod listing;
mod long_scans;
mod ollama;
mod output;
#[cfg(test)]
mod planted;
mod provider;
mod question;
mod reply_key;
mod reservation;
mod send;
mod settlement;
mod similarity;
mod source_list;
mod stream;
mod table;

pub use error::LlmError;
pub use exchange::{LlmBody, LlmCall, LlmReply};
pub use ollama::LineStream;
pub use similarity::Embedding;
pub use stream::{ReplyStream, StreamBroken};
pub use table::{Llm, TableError};
pub use weir_prices::{ListedPrice, PriceSource, list_prices};
pub use weir_translate::conversation::Api;
pub use weir_translate::ollama::Endpoint as OllamaEndpoint;
