//! Limits that several gateways share, against a real Redis server and a real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod budgets;
#[allow(dead_code, reason = "the tests of the request log use more of it")]
#[path = "../../../telemetry/tests/telemetry/request_log/postgres_server.rs"]
mod postgres_server;
mod redis_server;
mod shared_limits;
