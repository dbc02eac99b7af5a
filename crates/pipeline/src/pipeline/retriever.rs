//! The interface of the hit pipeline to an engine.

use std::time::Duration;

use weir_filter::Value;
use weir_lexical::{LexicalQuery, NamedDocument, RareChunk, ScoreParts, SpellingCorrection};
use weir_ranking::BestChunk;
use weir_ranking::relevance::{Bm25Bounds, QueryFeatures};
use weir_text::QueryTerm;

use super::relevance::RelevanceModel;
use crate::{FacetSpec, Grouping, Neighbour, Result, SortKey, ValueCount};

/// One search in one state of an engine: ranks chunks, and reads what the pipeline needs to know of them.
///
/// An engine makes one for each [`RestrictedQuery`](crate::restricted::RestrictedQuery); everything that it returns has passed the query's
/// filter. Chunks and documents have numbers that hold within the search: the pipeline passes back numbers that it was given, and compares
/// them only to break ties, lower ones first. The number of a document is that of its first chunk, or another that no other document has.
///
/// Functions that wait take all chunks of a step at once, so that an engine on another machine needs one request per step; those of an
/// engine in this process complete at once (see [`super::completed`]). The others are called for each candidate and must not wait.
/// An error of any of them ends the search with this error.
pub trait Retriever: Send + Sync {
    /// A set of documents, for counting, sorting and facets.
    type Documents: Send + Sync;

    /// The scope, known before anything is ranked.
    fn scope(&self) -> &Scope;

    /// The analysed text of the query; `None` without one.
    fn words(&self) -> Option<QueryWords<'_>>;

    /// Documents whose title or id is the query or begins with it, by their first chunks.
    fn named(&self) -> &[NamedDocument];

    /// The parameters of relevance for this search.
    fn relevance_model(&self) -> &RelevanceModel;

    /// The document that the search was asked to follow; `None` if it does not exist for the caller.
    fn traced(&self) -> Option<Traced>;

    /// The document of a chunk that a function of this search returned.
    fn document_of(&self, chunk_id: u32) -> Option<u32>;

    /// Whether the chunk was not removed since the state that is searched.
    fn is_current(&self, chunk_id: u32) -> bool;

    /// Takes the features of a first page among all documents into account for the relevance of later searches.
    fn observe(&self, features: QueryFeatures);

    /// The rankings of the retrievers that the query's mode names, `depth` documents (or chunks, if the query groups by chunk) each, or as
    /// many as match. Equal scores in the order of the numbers.
    fn rankings(&self, depth: usize) -> impl Future<Output = Result<Rankings>> + Send;

    /// Bounds of BM25 for the query's words.
    fn bm25_bounds(&self) -> impl Future<Output = Result<Bm25Bounds>> + Send;

    /// The chunks that contain the rarest word of the query, if few do.
    fn rare_chunks(&self) -> impl Future<Output = Result<Vec<RareChunk>>> + Send;

    /// The exact dense scores of documents (or chunks) that only the lexical retriever found, each with its best chunk. Of a long document
    /// only chunks around the lexical one may be compared.
    fn dense_of(&self, ranked: &[BestChunk]) -> impl Future<Output = Result<Vec<BestChunk>>> + Send;

    /// The embeddings of chunks as int8, one after the other, each scaled by its largest value.
    fn int8_rows(&self, chunk_ids: &[u32]) -> impl Future<Output = Result<Vec<i8>>> + Send;

    /// The embeddings of chunks.
    fn embeddings(&self, chunk_ids: &[u32]) -> impl Future<Output = Result<Vec<Vec<f32>>>> + Send;

    /// The texts of chunks.
    fn texts(&self, chunk_ids: &[u32]) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// The smallest value of a metadata field in the documents of chunks.
    fn values(
        &self,
        chunk_ids: &[u32],
        field: &str,
    ) -> impl Future<Output = Result<Vec<Option<Value>>>> + Send;

    /// Where chunks stand.
    fn places(&self, chunk_ids: &[u32]) -> impl Future<Output = Result<Vec<ChunkPlace>>> + Send;

    /// Chunks with their texts and their documents.
    fn chunks(&self, chunk_ids: &[u32]) -> impl Future<Output = Result<Vec<FoundChunk>>> + Send;

    /// At most `count` chunks before and after each chunk, of the same document, in the order of the text.
    fn neighbours(
        &self,
        chunk_ids: &[u32],
        count: u32,
    ) -> impl Future<Output = Result<Vec<Vec<Neighbour>>>> + Send;

    /// The parts of the BM25 scores of chunks.
    fn explain(&self, chunk_ids: &[u32]) -> impl Future<Output = Result<Vec<ScoreParts>>> + Send;

    /// The documents of a set.
    fn documents(&self, set: DocumentSet<'_>) -> impl Future<Output = Result<Self::Documents>> + Send;

    /// The first `limit` documents of a set in the order of the keys and then of their numbers, each with its first chunk in the set; with all
    /// its chunks in the set, if the query groups by chunk.
    fn sorted(
        &self,
        documents: &Self::Documents,
        keys: &[SortKey],
        limit: usize,
    ) -> impl Future<Output = Result<Vec<ListedChunk>>> + Send;

    /// The number of documents, chunks or groups in a set; `None` of a set that is too large for the engine to count.
    fn count(
        &self,
        documents: &Self::Documents,
        group_by: &Grouping,
    ) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// Counts the values of a field in a set: most frequent first, then in the order of values.
    fn facet(
        &self,
        documents: &Self::Documents,
        facet: &FacetSpec,
    ) -> impl Future<Output = Result<Vec<ValueCount>>> + Send;
}

/// A search's facts of the collection before anything is ranked.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The last operation visible to the search.
    pub applied_seq: u64,
    /// See [`crate::IndexResult::shown_seq`].
    pub shown_seq: u64,
    /// Live chunks of the collection.
    pub live_chunks: u64,
    /// Those that exist for the caller.
    pub existing_chunks: u64,
    /// Those that pass the filter and the conditions of the query; `None` if there are neither.
    pub selected: Option<u64>,
    /// Whether chunks have embeddings.
    pub has_embeddings: bool,
    /// How long it took to compile the query and to evaluate the filter.
    pub prepared_in: Duration,
}

/// The text of a query as an engine analysed it.
#[derive(Debug, Clone, Copy)]
pub struct QueryWords<'a> {
    /// The terms that rank, including those that occur in no document.
    pub terms: &'a [QueryTerm],
    /// Words that occur nowhere, and what is searched instead.
    pub corrections: &'a [SpellingCorrection],
    /// The terms, and sequences of terms, that are searched beside the query.
    pub synonyms: &'a [String],
    /// Whether each prefix and wildcard stands for all terms that it matches.
    pub is_complete: bool,
}

impl<'a> QueryWords<'a> {
    /// Those of a query of the lexical index.
    pub fn of(query: &'a LexicalQuery) -> QueryWords<'a> {
        QueryWords {
            terms: &query.terms,
            corrections: &query.corrections,
            synonyms: &query.synonyms,
            is_complete: query.is_complete,
        }
    }
}

/// The document of [`crate::IndexQuery::trace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// Its number.
    pub document: u32,
    /// Whether one of its chunks passes the filter and the conditions of the query.
    pub is_selected: bool,
}

/// The rankings of both retrievers, best first; empty if the mode does not name the retriever.
#[derive(Debug, Default)]
pub struct Rankings {
    /// Of the lexical retriever.
    pub lexical: Vec<BestChunk>,
    /// Of the dense retriever.
    pub dense: Vec<BestChunk>,
    /// The time that the lexical retriever took.
    pub lexical_took: Duration,
    /// The time that the dense retriever took.
    pub dense_took: Duration,
}

/// Where a chunk stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkPlace {
    /// The id of its document.
    pub document_id: String,
    /// Position of the chunk in the document, from 0.
    pub chunk: u32,
}

/// A chunk and its document: the fields of [`crate::Hit`] of the same names.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundChunk {
    /// Where it stands.
    pub place: ChunkPlace,
    /// The title of its document.
    pub title: Option<String>,
    /// The metadata of its document, unchanged.
    pub metadata: String,
    /// The pages of its document, as they were given.
    pub pages: Option<String>,
    /// The version of its document.
    pub version: u64,
    /// Its first byte in the text of the document.
    pub start: usize,
    /// Its end there, exclusive.
    pub end: usize,
    /// Its text.
    pub text: String,
}

/// Which documents a set contains.
#[derive(Debug, Clone, Copy)]
pub enum DocumentSet<'a> {
    /// Those that pass the filter and the conditions of the query.
    Selected,
    /// Of these, those that contain a word of the query, and those that it names.
    Matching,
    /// Those of these chunks.
    Of(&'a [u32]),
    /// Both.
    MatchingOr(&'a [u32]),
}

/// A document, or chunk, in an order of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedChunk {
    /// The number of the document.
    pub document: u32,
    /// The chunk to show.
    pub chunk_id: u32,
}
