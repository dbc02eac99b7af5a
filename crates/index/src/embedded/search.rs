//! One search over one snapshot: two legs, fusion over documents, and the hits' texts.

use std::time::{Duration, Instant};

use weir_policy::{Caller, Filter};

use super::ranking::{BestChunk, ScoredSlot, best_chunks};
use super::relevance::Judge;
use super::snapshot::Snapshot;
use super::{Embedded, dense};
use crate::fusion::{self, Fused, Scored, Weighted};
use crate::relevance::Evidence;
use crate::{
    Fusion, Hit, IndexError, LegRank, Mode, RankedChunk, Ranking, SearchReply, SearchRequest, Timings,
};

impl Embedded {
    /// See [`crate::Engine::search`]. Blocks the thread.
    pub fn search(&self, caller: &Caller, request: &SearchRequest) -> Result<SearchReply, IndexError> {
        match caller.filter {
            Filter::Everything => {}
        }
        let embedding = self.check_request(request)?;
        let snapshot = self.snapshot();
        let judge = Judge::of(&self.inner, embedding);
        snapshot.search(request, embedding, &judge).and_then(|found| {
            found.ok_or_else(|| IndexError::damaged(self.folder(), "a slot does not lead to its document"))
        })
    }

    /// The embedding to search with, if the mode asks for one.
    fn check_request<'a>(&self, request: &'a SearchRequest) -> Result<Option<&'a [f32]>, IndexError> {
        request.fusion.check()?;
        let dimension = self.settings().dimension;
        match (request.mode, &request.embedding) {
            (Mode::Lexical, _) => Ok(None),
            (Mode::Hybrid | Mode::Dense, _) if dimension == 0 => Err(IndexError::TextOnly),
            (Mode::Hybrid | Mode::Dense, None) => Err(IndexError::EmbeddingMissing { dimension }),
            (Mode::Hybrid | Mode::Dense, Some(embedding)) => {
                dense::check(embedding, dimension)?;
                Ok(Some(embedding))
            }
        }
    }
}

/// Both legs' rankings of documents.
struct Legs {
    lexical: Vec<BestChunk>,
    dense: Vec<BestChunk>,
}

/// A document of the final ranking, and the chunk that shows it.
struct Place {
    document: u32,
    slot: u32,
    score: f32,
}

impl Snapshot {
    /// `None` when the files contradict each other.
    fn search(
        &self,
        request: &SearchRequest,
        embedding: Option<&[f32]>,
        judge: &Judge,
    ) -> Result<Option<SearchReply>, IndexError> {
        let depth = request.depth.max(request.limit);
        let mut timings = Timings::default();
        let lexical = timed(&mut timings.lexical, || match request.mode {
            Mode::Hybrid | Mode::Lexical => self.lexical_leg(&request.text, depth),
            Mode::Dense => Ok(Vec::new()),
        })?;
        let dense = timed(&mut timings.dense, || self.dense_leg(embedding, depth));
        let legs = Legs { lexical, dense };
        let places = timed(&mut timings.fuse, || legs.places(request));
        let evidence = judge.evidence(self, request, &legs.lexical, &legs.dense)?;
        let fetched = timed(&mut timings.fetch, || {
            let hits = places.iter().map(|place| self.hit(place, &legs, &evidence, judge));
            let hits = hits.collect::<Option<Vec<Hit>>>()?;
            let lexical = self.ranking(&legs.lexical, request.limit)?;
            let dense = self.ranking(&legs.dense, request.limit)?;
            Some((hits, lexical, dense))
        });
        Ok(fetched.map(|(hits, lexical, dense)| SearchReply { hits, lexical, dense, timings }))
    }

    fn lexical_leg(&self, text: &str, depth: usize) -> Result<Vec<BestChunk>, IndexError> {
        self.documents_from(depth, |chunks| self.lexical.search(text, &self.tombstones, chunks))
    }

    fn dense_leg(&self, embedding: Option<&[f32]>, depth: usize) -> Vec<BestChunk> {
        let (Some(embedding), Some(vectors)) = (embedding, &self.files.vectors) else { return Vec::new() };
        let search = |chunks| {
            Ok::<_, std::convert::Infallible>(dense::search(
                vectors,
                &self.signs,
                embedding,
                &self.tombstones,
                chunks,
            ))
        };
        self.documents_from(depth, search).unwrap_or_else(|never| match never {})
    }

    /// Ranks documents by their best chunks: asks for more and more chunks until `depth` documents are among them or
    /// there are no more.
    fn documents_from<E>(
        &self,
        depth: usize,
        search: impl Fn(usize) -> Result<Vec<ScoredSlot>, E>,
    ) -> Result<Vec<BestChunk>, E> {
        let mut wanted = depth;
        loop {
            let chunks = search(wanted)?;
            let best = best_chunks(&chunks, depth, |slot| self.document_of(slot));
            if best.len() >= depth || chunks.len() < wanted {
                return Ok(best);
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    fn hit(&self, place: &Place, legs: &Legs, evidence: &Evidence, judge: &Judge) -> Option<Hit> {
        let chunk = self.chunk(place.slot)?;
        let (lexical, dense) = (rank_in(&legs.lexical, place.document), rank_in(&legs.dense, place.document));
        let features = evidence.features(lexical.map(|leg| leg.score), dense.map(|leg| leg.score));
        Some(Hit {
            document_id: chunk.document.id.to_owned(),
            title: chunk.document.title.map(str::to_owned),
            metadata: chunk.document.metadata.to_owned(),
            version: chunk.document.version,
            chunk: chunk.record.chunk,
            start: usize::try_from(chunk.record.start).ok()?,
            end: usize::try_from(chunk.record.end).ok()?,
            text: chunk.text.to_owned(),
            score: place.score,
            relevance: judge.calibration.relevance(&features),
            features,
            lexical,
            dense,
        })
    }

    fn ranking(&self, leg: &[BestChunk], limit: usize) -> Option<Ranking> {
        let best = leg.iter().take(limit).map(|best| {
            let chunk = self.chunk(best.slot)?;
            let document_id = chunk.document.id.to_owned();
            Some(RankedChunk { document_id, chunk: chunk.record.chunk, score: best.score })
        });
        Some(Ranking { documents: leg.len(), best: best.collect::<Option<_>>()? })
    }
}

impl Legs {
    fn places(&self, request: &SearchRequest) -> Vec<Place> {
        match request.mode {
            Mode::Lexical => places_of(&self.lexical, request.limit),
            Mode::Dense => places_of(&self.dense, request.limit),
            Mode::Hybrid => {
                let fused = self.fuse(request.fusion, request.limit);
                fused.into_iter().filter_map(|fused| self.place(fused)).collect()
            }
        }
    }

    /// Dense comes last, so that it wins where both legs have an equal share.
    fn fuse(&self, fusion: Fusion, limit: usize) -> Vec<Fused> {
        let (lexical, dense) = (scored(&self.lexical), scored(&self.dense));
        let weighted = |lexical_weight, dense_weight| {
            [
                Weighted { ranking: &lexical, weight: lexical_weight },
                Weighted { ranking: &dense, weight: dense_weight },
            ]
        };
        match fusion {
            Fusion::ReciprocalRank { k, lexical, dense } => {
                fusion::reciprocal_rank(&weighted(lexical, dense), k, limit)
            }
            Fusion::Convex { lexical, dense } => fusion::convex(&weighted(lexical, dense), limit),
        }
    }

    fn place(&self, fused: Fused) -> Option<Place> {
        let leg = if fused.strongest == 0 { &self.lexical } else { &self.dense };
        let best = leg.iter().find(|best| best.document == fused.document)?;
        Some(Place { document: fused.document, slot: best.slot, score: fused.score })
    }
}

fn places_of(leg: &[BestChunk], limit: usize) -> Vec<Place> {
    leg.iter()
        .take(limit)
        .map(|&BestChunk { document, slot, score }| Place { document, slot, score })
        .collect()
}

pub(super) fn scored(leg: &[BestChunk]) -> Vec<Scored> {
    leg.iter().map(|best| Scored { document: best.document, score: best.score }).collect()
}

fn rank_in(leg: &[BestChunk], document: u32) -> Option<LegRank> {
    let place = leg.iter().position(|best| best.document == document)?;
    Some(LegRank { rank: place as u32 + 1, score: leg[place].score })
}

fn timed<T>(duration: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *duration = start.elapsed();
    result
}
