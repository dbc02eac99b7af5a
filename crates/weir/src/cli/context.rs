//! What every command gets beside its arguments.

use std::io::Write;
use std::path::PathBuf;

use weir_client::{Client, RetryPolicy};
use weir_config::{Config, Environment, Flags, Problems, load};

/// The configuration file, the environment and the output of a command.
pub struct Context<'a> {
    /// The value of `--config`.
    pub file: Option<PathBuf>,
    /// The environment of the process.
    pub environment: &'a Environment,
    /// The standard output.
    pub out: &'a mut dyn Write,
}

impl Context<'_> {
    /// Loads the configuration.
    pub(super) fn load(&self, flags: Flags) -> Result<Config, Problems> {
        let flags = Flags { config: self.file.clone(), ..flags };
        Ok(load(&flags, self.environment)?.config)
    }

    /// Loads the configuration and makes a client of its gateway. `url` is the value of `--url`.
    pub(super) fn connect(
        &self,
        url: &Option<String>,
        retries: RetryPolicy,
    ) -> Result<(Client, Config), Problems> {
        let config = self.load(Flags { url: url.clone(), ..Flags::default() })?;
        Ok((Client::new(config.client_url(), retries), config))
    }
}
