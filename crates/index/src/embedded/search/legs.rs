//! The two legs: each ranks documents, or chunks, by their best chunk.

use std::time::{Duration, Instant};

use super::Search;
use crate::embedded::dense;
use crate::embedded::ranking::{BestChunk, ScoredSlot, best_chunks};
use crate::embedded::threads;
use crate::{GroupBy, IndexError, Mode, RankedChunk, Ranking};

/// Both legs' rankings, each as deep as was asked for or as there are matches.
#[derive(Default)]
pub(super) struct Legs {
    pub(super) lexical: Vec<BestChunk>,
    pub(super) dense: Vec<BestChunk>,
}

impl Search<'_> {
    /// Ranks `depth` of each leg.
    pub(super) fn legs(&mut self, depth: usize) -> Result<Legs, IndexError> {
        let mode = self.request.mode;
        let is_both = mode == Mode::Hybrid && threads::share(self.snapshot.chunks() as usize);
        let none = || (Ok(Vec::new()), Duration::default());
        let (mut lexical, mut dense) = (none(), none());
        if is_both {
            // this thread begins at once, and only the longer leg waits for one that has to wake
            lexical = rayon::in_place_scope(|threads| {
                threads.spawn(|_| dense = self.timed_dense(depth));
                self.timed_lexical(depth)
            });
        } else {
            if mode != Mode::Dense {
                lexical = self.timed_lexical(depth);
            }
            if mode != Mode::Lexical {
                dense = self.timed_dense(depth);
            }
        }
        self.timings.lexical += lexical.1;
        self.timings.dense += dense.1;
        Ok(Legs { lexical: lexical.0?, dense: dense.0? })
    }

    fn timed_lexical(&self, depth: usize) -> (Result<Vec<BestChunk>, IndexError>, Duration) {
        let started = Instant::now();
        (self.lexical_leg(depth), started.elapsed())
    }

    fn timed_dense(&self, depth: usize) -> (Result<Vec<BestChunk>, IndexError>, Duration) {
        let started = Instant::now();
        (self.dense_leg(depth), started.elapsed())
    }

    fn lexical_leg(&self, depth: usize) -> Result<Vec<BestChunk>, IndexError> {
        let Some(query) = &self.query else { return Ok(Vec::new()) };
        let view = &self.snapshot.lexical;
        self.units_from(depth, |chunks| view.search(query, self.visible(), self.selection.as_ref(), chunks))
    }

    fn dense_leg(&self, depth: usize) -> Result<Vec<BestChunk>, IndexError> {
        let (Some(embedding), Some(vectors)) = (&self.request.embedding, &self.snapshot.files.vectors) else {
            return Ok(Vec::new());
        };
        let search = |chunks: usize| {
            let codes = &self.snapshot.codes;
            let found = dense::search(vectors, codes, embedding, self.visible(), chunks);
            found.ok_or_else(|| IndexError::damaged(self.engine.folder(), "file `vectors.f16` lacks a row"))
        };
        self.units_from(depth, search)
    }

    /// Ranks units by their best chunks: asks for more and more chunks until `depth` units are among them or there are
    /// no more.
    fn units_from<E>(
        &self,
        depth: usize,
        search: impl Fn(usize) -> Result<Vec<ScoredSlot>, E>,
    ) -> Result<Vec<BestChunk>, E> {
        let mut wanted = depth;
        loop {
            let chunks = search(wanted)?;
            chunks.iter().for_each(|chunk| self.snapshot.prefetch(chunk.slot));
            let best = best_chunks(&chunks, depth, |slot| self.unit_of(slot));
            if best.len() >= depth || chunks.len() < wanted {
                return Ok(best);
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    /// What a chunk counts for in rankings: itself, or its document, named by its first slot.
    pub(super) fn unit_of(&self, slot: u32) -> Option<u32> {
        match self.request.group_by {
            GroupBy::Chunk => Some(slot),
            GroupBy::Document | GroupBy::Field(_) => self.snapshot.document_of(slot),
        }
    }

    /// A leg's ranking as the reply shows it.
    pub(super) fn ranking(&self, leg: &[BestChunk]) -> Option<Ranking> {
        let best = leg.iter().take(self.request.limit).map(|best| {
            let chunk = self.snapshot.chunk(best.slot)?;
            let document_id = chunk.document.id.to_owned();
            Some(RankedChunk { document_id, chunk: chunk.record.chunk, score: best.score })
        });
        Some(Ranking { documents: leg.len(), best: best.collect::<Option<_>>()? })
    }
}
