//! `weir model pull` and `weir model info`.

mod error;
mod info;
mod pull;

use super::arguments::{ModelArguments, ModelCommand};
use super::context::Context;
use super::failure::Result;
use weir_config::Flags;

pub use error::{InfoError, PullError};

/// Runs `weir model …`.
pub async fn run(arguments: &ModelArguments, context: Context<'_>) -> Result<()> {
    match &arguments.command {
        ModelCommand::Pull { name, to, hub, revision } => {
            let config = context.load(Flags { hub: hub.clone(), ..Flags::default() })?;
            pull::run(&pull::PullRequest::new(name, to.clone(), &config.hub.url, revision), context.out).await
        }
        ModelCommand::Info { folder, json } => {
            let config = context.load(Flags::default())?;
            info::run(folder.as_deref(), *json, &config, context.out)
        }
    }
}
