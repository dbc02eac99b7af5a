//! A zip archive that is read within limits.

use std::borrow::Cow;
use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::Failure;
use crate::budget::Budget;
use crate::xml;

/// A zip archive.
pub(crate) struct Package<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    budget: &'a Budget<'a>,
}

impl<'a> Package<'a> {
    /// Reads the directory of an archive.
    pub(crate) fn open(bytes: &'a [u8], budget: &'a Budget<'a>) -> Result<Package<'a>, Failure> {
        let entries_max = budget.limits.zip_entries;
        let over = || Failure::FileLimit(format!("it has more than {entries_max} parts"));
        if announced_entries(bytes).is_some_and(|entries| entries > entries_max) {
            return Err(over());
        }
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|error| Failure::DamagedFile(format!("its zip directory: {error}")))?;
        if zip.len() > entries_max {
            return Err(over());
        }
        Ok(Package { zip, budget })
    }

    /// The archive itself.
    pub(crate) fn into_zip(self) -> ZipArchive<Cursor<&'a [u8]>> {
        self.zip
    }

    /// Whether the archive has the part.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(name).is_some()
    }

    /// The names of all parts that are text.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.zip.file_names().filter_map(|name| Some(name.ok()?.into_owned()))
    }

    /// The bytes of a part, or `None` where the archive has none of the name.
    ///
    /// The announced size is only a claim: the limit counts the bytes that come out.
    pub(crate) fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        let damaged =
            |error: &dyn std::fmt::Display| Failure::DamagedFile(format!("its part `{name}`: {error}"));
        let entry = match self.zip.by_name(name.trim_start_matches('/')) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) | ZipError::InvalidPassword) => {
                return Err(Failure::Encrypted);
            }
            Err(error) => return Err(damaged(&error)),
        };
        let bytes_max = self.budget.limits.zip_entry_bytes.min(self.budget.zip_bytes());
        let mut bytes = Vec::new();
        entry.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| damaged(&error))?;
        if bytes.len() as u64 > self.budget.limits.zip_entry_bytes {
            return Err(Failure::FileLimit(format!(
                "its part `{name}` unpacks to more than {} bytes",
                self.budget.limits.zip_entry_bytes
            )));
        }
        self.budget.take_zip_bytes(bytes.len() as u64)?;
        Ok(Some(bytes))
    }

    /// The text of a part, or `None` where the archive has none of the name.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Ok(Some(xml::decode(error.as_bytes()).into_owned())),
        };
        // no copy of a part that is UTF-8
        let decoded = xml::decode(text.as_bytes());
        let decoded =
            (decoded.len() != text.len() || matches!(decoded, Cow::Owned(_))).then(|| decoded.into_owned());
        Ok(Some(decoded.unwrap_or(text)))
    }

    /// The text of a part that must be there.
    pub(crate) fn required(&mut self, name: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| Failure::DamagedFile(format!("its part `{name}` is missing")))
    }
}

/// The number of entries that the end record of an archive announces, if the archive ends with a plain one.
fn announced_entries(bytes: &[u8]) -> Option<usize> {
    const END_RECORD_BYTES: usize = 22;
    let record = bytes.get(bytes.len().checked_sub(END_RECORD_BYTES)?..)?;
    record.starts_with(b"PK\x05\x06").then(|| usize::from(u16::from_le_bytes([record[10], record[11]])))
}

/// The part that `target` names, seen from the folder `folder`; without `..`.
pub(crate) fn resolve(folder: &str, target: &str) -> String {
    let (folder, target) = target.strip_prefix('/').map_or((folder, target), |absolute| ("", absolute));
    let mut names: Vec<&str> = Vec::new();
    for name in folder.split('/').chain(target.split('/')) {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}
