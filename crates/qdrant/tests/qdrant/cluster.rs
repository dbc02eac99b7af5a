//! A cluster, a client of it, and points.

use std::collections::HashMap;
use std::time::Duration;

use weir_qdrant::api::point_id::PointIdOptions;
use weir_qdrant::api::vector::Vector as VectorKind;
use weir_qdrant::api::vectors::VectorsOptions;
use weir_qdrant::api::{
    Condition, DenseVector, Filter, NamedVectors, PointId, PointStruct, Range, SparseVector, Value, Vector,
    Vectors, WriteOrderingType,
};
use weir_qdrant::{DENSE, Layout, Qdrant, QdrantSettings, SPARSE, TENANT, has_text, point_id};
use weir_qdrant_mock::Cluster;

pub(crate) const ALIAS: &str = "weir-2-test";

pub(crate) fn layout() -> Layout {
    Layout { alias: ALIAS.to_owned(), dimension: 2, shards: 12, copies: 3, copies_written: 2 }
}

/// Short deadlines, for tests that reach them.
pub(crate) fn settings(cluster: &Cluster) -> QdrantSettings {
    QdrantSettings {
        read_timeout: Duration::from_millis(300),
        write_timeout: Duration::from_millis(600),
        ..QdrantSettings::new(cluster.urls())
    }
}

/// Three nodes with an empty collection.
pub(crate) async fn cluster() -> (Cluster, Qdrant) {
    let cluster = Cluster::start(3, None).unwrap();
    let client = Qdrant::new(&settings(&cluster)).unwrap();
    client.ensure(&layout()).await.unwrap();
    cluster.take_recorded();
    (cluster, client)
}

pub(crate) fn named_vectors(dense: [f32; 2]) -> Vectors {
    let dense = VectorKind::Dense(DenseVector { data: dense.to_vec() });
    let sparse = VectorKind::Sparse(SparseVector { values: vec![1.0], indices: vec![7] });
    let vector = |kind| Vector { vector: Some(kind), ..Default::default() };
    let vectors = HashMap::from([(DENSE.to_owned(), vector(dense)), (SPARSE.to_owned(), vector(sparse))]);
    Vectors { vectors_options: Some(VectorsOptions::Vectors(NamedVectors { vectors })) }
}

/// A point of tenant `t`.
pub(crate) fn point(document: &str, chunk: u32, version: i64) -> PointStruct {
    let payload: [(&str, Value); 4] =
        [(TENANT, "t".into()), ("d", document.into()), ("k", i64::from(chunk).into()), ("v", version.into())];
    PointStruct {
        id: Some(PointId {
            point_id_options: Some(PointIdOptions::Uuid(point_id("t", document, chunk).to_string())),
        }),
        payload: payload.into_iter().map(|(field, value)| (field.to_owned(), value)).collect(),
        vectors: Some(named_vectors([1.0, 0.0])),
    }
}

pub(crate) fn of_tenant() -> Filter {
    Filter::must([has_text(TENANT, "t")])
}

pub(crate) fn older_than(version: i64) -> Filter {
    Filter::must([Condition::range("v", Range { lt: Some(version as f64), ..Default::default() })])
}

pub(crate) async fn put(client: &Qdrant, points: Vec<PointStruct>) -> weir_qdrant::Result<()> {
    client.upsert(ALIAS, points, None, WriteOrderingType::Medium).await
}

pub(crate) async fn count(client: &Qdrant) -> weir_qdrant::Result<u64> {
    client.count(ALIAS, of_tenant()).await
}
