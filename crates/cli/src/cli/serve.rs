//! `weir serve`.

use super::arguments::ServeArguments;
use super::context::Context;
use super::failure::Result;
use crate::reload::ConfigSource;
use weir_config::load_for_serving;

/// Runs the gateway until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArguments, context: Context<'_>) -> Result<()> {
    let source =
        ConfigSource { flags: arguments.flags(context.file), environment: context.environment.clone() };
    let loaded = load_for_serving(&source.flags, &source.environment, &weir_inference::reranks)?;
    Ok(crate::serve::run(loaded.config, source)?)
}
