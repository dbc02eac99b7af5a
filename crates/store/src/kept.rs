//! The bytes of original files in the store.

use crate::scripts::{kept_files, originals};
use crate::tx::script;
use crate::{Result, Store};

/// Whether the bytes of a file are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// They are in the store.
    Complete,
    /// They are to be written, each part by [`Store::keep_part`], and then [`Store::finish_file`].
    Begun,
    /// All files together would have more bytes than they may.
    NoRoom,
}

impl Store {
    /// Begins to keep a file, by the SHA-256 of its bytes in hexadecimal; from now on it counts with all its bytes.
    pub async fn keep_file(&self, sha256: &str, bytes: u64, bytes_max: u64) -> Result<Keeping> {
        let sha256 = sha256.to_owned();
        self.database.write(script!(tx => kept_files::begin(tx, &sha256, bytes, bytes_max))).await
    }

    /// Stores a part of a file, counted from 0. Ignored if it is there.
    pub async fn keep_part(&self, sha256: &str, number: u64, part: Vec<u8>) -> Result<()> {
        let sha256 = sha256.to_owned();
        self.database.write(script!(tx => kept_files::add_part(tx, &sha256, number, &part))).await
    }

    /// Notes that all parts of a file are stored. `false` if that took too long, and they were removed meanwhile.
    pub async fn finish_file(&self, sha256: &str) -> Result<bool> {
        let sha256 = sha256.to_owned();
        self.database.write(script!(tx => kept_files::finish(tx, &sha256))).await
    }

    /// A part of a file that is complete; `None` behind the last one.
    pub async fn file_part(&self, sha256: &str, number: u64) -> Result<Option<Vec<u8>>> {
        let sha256 = sha256.to_owned();
        self.database.read(script!(tx => kept_files::part(tx, &sha256, number))).await
    }

    /// The number of all files, and their bytes.
    pub async fn kept_files(&self) -> Result<(u64, u64)> {
        self.database.read(script!(tx => kept_files::sum(tx))).await
    }

    /// Removes the files that no document has, and that nobody has begun to keep for as many seconds; returns their number.
    pub async fn remove_unused_files(&self, unused_seconds: f64) -> Result<u64> {
        self.database.write(script!(tx => kept_files::remove_unused(tx, unused_seconds))).await
    }

    /// The original files of documents: the SHA-256 of each in hexadecimal, its bytes, and the id of a document that has it.
    pub async fn originals(&self) -> Result<Vec<(String, u64, String)>> {
        self.database.read(script!(tx => originals::all(tx))).await
    }
}
