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
use weir_quantization::Codebook;

use super::files::MappedVectors;
use super::head::FileState;
use super::pq4::{Pq4Codes, ROWS_MIN, SEGMENT_ROWS};
use super::record::Reader;
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
        let Some(files) = writer.as_ref().map(|writer| writer.head.files.clone()) else { return };
        let pq4 = self.snapshot().pq4.clone();
        // another call writes
        let Ok(mut saved) = self.inner.saved_codes.try_lock() else { return };
        drop(writer);
        if is_due(*saved, SavedCodes::of(&pq4)) {
            self.save(&pq4, &files, &mut saved);
        }
    }

    /// Writes the codes of all rows of the committed `files` to their file if some are not in it.
    pub(crate) fn save_all_codes(&self, files: &[FileState]) {
        let mut saved = lock(&self.inner.saved_codes);
        self.save(&self.snapshot().pq4, files, &mut saved);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, EngineSettings, IndexedChunk, IndexedDocument};

    const DIMENSION: usize = 8;
    const FIRST_ROWS: usize = 2100;

    fn settings() -> EngineSettings {
        EngineSettings {
            dimension: DIMENSION,
            language: weir_text::Language::English,
            fingerprint: "model".to_owned(),
            writer_memory_bytes: 0,
        }
    }

    fn open(folder: &Path) -> Embedded {
        Embedded::open(folder, settings(), u64::MAX).unwrap().0
    }

    /// Adds documents of one chunk until there are `rows`; embeddings depend on their number and on `seed`.
    fn fill(engine: &Embedded, rows: usize, seed: usize) {
        let first = engine.snapshot().tombstones.len() as usize;
        let puts = (first..rows).map(|row| {
            let value = |i: usize| ((row * 7919 + i * 104_729 + seed * 31) % 251) as f32 - 125.0;
            let embedding = Some((0..DIMENSION).map(value).collect());
            let chunk = IndexedChunk { start: 0, end: 5, text: "apple".to_owned(), embedding };
            let (id, metadata) = (row.to_string(), String::new());
            Change::Put(IndexedDocument {
                id,
                version: 1,
                title: None,
                metadata,
                pages: None,
                chunks: vec![chunk],
            })
        });
        engine.apply(puts.collect(), rows as u64).unwrap();
    }

    /// A closed index with a file.
    fn closed() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        fill(&engine, FIRST_ROWS, 0);
        engine.close().unwrap();
        folder
    }

    /// Codebook, number of rows when it was trained, and all blocks.
    fn content(engine: &Embedded) -> (Codebook, usize, Vec<u8>) {
        let pq4 = engine.snapshot().pq4.clone();
        let (codebook, trained_rows) = pq4.codebook().unwrap();
        (codebook.clone(), trained_rows, pq4.blocks().flatten().copied().collect())
    }

    /// The rows and trained rows that were read from the file, or written to it.
    fn saved(engine: &Embedded) -> (usize, usize) {
        let saved = *lock(&engine.inner.saved_codes);
        (saved.rows, saved.trained_rows)
    }

    /// The content after batches that end at these row counts, in an index that is never closed.
    fn never_closed(batches: &[usize]) -> (Codebook, usize, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        batches.iter().for_each(|&rows| fill(&engine, rows, 0));
        content(&engine)
    }

    #[test]
    fn opening_reads_what_was_computed_before_closing() {
        // slabs need more rows of 8 values than a test should have
        for rows in [FIRST_ROWS, 2 * SEGMENT_ROWS, 2 * SEGMENT_ROWS + 33] {
            let folder = tempfile::tempdir().unwrap();
            let engine = open(folder.path());
            fill(&engine, rows, 0);
            let before = content(&engine);
            engine.close().unwrap();
            drop(engine);
            let engine = open(folder.path());
            assert_eq!(saved(&engine), (rows, rows));
            assert!(content(&engine) == before, "{rows} rows");
        }
    }

    #[test]
    fn rows_after_the_file_are_encoded_as_if_the_index_had_not_been_closed() {
        let folder = closed();
        let batches = [FIRST_ROWS, FIRST_ROWS + 5, FIRST_ROWS + 5000];
        let engine = open(folder.path());
        batches.iter().for_each(|&rows| fill(&engine, rows, 0));
        drop(engine); // not closed, as in a crash
        let engine = open(folder.path());
        assert_eq!(saved(&engine), (FIRST_ROWS, FIRST_ROWS), "the file is that of the first batch");
        let expected = never_closed(&batches);
        assert_eq!(expected.1, FIRST_ROWS, "the codebook is that of the first batch");
        assert!(content(&engine) == expected);
        engine.close().unwrap();
        drop(engine);
        let engine = open(folder.path());
        assert_eq!(saved(&engine), (FIRST_ROWS + 5000, FIRST_ROWS));
        assert!(content(&engine) == expected);
    }

    #[test]
    fn a_codebook_trained_again_after_growth_replaces_the_stored_one() {
        let (folder, grown) = (closed(), FIRST_ROWS * 8);
        let engine = open(folder.path());
        fill(&engine, grown, 0);
        drop(engine);
        let engine = open(folder.path());
        assert_eq!(saved(&engine), (FIRST_ROWS, FIRST_ROWS));
        let expected = never_closed(&[FIRST_ROWS, grown]);
        assert_eq!(expected.1, grown);
        assert!(content(&engine) == expected);
        engine.flush().unwrap();
        assert_eq!(saved(&engine), (grown, grown));
        drop(engine);
        assert!(content(&open(folder.path())) == expected);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_ignored_and_written_again() {
        let folder = closed();
        let path = folder.path().join(NAME);
        let good = std::fs::read(&path).unwrap();
        let expected = content(&open(folder.path()));
        let flipped = |at: usize| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        };
        let with_version = |version: u32| {
            let mut bytes = good.clone();
            bytes[MAGIC.len()..][..4].copy_from_slice(&version.to_le_bytes());
            let end = bytes.len() - CRC_LEN;
            let crc = crc32fast::hash(&bytes[..end]);
            bytes[end..].copy_from_slice(&crc.to_le_bytes());
            bytes
        };
        let of_other_rows = {
            let other = tempfile::tempdir().unwrap();
            let engine = open(other.path());
            fill(&engine, FIRST_ROWS, 1);
            engine.close().unwrap();
            std::fs::read(other.path().join(NAME)).unwrap()
        };
        assert_eq!(with_version(VERSION), good);
        let every_field = [0, 8, 12, 16, 23, 24, 31, 32, 36, HEADER_LEN];
        let in_content = [HEADER_LEN + Codebook::len(DIMENSION), good.len() / 2, good.len() - 1];
        let mut bad: Vec<Option<Vec<u8>>> =
            every_field.into_iter().chain(in_content).map(|at| Some(flipped(at))).collect();
        bad.extend([None, Some(Vec::new()), Some(of_other_rows), Some(with_version(VERSION + 1))]);
        bad.extend([1, HEADER_LEN, good.len() / 2, good.len() - 1].map(|len| Some(good[..len].to_vec())));
        bad.push(Some([&good[..], b"0"].concat()));
        for (case, bytes) in bad.into_iter().enumerate() {
            match bytes {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let (engine, rebuilt) = Embedded::open(folder.path(), settings(), u64::MAX).unwrap();
            assert_eq!(rebuilt, None, "case {case}");
            assert_eq!(saved(&engine), (0, 0), "case {case} was read");
            assert!(content(&engine) == expected, "case {case}");
            engine.close().unwrap();
            assert!(std::fs::read(&path).unwrap() == good, "case {case} was not written again");
        }
    }

    #[test]
    fn a_file_ahead_of_the_head_is_ignored() {
        let folder = closed();
        let older = std::fs::read(folder.path().join("head")).unwrap();
        let engine = open(folder.path());
        fill(&engine, FIRST_ROWS + 10, 0);
        engine.close().unwrap();
        drop(engine);
        std::fs::write(folder.path().join("head"), older).unwrap();
        let engine = open(folder.path());
        assert_eq!(saved(&engine), (0, 0));
        assert!(content(&engine) == never_closed(&[FIRST_ROWS]));
    }

    #[test]
    fn what_a_crash_left_is_overwritten_and_a_failure_to_write_is_no_error() {
        let folder = closed();
        let (path, temporary) = (folder.path().join(NAME), folder.path().join(TEMPORARY_NAME));
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&temporary, &good[..100]).unwrap();
        let engine = open(folder.path());
        assert_eq!(saved(&engine).0, FIRST_ROWS);
        fill(&engine, FIRST_ROWS + 1, 0);
        engine.close().unwrap();
        drop(engine);
        assert!(!temporary.exists());

        std::fs::create_dir(&temporary).unwrap();
        let engine = open(folder.path());
        assert_eq!(saved(&engine).0, FIRST_ROWS + 1);
        fill(&engine, FIRST_ROWS + 2, 0);
        engine.close().unwrap();
        drop(engine);
        let engine = open(folder.path());
        assert_eq!(saved(&engine).0, FIRST_ROWS + 1);
        assert_eq!(engine.snapshot().pq4.rows(), FIRST_ROWS + 2);
    }

    #[test]
    fn a_flush_writes_the_file_when_enough_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path());
        engine.flush().unwrap();
        assert!(!folder.path().join(NAME).exists(), "without codes");
        for (rows, expected) in [(FIRST_ROWS, FIRST_ROWS), (FIRST_ROWS + SEGMENT_ROWS - 1, FIRST_ROWS)] {
            fill(&engine, rows, 0);
            engine.flush().unwrap();
            assert_eq!(saved(&engine).0, expected);
        }
        let of = |rows, trained_rows| SavedCodes { rows, trained_rows };
        let million = 1 << 20;
        for (saved, current, expected) in [
            (of(3000, 3000), of(3000 + SEGMENT_ROWS, 3000), true),
            (of(million, 3000), of(million + SEGMENT_ROWS, 3000), false),
            (of(million, 3000), of(million + million / 32, 3000), true),
            (of(million, 3000), of(million, million), true),
        ] {
            assert_eq!(is_due(saved, current), expected, "{saved:?} {current:?}");
        }
    }

    #[test]
    fn emptying_the_folder_removes_the_file() {
        let folder = closed();
        std::fs::write(folder.path().join(TEMPORARY_NAME), "half").unwrap();
        let other = EngineSettings { fingerprint: "other".to_owned(), ..settings() };
        let (_engine, rebuilt) = Embedded::open(folder.path(), other, u64::MAX).unwrap();
        assert!(rebuilt.is_some());
        assert!(!folder.path().join(NAME).exists() && !folder.path().join(TEMPORARY_NAME).exists());
    }
}
