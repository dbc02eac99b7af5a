//! The lexical leg: one combined field in Tantivy, scored with BM25, one entry per slot.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tantivy::columnar::ColumnValues;
use tantivy::directory::MmapDirectory;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::query::{BooleanQuery, EnableScoring, Query, RangeQuery, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::Compressor;
use tantivy::{
    Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, Term,
};
use weir_text::Language;

use super::ranking::ScoredSlot;
use super::tokens::{self, TOKENIZER};
use super::tombstones::Tombstones;
use crate::IndexError;
use crate::relevance::BM25_TERM_MAX;

/// A query looks for no more distinct terms than this, in the order of the text.
const QUERY_TERMS_MAX: usize = 64;
/// Tantivy's own lower bound.
const WRITER_MEMORY_MIN_BYTES: usize = 15_000_000;
/// So many segments of about one size are merged into one.
const SEGMENTS_MERGED_MIN: usize = 6;
/// A segment with a larger share of deleted entries is rewritten.
const DELETED_SHARE_MAX: f32 = 0.3;

/// The writing side, and the maker of views.
pub(crate) struct Lexical {
    index: Index,
    reader: IndexReader,
    fields: Fields,
    language: Language,
    writer_memory_bytes: usize,
    /// Made with the first write, because it holds threads.
    writer: Option<IndexWriter>,
}

#[derive(Clone, Copy)]
struct Fields {
    text: Field,
    slot: Field,
}

/// What each commit says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Commit {
    /// The last operation that is in.
    pub(crate) reached: u64,
    /// Entries are of slots below this.
    pub(crate) slots: u32,
}

impl Lexical {
    /// Creates an empty index in a folder that exists and is empty.
    pub(crate) fn create(
        folder: &Path,
        language: Language,
        writer_memory_bytes: usize,
    ) -> Result<Lexical, IndexError> {
        let settings = IndexSettings { docstore_compression: Compressor::None, ..IndexSettings::default() };
        let create = || Index::create(MmapDirectory::open(folder)?, schema().0, settings);
        let index = create().map_err(IndexError::lexical("be created"))?;
        let mut lexical = Lexical::over(index, language, writer_memory_bytes)?;
        lexical.commit(Commit { reached: 0, slots: 0 })?;
        Ok(lexical)
    }

    /// Opens the index in a folder and verifies the checksums of its files.
    pub(crate) fn open(
        folder: &Path,
        language: Language,
        writer_memory_bytes: usize,
    ) -> Result<Lexical, IndexError> {
        let open = || Index::open(MmapDirectory::open(folder)?);
        let index = open().map_err(IndexError::lexical("be opened"))?;
        if index.schema() != schema().0 {
            return Err(IndexError::damaged(folder, "the lexical index has another schema"));
        }
        if !index.validate_checksum().map_err(IndexError::lexical("be verified"))?.is_empty() {
            return Err(IndexError::damaged(folder, "a file of the lexical index fails its checksum"));
        }
        Lexical::over(index, language, writer_memory_bytes)
    }

    fn over(index: Index, language: Language, writer_memory_bytes: usize) -> Result<Lexical, IndexError> {
        index.tokenizers().register(TOKENIZER, tokens::tokenizer(language));
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .doc_store_cache_num_blocks(0)
            .try_into()
            .map_err(IndexError::lexical("be read"))?;
        let writer_memory_bytes = writer_memory_bytes.max(WRITER_MEMORY_MIN_BYTES);
        Ok(Lexical { index, reader, fields: schema().1, language, writer_memory_bytes, writer: None })
    }

    /// What the last commit says about itself; `None` when it says nothing that we understand.
    pub(crate) fn last_commit(&self) -> Result<Option<Commit>, IndexError> {
        let metas = self.index.load_metas().map_err(IndexError::lexical("be read"))?;
        Ok(metas.payload.and_then(|payload| serde_json::from_str(&payload).ok()))
    }

    /// Adds the entry of a slot; nothing is visible before the commit.
    pub(crate) fn add(&mut self, slot: u32, title: Option<&str>, text: &str) -> Result<(), IndexError> {
        let fields = self.fields;
        let mut entry = TantivyDocument::new();
        entry.add_u64(fields.slot, slot.into());
        if let Some(title) = title {
            entry.add_text(fields.text, title);
        }
        entry.add_text(fields.text, text);
        self.writer()?.add_document(entry).map_err(IndexError::lexical("add a text"))?;
        Ok(())
    }

    /// Deletes the entries of these slots.
    pub(crate) fn delete(&mut self, slots: &[u32]) -> Result<(), IndexError> {
        let field = self.fields.slot;
        let writer = self.writer()?;
        for &slot in slots {
            writer.delete_term(Term::from_field_u64(field, slot.into()));
        }
        Ok(())
    }

    /// Deletes the entries of all slots from `first` on, those of earlier uncommitted calls included.
    pub(crate) fn delete_from(&mut self, first: u32) -> Result<(), IndexError> {
        let from = Bound::Included(Term::from_field_u64(self.fields.slot, first.into()));
        let surplus = RangeQuery::new(from, Bound::Unbounded);
        self.writer()?.delete_query(Box::new(surplus)).map_err(IndexError::lexical("delete entries"))?;
        Ok(())
    }

    /// Makes everything since the last commit durable.
    pub(crate) fn commit(&mut self, commit: Commit) -> Result<(), IndexError> {
        let payload = serde_json::json!({ "reached": commit.reached, "slots": commit.slots }).to_string();
        let commit = |writer: &mut IndexWriter| {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&payload);
            prepared.commit()
        };
        commit(self.writer()?).map_err(IndexError::lexical("commit"))?;
        Ok(())
    }

    /// Forgets everything since the last commit.
    pub(crate) fn roll_back(&mut self) {
        // The next writer starts from the last commit. What the old one says does not matter: its threads may have
        // ended because of what broke the commit off.
        drop(self.settle());
    }

    /// Waits until segments are merged.
    pub(crate) fn settle(&mut self) -> Result<(), IndexError> {
        match self.writer.take() {
            Some(writer) => writer.wait_merging_threads().map_err(IndexError::lexical("merge segments")),
            None => Ok(()),
        }
    }

    /// What is committed, for searching.
    pub(crate) fn view(&self) -> Result<LexicalView, IndexError> {
        let open = || {
            self.reader.reload()?;
            let searcher = self.reader.searcher();
            let slots = searcher
                .segment_readers()
                .iter()
                .map(|segment| Ok(segment.fast_fields().u64(SLOT)?.first_or_default_col(u64::MAX)))
                .collect::<tantivy::Result<Vec<_>>>()?;
            Ok(LexicalView { searcher, slots, text: self.fields.text, language: self.language })
        };
        open().map_err(IndexError::lexical("be read"))
    }

    fn writer(&mut self) -> Result<&mut IndexWriter, IndexError> {
        if self.writer.is_none() {
            self.writer = Some(self.new_writer().map_err(IndexError::lexical("be opened for writing"))?);
        }
        self.writer.as_mut().ok_or(IndexError::Closed)
    }

    fn new_writer(&self) -> tantivy::Result<IndexWriter> {
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .num_merge_threads(1)
            .memory_budget_per_thread(self.writer_memory_bytes)
            .build();
        let writer = self.index.writer_with_options(options)?;
        let mut policy = LogMergePolicy::default();
        policy.set_min_num_segments(SEGMENTS_MERGED_MIN);
        policy.set_del_docs_ratio_before_merge(DELETED_SHARE_MAX);
        writer.set_merge_policy(Box::new(policy));
        Ok(writer)
    }
}

impl Drop for Lexical {
    /// Threads that merge would otherwise go on writing to a folder that is no longer ours.
    fn drop(&mut self) {
        drop(self.settle());
    }
}

const TEXT: &str = "text";
const SLOT: &str = "slot";

fn schema() -> (Schema, Fields) {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(true);
    let mut schema = Schema::builder();
    let text = schema.add_text_field(TEXT, TextOptions::default().set_indexing_options(indexing));
    let slot = schema.add_u64_field(SLOT, NumericOptions::default().set_indexed().set_fast());
    (schema.build(), Fields { text, slot })
}

/// One commit, for searching. Later commits and merges do not touch it.
pub(crate) struct LexicalView {
    searcher: Searcher,
    /// The slot of each entry, per segment.
    slots: Vec<Arc<dyn ColumnValues<u64>>>,
    text: Field,
    language: Language,
}

impl LexicalView {
    /// The live chunks that hold a term of `text`, best first, `depth` of them or all.
    pub(crate) fn search(
        &self,
        text: &str,
        tombstones: &Tombstones,
        depth: usize,
    ) -> Result<Vec<ScoredSlot>, IndexError> {
        let mut best = BestSlots::new(depth);
        if let Some(query) = self.query(text)
            && depth > 0
        {
            self.collect(query.as_ref(), tombstones, &mut best).map_err(IndexError::lexical("search"))?;
        }
        Ok(best.into_sorted())
    }

    /// A flat disjunction, because only that form takes the Block-Max WAND path.
    fn query(&self, text: &str) -> Option<Box<dyn Query>> {
        let terms = weir_text::query_terms(text, self.language);
        let mut queries: Vec<TermQuery> = terms
            .iter()
            .take(QUERY_TERMS_MAX)
            .map(|term| TermQuery::new(Term::from_field_text(self.text, term), IndexRecordOption::WithFreqs))
            .collect();
        match queries.len() {
            0 => None,
            1 => queries.pop().map(|query| Box::new(query) as Box<dyn Query>),
            _ => {
                let boxed = queries.into_iter().map(|query| Box::new(query) as Box<dyn Query>).collect();
                Some(Box::new(BooleanQuery::union(boxed)))
            }
        }
    }

    /// Goes through the segments with one heap, so that each starts with the threshold of those before it.
    fn collect(
        &self,
        query: &dyn Query,
        tombstones: &Tombstones,
        best: &mut BestSlots,
    ) -> tantivy::Result<()> {
        let weight = query.weight(EnableScoring::enabled_from_searcher(&self.searcher))?;
        for (segment, slots) in self.searcher.segment_readers().iter().zip(&self.slots) {
            let deleted = segment.alive_bitset();
            weight.for_each_pruning(best.threshold(), segment, &mut |entry, score| {
                let is_deleted = deleted.is_some_and(|alive| alive.is_deleted(entry));
                let slot = slots.get_val(entry) as u32;
                if !is_deleted && tombstones.is_live(slot) {
                    best.push(ScoredSlot { slot, score });
                }
                best.threshold()
            })?;
        }
        Ok(())
    }

    /// The most that BM25 can give for the words of `text`: the sum of their idf, each by `k1 + 1`.
    pub(crate) fn bm25_max(&self, text: &str) -> Result<f32, IndexError> {
        let entries = self.searcher.num_docs() as f32;
        let mut sum = 0.0;
        for term in weir_text::query_terms(text, self.language).iter().take(QUERY_TERMS_MAX) {
            let holding = self.searcher.doc_freq(&Term::from_field_text(self.text, term));
            let holding = holding.map_err(IndexError::lexical("search"))? as f32;
            // deleted entries count until they are merged away
            let others = (entries - holding).max(0.0);
            sum += (1.0 + (others + 0.5) / (holding + 0.5)).ln() * BM25_TERM_MAX;
        }
        Ok(sum)
    }

    /// Calls `visit` with the slot of every entry that is not deleted.
    pub(crate) fn for_each_slot(&self, mut visit: impl FnMut(u64)) {
        for (segment, slots) in self.searcher.segment_readers().iter().zip(&self.slots) {
            segment.doc_ids_alive().for_each(|entry| visit(slots.get_val(entry)));
        }
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> usize {
        self.slots.len()
    }
}

/// The best slots so far, with an exact threshold at every moment.
struct BestSlots {
    heap: BinaryHeap<WorstFirst>,
    capacity: usize,
}

struct WorstFirst(ScoredSlot);

impl BestSlots {
    fn new(capacity: usize) -> BestSlots {
        BestSlots { heap: BinaryHeap::new(), capacity }
    }

    /// Only higher scores can still matter. Just below the worst that is kept, so that of equal scores the lower slot
    /// wins wherever its segment comes.
    fn threshold(&self) -> f32 {
        match self.heap.peek() {
            Some(worst) if self.heap.len() >= self.capacity => worst.0.score.next_down(),
            _ => f32::MIN,
        }
    }

    fn push(&mut self, scored: ScoredSlot) {
        if self.heap.len() < self.capacity {
            self.heap.push(WorstFirst(scored));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && scored.by_rank(&worst.0) == Ordering::Less
        {
            *worst = WorstFirst(scored);
        }
    }

    fn into_sorted(self) -> Vec<ScoredSlot> {
        self.heap.into_sorted_vec().into_iter().map(|worst| worst.0).collect()
    }
}

impl Ord for WorstFirst {
    fn cmp(&self, other: &WorstFirst) -> Ordering {
        self.0.by_rank(&other.0)
    }
}

impl PartialOrd for WorstFirst {
    fn partial_cmp(&self, other: &WorstFirst) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WorstFirst {
    fn eq(&self, other: &WorstFirst) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for WorstFirst {}
