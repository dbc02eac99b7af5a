//! Embeddings of chunks, which are kept, and scores by them.

use std::sync::Arc;

use half::f16;
use half::slice::HalfFloatSliceExt as _;
use weir_kernels::Kernels;
use weir_qdrant::api::{Condition, Filter, Query, QueryPoints, SearchParams};
use weir_qdrant::{DENSE, KnownPoint, PointCache, PointVersion, Uuid, point_id, version_of};
use weir_quantization::quantise;

use super::conditions::chunks_around;
use super::points::VERSION;
use super::retriever::READ_MAX;
use super::search::QdrantSearch;
use crate::pipeline::FoundChunk;
use crate::{Grouping, Result};

/// Of a long document, chunks at this distance from the lexical one are compared at most.
const DENSE_DISTANCE: u32 = 8;
/// Embeddings that are read to be compared here; more are compared by the cluster.
const COMPARED_MAX: usize = 256;

/// An embedding, as an embedded index has it.
pub(super) struct Row {
    f16: Box<[f16]>,
    pub(super) int8: Box<[i8]>,
}

impl Row {
    fn new(floats: &[f32]) -> Row {
        let (int8, _) = quantise(floats);
        let mut f16 = vec![f16::ZERO; floats.len()];
        f16.convert_from_f32_slice(floats);
        Row { f16: f16.into(), int8: int8.into() }
    }

    pub(super) fn floats(&self) -> Vec<f32> {
        self.f16.to_f32_vec()
    }

    fn dot(&self, embedding: &[f32]) -> f32 {
        (Kernels::current().dot_f16)(embedding, self.f16.reinterpret_cast())
    }

    fn bytes(&self) -> usize {
        size_of::<Row>() + size_of_val(&*self.f16) + size_of_val(&*self.int8)
    }
}

/// Points read by the searches of a process. A point never changes while the version of the document is the same.
#[derive(Clone)]
pub(super) struct ReadCache {
    rows: PointCache<Arc<Row>>,
    pub(super) chunks: PointCache<Arc<FoundChunk>>,
}

impl ReadCache {
    pub(super) fn new(bytes_max: usize) -> ReadCache {
        ReadCache { rows: PointCache::new(bytes_max / 2), chunks: PointCache::new(bytes_max / 2) }
    }

    pub(super) fn put_chunk(&self, point: PointVersion, chunk: &FoundChunk) {
        let texts = [Some(&chunk.text), Some(&chunk.metadata), chunk.title.as_ref(), chunk.pages.as_ref()];
        let bytes = texts.into_iter().flatten().map(String::len).sum::<usize>();
        let bytes = bytes + chunk.place.document_id.len() + size_of::<FoundChunk>();
        self.chunks.put([(point, Arc::new(chunk.clone()), bytes)]);
    }

    /// Of all entries, and the bound.
    pub(super) fn bytes(&self) -> [usize; 2] {
        [self.rows.bytes() + self.chunks.bytes(), 2 * self.rows.bytes_max()]
    }
}

impl QdrantSearch<'_> {
    /// The embeddings of chunks; `None` for those that have vanished or have none.
    pub(super) async fn rows(&self, known: &[KnownPoint]) -> Result<Vec<Option<Arc<Row>>>> {
        let points: Vec<PointVersion> = known.iter().map(KnownPoint::point_version).collect();
        self.rows_of(&points, usize::MAX).await.map(Option::unwrap_or_default)
    }

    /// The same; `None` if more than `read_max` are to be read.
    async fn rows_of(
        &self,
        points: &[PointVersion],
        read_max: usize,
    ) -> Result<Option<Vec<Option<Arc<Row>>>>> {
        let cache = &self.engine.cache.rows;
        let mut rows = cache.get(points);
        let is_missing = |(point, row): (&PointVersion, &Option<Arc<Row>>)| row.is_none().then_some(point.0);
        let missing: Vec<Uuid> = points.iter().zip(&rows).filter_map(is_missing).collect();
        if missing.len() > read_max {
            return Ok(None);
        }
        let mut read = Vec::new();
        for ids in missing.chunks(READ_MAX) {
            let (alias, client) = (&self.engine.alias, &self.engine.client);
            let found = client.get(alias, ids.to_vec(), vec![VERSION].into(), vec![DENSE].into()).await?;
            read.extend(found.into_iter().filter_map(|point| {
                let row = Arc::new(Row::new(point.dense.as_ref()?));
                Some(((point.id, version_of(&point)), row))
            }));
        }
        for (row, point) in rows.iter_mut().zip(points).filter(|(row, _)| row.is_none()) {
            *row = read.iter().find(|(read, _)| read == point).map(|(_, row)| row.clone());
        }
        cache.put(read.into_iter().map(|(point, row)| {
            let bytes = row.bytes();
            (point, row, bytes)
        }));
        Ok(Some(rows))
    }

    /// The numbers of chunks, and of those around them in the same documents, with their scores by an embedding.
    pub(super) async fn scored_around(
        &self,
        embedding: &[f32],
        known: &[KnownPoint],
    ) -> Result<Vec<(u32, f32)>> {
        let distance = if self.request.group_by == Grouping::Chunk { 0 } else { DENSE_DISTANCE };
        let around: Option<Vec<(&KnownPoint, u32, Uuid)>> = known
            .iter()
            .map(|known| {
                let last = if distance == 0 { known.chunk } else { known.chunks?.checked_sub(1)? };
                let chunks =
                    known.chunk.saturating_sub(distance)..=known.chunk.saturating_add(distance).min(last);
                let id = |chunk| match chunk == known.chunk {
                    true => known.id,
                    false => point_id(&self.engine.tenant.name, &known.document_id, chunk),
                };
                Some(chunks.map(move |chunk| (known, chunk, id(chunk))))
            })
            .collect::<Option<Vec<_>>>()
            .map(|around| around.into_iter().flatten().collect());
        if let Some(around) = around {
            let points: Vec<PointVersion> =
                around.iter().map(|(known, _, id)| (*id, known.version)).collect();
            if let Some(rows) = self.rows_of(&points, COMPARED_MAX).await? {
                let mut numbers = self.numbers();
                let scored = around.into_iter().zip(rows).filter_map(|((known, chunk, id), row)| {
                    Some((numbers.add_sibling(known, chunk, id), row?.dot(embedding)))
                });
                return Ok(scored.collect());
            }
        }
        self.scored_by_cluster(embedding, known, distance).await
    }

    async fn scored_by_cluster(
        &self,
        embedding: &[f32],
        known: &[KnownPoint],
        distance: u32,
    ) -> Result<Vec<(u32, f32)>> {
        let around: Vec<Condition> =
            known.iter().map(|known| chunks_around(&known.document_id, known.chunk, distance)).collect();
        let limit = known.len() as u64 * u64::from(2 * distance + 1);
        let query = QueryPoints {
            query: Some(Query::new_nearest(embedding.to_vec())),
            using: Some(DENSE.to_owned()),
            filter: Some(Filter { should: around, ..self.selected.clone() }),
            params: Some(SearchParams { exact: Some(true), ..Default::default() }),
            limit: Some(limit),
            with_payload: Some(self.fields().into()),
            ..Default::default()
        };
        let found = self.query(vec![query]).await?.remove(0);
        Ok(self.take(found).into_iter().map(|(number, point)| (number, point.score)).collect())
    }
}
