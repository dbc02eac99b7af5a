//! The client over real connections to servers in this process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod calls;
mod chat;
mod embeddings;
mod native;
mod server;
