//! The lexical retriever: Tantivy with one combined field, BM25 scores, one entry per chunk.
//!
//! This module writes; [`LexicalView`] is one commit for searching.

#![forbid(unsafe_code)]

mod adjacency;
mod bag;
mod by_segment;
mod chunk_ids;
mod compile;
mod directory;
mod error;
mod existing;
mod expansion;
mod explain;
mod locks;
mod max_score;
mod merge_policy;
mod names;
mod near_terms;
mod options;
mod rare;
mod settings;
mod spelling_index;
mod statistics;
mod tokens;
mod view;
mod wildcard;

use std::ops::Bound;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tantivy::index::SegmentMeta;
use tantivy::indexer::IndexWriterOptions;
use tantivy::query::RangeQuery;
use tantivy::schema::{Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};
use tantivy::store::Compressor;
use tantivy::{
    Directory as _, FutureResult, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy,
    TantivyDocument, Term,
};
use weir_text::Language;

pub use compile::{LexicalQuery, QueryContext, SpellingCorrection};
pub use error::{LexicalError, Result};
pub use explain::{PhraseContribution, ScoreParts, TermContribution};
pub use names::{NamedDocument, normalised as normalised_name};
pub use rare::RareChunk;
pub use settings::LexicalSettings;
pub use statistics::CollectionTotals;
pub use view::LexicalView;

use by_segment::BySegment;
use chunk_ids::ChunkIds;
use directory::GuardedDirectory;
use merge_policy::SizeTieredPolicy;
use spelling_index::SpellingIndex;
use tokens::TOKENIZER;

/// Tantivy's minimum.
const WRITER_MEMORY_MIN_BYTES: usize = 15_000_000;
/// A batch gets one more thread per this many entries.
const ENTRIES_PER_THREAD: usize = 2_500;
const THREADS_MAX: usize = 4;
/// The writer, and the source of views.
pub struct Lexical {
    index: Index,
    directory: GuardedDirectory,
    reader: IndexReader,
    fields: Fields,
    language: Language,
    writer_memory_bytes: usize,
    /// Created by the first write, because it owns threads.
    writer: Option<IndexWriter>,
    /// Threads of the writer.
    threads: usize,
    /// Data of the latest view's segments.
    chunk_ids: ChunkIds,
    words: BySegment<SpellingIndex>,
}

/// A running merge.
pub struct Merge(FutureResult<Option<SegmentMeta>>);

impl Merge {
    /// Waits for its end.
    pub fn wait(self) -> Result<()> {
        self.0.wait().map_err(LexicalError::during("merge segments"))?;
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Fields {
    /// Title and text, for scoring.
    text: Field,
    /// The title alone.
    title: Field,
    /// The normalised title and id of a document, each as one term, of its first chunk.
    name: Field,
    chunk_id: Field,
}

/// The payload of a commit. The names in JSON are those of format 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The last operation included.
    #[serde(rename = "reached")]
    pub applied_seq: u64,
    /// Chunk ids of entries are below this.
    #[serde(rename = "slots")]
    pub chunk_count: u32,
}

impl Lexical {
    /// Creates an empty index in an existing, empty folder.
    pub fn create(folder: &Path, language: Language, writer_memory_bytes: usize) -> Result<Lexical> {
        let settings = IndexSettings { docstore_compression: Compressor::None, ..IndexSettings::default() };
        let create = || {
            let directory = GuardedDirectory::open(folder)?;
            Ok((Index::create(directory.clone(), schema().0, settings)?, directory))
        };
        let (index, directory) = create().map_err(LexicalError::during("be created"))?;
        let mut lexical = Lexical::over(index, directory, language, writer_memory_bytes)?;
        lexical.commit(Commit { applied_seq: 0, chunk_count: 0 })?;
        Ok(lexical)
    }

    /// Opens the index in a folder and verifies the checksums of its files.
    pub fn open(folder: &Path, language: Language, writer_memory_bytes: usize) -> Result<Lexical> {
        let open = || {
            let directory = GuardedDirectory::open(folder)?;
            Ok((Index::open(directory.clone())?, directory))
        };
        let (index, directory) = open().map_err(LexicalError::during("be opened"))?;
        if index.schema() != schema().0 {
            return Err(LexicalError::damaged(folder, "the lexical index has another schema"));
        }
        if !index.validate_checksum().map_err(LexicalError::during("be verified"))?.is_empty() {
            return Err(LexicalError::damaged(folder, "a file of the lexical index fails its checksum"));
        }
        Lexical::over(index, directory, language, writer_memory_bytes)
    }

    fn over(
        index: Index,
        directory: GuardedDirectory,
        language: Language,
        writer_memory_bytes: usize,
    ) -> Result<Lexical> {
        index.tokenizers().register(TOKENIZER, tokens::tokenizer(language));
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .doc_store_cache_num_blocks(0)
            .try_into()
            .map_err(LexicalError::during("be read"))?;
        let writer_memory_bytes = writer_memory_bytes.max(WRITER_MEMORY_MIN_BYTES);
        Ok(Lexical {
            index,
            directory,
            reader,
            fields: schema().1,
            language,
            writer_memory_bytes,
            writer: None,
            threads: 1,
            chunk_ids: ChunkIds::default(),
            words: BySegment::default(),
        })
    }

    /// The payload of the last commit; `None` if it is missing or invalid.
    pub fn last_commit(&self) -> Result<Option<Commit>> {
        let metas = self.index.load_metas().map_err(LexicalError::during("be read"))?;
        Ok(metas.payload.and_then(|payload| serde_json::from_str(&payload).ok()))
    }

    /// Whether the files of its last commit exist, with their lengths.
    pub fn has_its_files(&self) -> bool {
        self.directory.exists(Path::new("meta.json")).unwrap_or(false) && self.directory.has_its_files()
    }

    /// Announces the number of entries until the next commit. Large batches are analysed by several threads, each of which writes
    /// segments of its own; for small batches that would be too many segments.
    pub fn expect(&mut self, entries: usize) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (entries / ENTRIES_PER_THREAD).clamp(1, cores.min(THREADS_MAX));
        if threads != self.threads {
            self.finish_merges()?;
            self.threads = threads;
        }
        Ok(())
    }

    /// Adds the entry of a chunk; visible after the commit. `names` are those by which the document is found: of its first chunk.
    pub fn add(&mut self, chunk_id: u32, title: Option<&str>, text: &str, names: &[&str]) -> Result<()> {
        let fields = self.fields;
        let mut entry = TantivyDocument::new();
        entry.add_u64(fields.chunk_id, chunk_id.into());
        if let Some(title) = title {
            entry.add_text(fields.text, title);
            entry.add_text(fields.title, title);
        }
        entry.add_text(fields.text, text);
        for name in names.iter().filter_map(|name| names::normalised(name)) {
            entry.add_text(fields.name, name);
        }
        self.writer()?.add_document(entry).map_err(LexicalError::during("add a text"))?;
        Ok(())
    }

    /// Deletes the entries of these chunks.
    pub fn delete(&mut self, chunk_ids: &[u32]) -> Result<()> {
        let field = self.fields.chunk_id;
        let writer = self.writer()?;
        for &chunk_id in chunk_ids {
            writer.delete_term(Term::from_field_u64(field, chunk_id.into()));
        }
        Ok(())
    }

    /// Deletes the entries of all chunk ids from `first` on, including uncommitted ones.
    pub fn delete_from(&mut self, first: u32) -> Result<()> {
        let from = Bound::Included(Term::from_field_u64(self.fields.chunk_id, first.into()));
        let surplus = RangeQuery::new(from, Bound::Unbounded);
        self.writer()?.delete_query(Box::new(surplus)).map_err(LexicalError::during("delete entries"))?;
        Ok(())
    }

    /// Makes everything since the last commit durable.
    pub fn commit(&mut self, commit: Commit) -> Result<()> {
        let payload = serde_json::to_string(&commit).unwrap_or_default();
        let commit = |writer: &mut IndexWriter| {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&payload);
            prepared.commit()
        };
        commit(self.writer()?).map_err(LexicalError::during("commit"))?;
        Ok(())
    }

    /// Discards everything since the last commit.
    pub fn roll_back(&mut self) {
        // The next writer starts from the last commit. Errors of the old one do not matter: its threads may have ended by the
        // same cause as the commit.
        drop(self.finish_merges());
    }

    /// Starts merging small segments if it is worth it; entries may be written meanwhile.
    pub fn merge_small(&mut self) -> Result<Option<Merge>> {
        let segments = self.index.searchable_segment_metas().map_err(LexicalError::during("be read"))?;
        match merge_policy::worth_merging(&segments) {
            Some(small) => Ok(Some(Merge(self.writer()?.merge(&small)))),
            None => Ok(None),
        }
    }

    /// Waits for running merges.
    pub fn finish_merges(&mut self) -> Result<()> {
        match self.writer.take() {
            Some(writer) => writer.wait_merging_threads().map_err(LexicalError::during("merge segments")),
            None => Ok(()),
        }
    }

    /// The committed state, for searching.
    pub fn view(&mut self) -> Result<LexicalView> {
        self.reload().map_err(LexicalError::during("be read"))
    }

    fn reload(&mut self) -> tantivy::Result<LexicalView> {
        self.reader.reload()?;
        let (searcher, text) = (self.reader.searcher(), self.fields.text);
        self.chunk_ids = BySegment::of(&searcher, &self.chunk_ids, chunk_ids::read)?;
        self.words = BySegment::of(&searcher, &self.words, |segment| SpellingIndex::read(segment, text))?;
        let directory = self.directory.clone();
        LexicalView::new(
            searcher,
            directory,
            self.fields,
            self.language,
            self.chunk_ids.clone(),
            self.words.clone(),
        )
    }

    fn writer(&mut self) -> Result<&mut IndexWriter> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.new_writer().map_err(LexicalError::during("be opened for writing"))?,
        };
        Ok(self.writer.insert(writer))
    }

    fn new_writer(&self) -> tantivy::Result<IndexWriter> {
        let options = IndexWriterOptions::builder()
            .num_worker_threads(self.threads)
            .num_merge_threads(1)
            .memory_budget_per_thread((self.writer_memory_bytes / self.threads).max(WRITER_MEMORY_MIN_BYTES))
            .build();
        let writer = self.index.writer_with_options(options)?;
        writer.set_merge_policy(Box::new(SizeTieredPolicy::new()));
        Ok(writer)
    }
}

impl Drop for Lexical {
    /// Running merges would otherwise write to a folder that is no longer locked.
    fn drop(&mut self) {
        drop(self.finish_merges());
    }
}

const TEXT: &str = "text";
const TITLE: &str = "title";
const NAME: &str = "name";
/// Tantivy's tokenizer that makes one term of a whole text.
const WHOLE: &str = "raw";
/// The name is that of format 4.
const CHUNK_ID: &str = "slot";

fn schema() -> (Schema, Fields) {
    let indexing = |has_lengths| {
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqsAndPositions)
            .set_fieldnorms(has_lengths);
        TextOptions::default().set_indexing_options(indexing)
    };
    let mut schema = Schema::builder();
    let text = schema.add_text_field(TEXT, indexing(true));
    let title = schema.add_text_field(TITLE, indexing(false));
    let whole = TextFieldIndexing::default().set_index_option(IndexRecordOption::Basic).set_fieldnorms(false);
    let name =
        schema.add_text_field(NAME, TextOptions::default().set_indexing_options(whole.set_tokenizer(WHOLE)));
    let chunk_id = schema.add_u64_field(CHUNK_ID, NumericOptions::default().set_indexed().set_fast());
    (schema.build(), Fields { text, title, name, chunk_id })
}
