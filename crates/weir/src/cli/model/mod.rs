//! `weir model pull` and `weir model info`.

mod error;
mod info;
mod pull;

use std::io::Write;
use std::path::PathBuf;

use super::arguments::{ModelArguments, ModelCommand};
use super::failure::Failure;
use weir_config::{Environment, Flags, load};

pub use error::{InfoError, PullError};

/// Runs `weir model …`.
///
/// # Errors
/// When the model can't be fetched or loaded.
pub async fn run(
    arguments: &ModelArguments,
    file: Option<PathBuf>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    match &arguments.command {
        ModelCommand::Pull { name, to, hub, revision } => {
            let flags = Flags { config: file, hub: hub.clone(), ..Flags::default() };
            let config = load(&flags, environment)?.config;
            pull::run(&pull::PullRequest::new(name, to.clone(), &config.hub.url, revision), out).await
        }
        ModelCommand::Info { folder, json } => {
            let flags = Flags { config: file, ..Flags::default() };
            info::run(folder.as_deref(), *json, &load(&flags, environment)?.config, out)
        }
    }
}
