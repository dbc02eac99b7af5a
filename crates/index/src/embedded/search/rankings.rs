//! The two retrievers: each ranks documents, or chunks, by their best chunk.

use std::time::{Duration, Instant};

use weir_ranking::{BestChunk, RetrievalMode, ScoredChunk, best_chunks};

use super::Search;
use crate::embedded::dense;
use crate::embedded::threads;
use crate::{Grouping, RankedChunk, Result, RetrieverRanking};

/// The rankings of both retrievers, as deep as requested or as there are matches.
#[derive(Default)]
pub(super) struct RetrieverRankings {
    pub(super) lexical: Vec<BestChunk>,
    pub(super) dense: Vec<BestChunk>,
}

impl Search<'_> {
    /// Ranks `depth` documents or chunks with each retriever.
    pub(super) fn rankings(&mut self, depth: usize) -> Result<RetrieverRankings> {
        let mode = self.request.mode;
        let is_both =
            mode == RetrievalMode::Hybrid && threads::use_threads(self.snapshot.live_chunks() as usize);
        let none = || (Ok(Vec::new()), Duration::default());
        let (mut lexical, mut dense) = (none(), none());
        if is_both {
            // this thread starts at once; only the slower retriever waits for another thread to wake
            lexical = rayon::in_place_scope(|threads| {
                threads.spawn(|_| dense = self.rank_dense_timed(depth));
                self.rank_lexical_timed(depth)
            });
        } else {
            if mode != RetrievalMode::Dense {
                lexical = self.rank_lexical_timed(depth);
            }
            if mode != RetrievalMode::Lexical {
                dense = self.rank_dense_timed(depth);
            }
        }
        self.timings.lexical += lexical.1;
        self.timings.dense += dense.1;
        Ok(RetrieverRankings { lexical: lexical.0?, dense: dense.0? })
    }

    fn rank_lexical_timed(&self, depth: usize) -> (Result<Vec<BestChunk>>, Duration) {
        let started = Instant::now();
        (self.rank_lexical(depth), started.elapsed())
    }

    fn rank_dense_timed(&self, depth: usize) -> (Result<Vec<BestChunk>>, Duration) {
        let started = Instant::now();
        (self.rank_dense(depth), started.elapsed())
    }

    fn rank_lexical(&self, depth: usize) -> Result<Vec<BestChunk>> {
        let Some(query) = &self.query else { return Ok(Vec::new()) };
        let view = &self.snapshot.lexical;
        let (selection, in_parallel) = (self.selection.as_ref(), threads::use_threads(view.entries()));
        Ok(self
            .units_from(depth, |chunks| view.search(query, self.visible(), selection, chunks, in_parallel))?)
    }

    fn rank_dense(&self, depth: usize) -> Result<Vec<BestChunk>> {
        let (Some(embedding), Some(vectors)) = (&self.request.embedding, &self.snapshot.files.vectors) else {
            return Ok(Vec::new());
        };
        let search = |chunks: usize| {
            let pq4 = &self.snapshot.pq4;
            let found = dense::search(vectors, pq4, embedding, self.visible(), chunks, self.is_restricted());
            found.ok_or_else(|| self.engine.missing_row())
        };
        self.units_from(depth, search)
    }

    /// Ranks units by their best chunks: requests more and more chunks until they belong to `depth` units, or there are no more.
    fn units_from<E>(
        &self,
        depth: usize,
        search: impl Fn(usize) -> Result<Vec<ScoredChunk>, E>,
    ) -> Result<Vec<BestChunk>, E> {
        let mut wanted = depth;
        loop {
            let chunks = search(wanted)?;
            chunks.iter().for_each(|chunk| self.snapshot.prefetch(chunk.chunk_id));
            let best = best_chunks(&chunks, depth, |chunk_id| self.unit_of(chunk_id));
            if best.len() >= depth || chunks.len() < wanted {
                return Ok(best);
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    /// The unit of a chunk in rankings: the chunk itself, or its document, identified by its first chunk id.
    pub(super) fn unit_of(&self, chunk_id: u32) -> Option<u32> {
        match self.request.group_by {
            Grouping::Chunk => Some(chunk_id),
            Grouping::Document | Grouping::Field(_) => self.snapshot.document_of(chunk_id),
        }
    }

    /// The ranking of a retriever for the result.
    pub(super) fn ranking(&self, retriever: &[BestChunk]) -> Option<RetrieverRanking> {
        let best = retriever.iter().take(self.request.limit).map(|best| {
            let chunk = self.snapshot.chunk(best.chunk_id)?;
            let document_id = chunk.document.id.to_owned();
            Some(RankedChunk { document_id, chunk: chunk.record.chunk, score: best.score })
        });
        Some(RetrieverRanking { documents: retriever.len(), best: best.collect::<Option<_>>()? })
    }
}
