//! The client of other servers: remote embedders and rerankers, LLM providers, webhooks.
//!
//! One [`UpstreamClient`] per configured upstream. It is asynchronous: a request occupies no thread while it waits, bodies are streams in
//! both directions, and dropping a request or its reply closes the connection (HTTP/1.1) or resets the stream (HTTP/2) at once.
//!
//! A request passes these steps:
//! 1. [`UpstreamClient::permit`]: one of `concurrent_requests_max` permits. [`Priority::Background`] leaves one to interactive callers.
//! 2. [`UpstreamClient::send`]: one attempt within its [`TimeLimits`], unless the circuit breaker is open. The permit is released at
//!    the end of the reply's body.
//! 3. [`Retries::wait`] after a failed attempt: backoff within the retry budget.
//!
//! The decisions are made in [`weir_policy::upstream`]. Redirects are not followed, so the API key reaches the configured server only.

#![forbid(unsafe_code)]

mod attempt;
mod client;
mod connect;
mod decoded;
mod endpoint;
mod error;
mod model_list;
mod pool;
mod reply;
#[cfg(test)]
mod tests;
mod webhook;

pub use attempt::TimeLimits;
pub use client::{Permit, Priority, RequestBody, Retries, UpstreamClient, UpstreamRequest, UpstreamSettings};
pub use decoded::{DecodeError, DecodedBody};
pub use error::{Awaited, Result, UpstreamError, has_plain_value};
pub use model_list::listed_models;
pub use reply::{Deadline, ReplyBody};
pub use webhook::{WebhookClient, WebhookError, WebhookSecret, WebhookUrl};
