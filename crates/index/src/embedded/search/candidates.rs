//! From both legs' rankings to one list of candidates.

use hashbrown::HashSet;

use super::legs::Legs;
use super::{Search, timed};
use crate::embedded::ranking::BestChunk;
use crate::fusion::{self, Fused, Scored, Weighted};
use crate::{Fusion, IndexError, Mode};

/// Each window is so many times deeper than the one before it.
const WINDOW_FACTOR: usize = 10;

/// A document, or chunk, that may become a hit, and the chunk that shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// The document's or the chunk's number.
    pub(super) unit: u32,
    /// The chunk that shows it.
    pub(super) slot: u32,
    pub(super) score: f32,
    /// What the lexical leg gave to the score.
    pub(super) lexical: f32,
    /// What the dense leg gave to the score.
    pub(super) dense: f32,
}

/// The candidates of a search, best first, and the rankings that they come from.
#[derive(Default)]
pub(super) struct Candidates {
    pub(super) list: Vec<Candidate>,
    pub(super) lexical: Vec<BestChunk>,
    pub(super) dense: Vec<BestChunk>,
    /// Whether nothing else matches.
    pub(super) is_all: bool,
}

impl Search<'_> {
    /// The candidates of windows of `depth`, ten times as many, and so on, until there are `wanted` of them or no more.
    ///
    /// Those of a deeper window come behind those of the ones before it, so that the order of the first hits does not
    /// depend on how many are asked for.
    pub(super) fn candidates(&mut self, wanted: usize) -> Result<Candidates, IndexError> {
        let mut candidates = Candidates::default();
        let mut depth = self.request.depth.max(1);
        if self.request.mode == Mode::Lexical {
            // one ranking alone is the same at any depth
            depth = depth.max(wanted);
        }
        loop {
            let legs = self.legs(depth)?;
            if self.evidence.is_none() {
                let (lexical, dense) = (&legs.lexical, &legs.dense);
                let query = self.query.as_ref();
                self.evidence =
                    Some(self.judge.evidence(self.snapshot, self.request, query, lexical, dense)?);
            }
            let is_last = legs.lexical.len() < depth && legs.dense.len() < depth;
            let (request, fuse) = (self.request, &mut self.timings.fuse);
            timed(fuse, || candidates.extend(legs, request.mode, request.fusion));
            if candidates.list.len() >= wanted || is_last {
                candidates.is_all = is_last;
                return Ok(candidates);
            }
            depth = depth.saturating_mul(WINDOW_FACTOR);
        }
    }
}

impl Candidates {
    fn extend(&mut self, legs: Legs, mode: Mode, fusion: Fusion) {
        let found = match mode {
            Mode::Lexical => {
                as_candidates(&legs.lexical, |one| Candidate { lexical: one.score, ..one }).collect()
            }
            Mode::Dense => as_candidates(&legs.dense, |one| Candidate { dense: one.score, ..one }).collect(),
            Mode::Hybrid => {
                let fused = fuse(&legs, fusion, legs.lexical.len() + legs.dense.len());
                fused.into_iter().map(|fused| legs.candidate(fused)).collect()
            }
        };
        (self.lexical, self.dense) = (legs.lexical, legs.dense);
        if self.list.is_empty() {
            self.list = found;
            return;
        }
        let known: HashSet<u32> = self.list.iter().map(|candidate| candidate.unit).collect();
        let worst = self.list.last().map_or(f32::MAX, |last| last.score);
        let behind = found.into_iter().filter(|candidate| !known.contains(&candidate.unit));
        self.list
            .extend(behind.map(|candidate| Candidate { score: candidate.score.min(worst), ..candidate }));
    }
}

impl Legs {
    /// Shown by the chunk of the leg with the larger share.
    fn candidate(&self, fused: Fused) -> Candidate {
        let Fused { document, score, strongest, largest, place } = fused;
        let rest = score - largest;
        let (leg, lexical, dense) =
            if strongest == 0 { (&self.lexical, largest, rest) } else { (&self.dense, rest, largest) };
        Candidate { unit: document, slot: leg[place].slot, score, lexical, dense }
    }
}

/// Dense comes last, so that it wins where both legs have an equal share.
fn fuse(legs: &Legs, fusion: Fusion, limit: usize) -> Vec<Fused> {
    let (lexical, mut dense) = (scored(&legs.lexical), scored(&legs.dense));
    // BM25 says itself what nothing is worth; a model's cosines don't
    fusion::spread(&mut dense);
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

/// `whole` gives the leg its share, which is all of the score.
fn as_candidates(
    leg: &[BestChunk],
    whole: impl Fn(Candidate) -> Candidate,
) -> impl Iterator<Item = Candidate> {
    leg.iter().map(move |&BestChunk { document, slot, score }| {
        whole(Candidate { unit: document, slot, score, lexical: 0.0, dense: 0.0 })
    })
}

pub(in crate::embedded) fn scored(leg: &[BestChunk]) -> Vec<Scored> {
    leg.iter().map(|best| Scored { document: best.document, score: best.score }).collect()
}
