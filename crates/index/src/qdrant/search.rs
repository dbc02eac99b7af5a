//! One search: what is asked of the cluster, and the points that it gave.
//!
//! The first calls go out together: the rankings, the rarity of each term, counts, names. Every point that comes back is checked: tenant,
//! removals, filter, and that no newer version of its document came with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use weir_lexical::NamedDocument;
use weir_qdrant::api::{
    Filter, IdfParams, OrderBy, QuantizationSearchParams, Query, QueryPoints, ScrollPoints, SearchParams,
    VectorInput,
};
use weir_qdrant::{DENSE, FoundPoint, PointNumbers, RANKED_MAX, SPARSE, TENANT, version_of};
use weir_ranking::relevance::ScoreBaseline;
use weir_ranking::{BestChunk, RetrievalMode, ScoredChunk, best_chunks};
use weir_text::QueryTerm;

use super::Shared;
use super::conditions::{Bound, has_path, of_document, translated};
use super::names::NAMED_MAX;
use super::points::{CHUNK, CHUNKS, DOCUMENT, METADATA, PATHS, VERSION, name_keys};
use super::rarity::Rarity;
use super::terms::{Term, terms_of};
use crate::embedded::lock;
use crate::field_values::metadata;
use crate::pipeline::{Rankings, RelevanceModel, Scope, Traced};
use crate::restricted::RestrictedQuery;
use crate::{Grouping, IndexError, IndexQuery, Result};

/// Documents whose fields are named where a field is unknown.
const KNOWN_SAMPLE: u32 = 64;
/// Queries of more words name nothing by a single one.
const RARE_TERMS_MAX: usize = 8;
/// How many more points int8 ranks than are compared exactly.
const OVERSAMPLING: f64 = 2.0;

/// One search over the points of a tenant.
pub(super) struct QdrantSearch<'a> {
    pub(super) engine: &'a Shared,
    pub(super) request: &'a IndexQuery,
    pub(super) restricted: &'a RestrictedQuery,
    /// Points that exist for the caller, and no others: perhaps not all.
    pub(super) existing: Filter,
    /// Those that pass the filter, and perhaps others.
    pub(super) selected: Filter,
    /// Points that pass the filter, and no others, where the filter can't be translated exactly.
    pub(super) selected_surely: Option<Filter>,
    pub(super) terms: Vec<Term>,
    /// Those of `terms` that are words of the query and no other forms of them.
    pub(super) words: Option<Vec<QueryTerm>>,
    numbers: Mutex<PointNumbers>,
    /// By the numbers of the terms, those that were found out.
    pub(super) rarity: Mutex<HashMap<u32, Rarity>>,
    /// The rankings that were asked for at the start, and their depth.
    first: Mutex<Option<(usize, Rankings)>>,
    pub(super) named: Vec<NamedDocument>,
    pub(super) relevance_model: RelevanceModel,
    pub(super) traced: Option<Traced>,
    pub(super) scope: Scope,
    has_changed: AtomicBool,
}

impl<'a> QdrantSearch<'a> {
    pub(super) async fn new(
        engine: &'a Shared,
        restricted: &'a RestrictedQuery,
        traced: Option<&str>,
    ) -> Result<QdrantSearch<'a>> {
        let started = Instant::now();
        let RestrictedQuery { query: request, mandatory, .. } = restricted;
        let mandatory_condition =
            mandatory.as_deref().map(|filter| translated(filter, Bound::Lower)).transpose()?;
        let of_request = |bound| request.filter.as_ref().map(|filter| translated(filter, bound)).transpose();
        let (condition, sure) = (of_request(Bound::Upper)?, of_request(Bound::Lower)?);
        let selected_surely = (sure != condition).then(|| engine.filter(sure));
        let (words, terms) = terms_of(request, engine);
        let mut search = QdrantSearch {
            engine,
            request,
            restricted,
            existing: engine.filter(mandatory_condition),
            selected: engine.filter(condition),
            selected_surely,
            terms,
            words,
            numbers: Mutex::default(),
            rarity: Mutex::default(),
            first: Mutex::default(),
            named: Vec::new(),
            relevance_model: RelevanceModel::restricted(0.0),
            traced: None,
            scope: Scope::default(),
            has_changed: AtomicBool::new(false),
        };
        let (fields, scope, topicality, traced, first) = tokio::join!(
            search.check_fields(),
            search.counted(),
            engine.topicality(request.embedding.as_deref(), mandatory.as_deref(), &search.existing),
            search.find_traced(traced),
            search.rank_first(),
        );
        fields?;
        search.scope = scope?;
        let (first, named) = first?;
        // numbers are given in the same order each time
        search.named = search.named_of(named);
        search.traced = search.traced_of(traced?);
        search.scope.prepared_in = started.elapsed();
        *lock(&search.first) = first;
        search.relevance_model = search.model(topicality?);
        Ok(search)
    }

    /// Whether documents vanished between two calls, so that the search is to be made again.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed.load(Ordering::Relaxed)
    }

    /// For a document that has vanished.
    pub(super) fn changed(&self) -> IndexError {
        self.has_changed.store(true, Ordering::Relaxed);
        IndexError::Unavailable {
            reason: "documents were changed while it was searched".to_owned(),
            retry_after: Duration::from_secs(1),
        }
    }

    pub(super) fn numbers(&self) -> MutexGuard<'_, PointNumbers> {
        lock(&self.numbers)
    }

    /// Of a term of the query; of others as if no chunk contained them.
    pub(super) fn rarity_of(&self, term: &str) -> Rarity {
        let known = self.terms.iter().find(|known| known.term.text == term);
        known.and_then(|known| lock(&self.rarity).get(&known.index).copied()).unwrap_or_default()
    }

    fn model(&self, topicality: f32) -> RelevanceModel {
        match self.restricted.mandatory {
            Some(_) => RelevanceModel::restricted(topicality),
            None => {
                let baseline: ScoreBaseline = lock(&self.engine.observed).1;
                RelevanceModel { topicality, baseline, learned: lock(&self.engine.learned).clone() }
            }
        }
    }

    /// The fields that each point of the search has to have.
    pub(super) fn fields(&self) -> Vec<&'static str> {
        let mut fields = vec![TENANT, DOCUMENT, CHUNK, VERSION];
        if self.request.filter.is_some() {
            fields.push(METADATA);
        }
        if self.request.embedding.is_some() {
            fields.push(CHUNKS);
        }
        fields
    }

    /// Whether a point is of the tenant, not removed, and passes the filter: whatever the cluster says.
    pub(super) fn is_ours(&self, point: &FoundPoint) -> bool {
        self.is_visible(point)
            && point.text(DOCUMENT).is_some_and(|document| !self.engine.is_hidden(document))
    }

    /// Removes the points that are not ours.
    fn retain_ours(&self, points: &mut Vec<FoundPoint>) {
        points.retain(|point| self.is_visible(point));
        let state = lock(&self.engine.state);
        if !state.hidden.is_empty() {
            points.retain(|point| {
                point.text(DOCUMENT).is_some_and(|document| !state.hidden.contains_key(document))
            });
        }
    }

    /// Whether a point is of the tenant and passes the filter.
    fn is_visible(&self, point: &FoundPoint) -> bool {
        let passes = || match (&self.request.filter, point.text(METADATA)) {
            (None, _) => true,
            (Some(filter), Some(json)) => filter.evaluate(&metadata(json)),
            (Some(_), None) => false,
        };
        point.text_bytes(TENANT) == Some(self.engine.tenant.name.as_bytes()) && passes()
    }

    /// The points with their numbers, without those that have none.
    pub(super) fn take(&self, mut points: Vec<FoundPoint>) -> Vec<(u32, FoundPoint)> {
        self.retain_ours(&mut points);
        let numbers = self.number(&points.iter().collect::<Vec<_>>());
        numbers.into_iter().zip(points).filter_map(|(number, point)| Some((number?, point))).collect()
    }

    /// PointNumbers points that are ours, those that were put earlier first. `None` for what has a newer version among them.
    fn number(&self, points: &[&FoundPoint]) -> Vec<Option<u32>> {
        let order = |place: usize| {
            let point = points[place];
            (point.integer(VERSION), point.text_bytes(DOCUMENT), point.integer(CHUNK), place)
        };
        let mut in_order: Vec<_> = (0..points.len()).map(order).collect();
        in_order.sort_unstable();
        let mut numbers = self.numbers();
        numbers.reserve(points.len());
        let mut numbered = vec![None; points.len()];
        for (.., place) in in_order {
            numbered[place] = numbers.add(points[place]);
        }
        numbered.into_iter().map(|number| number.filter(|number| numbers.is_newest(*number))).collect()
    }

    pub(super) fn sparse_query(&self, terms: &[Term], filter: Filter, limit: u64) -> QueryPoints {
        let (indices, values): (Vec<u32>, Vec<f32>) =
            terms.iter().map(|term| (term.index, term.term.weight)).unzip();
        let idf = IdfParams { corpus: Some(self.existing.clone()) };
        QueryPoints {
            query: Some(Query::new_nearest(VectorInput::new_sparse(indices, values))),
            using: Some(SPARSE.to_owned()),
            filter: Some(filter),
            params: Some(SearchParams { idf: Some(idf), ..Default::default() }),
            limit: Some(limit),
            with_payload: Some(self.fields().into()),
            ..Default::default()
        }
    }

    fn dense_query(&self, embedding: &[f32], limit: u64) -> QueryPoints {
        let rescored = QuantizationSearchParams {
            rescore: Some(true),
            oversampling: Some(OVERSAMPLING),
            ..Default::default()
        };
        QueryPoints {
            query: Some(Query::new_nearest(embedding.to_vec())),
            using: Some(DENSE.to_owned()),
            filter: Some(self.selected.clone()),
            params: Some(SearchParams { quantization: Some(rescored), ..Default::default() }),
            limit: Some(limit),
            with_payload: Some(self.fields().into()),
            ..Default::default()
        }
    }

    /// Whether a rare word of the query may name documents.
    pub(super) fn can_name_by_word(&self) -> bool {
        let words = self.words.as_ref().map_or(0, Vec::len);
        self.request.name().is_some() && (1..=RARE_TERMS_MAX).contains(&words)
    }

    pub(super) async fn query(&self, queries: Vec<QueryPoints>) -> Result<Vec<Vec<FoundPoint>>> {
        self.engine.client.query(&self.engine.alias, queries).await
    }

    /// The chunks that contain a term and pass the filter, with their terms.
    pub(super) async fn holding(&self, term: &Term, limit: u64) -> Result<Vec<(u32, FoundPoint)>> {
        let query = self.sparse_query(std::slice::from_ref(term), self.selected.clone(), limit);
        let query = QueryPoints { with_vectors: Some(vec![SPARSE].into()), ..query };
        let found = self.query(vec![query]).await?.remove(0);
        Ok(self.take(found))
    }

    /// All chunks that contain a term of the query and pass the filter, at most `limit`, with more fields.
    pub(super) async fn matching(&self, limit: u64, more: &[&'static str]) -> Result<Vec<FoundPoint>> {
        if self.terms.is_empty() {
            return Ok(Vec::new());
        }
        let fields = [self.fields(), more.to_vec()].concat();
        let query = self.sparse_query(&self.terms, self.selected.clone(), limit);
        let query = QueryPoints { with_payload: Some(fields.into()), ..query };
        Ok(self.query(vec![query]).await?.remove(0))
    }

    /// The rankings that the pipeline requests first, with the rarity of the terms; and the documents that the query may name.
    async fn rank_first(&self) -> Result<(Option<(usize, Rankings)>, Vec<FoundPoint>)> {
        if self.request.is_listing() {
            return Ok((None, Vec::new()));
        }
        let depth = self.request.depth.max(1);
        let wanted = self.request.offset.saturating_add(self.request.limit);
        let depth = if self.request.mode == RetrievalMode::Lexical { depth.max(wanted) } else { depth };
        let keys = self.request.name().and_then(weir_lexical::normalised_name).map(|name| name_keys(&name));
        let named = keys.as_ref().map(|keys| self.named_query(keys, NAMED_MAX as u64));
        let (unknown, seq) = self.terms_of_unknown_rarity();
        let rarity = unknown.iter().map(|term| self.rarity_query(term));
        let (rankings, mut others) = self.rank(depth, named.into_iter().chain(rarity).collect()).await?;
        let named = match keys {
            Some(keys) => self.all_named(&keys, others.remove(0)).await?,
            None => Vec::new(),
        };
        self.note_rarity((&unknown, seq), &others).await?;
        Ok((Some((depth, rankings)), named))
    }

    pub(super) async fn rankings_of(&self, depth: usize) -> Result<Rankings> {
        let first = lock(&self.first).take();
        match first {
            Some((known, rankings)) if known == depth => Ok(rankings),
            Some(_) | None => Ok(self.rank(depth, Vec::new()).await?.0),
        }
    }

    /// The rankings, and the answers to other queries, which are sent with them.
    async fn rank(&self, depth: usize, others: Vec<QueryPoints>) -> Result<(Rankings, Vec<Vec<FoundPoint>>)> {
        let mode = self.request.mode;
        let has_lexical = !self.terms.is_empty() && mode != RetrievalMode::Dense;
        let embedding = self.request.embedding.as_deref().filter(|_| mode != RetrievalMode::Lexical);
        let started = Instant::now();
        let limit = match self.request.group_by {
            // one more shows whether others are as good as the last
            Grouping::Chunk => depth.saturating_add(1).min(RANKED_MAX),
            Grouping::Document | Grouping::Field(_) => self.engine.points_per_unit.limit(depth),
        };
        let mut queries = Vec::new();
        if has_lexical {
            queries.push(self.sparse_query(&self.terms, self.selected.clone(), limit as u64));
        }
        queries.extend(embedding.map(|embedding| self.dense_query(embedding, limit as u64)));
        queries.extend(others);
        let answers = if queries.is_empty() { Vec::new() } else { self.query(queries).await? };
        let mut answers = answers.into_iter();
        let lexical = if has_lexical { answers.next() } else { None };
        let dense = if embedding.is_some() { answers.next() } else { None };
        let others = answers.collect();
        let more = |limit: u64| self.sparse_query(&self.terms, self.selected.clone(), limit);
        let lexical = self.deepened(lexical, limit, depth, more).await?;
        let more = |limit: u64| self.dense_query(embedding.unwrap_or_default(), limit);
        let dense = self.deepened(dense, limit, depth, more).await?;
        let [lexical, dense] = self.ranked([lexical, dense], depth);
        let took = started.elapsed();
        Ok((Rankings { lexical, dense, lexical_took: took, dense_took: took }, others))
    }

    /// The best chunks of `depth` units of each ranking. Points of both are numbered together, when all of them are there: equal scores are in the
    /// order of the numbers.
    fn ranked(&self, points: [Vec<FoundPoint>; 2], depth: usize) -> [Vec<BestChunk>; 2] {
        let both: Vec<&FoundPoint> = points.iter().flatten().collect();
        let mut numbers = self.number(&both).into_iter();
        points.each_ref().map(|points| {
            let numbered = points.iter().zip(numbers.by_ref());
            let scored: Vec<(u32, f32)> =
                numbered.filter_map(|(point, number)| Some((number?, point.score))).collect();
            let best = self.best(&scored, depth);
            if best.len() >= depth {
                self.note_points(&scored, &best);
            }
            best
        })
    }

    /// The points of a ranking of `depth` units that are ours. More are asked for while these are of too few units, and while the cluster may have
    /// others with the score of the last: it gives any of them, and on the next page others.
    async fn deepened(
        &self,
        points: Option<Vec<FoundPoint>>,
        mut limit: usize,
        depth: usize,
        query: impl Fn(u64) -> QueryPoints,
    ) -> Result<Vec<FoundPoint>> {
        let Some(mut points) = points else { return Ok(Vec::new()) };
        loop {
            let is_all = points.len() < limit || limit >= RANKED_MAX;
            let last = points.last().map_or(f32::MAX, |point| point.score);
            self.retain_ours(&mut points);
            let better = points.partition_point(|point| point.score > last);
            if is_all {
                return Ok(points);
            }
            let ordered = self.units(&points[..better]);
            let has_enough = ordered >= depth || self.units(&points) >= depth;
            if has_enough && ordered >= self.ordered_units(depth) {
                return Ok(points);
            }
            limit = limit.saturating_mul(4).min(RANKED_MAX);
            points = match self.query(vec![query(limit as u64)]).await {
                // too large: the order of equal scores is as the cluster has it
                Err(IndexError::NotSupported { .. }) if has_enough => return Ok(points),
                found => found?.remove(0),
            };
        }
    }

    /// Units that are to be the same whatever number of points is asked for: all of a ranking, or those up to the end of the page where the depth
    /// follows the page.
    fn ordered_units(&self, depth: usize) -> usize {
        match self.request.mode {
            RetrievalMode::Lexical if !self.request.is_postprocessed() => {
                self.request.offset.saturating_add(self.request.limit).min(depth)
            }
            RetrievalMode::Lexical | RetrievalMode::Dense | RetrievalMode::Hybrid => depth,
        }
    }

    /// The number of units that points are of.
    fn units(&self, points: &[FoundPoint]) -> usize {
        let mut newest: HashMap<&[u8], u64> = HashMap::with_capacity(points.len());
        for point in points {
            let version = newest.entry(point.text_bytes(DOCUMENT).unwrap_or_default()).or_default();
            *version = version_of(point).max(*version);
        }
        let is_newest = |point: &&FoundPoint| {
            newest.get(point.text_bytes(DOCUMENT).unwrap_or_default()) == Some(&version_of(point))
        };
        match self.request.group_by {
            Grouping::Chunk => points.iter().filter(is_newest).count(),
            Grouping::Document | Grouping::Field(_) => newest.len(),
        }
    }

    /// Notes how many points a ranking needed for all the units that were wanted.
    fn note_points(&self, points: &[(u32, f32)], best: &[BestChunk]) {
        let worst = best.last().map_or(f32::MAX, |best| best.score);
        if self.request.group_by != Grouping::Chunk {
            let better = points.iter().filter(|(_, score)| *score > worst).count();
            self.engine.points_per_unit.note((better + 1).max(best.len()), best.len());
        }
    }

    /// The best chunk of each unit.
    pub(super) fn best(&self, scored: &[(u32, f32)], depth: usize) -> Vec<BestChunk> {
        let mut scored: Vec<ScoredChunk> =
            scored.iter().map(|&(chunk_id, score)| ScoredChunk { chunk_id, score }).collect();
        scored.sort_by(ScoredChunk::by_rank);
        let numbers = self.numbers();
        best_chunks(&scored, depth, |chunk_id| match self.request.group_by {
            Grouping::Chunk => Some(chunk_id),
            Grouping::Document | Grouping::Field(_) => numbers.document_of(chunk_id),
        })
    }

    pub(super) async fn existing_chunks(&self) -> Result<u64> {
        match self.restricted.mandatory {
            None => self.engine.live_chunks().await,
            Some(_) => self.engine.client.count(&self.engine.alias, self.existing.clone()).await,
        }
    }

    async fn counted(&self) -> Result<Scope> {
        let selected = async {
            match self.request.filter {
                None => Ok(None),
                Some(_) => {
                    let selected = self.selected_surely.as_ref().unwrap_or(&self.selected);
                    let count = self.engine.client.count(&self.engine.alias, selected.clone());
                    count.await.map(Some)
                }
            }
        };
        let (live, existing, selected, shown_seq) =
            tokio::join!(self.engine.live_chunks(), self.existing_chunks(), selected, self.shown_seq());
        Ok(Scope {
            applied_seq: lock(&self.engine.state).applied_seq,
            shown_seq: shown_seq?,
            live_chunks: live?,
            existing_chunks: existing?,
            selected: selected?,
            has_embeddings: self.engine.settings.dimension > 0,
            prepared_in: Duration::ZERO,
        })
    }

    async fn shown_seq(&self) -> Result<u64> {
        match (&self.restricted.mandatory, self.request.explain) {
            (None, _) => Ok(lock(&self.engine.state).applied_seq),
            (Some(_), false) => Ok(0),
            (Some(_), true) => {
                let order = OrderBy { key: VERSION.to_owned(), direction: Some(1), ..Default::default() };
                let request = ScrollPoints { order_by: Some(order), ..self.scroll(self.existing.clone(), 1) };
                let (points, _) = self.engine.client.scroll(request).await?;
                Ok(points.first().map_or(0, version_of))
            }
        }
    }

    /// The first points that pass a filter.
    pub(super) fn scroll(&self, filter: Filter, limit: u32) -> ScrollPoints {
        ScrollPoints {
            collection_name: self.engine.alias.clone(),
            filter: Some(filter),
            limit: Some(limit),
            with_payload: Some(self.fields().into()),
            ..Default::default()
        }
    }

    /// Refuses fields that no document of the caller has.
    async fn check_fields(&self) -> Result<()> {
        for field in &self.restricted.named_fields {
            let with_field = Filter {
                must: [self.existing.must.clone(), vec![has_path(field)]].concat(),
                ..Default::default()
            };
            let (found, _) = self.engine.client.scroll(self.scroll(with_field, 1)).await?;
            if found.is_empty() {
                let request = ScrollPoints {
                    with_payload: Some(vec![METADATA, PATHS].into()),
                    ..self.scroll(self.existing.clone(), KNOWN_SAMPLE)
                };
                let (points, _) = self.engine.client.scroll(request).await?;
                let mut known = std::collections::BTreeSet::new();
                let shown = points.iter().filter_map(|point| point.text(METADATA));
                for json in shown.filter(|json| self.restricted.shows(json)) {
                    weir_filter::flatten(&metadata(json), |path, _| {
                        known.insert(path.to_owned());
                    });
                }
                let known = known.into_iter().take(KNOWN_SAMPLE as usize).collect();
                return Err(IndexError::UnknownField { field: field.clone(), known, is_full: false });
            }
        }
        Ok(())
    }

    /// The document to follow, if it exists for the caller.
    async fn find_traced(&self, id: Option<&str>) -> Result<Option<FoundPoint>> {
        let Some(id) = id else { return Ok(None) };
        let with = |filter: &Filter| Filter {
            must: [filter.must.clone(), vec![of_document(id)]].concat(),
            ..Default::default()
        };
        let fields = [self.fields(), vec![METADATA]].concat();
        let request =
            ScrollPoints { with_payload: Some(fields.into()), ..self.scroll(with(&self.existing), 1) };
        let (points, _) = self.engine.client.scroll(request).await?;
        let exists = |point: &FoundPoint| {
            point.text(TENANT) == Some(&self.engine.tenant.name)
                && !self.engine.is_hidden(id)
                && self.restricted.shows(point.text(METADATA).unwrap_or_default())
        };
        Ok(points.into_iter().find(exists))
    }

    fn traced_of(&self, point: Option<FoundPoint>) -> Option<Traced> {
        let point = point?;
        let mut numbers = self.numbers();
        numbers.add(&point);
        let document = *numbers.by_document.get(point.text(DOCUMENT)?)?;
        Some(Traced { document, is_selected: self.is_ours(&point) })
    }
}
