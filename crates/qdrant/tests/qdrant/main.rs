//! What the client does with a cluster of three nodes that have faults. Each test whose name begins with `row_` holds a rule of the table in
//! the documentation of the crate.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests may panic; clippy exempts test functions only, not the functions that they call"
)]

mod cluster;
mod reads;
mod rules;
mod setup;
mod writes;
