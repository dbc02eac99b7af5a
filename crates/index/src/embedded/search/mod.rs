//! One search in one snapshot.
//!
//! The filter and the query's conditions select chunks; both retrievers rank the selected chunks; fusion over documents (or
//! chunks) yields candidates; postprocessing groups, deduplicates and diversifies them; the page is cut and its texts are read. A
//! search without a query lists all selected documents in insertion order. Sorting by fields replaces the order of candidates.

mod candidates;
mod exact;
mod hits;
mod known_fields;
mod listing;
mod named;
mod postprocess;
mod rankings;
mod reading;
mod restricted;
mod smoothed;
mod trace;

use std::hash::{Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candidates::Candidates;
use weir_policy::Caller;
use weir_query::Query;

use super::relevance::RelevanceModel;
use super::snapshot::Snapshot;
use super::{Embedded, dense};
use crate::{
    FusionFunction, Grouping, IndexError, IndexQuery, IndexResult, MatchCount, Result, StageTimings,
    ValueCount,
};
pub(super) use candidates::scored;
use known_fields::KnownFields;
use postprocess::Deduplicated;
pub(crate) use restricted::{Existing, RestrictedQuery};
use weir_lexical::{LexicalQuery, NamedDocument, QueryContext};
use weir_ranking::relevance::{HitFeatures, QueryFeatures, SAMPLE_CHUNKS_MIN};
use weir_ranking::{RetrievalMode, Selection, Visible};

/// The lexical field that a query can name; every other name is a metadata field.
const TITLE: &str = "title";

impl Embedded {
    /// See [`crate::Engine::search`]. Blocking, and not limited.
    pub fn search(&self, caller: &Caller, request: &IndexQuery) -> Result<IndexResult> {
        self.search_restricted(&self.restrict(caller, request.clone())?)
    }

    /// Searches for a restricted query.
    pub(crate) fn search_restricted(&self, restricted: &RestrictedQuery) -> Result<IndexResult> {
        let (current, traced) = self.current_with(restricted, restricted.query.trace.as_deref());
        let snapshot = self.snapshot_of(&restricted.query, &current)?;
        let damaged = || IndexError::damaged(self.folder(), "a chunk does not lead to its document");
        let search = Search::new(&snapshot, &current, restricted, traced, self)?;
        let found = search.run().and_then(|found| found.ok_or_else(damaged));
        snapshot.check()?;
        current.check()?;
        found
    }

    /// See [`crate::Engine::features`]. Blocking, and not limited.
    pub fn features(
        &self,
        caller: &Caller,
        request: &IndexQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        self.features_restricted(&self.restrict(caller, request.clone())?, document_id)
    }

    /// Computes the features for a restricted query.
    pub(crate) fn features_restricted(
        &self,
        restricted: &RestrictedQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        let (snapshot, traced) = self.current_with(restricted, Some(document_id));
        let Some(chunk_ids) = traced.filter(|_| !restricted.query.is_listing()) else { return Ok(None) };
        let mut search = Search::new(&snapshot, &snapshot, restricted, None, self)?;
        let found = search.candidates(1)?;
        let candidate = found.list.iter().find(|candidate| chunk_ids.contains(&candidate.chunk_id));
        Ok(candidate.and_then(|candidate| search.features_of(candidate)))
    }

    /// The current snapshot, and the chunk ids of a document in it, if the document exists for the caller.
    fn current_with(
        &self,
        restricted: &RestrictedQuery,
        document_id: Option<&str>,
    ) -> (Arc<Snapshot>, Option<Range<u32>>) {
        let live = super::lock(&self.inner.live);
        let current = self.snapshot();
        let record = document_id.and_then(|id| live.table.find(id, &current.files.documents));
        let shown = record.filter(|record| restricted.shows(record));
        let chunk_ids = shown.map(|record| record.first_chunk..record.first_chunk + record.chunks);
        (current, chunk_ids)
    }

    /// The snapshot that the query names, or the current one. Pins it if the query asks for that.
    fn snapshot_of(&self, request: &IndexQuery, current: &Arc<Snapshot>) -> Result<Arc<Snapshot>> {
        let mut pins = super::lock(&self.inner.pins);
        let now = Instant::now();
        let snapshot = match request.as_of {
            None => Arc::clone(current),
            Some(applied_seq) => match pins.find(applied_seq, now) {
                Some(snapshot) => snapshot,
                None if current.applied_seq == applied_seq => Arc::clone(current),
                None => return Err(IndexError::SnapshotExpired(applied_seq)),
            },
        };
        if request.pin {
            pins.pin(&snapshot, now);
        }
        Ok(snapshot)
    }

    fn check_parameters(&self, request: &IndexQuery) -> Result<()> {
        request.fusion.check()?;
        if !(0.0..=1.0).contains(&request.diversity) {
            return Err(IndexError::InvalidParameter { name: "diversity", value: request.diversity });
        }
        let dimension = self.settings().dimension;
        if request.diversity > 0.0 && dimension == 0 {
            return Err(IndexError::NoEmbeddings);
        }
        match (request.mode, &request.embedding) {
            (RetrievalMode::Lexical, _) => Ok(()),
            (RetrievalMode::Hybrid | RetrievalMode::Dense, _) if request.is_listing() => Ok(()),
            (RetrievalMode::Hybrid | RetrievalMode::Dense, _) if dimension == 0 => {
                Err(IndexError::NoEmbeddings)
            }
            (RetrievalMode::Hybrid | RetrievalMode::Dense, None) => {
                Err(IndexError::EmbeddingMissing(dimension))
            }
            (RetrievalMode::Hybrid | RetrievalMode::Dense, Some(embedding)) => {
                dense::check(embedding, dimension)
            }
        }
    }
}

/// A hash of what is searched for.
fn hash_of(request: &IndexQuery) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    std::mem::discriminant(&request.mode).hash(&mut hasher);
    match &request.query {
        Some(query) => query.to_string().hash(&mut hasher),
        None => request.embedding.iter().flatten().for_each(|value| value.to_bits().hash(&mut hasher)),
    }
    hasher.finish()
}

impl IndexQuery {
    /// Whether there is nothing to rank by: all documents that pass the filter are listed.
    pub(crate) fn is_listing(&self) -> bool {
        self.query.is_none() && self.embedding.is_none()
    }

    /// The fields that must be known: of a strict query, the filter, facets, sort keys and groups.
    fn named_fields(&self) -> impl Iterator<Item = &str> {
        let strict = self.query.iter().filter(|_| self.strict);
        let in_query = strict.flat_map(Query::fields).filter(|name| *name != TITLE);
        let in_filter = self.filter.iter().flat_map(|filter| filter.paths());
        let facets = self.facets.iter().map(|facet| facet.field.as_str());
        let keys = self.sort.iter().map(|key| key.field.as_str());
        let group = match &self.group_by {
            Grouping::Field(field) => Some(field.as_str()),
            Grouping::Document | Grouping::Chunk => None,
        };
        in_query.chain(in_filter).chain(facets).chain(keys).chain(group)
    }

    /// Whether postprocessing removes or reorders candidates.
    pub(crate) fn is_postprocessed(&self) -> bool {
        self.collapse || self.diversity > 0.0 || matches!(self.group_by, Grouping::Field(_))
    }
}

/// The state of a running search.
pub(super) struct Search<'a> {
    engine: &'a Embedded,
    snapshot: &'a Snapshot,
    /// The current snapshot: documents deleted in it are not shown.
    current: &'a Snapshot,
    request: &'a IndexQuery,
    /// `None` without text to search.
    query: Option<LexicalQuery>,
    /// Documents whose names fit the query.
    named: Vec<NamedDocument>,
    /// The documents that exist for the caller; all if absent.
    existing: Option<Existing>,
    /// The chunks that pass the filter and the query's conditions; `None` if there is neither.
    pub(super) selection: Option<Arc<Selection>>,
    /// The chunk ids of the document in [`IndexQuery::trace`], if it exists.
    traced: Option<Range<u32>>,
    relevance_model: RelevanceModel,
    /// Features of the first window of candidates.
    query_features: Option<QueryFeatures>,
    /// Units that a rare word of the query points out.
    exact_units: Vec<u32>,
    /// The requested fusion, with the weights of this query.
    fusion: FusionFunction,
    /// The best comparable score of that window.
    best: f32,
    timings: StageTimings,
}

/// The result before texts are read.
struct Outcome {
    candidates: Candidates,
    page: Vec<Deduplicated>,
    total: MatchCount,
    facets: Vec<Vec<ValueCount>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        current: &'a Snapshot,
        restricted: &'a RestrictedQuery,
        traced: Option<Range<u32>>,
        engine: &'a Embedded,
    ) -> Result<Search<'a>> {
        let started = Instant::now();
        let RestrictedQuery { query: request, mandatory, named_fields } = restricted;
        if let Some(filter) = mandatory.as_ref().filter(|_| !named_fields.is_empty()) {
            let own = engine.existing(current, filter)?.selection;
            KnownFields::new(current, Some(&own)).check(named_fields.iter().map(String::as_str))?;
        }
        let existing = mandatory.as_ref().map(|filter| engine.existing(snapshot, filter)).transpose()?;
        let own = existing.as_ref().map(|existing| &*existing.selection);
        let query = match &request.query {
            Some(query) => Some(snapshot.compile(query, request, existing.as_ref())?),
            None => None,
        };
        let selection = snapshot.selection(request, query.as_ref())?;
        let visible = Visible { tombstones: &snapshot.tombstones, selection: selection.as_deref() };
        let named = match named::name_of(request) {
            Some(name) => {
                let existing = Visible { tombstones: &snapshot.tombstones, selection: own };
                snapshot.lexical.named(name, request.is_unfinished, visible, existing)?
            }
            None => Vec::new(),
        };
        let timings = StageTimings { select: started.elapsed(), ..StageTimings::default() };
        let relevance_model = match &existing {
            Some(existing) => {
                let embedding = request.embedding.as_deref();
                RelevanceModel::restricted(
                    embedding.map_or(0.0, |embedding| existing.topicality(snapshot, embedding)),
                )
            }
            None => RelevanceModel::of(&engine.inner, request.embedding.as_deref()),
        };
        Ok(Search {
            engine,
            snapshot,
            current,
            request,
            query,
            named,
            existing,
            selection,
            traced,
            relevance_model,
            query_features: None,
            exact_units: Vec::new(),
            fusion: request.fusion,
            best: 0.0,
            timings,
        })
    }

    pub(super) fn visible(&self) -> Visible<'_> {
        Visible { tombstones: &self.snapshot.tombstones, selection: self.selection.as_deref() }
    }

    /// Whether a mandatory filter may hide documents.
    pub(super) fn is_restricted(&self) -> bool {
        self.existing.is_some()
    }

    /// Live chunks that exist for the caller.
    fn existing_chunks(&self) -> u32 {
        match &self.existing {
            Some(existing) => existing.selection.live(&self.snapshot.tombstones),
            None => self.snapshot.live_chunks(),
        }
    }

    /// The last operation that the caller may know of.
    fn shown_seq(&self) -> u64 {
        match &self.existing {
            Some(existing) if self.request.explain => existing.last_version(self.snapshot),
            Some(_) => 0,
            None => self.snapshot.applied_seq,
        }
    }

    /// The number of live chunks among which is searched.
    fn chunks_searched(&self) -> u32 {
        match &self.selection {
            Some(selection) => selection.live(&self.snapshot.tombstones),
            None => self.snapshot.live_chunks(),
        }
    }

    /// Whether terms or an embedding rank the hits. Relevance is undefined for listings and for orders by fields.
    fn ranks_by_relevance(&self) -> bool {
        let has_terms = self.query.as_ref().is_some_and(|query| !query.terms.is_empty());
        self.request.sort.is_empty() && (has_terms || self.request.embedding.is_some())
    }

    /// Updates the baseline with the first page of a search among all documents.
    fn observe(&self) {
        let is_first = self.request.offset == 0 && self.request.as_of.is_none();
        let is_of_all = self.selection.is_none() && self.request.group_by == Grouping::Document;
        let has_enough = self.snapshot.live_chunks() as usize >= SAMPLE_CHUNKS_MIN;
        if let Some(query_features) =
            self.query_features.filter(|_| is_first && is_of_all && has_enough && self.ranks_by_relevance())
        {
            let inner = &self.engine.inner;
            if super::lock(&inner.recent_queries).insert(hash_of(self.request)) {
                query_features.observe(&mut super::lock(&inner.baseline).baseline);
            }
        }
    }

    /// `None` if the files contradict each other.
    fn run(mut self) -> Result<Option<IndexResult>> {
        let outcome = if self.request.is_listing() { self.list() } else { self.rank()? };
        let Some(outcome) = outcome else { return Ok(None) };
        self.observe();
        let trace = match &self.request.trace {
            Some(_) => Some(self.trace(&outcome)?),
            None => None,
        };
        let started = Instant::now();
        let Some(hits) = self.hits(&outcome)? else { return Ok(None) };
        let retriever = |retriever| self.ranking(retriever);
        let (Some(lexical), Some(dense)) =
            (retriever(&outcome.candidates.lexical), retriever(&outcome.candidates.dense))
        else {
            return Ok(None);
        };
        self.timings.fetch = started.elapsed();
        let selected =
            self.selection.as_ref().map(|selection| selection.live(&self.snapshot.tombstones).into());
        let is_smoothed = self.is_smoothed() && self.ranks_by_relevance();
        let exact_facets = self.has_exact_facets();
        let existing_chunks = self.existing_chunks().into();
        let shown_seq = self.shown_seq();
        let (terms, corrections, synonyms) =
            self.query.map(|query| (query.terms, query.corrections, query.synonyms)).unwrap_or_default();
        Ok(Some(IndexResult {
            hits,
            total: outcome.total,
            facets: outcome.facets,
            exact_facets,
            lexical,
            dense,
            is_smoothed,
            fusion: self.fusion,
            corrections,
            terms: terms.into_iter().map(|term| term.text).collect(),
            synonyms,
            applied_seq: self.snapshot.applied_seq,
            shown_seq,
            existing_chunks,
            selected,
            trace,
            timings: self.timings,
        }))
    }
}

impl Snapshot {
    /// Compiles a query; a metadata field becomes the set of chunks whose documents have the value. Words are corrected to those of
    /// `existing` documents; all exist if that is absent.
    fn compile(
        &self,
        query: &Query,
        request: &IndexQuery,
        existing: Option<&Existing>,
    ) -> Result<LexicalQuery> {
        let own = existing.map(|existing| &*existing.selection);
        let context = QueryContext {
            mode: request.mode,
            existing: Visible { tombstones: &self.tombstones, selection: own },
            totals: existing.map(|existing| &existing.totals),
            is_unfinished: request.is_unfinished,
            expanded_terms_max: request.expanded_terms_max,
            settings: &request.lexical,
            select: &|filter| self.fields.select(filter),
            text_of: &|chunk_id| self.title_and_text(chunk_id),
        };
        Ok(self.lexical.compile(query, context)?)
    }

    /// The chunks that pass the filter and the query's conditions.
    fn selection(
        &self,
        request: &IndexQuery,
        query: Option<&LexicalQuery>,
    ) -> Result<Option<Arc<Selection>>> {
        let filtered = request.filter.as_ref().map(|filter| self.fields.select(filter));
        let satisfying = match query {
            Some(query) => self.lexical.satisfying(query, self.tombstones.len())?,
            None => None,
        };
        Ok(match (filtered, satisfying) {
            (Some(filtered), Some(satisfying)) => Some(Arc::new(filtered.and(&satisfying))),
            (None, Some(satisfying)) => Some(Arc::new(satisfying)),
            (filtered, None) => filtered,
        })
    }
}

fn timed<T>(duration: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *duration += start.elapsed();
    result
}
