//! Checks one snapshot against itself.

use std::path::Path;

use weir_mapped::Mapped;

use super::files::ALL;
use super::head::FileState;
use super::snapshot::Snapshot;
use crate::{Problem, VerifyReport};

impl Snapshot {
    /// Checks documents, texts, lexical entries and counts.
    pub(crate) fn verify(&self) -> VerifyReport {
        let mut report = VerifyReport {
            documents: 0,
            chunks: self.chunks(),
            dead_chunks: self.tombstones.dead(),
            dead_entries: 0,
            problems: Vec::new(),
        };
        self.verify_chunks(&mut report);
        self.verify_entries(&mut report);
        if report.documents != self.documents {
            let counted = report.documents;
            report.note(Problem::DocumentCount { reported: self.documents, counted });
        }
        report
    }

    /// Every slot leads to its document and text, and the chunks of a document live and die together.
    fn verify_chunks(&self, report: &mut VerifyReport) {
        for slot in 0..self.tombstones.slots() {
            let whole = self.chunk(slot).filter(|chunk| self.text(&chunk.record).is_some());
            let Some(chunk) = whole else {
                report.note(Problem::Unreadable { slot });
                continue;
            };
            let first = chunk.document.first_slot;
            if self.document_of(slot) != Some(first) || chunk.record.chunk >= chunk.document.chunks {
                report.note(Problem::Unreadable { slot });
            } else if self.tombstones.is_live(slot) != self.tombstones.is_live(first) {
                report.note(Problem::HalfDocument { slot: first });
            } else if slot == first && self.tombstones.is_live(slot) {
                report.documents += 1;
            }
        }
    }

    /// Every live slot has one lexical entry, and nothing has one that was never committed.
    fn verify_entries(&self, report: &mut VerifyReport) {
        let mut entries = vec![0u32; self.tombstones.slots() as usize];
        let mut foreign = 0;
        self.lexical.for_each_slot(|slot| match entries.get_mut(slot as usize) {
            Some(count) => *count += 1,
            None => foreign += 1,
        });
        for (slot, found) in (0..).zip(entries) {
            if !self.tombstones.is_live(slot) {
                report.dead_entries += found;
            } else if found != 1 {
                report.note(Problem::LexicalEntries { slot, found });
            }
        }
        if foreign > 0 {
            report.note(Problem::ForeignEntries { found: foreign });
        }
    }
}

/// Checks the bytes of the files against what the head says of them.
pub(crate) fn verify_files(folder: &Path, states: &[FileState], report: &mut VerifyReport) {
    for (&name, state) in ALL.iter().zip(states) {
        let file = Mapped::open_prefix(folder.join(name), state.len);
        if file.and_then(|file| file.verify(state.len, state.crc)).is_err() {
            report.note(Problem::File { name });
        }
    }
}
