//! weir-bench: closed-loop and constant-rate load with HDR percentiles.
//!
//! Reading order: a [`Plan`] says what to send, how fast and for how long; [`run`] sends it over
//! keep-alive HTTP/1.1 connections and returns a [`Report`]. [`NullServer`] answers a constant as
//! fast as it can, to measure the generator itself. `docs/bench.md` explains what the figures mean.
//!
//! Invariants: no target that isn't loopback unless the plan says so; every run is bounded in
//! requests and in time; at most one request is under way on a connection.

#![forbid(unsafe_code)]

mod check;
mod client;
mod closed;
mod excerpt;
mod http1;
mod null;
mod pacer;
mod plan;
mod procstat;
mod rate;
mod record;
mod report;
mod run;
mod table;
mod target;

pub use client::FailureKind;
pub use null::{NullConfig, NullServer};
pub use plan::{
    CONCURRENCY_MAX, DURATION_DEFAULT, DURATION_MAX, RATE_MAX, REQUESTS_MAX, THREADS_MAX, TIMEOUT_MAX,
};
pub use plan::{Expect, ExpectedStatus, Limit, Load, Plan, PlanError};
pub use procstat::{ProcError, ProcessUse, ServerUse};
pub use report::{Latency, Lateness, Report};
pub use run::{RunError, run};
pub use target::{RequestTemplate, Target, TargetError};
