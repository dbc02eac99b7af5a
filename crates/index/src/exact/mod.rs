//! A second engine, for tests: exact, in memory, and each of its calls waits and may fail on command.
//!
//! It computes everything anew for each search, from the documents as they were given, and shares no code with the embedded engine below
//! the pipeline. What it lacks is in [`support`].

pub(crate) mod contract;
mod equality;
pub(crate) mod faults;
mod search;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_policy::Caller;
use weir_query::Reading;
use weir_ranking::relevance::{HitFeatures, LearnedRelevance, LearnedSummary, ScoreBaseline};
use weir_text::Language;

use crate::features::{EngineKind, Feature, Support};
use crate::restricted::RestrictedQuery;
use crate::{
    Change, ConsistencyReport, EngineSettings, HistoryPoint, IndexCounts, IndexError, IndexResult,
    IndexedDocument, Result, pipeline,
};
use search::ExactSearch;

/// The engine. Clones share it.
#[derive(Clone)]
pub struct Exact(Arc<Shared>);

struct Shared {
    settings: EngineSettings,
    state: Mutex<ExactState>,
    faults: Mutex<Faults>,
    learned: Mutex<Arc<LearnedRelevance>>,
    /// The score baseline, and the queries that it was updated with.
    observed: Mutex<(HashSet<String>, ScoreBaseline)>,
}

/// Faults injected into calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    /// How long each call takes beyond a turn of the runtime.
    pub(crate) delay: Duration,
    /// A call that takes longer fails.
    pub(crate) deadline: Duration,
    /// So many calls succeed, then one fails.
    pub(crate) fails_after: Option<usize>,
}

#[derive(Clone, Default)]
struct ExactState {
    /// In the order in which they came.
    documents: Vec<Arc<Stored>>,
    /// The number of the next chunk.
    next_chunk: u32,
    applied_seq: u64,
    read_to: Option<HistoryPoint>,
    /// Documents removed before their removal was applied, with its number.
    hidden: HashMap<String, u64>,
    is_closed: bool,
}

/// A document and what was found in its texts.
struct Stored {
    document: IndexedDocument,
    first_chunk: u32,
    chunks: Vec<Words>,
}

/// The words of a chunk and its title.
#[derive(Default)]
struct Words {
    frequencies: HashMap<String, u32>,
    count: u32,
}

/// The support of a feature in this engine: as in the embedded one, except that queries are words.
pub(crate) fn support(feature: &Feature) -> Support {
    match feature.name {
        "phrases, `AND`, `OR`, `NOT`" | "prefixes and wildcards" | "`field:value` in queries" => {
            Support::Refused("search for words alone")
        }
        "unfinished last word" => Support::Refused("leave out `prefix`"),
        "pages of one snapshot" => Support::Refused("page by `offset`"),
        "spelling correction" | "synonyms, stop words, weight of titles" => Support::Absent,
        _ => feature.support(EngineKind::Embedded),
    }
}

impl Exact {
    pub(crate) fn new(settings: EngineSettings) -> Exact {
        let faults = Faults { delay: Duration::ZERO, deadline: Duration::from_secs(5), fails_after: None };
        Exact(Arc::new(Shared {
            settings,
            state: Mutex::default(),
            faults: Mutex::new(faults),
            learned: Mutex::default(),
            observed: Mutex::default(),
        }))
    }

    pub(crate) fn set_faults(&self, faults: impl FnOnce(&mut Faults)) {
        faults(&mut lock(&self.0.faults));
    }

    /// Before each thing that it is asked.
    async fn call(&self) -> Result<()> {
        let Faults { delay, deadline, fails_after } = *lock(&self.0.faults);
        let unavailable = |reason: &str| IndexError::Unavailable {
            reason: reason.to_owned(),
            retry_after: Duration::from_secs(1),
        };
        let wait = async {
            tokio::task::yield_now().await;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        };
        tokio::time::timeout(deadline, wait).await.map_err(|_| unavailable("no answer in time"))?;
        let left = fails_after.and_then(|left| left.checked_sub(1));
        lock(&self.0.faults).fails_after = left;
        if fails_after == Some(0) { Err(unavailable("a fault")) } else { Ok(()) }
    }

    fn state(&self) -> MutexGuard<'_, ExactState> {
        lock(&self.0.state)
    }

    pub(crate) async fn apply(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        changes.iter().try_for_each(|change| change.check(self.0.settings.dimension))?;
        self.call().await?;
        let mut next = self.state().clone();
        if next.is_closed {
            return Err(IndexError::Closed);
        }
        if applied_seq < next.applied_seq {
            return Err(IndexError::OutOfOrder { applied_seq, current: next.applied_seq });
        }
        for change in changes {
            next.change(change, self.0.settings.language);
        }
        self.call().await?;
        next.applied_seq = applied_seq;
        next.read_to = read_to.or(next.read_to);
        next.hidden.retain(|_, removal| *removal > applied_seq);
        let ExactState { documents, hidden, .. } = &mut next;
        documents.retain(|stored| !hidden.contains_key(&stored.document.id));
        *self.state() = next;
        Ok(())
    }

    pub(crate) async fn remove_now(&self, document_id: &str, operation: u64) -> Result<bool> {
        self.call().await?;
        let mut state = self.state();
        if operation <= state.applied_seq {
            return Ok(false);
        }
        let latest = state.hidden.entry(document_id.to_owned()).or_insert(operation);
        *latest = operation.max(*latest);
        let before = state.documents.len();
        state.documents.retain(|stored| stored.document.id != document_id);
        Ok(state.documents.len() < before)
    }

    pub(crate) fn dimension(&self) -> usize {
        self.0.settings.dimension
    }

    pub(crate) async fn search(&self, query: RestrictedQuery) -> Result<IndexResult> {
        let search = ExactSearch::new(self, &query, query.query.trace.as_deref()).await?;
        pipeline::search(&search, &query.query).await
    }

    pub(crate) async fn features(
        &self,
        query: RestrictedQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        let search = ExactSearch::new(self, &query, Some(document_id)).await?;
        pipeline::features(&search, &query.query).await
    }

    pub(crate) async fn read_query(&self, _: &Caller, text: &str) -> Result<Reading> {
        self.call().await?;
        Ok(Reading::text(text))
    }

    pub(crate) fn set_learned_relevance(&self, learned: LearnedRelevance) {
        *lock(&self.0.learned) = Arc::new(learned);
    }

    pub(crate) fn learned_relevance(&self) -> (LearnedSummary, (f32, f32)) {
        (lock(&self.0.learned).summary(), lock(&self.0.observed).1.deviation_from_prior())
    }

    pub(crate) async fn reset_baseline(&self) -> Result<()> {
        *lock(&self.0.observed) = Default::default();
        Ok(())
    }

    pub(crate) fn applied_seq(&self) -> u64 {
        self.state().applied_seq
    }

    pub(crate) async fn read_to(&self) -> Result<Option<HistoryPoint>> {
        self.call().await?;
        Ok(self.state().read_to)
    }

    pub(crate) async fn counts(&self) -> Result<IndexCounts> {
        self.call().await?;
        let documents = &self.state().documents;
        let chunks = documents.iter().map(|stored| stored.chunks.len() as u64).sum();
        Ok(IndexCounts { documents: documents.len() as u64, chunks, deleted_chunks: 0, segments: 0 })
    }

    pub(crate) async fn disk_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    pub(crate) async fn flush(&self) -> Result<()> {
        self.call().await
    }

    pub(crate) async fn ensure_open(&self) -> Result<()> {
        self.call().await
    }

    pub(crate) async fn check_files(&self) -> Result<()> {
        self.call().await
    }

    pub(crate) async fn discard(&self) -> Result<()> {
        self.call().await?;
        let had = std::mem::take(&mut *self.state());
        match had.applied_seq {
            0 => Ok(()),
            _ => Err(IndexError::Lost { folder: "memory".into(), reason: "it was emptied".to_owned() }),
        }
    }

    pub(crate) async fn compact_if_due(&self, _: Duration) -> Result<bool> {
        self.call().await.map(|()| false)
    }

    pub(crate) async fn close(&self) -> Result<()> {
        self.state().is_closed = true;
        Ok(())
    }

    pub(crate) async fn verify(&self) -> Result<ConsistencyReport> {
        let IndexCounts { documents, chunks, .. } = self.counts().await?;
        Ok(ConsistencyReport {
            documents: documents as u32,
            chunks: chunks as u32,
            deleted_chunks: 0,
            stale_entries: 0,
            problems: Vec::new(),
        })
    }
}

impl ExactState {
    fn change(&mut self, change: Change, language: Language) {
        let (id, version) = match &change {
            Change::Put(document) => (&document.id, Some(document.version)),
            Change::Remove { id, .. } => (id, None),
        };
        if let Some(at) = self.documents.iter().position(|stored| stored.document.id == *id) {
            if version.is_some_and(|version| version <= self.documents[at].document.version) {
                return;
            }
            self.documents.remove(at);
        }
        let Change::Put(document) = change else { return };
        if document.chunks.is_empty() {
            return;
        }
        let title = document.title.as_deref().unwrap_or_default();
        let words = |text: &str| {
            let mut words = Words::default();
            for text in [title, text] {
                weir_text::analyse(text, language, |token| {
                    *words.frequencies.entry(token.text.to_owned()).or_default() += 1;
                    words.count += 1;
                });
            }
            words
        };
        let chunks: Vec<Words> = document.chunks.iter().map(|chunk| words(&chunk.text)).collect();
        let first_chunk = self.next_chunk;
        self.next_chunk += chunks.len() as u32;
        self.documents.push(Arc::new(Stored { document, first_chunk, chunks }));
    }
}

impl Stored {
    /// The numbers of its chunks.
    fn chunk_ids(&self) -> std::ops::Range<u32> {
        self.first_chunk..self.first_chunk + self.chunks.len() as u32
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
