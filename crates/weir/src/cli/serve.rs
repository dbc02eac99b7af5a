//! `weir serve`.

use super::arguments::ServeArguments;
use super::context::Context;
use super::failure::Result;
use weir_config::load_for_serving;

/// Runs the gateway until SIGTERM or SIGINT.
pub fn run(arguments: &ServeArguments, context: Context<'_>) -> Result<()> {
    let loaded =
        load_for_serving(&arguments.flags(context.file), context.environment, &weir_inference::reranks)?;
    Ok(crate::serve::run(loaded.config)?)
}
