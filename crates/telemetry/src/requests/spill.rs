//! Batches on disk that the sink could not take: a queue of bounded size that survives a restart.
//!
//! The queue is a folder of segment files, named so that their order is the order of the batches. A record is the length and the CRC-32 of
//! its payload, four bytes each in little-endian order, and the payload: a batch in postcard. A segment is deleted when the sink has
//! stored all its batches. Files are not synced: rows survive the end of the process, not of the machine.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use super::row::Batch;

/// A segment is closed when it is this large.
const SEGMENT_BYTES: u64 = 4 << 20;
/// A larger payload is damage: a batch has 2,048 rows of a few kilobytes at most.
const PAYLOAD_BYTES_MAX: u32 = 16 << 20;
const EXTENSION: &str = "spill";

/// Why a batch was not put aside.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpillError {
    /// The limit is reached.
    #[error("the spill folder is full; raise `telemetry.spill_bytes_max` or repair the database")]
    Full,
    /// The folder can't be written.
    #[error("the spill folder {folder} can't be used; check its permissions and the free space of its disk")]
    Io {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A batch can't be encoded.
    #[error("a batch of rows can't be encoded")]
    Encode(#[from] postcard::Error),
}

/// The queue.
#[derive(Debug)]
pub(super) struct Spill {
    folder: PathBuf,
    bytes_max: u64,
    /// Of all segments.
    bytes: u64,
    /// Segments with batches that were not read, oldest first.
    unread: VecDeque<Segment>,
    /// The last one of `unread`, while it is written.
    writer: Option<File>,
    /// The first one of `unread`, while it is read.
    reader: Option<BufReader<File>>,
    /// Segments that were read and are not yet stored by the sink, oldest first.
    read: VecDeque<Segment>,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    bytes: u64,
    /// Of its last batch that was read: the number under which it was handed to the sink.
    handed: u64,
}

impl Spill {
    /// Opens the folder with what an earlier process has left there.
    pub(super) fn open(folder: &Path, bytes_max: u64) -> Result<Spill, SpillError> {
        let failed = |source| SpillError::Io { folder: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut unread = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.path().extension().is_some_and(|extension| extension == EXTENSION) {
                let bytes = entry.metadata().map_err(failed)?.len();
                unread.push(Segment { path: entry.path(), bytes, handed: 0 });
            }
        }
        unread.sort_by(|a, b| a.path.cmp(&b.path));
        let bytes = unread.iter().map(|segment| segment.bytes).sum();
        Ok(Spill {
            folder: folder.to_owned(),
            bytes_max,
            bytes,
            unread: unread.into(),
            writer: None,
            reader: None,
            read: VecDeque::new(),
        })
    }

    /// Bytes on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether all batches were read.
    pub(super) fn is_empty(&self) -> bool {
        self.unread.is_empty()
    }

    /// Appends a batch.
    pub(super) fn push(&mut self, batch: &Batch) -> Result<(), SpillError> {
        let is_full = self.unread.back().is_some_and(|last| last.bytes >= SEGMENT_BYTES);
        if self.writer.is_none() || is_full {
            self.create_segment(batch)?;
        }
        self.append(batch)
    }

    /// Puts back batches that are older than those of this process in the queue, in their order.
    pub(super) fn push_older(&mut self, batches: &[Batch]) -> usize {
        let mut older = Spill {
            unread: VecDeque::new(),
            read: VecDeque::new(),
            writer: None,
            reader: None,
            folder: self.folder.clone(),
            ..*self
        };
        let kept = batches.iter().take_while(|batch| older.push(batch).is_ok()).count();
        self.bytes = older.bytes;
        kept
    }

    /// The next batch in order; `number` is the one under which it is handed to the sink.
    pub(super) fn next(&mut self, number: u64) -> Result<Option<Batch>, SpillError> {
        loop {
            let Some(segment) = self.unread.front_mut() else { return Ok(None) };
            let reader = match &mut self.reader {
                Some(reader) => reader,
                none => {
                    let opened = File::open(&segment.path);
                    let failed = |source| SpillError::Io { folder: self.folder.clone(), source };
                    none.insert(BufReader::new(opened.map_err(failed)?))
                }
            };
            match read_batch(reader) {
                Ok(Some(batch)) => {
                    segment.handed = number;
                    return Ok(Some(batch));
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, file = %segment.path.display(),
                    "the rest of a spill file is damaged and is skipped, as after a loss of power"),
            }
            self.finish_segment();
        }
    }

    /// Deletes the segments whose batches the sink has stored, up to the one with this number.
    pub(super) fn delete_stored(&mut self, number: u64) {
        while let Some(segment) = self.read.pop_front_if(|segment| segment.handed <= number) {
            if let Err(error) = std::fs::remove_file(&segment.path) {
                tracing::warn!(%error, file = %segment.path.display(), "a spill file can't be deleted; delete it by hand");
            }
            self.bytes = self.bytes.saturating_sub(segment.bytes);
        }
    }

    /// The first segment was read to its end: it is not written any more.
    fn finish_segment(&mut self) {
        self.reader = None;
        if self.unread.len() == 1 {
            self.writer = None;
        }
        self.read.extend(self.unread.pop_front());
    }

    fn create_segment(&mut self, first: &Batch) -> Result<(), SpillError> {
        let path = self.folder.join(format!("{:020}-{:012}.{EXTENSION}", first.writer, first.number));
        let created = OpenOptions::new().create_new(true).append(true).open(&path);
        let failed = |source| SpillError::Io { folder: self.folder.clone(), source };
        self.writer = Some(created.map_err(failed)?);
        self.unread.push_back(Segment { path, bytes: 0, handed: 0 });
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), SpillError> {
        let (Some(file), Some(segment)) = (&mut self.writer, self.unread.back_mut()) else { return Ok(()) };
        let mut record = postcard::to_extend(batch, vec![0; 8])?;
        let payload = record.len() - 8;
        let length = u32::try_from(payload).unwrap_or(u32::MAX);
        let checksum = crc32fast::hash(&record[8..]);
        record[..4].copy_from_slice(&length.to_le_bytes());
        record[4..8].copy_from_slice(&checksum.to_le_bytes());
        if self.bytes + record.len() as u64 > self.bytes_max || length > PAYLOAD_BYTES_MAX {
            return Err(SpillError::Full);
        }
        let written = file.write_all(&record);
        if let Err(source) = written {
            // no later record may follow a half-written one
            let cut = file.set_len(segment.bytes);
            self.writer = self.writer.take().filter(|_| cut.is_ok());
            return Err(SpillError::Io { folder: self.folder.clone(), source });
        }
        segment.bytes += record.len() as u64;
        self.bytes += record.len() as u64;
        Ok(())
    }
}

/// The next batch of a segment, none at its end.
fn read_batch(reader: &mut impl Read) -> io::Result<Option<Batch>> {
    let mut head = [0; 8];
    match reader.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => reader.read_exact(&mut head[1..])?,
    }
    let [a, b, c, d, checksum @ ..] = head;
    let length = u32::from_le_bytes([a, b, c, d]);
    if length > PAYLOAD_BYTES_MAX {
        return Err(io::Error::other("the length of a record is out of range"));
    }
    let mut payload = vec![0; length as usize];
    reader.read_exact(&mut payload)?;
    if crc32fast::hash(&payload) != u32::from_le_bytes(checksum) {
        return Err(io::Error::other("the checksum of a record is wrong"));
    }
    Batch::from_bytes(&payload).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::RequestRecord;
    use crate::requests::row::Row;

    fn batch(number: i64, rows: usize) -> Batch {
        let record = RequestRecord { request_id: format!("r{number}").into(), ..RequestRecord::default() };
        Batch { rows: vec![Row::new(&record); rows], ..Batch::new(1, number) }
    }

    fn numbers(spill: &mut Spill) -> Vec<i64> {
        let mut found = Vec::new();
        while let Some(batch) = spill.next(found.len() as u64 + 1).unwrap() {
            found.push(batch.number);
        }
        found
    }

    #[test]
    fn batches_are_replayed_in_order_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::open(folder.path(), u64::MAX).unwrap();
        for number in 4..=6 {
            spill.push(&batch(number, 3)).unwrap();
        }
        assert_eq!(spill.next(1).unwrap(), Some(batch(4, 3)));
        spill.push(&batch(7, 3)).unwrap();
        assert_eq!(spill.push_older(&[batch(2, 1), batch(3, 1)]), 2);
        assert_eq!(numbers(&mut spill), [5, 6, 7]);
        assert!(spill.is_empty());
        spill.push(&batch(8, 1)).unwrap();
        let mut again = Spill::open(folder.path(), u64::MAX).unwrap();
        assert_eq!(numbers(&mut again), [2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn files_are_deleted_when_the_sink_has_stored_their_batches() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::open(folder.path(), u64::MAX).unwrap();
        spill.push(&batch(1, 1)).unwrap();
        spill.push(&batch(2, 1)).unwrap();
        assert_eq!(numbers(&mut spill), [1, 2]);
        spill.delete_stored(1);
        assert!(spill.bytes() > 0, "the second one is not stored");
        spill.delete_stored(2);
        assert_eq!((spill.bytes(), folder.path().read_dir().unwrap().count()), (0, 0));
    }

    #[test]
    fn a_full_folder_refuses_until_there_is_space() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::open(folder.path(), 500).unwrap();
        spill.push(&batch(1, 5)).unwrap();
        while spill.push(&batch(2, 1)).is_ok() {}
        assert!(spill.bytes() <= 500);
        assert!(matches!(spill.push(&batch(3, 5)), Err(SpillError::Full)));
        let read = numbers(&mut spill).len() as u64;
        spill.delete_stored(read);
        spill.push(&batch(4, 5)).unwrap();
        assert_eq!(numbers(&mut spill), [4]);
    }

    #[test]
    fn damage_loses_the_rest_of_its_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::open(folder.path(), u64::MAX).unwrap();
        spill.push(&batch(1, 1)).unwrap();
        let intact = spill.bytes() as usize;
        spill.push(&batch(2, 1)).unwrap();
        let file = folder.path().read_dir().unwrap().next().unwrap().unwrap().path();
        let bytes = std::fs::read(&file).unwrap();
        let check = |damaged: &[u8], expected: &[i64]| {
            std::fs::write(&file, damaged).unwrap();
            let mut spill = Spill::open(folder.path(), u64::MAX).unwrap();
            spill.push(&batch(3, 1)).unwrap();
            assert_eq!(numbers(&mut spill), expected);
            std::fs::remove_file(folder.path().join(format!("{:020}-{:012}.spill", 1, 3))).unwrap();
        };
        for end in intact + 1..bytes.len() {
            check(&bytes[..end], &[1, 3]);
            let mut flipped = bytes.clone();
            flipped[end] ^= 0x40;
            check(&flipped, &[1, 3]);
        }
        check(&bytes, &[1, 2, 3]);
    }
}
