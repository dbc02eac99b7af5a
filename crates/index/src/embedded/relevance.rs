//! What the estimate of relevance takes from an index: a background learned from its rows, and the rankings of both legs.

use super::Inner;
use super::lexical::LexicalQuery;
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
    if dimension == 0 {
        return Vec::new();
    }
    let slots = u64::from(snapshot.tombstones.slots());
    let count = slots.min(SAMPLE_CHUNKS_MAX as u64);
    let places = (0..count).map(|place| (place * slots / count) as u32);
    places
        .filter(|&slot| snapshot.tombstones.is_live(slot))
        .filter_map(|slot| snapshot.embedding(slot))
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
        query: Option<&LexicalQuery>,
        lexical: &[BestChunk],
        dense: &[BestChunk],
    ) -> Result<Evidence, IndexError> {
        let (lexical, dense) = (scored(lexical), scored(dense));
        let depth = request.depth.max(1);
        let bm25_max = match query {
            Some(query) if !lexical.is_empty() => snapshot.lexical.bm25_max(query)?,
            Some(_) | None => 0.0,
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

#[cfg(test)]
mod tests {
    use weir_policy::Caller;

    use crate::embedded::Embedded;
    use crate::query::Query;
    use crate::{Change, EngineSettings, Hit, IndexedChunk, IndexedDocument, Mode, SearchRequest};

    fn put(number: u32, embedding: Vec<f32>) -> Change {
        let text = format!("{} number {number}", if number == 0 { "weir" } else { "stone" });
        let chunk = IndexedChunk { start: 0, end: text.len(), text, embedding: Some(embedding) };
        let (id, metadata) = (number.to_string(), String::new());
        Change::Put(IndexedDocument { id, version: 1, title: None, metadata, chunks: vec![chunk] })
    }

    /// An engine whose `count` embeddings lie around one axis.
    fn engine(folder: &std::path::Path, count: u32) -> Embedded {
        let settings = EngineSettings {
            dimension: 2,
            language: weir_text::Language::English,
            fingerprint: String::new(),
            writer_memory_bytes: 0,
        };
        let (engine, _) = Embedded::open(folder, settings, u64::MAX).unwrap();
        let angle = |number: u32| (number % 7) as f32 * 0.1;
        let around = |number| put(number, vec![angle(number).cos(), angle(number).sin()]);
        engine.apply((0..count).map(around).collect(), 1).unwrap();
        engine
    }

    fn search(engine: &Embedded, text: &str, embedding: [f32; 2], mode: Mode) -> Vec<Hit> {
        let query = Query::Words(text.to_owned());
        let request = SearchRequest::new(mode, Some(query), Some(embedding.to_vec()), 5);
        engine.search(&Caller::all_powerful(), &request).unwrap().hits
    }

    #[test]
    fn what_is_learned_is_the_same_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let first = engine(folder.path(), 64);
        let learned = first.inner.learned.load().background.clone();
        assert!(learned.is_some());
        drop(first);
        let again = engine(folder.path(), 0);
        assert_eq!(again.inner.learned.load().background, learned);
    }

    #[test]
    fn it_is_learned_again_when_the_index_has_doubled_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let slots = || engine.inner.learned.load().slots;
        assert_eq!(slots(), 64);
        let more = |from: u32, to: u32| (from..to).map(|number| put(number, vec![0.0, 1.0])).collect();
        engine.apply(more(64, 128), 2).unwrap();
        assert_eq!(slots(), 64);
        engine.apply(more(128, 129), 3).unwrap();
        assert_eq!(slots(), 129);
    }

    #[test]
    fn a_query_on_the_subject_is_answered_and_one_off_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let on = search(&engine, "weir", [1.0, 0.0], Mode::Hybrid);
        assert_eq!(on[0].document_id, "0");
        assert!(on[0].relevance.unwrap() > 0.5 && on[0].features.unwrap().gap == 0.0, "{:?}", on[0]);
        assert!(on[1].relevance < on[0].relevance);
        let off = search(&engine, "zebra", [0.0, -1.0], Mode::Hybrid);
        assert!(off.iter().all(|hit| hit.relevance.unwrap() < 0.01), "{off:?}");
        let words = search(&engine, "zebra stone", [0.0, -1.0], Mode::Lexical);
        assert!(words[0].relevance < search(&engine, "weir", [1.0, 0.0], Mode::Lexical)[0].relevance);
    }

    #[test]
    fn relevance_does_not_depend_on_how_many_hits_are_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let query = Query::Words("stone number 5".to_owned());
        let request =
            |limit| SearchRequest::new(Mode::Hybrid, Some(query.clone()), Some(vec![0.6, 0.8]), limit);
        let hits = |limit| engine.search(&Caller::all_powerful(), &request(limit)).unwrap().hits;
        assert_eq!(hits(1)[0].relevance, hits(20)[0].relevance);
    }

    #[test]
    fn the_features_of_a_document_are_those_that_its_hit_has() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let features = |text: &str, mode, id: &str| {
            let query = Some(Query::Words(text.to_owned()));
            let request = SearchRequest::new(mode, query, Some(vec![1.0, 0.0]), 1);
            engine.features(&Caller::all_powerful(), &request, id).unwrap()
        };
        for mode in [Mode::Hybrid, Mode::Lexical, Mode::Dense] {
            let hits = search(&engine, "stone number 5", [1.0, 0.0], mode);
            assert_eq!(hits.len(), 5);
            for hit in hits {
                assert_eq!(features("stone number 5", mode, &hit.document_id), hit.features, "{hit:?}");
            }
        }
        assert_eq!(features("weir", Mode::Lexical, "1"), None, "it holds no word of the query");
        assert_eq!(features("weir", Mode::Hybrid, "64"), None, "there is no such document");
    }

    #[test]
    fn feedback_refines_the_relevance_of_later_hits() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let before = search(&engine, "weir", [1.0, 0.0], Mode::Hybrid)[0].clone();
        let said = crate::relevance::Feedback { features: before.features.unwrap(), is_relevant: true };
        engine.refine_relevance(&[said; 100]);
        assert!(search(&engine, "weir", [1.0, 0.0], Mode::Hybrid)[0].relevance.unwrap() > 0.9);
        engine.refine_relevance(&[]);
        assert_eq!(search(&engine, "weir", [1.0, 0.0], Mode::Hybrid)[0].relevance, before.relevance);
    }
}
