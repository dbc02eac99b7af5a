//! The command line: its arguments ([`Arguments`]), and a module for each command.
//!
//! `weir serve` runs the gateway in this process. `ingest`, `search`, `jobs` and `eval` call a running gateway over its
//! HTTP API, as any other client does. Only this module prints to the standard output.

mod arguments;
mod connection;
mod failure;
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
pub use failure::Failure;
