//! Where a store is.

use std::path::{Path, PathBuf};

use weir_postgres::Address;

use crate::{Error, Result};

/// Where a store is, or will be. Callers do not look into it.
#[derive(Debug, Clone)]
pub struct Location(pub(crate) Place);

#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A SQLite file in a folder.
    Folder(PathBuf),
    /// A PostgreSQL database.
    Database(Box<Address>),
}

impl Location {
    /// The data directory `folder`, which the store creates if it is missing.
    pub fn data_dir(folder: &Path) -> Location {
        Location(Place::Folder(folder.to_owned()))
    }

    /// The PostgreSQL database at a URL, `postgresql://…`, with the parameters `sslmode` and `sslrootcert` of libpq.
    ///
    /// # Errors
    /// `Unsupported` if it is no address. The message does not show it: it can have a password.
    pub fn database(url: &str) -> Result<Location> {
        let address = Address::parse(url);
        let address = address.map_err(|error| Error::Unsupported(format!("of its URL: {error}")))?;
        Ok(Location(Place::Database(Box::new(address))))
    }
}
