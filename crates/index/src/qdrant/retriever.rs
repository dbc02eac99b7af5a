//! The search as a [`Retriever`].

use std::sync::Arc;

use hashbrown::HashMap;
use weir_filter::Value;
use weir_lexical::{NamedDocument, RareChunk, ScoreParts, TermContribution};
use weir_qdrant::{FoundPoint, KnownPoint, PointVersion, SPARSE, Uuid, frequencies, point_id, version_of};
use weir_ranking::BestChunk;
use weir_ranking::relevance::{BM25_TERM_MAX, Bm25Bounds, QueryFeatures};

use super::points::{CHUNK, END, METADATA, PAGES, START, TEXT, TITLE};
use super::rarity::Rarity;
use super::search::QdrantSearch;
use super::sets::Documents;
use super::terms::Term;
use crate::embedded::{hash_of, lock};
use crate::field_values::values_of;
use crate::pipeline::{
    ChunkPlace, DocumentSet, FoundChunk, ListedChunk, QueryWords, Rankings, RelevanceModel, Retriever, Scope,
    Traced,
};
use crate::{FacetSpec, Grouping, Neighbour, Result, SortKey, ValueCount};

/// A word in more chunks is not rare.
const RARE_CHUNKS_MAX: u64 = 64;
/// Chunks that are read by one call.
pub(super) const READ_MAX: usize = 500;

impl QdrantSearch<'_> {
    pub(super) fn known(&self, chunk_ids: &[u32]) -> Vec<KnownPoint> {
        let numbers = self.numbers();
        chunk_ids.iter().filter_map(|&chunk_id| numbers.chunks.get(chunk_id as usize).cloned()).collect()
    }

    /// The points of these ids that are there and ours.
    async fn read(&self, mut ids: Vec<Uuid>, fields: &[&'static str]) -> Result<HashMap<Uuid, FoundPoint>> {
        ids.sort_unstable();
        ids.dedup();
        let fields = [self.fields(), fields.to_vec()].concat();
        let mut found = HashMap::new();
        for ids in ids.chunks(READ_MAX) {
            let client = &self.engine.client;
            let points =
                client.get(&self.engine.alias, ids.to_vec(), fields.clone().into(), false.into()).await?;
            let ours = points.into_iter().filter(|point| self.is_ours(point));
            found.extend(ours.map(|point| (point.id, point)));
        }
        Ok(found)
    }

    /// The points of chunks, in their order. Those that have vanished or changed, or don't pass any more, end the search.
    async fn points(&self, chunk_ids: &[u32], fields: &[&'static str]) -> Result<Vec<FoundPoint>> {
        let known = self.known(chunk_ids);
        let found = self.read(known.iter().map(|known| known.id).collect(), fields).await?;
        let is_same = |known: &KnownPoint, point: &&FoundPoint| version_of(point) == known.version;
        let one = |known: &KnownPoint| {
            let point = found.get(&known.id).filter(|point| is_same(known, point));
            point.cloned().ok_or_else(|| self.changed())
        };
        known.iter().map(one).collect()
    }

    /// Reads chunks with what a hit shows of their documents.
    async fn read_chunks(&self, known: &[&KnownPoint]) -> Result<Vec<FoundChunk>> {
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let tenant = &self.engine.tenant.name;
        // the pages are in the first chunk
        let firsts: Vec<Uuid> = known.iter().map(|known| point_id(tenant, &known.document_id, 0)).collect();
        let ids = known.iter().map(|known| known.id).chain(firsts.iter().copied()).collect();
        let points = self.read(ids, &[METADATA, TITLE, TEXT, START, END, PAGES]).await?;
        let text = |point: &FoundPoint, field| point.text(field).map(str::to_owned);
        let chunk = |(known, first): (&&KnownPoint, &Uuid)| {
            // parts of several versions of a document do not belong together
            let is_same = |point: &&FoundPoint| version_of(point) == known.version;
            let point = points.get(&known.id).filter(is_same).ok_or_else(|| self.changed())?;
            let first = points.get(first).filter(is_same).ok_or_else(|| self.changed())?;
            let chunk = FoundChunk {
                place: place_of(known),
                title: text(point, TITLE),
                metadata: text(point, METADATA).unwrap_or_default(),
                pages: text(first, PAGES),
                version: version_of(point),
                start: place_in_text(point, START),
                end: place_in_text(point, END),
                text: text(point, TEXT).unwrap_or_default(),
            };
            self.engine.cache.put_chunk(known.point_version(), &chunk);
            Ok(chunk)
        };
        known.iter().zip(&firsts).map(chunk).collect()
    }

    /// The metadata of the documents of chunks.
    pub(super) async fn metadata_of(&self, chunk_ids: &[u32]) -> Result<Vec<String>> {
        let known = self.known(chunk_ids);
        if known.iter().all(|known| known.metadata.is_some()) {
            return Ok(known.into_iter().filter_map(|known| known.metadata).collect());
        }
        let points = self.points(chunk_ids, &[METADATA]).await?;
        Ok(points.iter().map(|point| point.text(METADATA).unwrap_or_default().to_owned()).collect())
    }

    /// Chunks that exist for the caller and contain a term.
    fn holding_of(&self, term: &str) -> u64 {
        self.rarity_of(term).holding
    }

    fn idf(&self, holding: u64) -> f32 {
        let (chunks, holding) = (self.scope.existing_chunks as f32, holding as f32);
        (1.0 + (chunks - holding + 0.5) / (holding + 0.5)).ln()
    }

    /// The unit of a chunk in rankings.
    fn unit_of(&self, chunk_id: u32) -> Option<u32> {
        match self.request.group_by {
            Grouping::Chunk => Some(chunk_id),
            Grouping::Document | Grouping::Field(_) => self.document_of(chunk_id),
        }
    }
}

impl Retriever for QdrantSearch<'_> {
    type Documents = Documents;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn words(&self) -> Option<QueryWords<'_>> {
        let terms = self.words.as_deref()?;
        Some(QueryWords { terms, corrections: &[], synonyms: &[], is_complete: true })
    }

    fn named(&self) -> &[NamedDocument] {
        &self.named
    }

    fn relevance_model(&self) -> &RelevanceModel {
        &self.relevance_model
    }

    fn traced(&self) -> Option<Traced> {
        self.traced
    }

    fn document_of(&self, chunk_id: u32) -> Option<u32> {
        self.numbers().document_of(chunk_id)
    }

    fn is_current(&self, _: u32) -> bool {
        true
    }

    fn observe(&self, features: QueryFeatures) {
        let (known, baseline) = &mut *lock(&self.engine.observed);
        if known.insert(hash_of(self.request)) {
            features.observe(baseline);
        }
    }

    async fn rankings(&self, depth: usize) -> Result<Rankings> {
        self.rankings_of(depth).await
    }

    async fn bm25_bounds(&self) -> Result<Bm25Bounds> {
        let words = self.words.as_deref().unwrap_or_default();
        let bound = |holding: u64| self.idf(holding) * BM25_TERM_MAX;
        let query = words.iter().map(|word| bound(self.holding_of(&word.text)) * word.weight).sum();
        Ok(Bm25Bounds { query, word: bound(0) })
    }

    async fn rare_chunks(&self) -> Result<Vec<RareChunk>> {
        let words = self.words.as_deref().unwrap_or_default();
        let rarest = words.iter().min_by_key(|word| self.holding_of(&word.text));
        let Some(rarest) = rarest.filter(|_| self.can_name_by_word()) else { return Ok(Vec::new()) };
        let Rarity { holding, is_frequent } = self.rarity_of(&rarest.text);
        let is_frequent = self.request.filter.is_none() && is_frequent == Some(true);
        if is_frequent || !(1..=RARE_CHUNKS_MAX).contains(&holding) {
            return Ok(Vec::new());
        }
        let of_words = |term: &&Term| words.iter().any(|word| word.text == term.term.text);
        let terms: Vec<&Term> = self.terms.iter().filter(of_words).collect();
        let Some(rarest) = terms.iter().find(|term| term.term.text == rarest.text) else {
            return Ok(Vec::new());
        };
        let found = self.holding(rarest, RARE_CHUNKS_MAX).await?;
        let has_all = |point: &FoundPoint| terms.iter().all(|term| point.share_of(term.index).is_some());
        Ok(found
            .into_iter()
            .map(|(chunk_id, point)| RareChunk { chunk_id, has_all: has_all(&point) })
            .collect())
    }

    async fn dense_of(&self, ranked: &[BestChunk]) -> Result<Vec<BestChunk>> {
        let Some(embedding) = &self.request.embedding else { return Ok(Vec::new()) };
        let chunk_ids: Vec<u32> = ranked.iter().map(|best| best.chunk_id).collect();
        let scored = self.scored_around(embedding, &self.known(&chunk_ids)).await?;
        let mut best = self.best(&scored, ranked.len());
        let place = |one: &BestChunk| {
            ranked.iter().position(|best| self.unit_of(best.chunk_id) == Some(one.document))
        };
        best.sort_by_key(place);
        Ok(best)
    }

    async fn int8_rows(&self, chunk_ids: &[u32]) -> Result<Vec<i8>> {
        let none = vec![0; self.engine.settings.dimension];
        let rows = self.rows(&self.known(chunk_ids)).await?;
        let rows = rows.iter().map(|row| row.as_ref().map_or(&none[..], |row| &row.int8));
        Ok(rows.collect::<Vec<_>>().concat())
    }

    async fn embeddings(&self, chunk_ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        let rows = self.rows(&self.known(chunk_ids)).await?;
        let none = || vec![0.0; self.engine.settings.dimension];
        Ok(rows.iter().map(|row| row.as_ref().map_or_else(none, |row| row.floats())).collect())
    }

    async fn texts(&self, chunk_ids: &[u32]) -> Result<Vec<String>> {
        let points = self.points(chunk_ids, &[TEXT]).await?;
        Ok(points.iter().map(|point| point.text(TEXT).unwrap_or_default().to_owned()).collect())
    }

    async fn values(&self, chunk_ids: &[u32], field: &str) -> Result<Vec<Option<Value>>> {
        let metadata = self.metadata_of(chunk_ids).await?;
        Ok(metadata.iter().map(|json| values_of(json, field).into_iter().next()).collect())
    }

    async fn places(&self, chunk_ids: &[u32]) -> Result<Vec<ChunkPlace>> {
        Ok(self.known(chunk_ids).iter().map(place_of).collect())
    }

    async fn chunks(&self, chunk_ids: &[u32]) -> Result<Vec<FoundChunk>> {
        let known = self.known(chunk_ids);
        if known.iter().any(|known| self.engine.is_hidden(&known.document_id)) {
            return Err(self.changed());
        }
        let versions: Vec<PointVersion> = known.iter().map(KnownPoint::point_version).collect();
        let kept = self.engine.cache.chunks.get(&versions);
        let missing: Vec<&KnownPoint> =
            known.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(known, _)| known).collect();
        let mut read = self.read_chunks(&missing).await?.into_iter();
        let chunk = |kept: Option<Arc<FoundChunk>>| match kept {
            Some(kept) => Ok(FoundChunk::clone(&kept)),
            None => read.next().ok_or_else(|| self.changed()),
        };
        kept.into_iter().map(chunk).collect()
    }

    async fn neighbours(&self, chunk_ids: &[u32], count: u32) -> Result<Vec<Vec<Neighbour>>> {
        let known = self.known(chunk_ids);
        let tenant = &self.engine.tenant.name;
        let around = |known: &KnownPoint| {
            let chunks = known.chunk.saturating_sub(count)..=known.chunk.saturating_add(count);
            let (document, own) = (known.document_id.clone(), known.chunk);
            chunks.filter(move |chunk| *chunk != own).map(move |chunk| point_id(tenant, &document, chunk))
        };
        let found = self.read(known.iter().flat_map(around).collect(), &[TEXT, START, END]).await?;
        let neighbours = |known: &KnownPoint| {
            let points = around(known).filter_map(|id| found.get(&id));
            // parts of another version of the text do not belong together
            let points = points.filter(|point| version_of(point) == known.version);
            points
                .map(|point| Neighbour {
                    chunk: point
                        .integer(CHUNK)
                        .and_then(|chunk| u32::try_from(chunk).ok())
                        .unwrap_or_default(),
                    start: place_in_text(point, START),
                    end: place_in_text(point, END),
                    text: point.text(TEXT).unwrap_or_default().to_owned(),
                })
                .collect()
        };
        Ok(known.iter().map(neighbours).collect())
    }

    async fn explain(&self, chunk_ids: &[u32]) -> Result<Vec<ScoreParts>> {
        let known = self.known(chunk_ids);
        let ids = known.iter().map(|known| known.id).collect();
        let fields = vec![TITLE, TEXT];
        let client = &self.engine.client;
        let points = client.get(&self.engine.alias, ids, fields.into(), vec![SPARSE].into()).await?;
        let points: HashMap<Uuid, &FoundPoint> = points.iter().map(|point| (point.id, point)).collect();
        let language = self.engine.settings.language;
        let parts = |known: &KnownPoint| {
            let Some(point) = points.get(&known.id) else { return ScoreParts::default() };
            let texts = [point.text(TITLE).unwrap_or_default(), point.text(TEXT).unwrap_or_default()];
            let (frequencies, _) = frequencies(&texts, language);
            let contribution = |term: &Term| {
                let share = point.share_of(term.index)?;
                let chunks = self.holding_of(&term.term.text);
                Some(TermContribution {
                    term: term.term.text.clone(),
                    chunks,
                    frequency: *frequencies.get(&term.term.text)?,
                    score: term.term.weight * self.idf(chunks) * share,
                })
            };
            ScoreParts { terms: self.terms.iter().filter_map(contribution).collect(), phrases: Vec::new() }
        };
        Ok(known.iter().map(parts).collect())
    }

    async fn documents(&self, set: DocumentSet<'_>) -> Result<Documents> {
        self.read_set(set).await
    }

    async fn sorted(
        &self,
        documents: &Documents,
        keys: &[SortKey],
        limit: usize,
    ) -> Result<Vec<ListedChunk>> {
        self.sorted_set(documents, keys, limit).await
    }

    async fn count(&self, documents: &Documents, group_by: &Grouping) -> Result<Option<u64>> {
        self.count_set(documents, group_by).await
    }

    async fn facet(&self, documents: &Documents, facet: &FacetSpec) -> Result<Vec<ValueCount>> {
        Ok(self.facet_of(documents, facet))
    }
}

fn place_of(known: &KnownPoint) -> ChunkPlace {
    ChunkPlace { document_id: known.document_id.to_string(), chunk: known.chunk }
}

fn place_in_text(point: &FoundPoint, field: &str) -> usize {
    point.integer(field).and_then(|place| usize::try_from(place).ok()).unwrap_or(0)
}
