//! weir-bench: closed-loop and constant-rate load with HDR percentiles.
//!
//! A [`Plan`] contains the requests, their rate and the length of the run. [`run`] sends them over keep-alive HTTP/1.1
//! connections and returns a [`Report`]. [`NullServer`] sends a constant response, so that the generator itself can be
//! measured. `docs/bench.md` defines the figures.
//!
//! Invariants: targets are loopback addresses unless the plan allows others; every run is limited in requests and time;
//! each connection has at most one outstanding request.

#![forbid(unsafe_code)]

mod client;
mod closed_loop;
mod constant_rate;
mod excerpt;
mod hold;
mod http1;
mod null_server;
mod plan;
mod process_usage;
mod recorder;
mod report;
mod report_table;
mod response_check;
mod run;
mod stream;
mod stream_report;
mod target;
mod timer;

pub use client::FailureKind;
pub use null_server::{NullConfig, NullServer};
pub use plan::{
    CONCURRENCY_MAX, DURATION_DEFAULT, DURATION_MAX, RATE_MAX, REQUESTS_MAX, THREADS_MAX, TIMEOUT_MAX,
};
pub use plan::{Expect, ExpectedStatus, Limit, Load, Plan, PlanError, StreamExpect};
pub use process_usage::{ProcessError, ProcessUsage, ServerUsage};
pub use report::{Latency, Report, ScheduleReport};
pub use run::{RunError, run};
pub use stream_report::StreamReport;
pub use target::{LoadTarget, RequestTemplate, TargetError};
