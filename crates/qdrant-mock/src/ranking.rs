//! Searches: every point that can pass the filter is compared.

use std::collections::{BTreeMap, HashMap};

use qdrant_client::qdrant::query::Variant;
use qdrant_client::qdrant::vector_input::Variant as Input;
use qdrant_client::qdrant::vector_output::Vector as OutputKind;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use qdrant_client::qdrant::with_payload_selector::SelectorOptions as PayloadOptions;
use qdrant_client::qdrant::with_vectors_selector::SelectorOptions as VectorOptions;
use qdrant_client::qdrant::{
    DenseVector, Distance, Modifier, NamedVectorsOutput, QueryPoints, RetrievedPoint, ScoredPoint,
    SearchParams, SparseVector, VectorOutput, VectorsOutput, WithPayloadSelector, WithVectorsSelector,
};
use tonic::Status;

use crate::filter::passes_optional;
use crate::indexes::{Bits, Candidates, Sparse};
use crate::state::{Collection, Payload, Stored, StoredVector, point_id, unit};

/// Qdrant's default.
const LIMIT: u64 = 10;

impl Collection {
    /// Ranks points by a query, or lists them without one.
    pub(crate) fn query(&self, request: &QueryPoints) -> Result<Vec<ScoredPoint>, Status> {
        if !request.prefetch.is_empty() || request.lookup_from.is_some() {
            return Err(Status::invalid_argument("this server does not implement prefetch"));
        }
        let using = request.using.as_deref().unwrap_or_default();
        let input = match request.query.as_ref().and_then(|query| query.variant.as_ref()) {
            None => None,
            Some(Variant::Nearest(nearest)) => nearest.variant.as_ref(),
            Some(_) => return Err(Status::invalid_argument("this server implements nearest alone")),
        };
        let indexes = self.indexes();
        let Candidates { points, is_exact } = indexes.candidates(request.filter.as_ref())?;
        let mut scored: Vec<(f32, u32)> = match input {
            None => points.numbers().map(|number| (0.0, number)).collect(),
            Some(Input::Dense(query)) => self.dense_scores(using, &query.data, &points)?,
            Some(Input::Sparse(query)) => {
                self.sparse_scores(using, query, request.params.as_ref(), &points)?
            }
            Some(_) => return Err(Status::invalid_argument("this server ranks by vectors alone")),
        };
        scored.retain(|(score, _)| request.score_threshold.is_none_or(|threshold| *score >= threshold));
        let mut passing = Vec::new();
        let (offset, limit) = (request.offset.unwrap_or(0) as usize, request.limit.unwrap_or(LIMIT) as usize);
        let wanted = offset.saturating_add(limit);
        let by_rank = |a: &(f32, u32), b: &(f32, u32)| {
            b.0.total_cmp(&a.0).then_with(|| indexes.id(a.1).cmp(indexes.id(b.1)))
        };
        if is_exact && wanted > 0 && wanted < scored.len() {
            scored.select_nth_unstable_by(wanted - 1, by_rank);
            scored.truncate(wanted);
        }
        scored.sort_unstable_by(by_rank);
        for (score, number) in scored {
            if passing.len() >= wanted {
                break;
            }
            let id = indexes.id(number);
            let point = &self.points[id];
            if is_exact || passes_optional(request.filter.as_ref(), id, point)? {
                passing.push((score, id, point));
            }
        }
        let page = passing.into_iter().skip(offset);
        Ok(page
            .map(|(score, id, point)| ScoredPoint {
                id: Some(point_id(id)),
                payload: payload_of(point, request.with_payload.as_ref()),
                score,
                vectors: vectors_of(point, request.with_vectors.as_ref()),
                ..Default::default()
            })
            .collect())
    }

    fn dense_scores(&self, using: &str, query: &[f32], points: &Bits) -> Result<Vec<(f32, u32)>, Status> {
        let distance = self.distance_of(using).ok_or_else(|| unknown(using))?;
        let query = match distance {
            Distance::Cosine => unit(query),
            Distance::Dot => query.to_vec(),
            Distance::UnknownDistance | Distance::Euclid | Distance::Manhattan => {
                return Err(Status::invalid_argument("this server implements cosine and dot alone"));
            }
        };
        let indexes = self.indexes();
        let score = |number: u32| match self.points[indexes.id(number)].vectors.get(using) {
            Some(StoredVector::Dense(vector)) if vector.len() == query.len() => {
                Some((vector.iter().zip(&query).map(|(a, b)| a * b).sum(), number))
            }
            Some(StoredVector::Dense(_) | StoredVector::Sparse(_)) | None => None,
        };
        let is_fit =
            self.dense().iter().any(|(name, params)| *name == using && params.size == query.len() as u64);
        match is_fit {
            true => Ok(points.numbers().filter_map(score).collect()),
            false => Err(Status::invalid_argument("Wrong input: Vector dimension error")),
        }
    }

    fn sparse_scores(
        &self,
        using: &str,
        query: &SparseVector,
        params: Option<&SearchParams>,
        points: &Bits,
    ) -> Result<Vec<(f32, u32)>, Status> {
        let modifier = self.modifier_of(using).ok_or_else(|| unknown(using))?;
        let mut weights: BTreeMap<u32, f32> =
            query.indices.iter().copied().zip(query.values.iter().copied()).collect();
        let indexes = self.indexes();
        let Some(sparse) = indexes.sparse(using) else { return Ok(Vec::new()) };
        if modifier == Modifier::Idf {
            self.weigh_by_idf(sparse, &mut weights, params)?;
        }
        let mut sums: Vec<Option<f32>> = vec![None; indexes.numbers()];
        for (term, weight) in weights {
            for (number, value) in sparse.postings.get(&term).into_iter().flatten() {
                let sum = &mut sums[*number as usize];
                *sum = Some(sum.unwrap_or(0.0) + weight * value);
            }
        }
        let of = |number: u32| Some((sums.get(number as usize).copied()??, number));
        Ok(points.numbers().filter_map(of).collect())
    }

    /// Multiplies the values of a query by the inverse document frequencies in its corpus.
    fn weigh_by_idf(
        &self,
        sparse: &Sparse,
        weights: &mut BTreeMap<u32, f32>,
        params: Option<&SearchParams>,
    ) -> Result<(), Status> {
        let filter = params.and_then(|params| params.idf.as_ref()).and_then(|idf| idf.corpus.as_ref());
        let indexes = self.indexes();
        let Candidates { points: mut corpus, is_exact } = indexes.candidates(filter)?;
        corpus.keep(&sparse.points);
        if !is_exact {
            for number in corpus.clone().numbers() {
                let id = indexes.id(number);
                if !passes_optional(filter, id, &self.points[id])? {
                    corpus.set(number, false);
                }
            }
        }
        let points = corpus.count() as f32;
        for (term, weight) in weights {
            let posting = sparse.postings.get(term).into_iter().flatten();
            let holding = posting.filter(|(number, _)| corpus.contains(**number)).count() as f32;
            *weight *= (1.0 + (points - holding + 0.5) / (holding + 0.5)).ln();
        }
        Ok(())
    }
}

fn unknown(using: &str) -> Status {
    Status::invalid_argument(format!("Wrong input: Not existing vector name error: {using}"))
}

/// A point as it is read.
pub(crate) fn retrieved(
    id: &str,
    point: &Stored,
    with_payload: Option<&WithPayloadSelector>,
    with_vectors: Option<&WithVectorsSelector>,
) -> RetrievedPoint {
    RetrievedPoint {
        id: Some(point_id(id)),
        payload: payload_of(point, with_payload),
        vectors: vectors_of(point, with_vectors),
        ..Default::default()
    }
}

fn payload_of(point: &Stored, selector: Option<&WithPayloadSelector>) -> Payload {
    let keep = |keep: &dyn Fn(&String) -> bool| {
        let kept = point.payload.iter().filter(|(key, _)| keep(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    match selector.and_then(|selector| selector.selector_options.as_ref()) {
        None | Some(PayloadOptions::Enable(false)) => Payload::new(),
        Some(PayloadOptions::Enable(true)) => point.payload.clone(),
        Some(PayloadOptions::Include(list)) => keep(&|key| list.fields.contains(key)),
        Some(PayloadOptions::Exclude(list)) => keep(&|key| !list.fields.contains(key)),
    }
}

fn vectors_of(point: &Stored, selector: Option<&WithVectorsSelector>) -> Option<VectorsOutput> {
    let is_kept = |name: &String| match selector?.selector_options.as_ref()? {
        VectorOptions::Enable(is_kept) => Some(*is_kept),
        VectorOptions::Include(list) => Some(list.names.contains(name)),
    };
    let kept = point.vectors.iter().filter(|(name, _)| is_kept(name) == Some(true));
    let vectors: HashMap<String, VectorOutput> =
        kept.map(|(name, vector)| (name.clone(), output_of(vector))).collect();
    let options = VectorsOptions::Vectors(NamedVectorsOutput { vectors });
    selector.map(|_| VectorsOutput { vectors_options: Some(options) })
}

fn output_of(vector: &StoredVector) -> VectorOutput {
    let kind = match vector {
        StoredVector::Dense(data) => OutputKind::Dense(DenseVector { data: data.clone() }),
        StoredVector::Sparse(by_index) => OutputKind::Sparse(SparseVector {
            values: by_index.values().copied().collect(),
            indices: by_index.keys().copied().collect(),
        }),
    };
    VectorOutput { vector: Some(kind), ..Default::default() }
}
