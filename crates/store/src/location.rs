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
    /// A PostgreSQL database, and the data directory of the gateway that uses it.
    Database(Box<Address>, Option<PathBuf>),
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
        Ok(Location(Place::Database(Box::new(address), None)))
    }

    /// Whether several gateways can use it at one time.
    pub fn is_shared(&self) -> bool {
        matches!(self.0, Place::Database(..))
    }

    /// The same place for a gateway whose other files are in `folder`: opening the store locks the folder, and refuses one that belongs to another
    /// service.
    #[must_use]
    pub fn with_data_dir(self, folder: &Path) -> Location {
        Location(match self.0 {
            Place::Folder(place) => Place::Folder(place),
            Place::Database(address, _) => Place::Database(address, Some(folder.to_owned())),
        })
    }
}
