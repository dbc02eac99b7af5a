//! Files as bytes: counted while they are read, decompressed where they are `.gz`, never more than a limit.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs::{Decoder, UTF_8};
use flate2::bufread::MultiGzDecoder;

use super::encoding::{Declaration, byte_order_mark, decode, remedy};

/// Bytes of a file, or of a row of one, that becomes one document, at most. The gateway's default limit for a text is far
/// lower.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// Bytes that a compressed file expands to, at most.
const EXPANDED_BYTES_MAX: u64 = 16 << 30;

/// The beginning of a text that has no zero byte, as in the gateway's reader.
const SAMPLE_BYTES: usize = 8 << 10;

/// Bytes of UTF-16 that are decoded at a time.
const DECODED_BYTES: usize = 16 << 10;

/// An open file.
pub(crate) struct Input {
    /// The content: decompressed, without a byte order mark, in UTF-8 if it has the mark of UTF-16.
    pub(crate) reader: Box<dyn BufRead + Send>,
    /// Bytes read from the disk.
    pub(crate) bytes_read: Counter,
    path: PathBuf,
    has_mark: bool,
}

/// Counts the bytes that a reader has read. Copies share the count.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    /// A count that begins with bytes that are read elsewhere.
    pub(crate) fn of(bytes: u64) -> Counter {
        Counter(Arc::new(AtomicU64::new(bytes)))
    }

    /// The count since the last call.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Input {
    pub(crate) fn open(path: &Path, is_compressed: bool) -> std::io::Result<Input> {
        let bytes_read = Counter::default();
        let file = Counted { file: File::open(path)?, bytes_read: bytes_read.clone() };
        let mut reader: Box<dyn BufRead + Send> = if is_compressed {
            let expanded = MultiGzDecoder::new(BufReader::new(file));
            Box::new(BufReader::new(Expanded { reader: expanded, left: EXPANDED_BYTES_MAX }))
        } else {
            Box::new(BufReader::new(file))
        };
        let mark = byte_order_mark(reader.fill_buf()?);
        if let Some((encoding, length)) = mark {
            reader.consume(length);
            if encoding != UTF_8 {
                let decoder = encoding.new_decoder_without_bom_handling();
                reader = Box::new(BufReader::new(Decoded {
                    reader,
                    decoder: Some(decoder),
                    text: Vec::new(),
                    at: 0,
                }));
            }
        }
        Ok(Input { reader, bytes_read, path: path.to_owned(), has_mark: mark.is_some() })
    }

    /// The whole content as text.
    pub(crate) fn read_text(self, declaration: Declaration) -> Result<String, String> {
        self.read_text_up_to(DOCUMENT_BYTES_MAX, declaration)
    }

    fn read_text_up_to(self, bytes_max: u64, declaration: Declaration) -> Result<String, String> {
        let mut bytes = Vec::new();
        let mut reader = self.reader.take(bytes_max + 1);
        reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 > bytes_max {
            return Err(format!("has more than {bytes_max} bytes; cut it into several files"));
        }
        let declaration = if self.has_mark { Declaration::None } else { declaration };
        let text = decode(bytes, declaration).map_err(|bad| {
            format!("is not valid UTF-8: byte {bad} is the first bad one; {}", remedy(&self.path))
        })?;
        match text.bytes().take(SAMPLE_BYTES).position(|byte| byte == 0) {
            Some(at) => Err(format!("is no text: byte {at} is zero; convert it to text")),
            None => Ok(text),
        }
    }
}

/// A file in UTF-16, read as UTF-8. Damaged characters become U+FFFD.
struct Decoded {
    reader: Box<dyn BufRead + Send>,
    /// `None` after the end.
    decoder: Option<Decoder>,
    /// The decoded text, read up to `at`.
    text: Vec<u8>,
    at: usize,
}

impl Read for Decoded {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.text.len() {
            let Some(decoder) = &mut self.decoder else { return Ok(0) };
            let read = self.reader.fill_buf()?;
            let read = &read[..read.len().min(DECODED_BYTES)];
            let is_end = read.is_empty();
            self.text.resize(decoder.max_utf8_buffer_length(read.len()).unwrap_or(DECODED_BYTES * 4), 0);
            let (_, bytes, written, _) = decoder.decode_to_utf8(read, &mut self.text, is_end);
            self.reader.consume(bytes);
            self.text.truncate(written);
            self.at = 0;
            if is_end {
                self.decoder = None;
            }
        }
        let count = (&self.text[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
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
        let input = Input::open(&path, true).map_err(|error| error.to_string())?;
        let bytes_read = input.bytes_read.clone();
        let text = input.read_text_up_to(BYTES_MAX, Declaration::None);
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
    fn a_byte_order_mark_decides_the_encoding() {
        let text = "é𝄞 ".repeat(20_000);
        let little: Vec<u8> =
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> =
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for content in [little, big, format!("\u{feff}{text}").into_bytes()] {
            for is_compressed in [false, true] {
                std::fs::write(&path, if is_compressed { compressed(&content) } else { content.clone() })
                    .unwrap();
                let input = Input::open(&path, is_compressed).unwrap();
                assert_eq!(input.read_text(Declaration::Html).unwrap(), text);
            }
        }
        std::fs::write(&path, b"\xff\xfea\0\xe9").unwrap();
        assert_eq!(Input::open(&path, false).unwrap().read_text(Declaration::None).unwrap(), "a\u{fffd}");
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
    fn binary_content_is_no_text() {
        let check = |content: &[u8], expected: Result<&str, &str>| {
            assert_eq!(read(&compressed(content)), expected.map(str::to_owned).map_err(str::to_owned));
        };
        check(b"ab\0c", Err("is no text: byte 2 is zero; convert it to text"));
        check(&[0; 100], Err("is no text: byte 0 is zero; convert it to text"));
        check("é\u{b}".as_bytes(), Ok("é\u{b}"));
    }

    #[test]
    fn a_file_that_expands_too_far_is_an_error() {
        let zeros = compressed(&[b'0'; BYTES_MAX as usize + 1]);
        assert!(zeros.len() < 1000);
        assert_eq!(read(&zeros).unwrap_err(), "has more than 100000 bytes; cut it into several files");
        let mut expanded = Expanded { reader: b"12345".as_slice(), left: 4 };
        let message = expanded.read_to_end(&mut Vec::new()).unwrap_err().to_string();
        assert!(message.starts_with("expands to more than 17179869184 bytes; decompress it"), "{message}");
    }
}
