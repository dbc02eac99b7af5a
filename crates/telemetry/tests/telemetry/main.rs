//! Metrics and the request log from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod docs;
mod request_log;
