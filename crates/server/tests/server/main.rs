//! A gateway in this process: callers of any kind, and capacity that a test holds itself.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]
#![forbid(unsafe_code)]

mod admission;
mod cors;
mod examples;
mod in_process;
mod panics;
mod qdrant;
mod restricted;
mod usage;
