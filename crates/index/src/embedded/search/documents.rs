//! Sets of documents: what listings, sorting, counts and facets work on.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use weir_lexical::LexicalQuery;
use weir_ranking::{Selection, set_bits};

use super::SnapshotSearch;
use crate::embedded::snapshot::Snapshot;
use crate::pipeline::{DocumentSet, ListedChunk};
use crate::{Grouping, Result, SortKey};

/// A set of documents of a snapshot.
pub(crate) struct Documents {
    /// The chunks in the set; those of all live documents if absent.
    chunks: Option<Arc<Selection>>,
    /// The live documents with such chunks, as a bitmap. Computed when it is needed.
    bitmap: OnceLock<Vec<u64>>,
}

impl Documents {
    fn of(chunks: Option<Arc<Selection>>) -> Documents {
        Documents { chunks, bitmap: OnceLock::new() }
    }

    pub(super) fn bitmap(&self, snapshot: &Snapshot) -> &[u64] {
        let documents = || snapshot.fields.documents_of(&snapshot.tombstones, self.chunks.as_deref());
        self.bitmap.get_or_init(documents)
    }
}

impl SnapshotSearch<'_> {
    pub(super) fn documents_in(&self, set: DocumentSet<'_>) -> Result<Documents> {
        let matching = || self.query.as_ref().map(|query| self.matching(query)).transpose();
        Ok(match set {
            DocumentSet::Selected => Documents::of(self.selection.clone()),
            DocumentSet::Matching => Documents::of(matching()?.or_else(|| self.selection.clone())),
            DocumentSet::Of(chunk_ids) => {
                Documents { chunks: None, bitmap: self.documents_of(chunk_ids).into() }
            }
            DocumentSet::MatchingOr(chunk_ids) => {
                let matching = Documents::of(matching()?);
                let mut bitmap = matching.bitmap(self.snapshot).to_vec();
                let others = self.documents_of(chunk_ids);
                bitmap.iter_mut().zip(others).for_each(|(found, other)| *found |= other);
                Documents { chunks: None, bitmap: bitmap.into() }
            }
        })
    }

    /// The selected chunks that the lexical retriever can find, and those of named documents.
    fn matching(&self, query: &LexicalQuery) -> Result<Arc<Selection>> {
        let chunk_count = self.snapshot.tombstones.len();
        let mut found = self.snapshot.lexical.all_matches(query, chunk_count)?;
        if !self.named.is_empty() {
            let mut words = found.into_words(chunk_count);
            self.named.iter().for_each(|named| set_bits(&mut words, named.chunk_id, named.chunk_id + 1));
            found = Selection::of_words(words);
        }
        Ok(Arc::new(match &self.selection {
            Some(selection) => found.and(selection),
            None => found,
        }))
    }

    /// The documents of chunks, as a bitmap.
    fn documents_of(&self, chunk_ids: &[u32]) -> Vec<u64> {
        let fields = &self.snapshot.fields;
        let mut documents = vec![0; fields.documents().div_ceil(64)];
        let found: HashSet<u32> = chunk_ids.iter().map(|&chunk_id| fields.document_of(chunk_id)).collect();
        found.into_iter().for_each(|document| set_bits(&mut documents, document, document + 1));
        documents
    }

    /// The first documents in the order of the keys.
    pub(super) fn in_order(&self, documents: &Documents, keys: &[SortKey], limit: usize) -> Vec<ListedChunk> {
        let fields = &self.snapshot.fields;
        let chunks_shown = match self.request.group_by {
            Grouping::Chunk => usize::MAX,
            Grouping::Document | Grouping::Field(_) => 1,
        };
        let mut listed = Vec::new();
        for document in fields.sort(keys, documents.bitmap(self.snapshot), limit) {
            let chunk_ids = fields.chunk_ids(document);
            let document = chunk_ids.start;
            let is_in =
                |chunk_id: &u32| documents.chunks.as_ref().is_none_or(|chunks| chunks.contains(*chunk_id));
            let shown = chunk_ids.filter(is_in).take(chunks_shown);
            listed.extend(shown.map(|chunk_id| ListedChunk { document, chunk_id }));
        }
        listed
    }

    pub(super) fn count_of(&self, documents: &Documents, group_by: &Grouping) -> u64 {
        let (fields, tombstones) = (&self.snapshot.fields, &self.snapshot.tombstones);
        let count = match group_by {
            Grouping::Chunk => {
                let is_live = |chunk_id: &u32| tombstones.is_live(*chunk_id);
                match (&documents.chunks, documents.bitmap.get()) {
                    (Some(chunks), _) => chunks.chunk_ids().filter(is_live).count(),
                    (None, Some(bitmap)) => fields.chunks_in(bitmap),
                    (None, None) => self.snapshot.live_chunks() as usize,
                }
            }
            Grouping::Document => {
                let words = documents.bitmap(self.snapshot).iter();
                words.map(|word| word.count_ones() as usize).sum()
            }
            Grouping::Field(field) => fields.count_groups(field, documents.bitmap(self.snapshot)),
        };
        count as u64
    }
}
