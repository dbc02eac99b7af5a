//! The client of the gateway that the flags, the environment and the configuration name.

use std::path::PathBuf;

use weir_client::{Client, RetryPolicy};
use weir_config::{Config, Environment, Flags, Problems, load};

/// Loads the configuration and makes a client of its gateway. `url` is the value of `--url`.
pub(super) fn connect(
    url: Option<String>,
    file: Option<PathBuf>,
    environment: &Environment,
    retries: RetryPolicy,
) -> Result<(Client, Config), Problems> {
    let flags = Flags { config: file, url, ..Flags::default() };
    let config = load(&flags, environment)?.config;
    Ok((Client::new(config.client_url(), retries), config))
}
