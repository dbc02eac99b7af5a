//! Collections, aliases and points.

use std::collections::{BTreeMap, HashMap};

use qdrant_client::qdrant::facet_value::Variant as FacetVariant;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::vector::Vector as VectorKind;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CreateCollection, DeletePoints, Direction, Distance, FacetCounts, FacetHit, FacetValue, Filter, Modifier,
    OrderBy, PayloadIndexParams, PointId, PointStruct, PointsSelector, UpdateMode, UpsertPoints, Value,
    Vector, VectorParams,
};
use tonic::{Code, Status};

use crate::filter::{check, passes_optional, values_at};
use crate::indexes::{Candidates, Indexes, Points};

/// Qdrant's default.
const FACET_LIMIT: u64 = 10;

/// The payload of a point.
pub(crate) type Payload = HashMap<String, Value>;

/// Everything that a cluster stores.
#[derive(Debug, Default)]
pub struct ClusterState {
    /// By name.
    pub collections: BTreeMap<String, Collection>,
    /// The collection of each alias.
    pub aliases: BTreeMap<String, String>,
}

/// A collection.
#[derive(Debug)]
pub struct Collection {
    /// As it was created.
    pub config: CreateCollection,
    /// The indexed fields of payloads.
    pub indexes: BTreeMap<String, Option<PayloadIndexParams>>,
    /// By id.
    pub points: Points,
}

/// A point.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its payload.
    pub payload: Payload,
    /// By name.
    pub vectors: HashMap<String, StoredVector>,
}

/// A vector of a point.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredVector {
    /// Of length one where the distance is cosine.
    Dense(Vec<f32>),
    /// Values by index.
    Sparse(BTreeMap<u32, f32>),
}

/// Gives the dense vectors of a collection another length and distance, as if it had been created so; returns those before.
///
/// # Panics
/// Without vectors that have a name.
pub fn set_dense(config: &mut CreateCollection, size: u64, distance: i32) -> (u64, i32) {
    let Some(Config::ParamsMap(map)) =
        config.vectors_config.as_mut().and_then(|config| config.config.as_mut())
    else {
        panic!("the vectors have no names")
    };
    let Some(dense) = map.map.values_mut().next() else { panic!("there are no vectors") };
    let before = (dense.size, dense.distance);
    (dense.size, dense.distance) = (size, distance);
    before
}

/// An id as text.
///
/// # Errors
/// INVALID_ARGUMENT without one.
pub(crate) fn id_of(id: &PointId) -> Result<String, Status> {
    match &id.point_id_options {
        Some(PointIdOptions::Uuid(uuid)) if is_uuid(uuid) => Ok(uuid.clone()),
        Some(PointIdOptions::Uuid(other)) => {
            Err(Status::invalid_argument(format!("Unable to parse UUID: {other}")))
        }
        Some(PointIdOptions::Num(number)) => Ok(number.to_string()),
        None => Err(Status::invalid_argument("Malformed point id")),
    }
}

/// The id of a text.
pub(crate) fn point_id(id: &str) -> PointId {
    let options = match id.parse() {
        Ok(number) => PointIdOptions::Num(number),
        Err(_) => PointIdOptions::Uuid(id.to_owned()),
    };
    PointId { point_id_options: Some(options) }
}

fn is_uuid(text: &str) -> bool {
    let is_at = |place: usize, byte: u8| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(|(place, byte)| is_at(place, byte))
}

impl ClusterState {
    /// A collection by its name or alias.
    ///
    /// # Errors
    /// NOT_FOUND.
    pub fn collection(&self, name: &str) -> Result<&Collection, Status> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.collections.get(name).ok_or_else(|| not_found(name))
    }

    /// As [`ClusterState::collection`].
    ///
    /// # Errors
    /// NOT_FOUND.
    pub fn collection_mut(&mut self, name: &str) -> Result<&mut Collection, Status> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.collections.get_mut(name).ok_or_else(|| not_found(name))
    }

    pub(crate) fn create(&mut self, config: CreateCollection) -> Result<(), Status> {
        let name = config.collection_name.clone();
        if name.is_empty() {
            return Err(Status::invalid_argument("Collection name is empty"));
        }
        if self.collections.contains_key(&name) || self.aliases.contains_key(&name) {
            let message = format!("Wrong input: Collection `{name}` already exists!");
            return Err(Status::new(Code::AlreadyExists, message));
        }
        let collection = Collection { config, indexes: BTreeMap::new(), points: Points::default() };
        self.collections.insert(name, collection);
        Ok(())
    }
}

fn not_found(name: &str) -> Status {
    Status::not_found(format!("Not found: Collection `{name}` doesn't exist!"))
}

impl Collection {
    /// The parameters of its dense vectors, by name.
    pub fn dense(&self) -> Vec<(&str, VectorParams)> {
        match self.config.vectors_config.as_ref().and_then(|config| config.config.as_ref()) {
            Some(Config::Params(params)) => vec![("", *params)],
            Some(Config::ParamsMap(map)) => {
                map.map.iter().map(|(name, params)| (name.as_str(), *params)).collect()
            }
            None => Vec::new(),
        }
    }

    pub(crate) fn distance_of(&self, using: &str) -> Option<Distance> {
        let dense = self.dense();
        let (_, params) = dense.iter().find(|(name, _)| *name == using)?;
        Distance::try_from(params.distance).ok()
    }

    /// The modifier of a sparse vector; `None` without such a vector.
    pub(crate) fn modifier_of(&self, using: &str) -> Option<Modifier> {
        let sparse = self.config.sparse_vectors_config.as_ref()?.map.get(using)?;
        Some(sparse.modifier.and_then(|modifier| Modifier::try_from(modifier).ok()).unwrap_or(Modifier::None))
    }

    pub(crate) fn upsert(&mut self, request: &UpsertPoints) -> Result<(), Status> {
        let mode = UpdateMode::try_from(request.update_mode.unwrap_or_default())
            .map_err(|_| Status::invalid_argument("unknown update mode"))?;
        request.update_filter.as_ref().map_or(Ok(()), check)?;
        let read = request.points.iter().map(|point| self.read(point)).collect::<Result<Vec<_>, _>>()?;
        for (id, point) in read {
            let is_written = match (self.points.get(&id), mode) {
                (Some(_), UpdateMode::InsertOnly) | (None, UpdateMode::UpdateOnly) => false,
                (Some(existing), UpdateMode::Upsert | UpdateMode::UpdateOnly) => {
                    passes_optional(request.update_filter.as_ref(), &id, existing)?
                }
                (None, UpdateMode::Upsert | UpdateMode::InsertOnly) => true,
            };
            if is_written {
                self.points.put(id, point);
            }
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, request: &DeletePoints) -> Result<(), Status> {
        for id in self.selected(request.points.as_ref())? {
            self.points.delete(&id);
        }
        Ok(())
    }

    fn selected(&self, selector: Option<&PointsSelector>) -> Result<Vec<String>, Status> {
        match selector.and_then(|selector| selector.points_selector_one_of.as_ref()) {
            Some(PointsSelectorOneOf::Points(list)) => list.ids.iter().map(id_of).collect(),
            Some(PointsSelectorOneOf::Filter(filter)) => self.passing(Some(filter)),
            None => Err(Status::invalid_argument("PointSelector is missing")),
        }
    }

    /// The ids of the points that pass a filter, in order.
    pub(crate) fn passing(&self, filter: Option<&Filter>) -> Result<Vec<String>, Status> {
        let indexes = self.indexes();
        let Candidates { points, is_exact } = indexes.candidates(filter)?;
        let mut ids = Vec::new();
        for id in points.numbers().map(|number| indexes.id(number)) {
            if is_exact || passes_optional(filter, id, &self.points[id])? {
                ids.push(id.clone());
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// How many points pass a filter.
    pub(crate) fn count(&self, filter: Option<&Filter>) -> Result<u64, Status> {
        match self.indexes().candidates(filter)? {
            Candidates { points, is_exact: true } => Ok(points.count()),
            Candidates { is_exact: false, .. } => Ok(self.passing(filter)?.len() as u64),
        }
    }

    pub(crate) fn indexes(&self) -> &Indexes {
        self.points.indexes(self.indexes.keys())
    }

    pub(crate) fn create_index(&mut self, field: String, params: Option<PayloadIndexParams>) {
        self.indexes.insert(field, params);
        self.points.index_again();
    }

    /// The values of an indexed field, those of most points first.
    pub(crate) fn facet(&self, request: &FacetCounts) -> Result<Vec<FacetHit>, Status> {
        if !self.indexes.contains_key(&request.key) {
            let message = format!(
                "Bad request: Index required but not found for `{}` of one of the following types: [keyword]",
                request.key
            );
            return Err(Status::invalid_argument(message));
        }
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for id in self.passing(request.filter.as_ref())? {
            for value in values_at(&self.points[&id].payload, &request.key) {
                if let Some(Kind::StringValue(text)) = &value.kind {
                    *counts.entry(text.clone()).or_default() += 1;
                }
            }
        }
        let hit = |(text, count)| {
            let value = FacetValue { variant: Some(FacetVariant::StringValue(text)) };
            FacetHit { value: Some(value), count }
        };
        let mut hits: Vec<FacetHit> = counts.into_iter().map(hit).collect();
        hits.sort_by_key(|hit| std::cmp::Reverse(hit.count));
        hits.truncate(request.limit.unwrap_or(FACET_LIMIT) as usize);
        Ok(hits)
    }

    /// Orders points by an indexed integer; those without it are left out.
    pub(crate) fn order(&self, ids: &mut Vec<String>, order: &OrderBy) -> Result<(), Status> {
        if !self.indexes.contains_key(&order.key) || order.start_from.is_some() {
            let message = format!("Bad request: No range index for `order_by` key: `{}`", order.key);
            return Err(Status::invalid_argument(message));
        }
        let key = |id: &String| match values_at(&self.points[id].payload, &order.key).first()?.kind {
            Some(Kind::IntegerValue(integer)) => Some(integer),
            _ => None,
        };
        ids.retain(|id| key(id).is_some());
        ids.sort_by_key(key);
        if order.direction == Some(Direction::Desc.into()) {
            ids.reverse();
        }
        Ok(())
    }

    fn read(&self, point: &PointStruct) -> Result<(String, Stored), Status> {
        let id = point.id.as_ref().ok_or_else(|| Status::invalid_argument("Empty point id"))?;
        let mut vectors = HashMap::new();
        match point.vectors.as_ref().and_then(|vectors| vectors.vectors_options.as_ref()) {
            Some(VectorsOptions::Vector(vector)) => {
                vectors.insert(String::new(), self.read_vector("", vector)?);
            }
            Some(VectorsOptions::Vectors(named)) => {
                for (name, vector) in &named.vectors {
                    vectors.insert(name.clone(), self.read_vector(name, vector)?);
                }
            }
            None => {}
        }
        Ok((id_of(id)?, Stored { payload: point.payload.clone(), vectors }))
    }

    fn read_vector(&self, name: &str, vector: &Vector) -> Result<StoredVector, Status> {
        match &vector.vector {
            Some(VectorKind::Dense(dense)) => {
                let known = self.dense();
                let params = known.iter().find(|(known, _)| *known == name).ok_or_else(|| unknown(name))?.1;
                let (expected, got) = (params.size, dense.data.len());
                if expected != got as u64 {
                    let message =
                        format!("Wrong input: Vector dimension error: expected dim: {expected}, got {got}");
                    return Err(Status::invalid_argument(message));
                }
                let is_cosine = params.distance == Distance::Cosine as i32;
                Ok(StoredVector::Dense(if is_cosine { unit(&dense.data) } else { dense.data.clone() }))
            }
            Some(VectorKind::Sparse(sparse)) => {
                self.modifier_of(name).ok_or_else(|| unknown(name))?;
                let by_index: BTreeMap<u32, f32> =
                    sparse.indices.iter().copied().zip(sparse.values.iter().copied()).collect();
                if sparse.indices.len() != sparse.values.len() || by_index.len() != sparse.indices.len() {
                    return Err(Status::invalid_argument("Validation error: indices must be unique"));
                }
                Ok(StoredVector::Sparse(by_index))
            }
            Some(_) | None => {
                Err(Status::invalid_argument("this server takes dense and sparse vectors alone"))
            }
        }
    }
}

fn unknown(name: &str) -> Status {
    Status::invalid_argument(format!("Wrong input: Not existing vector name error: {name}"))
}

/// A vector divided by its length.
pub(crate) fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length == 0.0 { vector.to_vec() } else { vector.iter().map(|value| value / length).collect() }
}
