//! How close a query is to what a collection is about: by a sample of its embeddings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_filter::Filter;
use weir_qdrant::DENSE;
use weir_qdrant::api::{self, ScrollPoints};
use weir_ranking::relevance::{CorpusStatistics, SAMPLE_CHUNKS_MAX};

use super::Shared;
use crate::Result;
use crate::embedded::lock;

/// Chunks in the sample for a caller that sees only some documents.
const RESTRICTED_SAMPLE: u32 = 64;
/// For how long it holds, and for how many such filters samples are kept.
const RESTRICTED_FOR: Duration = Duration::from_secs(60);
const RESTRICTED_MAX: usize = 256;

type Fitted = Option<Arc<CorpusStatistics>>;

/// Statistics that were fitted.
#[derive(Default)]
pub(super) struct Statistics {
    /// Of all documents, and how many chunks there were.
    all: Mutex<Option<(u64, Fitted)>>,
    /// By the canonical form of the mandatory filter, and when.
    restricted: Mutex<HashMap<Vec<u8>, (Instant, Fitted)>>,
}

impl Shared {
    /// The topicality of a query; 0 without statistics. `corpus` are the points that exist for the caller, of whom `mandatory` is the filter.
    pub(super) async fn topicality(
        &self,
        embedding: Option<&[f32]>,
        mandatory: Option<&Filter>,
        corpus: &api::Filter,
    ) -> Result<f32> {
        let Some(embedding) = embedding.filter(|_| self.settings.dimension > 0) else { return Ok(0.0) };
        let fitted = match mandatory {
            None => self.fitted(corpus).await?,
            Some(mandatory) => self.fitted_for(mandatory, corpus).await?,
        };
        Ok(fitted.map_or(0.0, |statistics| statistics.topicality(embedding)))
    }

    /// Of all documents. They are fitted anew when the collection has doubled.
    async fn fitted(&self, corpus: &api::Filter) -> Result<Fitted> {
        let chunks = self.live_chunks().await?;
        if let Some((then, fitted)) = &*lock(&self.statistics.all) {
            let is_outgrown = chunks > then.saturating_mul(2) || fitted.is_none() && chunks != *then;
            if !is_outgrown {
                return Ok(fitted.clone());
            }
        }
        let fitted = self.fit(corpus, SAMPLE_CHUNKS_MAX as u32).await?;
        *lock(&self.statistics.all) = Some((chunks, fitted.clone()));
        Ok(fitted)
    }

    async fn fitted_for(&self, mandatory: &Filter, corpus: &api::Filter) -> Result<Fitted> {
        let key = mandatory.canonical();
        if let Some((at, fitted)) = lock(&self.statistics.restricted).get(&key)
            && at.elapsed() < RESTRICTED_FOR
        {
            return Ok(fitted.clone());
        }
        let fitted = self.fit(corpus, RESTRICTED_SAMPLE).await?;
        let mut known = lock(&self.statistics.restricted);
        if known.len() >= RESTRICTED_MAX {
            known.clear();
        }
        known.insert(key, (Instant::now(), fitted.clone()));
        Ok(fitted)
    }

    /// Ids are hashes: the first of them are of chunks chosen at random.
    async fn fit(&self, corpus: &api::Filter, sample: u32) -> Result<Fitted> {
        let request = ScrollPoints {
            collection_name: self.alias.clone(),
            filter: Some(corpus.clone()),
            limit: Some(sample),
            with_payload: Some(false.into()),
            with_vectors: Some(vec![DENSE].into()),
            ..Default::default()
        };
        let (points, _) = self.client.scroll(request).await?;
        let rows: Vec<Vec<f32>> = points.into_iter().filter_map(|point| point.dense).collect();
        Ok(CorpusStatistics::fit(&rows).map(Arc::new))
    }
}
