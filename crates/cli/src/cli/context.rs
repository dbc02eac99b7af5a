//! The context of every command beside its arguments.

use std::io::Write;
use std::path::PathBuf;

use weir_client::{Client, RetryPolicy, Trust};
use weir_config::{API_KEY_VARIABLE, Config, Environment, Flags, Problems, load, load_for_calling};

use super::failure::Result;

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
    pub(super) fn load(&self, flags: Flags) -> std::result::Result<Config, Problems> {
        let flags = Flags { config: self.file.clone(), ..flags };
        Ok(load(&flags, self.environment)?.config)
    }

    /// A client of the configuration's gateway, also with problems in settings that it does not need. `url` is the value of `--url`.
    pub(super) fn connect_despite_problems(&self, url: &Option<String>) -> Result<Client> {
        let flags = Flags { config: self.file.clone(), url: url.clone(), ..Flags::default() };
        self.client(&load_for_calling(&flags, self.environment)?, RetryPolicy::NONE)
    }

    /// Loads the configuration and makes a client of its gateway. `url` is the value of `--url`.
    pub(super) fn connect(&self, url: &Option<String>, retries: RetryPolicy) -> Result<(Client, Config)> {
        let config = self.load(Flags { url: url.clone(), ..Flags::default() })?;
        Ok((self.client(&config, retries)?, config))
    }

    /// A client of the configuration's gateway, with the key of [`API_KEY_VARIABLE`] if it is set.
    pub(super) fn client(&self, config: &Config, retries: RetryPolicy) -> Result<Client> {
        let client = Client::new(config.client_url(), retries);
        let client = match trust(config) {
            Trust::PublicAuthorities => client,
            other @ (Trust::File(_) | Trust::Certificate(_)) => client.with_trust(&other)?,
        };
        match self.environment.get(API_KEY_VARIABLE) {
            Some(key) => Ok(client.with_api_key(key.to_string_lossy().trim())?),
            None => Ok(client),
        }
    }
}

/// The certificates that commands trust: public ones and those of `client.ca_file`; of the gateway that this configuration describes, its own.
pub(super) fn trust(config: &Config) -> Trust {
    match (&config.client.ca_file, &config.client.url) {
        (file, _) if !file.is_empty() => Trust::File(file.into()),
        (_, url) if url.is_empty() && config.server.has_tls() => {
            Trust::Certificate((&config.server.tls_certificate).into())
        }
        _ => Trust::PublicAuthorities,
    }
}
