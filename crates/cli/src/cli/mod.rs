//! The command line: its arguments ([`Arguments`]), and a module for each command.
//!
//! `weir serve` runs the gateway in this process. `ingest`, `sync`, `watch`, `delete`, `collections`, `move`, `export`, `search`, `chat`, `jobs`, `eval` and
//! `selftest` call a running gateway over its HTTP API, as any other client does. Only this module prints to the standard output.

mod arguments;
mod context;
mod failure;
mod interrupt;
mod known_folders;
mod missing;
mod progress;
mod terminal;

pub mod chat;
pub mod collections;
pub mod config;
pub mod delete;
pub mod demo;
pub mod doctor;
pub mod eval;
pub mod export;
pub mod extract;
pub mod feedback;
pub mod health;
pub mod ingest;
pub mod jobs;
pub mod keys;
pub mod model;
pub mod moves;
pub mod plan;
pub mod prices;
pub mod search;
pub mod selftest;
pub mod serve;
pub mod shell;
pub mod store;
pub mod sync;
pub mod usage;
pub mod watch;

pub use arguments::{
    Arguments, Command, ConfigArguments, ConfigCommand, EvalArguments, JobsArguments, ModelArguments,
    ModelCommand, SearchArguments, SearchMode, ServeArguments,
};
pub use collections::{CollectionsArguments, CollectionsCommand, SettingsArguments};
pub use context::Context;
pub use delete::DeleteArguments;
pub use export::ExportArguments;
pub use failure::{Failure, Result};
pub use ingest::IngestArguments;
pub use selftest::SelftestArguments;

/// Runs a command that calls servers on this thread.
///
/// # Errors
/// Those of the command, and when the runtime can't start.
pub fn block_on(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Start)?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background(); // a name lookup may still run
    outcome
}
