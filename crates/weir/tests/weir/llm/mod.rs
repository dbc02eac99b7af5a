//! The LLM gateway through the real binary, before mocks of providers. The modules are named after the groups of problems that users of such
//! gateways report.

#[allow(dead_code, reason = "the tests of the request log use more of it")]
#[path = "../../../../telemetry/tests/telemetry/request_log/postgres_server.rs"]
pub(crate) mod postgres;

mod cache;
mod case_files;
mod clock;
mod costs;
mod database;
mod dialects;
mod disconnects;
mod drain;
mod embeddings;
mod ended_replies;
mod fallback;
mod first_events;
mod framing;
mod full_disk;
mod guarded_shapes;
mod guardrails;
mod headers;
mod limits;
mod memory;
mod models;
mod ollama;
mod provider_errors;
mod quirks;
mod reload;
pub(crate) mod setup;
mod shown_sources;
mod sources;
mod telemetry;
mod timeouts;
mod usage;
mod waiting;
