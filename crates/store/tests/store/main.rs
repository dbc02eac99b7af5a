//! The store: its contract, damaged files, throughput.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod contract;
mod postgres;
mod sqlite;
mod throughput;
