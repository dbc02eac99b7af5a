//! Files as bytes: counted while they are read, decompressed where they are `.gz`, never more than a limit.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

/// Bytes of a file, or of a row of one, that becomes one document, at most. The gateway's default limit for a text is far
/// lower.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// Bytes that a compressed file expands to, at most.
const EXPANDED_BYTES_MAX: u64 = 16 << 30;

/// An open file.
pub(super) struct Input {
    /// The content, decompressed.
    pub(super) reader: Box<dyn BufRead + Send>,
    /// What was read from the disk.
    pub(super) bytes_read: Counter,
}

/// Counts the bytes that a reader has read. Copies share the count.
#[derive(Clone, Default)]
pub(super) struct Counter(Arc<AtomicU64>);

impl Counter {
    /// The count since the last call.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Input {
    pub(super) fn open(path: &Path, is_compressed: bool) -> std::io::Result<Input> {
        let bytes_read = Counter::default();
        let file = Counted { file: File::open(path)?, bytes_read: bytes_read.clone() };
        let reader: Box<dyn BufRead + Send> = if is_compressed {
            let expanded = MultiGzDecoder::new(BufReader::new(file));
            Box::new(BufReader::new(Expanded { reader: expanded, left: EXPANDED_BYTES_MAX }))
        } else {
            Box::new(BufReader::new(file))
        };
        Ok(Input { reader, bytes_read })
    }

    /// The whole content as text, without a byte order mark.
    pub(super) fn read_text(self) -> Result<String, String> {
        self.read_text_up_to(DOCUMENT_BYTES_MAX)
    }

    fn read_text_up_to(self, bytes_max: u64) -> Result<String, String> {
        let mut bytes = Vec::new();
        let mut reader = self.reader.take(bytes_max + 1);
        reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 > bytes_max {
            return Err(format!("has more than {bytes_max} bytes; cut it into several files"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            format!("is not valid UTF-8: byte {offset} is the first bad one; convert it with iconv -t UTF-8")
        })?;
        Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
    }
}

struct Counted {
    file: File,
    bytes_read: Counter,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes_read.0.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A decompressed file. Ends with an error beyond a number of bytes, because a small file can expand to any size.
struct Expanded<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Expanded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer).map_err(|error| {
            Error::new(error.kind(), format!("can't be decompressed: {error}; compress the file again"))
        })?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            Error::other(format!(
                "expands to more than {EXPANDED_BYTES_MAX} bytes; decompress it and cut it into several files"
            ))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const BYTES_MAX: u64 = 100_000;

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn read(content: &[u8]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gz");
        std::fs::write(&path, content).unwrap();
        let input = Input::open(&path, true).unwrap();
        let bytes_read = input.bytes_read.clone();
        let text = input.read_text_up_to(BYTES_MAX);
        assert!(text.is_err() || bytes_read.take() == content.len() as u64);
        text
    }

    #[test]
    fn the_parts_of_a_compressed_file_are_read_one_after_the_other() {
        assert_eq!(
            read(&[compressed(b"\xef\xbb\xbfone, "), compressed(b"two")].concat()).unwrap(),
            "one, two"
        );
    }

    #[test]
    fn a_damaged_file_is_an_error_with_the_remedy() {
        let whole = compressed(b"some text");
        for damaged in [&whole[..whole.len() - 3], b"no gzip"] {
            let message = read(damaged).unwrap_err();
            assert!(message.starts_with("can't be decompressed: "), "{message}");
            assert!(message.ends_with("; compress the file again"), "{message}");
        }
    }

    #[test]
    fn a_file_that_expands_too_far_is_an_error() {
        let zeros = compressed(&[0; BYTES_MAX as usize + 1]);
        assert!(zeros.len() < 1000);
        assert_eq!(read(&zeros).unwrap_err(), "has more than 100000 bytes; cut it into several files");
        let mut expanded = Expanded { reader: b"12345".as_slice(), left: 4 };
        let message = expanded.read_to_end(&mut Vec::new()).unwrap_err().to_string();
        assert!(message.starts_with("expands to more than 17179869184 bytes; decompress it"), "{message}");
    }
}
