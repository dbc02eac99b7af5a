//! The LLM gateway through the real binary, before mocks of providers. The modules are named after the groups of problems that users of such
//! gateways report.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "the tests of the request log use more of it")]
#[path = "../../../telemetry/tests/request_log/postgres_server.rs"]
mod postgres;
#[allow(dead_code, reason = "the tests of embedding upstreams use more of it")]
#[path = "../upstreams/scripted.rs"]
mod scripted;
#[path = "../support/mod.rs"]
mod support;

mod cache;
mod clock;
mod database;
mod dialects;
mod disconnects;
mod fallback;
mod framing;
mod full_disk;
mod guardrails;
mod headers;
mod limits;
mod memory;
mod reload;
mod setup;
mod sources;
mod telemetry;
mod timeouts;
mod usage;
