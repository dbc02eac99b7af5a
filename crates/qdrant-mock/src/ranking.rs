//! Searches: every point is compared.

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
        let mut scored: Vec<(f32, &String)> = match input {
            None => self.points.keys().map(|id| (0.0, id)).collect(),
            Some(Input::Dense(query)) => self.dense_scores(using, &query.data)?,
            Some(Input::Sparse(query)) => self.sparse_scores(using, query, request.params.as_ref())?,
            Some(_) => return Err(Status::invalid_argument("this server ranks by vectors alone")),
        };
        let mut passing = Vec::new();
        let (offset, limit) = (request.offset.unwrap_or(0) as usize, request.limit.unwrap_or(LIMIT) as usize);
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        for (score, id) in scored {
            if passing.len() >= offset.saturating_add(limit) {
                break;
            }
            let point = &self.points[id];
            let is_above = request.score_threshold.is_none_or(|threshold| score >= threshold);
            if is_above && passes_optional(request.filter.as_ref(), id, point)? {
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

    fn dense_scores(&self, using: &str, query: &[f32]) -> Result<Vec<(f32, &String)>, Status> {
        let distance = self.distance_of(using).ok_or_else(|| unknown(using))?;
        let query = match distance {
            Distance::Cosine => unit(query),
            Distance::Dot => query.to_vec(),
            Distance::UnknownDistance | Distance::Euclid | Distance::Manhattan => {
                return Err(Status::invalid_argument("this server implements cosine and dot alone"));
            }
        };
        let score = |(id, point): (_, &Stored)| match point.vectors.get(using) {
            Some(StoredVector::Dense(vector)) if vector.len() == query.len() => {
                Some((vector.iter().zip(&query).map(|(a, b)| a * b).sum(), id))
            }
            Some(StoredVector::Dense(_) | StoredVector::Sparse(_)) | None => None,
        };
        let is_fit =
            self.dense().iter().any(|(name, params)| *name == using && params.size == query.len() as u64);
        match is_fit {
            true => Ok(self.points.iter().filter_map(score).collect()),
            false => Err(Status::invalid_argument("Wrong input: Vector dimension error")),
        }
    }

    fn sparse_scores(
        &self,
        using: &str,
        query: &SparseVector,
        params: Option<&SearchParams>,
    ) -> Result<Vec<(f32, &String)>, Status> {
        let modifier = self.modifier_of(using).ok_or_else(|| unknown(using))?;
        let mut weights: BTreeMap<u32, f32> =
            query.indices.iter().copied().zip(query.values.iter().copied()).collect();
        if modifier == Modifier::Idf {
            self.weigh_by_idf(using, &mut weights, params)?;
        }
        let mut scored = Vec::new();
        for (id, point) in &self.points {
            let Some(StoredVector::Sparse(vector)) = point.vectors.get(using) else { continue };
            let shared = weights.iter().filter_map(|(index, weight)| Some(weight * vector.get(index)?));
            let (sum, count) = shared.fold((0.0, 0), |(sum, count), part| (sum + part, count + 1));
            if count > 0 {
                scored.push((sum, id));
            }
        }
        Ok(scored)
    }

    /// Multiplies the values of a query by the inverse document frequencies in its corpus.
    fn weigh_by_idf(
        &self,
        using: &str,
        weights: &mut BTreeMap<u32, f32>,
        params: Option<&SearchParams>,
    ) -> Result<(), Status> {
        let corpus = params.and_then(|params| params.idf.as_ref()).and_then(|idf| idf.corpus.as_ref());
        let (mut points, mut holding) = (0u64, HashMap::<u32, u64>::new());
        for (id, point) in &self.points {
            let Some(StoredVector::Sparse(vector)) = point.vectors.get(using) else { continue };
            if !passes_optional(corpus, id, point)? {
                continue;
            }
            points += 1;
            for index in weights.keys().filter(|index| vector.contains_key(index)) {
                *holding.entry(*index).or_default() += 1;
            }
        }
        for (index, weight) in weights {
            let (points, holding) = (points as f32, holding.get(index).copied().unwrap_or(0) as f32);
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
