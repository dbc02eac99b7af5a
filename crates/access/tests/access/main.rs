//! Limits that several gateways share, against a real Redis server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod redis_server;
mod shared_limits;
