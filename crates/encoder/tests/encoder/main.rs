//! Models, real and tiny, against recordings of other implementations; and model folders that are damaged.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod embeddings;
mod folders;
mod models;
mod packed;
mod parallel;
mod sts;
mod wordpiece;
