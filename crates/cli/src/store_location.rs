//! Where the store of a configuration is.

use weir_config::Config;
use weir_store::{Error, Location, Result};

/// The place of the store, for commands.
///
/// # Errors
/// `Unsupported` when the URL of the database can't be read or is none.
pub(crate) fn store_location(config: &Config) -> Result<Location> {
    let Some(url) = &config.store.url else { return Ok(Location::data_dir(&config.server.data_dir)) };
    let url =
        url.secret().map_err(|reason| Error::Unsupported(format!("there is no URL of it: {reason}")))?;
    Location::database(url.reveal())
}
