//! The binary from outside: each module is a kind of its use. All of them are one program, so that what they share is compiled and linked once.
//!
//! Nothing here changes the process of the tests itself: limits, environments and faults are those of processes that a test starts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod attack;
mod browser;
mod cli_chat;
mod cli_commands;
mod cli_docs;
mod cli_documents;
mod cli_extract;
mod cli_folders;
mod cli_interrupt;
mod cli_keys;
mod cli_plan;
mod cli_progress;
mod cli_support;
mod cli_watch;
mod cluster;
mod crash;
mod embeddings_api;
mod eval;
mod examples;
mod http;
mod jobs;
mod llm;
mod qdrant;
mod search;
mod selftest;
mod support;
mod upstreams;
