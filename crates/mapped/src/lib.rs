//! Read-only views of files that Weir itself writes, by memory mapping, and memory in large pages.
//!
//! Together with `kernels` this is the only crate that may contain `unsafe`. It never interprets bytes.
//!
//! A view is a `&[u8]`, which the compiler assumes never changes; an operating system can't guarantee that for a file. Mapping is therefore
//! private to two types, whose rules keep mapped bytes unchanged: [`AppendOnlyFile`] and [`ImmutableFile`]. **The remaining risk** is another
//! program, or code that opens the file directly. If the file is truncated, everything beyond its new end reads as zeros, and [`Mapped::check`]
//! says so: call it after reading and before using the result. If mapped bytes are overwritten, readers may see a mix of old and new ones;
//! checksums are verified when a file is opened, not later. Readers check every offset and length that they read from a view, and read only numbers for which all bit patterns are valid. Data
//! and cache folders should be writable only by the user that Weir runs as.
#![allow(
    unsafe_code,
    reason = "mapping a file, and handling reads that the file no longer has, is unsafe by nature"
)]

mod guard;
mod large_pages;

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use guard::Guard;
pub use large_pages::{LARGE_PAGE_BYTES, LargePages};
use memmap2::{Mmap, MmapOptions};
use stable_deref_trait::StableDeref;

/// The first bytes of a file that only grows: one writer appends after them, and never overwrites or truncates bytes that were committed.
/// An obsolete file is removed, not truncated; its views stay valid.
#[derive(Debug)]
pub struct AppendOnlyFile(Mapped);

/// A file that never changes under its name: [`ImmutableFile::create`] writes it under another name and renames it. A new version replaces
/// it in the same way; views of the old one stay valid.
#[derive(Debug)]
pub struct ImmutableFile(Mapped);

/// A read-only view of the first bytes of a file. Made by [`AppendOnlyFile`] and [`ImmutableFile`].
#[derive(Debug)]
pub struct Mapped {
    path: PathBuf,
    /// Before `map`, so that it is dropped first.
    guard: Option<Guard>,
    /// `None` for an empty view, since the operating system does not map 0 bytes.
    map: Option<Mmap>,
    /// The last byte that is not 0. In a truncated file it reads as 0, also where the system raises no signal: within the page of the new end.
    last: Option<usize>,
}

/// A file could not be mapped, or its length or checksum is wrong.
#[derive(Debug, thiserror::Error)]
pub enum MappedError {
    /// The file could not be opened or mapped.
    #[error("could not map file `{path}`: check that it exists and may be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file is shorter than the requested prefix, or its length is not the recorded one.
    #[error(
        "file `{path}` has {actual} bytes instead of {expected}: it was cut or replaced, restore or rebuild it"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Requested or recorded bytes.
        expected: u64,
        /// Bytes of the file.
        actual: u64,
    },
    /// A part of the file could not be read while it was mapped.
    #[error("file `{path}` was truncated, or cannot be read, since it was opened: restore or rebuild it")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The checksum of the bytes is not the recorded one.
    #[error("file `{path}` is damaged (crc32 {actual:08x} instead of {expected:08x}): restore or rebuild it")]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The recorded checksum.
        expected: u32,
        /// The checksum of the bytes.
        actual: u32,
    },
}

impl MappedError {
    /// Whether the file's content is at fault, rather than the machine, so that writing it again helps.
    pub fn is_damage(&self) -> bool {
        match self {
            MappedError::Length { .. } | MappedError::Checksum { .. } | MappedError::Changed { .. } => true,
            MappedError::Unreadable { source, .. } => is_sign_of_damage(source),
        }
    }
}

/// Whether the error means that a file lacks bytes that it should have.
pub fn is_sign_of_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
}

impl AppendOnlyFile {
    /// Maps exactly the first `len` bytes; 0 is allowed and maps nothing, but the file must exist.
    ///
    /// # Errors
    /// [`MappedError::Unreadable`], or [`MappedError::Length`] when the file is shorter than `len`.
    pub fn open(path: impl AsRef<Path>, len: u64) -> Result<AppendOnlyFile, MappedError> {
        let path = path.as_ref();
        let (file, actual) = open_file(path)?;
        if actual < len {
            return Err(MappedError::Length { path: path.to_owned(), expected: len, actual });
        }
        // SAFETY: the file has `len` bytes, and by the rule of the type committed bytes do not change.
        unsafe { Mapped::map(path, &file, len) }.map(AppendOnlyFile)
    }
}

impl ImmutableFile {
    /// Maps the whole file, in large pages where the system supports them, so that few page table entries cover it. Processes share its pages.
    ///
    /// # Errors
    /// [`MappedError::Unreadable`] when the file is missing or may not be read.
    pub fn open(path: impl AsRef<Path>) -> Result<ImmutableFile, MappedError> {
        let path = path.as_ref();
        let (file, len) = open_file(path)?;
        // SAFETY: the file has `len` bytes, and by the rule of the type it never changes under its name.
        let mapped = unsafe { Mapped::map(path, &file, len) }?;
        // fails on a system or file system without large pages, which then uses small ones
        #[cfg(target_os = "linux")]
        if let Some(map) = mapped.map.as_ref().filter(|map| map.len() >= LARGE_PAGE_BYTES) {
            map.advise(memmap2::Advice::HugePage).ok();
        }
        Ok(ImmutableFile(mapped))
    }

    /// Writes `parts` one after the other to a file in the folder of `path`, syncs it, renames it, and maps it. Creates missing folders.
    ///
    /// # Errors
    /// The first step that failed; `path` is then unchanged.
    pub fn create(path: &Path, parts: &[&[u8]]) -> io::Result<ImmutableFile> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        let write = || {
            let mut file = File::create(&draft)?;
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_all()?;
            drop_cached_pages(&file);
            std::fs::rename(&draft, path)
        };
        if let Err(error) = write() {
            // if removing fails too, the next call overwrites the draft
            let _ = std::fs::remove_file(&draft);
            return Err(error);
        }
        ImmutableFile::open(path).map_err(io::Error::other)
    }
}

impl Mapped {
    /// # Safety
    /// The file has at least `len` bytes; these do not change, and the file is not truncated below them, while the view lives.
    unsafe fn map(path: &Path, file: &File, len: u64) -> Result<Mapped, MappedError> {
        let path = path.to_owned();
        if len == 0 {
            return Ok(Mapped { path, guard: None, map: None, last: None });
        }
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "larger than the address space");
        let map = usize::try_from(len).map_err(|_| too_large()).and_then(|len| {
            // SAFETY: guaranteed by the caller.
            unsafe { MmapOptions::new().len(len).map(file) }
        });
        match map {
            Ok(map) => {
                let guard = Some(Guard::new(&map));
                let last = map.iter().rposition(|byte| *byte != 0);
                Ok(Mapped { path, guard, map: Some(map), last })
            }
            Err(source) => Err(MappedError::Unreadable { path, source }),
        }
    }

    /// The file that was mapped.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that all bytes that were read so far were those of the file.
    ///
    /// # Errors
    /// [`MappedError::Changed`] if the file was truncated so that its bytes changed, or a disk failed to read it. Such bytes read as zeros.
    pub fn check(&self) -> Result<(), MappedError> {
        let last = self.last.zip(self.map.as_ref()).map(|(last, map)| std::ptr::from_ref(&map[last]));
        // SAFETY: the pointer is to a byte of the view. The read is volatile because the byte may have changed since the view was made.
        let is_cut = last.is_some_and(|last| unsafe { last.read_volatile() } == 0);
        match is_cut || self.guard.as_ref().is_some_and(Guard::is_damaged) {
            true => Err(MappedError::Changed { path: self.path.clone() }),
            false => Ok(()),
        }
    }

    /// CRC-32 (the polynomial of gzip and PNG) of the mapped bytes. Reads all of them.
    pub fn crc32(&self) -> u32 {
        crc32fast::hash(self)
    }

    /// Checks that the view has `len` bytes with checksum `crc`. Reads all of them.
    ///
    /// # Errors
    /// [`MappedError::Length`] or [`MappedError::Checksum`], with the actual and the expected value.
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

impl Deref for AppendOnlyFile {
    type Target = Mapped;

    fn deref(&self) -> &Mapped {
        &self.0
    }
}

/// The bytes of a file that several own.
#[derive(Debug, Clone)]
pub struct SharedFile(std::sync::Arc<ImmutableFile>);

impl From<std::sync::Arc<ImmutableFile>> for SharedFile {
    fn from(file: std::sync::Arc<ImmutableFile>) -> SharedFile {
        SharedFile(file)
    }
}

impl Deref for SharedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: the mapping has one address until the last clone is dropped.
unsafe impl StableDeref for SharedFile {}

impl Deref for ImmutableFile {
    type Target = Mapped;

    fn deref(&self) -> &Mapped {
        &self.0
    }
}

/// Drops the small pages in which the system cached a written and synced file, so that its view is read in large pages.
fn drop_cached_pages(file: &File) {
    // a failure only costs speed
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
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn a_created_file_is_mapped_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new folder").join("file.bin");
        let created = ImmutableFile::create(&path, &[b"1234", b"", b"56789"]).unwrap();
        let opened = ImmutableFile::open(&path).unwrap();
        for mapped in [&created, &opened] {
            assert_eq!(&mapped[..], b"123456789");
            assert_eq!(mapped.path(), path);
        }
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "a draft was left");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn replacing_a_file_does_not_change_views_of_the_old_one() {
        let (_folder, path) = file_with(b"old bytes");
        let old = ImmutableFile::open(&path).unwrap();
        let new = ImmutableFile::create(&path, &[b"new"]).unwrap();
        assert_eq!((&old[..], &new[..]), (&b"old bytes"[..], &b"new"[..]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not have `posix_fadvise`")]
    fn a_file_that_cannot_be_created_leaves_nothing_behind() {
        let (folder, path) = file_with(b"");
        assert!(ImmutableFile::create(&path.join("below a file"), &[b"1"]).is_err());
        std::fs::create_dir(folder.path().join("taken")).unwrap();
        assert!(ImmutableFile::create(&folder.path().join("taken"), &[b"1"]).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a draft was left");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn large_pages_show_the_same_bytes_after_the_page_cache_was_dropped() {
        let bytes: Vec<u8> = (0..2 * LARGE_PAGE_BYTES + 5).map(|i| (i / 7) as u8).collect();
        let (_folder, path) = file_with(&bytes);
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        drop_cached_pages(&file);
        for _ in 0..2 {
            assert!(ImmutableFile::open(&path).unwrap()[..] == bytes);
        }
        assert!(AppendOnlyFile::open(&path, bytes.len() as u64).unwrap()[..] == bytes);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn a_prefix_shows_exactly_its_bytes() {
        let (_folder, path) = file_with(b"123456789");
        assert_eq!(&AppendOnlyFile::open(&path, 4).unwrap()[..], b"1234");
        assert_eq!(&AppendOnlyFile::open(&path, 9).unwrap()[..], b"123456789");
    }

    #[test]
    fn an_empty_view_needs_an_existing_file() {
        let (folder, path) = file_with(b"");
        assert_eq!(&ImmutableFile::open(&path).unwrap()[..], b"");
        assert_eq!(&AppendOnlyFile::open(&path, 0).unwrap()[..], b"");
        let missing = AppendOnlyFile::open(folder.path().join("missing"), 0);
        assert!(matches!(missing, Err(MappedError::Unreadable { .. })));
    }

    #[test]
    fn a_prefix_longer_than_the_file_is_rejected_with_both_lengths() {
        let (_folder, path) = file_with(b"123456789");
        for len in [1 << 62, u64::MAX - 4_095, u64::MAX] {
            assert!(matches!(AppendOnlyFile::open(&path, len), Err(MappedError::Length { actual: 9, .. })));
        }
        let error = AppendOnlyFile::open(&path, 10).unwrap_err();
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
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn the_checksum_is_the_crc_of_the_view() {
        let (_folder, path) = file_with(b"123456789");
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(ImmutableFile::open(&path).unwrap().crc32(), 0xcbf4_3926);
        assert_eq!(AppendOnlyFile::open(&path, 0).unwrap().crc32(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn verification_names_a_wrong_length_and_a_wrong_checksum() {
        let (_folder, path) = file_with(b"123456789");
        let mapped = ImmutableFile::open(&path).unwrap();
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
    #[cfg_attr(miri, ignore = "Miri does not map files")]
    fn a_view_stays_valid_when_the_file_grows_or_is_removed() {
        let (_folder, path) = file_with(b"123456789");
        let mapped = AppendOnlyFile::open(&path, 9).unwrap();
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
