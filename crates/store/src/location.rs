//! Where a store is.

use std::path::{Path, PathBuf};

/// Where a store is, or will be. Callers do not look into it.
#[derive(Debug, Clone)]
pub struct Location(pub(crate) Place);

#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A SQLite file in a folder.
    Folder(PathBuf),
}

impl Location {
    /// The data directory `folder`, which the store creates if it is missing.
    pub fn data_dir(folder: &Path) -> Location {
        Location(Place::Folder(folder.to_owned()))
    }
}
