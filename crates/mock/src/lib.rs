//! weir-mock: a mock of LLM providers for tests and load tests of a gateway.
//!
//! [`MockServer`] answers in the shapes of OpenAI, Anthropic and Gemini. The text of a reply is a function of its length
//! ([`token`]), so that a test can check every byte, or repeats the prompt ([`Echo`]). A [`Behavior`] has the length, the delays, the quirks
//! ([`QUIRKS`]) and the faults of a reply; each of its options is a flag of the binary and a header of a request. `GET /mock/stats` counts requests and cancellations,
//! `GET /mock/last` shows the last requests. `docs/mock.md` describes it for users.
//!
//! Invariants: request bodies, stored requests, connections, open streams, delays and lengths of replies are limited; two runs
//! with the same seed and the same order of requests have the same replies, delays and faults.

#![forbid(unsafe_code)]

mod account;
mod anthropic;
mod args;
mod behavior;
mod body;
mod chaos;
mod echo;
mod embeddings;
mod events;
mod gemini;
mod handler;
mod last;
mod openai;
mod provider;
mod quirks;
mod random;
mod reply;
mod request;
mod responses;
mod server;
mod stats;
mod timing;
mod usage;
mod wire;

pub use args::Settings;
pub use behavior::{Behavior, BehaviorOption, OptionError, options, published_headers};
pub use chaos::{FAULTS, Fault, FaultRates};
pub use echo::Echo;
pub use quirks::{QUIRKS, Quirk, QuirkSet};
pub use reply::token;
pub use server::MockServer;
pub use timing::Profile;
