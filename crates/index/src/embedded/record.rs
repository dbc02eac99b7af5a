//! Layout of the records of chunks and documents in the append-only files. Numbers are little-endian.

/// A chunk: one record of fixed size per chunk id.
///
/// The chunks of a document have consecutive ids, so `chunk_id - chunk` is the id of its first chunk, which also identifies the
/// document in rankings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkRecord {
    /// Offset of the document's record in `documents`.
    pub(crate) document: u64,
    /// First byte of the chunk in the document's text.
    pub(crate) start: u64,
    /// End of the chunk, exclusive.
    pub(crate) end: u64,
    /// Offset of the chunk's text in `texts`.
    pub(crate) text: u64,
    /// Length of the text in bytes.
    pub(crate) text_len: u32,
    /// Position of the chunk in the document, from 0.
    pub(crate) chunk: u32,
}

impl ChunkRecord {
    /// Bytes per record.
    pub(crate) const LEN: usize = 40;

    pub(crate) fn to_bytes(self) -> [u8; ChunkRecord::LEN] {
        let mut bytes = [0; ChunkRecord::LEN];
        bytes[0..8].copy_from_slice(&self.document.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.start.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.end.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.text.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.text_len.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.chunk.to_le_bytes());
        bytes
    }

    /// Reads the record of `chunk_id` from the file of chunk records.
    pub(crate) fn read(chunks: &[u8], chunk_id: u32) -> Option<ChunkRecord> {
        let mut reader = Reader::at(chunks, (chunk_id as u64).checked_mul(ChunkRecord::LEN as u64)?)?;
        Some(ChunkRecord {
            document: reader.u64()?,
            start: reader.u64()?,
            end: reader.u64()?,
            text: reader.u64()?,
            text_len: reader.u32()?,
            chunk: reader.u32()?,
        })
    }
}

/// A document in the file `documents`: a header, then id, title, metadata and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentRecord<'a> {
    pub(crate) version: u64,
    pub(crate) first_chunk: u32,
    /// Number of chunks, at least 1.
    pub(crate) chunks: u32,
    pub(crate) id: &'a str,
    pub(crate) title: Option<&'a str>,
    pub(crate) metadata: &'a str,
    pub(crate) pages: Option<&'a str>,
}

/// The length of a text that the document does not have.
const ABSENT: u32 = u32::MAX;

impl<'a> DocumentRecord<'a> {
    /// Appends the record to `out`; `None` if a text has 4 GB or more.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let len = |text: &str| u32::try_from(text.len()).ok().filter(|&len| len != ABSENT);
        let len_if_any = |text: Option<&str>| text.map_or(Some(ABSENT), len);
        out.extend(self.version.to_le_bytes());
        let lengths = [len(self.id)?, len_if_any(self.title)?, len(self.metadata)?, len_if_any(self.pages)?];
        for number in [self.first_chunk, self.chunks].into_iter().chain(lengths) {
            out.extend(number.to_le_bytes());
        }
        for text in [self.id, self.title.unwrap_or(""), self.metadata, self.pages.unwrap_or("")] {
            out.extend(text.as_bytes());
        }
        Some(())
    }

    /// Reads the record at `offset` of the file `documents`; also returns the offset of the next one.
    pub(crate) fn read(documents: &'a [u8], offset: u64) -> Option<(DocumentRecord<'a>, u64)> {
        let mut reader = Reader::at(documents, offset)?;
        let version = reader.u64()?;
        let (first_chunk, chunks) = (reader.u32()?, reader.u32()?);
        let [id_len, title_len, metadata_len, pages_len] =
            [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let id = reader.text(id_len)?;
        let title = reader.text_if_any(title_len)?;
        let metadata = reader.text(metadata_len)?;
        let pages = reader.text_if_any(pages_len)?;
        let next = (documents.len() - reader.rest.len()) as u64;
        Some((DocumentRecord { version, first_chunk, chunks, id, title, metadata, pages }, next))
    }
}

/// Reads numbers and texts from bytes, in sequence; `None` at the end of the bytes.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn at(bytes: &'a [u8], offset: u64) -> Option<Reader<'a>> {
        let rest = bytes.get(usize::try_from(offset).ok()?..)?;
        Some(Reader { rest })
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*taken))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*taken))
    }

    fn text(&mut self, len: u32) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(len as usize)?).ok()
    }

    /// The inner `None`: the document does not have the text.
    fn text_if_any(&mut self, len: u32) -> Option<Option<&'a str>> {
        if len == ABSENT { Some(None) } else { self.text(len).map(Some) }
    }

    /// Whether all bytes have been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_record_round_trips() {
        let record =
            ChunkRecord { document: 1 << 40, start: 5, end: u64::MAX, text: 7, text_len: 3, chunk: 2 };
        let mut file = vec![0; ChunkRecord::LEN];
        file.extend(record.to_bytes());
        assert_eq!(ChunkRecord::read(&file, 1), Some(record));
        assert_eq!(ChunkRecord::read(&file, 2), None);
    }

    #[test]
    fn document_records_round_trip_in_sequence() {
        let first = DocumentRecord {
            version: 3,
            first_chunk: 0,
            chunks: 2,
            id: "a/ü 🦀",
            title: None,
            metadata: "{}",
            pages: Some("[[7,null,false]]"),
        };
        let second = DocumentRecord {
            version: 1,
            first_chunk: 2,
            chunks: 1,
            id: "",
            title: Some(""),
            metadata: "",
            pages: None,
        };
        let mut file = Vec::new();
        first.write(&mut file).unwrap();
        second.write(&mut file).unwrap();
        let (read, next) = DocumentRecord::read(&file, 0).unwrap();
        assert_eq!(read, first);
        assert_eq!(DocumentRecord::read(&file, next), Some((second, file.len() as u64)));
        assert_eq!(DocumentRecord::read(&file, file.len() as u64), None);
        assert_eq!(DocumentRecord::read(&file[..file.len() - 1], next), None);
    }
}
