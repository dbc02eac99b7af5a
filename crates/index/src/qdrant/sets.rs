//! Sets of documents, which are read whole: for sorting by fields, counts and facets of all matches.

use std::collections::BTreeMap;

use weir_qdrant::api::{Filter, OrderBy, ScrollPoints};
use weir_qdrant::{FoundPoint, version_of};

use super::conditions::first_chunks;
use super::points::{METADATA, VERSION};
use super::search::QdrantSearch;
use crate::field_values::{by_keys, count_groups, count_values};
use crate::pipeline::{DocumentSet, ListedChunk};
use crate::{FacetSpec, Grouping, IndexError, Result, SortKey, ValueCount};

/// Chunks that are read for a set.
const READ_MAX: u32 = 10_000;

/// Matching chunks that are read to count them: a search that asks for no more than their number is not to wait for all of them.
const COUNTED_MAX: u32 = 1_000;

/// A set of documents.
pub(super) enum Documents {
    /// All that pass the filter: listed or counted without being read.
    Selected,
    /// By number, with the metadata and the chunks of each.
    Read(BTreeMap<u32, ReadDocument>),
    /// More than are counted.
    Uncounted,
}

/// A document of a set.
#[derive(Default)]
pub(super) struct ReadDocument {
    metadata: String,
    chunks: Vec<u32>,
}

fn too_many() -> IndexError {
    IndexError::NotSupported {
        feature: "lists, counts and facets of more than 10,000 chunks",
        remedy: "filter more narrowly, or leave them out",
    }
}

impl QdrantSearch<'_> {
    pub(super) async fn read_set(&self, set: DocumentSet<'_>) -> Result<Documents> {
        let mut read = BTreeMap::new();
        match set {
            DocumentSet::Selected if self.request.sort.is_empty() && self.request.facets.is_empty() => {
                return Ok(Documents::Selected);
            }
            DocumentSet::Selected => {
                let points = self.listed(READ_MAX + 1, &[METADATA]).await?;
                if points.len() > READ_MAX as usize {
                    return Err(too_many());
                }
                self.add(&mut read, points);
            }
            DocumentSet::Of(chunk_ids) => self.add_candidates(&mut read, chunk_ids).await?,
            DocumentSet::Matching if self.request.sort.is_empty() && self.request.facets.is_empty() => {
                match self.add_matching(&mut read, COUNTED_MAX).await {
                    Ok(true) => {}
                    // too many, or too large to be counted
                    Ok(false) | Err(IndexError::NotSupported { .. }) => return Ok(Documents::Uncounted),
                    Err(error) => return Err(error),
                }
            }
            DocumentSet::Matching => self.add_all_matching(&mut read).await?,
            DocumentSet::MatchingOr(chunk_ids) => {
                self.add_candidates(&mut read, chunk_ids).await?;
                self.add_all_matching(&mut read).await?;
            }
        }
        Ok(Documents::Read(read))
    }

    fn add(&self, read: &mut BTreeMap<u32, ReadDocument>, points: Vec<FoundPoint>) {
        let taken = self.take(points);
        let numbers = self.numbers();
        for (chunk_id, point) in taken {
            let Some(number) = numbers.document_of(chunk_id) else { continue };
            let document = read.entry(number).or_default();
            document.metadata = point.text(METADATA).unwrap_or_default().to_owned();
            if !document.chunks.contains(&chunk_id) {
                document.chunks.push(chunk_id);
            }
        }
    }

    /// Whether sets are asked for values of fields.
    fn reads_metadata(&self) -> bool {
        let request = self.request;
        let is_by_field = matches!(request.group_by, Grouping::Field(_));
        is_by_field || !request.sort.is_empty() || !request.facets.is_empty()
    }

    async fn add_all_matching(&self, read: &mut BTreeMap<u32, ReadDocument>) -> Result<()> {
        let is_whole = self.add_matching(read, READ_MAX).await?;
        is_whole.then_some(()).ok_or_else(too_many)
    }

    /// Whether there are at most `limit` chunks; otherwise nothing is added.
    async fn add_matching(&self, read: &mut BTreeMap<u32, ReadDocument>, limit: u32) -> Result<bool> {
        let more: &[&str] = if self.reads_metadata() { &[METADATA] } else { &[] };
        let points = self.matching(u64::from(limit) + 1, more).await?;
        if points.len() > limit as usize {
            return Ok(false);
        }
        self.add(read, points);
        let named: Vec<u32> = self.named.iter().map(|named| named.chunk_id).collect();
        self.add_candidates(read, &named).await?;
        Ok(true)
    }

    async fn add_candidates(&self, read: &mut BTreeMap<u32, ReadDocument>, chunk_ids: &[u32]) -> Result<()> {
        let metadata = match self.reads_metadata() {
            true => self.metadata_of(chunk_ids).await?,
            false => vec![String::new(); chunk_ids.len()],
        };
        let numbers = self.numbers();
        for (&chunk_id, metadata) in chunk_ids.iter().zip(metadata) {
            let Some(number) = numbers.document_of(chunk_id) else { continue };
            let document = read.entry(number).or_default();
            document.metadata = metadata;
            if !document.chunks.contains(&chunk_id) {
                document.chunks.push(chunk_id);
            }
        }
        Ok(())
    }

    /// The first chunks of the selected documents, or all chunks if these are the units, in the order in which they were put.
    async fn listed(&self, limit: u32, more: &[&'static str]) -> Result<Vec<FoundPoint>> {
        let order = OrderBy { key: VERSION.to_owned(), ..Default::default() };
        let fields = [self.fields(), more.to_vec()].concat();
        let request = ScrollPoints {
            order_by: Some(order),
            with_payload: Some(fields.into()),
            ..self.scroll(self.listed_filter(&self.selected), limit)
        };
        Ok(self.engine.client.scroll(request).await?.0)
    }

    fn listed_filter(&self, selected: &Filter) -> Filter {
        let mut must = selected.must.clone();
        if self.request.group_by != Grouping::Chunk {
            must.push(first_chunks());
        }
        Filter { must, ..Default::default() }
    }

    pub(super) async fn sorted_set(
        &self,
        documents: &Documents,
        keys: &[SortKey],
        limit: usize,
    ) -> Result<Vec<ListedChunk>> {
        match documents {
            Documents::Uncounted => Err(too_many()),
            Documents::Selected => self.list_selected(limit).await,
            Documents::Read(read) => Ok(self.in_order(read, keys, limit)),
        }
    }

    /// The first chunks of what passes the filter, in the order in which it was put.
    async fn list_selected(&self, limit: usize) -> Result<Vec<ListedChunk>> {
        // one more shows whether others have the version of the last
        let mut asked = u32::try_from(limit).unwrap_or(READ_MAX).saturating_add(1).min(READ_MAX);
        loop {
            let points = self.listed(asked, &[]).await?;
            let is_all = points.len() < asked as usize;
            let last = points.last().map_or(0, version_of);
            let mut read = BTreeMap::new();
            self.add(&mut read, points);
            let mut listed = self.in_order(&read, &[], limit);
            listed.truncate(limit);
            let version = listed.last().map_or(0, |listed| self.numbers().version_of(listed.chunk_id));
            if is_all || listed.len() >= limit && (version < last || asked == READ_MAX) {
                return Ok(listed);
            }
            // the cluster gives more points than pass the filter
            if asked == READ_MAX {
                return Err(too_many());
            }
            asked = asked.saturating_mul(4).min(READ_MAX);
        }
    }

    /// The first `limit` documents in the order of the keys, then of versions and ids: numbers depend on what was read first.
    fn in_order(
        &self,
        read: &BTreeMap<u32, ReadDocument>,
        keys: &[SortKey],
        limit: usize,
    ) -> Vec<ListedChunk> {
        let shown = if self.request.group_by == Grouping::Chunk { usize::MAX } else { 1 };
        let numbers = self.numbers();
        let place = |chunk_id: &u32| numbers.place(*chunk_id);
        let with_chunks = |(number, document): (&u32, &'_ ReadDocument)| {
            let mut chunks = document.chunks.clone();
            chunks.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
            (*number, chunks)
        };
        let mut ordered: Vec<(u32, Vec<u32>)> = read.iter().map(with_chunks).collect();
        ordered.sort_by(|(a, of_a), (b, of_b)| {
            by_keys(keys, &read[a].metadata, &read[b].metadata)
                .then_with(|| of_a.first().map(place).cmp(&of_b.first().map(place)))
        });
        let chunks_of = |(document, chunks): (u32, Vec<u32>)| {
            chunks.into_iter().take(shown).map(move |chunk_id| ListedChunk { document, chunk_id })
        };
        ordered.into_iter().take(limit).flat_map(chunks_of).collect()
    }

    pub(super) async fn count_set(&self, documents: &Documents, group_by: &Grouping) -> Result<Option<u64>> {
        Ok(Some(match documents {
            Documents::Uncounted => return Ok(None),
            Documents::Selected => return self.count_selected().await,
            Documents::Read(read) => match group_by {
                Grouping::Chunk => read.values().map(|document| document.chunks.len() as u64).sum(),
                Grouping::Document => read.len() as u64,
                Grouping::Field(field) => {
                    count_groups(read.values().map(|document| &*document.metadata), field)
                }
            },
        }))
    }

    /// The number of units that pass the filter. Where the cluster does not decide about all of them, they are read if that is asked for.
    async fn count_selected(&self) -> Result<Option<u64>> {
        let count =
            |filter: &Filter| self.engine.client.count(&self.engine.alias, self.listed_filter(filter));
        let most = count(&self.selected).await?;
        let Some(surely) = &self.selected_surely else { return Ok(Some(most)) };
        if count(surely).await? == most {
            return Ok(Some(most));
        }
        if !self.request.count || most > u64::from(READ_MAX) {
            return Ok(None);
        }
        let points = self.listed(READ_MAX, &[]).await?;
        Ok(Some(self.take(points).len() as u64))
    }

    pub(super) fn facet_of(&self, documents: &Documents, facet: &FacetSpec) -> Vec<ValueCount> {
        let Documents::Read(read) = documents else { return Vec::new() };
        count_values(read.values().map(|document| &*document.metadata), facet)
    }
}
