//! A read-only memory-mapped file whose length and checksum can be verified, and memory in large pages.
//!
//! Together with `kernels` this is the only crate that may contain `unsafe`; it contains one call. It maps and checks
//! bytes and never looks at what they mean.
#![allow(unsafe_code, reason = "mapping a file is unsafe by nature; everything else builds on this one call")]

mod large_pages;

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};

pub use large_pages::{LARGE_PAGE_BYTES, LargePages};
use memmap2::{Mmap, MmapOptions};

/// A read-only view of the first bytes of a file.
///
/// Whoever maps a file promises that nobody changes the mapped bytes or cuts the file below them while the view
/// lives. Our files keep the promise by being append-only or by being replaced through a rename.
#[derive(Debug)]
pub struct Mapped {
    path: PathBuf,
    /// `None` stands for an empty view: the operating system refuses to map nothing.
    map: Option<Mmap>,
}

/// Why a file could not be mapped, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum MappedError {
    /// The file could not be opened or mapped.
    #[error("could not map file `{path}`: check that it exists and may be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file has fewer bytes than asked for, or other than it should have.
    #[error(
        "file `{path}` has {actual} bytes instead of {expected}: it was cut or replaced, restore or rebuild it"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes that were asked for.
        expected: u64,
        /// Bytes that are there.
        actual: u64,
    },
    /// The bytes are not those that were written.
    #[error("file `{path}` is damaged (crc32 {actual:08x} instead of {expected:08x}): restore or rebuild it")]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The checksum that was recorded.
        expected: u32,
        /// The checksum of the bytes that are there.
        actual: u32,
    },
}

impl Mapped {
    /// Maps all of the file as it is now; what is appended later is not in the view.
    ///
    /// # Errors
    /// [`MappedError::Unreadable`] when the file is missing or may not be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Mapped, MappedError> {
        let path = path.as_ref();
        let (file, length) = open_file(path)?;
        map_prefix(path, &file, length)
    }

    /// The same for a file that is read all the time: in large pages where the system can, so that few entries of page tables stand for
    /// all of it. Processes that map the file share them. What is in the system's cache already stays as it is there: see [`uncache`].
    ///
    /// # Errors
    /// As [`Mapped::open`].
    pub fn open_in_large_pages(path: impl AsRef<Path>) -> Result<Mapped, MappedError> {
        let mapped = Mapped::open(path)?;
        // a system, or a file system, without large pages refuses, and small ones do
        #[cfg(target_os = "linux")]
        if let Some(map) = &mapped.map {
            map.advise(memmap2::Advice::HugePage).ok();
        }
        Ok(mapped)
    }

    /// Maps exactly the first `len` bytes; 0 is allowed and maps nothing, but the file has to be there.
    ///
    /// # Errors
    /// [`MappedError::Unreadable`], or [`MappedError::Length`] when the file is shorter than `len`.
    pub fn open_prefix(path: impl AsRef<Path>, len: u64) -> Result<Mapped, MappedError> {
        let path = path.as_ref();
        let (file, actual) = open_file(path)?;
        if actual < len {
            return Err(MappedError::Length { path: path.to_owned(), expected: len, actual });
        }
        map_prefix(path, &file, len)
    }

    /// The file that was mapped.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Enters every page into the process's tables now, where the system can, so that no reader waits for that later. The pages
    /// then count as memory of the process.
    pub fn prefault(&self) {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.map {
            // an older system can't: pages are then entered as they are read
            map.advise(memmap2::Advice::PopulateRead).ok();
        }
    }

    /// CRC-32 (the polynomial of gzip and PNG) of the mapped bytes. Reads all of them.
    pub fn crc32(&self) -> u32 {
        crc32fast::hash(self)
    }

    /// Checks that the view has `len` bytes with checksum `crc`. Reads all of them.
    ///
    /// # Errors
    /// [`MappedError::Length`] or [`MappedError::Checksum`], naming what is there and what should be.
    pub fn verify(&self, len: u64, crc: u32) -> Result<(), MappedError> {
        let actual_len = self.len() as u64;
        if actual_len != len {
            return Err(MappedError::Length { path: self.path.clone(), expected: len, actual: actual_len });
        }
        let actual = self.crc32();
        if actual != crc {
            return Err(MappedError::Checksum { path: self.path.clone(), expected: crc, actual });
        }
        Ok(())
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }
}

/// Asks the system to drop what its cache holds of a file that was written and synced: what is written lies there in small pages, and is
/// read again in pages of the size that its reader wants.
pub fn uncache(file: &File) {
    // nothing but speed depends on it
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).ok();
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

fn open_file(path: &Path) -> Result<(File, u64), MappedError> {
    let unreadable = |source| MappedError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    Ok((file, length))
}

fn map_prefix(path: &Path, file: &File, len: u64) -> Result<Mapped, MappedError> {
    if len == 0 {
        return Ok(Mapped { path: path.to_owned(), map: None });
    }
    let too_large = || std::io::Error::new(std::io::ErrorKind::FileTooLarge, "larger than the address space");
    let unreadable = |source| MappedError::Unreadable { path: path.to_owned(), source };
    let len = usize::try_from(len).map_err(|_| unreadable(too_large()))?;
    // SAFETY: the view is read-only and `len` does not pass the end of the file (checked by both callers). That the
    // mapped bytes stay as they are is the promise of whoever maps a file, see `Mapped`.
    let map = unsafe { MmapOptions::new().len(len).map(file) }.map_err(unreadable)?;
    Ok(Mapped { path: path.to_owned(), map: Some(map) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn the_view_shows_the_bytes_of_the_file() {
        let (_folder, path) = file_with(b"123456789");
        let mapped = Mapped::open(&path).unwrap();
        assert_eq!(&mapped[..], b"123456789");
        assert_eq!(mapped.path(), path);
    }

    #[test]
    fn large_pages_show_the_same_bytes_also_after_the_cache_was_dropped() {
        let bytes: Vec<u8> = (0..2 * LARGE_PAGE_BYTES + 5).map(|i| (i / 7) as u8).collect();
        let (_folder, path) = file_with(&bytes);
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        uncache(&file);
        for _ in 0..2 {
            assert!(Mapped::open_in_large_pages(&path).unwrap()[..] == bytes);
        }
        assert!(Mapped::open(&path).unwrap()[..] == bytes);
    }

    #[test]
    fn a_prefix_shows_exactly_its_bytes() {
        let (_folder, path) = file_with(b"123456789");
        assert_eq!(&Mapped::open_prefix(&path, 4).unwrap()[..], b"1234");
        assert_eq!(&Mapped::open_prefix(&path, 9).unwrap()[..], b"123456789");
    }

    #[test]
    fn nothing_can_be_mapped_of_any_file_that_exists() {
        let (folder, path) = file_with(b"");
        assert_eq!(&Mapped::open(&path).unwrap()[..], b"");
        assert_eq!(&Mapped::open_prefix(&path, 0).unwrap()[..], b"");
        let missing = Mapped::open_prefix(folder.path().join("missing"), 0);
        assert!(matches!(missing, Err(MappedError::Unreadable { .. })));
    }

    #[test]
    fn a_prefix_longer_than_the_file_is_refused_with_both_lengths() {
        let (_folder, path) = file_with(b"123456789");
        let error = Mapped::open_prefix(&path, 10).unwrap_err();
        assert!(matches!(error, MappedError::Length { expected: 10, actual: 9, .. }));
        assert_eq!(
            error.to_string(),
            format!(
                "file `{}` has 9 bytes instead of 10: it was cut or replaced, restore or rebuild it",
                path.display()
            )
        );
    }

    #[test]
    fn the_checksum_is_the_crc_of_the_view() {
        let (_folder, path) = file_with(b"123456789");
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(Mapped::open(&path).unwrap().crc32(), 0xcbf4_3926);
        assert_eq!(Mapped::open_prefix(&path, 0).unwrap().crc32(), 0);
    }

    #[test]
    fn verification_names_a_wrong_length_and_a_wrong_checksum() {
        let (_folder, path) = file_with(b"123456789");
        let mapped = Mapped::open(&path).unwrap();
        mapped.verify(9, 0xcbf4_3926).unwrap();
        assert!(matches!(
            mapped.verify(8, 0xcbf4_3926),
            Err(MappedError::Length { expected: 8, actual: 9, .. })
        ));
        assert!(matches!(
            mapped.verify(9, 1),
            Err(MappedError::Checksum { expected: 1, actual: 0xcbf4_3926, .. })
        ));
    }

    #[test]
    fn a_view_outlives_the_name_of_its_file_and_ignores_what_is_appended() {
        let (_folder, path) = file_with(b"123456789");
        let mapped = Mapped::open(&path).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| {
                use std::io::Write as _;
                file.write_all(b"more")
            })
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(&mapped[..], b"123456789");
    }
}
