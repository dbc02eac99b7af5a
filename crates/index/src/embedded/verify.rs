//! Consistency check of one snapshot.

use std::path::Path;

use weir_mapped::AppendOnlyFile;

use super::files::ALL;
use super::head::FileState;
use super::snapshot::Snapshot;
use crate::{ConsistencyReport, Inconsistency};

impl Snapshot {
    /// Checks documents, texts, lexical entries and counts.
    pub(crate) fn verify(&self) -> ConsistencyReport {
        let mut report = ConsistencyReport {
            documents: 0,
            chunks: self.live_chunks(),
            deleted_chunks: self.tombstones.deleted(),
            stale_entries: 0,
            problems: Vec::new(),
        };
        self.verify_chunks(&mut report);
        self.verify_entries(&mut report);
        if report.documents != self.documents {
            let counted = report.documents;
            report.note(Inconsistency::DocumentCount { reported: self.documents, counted });
        }
        report
    }

    /// Every chunk id leads to a document and a text, and the chunks of a document are either all live or all deleted.
    fn verify_chunks(&self, report: &mut ConsistencyReport) {
        for chunk_id in 0..self.tombstones.len() {
            let whole = self.chunk(chunk_id).filter(|chunk| self.text(&chunk.record).is_some());
            let Some(chunk) = whole else {
                report.note(Inconsistency::Unreadable(chunk_id));
                continue;
            };
            let first = chunk.document.first_chunk;
            if self.document_of(chunk_id) != Some(first) || chunk.record.chunk >= chunk.document.chunks {
                report.note(Inconsistency::Unreadable(chunk_id));
            } else if self.tombstones.is_live(chunk_id) != self.tombstones.is_live(first) {
                report.note(Inconsistency::HalfDocument(first));
            } else if chunk_id == first && self.tombstones.is_live(chunk_id) {
                report.documents += 1;
            }
        }
    }

    /// Every live chunk has one lexical entry, and no entry is of an uncommitted chunk.
    fn verify_entries(&self, report: &mut ConsistencyReport) {
        let mut entries = vec![0u32; self.tombstones.len() as usize];
        let mut foreign = 0;
        self.lexical.for_each_chunk_id(|chunk_id| match entries.get_mut(chunk_id as usize) {
            Some(count) => *count += 1,
            None => foreign += 1,
        });
        for (chunk_id, found) in (0..).zip(entries) {
            if !self.tombstones.is_live(chunk_id) {
                report.stale_entries += found;
            } else if found != 1 {
                report.note(Inconsistency::LexicalEntries { chunk_id, found });
            }
        }
        if foreign > 0 {
            report.note(Inconsistency::ForeignEntries(foreign));
        }
    }
}

/// Compares the files with the lengths and checksums in the head.
pub(crate) fn verify_files(folder: &Path, states: &[FileState], report: &mut ConsistencyReport) {
    for (&name, state) in ALL.iter().zip(states) {
        let file = AppendOnlyFile::open(folder.join(name), state.len);
        if file.and_then(|file| file.verify(state.len, state.crc)).is_err() {
            report.note(Inconsistency::File(name));
        }
    }
}
