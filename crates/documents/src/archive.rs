//! Archives of documents, `.zip` and `.tar.gz`: their members are files of their own.
//!
//! Nothing is written anywhere, and the names of members are only names. Those that a careless program would write outside of its folder are
//! refused all the same, since what is named so is not what it says.

mod tar;

use std::collections::HashSet;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::budget::Budget;
use crate::format::is_plain_zip;
use crate::package::Package;
use crate::{Attachment, Extracted, Failure, Limits, Lost};

/// Members that unpack to more than this must not be smaller than one part in [`RATIO_MAX`] of it.
const RATIO_BYTES_MIN: u64 = 1 << 20;
/// Texts and tables are compressed to a hundredth at most; what shrinks further is made to fill memory.
const RATIO_MAX: u64 = 250;
/// Bytes of the name of a member.
const NAME_BYTES_MAX: usize = 400;
/// The lost part of an archive that ends too early.
const REST: &str = "the rest of the archive";
/// Where the mark of a tar archive stands.
const TAR_MARK: usize = 257;

/// A kind of archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archive {
    /// A zip archive that is no document of Office and no book.
    Zip,
    /// A tar archive, compressed with gzip.
    TarGz,
}

impl Archive {
    /// The kind of archive that a file is, if it is one.
    #[must_use]
    pub fn of(bytes: &[u8], name: &str) -> Option<Archive> {
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return is_plain_zip(bytes, name).then_some(Archive::Zip);
        }
        if !bytes.starts_with(b"\x1f\x8b") {
            return None;
        }
        let mut head = Vec::new();
        // a damaged stream is recognised by its first readable bytes
        let _ = MultiGzDecoder::new(bytes).take(512).read_to_end(&mut head);
        head.get(TAR_MARK..).is_some_and(|rest| rest.starts_with(b"ustar")).then_some(Archive::TarGz)
    }
}

/// The members of an archive as attachments with their paths; those that are refused or damaged are in `lost`, each with its reason.
///
/// # Errors
/// `DamagedFile` where no member can be found, `FileLimit` for more members or bytes than the limits allow.
pub fn unpack(bytes: &[u8], archive: Archive, limits: &Limits) -> Result<Extracted, Failure> {
    let mut members = Members::new(limits, bytes.len() as u64);
    let read = match archive {
        Archive::Zip => unzip(bytes, &mut members),
        Archive::TarGz => tar::read(MultiGzDecoder::new(bytes), &mut members),
    };
    match read {
        Err(failure) if members.attachments.is_empty() => return Err(failure),
        Err(failure) => members.lose(REST, &failure),
        Ok(()) => {}
    }
    let Members { attachments, lost, .. } = members;
    if attachments.is_empty() && lost.is_empty() {
        return Err(Failure::NoText("the archive has no files".to_owned()));
    }
    Ok(Extracted { is_archive: true, attachments, lost, ..Extracted::default() })
}

/// The members that were read so far.
struct Members<'l> {
    limits: &'l Limits,
    packed_bytes: u64,
    attachments: Vec<Attachment>,
    lost: Vec<Lost>,
    names: HashSet<String>,
    unpacked_bytes: u64,
}

impl<'l> Members<'l> {
    fn new(limits: &'l Limits, packed_bytes: u64) -> Members<'l> {
        Members {
            limits,
            packed_bytes,
            attachments: Vec::new(),
            lost: Vec::new(),
            names: HashSet::new(),
            unpacked_bytes: 0,
        }
    }

    /// Counts a member, whether it can be read or not.
    fn check_count(&self) -> Result<(), Failure> {
        let most = self.limits.archive_members;
        if self.attachments.len() + self.lost.len() < most {
            return Ok(());
        }
        Err(Failure::FileLimit(format!("it has more than {most} files: divide it")))
    }

    /// Reads a member. A failure of the member alone is noted.
    ///
    /// # Errors
    /// The failure of the archive: a limit of all members.
    fn add(&mut self, name: &str, content: &mut dyn Read, packed_bytes: Option<u64>) -> Result<(), Failure> {
        self.check_count()?;
        let read = checked_name(name).and_then(|path| {
            if self.names.contains(&path) {
                return Err(Failure::DamagedFile("the archive has two files of this name".to_owned()));
            }
            let bytes = self.read(content, packed_bytes)?;
            Ok(Attachment { name: path, bytes })
        });
        match read {
            Ok(attachment) => {
                self.unpacked_bytes += attachment.bytes.len() as u64;
                self.names.insert(attachment.name.clone());
                self.attachments.push(attachment);
            }
            Err(failure) => self.lose(name, &failure),
        }
        let most = self.limits.archive_bytes;
        if self.unpacked_bytes > most {
            return Err(Failure::FileLimit(format!("its files unpack to more than {most} bytes: divide it")));
        }
        Ok(())
    }

    fn read(&self, content: &mut dyn Read, packed_bytes: Option<u64>) -> Result<Vec<u8>, Failure> {
        let most = self.limits.archive_member_bytes;
        let by_ratio =
            packed_bytes.unwrap_or(self.packed_bytes).saturating_mul(RATIO_MAX).max(RATIO_BYTES_MIN);
        let mut bytes = Vec::new();
        let read = content.take(most.min(by_ratio).saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| Failure::DamagedFile(format!("it cannot be unpacked: {error}")))?;
        let length = bytes.len() as u64;
        if length > most {
            return Err(Failure::FileLimit(format!("it unpacks to more than {most} bytes")));
        }
        if length > by_ratio {
            return Err(Failure::FileLimit(format!("it unpacks to more than {RATIO_MAX} times its size")));
        }
        Ok(bytes)
    }

    fn lose(&mut self, name: &str, failure: &Failure) {
        let part: String = name.chars().take(NAME_BYTES_MAX).collect();
        self.lost.push(Lost { part, code: failure.code().to_owned(), message: failure.to_string() });
    }
}

/// The path of a member, without empty parts and parts `.`.
fn checked_name(name: &str) -> Result<String, Failure> {
    let refused = |reason: &str| Err(Failure::DamagedFile(reason.to_owned()));
    if name.len() > NAME_BYTES_MAX {
        return refused("its name in the archive is too long");
    }
    let path = name.replace('\\', "/");
    let has_drive = path.as_bytes().get(1) == Some(&b':');
    if path.starts_with('/') || has_drive {
        return refused("its name in the archive is absolute: pack it with a relative one");
    }
    if path.split('/').any(|part| part == "..") {
        return refused("its name in the archive has `..`: pack it without");
    }
    if path.chars().any(char::is_control) {
        return refused("its name in the archive has control characters");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    Ok(parts.join("/"))
}

/// Whether a member is left out, as `weir ingest` leaves it out of a folder: hidden files, and the notes of macOS.
fn is_hidden(name: &str) -> bool {
    name.split(['/', '\\'])
        .any(|part| (part.starts_with('.') && part != "." && part != "..") || part == "__MACOSX")
}

fn unzip(bytes: &[u8], members: &mut Members<'_>) -> Result<(), Failure> {
    let limits = Limits { zip_entries: members.limits.zip_entries, ..Limits::default() };
    let budget = Budget::new(&limits);
    let mut zip = Package::open(bytes, &budget)?.into_zip();
    for index in 0..zip.len() {
        unzip_one(&mut zip, index, members)?;
    }
    Ok(())
}

fn unzip_one(
    zip: &mut ZipArchive<std::io::Cursor<&[u8]>>,
    index: usize,
    members: &mut Members<'_>,
) -> Result<(), Failure> {
    let raw = zip.by_index_raw(index).ok().map(|entry| {
        let name = entry.name().map(std::borrow::Cow::into_owned);
        let name = name.unwrap_or_else(|_| String::from_utf8_lossy(entry.name_raw()).into_owned());
        (name, entry.is_dir(), entry.is_symlink())
    });
    let (name, is_dir, is_link) = raw.unwrap_or_else(|| (format!("number {}", index + 1), false, false));
    if is_dir || is_hidden(&name) {
        return Ok(());
    }
    members.check_count()?;
    if is_link {
        members.lose(&name, &Failure::UnsupportedFormat(LINK.to_owned()));
        return Ok(());
    }
    match zip.by_index(index) {
        Ok(mut entry) => {
            let packed = entry.compressed_size();
            members.add(&name, &mut entry, Some(packed))
        }
        Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) | ZipError::InvalidPassword) => {
            members.lose(&name, &Failure::Encrypted);
            Ok(())
        }
        Err(error) => {
            members.lose(&name, &Failure::DamagedFile(format!("it cannot be unpacked: {error}")));
            Ok(())
        }
    }
}

const LINK: &str = "links, devices and other special files are not read: pack the files themselves";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_a_folder_are_refused() {
        for name in ["/etc/passwd", "../a", "a/../../b", "C:\\a.txt", "\\a", "a\0b", "a\\..\\b"] {
            assert!(checked_name(name).is_err(), "{name}");
        }
        assert_eq!(checked_name("./a//b\\c.txt").unwrap(), "a/b/c.txt");
        assert_eq!(checked_name("a..b/..c").unwrap(), "a..b/..c");
        assert!(is_hidden("a/.git/config") && is_hidden("__MACOSX/a") && !is_hidden("./a/b.txt"));
    }
}
