//! The gateway: HTTP, configuration, the inference scheduler, the ingest worker, the binary weir.

#![forbid(unsafe_code)]

pub mod cli;
mod clock;
pub mod collections;
pub mod config;
pub mod feedback;
pub mod http;
pub mod inference;
pub mod ingest;
mod logging;
mod loopback;
pub mod metrics;
pub mod query_log;
pub mod serve;
