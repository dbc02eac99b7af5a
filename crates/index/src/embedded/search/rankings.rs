//! The two retrievers: each ranks documents, or chunks, by their best chunk.

use std::ops::Range;
use std::time::{Duration, Instant};

use weir_ranking::{BestChunk, RetrievalMode, ScoredChunk, best_chunks};

use super::SnapshotSearch;
use crate::embedded::dense;
use crate::embedded::threads;
use crate::pipeline::Rankings;
use crate::{Grouping, Result};

/// Chunks before and after the best one that are compared with the query, of a document that only the lexical retriever found.
const CHUNKS_AROUND: u32 = 128;

impl SnapshotSearch<'_> {
    /// Ranks `depth` documents or chunks with each retriever.
    pub(super) fn rank(&self, depth: usize) -> Result<Rankings> {
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
        let (lexical_took, dense_took) = (lexical.1, dense.1);
        Ok(Rankings { lexical: lexical.0?, dense: dense.0?, lexical_took, dense_took })
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

    /// The best chunks of ranked units by the query's embedding.
    pub(super) fn best_by_embedding(&self, ranked: &[BestChunk]) -> Result<Vec<BestChunk>> {
        let (Some(embedding), Some(vectors)) = (&self.request.embedding, &self.snapshot.files.vectors) else {
            return Ok(Vec::new());
        };
        let visible = self.visible();
        let chunks = ranked
            .iter()
            .flat_map(|best| self.chunks_around(best))
            .filter(|&chunk_id| visible.contains(chunk_id))
            .map(|chunk_id| ScoredChunk { chunk_id, score: 0.0 })
            .collect();
        let best = dense::best_of_documents(vectors, embedding, chunks, |chunk_id| self.unit_of(chunk_id));
        best.ok_or_else(|| self.engine.missing_row())
    }

    /// The chunks of a ranked unit; of a long document those around its best chunk.
    fn chunks_around(&self, best: &BestChunk) -> Range<u32> {
        let chunk_id = best.chunk_id;
        if self.request.group_by == Grouping::Chunk {
            return chunk_id..chunk_id + 1;
        }
        let first = best.document.max(chunk_id.saturating_sub(CHUNKS_AROUND));
        let is_of_document = |chunk_id: &u32| self.snapshot.document_of(*chunk_id) == Some(best.document);
        let after = (chunk_id + 1..=chunk_id.saturating_add(CHUNKS_AROUND)).take_while(is_of_document);
        first..after.last().unwrap_or(chunk_id) + 1
    }

    /// The int8 rows of chunks.
    pub(super) fn rows_of(&self, chunk_ids: &[u32]) -> Result<Vec<i8>> {
        let Some(vectors) = &self.snapshot.files.vectors else { return Ok(Vec::new()) };
        let rows = dense::int8_rows(vectors, self.engine.settings().dimension, chunk_ids.iter().copied());
        rows.ok_or_else(|| self.engine.missing_row())
    }
}
