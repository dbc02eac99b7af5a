//! The exact engine as a [`Retriever`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use weir_filter::Value;
use weir_lexical::{NamedDocument, RareChunk, ScoreParts, TermContribution};
use weir_query::Query;
use weir_ranking::relevance::{BM25_TERM_MAX, Bm25Bounds, CorpusStatistics, QueryFeatures};
use weir_ranking::{BestChunk, RetrievalMode, ScoredChunk, best_chunks};
use weir_text::{Language, QueryTerm};

use super::{Exact, Stored, lock};
use crate::field_values::{by_keys, count_groups, count_values, metadata, values_of};
use crate::pipeline::{
    ChunkPlace, DocumentSet, FoundChunk, ListedChunk, QueryWords, Rankings, RelevanceModel, Retriever, Scope,
    Traced,
};
use crate::restricted::RestrictedQuery;
use crate::{
    FacetSpec, Grouping, IndexError, IndexQuery, IndexedChunk, Neighbour, Result, SortKey, ValueCount,
};

/// The parameters of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// One search over the documents of one moment.
pub(super) struct ExactSearch<'a> {
    engine: &'a Exact,
    request: &'a IndexQuery,
    /// The documents that exist for the caller.
    existing: Vec<Arc<Stored>>,
    /// By chunk; also of documents that do not exist for the caller.
    by_chunk: HashMap<u32, Arc<Stored>>,
    /// The chunks that pass the filter.
    selected: BTreeSet<u32>,
    terms: Option<Vec<QueryTerm>>,
    named: Vec<NamedDocument>,
    relevance_model: RelevanceModel,
    traced: Option<Traced>,
    scope: Scope,
}

impl<'a> ExactSearch<'a> {
    pub(super) async fn new(
        engine: &'a Exact,
        restricted: &'a RestrictedQuery,
        traced: Option<&str>,
    ) -> Result<ExactSearch<'a>> {
        engine.call().await?;
        let RestrictedQuery { query: request, mandatory, named_fields } = restricted;
        let (all, applied_seq) = {
            let state = engine.state();
            (state.documents.clone(), state.applied_seq)
        };
        let shown = |stored: &&Arc<Stored>| restricted.shows(&stored.document.metadata);
        let existing: Vec<Arc<Stored>> = all.iter().filter(shown).cloned().collect();
        check_fields(named_fields, &existing)?;
        let passes = |stored: &&Arc<Stored>| {
            let metadata = metadata(&stored.document.metadata);
            request.filter.as_ref().is_none_or(|filter| filter.evaluate(&metadata))
        };
        let selected: BTreeSet<u32> =
            existing.iter().filter(passes).flat_map(|stored| stored.chunk_ids()).collect();
        let terms = match &request.query {
            Some(Query::Words(text)) => {
                Some(weir_text::query_terms(text, engine.0.settings.language, None).terms)
            }
            _ => None,
        };
        let named = request.name().map_or_else(Vec::new, |name| named(name, &existing, &selected));
        let traced = traced.and_then(|id| existing.iter().find(|stored| stored.document.id == id));
        let traced = traced.map(|stored| Traced {
            document: stored.first_chunk,
            is_selected: stored.chunk_ids().any(|chunk_id| selected.contains(&chunk_id)),
        });
        let chunks_of = |documents: &[Arc<Stored>]| documents.iter().map(|one| one.chunks.len() as u64).sum();
        let last_version = existing.last().map_or(0, |stored| stored.document.version);
        let scope = Scope {
            applied_seq,
            shown_seq: match (mandatory, request.explain) {
                (None, _) => applied_seq,
                (Some(_), true) => last_version,
                (Some(_), false) => 0,
            },
            live_chunks: chunks_of(&all),
            existing_chunks: chunks_of(&existing),
            selected: request.filter.as_ref().map(|_| selected.len() as u64),
            has_embeddings: engine.0.settings.dimension > 0,
            ..Scope::default()
        };
        let rows: Vec<Vec<f32>> =
            existing.iter().flat_map(|stored| &stored.document.chunks).filter_map(embedding).collect();
        let fitted = CorpusStatistics::fit(&rows).zip(request.embedding.as_deref());
        let topicality = fitted.map_or(0.0, |(fitted, embedding)| fitted.topicality(embedding));
        let relevance_model = match mandatory {
            Some(_) => RelevanceModel::restricted(topicality),
            None => RelevanceModel {
                topicality,
                baseline: lock(&engine.0.observed).1,
                learned: lock(&engine.0.learned).clone(),
            },
        };
        let by_chunk = all.iter().flat_map(|stored| stored.chunk_ids().map(move |id| (id, stored.clone())));
        let by_chunk = by_chunk.collect();
        Ok(ExactSearch {
            engine,
            request,
            existing,
            by_chunk,
            selected,
            terms,
            named,
            relevance_model,
            traced,
            scope,
        })
    }

    fn stored(&self, chunk_id: u32) -> &Stored {
        &self.by_chunk[&chunk_id]
    }

    fn chunk(&self, chunk_id: u32) -> &IndexedChunk {
        let stored = self.stored(chunk_id);
        &stored.document.chunks[(chunk_id - stored.first_chunk) as usize]
    }

    fn frequency(&self, chunk_id: u32, term: &str) -> u32 {
        let stored = self.stored(chunk_id);
        let words = &stored.chunks[(chunk_id - stored.first_chunk) as usize];
        words.frequencies.get(term).copied().unwrap_or(0)
    }

    /// Chunks that exist and contain a term.
    fn holding(&self, term: &str) -> u64 {
        let chunks = self.existing.iter().flat_map(|stored| &stored.chunks);
        chunks.filter(|words| words.frequencies.contains_key(term)).count() as u64
    }

    /// The contribution of a term to the score of a chunk.
    fn bm25(&self, chunk_id: u32, term: &QueryTerm) -> f32 {
        let (entries, holding) = (self.scope.existing_chunks as f32, self.holding(&term.text) as f32);
        let lengths = self.existing.iter().flat_map(|stored| &stored.chunks).map(|words| words.count);
        let mean = lengths.sum::<u32>() as f32 / entries;
        let stored = self.stored(chunk_id);
        let length = stored.chunks[(chunk_id - stored.first_chunk) as usize].count as f32;
        let frequency = self.frequency(chunk_id, &term.text) as f32;
        let idf = (1.0 + (entries - holding + 0.5) / (holding + 0.5)).ln();
        let share = frequency / (frequency + K1 * (1.0 - B + B * length / mean));
        term.weight * idf * (1.0 + K1) * share
    }

    fn unit_of(&self, chunk_id: u32) -> Option<u32> {
        match self.request.group_by {
            Grouping::Chunk => Some(chunk_id),
            Grouping::Document | Grouping::Field(_) => self.document_of(chunk_id),
        }
    }

    fn best(&self, mut scored: Vec<ScoredChunk>, depth: usize) -> Vec<BestChunk> {
        scored.sort_by(ScoredChunk::by_rank);
        best_chunks(&scored, depth, |chunk_id| self.unit_of(chunk_id))
    }

    fn matching(&self) -> HashSet<u32> {
        let terms = self.terms.as_deref().unwrap_or_default();
        let has_term = |id: &&u32| terms.iter().any(|term| self.frequency(**id, &term.text) > 0);
        let named = self.named.iter().map(|named| named.chunk_id);
        self.selected.iter().filter(has_term).copied().chain(named).collect()
    }

    fn scored(&self, chunk_ids: impl IntoIterator<Item = u32>, embedding: &[f32]) -> Vec<ScoredChunk> {
        let score = |chunk_id| {
            let row = self.chunk(chunk_id).embedding.as_deref().unwrap_or_default();
            row.iter().zip(embedding).map(|(a, b)| a * b).sum()
        };
        chunk_ids.into_iter().map(|chunk_id| ScoredChunk { chunk_id, score: score(chunk_id) }).collect()
    }
}

impl Retriever for ExactSearch<'_> {
    /// Chunks.
    type Documents = BTreeSet<u32>;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn words(&self) -> Option<QueryWords<'_>> {
        let terms = self.terms.as_deref()?;
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
        self.by_chunk.get(&chunk_id).map(|stored| stored.first_chunk)
    }

    fn is_current(&self, _: u32) -> bool {
        true
    }

    fn observe(&self, features: QueryFeatures) {
        let IndexQuery { mode, query, embedding, .. } = self.request;
        let key = match query {
            Some(query) => format!("{mode:?} {query}"),
            None => format!("{mode:?} {embedding:?}"),
        };
        let (known, baseline) = &mut *lock(&self.engine.0.observed);
        if known.insert(key) {
            features.observe(baseline);
        }
    }

    async fn rankings(&self, depth: usize) -> Result<Rankings> {
        self.engine.call().await?;
        let (mode, mut rankings) = (self.request.mode, Rankings::default());
        if let Some(terms) = self.terms.as_ref().filter(|_| mode != RetrievalMode::Dense) {
            let score = |chunk_id| terms.iter().map(|term| self.bm25(chunk_id, term)).sum();
            let all = self.selected.iter().map(|&chunk_id| ScoredChunk { chunk_id, score: score(chunk_id) });
            rankings.lexical = self.best(all.filter(|chunk| chunk.score > 0.0).collect(), depth);
        }
        if let Some(embedding) = self.request.embedding.as_ref().filter(|_| mode != RetrievalMode::Lexical) {
            rankings.dense = self.best(self.scored(self.selected.iter().copied(), embedding), depth);
        }
        Ok(rankings)
    }

    async fn bm25_bounds(&self) -> Result<Bm25Bounds> {
        self.engine.call().await?;
        let entries = self.scope.existing_chunks as f32;
        let bound = |holding: f32| (1.0 + (entries - holding + 0.5) / (holding + 0.5)).ln() * BM25_TERM_MAX;
        let terms = self.terms.iter().flatten();
        let query = terms.map(|term| bound(self.holding(&term.text) as f32) * term.weight).sum();
        Ok(Bm25Bounds { query, word: bound(0.0) })
    }

    async fn rare_chunks(&self) -> Result<Vec<RareChunk>> {
        self.engine.call().await?;
        let terms = self.terms.as_deref().unwrap_or_default();
        let rarest = terms.iter().map(|term| (self.holding(&term.text), term)).min_by_key(|(held, _)| *held);
        let Some((1..=64, rarest)) = rarest.filter(|_| terms.len() <= 8) else { return Ok(Vec::new()) };
        let has = |chunk_id, term: &QueryTerm| self.frequency(chunk_id, &term.text) > 0;
        let with_rarest = self.selected.iter().filter(|id| has(**id, rarest));
        Ok(with_rarest
            .map(|&chunk_id| RareChunk { chunk_id, has_all: terms.iter().all(|term| has(chunk_id, term)) })
            .collect())
    }

    async fn dense_of(&self, ranked: &[BestChunk]) -> Result<Vec<BestChunk>> {
        self.engine.call().await?;
        let Some(embedding) = &self.request.embedding else { return Ok(Vec::new()) };
        let is_of = |id: &u32| ranked.iter().any(|best| self.unit_of(*id) == Some(best.document));
        let chunk_ids = self.selected.iter().copied().filter(is_of);
        let mut best = self.best(self.scored(chunk_ids, embedding), ranked.len());
        let place = |one: &BestChunk| ranked.iter().position(|best| best.document == one.document);
        best.sort_by_key(place);
        Ok(best)
    }

    async fn int8_rows(&self, chunk_ids: &[u32]) -> Result<Vec<i8>> {
        let rows = self.embeddings(chunk_ids).await?;
        Ok(rows
            .iter()
            .flat_map(|row| {
                let scale = row.iter().fold(0.0f32, |largest, x| largest.max(x.abs())) / 127.0;
                let quantised = move |x: &f32| if scale > 0.0 { (x / scale).round() as i8 } else { 0 };
                row.iter().map(quantised)
            })
            .collect())
    }

    async fn embeddings(&self, chunk_ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.engine.call().await?;
        Ok(chunk_ids.iter().filter_map(|&chunk_id| embedding(self.chunk(chunk_id))).collect())
    }

    async fn texts(&self, chunk_ids: &[u32]) -> Result<Vec<String>> {
        self.engine.call().await?;
        Ok(chunk_ids.iter().map(|&chunk_id| self.chunk(chunk_id).text.clone()).collect())
    }

    async fn values(&self, chunk_ids: &[u32], field: &str) -> Result<Vec<Option<Value>>> {
        self.engine.call().await?;
        let smallest =
            |&chunk_id: &u32| values_of(&self.stored(chunk_id).document.metadata, field).into_iter().next();
        Ok(chunk_ids.iter().map(smallest).collect())
    }

    async fn places(&self, chunk_ids: &[u32]) -> Result<Vec<ChunkPlace>> {
        self.engine.call().await?;
        let place = |&chunk_id: &u32| {
            let stored = self.stored(chunk_id);
            ChunkPlace { document_id: stored.document.id.clone(), chunk: chunk_id - stored.first_chunk }
        };
        Ok(chunk_ids.iter().map(place).collect())
    }

    async fn chunks(&self, chunk_ids: &[u32]) -> Result<Vec<FoundChunk>> {
        let places = self.places(chunk_ids).await?;
        let found = places.into_iter().zip(chunk_ids).map(|(place, &chunk_id)| {
            let (document, chunk) = (&self.stored(chunk_id).document, self.chunk(chunk_id));
            FoundChunk {
                place,
                title: document.title.clone(),
                metadata: document.metadata.clone(),
                pages: document.pages.clone(),
                version: document.version,
                start: chunk.start,
                end: chunk.end,
                text: chunk.text.clone(),
            }
        });
        Ok(found.collect())
    }

    async fn neighbours(&self, chunk_ids: &[u32], count: u32) -> Result<Vec<Vec<Neighbour>>> {
        self.engine.call().await?;
        let around = |&chunk_id: &u32| {
            let stored = self.stored(chunk_id);
            let is_near = |other: &u32| *other != chunk_id && other.abs_diff(chunk_id) <= count;
            let neighbour = |other: u32| {
                let IndexedChunk { start, end, text, .. } = self.chunk(other).clone();
                Neighbour { chunk: other - stored.first_chunk, start, end, text }
            };
            stored.chunk_ids().filter(is_near).map(neighbour).collect()
        };
        Ok(chunk_ids.iter().map(around).collect())
    }

    async fn explain(&self, chunk_ids: &[u32]) -> Result<Vec<ScoreParts>> {
        self.engine.call().await?;
        let parts = |&chunk_id: &u32| {
            let terms = self.terms.iter().flatten().map(|term| TermContribution {
                term: term.text.clone(),
                chunks: self.holding(&term.text),
                frequency: self.frequency(chunk_id, &term.text),
                score: self.bm25(chunk_id, term),
            });
            let terms = terms.filter(|term| term.frequency > 0).collect();
            ScoreParts { terms, phrases: Vec::new() }
        };
        Ok(chunk_ids.iter().map(parts).collect())
    }

    async fn documents(&self, set: DocumentSet<'_>) -> Result<BTreeSet<u32>> {
        self.engine.call().await?;
        let whole = |chunk_ids: &[u32]| -> BTreeSet<u32> {
            chunk_ids.iter().flat_map(|&chunk_id| self.stored(chunk_id).chunk_ids()).collect()
        };
        Ok(match set {
            DocumentSet::Selected => self.selected.clone(),
            DocumentSet::Matching => self.matching().into_iter().collect(),
            DocumentSet::Of(chunk_ids) => whole(chunk_ids),
            DocumentSet::MatchingOr(chunk_ids) => {
                whole(chunk_ids).into_iter().chain(self.matching()).collect()
            }
        })
    }

    async fn sorted(
        &self,
        documents: &BTreeSet<u32>,
        keys: &[SortKey],
        limit: usize,
    ) -> Result<Vec<ListedChunk>> {
        self.engine.call().await?;
        let numbers: BTreeSet<u32> = documents.iter().filter_map(|&id| self.document_of(id)).collect();
        let mut ordered: Vec<u32> = numbers.into_iter().collect();
        let metadata = |document: &u32| self.stored(*document).document.metadata.as_str();
        ordered.sort_by(|a, b| by_keys(keys, metadata(a), metadata(b)).then(a.cmp(b)));
        let shown = if self.request.group_by == Grouping::Chunk { usize::MAX } else { 1 };
        let listed = ordered.into_iter().take(limit).flat_map(|document| {
            let chunk_ids = self.stored(document).chunk_ids().filter(|id| documents.contains(id));
            chunk_ids.take(shown).map(move |chunk_id| ListedChunk { document, chunk_id })
        });
        Ok(listed.collect())
    }

    async fn count(&self, documents: &BTreeSet<u32>, group_by: &Grouping) -> Result<Option<u64>> {
        self.engine.call().await?;
        let numbers: BTreeSet<u32> = documents.iter().filter_map(|&id| self.document_of(id)).collect();
        Ok(Some(match group_by {
            Grouping::Chunk => documents.len() as u64,
            Grouping::Document => numbers.len() as u64,
            Grouping::Field(field) => {
                count_groups(numbers.iter().map(|id| &*self.stored(*id).document.metadata), field)
            }
        }))
    }

    async fn facet(&self, documents: &BTreeSet<u32>, facet: &FacetSpec) -> Result<Vec<ValueCount>> {
        self.engine.call().await?;
        let numbers: BTreeSet<u32> = documents.iter().filter_map(|&id| self.document_of(id)).collect();
        Ok(count_values(numbers.iter().map(|id| &*self.stored(*id).document.metadata), facet))
    }
}

/// Refuses fields that no document has.
fn check_fields(named: &[String], existing: &[Arc<Stored>]) -> Result<()> {
    let has =
        |field: &str| existing.iter().any(|stored| !values_of(&stored.document.metadata, field).is_empty());
    match named.iter().find(|field| !has(field)) {
        Some(field) => {
            Err(IndexError::UnknownField { field: field.clone(), known: Vec::new(), is_full: false })
        }
        None => Ok(()),
    }
}

fn embedding(chunk: &IndexedChunk) -> Option<Vec<f32>> {
    chunk.embedding.clone()
}

/// The documents whose title or id is the name or begins with it, those with the whole name first.
fn named(name: &str, existing: &[Arc<Stored>], selected: &BTreeSet<u32>) -> Vec<NamedDocument> {
    let name = normalised(name);
    if name.is_empty() {
        return Vec::new();
    }
    let share = |other: &str| {
        let other = normalised(other);
        let begins = other.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        if begins { name.len() as f32 / other.len() as f32 } else { 0.0 }
    };
    let mut named: Vec<NamedDocument> = Vec::new();
    for stored in existing.iter().filter(|stored| selected.contains(&stored.first_chunk)) {
        let title = stored.document.title.as_deref().unwrap_or_default();
        let share = share(&stored.document.id).max(share(title));
        if share > 0.0 {
            named.push(NamedDocument { chunk_id: stored.first_chunk, share });
        }
    }
    named.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.chunk_id.cmp(&b.chunk_id)));
    named
}

fn normalised(name: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    weir_text::analyse(name, Language::None, |token| {
        if token.is_word {
            words.push(token.text.to_owned());
        }
    });
    words.join(" ")
}
