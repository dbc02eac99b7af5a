//! What a search sees: both legs, the files and the tombstones of one moment.

use std::sync::Arc;

use super::fields::Fields;
use super::files::MappedFiles;
use super::lexical::LexicalView;
use super::record::{DocumentRecord, SlotRecord};
use super::signs::Signs;
use super::tombstones::Tombstones;

/// One moment of an index. Whoever holds it sees nothing else, whatever is applied meanwhile.
pub(crate) struct Snapshot {
    pub(crate) reached: u64,
    /// Live documents.
    pub(crate) documents: u32,
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) files: Arc<MappedFiles>,
    /// Of the rows of `files.vectors`.
    pub(crate) signs: Arc<Signs>,
    /// Of the documents of `files.documents`.
    pub(crate) fields: Arc<Fields>,
    pub(crate) lexical: Arc<LexicalView>,
}

/// A chunk with its document, read in place.
pub(crate) struct Chunk<'a> {
    pub(crate) record: SlotRecord,
    pub(crate) document: DocumentRecord<'a>,
    pub(crate) text: &'a str,
}

impl Snapshot {
    /// The document's number in rankings: its first slot.
    pub(crate) fn document_of(&self, slot: u32) -> Option<u32> {
        slot.checked_sub(SlotRecord::read(&self.files.slots, slot)?.chunk)
    }

    /// Reads a chunk; `None` when the files do not lead to it, which the checks at opening exclude.
    pub(crate) fn chunk(&self, slot: u32) -> Option<Chunk<'_>> {
        let record = SlotRecord::read(&self.files.slots, slot)?;
        let (document, _) = DocumentRecord::read(&self.files.documents, record.document)?;
        let text = std::str::from_utf8(self.files.texts.get(record.text_span()?)?).ok()?;
        Some(Chunk { record, document, text })
    }

    /// Live chunks.
    pub(crate) fn chunks(&self) -> u32 {
        self.tombstones.slots() - self.tombstones.dead()
    }
}
