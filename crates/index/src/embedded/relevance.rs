//! Relevance in the embedded engine: statistics fitted to its rows, the score baseline and its file.

use std::collections::{HashSet, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;

use weir_ranking::relevance::{CorpusStatistics, QueryFeatures, SAMPLE_CHUNKS_MAX, ScoreBaseline};

use super::snapshot::Snapshot;
use super::{Embedded, lock};
use crate::pipeline::RelevanceModel;
use crate::{IndexError, IndexQuery, Result};

pub(crate) const FILE: &str = "score-baseline";
const FILE_NEW: &str = "score-baseline.new";

/// The statistics, and the size of the index when they were fitted.
#[derive(Debug)]
pub(crate) struct FittedStatistics {
    chunk_count: u32,
    statistics: Option<CorpusStatistics>,
}

impl FittedStatistics {
    /// Fits them to a sample of live chunks, evenly spaced.
    pub(crate) fn from(snapshot: &Snapshot, dimension: usize) -> FittedStatistics {
        FittedStatistics {
            chunk_count: snapshot.tombstones.len(),
            statistics: CorpusStatistics::fit(&sample(snapshot, dimension)),
        }
    }

    /// Whether the index has more than doubled since, or was too small for statistics and has changed.
    pub(crate) fn is_outgrown_by(&self, snapshot: &Snapshot) -> bool {
        let chunk_count = snapshot.tombstones.len();
        chunk_count > self.chunk_count.saturating_mul(2)
            || self.statistics.is_none() && chunk_count != self.chunk_count
    }
}

fn sample(snapshot: &Snapshot, dimension: usize) -> Vec<Vec<f32>> {
    if dimension == 0 {
        return Vec::new();
    }
    let chunk_count = snapshot.tombstones.len();
    let positions = evenly_spaced(chunk_count);
    positions
        .filter(|&chunk_id| snapshot.tombstones.is_live(chunk_id))
        .filter_map(|chunk_id| snapshot.embedding(chunk_id))
        .collect()
}

/// The embeddings of a sample of `count` chunks, evenly spaced.
pub(super) fn sample_of(
    snapshot: &Snapshot,
    chunk_ids: impl Iterator<Item = u32>,
    count: u32,
) -> Vec<Vec<f32>> {
    let mut positions = evenly_spaced(count).peekable();
    (0..)
        .zip(chunk_ids)
        .filter(|(position, _)| positions.next_if_eq(position).is_some())
        .filter_map(|(_, chunk_id)| snapshot.embedding(chunk_id))
        .collect()
}

/// Positions of a sample of `count` chunks, ascending.
fn evenly_spaced(count: u32) -> impl Iterator<Item = u32> {
    let sampled = u64::from(count).min(SAMPLE_CHUNKS_MAX as u64);
    (0..sampled).map(move |index| (index * u64::from(count) / sampled) as u32)
}

/// The score baseline and the state of its file. The file is written without sync: after a crash a few searches restore the
/// baseline.
#[derive(Debug)]
pub(crate) struct BaselineFile {
    pub(crate) baseline: ScoreBaseline,
    /// The content of the file.
    saved: ScoreBaseline,
    is_save_claimed: bool,
}

impl BaselineFile {
    /// Starts with the prior if the file is missing or invalid.
    pub(crate) fn read(folder: &Path) -> BaselineFile {
        let baseline = std::fs::read_to_string(folder.join(FILE)).ok().and_then(|text| baseline_of(&text));
        let baseline = baseline.unwrap_or_default();
        BaselineFile { baseline, saved: baseline, is_save_claimed: false }
    }
}

/// The content of the file: JSON, and its CRC-32 in a line of its own.
fn text_of(baseline: &ScoreBaseline) -> String {
    let json = serde_json::to_string(baseline).unwrap_or_default();
    format!("{json}\n{:08x}\n", crc32fast::hash(json.as_bytes()))
}

fn baseline_of(text: &str) -> Option<ScoreBaseline> {
    let (json, checksum) = text.trim_end().split_once('\n')?;
    let is_whole = u32::from_str_radix(checksum, 16).ok()? == crc32fast::hash(json.as_bytes());
    is_whole.then(|| serde_json::from_str(json).ok())?.filter(ScoreBaseline::is_sound)
}

/// Queries that are remembered, so that one that is repeated teaches nothing more.
const RECENT_QUERIES_MAX: usize = 4096;

/// Hashes of the last queries that the baseline was updated with.
#[derive(Debug, Default)]
pub(crate) struct RecentQueries {
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RecentQueries {
    /// Whether the query is not among the last ones; adds it.
    pub(crate) fn insert(&mut self, query: u64) -> bool {
        if !self.known.insert(query) {
            return false;
        }
        self.order.push_back(query);
        if self.order.len() > RECENT_QUERIES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl Embedded {
    /// The parameters of relevance for a search by `embedding` among all documents.
    pub(super) fn relevance_model(&self, embedding: Option<&[f32]>) -> RelevanceModel {
        let fitted = self.inner.fitted.load();
        let topicality = embedding.zip(fitted.statistics.as_ref());
        RelevanceModel {
            topicality: topicality.map_or(0.0, |(embedding, statistics)| statistics.topicality(embedding)),
            learned: self.inner.learned.load_full(),
            baseline: lock(&self.inner.baseline).baseline,
        }
    }

    /// Updates the baseline with a search, unless it repeats a recent one.
    pub(super) fn observe(&self, request: &IndexQuery, features: QueryFeatures) {
        if lock(&self.inner.recent_queries).insert(hash_of(request)) {
            features.observe(&mut lock(&self.inner.baseline).baseline);
        }
    }

    /// The deviations of the score baseline from its priors.
    pub(crate) fn baseline_deviation(&self) -> (f32, f32) {
        lock(&self.inner.baseline).baseline.deviation_from_prior()
    }

    /// See [`crate::Engine::reset_baseline`].
    pub fn reset_baseline(&self) -> Result<()> {
        *lock(&self.inner.recent_queries) = RecentQueries::default();
        lock(&self.inner.baseline).baseline = ScoreBaseline::default();
        self.save_baseline()
    }

    /// Whether the caller has to call [`save_baseline`](Self::save_baseline): the baseline differs noticeably from the file, and
    /// no other caller has received it. Frequent at first, rare later.
    pub(crate) fn claim_baseline_save(&self) -> bool {
        let mut file = lock(&self.inner.baseline);
        let is_claimed = !file.is_save_claimed && file.baseline.has_changed_from(&file.saved);
        file.is_save_claimed |= is_claimed;
        is_claimed
    }

    /// Writes the baseline to its file, if they differ.
    pub(crate) fn save_baseline(&self) -> Result<()> {
        let _one_writer = lock(&self.inner.baseline_writer);
        let baseline = {
            let mut file = lock(&self.inner.baseline);
            file.is_save_claimed = false;
            if file.baseline == file.saved {
                return Ok(());
            }
            file.baseline
        };
        let temporary = self.folder().join(FILE_NEW);
        let written = std::fs::write(&temporary, text_of(&baseline))
            .and_then(|()| std::fs::rename(&temporary, self.folder().join(FILE)));
        written.map_err(IndexError::file("write", &temporary))?;
        lock(&self.inner.baseline).saved = baseline;
        Ok(())
    }
}

/// A hash of what is searched for.
pub(crate) fn hash_of(request: &IndexQuery) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    std::mem::discriminant(&request.mode).hash(&mut hasher);
    match &request.query {
        Some(query) => query.to_string().hash(&mut hasher),
        None => request.embedding.iter().flatten().for_each(|value| value.to_bits().hash(&mut hasher)),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_policy::Caller;
    use weir_query::Query;
    use weir_ranking::RetrievalMode;

    use weir_ranking::relevance::LearnedRelevance;

    use super::{FILE, ScoreBaseline};
    use crate::embedded::Embedded;
    use crate::{Change, EngineSettings, Grouping, Hit, IndexQuery, IndexedChunk, IndexedDocument};

    fn put(number: u32, embedding: Vec<f32>) -> Change {
        let text = format!("{} number {number}", if number == 0 { "weir" } else { "stone" });
        let chunk = IndexedChunk { start: 0, end: text.len(), text, embedding: Some(embedding) };
        let (id, metadata) = (number.to_string(), String::new());
        Change::Put(IndexedDocument {
            id,
            version: 1,
            title: None,
            metadata,
            pages: None,
            chunks: vec![chunk],
        })
    }

    /// An engine with `count` embeddings close to one axis.
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

    fn request(text: &str, embedding: [f32; 2], mode: RetrievalMode) -> IndexQuery {
        IndexQuery::new(mode, Some(Query::Words(text.to_owned())), Some(embedding.to_vec()), 5)
    }

    /// Groups by chunk, so that the baseline does not change.
    fn search(engine: &Embedded, text: &str, embedding: [f32; 2], mode: RetrievalMode) -> Vec<Hit> {
        let request = IndexQuery { group_by: Grouping::Chunk, ..request(text, embedding, mode) };
        engine.search(&Caller::system(), &request).unwrap().hits
    }

    #[test]
    fn statistics_are_equal_after_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let first = engine(folder.path(), 64);
        let fitted = first.inner.fitted.load().statistics.clone();
        assert!(fitted.is_some());
        drop(first);
        let again = engine(folder.path(), 0);
        assert_eq!(again.inner.fitted.load().statistics, fitted);
    }

    #[test]
    fn statistics_are_fitted_again_only_after_the_index_has_doubled() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let chunk_count = || engine.inner.fitted.load().chunk_count;
        assert_eq!(chunk_count(), 64);
        let more = |from: u32, to: u32| (from..to).map(|number| put(number, vec![0.0, 1.0])).collect();
        engine.apply(more(64, 128), 2).unwrap();
        assert_eq!(chunk_count(), 64);
        engine.apply(more(128, 129), 3).unwrap();
        assert_eq!(chunk_count(), 129);
    }

    #[test]
    fn queries_on_the_subject_are_relevant_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let on = search(&engine, "weir", [1.0, 0.0], RetrievalMode::Hybrid);
        assert_eq!(on[0].document_id, "0");
        assert!(on[0].relevance.unwrap() > 0.5 && on[0].features.unwrap().gap == 0.0, "{:?}", on[0]);
        assert!(on[1].relevance < on[0].relevance);
        let off = search(&engine, "zebra", [0.0, -1.0], RetrievalMode::Hybrid);
        assert!(off.iter().all(|hit| hit.relevance.unwrap() < 0.01), "{off:?}");
        let words = search(&engine, "zebra stone", [0.0, -1.0], RetrievalMode::Lexical);
        assert!(
            words[0].relevance < search(&engine, "weir", [1.0, 0.0], RetrievalMode::Lexical)[0].relevance
        );
    }

    #[test]
    fn relevance_does_not_depend_on_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let by_chunks = request("stone number 5", [0.6, 0.8], RetrievalMode::Hybrid);
        let by_chunks = IndexQuery { group_by: Grouping::Chunk, ..by_chunks };
        let request = |limit| IndexQuery { limit, ..by_chunks.clone() };
        let hits = |limit| engine.search(&Caller::system(), &request(limit)).unwrap().hits;
        assert_eq!(hits(1)[0].relevance, hits(20)[0].relevance);
    }

    #[test]
    fn features_of_a_document_equal_those_of_its_hit() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let features = |text: &str, mode, id: &str| {
            let request = request(text, [1.0, 0.0], mode);
            engine.features(&Caller::system(), &request, id).unwrap()
        };
        for mode in [RetrievalMode::Hybrid, RetrievalMode::Lexical, RetrievalMode::Dense] {
            let hits = search(&engine, "stone number 5", [1.0, 0.0], mode);
            assert_eq!(hits.len(), 5);
            for hit in hits {
                assert_eq!(features("stone number 5", mode, &hit.document_id), hit.features, "{hit:?}");
            }
        }
        assert_eq!(features("weir", RetrievalMode::Lexical, "1"), None, "it holds no word of the query");
        assert_eq!(features("weir", RetrievalMode::Hybrid, "64"), None, "there is no such document");
    }

    #[test]
    fn feedback_refines_the_relevance_of_later_hits() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let before = search(&engine, "weir", [1.0, 0.0], RetrievalMode::Hybrid)[0].clone();
        let voter = weir_ranking::relevance::Voter::Operator;
        let features = before.features.unwrap();
        let said = weir_ranking::relevance::JudgedHit { features, is_relevant: true, weight: 1.0, voter };
        engine.set_learned_relevance(Arc::new(LearnedRelevance::of(&[said; 100], 1.0)));
        assert!(search(&engine, "weir", [1.0, 0.0], RetrievalMode::Hybrid)[0].relevance.unwrap() > 0.9);
        engine.set_learned_relevance(Arc::default());
        assert_eq!(search(&engine, "weir", [1.0, 0.0], RetrievalMode::Hybrid)[0].relevance, before.relevance);
    }

    fn baseline(engine: &Embedded) -> ScoreBaseline {
        engine.inner.baseline.lock().unwrap().baseline
    }

    #[test]
    fn the_baseline_is_updated_by_searches_and_survives_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let first = engine(folder.path(), 64);
        let query = request("stone number 5", [1.0, 0.0], RetrievalMode::Hybrid);
        let ask = |engine: &Embedded| engine.search(&Caller::system(), &query).unwrap().hits[1].relevance;
        let before = ask(&first).unwrap();
        assert!((ask(&first).unwrap() - before).abs() > 0.05, "{before:?}");
        for _ in 0..50 {
            ask(&first);
        }
        let fitted = baseline(&first);
        assert!(first.claim_baseline_save() && !first.claim_baseline_save(), "one caller is to save it");
        first.save_baseline().unwrap();
        assert!(!first.claim_baseline_save());
        drop(first);
        let again = engine(folder.path(), 0);
        assert_eq!(baseline(&again), fitted);
        assert!(fitted.has_changed_from(&ScoreBaseline::default()));
        ask(&again);
        let fitted = baseline(&again);
        again.close().unwrap();
        drop(again);
        assert_eq!(baseline(&engine(folder.path(), 0)), fitted, "exactly, once it was closed");
        let file = folder.path().join(FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        let digit = text.find(|c: char| ('1'..='8').contains(&c)).unwrap();
        let mut flipped = text.into_bytes();
        flipped[digit] += 1;
        for damaged in [&b"{\"cosine\":"[..], &flipped] {
            std::fs::write(&file, damaged).unwrap();
            let read = baseline(&engine(folder.path(), 0));
            assert_eq!(read, ScoreBaseline::default(), "what is damaged is learned again");
        }
    }

    #[test]
    fn failing_to_save_the_baseline_fails_no_search_and_is_reported_by_close() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        std::fs::create_dir(folder.path().join(super::FILE_NEW)).unwrap();
        let request = request("stone number 5", [1.0, 0.0], RetrievalMode::Hybrid);
        assert_eq!(engine.search(&Caller::system(), &request).unwrap().hits.len(), 5);
        assert!(engine.claim_baseline_save() && engine.save_baseline().is_err());
        assert!(engine.claim_baseline_save(), "the next search tries again");
        assert!(engine.close().is_err());
    }

    #[test]
    fn only_first_pages_of_unfiltered_searches_update_the_baseline() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let request = request("stone number 5", [1.0, 0.0], RetrievalMode::Hybrid);
        let updates_baseline = |change: fn(&mut IndexQuery)| {
            let before = baseline(&engine);
            *super::lock(&engine.inner.recent_queries) = super::RecentQueries::default();
            let mut request = request.clone();
            change(&mut request);
            engine.search(&Caller::system(), &request).unwrap();
            baseline(&engine) != before
        };
        assert!(updates_baseline(|_| {}));
        assert!(!updates_baseline(|request| request.offset = 5));
        assert!(!updates_baseline(|request| request.as_of = Some(1)));
        assert!(!updates_baseline(|request| request.group_by = Grouping::Chunk));
        assert!(!updates_baseline(|request| request.query = weir_query::parse("number AND 5").ok()));
        assert!(!updates_baseline(|request| {
            (request.query, request.embedding) = (None, None);
        }));
        let before = baseline(&engine);
        assert!(engine.features(&Caller::system(), &request, "5").unwrap().is_some());
        assert!(engine.recall(&Caller::system(), &request).unwrap().is_some());
        assert_eq!(baseline(&engine), before, "what repeats a search");
    }

    #[test]
    fn a_repeated_search_updates_the_baseline_once() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 64);
        let updates_baseline = |text: &str, mode| {
            let before = baseline(&engine);
            engine.search(&Caller::system(), &request(text, [1.0, 0.0], mode)).unwrap();
            baseline(&engine) != before
        };
        assert!(updates_baseline("stone number 5", RetrievalMode::Hybrid));
        assert!(!updates_baseline("stone number 5", RetrievalMode::Hybrid));
        assert!(updates_baseline("stone number 5", RetrievalMode::Lexical));
        assert!(updates_baseline("stone number 6", RetrievalMode::Hybrid));
        assert!(!updates_baseline("stone number 5", RetrievalMode::Hybrid));
        engine.reset_baseline().unwrap();
        assert_eq!(baseline(&engine), ScoreBaseline::default());
        assert!(updates_baseline("stone number 5", RetrievalMode::Hybrid));
    }

    #[test]
    fn queries_are_forgotten_after_many_others() {
        let mut recent = super::RecentQueries::default();
        assert!(recent.insert(0) && !recent.insert(0));
        assert!((1..=super::RECENT_QUERIES_MAX as u64).all(|query| recent.insert(query)));
        assert!(recent.insert(0), "it is the oldest no more");
        assert_eq!(recent.known.len(), super::RECENT_QUERIES_MAX);
    }

    #[test]
    fn small_collections_do_not_update_the_baseline() {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path(), 31);
        let request = request("stone number 5", [1.0, 0.0], RetrievalMode::Hybrid);
        engine.search(&Caller::system(), &request).unwrap();
        assert_eq!(baseline(&engine), ScoreBaseline::default());
    }
}
