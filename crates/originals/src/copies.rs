//! Kept files outside of a gateway that runs: the full check, and the copy into another place.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use weir_store::{Keeping, Location, Store};

use super::database::{CopyError, store_parts};
use super::folder::{FOLDER, copy_synced, path_in};

/// Problems that a report has: more than anybody reads.
const PROBLEMS_MAX: usize = 100;

/// The outcome of [`verify_originals`].
#[derive(Debug, Default)]
pub struct OriginalsReport {
    /// Files that documents have.
    pub files: u64,
    /// Those that are missing, or whose bytes are others than those that were kept.
    pub problems: Vec<String>,
}

/// Where kept files are.
enum Place<'a> {
    /// In a folder of the data directory.
    Folder(&'a Path),
    /// In the store.
    Database(&'a Store),
}

impl Place<'_> {
    /// The SHA-256 of a file in hexadecimal, and its bytes. `write` gets its parts.
    async fn read(
        &self,
        sha256: &str,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(String, u64), CopyError> {
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        let mut add = |part: &[u8]| {
            hash.update(part);
            bytes += part.len() as u64;
            write(part)
        };
        match self {
            Place::Folder(folder) => {
                let (mut file, mut buffer) = (File::open(path_in(folder, sha256))?, vec![0; 64 << 10]);
                loop {
                    match file.read(&mut buffer)? {
                        0 => break,
                        read => add(&buffer[..read])?,
                    }
                }
            }
            Place::Database(store) => {
                for number in 0.. {
                    match store.file_part(sha256, number).await? {
                        Some(part) => add(&part)?,
                        None if number == 0 && !is_empty_file(sha256) => {
                            return Err(io::Error::from(io::ErrorKind::NotFound).into());
                        }
                        None => break,
                    }
                }
            }
        }
        Ok((hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), bytes))
    }
}

fn is_empty_file(sha256: &str) -> bool {
    sha256.starts_with("e3b0c44298fc1c14")
}

/// Reads each kept file of a store and compares its SHA-256 with that in the store. Also while a gateway uses both.
///
/// # Errors
/// Store errors.
pub async fn verify_originals(
    data_dir: &Path,
    location: &Location,
) -> Result<OriginalsReport, weir_store::Error> {
    let folder = data_dir.join(FOLDER);
    // a gateway that runs has the data directory's own store open
    let store = if location.is_shared() { Some(Store::open(location).await?) } else { None };
    let (place, remedy) = match &store {
        Some(store) => (Place::Database(store), "restore the database"),
        None => (Place::Folder(&folder), "restore the folder `originals`"),
    };
    let mut report = OriginalsReport::default();
    for (sha256, bytes, id) in Store::originals_at(location).await? {
        report.files += 1;
        let problem = match place.read(&sha256, |_| Ok(())).await {
            Ok((found, _)) if found == sha256 => continue,
            Ok((_, length)) if length != bytes => format!("has {length} of {bytes} bytes"),
            Ok(_) => "has other bytes than were kept".to_owned(),
            Err(error) => format!("can't be read ({error})"),
        };
        if report.problems.len() < PROBLEMS_MAX {
            let problem = format!(
                "the original file {sha256} of document {id:?} {problem}; send the file again with `keep_original`, or {remedy}"
            );
            report.problems.push(problem);
        }
    }
    if let Some(store) = store {
        store.close().await;
    }
    Ok(report)
}

/// Copies the kept files of a store to where a copy of it has them, and returns their number. `data_dir`: that of each, if it is no database.
///
/// # Errors
/// [`CopyError`]; also for a file that is damaged or missing.
pub async fn copy_originals(
    (from, from_dir): (&Store, Option<&Path>),
    (to, to_dir): (&Store, Option<&Path>),
) -> Result<u64, CopyError> {
    let folders = [from_dir, to_dir].map(|data_dir| data_dir.map(|data_dir| data_dir.join(FOLDER)));
    let place = match &folders[0] {
        Some(folder) => Place::Folder(folder),
        None => Place::Database(from),
    };
    let mut copied = 0;
    for (sha256, bytes, id) in from.originals().await? {
        let mut spool = tempfile::tempfile()?;
        let read = place.read(&sha256, |part| io::Write::write_all(&mut spool, part)).await;
        match read {
            Ok((found, _)) if found == sha256 => {}
            Ok(_) | Err(CopyError::File(_)) => {
                let problem = format!(
                    "the original file {sha256} of document {id:?} is missing or damaged; delete the document, or send the file again"
                );
                return Err(io::Error::other(problem).into());
            }
            Err(error) => return Err(error),
        }
        match &folders[1] {
            Some(folder) => {
                let path = path_in(folder, &sha256);
                if !path.exists() {
                    copy_synced(&mut spool, &path)?;
                }
            }
            None => match to.keep_file(&sha256, bytes, u64::MAX).await? {
                Keeping::Complete | Keeping::NoRoom => {}
                Keeping::Begun => store_parts(to, &sha256, Box::new(spool)).await?,
            },
        }
        copied += 1;
    }
    Ok(copied)
}
