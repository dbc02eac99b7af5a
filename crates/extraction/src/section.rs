//! A file within a larger one: the files of a request are stored one after the other.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// A part of a file, as a file.
#[derive(Debug)]
pub struct Section {
    file: Arc<File>,
    start: u64,
    bytes: u64,
    at: u64,
}

impl Section {
    /// The `bytes` of a file from `start`.
    pub fn new(file: Arc<File>, start: u64, bytes: u64) -> Section {
        Section { file, start, bytes, at: 0 }
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its first bytes, at most `bytes_max`; none if they can't be read.
    pub fn head(&self, bytes_max: usize) -> Vec<u8> {
        let mut head = vec![0; bytes_max.min(usize::try_from(self.bytes).unwrap_or(bytes_max))];
        let length = self.file.read_at(&mut head, self.start).unwrap_or(0);
        head.truncate(length);
        head
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.bytes.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..length], self.start + self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Section {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => self.bytes.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
