//! The command line: what was typed ([`Arguments`]), and a module for each command.
//!
//! `weir serve` runs the gateway in this process; `ingest`, `search`, `jobs` and `eval` are clients of a running one and
//! go through its HTTP API like anybody else. Only this module prints to the standard output.

mod arguments;
mod client;
mod failure;
mod html;
mod interrupt;
mod progress;
mod sources;
mod terminal;

pub mod config;
pub mod eval;
pub mod ingest;
pub mod jobs;
pub mod model;
pub mod search;
pub mod serve;

pub use arguments::{
    Arguments, Command, ConfigArguments, ConfigCommand, EvalArguments, IngestArguments, JobsArguments,
    ModelArguments, ModelCommand, SearchArguments, SearchMode, ServeArguments,
};
pub use client::ClientError;
pub use failure::Failure;
