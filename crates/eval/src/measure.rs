//! Measures configurations on one set: creates a collection, ingests the set's documents, searches for its queries.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio_util::sync::CancellationToken;
use weir_api::ErrorCode;
use weir_client::{Client, ClientError, IngestOptions, IngestProgress, JsonLines, StepResult, ingest};

use crate::configuration::Configuration;
use crate::dataset::{CORPUS, EvaluationSet, Query};
use crate::metrics::Scores;
use crate::run_file::{ConfigurationRun, SetRun};
use crate::{EvalError, Result};

/// Searches that run at a time.
const SEARCHES_MAX: usize = 4;
/// Documents in one ingest request, at most.
const BATCH_DOCUMENTS_MAX: usize = 500;

/// Where the documents of a set are searched.
pub(crate) struct MeasuredTarget<'a> {
    /// The gateway.
    pub(crate) client: &'a Client,
    /// The collection's name; a unique one when absent.
    pub(crate) collection: Option<&'a str>,
    /// Whether a created collection is kept.
    pub(crate) keep_collection: bool,
    /// The configurations to measure on each set.
    pub(crate) configurations: &'a [Configuration],
    /// Results per search.
    pub(crate) top_k: u64,
    /// Where the progress is shown.
    pub(crate) progress: &'a mut dyn IngestProgress,
    /// Ends the measurement; a created collection is removed then too.
    pub(crate) cancelled: &'a CancellationToken,
}

impl MeasuredTarget<'_> {
    /// Measures every configuration on `set`. An existing collection is searched and not changed. Otherwise one is
    /// created, filled with the set's documents and, whether or not the measurement succeeds, removed.
    pub(crate) async fn measure(&mut self, set: &EvaluationSet) -> Result<SetRun> {
        let name = self.collection.map_or_else(|| unique_name(&set.name), str::to_owned);
        if self.collection.is_some() && self.collection_exists(&name).await? {
            self.progress.note(&format!("{}: searching the existing collection `{name}`", set.name));
            self.check_documents(set, &name, format!("the collection `{name}`")).await?;
            return self.search_all(set, &name).await;
        }
        self.client.create_collection(&name).await?;
        let measured = self.fill_and_search(set, &name).await;
        if self.keep_collection {
            self.progress.note(&format!("{}: the collection `{name}` is kept", set.name));
        } else if let Err(error) = self.client.delete_collection(&name).await {
            self.progress
                .note(&format!("{}: the collection `{name}` could not be removed: {error}", set.name));
        }
        measured
    }

    /// Fills an empty collection and measures. Each configuration is tried first, because the gateway may refuse it.
    async fn fill_and_search(&mut self, set: &EvaluationSet, collection: &str) -> Result<SetRun> {
        if let Some(query) = set.queries.first() {
            for configuration in self.configurations {
                self.until_cancelled(self.search(set, query, collection, configuration)).await?;
            }
        }
        self.fill(set, collection).await?;
        self.check_documents(set, collection, set.corpus.display().to_string()).await?;
        self.search_all(set, collection).await
    }

    async fn until_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.cancelled.run_until_cancelled(work).await.unwrap_or(Err(EvalError::Cancelled))
    }

    /// Fails unless the collection has at least one relevant document. `place` is part of the message.
    async fn check_documents(&self, set: &EvaluationSet, collection: &str, place: String) -> Result<()> {
        let judged = set.queries.iter().flat_map(|query| &query.grades);
        let relevant: BTreeSet<&str> =
            judged.filter(|(id, grade)| **grade > 0 && !id.is_empty()).map(|(id, _)| id.as_str()).collect();
        for id in &relevant {
            let found = async { Ok(self.client.document(collection, id).await?) };
            match self.until_cancelled(found).await {
                Ok(_) => return Ok(()),
                Err(EvalError::Client(ClientError::Refused {
                    code: ErrorCode::DocumentNotFound, ..
                })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(EvalError::NoRelevantDocument { set: set.name.clone(), count: relevant.len(), place })
    }

    async fn collection_exists(&self, name: &str) -> Result<bool, ClientError> {
        match self.client.collection(name).await {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { code: ErrorCode::CollectionNotFound, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ingests the set's documents. Those with neither title nor text can't be found and are left out.
    async fn fill(&mut self, set: &EvaluationSet, collection: &str) -> Result<()> {
        let unreadable = |source| EvalError::Read { path: set.corpus.clone(), source };
        let bytes_total = std::fs::metadata(&set.corpus).map_err(unreadable)?.len();
        let mut empty = 0_u64;
        let lines = JsonLines::open(set.corpus.clone(), CORPUS.to_owned()).map_err(unreadable)?;
        let documents = lines.filter(|step| match &step.result {
            StepResult::Document(document) => {
                let is_empty = document.text.trim().is_empty()
                    && document.title.as_deref().unwrap_or_default().trim().is_empty();
                empty += u64::from(is_empty);
                !is_empty
            }
            StepResult::File(_) | StepResult::Empty | StepResult::Rejected(_) | StepResult::Note(_) => true,
        });
        let options = IngestOptions {
            collection,
            batch_documents_max: BATCH_DOCUMENTS_MAX,
            bytes_total,
            replace_if_equal: &[],
            keep_originals: false,
            webhook_url: None,
        };
        let report = ingest(self.client, options, documents, self.progress, self.cancelled).await?;
        // public sets have documents with equal ids, which were named
        if !report.rejections.is_empty() {
            report.check_complete()?;
        }
        let (name, count, seconds) = (&set.name, report.documents, report.elapsed.as_secs_f64());
        let left_out =
            if empty > 0 { format!(", {empty} without text were left out") } else { String::new() };
        self.progress.note(&format!("{name}: {count} documents in {seconds:.1} s{left_out}"));
        Ok(())
    }

    async fn search_all(&mut self, set: &EvaluationSet, collection: &str) -> Result<SetRun> {
        let mut measured = Vec::new();
        for configuration in self.configurations {
            let begun = Instant::now();
            let searches = set.queries.iter().map(|query| self.search(set, query, collection, configuration));
            let searches = stream::iter(searches).buffered(SEARCHES_MAX).try_collect::<Vec<Searched>>();
            let searched = self.until_cancelled(searches).await?;
            let (set, label, seconds) = (&set.name, configuration.label(), begun.elapsed().as_secs_f64());
            let degraded = searched.iter().filter(|one| one.is_degraded).count();
            if degraded > 0 {
                self.progress.note(&format!(
                    "warning: {set}: {label}: {degraded} replies were degraded: they lack a part of what was asked for"
                ));
            }
            self.progress.note(&format!("{set}: {label}: {} queries in {seconds:.1} s", searched.len()));
            let queries = searched.into_iter().filter_map(|one| Some((one.query_id, one.scores?))).collect();
            measured.push(ConfigurationRun { configuration: label.to_owned(), queries });
        }
        Ok(SetRun { set: set.name.clone(), configurations: measured })
    }

    async fn search(
        &self,
        set: &EvaluationSet,
        query: &Query,
        collection: &str,
        configuration: &Configuration,
    ) -> Result<Searched> {
        let request = configuration.request(&query.text, collection, self.top_k);
        let reply = self.client.search(&request).await.and_then(|reply| reply.parse());
        let reply = reply.map_err(|source| {
            let name = format!("{}/{}", set.name, query.id);
            EvalError::Query { name, source }
        })?;
        let ranking: Vec<String> = reply.results.into_iter().map(|result| result.id).collect();
        let scores = Scores::of(&ranking, &query.grades);
        Ok(Searched { query_id: query.id.clone(), scores, is_degraded: reply.degraded })
    }
}

/// The outcome of one search.
struct Searched {
    query_id: String,
    scores: Option<Scores>,
    /// Whether the gateway left out a part of the search.
    is_degraded: bool,
}

/// A name for a collection that no other run uses.
fn unique_name(set: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let set: String = set.chars().take(64).map(plain).collect();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("eval-{set}-{}", &unique[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_name_is_a_valid_name_of_a_collection() {
        for set in ["scifact", "a b/ü", "", &"x".repeat(300)] {
            weir_api::check_collection_name(&unique_name(set)).unwrap();
        }
        assert_ne!(unique_name("a"), unique_name("a"));
    }
}
