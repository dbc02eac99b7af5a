//! The file `codes`: the codebook and the 4-bit codes of the dense retriever, so that opening need not train and encode.
//!
//! It is a cache of what can be computed from the vector files. If it is missing, damaged, of another version, or was not made
//! from rows of this folder, it is ignored and written again. Rows that were added after it was written are encoded with its
//! codebook, as they would have been in an index that was never closed.
//!
//! It is written when the index is closed, and between batches when enough rows have been added ([`is_due`]); no lock that
//! commits or searches need is held meanwhile. It is not synced: its checksum shows whether a crash left it incomplete.
//!
//! Layout: header ([`Origin`]), codebook, blocks, CRC-32 of all bytes before; numbers are little-endian.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crc32fast::Hasher;

use super::codebook::Codebook;
use super::files::MappedVectors;
use super::head::FileState;
use super::pq4::{Pq4Codes, ROWS_MIN, SEGMENT_ROWS};
use super::record::Reader;
use super::writer::Writer;
use super::{Embedded, lock};

pub(crate) const NAME: &str = "codes";
pub(crate) const TEMPORARY_NAME: &str = "codes.new";
const MAGIC: &[u8; 8] = b"WEIRPQ4C";
/// Increase it with every change of this layout, of training or of encoding.
const VERSION: u32 = 1;
/// Bytes before the codebook.
const HEADER_LEN: usize = 40;
const CRC_LEN: usize = size_of::<u32>();
/// Between batches, the file is written again when one in this many rows is new: encoding them takes a few milliseconds.
const NEW_ROWS_DIVISOR: usize = 64;

/// The rows that codes were made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    dimension: usize,
    rows: usize,
    /// Number of rows when the codebook was trained.
    trained_rows: usize,
    /// CRC-32 of these rows in the files of int8 values and of scales.
    crcs: [u32; 2],
}

/// The content of the file, as far as it decides whether to write it again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SavedCodes {
    rows: usize,
    trained_rows: usize,
}

impl SavedCodes {
    pub(crate) fn of(pq4: &Pq4Codes) -> SavedCodes {
        let trained_rows = pq4.codebook().map_or(0, |(_, trained_rows)| trained_rows);
        SavedCodes { rows: pq4.rows(), trained_rows }
    }
}

/// Whether to write the file between batches.
fn is_due(saved: SavedCodes, current: SavedCodes) -> bool {
    let new_rows = current.rows.saturating_sub(saved.rows);
    current.trained_rows != saved.trained_rows
        || new_rows >= SEGMENT_ROWS.max(current.rows / NEW_ROWS_DIVISOR)
}

impl Embedded {
    /// Writes the codes of the committed rows to their file if many are not in it. Call it without a lock.
    pub(crate) fn save_codes_if_due(&self) {
        let writer = lock(&self.inner.writer);
        let Some(Writer { head, .. }) = writer.as_ref() else { return };
        let (files, pq4) = (head.files.clone(), self.snapshot().pq4.clone());
        // another call writes
        let Ok(mut saved) = self.inner.saved_codes.try_lock() else { return };
        drop(writer);
        if is_due(*saved, SavedCodes::of(&pq4)) {
            self.save(&pq4, &files, &mut saved);
        }
    }

    /// Writes the codes of all rows to their file if some are not in it.
    pub(crate) fn save_all_codes(&self, writer: &Writer) {
        let mut saved = lock(&self.inner.saved_codes);
        self.save(&self.snapshot().pq4, &writer.head.files, &mut saved);
    }

    /// A failure costs time at the next start only, so it is not reported.
    fn save(&self, pq4: &Pq4Codes, files: &[FileState], saved: &mut SavedCodes) {
        let current = SavedCodes::of(pq4);
        if current != *saved && write(self.folder(), self.settings().dimension, pq4, files).is_ok() {
            *saved = current;
        }
    }
}

/// Writes the file beside its place and renames it. Fails without codes, and if `files` are not those of the codes.
fn write(folder: &Path, dimension: usize, pq4: &Pq4Codes, files: &[FileState]) -> io::Result<()> {
    let (Some((codebook, trained_rows)), [_, _, _, i8, scales, _]) = (pq4.codebook(), files) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let origin = Origin { dimension, rows: pq4.rows(), trained_rows, crcs: [i8.crc, scales.crc] };
    if i8.len != (origin.rows * dimension) as u64 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let temporary = folder.join(TEMPORARY_NAME);
    let write = || {
        let mut file = File::create(&temporary)?;
        let mut hasher = Hasher::new();
        let mut start = origin.encode();
        codebook.write(&mut start);
        for part in std::iter::once(&start[..]).chain(pq4.blocks()) {
            hasher.update(part);
            file.write_all(part)?;
        }
        file.write_all(&hasher.finalize().to_le_bytes())?;
        std::fs::rename(&temporary, folder.join(NAME))
    };
    write().inspect_err(|_| {
        // if removing fails too, the next call overwrites the file
        let _ = std::fs::remove_file(&temporary);
    })
}

/// Reads the codes of the first rows of `vectors`; `None` if the file cannot be used. `files` are the states in the head.
pub(crate) fn read(
    folder: &Path,
    dimension: usize,
    vectors: &MappedVectors,
    files: &[FileState],
) -> Option<Pq4Codes> {
    let [_, _, _, i8, scales, _] = files else { return None };
    let file = File::open(folder.join(NAME)).ok()?;
    let mut start = vec![0; HEADER_LEN + Codebook::len(dimension)];
    file.read_exact_at(&mut start, 0).ok()?;
    let origin = Origin::decode(&start)?;
    let [i8_crc, scales_crc] = origin.crcs;
    let is_sound = origin.dimension == dimension
        && (ROWS_MIN..=origin.rows).contains(&origin.trained_rows)
        && begins_with(&vectors.i8, origin.rows, dimension, i8_crc, *i8)
        && begins_with(&vectors.scales, origin.rows, size_of::<f32>(), scales_crc, *scales);
    if !is_sound {
        return None;
    }
    let codebook = Codebook::read(dimension, &start[HEADER_LEN..])?;
    let read_blocks = |offset: usize, blocks: &mut [u8]| {
        file.read_exact_at(blocks, (start.len() + offset) as u64).ok()?;
        let mut hasher = Hasher::new();
        hasher.update(blocks);
        Some(hasher)
    };
    let (pq4, hashers) = Pq4Codes::read(codebook, origin.trained_rows, origin.rows, read_blocks)?;
    let mut hasher = Hasher::new();
    hasher.update(&start);
    hashers.iter().for_each(|blocks| hasher.combine(blocks));
    let blocks_len: usize = pq4.blocks().map(<[u8]>::len).sum();
    let end = (start.len() + blocks_len) as u64;
    let mut crc = [0; CRC_LEN];
    file.read_exact_at(&mut crc, end).ok()?;
    let is_whole = file.metadata().ok()?.len() == end + CRC_LEN as u64;
    (is_whole && hasher.finalize() == u32::from_le_bytes(crc)).then_some(pq4)
}

/// Whether the first `rows` rows of a file in state `state` have this checksum. Only the rows after them are read.
fn begins_with(bytes: &[u8], rows: usize, row_bytes: usize, crc: u32, state: FileState) -> bool {
    let first = rows.checked_mul(row_bytes);
    let Some((first, added)) = first.and_then(|first| Some((first, bytes.get(first..)?))) else {
        return false;
    };
    let mut hasher = Hasher::new_with_initial_len(crc, first as u64);
    hasher.update(added);
    hasher.finalize() == state.crc
}

impl Origin {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.dimension as u32).to_le_bytes());
        bytes.extend((self.rows as u64).to_le_bytes());
        bytes.extend((self.trained_rows as u64).to_le_bytes());
        self.crcs.iter().for_each(|crc| bytes.extend(crc.to_le_bytes()));
        bytes
    }

    /// `None` for another file or version.
    fn decode(bytes: &[u8]) -> Option<Origin> {
        let mut reader = Reader::at(bytes, 0)?;
        if reader.bytes(MAGIC.len())? != MAGIC || reader.u32()? != VERSION {
            return None;
        }
        Some(Origin {
            dimension: reader.u32()? as usize,
            rows: usize::try_from(reader.u64()?).ok()?,
            trained_rows: usize::try_from(reader.u64()?).ok()?,
            crcs: [reader.u32()?, reader.u32()?],
        })
    }
}
