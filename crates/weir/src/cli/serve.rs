//! `weir serve`.

use std::path::PathBuf;

use super::arguments::ServeArguments;
use super::failure::Failure;
use weir_config::{Environment, load_for_serving};

/// Runs the gateway until SIGTERM or SIGINT.
///
/// # Errors
/// When the configuration is invalid, or the gateway can't start.
pub fn run(
    arguments: &ServeArguments,
    file: Option<PathBuf>,
    environment: &Environment,
) -> Result<(), Failure> {
    let loaded = load_for_serving(&arguments.flags(file), environment, &weir_inference::reranks)?;
    Ok(crate::serve::run(loaded.config)?)
}
