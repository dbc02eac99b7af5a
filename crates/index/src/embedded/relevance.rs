//! What the estimate of relevance takes from an index: a background learned from its rows, and the rankings of both legs.

use std::path::{Path, PathBuf};

use super::lexical::LexicalQuery;
use super::ranking::BestChunk;
use super::search::scored;
use super::snapshot::Snapshot;
use super::{Inner, lock};
use crate::relevance::{Background, Calibration, Evidence, Leg, SAMPLE_CHUNKS_MAX, Usual};
use crate::{IndexError, Mode, SearchRequest};

const USUAL: &str = "usual";
const USUAL_NEW: &str = "usual.new";

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

/// What the collection's searches usually find, and the file `usual` that keeps it. Without a sync: what is lost is learned
/// again from a few searches.
#[derive(Debug)]
pub(crate) struct UsualFile {
    pub(crate) usual: Usual,
    /// What the file holds.
    kept: Usual,
    folder: PathBuf,
}

impl UsualFile {
    /// Starts anew where there is no file, or none that can be read.
    pub(crate) fn read(folder: &Path) -> UsualFile {
        let bytes = std::fs::read(folder.join(USUAL)).ok();
        let usual = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).filter(Usual::is_sound);
        let usual = usual.unwrap_or_default();
        UsualFile { usual, kept: usual, folder: folder.to_owned() }
    }

    /// Takes up a search, and keeps what comes of it when that makes a difference: often at first, then rarely.
    pub(crate) fn learn(&mut self, evidence: &Evidence) {
        evidence.teach(&mut self.usual);
        if self.usual.has_moved_from(&self.kept) {
            // a search does not fail over it
            let _ = self.keep();
        }
    }

    /// Writes the file, if it holds anything else.
    pub(crate) fn keep(&mut self) -> Result<(), IndexError> {
        if self.usual == self.kept {
            return Ok(());
        }
        let temporary = self.folder.join(USUAL_NEW);
        let bytes = serde_json::to_vec(&self.usual).unwrap_or_default();
        let written = std::fs::write(&temporary, bytes)
            .and_then(|()| std::fs::rename(&temporary, self.folder.join(USUAL)));
        written.map_err(IndexError::file("write", &temporary))?;
        self.kept = self.usual;
        Ok(())
    }
}

/// What one search is judged with.
pub(crate) struct Judge {
    topicality: f32,
    usual: Usual,
    pub(crate) calibration: Calibration,
}

impl Judge {
    pub(crate) fn of(inner: &Inner, embedding: Option<&[f32]>) -> Judge {
        let learned = inner.learned.load();
        let topicality = embedding.zip(learned.background.as_ref());
        Judge {
            topicality: topicality.map_or(0.0, |(embedding, background)| background.topicality(embedding)),
            calibration: **inner.calibration.load(),
            usual: lock(&inner.usual).usual,
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
        Ok(Evidence::of(lexical, dense, bm25_max, self.topicality, &self.usual))
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::Caller;

    use super::{USUAL, Usual};
    use crate::embedded::Embedded;
    use crate::query::Query;
    use crate::{Change, EngineSettings, GroupBy, Hit, IndexedChunk, IndexedDocument, Mode, SearchRequest};

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

    fn request(text: &str, embedding: [f32; 2], mode: Mode) -> SearchRequest {
        SearchRequest::new(mode, Some(Query::Words(text.to_owned())), Some(embedding.to_vec()), 5)
    }

    /// By chunks, from which the collection doesn't learn.
    fn search(engine: &Embedded, text: &str, embedding: [f32; 2], mode: Mode) -> Vec<Hit> {
        let request = SearchRequest { group_by: GroupBy::Chunk, ..request(text, embedding, mode) };
        engine.search(&Caller::system(), &request).unwrap().hits
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
        let by_chunks = request("stone number 5", [0.6, 0.8], Mode::Hybrid);
        let by_chunks = SearchRequest { group_by: GroupBy::Chunk, ..by_chunks };
        let request = |limit| SearchRequest { limit, ..by_chunks.clone() };
        let hits = |limit| engine.search(&Caller::system(), &request(limit)).unwrap().hits;
        assert_eq!(hits(1)[0].relevance, hits(20)[0].relevance);
    }

    #[test]
    fn the_features_of_a_document_are_those_that_its_hit_has() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let features = |text: &str, mode, id: &str| {
            let request = request(text, [1.0, 0.0], mode);
            engine.features(&Caller::system(), &request, id).unwrap()
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

    fn usual(engine: &Embedded) -> Usual {
        engine.inner.usual.lock().unwrap().usual
    }

    #[test]
    fn a_collection_learns_from_its_searches_and_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = engine(folder.path(), 64);
        let asked = request("stone number 5", [1.0, 0.0], Mode::Hybrid);
        let ask =
            |engine: &Embedded| engine.search(&Caller::system(), &asked).unwrap().hits[1].relevance;
        let before = ask(&first).unwrap();
        assert!((ask(&first).unwrap() - before).abs() > 0.05, "{before:?}");
        for _ in 0..50 {
            ask(&first);
        }
        let learned = usual(&first);
        drop(first);
        let again = engine(folder.path(), 0);
        assert!(!usual(&again).has_moved_from(&learned), "{:?} {learned:?}", usual(&again));
        assert!(usual(&again).has_moved_from(&Usual::default()));
        ask(&again);
        let learned = usual(&again);
        again.close().unwrap();
        drop(again);
        assert_eq!(usual(&engine(folder.path(), 0)), learned, "exactly, once it was closed");
        std::fs::write(folder.path().join(USUAL), "{\"cosine\":").unwrap();
        assert_eq!(usual(&engine(folder.path(), 0)), Usual::default(), "what can't be read is learned again");
    }

    #[test]
    fn what_cannot_be_kept_stops_no_search_and_is_said_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        std::fs::create_dir(folder.path().join(super::USUAL_NEW)).unwrap();
        let request = request("stone number 5", [1.0, 0.0], Mode::Hybrid);
        assert_eq!(engine.search(&Caller::system(), &request).unwrap().hits.len(), 5);
        assert!(engine.close().is_err());
    }

    #[test]
    fn only_first_pages_of_whole_collections_teach() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let request = request("stone number 5", [1.0, 0.0], Mode::Hybrid);
        let teaches = |change: fn(&mut SearchRequest)| {
            let before = usual(&engine);
            let mut request = request.clone();
            change(&mut request);
            engine.search(&Caller::system(), &request).unwrap();
            usual(&engine) != before
        };
        assert!(teaches(|_| {}));
        assert!(!teaches(|request| request.offset = 5));
        assert!(!teaches(|request| request.at = Some(1)));
        assert!(!teaches(|request| request.group_by = GroupBy::Chunk));
        assert!(!teaches(|request| request.query = Some(crate::query::parse_forgiving("number AND 5"))));
        assert!(!teaches(|request| {
            (request.query, request.embedding) = (None, None);
        }));
        let before = usual(&engine);
        assert!(engine.features(&Caller::system(), &request, "5").unwrap().is_some());
        assert!(engine.recall(&Caller::system(), &request).unwrap().is_some());
        assert_eq!(usual(&engine), before, "what repeats a search");
    }

    #[test]
    fn a_handful_of_chunks_teaches_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 31);
        let request = request("stone number 5", [1.0, 0.0], Mode::Hybrid);
        engine.search(&Caller::system(), &request).unwrap();
        assert_eq!(usual(&engine), Usual::default());
    }
}
