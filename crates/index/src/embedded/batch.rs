//! The net effect of a list of changes: documents to delete, documents to add.

use std::collections::HashMap;

use super::table::DocumentTable;
use crate::{Change, IndexedDocument};

/// The net effect of a list of changes on the live documents.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Batch {
    /// Live documents to be removed or replaced.
    pub(crate) removed: Vec<RemovedDocument>,
    /// Documents to be added: one per id, each with at least one chunk, in the order of their changes.
    pub(crate) puts: Vec<IndexedDocument>,
}

/// A live document to be deleted, with its chunk ids.
#[derive(Debug, PartialEq)]
pub(crate) struct RemovedDocument {
    pub(crate) id: String,
    pub(crate) first_chunk: u32,
    pub(crate) chunks: u32,
}

impl Batch {
    /// Applies the changes in order. A `Put` that is not newer than the live document changes nothing; documents without chunks
    /// are not added.
    pub(crate) fn plan(changes: Vec<Change>, table: &DocumentTable, documents: &[u8]) -> Batch {
        let mut plan = Plan { table, documents, puts: Vec::new(), last: HashMap::new() };
        for change in changes {
            match change {
                Change::Put(document) => plan.put(document),
                Change::Remove { id, .. } => plan.remove(id),
            }
        }
        plan.finish()
    }
}

struct Plan<'a> {
    table: &'a DocumentTable,
    documents: &'a [u8],
    /// `None` if a later change removed the document again.
    puts: Vec<Option<IndexedDocument>>,
    /// The index in `puts` of each changed document, or `None` if it is removed.
    last: HashMap<String, Option<usize>>,
}

impl Plan<'_> {
    fn put(&mut self, document: IndexedDocument) {
        if self.version_of(&document.id).is_some_and(|version| document.version <= version) {
            return;
        }
        let index = self.puts.len();
        self.replace(document.id.clone(), Some(index));
        self.puts.push(Some(document));
    }

    fn remove(&mut self, id: String) {
        self.replace(id, None);
    }

    fn replace(&mut self, id: String, index: Option<usize>) {
        if let Some(Some(earlier)) = self.last.insert(id, index) {
            self.puts[earlier] = None;
        }
    }

    /// The version of a document after the changes so far.
    fn version_of(&self, id: &str) -> Option<u64> {
        match self.last.get(id) {
            Some(&Some(index)) => self.puts[index].as_ref().map(|document| document.version),
            Some(None) => None,
            None => self.table.find(id, self.documents).map(|record| record.version),
        }
    }

    fn finish(self) -> Batch {
        let mut removed: Vec<RemovedDocument> = self
            .last
            .into_keys()
            .filter_map(|id| {
                let record = self.table.find(&id, self.documents)?;
                Some(RemovedDocument { first_chunk: record.first_chunk, chunks: record.chunks, id })
            })
            .collect();
        removed.sort_unstable_by_key(|removed| removed.first_chunk);
        let puts = self.puts.into_iter().flatten();
        let puts = puts.filter(|document| !document.chunks.is_empty()).collect();
        Batch { removed, puts }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::DocumentRecord;
    use super::*;
    use crate::IndexedChunk;

    fn put(id: &str, version: u64) -> Change {
        let chunk = IndexedChunk { start: 0, end: 1, text: "x".to_owned(), embedding: None };
        let id = id.to_owned();
        Change::Put(IndexedDocument {
            id,
            version,
            title: None,
            metadata: String::new(),
            pages: None,
            chunks: vec![chunk],
        })
    }

    fn remove(id: &str) -> Change {
        Change::Remove { id: id.to_owned(), before: u64::MAX }
    }

    /// Live before: `a` in version 5 with chunks 0 and 1, `b` in version 1 with chunk 2.
    fn check(changes: Vec<Change>, removed: &[(&str, u32, u32)], puts: &[(&str, u64)]) {
        let mut documents = Vec::new();
        let mut table = DocumentTable::default();
        for (id, version, first_chunk, chunks) in [("a", 5, 0, 2), ("b", 1, 2, 1)] {
            let offset = documents.len() as u64;
            DocumentRecord { version, first_chunk, chunks, id, title: None, metadata: "", pages: None }
                .write(&mut documents)
                .unwrap();
            table.insert(offset, &documents).unwrap();
        }
        let batch = Batch::plan(changes, &table, &documents);
        let found_gone: Vec<_> = batch
            .removed
            .iter()
            .map(|removed| (removed.id.as_str(), removed.first_chunk, removed.chunks))
            .collect();
        let found_puts: Vec<_> = batch.puts.iter().map(|put| (put.id.as_str(), put.version)).collect();
        assert_eq!((found_gone.as_slice(), found_puts.as_slice()), (removed, puts));
    }

    #[test]
    fn only_newer_versions_replace_documents() {
        check(vec![put("a", 6)], &[("a", 0, 2)], &[("a", 6)]);
        check(vec![put("a", 5), put("a", 4)], &[], &[]);
        check(vec![put("c", 1)], &[], &[("c", 1)]);
    }

    #[test]
    fn removing_a_missing_document_changes_nothing() {
        check(vec![remove("c")], &[], &[]);
        check(vec![remove("b"), remove("b")], &[("b", 2, 1)], &[]);
    }

    #[test]
    fn the_last_change_of_an_id_wins() {
        check(vec![put("b", 2), put("b", 3), put("b", 2)], &[("b", 2, 1)], &[("b", 3)]);
        check(vec![put("c", 1), remove("c")], &[], &[]);
        check(vec![remove("a"), put("a", 1)], &[("a", 0, 2)], &[("a", 1)]);
    }

    #[test]
    fn a_document_without_chunks_is_not_added_but_replaces() {
        let Change::Put(mut document) = put("b", 2) else { unreachable!() };
        document.chunks.clear();
        check(vec![Change::Put(document)], &[("b", 2, 1)], &[]);
    }
}
