//! The embedded engine as a [`Retriever`]: one search in one snapshot.
//!
//! The filter and the query's conditions select chunks; both retrievers rank the selected chunks; all other data that the pipeline requests is read
//! from the files of the snapshot. Nothing waits.

mod documents;
mod known_fields;
mod rankings;
mod reading;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use weir_filter::{Value, flatten};
use weir_lexical::{LexicalQuery, NamedDocument, QueryContext, RareChunk, ScoreParts};
use weir_policy::Caller;
use weir_query::Query;
use weir_ranking::relevance::{Bm25Bounds, HitFeatures, QueryFeatures};
use weir_ranking::{BestChunk, Selection, Visible};

use super::Embedded;
use super::existing::Existing;
use super::snapshot::{Chunk, Snapshot};
use crate::pipeline::{
    self, ChunkPlace, DocumentSet, FoundChunk, ListedChunk, QueryWords, Rankings, RelevanceModel, Retriever,
    Scope, Traced,
};
use crate::restricted::RestrictedQuery;
use crate::{
    FacetSpec, Grouping, IndexError, IndexQuery, IndexResult, Neighbour, Result, SortKey, ValueCount,
};
use documents::Documents;
use known_fields::KnownFields;

impl Embedded {
    /// See [`crate::Engine::search`]. Blocking, and not limited.
    pub fn search(&self, caller: &Caller, request: &IndexQuery) -> Result<IndexResult> {
        self.search_restricted(&self.restrict(caller, request.clone())?)
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

    pub(super) fn restrict(&self, caller: &Caller, query: IndexQuery) -> Result<RestrictedQuery> {
        RestrictedQuery::new(caller, query, self.settings().dimension)
    }

    /// Searches for a restricted query.
    pub(crate) fn search_restricted(&self, restricted: &RestrictedQuery) -> Result<IndexResult> {
        let (current, traced) = self.current_with(restricted, restricted.query.trace.as_deref());
        let snapshot = self.snapshot_of(&restricted.query, &current)?;
        let search = SnapshotSearch::new(self, &snapshot, &current, restricted, traced)?;
        let found = pipeline::completed(pipeline::search(&search, &restricted.query));
        snapshot.check()?;
        current.check()?;
        found
    }

    /// Computes the features for a restricted query.
    pub(crate) fn features_restricted(
        &self,
        restricted: &RestrictedQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        let (snapshot, traced) = self.current_with(restricted, Some(document_id));
        let search = SnapshotSearch::new(self, &snapshot, &snapshot, restricted, traced)?;
        pipeline::completed(pipeline::features(&search, &restricted.query))
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
        let shown = record.filter(|record| restricted.shows(record.metadata));
        let chunk_ids = shown.map(|record| record.first_chunk..record.first_chunk + record.chunks);
        (current, chunk_ids)
    }

    /// The snapshot that the query names, or the current one. Pins it if the query requests that.
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
}

/// One search in one snapshot.
pub(super) struct SnapshotSearch<'a> {
    engine: &'a Embedded,
    snapshot: &'a Snapshot,
    /// The current snapshot: documents deleted in it are not shown.
    current: &'a Snapshot,
    request: &'a IndexQuery,
    /// `None` without text to search.
    query: Option<LexicalQuery>,
    named: Vec<NamedDocument>,
    /// The documents that exist for the caller; all if absent.
    existing: Option<Existing>,
    /// The chunks that pass the filter and the query's conditions; `None` if there is neither.
    pub(super) selection: Option<Arc<Selection>>,
    /// The chunk ids of the document that is followed, if it exists.
    traced: Option<Range<u32>>,
    relevance_model: RelevanceModel,
    scope: Scope,
}

impl<'a> SnapshotSearch<'a> {
    pub(super) fn new(
        engine: &'a Embedded,
        snapshot: &'a Snapshot,
        current: &'a Snapshot,
        restricted: &'a RestrictedQuery,
        traced: Option<Range<u32>>,
    ) -> Result<SnapshotSearch<'a>> {
        let started = Instant::now();
        let RestrictedQuery { query: request, mandatory, named_fields } = restricted;
        let known = &engine.inner.existing;
        if !named_fields.is_empty() {
            let own = mandatory.as_ref().map(|filter| known.of(current, filter)).transpose()?;
            let own = own.as_ref().map(|existing| &*existing.selection);
            KnownFields::new(current, own).check(named_fields.iter().map(String::as_str))?;
        }
        let existing = mandatory.as_ref().map(|filter| known.of(snapshot, filter)).transpose()?;
        let own = existing.as_ref().map(|existing| &*existing.selection);
        let query = match &request.query {
            Some(query) => Some(snapshot.compile(query, request, existing.as_ref())?),
            None => None,
        };
        let selection = snapshot.selection(request, query.as_ref())?;
        let visible = Visible { tombstones: &snapshot.tombstones, selection: selection.as_deref() };
        let named = match request.name() {
            Some(name) => {
                let existing = Visible { tombstones: &snapshot.tombstones, selection: own };
                snapshot.lexical.named(name, request.is_unfinished, visible, existing)?
            }
            None => Vec::new(),
        };
        let embedding = request.embedding.as_deref();
        let relevance_model = match &existing {
            Some(existing) => RelevanceModel::restricted(
                embedding.map_or(0.0, |embedding| existing.topicality(snapshot, embedding)),
            ),
            None => engine.relevance_model(embedding),
        };
        let mut scope = snapshot.scope(existing.as_ref(), selection.as_deref(), request.explain);
        scope.prepared_in = started.elapsed();
        Ok(SnapshotSearch {
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
            scope,
        })
    }

    pub(super) fn visible(&self) -> Visible<'_> {
        Visible { tombstones: &self.snapshot.tombstones, selection: self.selection.as_deref() }
    }

    /// Whether a mandatory filter may hide documents.
    pub(super) fn is_restricted(&self) -> bool {
        self.existing.is_some()
    }

    /// The unit of a chunk in rankings: the chunk itself, or its document, identified by its first chunk id.
    fn unit_of(&self, chunk_id: u32) -> Option<u32> {
        match self.request.group_by {
            Grouping::Chunk => Some(chunk_id),
            Grouping::Document | Grouping::Field(_) => self.snapshot.document_of(chunk_id),
        }
    }

    /// Reads something of each chunk.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if it is `None`: the files contradict each other, which the checks at opening exclude.
    fn read_each<T>(&self, chunk_ids: &[u32], mut read: impl FnMut(u32) -> Option<T>) -> Result<Vec<T>> {
        let damaged = || IndexError::damaged(self.engine.folder(), "a chunk does not lead to its document");
        let mut all = Vec::with_capacity(chunk_ids.len());
        for &chunk_id in chunk_ids {
            all.push(read(chunk_id).ok_or_else(damaged)?);
        }
        Ok(all)
    }
}

impl Retriever for SnapshotSearch<'_> {
    type Documents = Documents;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn words(&self) -> Option<QueryWords<'_>> {
        self.query.as_ref().map(QueryWords::of)
    }

    fn named(&self) -> &[NamedDocument] {
        &self.named
    }

    fn relevance_model(&self) -> &RelevanceModel {
        &self.relevance_model
    }

    fn traced(&self) -> Option<Traced> {
        let chunk_ids = self.traced.clone()?;
        let (document, visible) = (chunk_ids.start, self.visible());
        let is_selected = chunk_ids.into_iter().any(|chunk_id| visible.contains(chunk_id));
        Some(Traced { document, is_selected })
    }

    #[inline]
    fn document_of(&self, chunk_id: u32) -> Option<u32> {
        self.snapshot.document_of(chunk_id)
    }

    fn is_current(&self, chunk_id: u32) -> bool {
        self.current.tombstones.is_live(chunk_id)
    }

    fn observe(&self, features: QueryFeatures) {
        self.engine.observe(self.request, features);
    }

    async fn rankings(&self, depth: usize) -> Result<Rankings> {
        self.rank(depth)
    }

    async fn bm25_bounds(&self) -> Result<Bm25Bounds> {
        match &self.query {
            Some(query) => Ok(self.snapshot.lexical.bm25_bounds(query)?),
            None => Ok(Bm25Bounds::default()),
        }
    }

    async fn rare_chunks(&self) -> Result<Vec<RareChunk>> {
        match &self.query {
            Some(query) => Ok(self.snapshot.lexical.rare(query, self.visible())?),
            None => Ok(Vec::new()),
        }
    }

    async fn dense_of(&self, ranked: &[BestChunk]) -> Result<Vec<BestChunk>> {
        self.best_by_embedding(ranked)
    }

    async fn int8_rows(&self, chunk_ids: &[u32]) -> Result<Vec<i8>> {
        self.rows_of(chunk_ids)
    }

    async fn embeddings(&self, chunk_ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.read_each(chunk_ids, |chunk_id| self.snapshot.embedding(chunk_id))
    }

    async fn texts(&self, chunk_ids: &[u32]) -> Result<Vec<String>> {
        self.read_each(chunk_ids, |chunk_id| self.snapshot.text(&self.snapshot.chunk(chunk_id)?.record))
    }

    async fn values(&self, chunk_ids: &[u32], field: &str) -> Result<Vec<Option<Value>>> {
        self.read_each(chunk_ids, |chunk_id| self.snapshot.value_of(chunk_id, field))
    }

    async fn places(&self, chunk_ids: &[u32]) -> Result<Vec<ChunkPlace>> {
        self.read_each(chunk_ids, |chunk_id| Some(self.snapshot.chunk(chunk_id)?.place()))
    }

    async fn chunks(&self, chunk_ids: &[u32]) -> Result<Vec<FoundChunk>> {
        self.read_each(chunk_ids, |chunk_id| self.snapshot.found(chunk_id))
    }

    async fn neighbours(&self, chunk_ids: &[u32], count: u32) -> Result<Vec<Vec<Neighbour>>> {
        self.read_each(chunk_ids, |chunk_id| self.snapshot.neighbours(chunk_id, count))
    }

    async fn explain(&self, chunk_ids: &[u32]) -> Result<Vec<ScoreParts>> {
        let Some(query) = &self.query else { return Ok(vec![ScoreParts::default(); chunk_ids.len()]) };
        chunk_ids.iter().map(|&chunk_id| Ok(self.snapshot.lexical.explain(query, chunk_id)?)).collect()
    }

    async fn documents(&self, set: DocumentSet<'_>) -> Result<Documents> {
        self.documents_in(set)
    }

    async fn sorted(
        &self,
        documents: &Documents,
        keys: &[SortKey],
        limit: usize,
    ) -> Result<Vec<ListedChunk>> {
        Ok(self.in_order(documents, keys, limit))
    }

    async fn count(&self, documents: &Documents, group_by: &Grouping) -> Result<Option<u64>> {
        Ok(Some(self.count_of(documents, group_by)))
    }

    async fn facet(&self, documents: &Documents, facet: &FacetSpec) -> Result<Vec<ValueCount>> {
        Ok(self.snapshot.fields.count_values(facet, documents.bitmap(self.snapshot)))
    }
}

impl Chunk<'_> {
    fn place(&self) -> ChunkPlace {
        ChunkPlace { document_id: self.document.id.to_owned(), chunk: self.record.chunk }
    }
}

impl Snapshot {
    fn scope(&self, existing: Option<&Existing>, selection: Option<&Selection>, is_explained: bool) -> Scope {
        let live_chunks = self.live_chunks().into();
        Scope {
            applied_seq: self.applied_seq,
            shown_seq: match existing {
                Some(existing) if is_explained => existing.last_version(self),
                Some(_) => 0,
                None => self.applied_seq,
            },
            live_chunks,
            existing_chunks: match existing {
                Some(existing) => existing.selection.live(&self.tombstones).into(),
                None => live_chunks,
            },
            selected: selection.map(|selection| selection.live(&self.tombstones).into()),
            has_embeddings: self.files.vectors.is_some(),
            ..Scope::default()
        }
    }

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

    /// The smallest value of a field in the document of a chunk. The outer `None` means that the files contradict each other.
    fn value_of(&self, chunk_id: u32, field: &str) -> Option<Option<Value>> {
        let chunk = self.chunk(chunk_id)?;
        let Ok(metadata) = serde_json::from_str(chunk.document.metadata) else { return Some(None) };
        let mut values = Vec::new();
        flatten(&metadata, |path, value| {
            if path == field {
                values.push(value);
            }
        });
        Some(super::fields::smallest(values))
    }

    /// Reads a chunk and its document; `None` as [`Snapshot::chunk`].
    fn found(&self, chunk_id: u32) -> Option<FoundChunk> {
        let chunk = self.chunk(chunk_id)?;
        Some(FoundChunk {
            place: chunk.place(),
            title: chunk.document.title.map(str::to_owned),
            metadata: chunk.document.metadata.to_owned(),
            pages: chunk.document.pages.map(str::to_owned),
            version: chunk.document.version,
            start: usize::try_from(chunk.record.start).ok()?,
            end: usize::try_from(chunk.record.end).ok()?,
            text: self.text(&chunk.record)?,
        })
    }

    /// The chunks of the same document around a chunk; `None` as [`Snapshot::chunk`].
    fn neighbours(&self, chunk_id: u32, count: u32) -> Option<Vec<Neighbour>> {
        let chunk = self.chunk(chunk_id)?;
        let first = chunk.document.first_chunk;
        let last = first + chunk.document.chunks - 1;
        let around = chunk_id.saturating_sub(count).max(first)..=chunk_id.saturating_add(count).min(last);
        let others = around.filter(|&other| other != chunk_id).map(|other| {
            let chunk = self.chunk(other)?;
            Some(Neighbour {
                chunk: chunk.record.chunk,
                start: usize::try_from(chunk.record.start).ok()?,
                end: usize::try_from(chunk.record.end).ok()?,
                text: self.text(&chunk.record)?,
            })
        });
        others.collect()
    }
}
