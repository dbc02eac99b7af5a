//! Checks of the repository: the plan of the house in `docs/architecture.md`, held by tests.
//!
//! Each test collects every breach before it fails, so that one run shows all of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a broken repository should fail loudly, and only tests live here"
)]

mod dependencies;
mod graph;
mod licence;
mod metadata;
mod source;
mod sources;

use std::path::PathBuf;

/// The repository's root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository's root exists")
}

/// Fails with all breaches, one a line.
#[track_caller]
fn assert_none(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}
