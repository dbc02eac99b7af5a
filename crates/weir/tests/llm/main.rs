//! The LLM gateway through the real binary, before mocks of providers. The modules are named after the groups of problems that users of such
//! gateways report.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

#[path = "../support/mod.rs"]
mod support;

mod cache;
mod dialects;
mod disconnects;
mod fallback;
mod framing;
mod guardrails;
mod headers;
mod limits;
mod reload;
mod setup;
mod sources;
mod timeouts;
mod usage;
