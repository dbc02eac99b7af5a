//! The head: a small file that states which part of every other file is committed. Replacing it is the commit.
//!
//! File content beyond the lengths in the head, and lexical entries beyond its chunk count, are uncommitted.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use weir_ranking::Tombstones;

use super::record::Reader;
use crate::{HistoryPoint, IndexCounts, IndexError, Result};

/// Format of the whole folder. Increase it with every change of a layout or of the text analysis: older folders are rebuilt from
/// the store.
pub(crate) const FORMAT_VERSION: u32 = 6;

const MAGIC: &[u8; 8] = b"WEIRHEAD";
pub(super) const NAME: &str = "head";
const TEMPORARY_NAME: &str = "head.new";

/// The committed state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The last operation applied.
    pub(crate) applied_seq: u64,
    /// Live documents.
    pub(crate) documents: u32,
    /// The deleted chunks, and the number of chunk ids.
    pub(crate) tombstones: Tombstones,
    /// State of every append-only file, in the order of the files.
    pub(crate) files: Vec<FileState>,
    /// See [`crate::Engine::read_to`]. Heads of earlier versions of the program have none.
    pub(crate) read_to: Option<HistoryPoint>,
}

/// The committed part of an append-only file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Bytes.
    pub(crate) len: u64,
    /// CRC-32 of these bytes.
    pub(crate) crc: u32,
}

/// The summary of an index that does not require opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) applied_seq: u64,
    /// See [`crate::Engine::read_to`].
    pub(crate) read_to: Option<HistoryPoint>,
    /// The number of segments is 0 until the index was opened once.
    pub(crate) counts: IndexCounts,
}

impl Summary {
    /// Of a committed state.
    pub(crate) fn of(head: &Head) -> Summary {
        let deleted_chunks = head.tombstones.deleted().into();
        let chunks = u64::from(head.tombstones.len()) - deleted_chunks;
        let counts = IndexCounts { documents: head.documents.into(), chunks, deleted_chunks, segments: 0 };
        Summary { applied_seq: head.applied_seq, read_to: head.read_to, counts }
    }
}

impl Head {
    /// Reads the head of a folder; `None` if there is none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Head>> {
        let path = folder.join(NAME);
        match std::fs::read(&path) {
            Ok(bytes) => match decode(&bytes) {
                Some(head) => Ok(Some(head)),
                None => Err(IndexError::damaged(folder, "file `head` fails its checksum")),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(IndexError::file("read", &path)(error)),
        }
    }

    /// Removes the head: nothing in the folder is committed any more.
    pub(crate) fn remove(folder: &Path) -> Result<()> {
        let path = folder.join(NAME);
        std::fs::remove_file(&path).map_err(IndexError::file("remove", &path))
    }

    /// Replaces the head atomically: new file, sync, rename, sync of the folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        replace_file(folder, NAME, TEMPORARY_NAME, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let tombstones = self.tombstones.to_bytes();
        let mut bytes = Vec::with_capacity(64 + self.files.len() * 12 + tombstones.len());
        bytes.extend(MAGIC);
        bytes.extend(FORMAT_VERSION.to_le_bytes());
        bytes.extend(self.applied_seq.to_le_bytes());
        bytes.extend(self.documents.to_le_bytes());
        bytes.extend((self.files.len() as u32).to_le_bytes());
        for file in &self.files {
            bytes.extend(file.len.to_le_bytes());
            bytes.extend(file.crc.to_le_bytes());
        }
        bytes.extend(self.tombstones.len().to_le_bytes());
        bytes.extend(tombstones);
        if let Some(HistoryPoint { operation, identity }) = self.read_to {
            bytes.extend(operation.to_le_bytes());
            bytes.extend(identity.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }
}

fn decode(bytes: &[u8]) -> Option<Head> {
    let (content, crc) = bytes.split_last_chunk()?;
    if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut reader = Reader::at(content, 0)?;
    if reader.bytes(MAGIC.len())? != MAGIC || reader.u32()? != FORMAT_VERSION {
        return None;
    }
    let (applied_seq, documents, file_count) = (reader.u64()?, reader.u32()?, reader.u32()?);
    let files = (0..file_count)
        .map(|_| Some(FileState { len: reader.u64()?, crc: reader.u32()? }))
        .collect::<Option<Vec<FileState>>>()?;
    let chunk_count = reader.u32()?;
    let tombstones =
        Tombstones::from_bytes(reader.bytes(chunk_count.div_ceil(64) as usize * 8)?, chunk_count)?;
    let read_to = match reader.is_at_end() {
        true => None,
        false => Some(HistoryPoint { operation: reader.u64()?, identity: reader.u64()?.cast_signed() }),
    };
    reader.is_at_end().then_some(Head { applied_seq, documents, tombstones, files, read_to })
}

/// Whether a folder has a head.
pub(crate) fn head_exists(folder: &Path) -> bool {
    folder.join(NAME).exists()
}

/// Writes `bytes` to `temporary`, syncs, renames to `name` and syncs the folder.
pub(crate) fn replace_file(folder: &Path, name: &str, temporary: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(temporary);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&path, folder.join(name))
    };
    write().map_err(IndexError::file("write", &path))?;
    sync_folder(folder)
}

/// Makes created and renamed files in a folder survive a crash.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(IndexError::file("sync folder", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Head {
        let mut tombstones = Tombstones::default();
        tombstones.grow(100);
        tombstones.delete(3, 2);
        let files = vec![FileState { len: 10, crc: 7 }, FileState { len: 1 << 33, crc: u32::MAX }];
        Head { applied_seq: 42, documents: 98, tombstones, files, read_to: None }
    }

    #[test]
    fn a_head_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Head::read(folder.path()).unwrap(), None);
        example().write(folder.path()).unwrap();
        assert_eq!(Head::read(folder.path()).unwrap(), Some(example()));
        let read_to = Some(HistoryPoint { operation: 43, identity: i64::MIN + 1 });
        Head { read_to, ..example() }.write(folder.path()).unwrap();
        assert_eq!(Head::read(folder.path()).unwrap(), Some(Head { read_to, ..example() }));
        Head::default().write(folder.path()).unwrap();
        assert_eq!(Head::read(folder.path()).unwrap(), Some(Head::default()));
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let read_to = Some(HistoryPoint { operation: 43, identity: 7 });
        let bytes = Head { read_to, ..example() }.encode();
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {position}");
            assert_eq!(decode(&bytes[..position]), None, "cut at {position}");
        }
    }
}
