//! What the estimate of relevance takes from an index: a background learned from its rows, and the rankings of both legs.

use half::f16;
use weir_kernels::view;

use super::Inner;
use super::ranking::BestChunk;
use super::search::scored;
use super::snapshot::Snapshot;
use crate::relevance::{Background, Calibration, Evidence, Leg, SAMPLE_CHUNKS_MAX};
use crate::{IndexError, Mode, SearchRequest};

/// A background and how large the index was when it was learned.
#[derive(Debug)]
pub(crate) struct Learned {
    slots: u32,
    background: Option<Background>,
}

impl Learned {
    /// Learns from live chunks that are spread evenly over the index.
    pub(crate) fn from(snapshot: &Snapshot, dimension: usize) -> Learned {
        Learned {
            slots: snapshot.tombstones.slots(),
            background: Background::learn(&sample(snapshot, dimension)),
        }
    }

    /// Whether the index holds more than twice as much as when this was learned, or there was too little to learn from.
    pub(crate) fn is_outgrown_by(&self, snapshot: &Snapshot) -> bool {
        let slots = snapshot.tombstones.slots();
        slots > self.slots.saturating_mul(2) || self.background.is_none() && slots != self.slots
    }
}

fn sample(snapshot: &Snapshot, dimension: usize) -> Vec<Vec<f32>> {
    let Some(vectors) = &snapshot.files.vectors else { return Vec::new() };
    let halves = view::as_u16(&vectors.f16);
    let slots = u64::from(snapshot.tombstones.slots());
    let count = slots.min(SAMPLE_CHUNKS_MAX as u64);
    let places = (0..count).map(|place| (place * slots / count) as u32);
    places
        .filter(|&slot| snapshot.tombstones.is_live(slot))
        .filter_map(|slot| halves.get(slot as usize * dimension..(slot as usize + 1) * dimension))
        .map(|row| row.iter().map(|&half| f16::from_bits(half).to_f32()).collect())
        .collect()
}

/// What one search is judged with.
pub(crate) struct Judge {
    topicality: f32,
    pub(crate) calibration: Calibration,
}

impl Judge {
    pub(crate) fn of(inner: &Inner, embedding: Option<&[f32]>) -> Judge {
        let learned = inner.learned.load();
        let topicality = embedding.zip(learned.background.as_ref());
        Judge {
            topicality: topicality.map_or(0.0, |(embedding, background)| background.topicality(embedding)),
            calibration: **inner.calibration.load(),
        }
    }

    /// Of both legs' rankings, whole.
    pub(crate) fn evidence(
        &self,
        snapshot: &Snapshot,
        request: &SearchRequest,
        lexical: &[BestChunk],
        dense: &[BestChunk],
    ) -> Result<Evidence, IndexError> {
        let (lexical, dense) = (scored(lexical), scored(dense));
        let depth = request.depth.max(request.limit);
        let bm25_max = match request.mode {
            _ if lexical.is_empty() => 0.0,
            Mode::Hybrid | Mode::Lexical => snapshot.lexical.bm25_max(&request.text)?,
            Mode::Dense => 0.0,
        };
        let lexical = Leg { ranking: &lexical, is_cut: lexical.len() >= depth };
        let dense = Leg { ranking: &dense, is_cut: dense.len() >= depth };
        let (lexical, dense) = match request.mode {
            Mode::Hybrid => (Some(lexical), Some(dense)),
            Mode::Lexical => (Some(lexical), None),
            Mode::Dense => (None, Some(dense)),
        };
        Ok(Evidence::of(lexical, dense, bm25_max, self.topicality))
    }
}
