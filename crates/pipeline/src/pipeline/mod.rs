//! The hit pipeline: from the rankings of an engine's two retrievers to the hits of a page.
//!
//! Fusion over documents (or chunks) yields candidates; their scores are smoothed over similar ones; documents that the query names come
//! first; postprocessing groups, deduplicates and diversifies; the page is cut and its texts are read. A search without a query lists all
//! selected documents in insertion order. Sorting by fields replaces the order of candidates.
//!
//! It is written once, over a [`Retriever`], and compiled for each engine: there is no dynamic call in it.

mod candidates;
mod exact;
mod hits;
mod listing;
mod named;
mod postprocess;
mod relevance;
mod retriever;
mod smoothed;
mod trace;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use weir_ranking::BestChunk;
use weir_ranking::relevance::{HitFeatures, QueryFeatures, SAMPLE_CHUNKS_MIN};

pub use relevance::RelevanceModel;
pub use retriever::{
    ChunkPlace, DocumentSet, FoundChunk, ListedChunk, QueryWords, Rankings, Retriever, Scope, Traced,
};

use crate::{
    FusionFunction, Grouping, IndexError, IndexQuery, IndexResult, MatchCount, RankedChunk, Result,
    RetrieverRanking, StageTimings, ValueCount,
};
use candidates::Candidates;
use postprocess::Deduplicated;
pub use postprocess::cosine;

/// Searches. `request` is what `retriever` was made for.
///
/// # Errors
/// Those of the retriever.
pub async fn search<R: Retriever>(retriever: &R, request: &IndexQuery) -> Result<IndexResult> {
    Search::new(retriever, request).run().await
}

/// The features of the document that `retriever` follows: see the engine's function of this name.
///
/// # Errors
/// Those of the retriever.
pub async fn features<R: Retriever>(retriever: &R, request: &IndexQuery) -> Result<Option<HitFeatures>> {
    let Some(traced) = retriever.traced().filter(|_| !request.is_listing()) else { return Ok(None) };
    let mut search = Search::new(retriever, request);
    let found = search.candidates(1).await?;
    let is_it = |chunk_id| retriever.document_of(chunk_id) == Some(traced.document);
    let candidate = found.list.iter().find(|candidate| is_it(candidate.chunk_id));
    Ok(candidate.and_then(|candidate| search.features_of(candidate)))
}

/// The result of work over an engine in this process, which never waits: polls it once.
///
/// # Errors
/// Those of the work; [`IndexError::Interrupted`] if it waits.
pub fn completed<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(IndexError::Interrupted),
    }
}

/// The state of a running search.
struct Search<'a, R> {
    retriever: &'a R,
    request: &'a IndexQuery,
    /// Features of the first window of candidates.
    query_features: Option<QueryFeatures>,
    /// Units that a rare word of the query points out.
    exact_units: Vec<u32>,
    /// The requested fusion, with the weights of this query.
    fusion: FusionFunction,
    /// The best comparable score of that window.
    best: f32,
    timings: StageTimings,
}

/// The result before texts are read.
struct Outcome {
    candidates: Candidates,
    page: Vec<Deduplicated>,
    total: MatchCount,
    facets: Vec<Vec<ValueCount>>,
}

impl<'a, R: Retriever> Search<'a, R> {
    fn new(retriever: &'a R, request: &'a IndexQuery) -> Search<'a, R> {
        let timings = StageTimings { select: retriever.scope().prepared_in, ..StageTimings::default() };
        Search {
            retriever,
            request,
            query_features: None,
            exact_units: Vec::new(),
            fusion: request.fusion,
            best: 0.0,
            timings,
        }
    }

    async fn run(mut self) -> Result<IndexResult> {
        let outcome = if self.request.is_listing() { self.list().await? } else { self.rank().await? };
        self.observe();
        let trace = match &self.request.trace {
            Some(_) => Some(self.trace(&outcome).await?),
            None => None,
        };
        let started = Instant::now();
        let hits = self.hits(&outcome).await?;
        let lexical = self.ranking(&outcome.candidates.lexical).await?;
        let dense = self.ranking(&outcome.candidates.dense).await?;
        self.timings.fetch = started.elapsed();
        let (scope, words) = (self.retriever.scope(), self.retriever.words());
        let terms = words.iter().flat_map(|words| words.terms);
        Ok(IndexResult {
            hits,
            total: outcome.total,
            facets: outcome.facets,
            exact_facets: self.has_exact_facets(),
            lexical,
            dense,
            is_smoothed: self.is_smoothed() && self.ranks_by_relevance(),
            fusion: self.fusion,
            corrections: words.map_or_else(Vec::new, |words| words.corrections.to_vec()),
            terms: terms.map(|term| term.text.clone()).collect(),
            synonyms: words.map_or_else(Vec::new, |words| words.synonyms.to_vec()),
            applied_seq: scope.applied_seq,
            shown_seq: scope.shown_seq,
            existing_chunks: scope.existing_chunks,
            selected: scope.selected,
            trace,
            timings: self.timings,
        })
    }

    /// Whether terms or an embedding rank the hits. Relevance is undefined for listings and for orders by fields.
    fn ranks_by_relevance(&self) -> bool {
        let has_terms = self.retriever.words().is_some_and(|words| !words.terms.is_empty());
        self.request.sort.is_empty() && (has_terms || self.request.embedding.is_some())
    }

    /// Lets the engine learn from the first page of a search among all documents.
    fn observe(&self) {
        let scope = self.retriever.scope();
        let is_first = self.request.offset == 0 && self.request.as_of.is_none();
        let is_of_all = scope.selected.is_none() && self.request.group_by == Grouping::Document;
        let has_enough = scope.live_chunks >= SAMPLE_CHUNKS_MIN as u64;
        if let Some(features) =
            self.query_features.filter(|_| is_first && is_of_all && has_enough && self.ranks_by_relevance())
        {
            self.retriever.observe(features);
        }
    }

    /// The unit of a chunk in rankings: the chunk itself, or its document.
    fn unit_of(&self, chunk_id: u32) -> Option<u32> {
        match self.request.group_by {
            Grouping::Chunk => Some(chunk_id),
            Grouping::Document | Grouping::Field(_) => self.retriever.document_of(chunk_id),
        }
    }

    /// The ranking of a retriever for the result.
    async fn ranking(&self, retriever: &[BestChunk]) -> Result<RetrieverRanking> {
        let best = &retriever[..retriever.len().min(self.request.limit)];
        let chunk_ids: Vec<u32> = best.iter().map(|best| best.chunk_id).collect();
        let places = self.retriever.places(&chunk_ids).await?.into_iter().zip(best);
        let best = places.map(|(ChunkPlace { document_id, chunk }, best)| RankedChunk {
            document_id,
            chunk,
            score: best.score,
        });
        Ok(RetrieverRanking { documents: retriever.len(), best: best.collect() })
    }
}

/// Adds the time of `work` to `duration`.
async fn timed<T>(duration: &mut Duration, work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let result = work.await;
    *duration += start.elapsed();
    result
}
