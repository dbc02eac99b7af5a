//! The command line: its arguments ([`Arguments`]), and a module for each command.
//!
//! `weir serve` runs the gateway in this process. `ingest`, `sync`, `delete`, `collections`, `search`, `jobs` and `eval` call
//! a running gateway over its HTTP API, as any other client does. Only this module prints to the standard output.

mod arguments;
mod context;
mod failure;
mod interrupt;
mod progress;
mod sources;
mod terminal;

pub mod collections;
pub mod config;
pub mod delete;
pub mod eval;
pub mod ingest;
pub mod jobs;
pub mod model;
pub mod search;
pub mod serve;
pub mod sync;

pub use arguments::{
    Arguments, CollectionsArguments, CollectionsCommand, Command, ConfigArguments, ConfigCommand,
    DeleteArguments, EvalArguments, IngestArguments, JobsArguments, ModelArguments, ModelCommand,
    SearchArguments, SearchMode, ServeArguments, SettingsArguments, SyncArguments,
};
pub use context::Context;
pub use failure::{Failure, Result};
