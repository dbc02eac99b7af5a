//! What people say of hits, brought to the relevance of later ones.
//!
//! A judgment says which document answered which query. What the relevance of that hit was computed from is found out by
//! searching once more, in the background, and kept beside the judgment: a start needs no search to be where it was.

use std::sync::Arc;
use std::time::Duration;

use weir_index::relevance::{FEEDBACK_MAX, HitFeatures, JudgedHit};
use weir_index::{IndexError, IndexQuery, RetrievalMode};
use weir_policy::Caller;

use crate::collections::OpenCollection;
use weir_inference::{Caching, EmbedOptions, InferenceError, Lane};

/// Judgments that are searched for between two refinements.
const AT_ONCE: usize = 64;

/// How long the first judgment waits for others to be taken up with it.
const GATHER_FOR: Duration = Duration::from_millis(100);

/// After a failure the worker waits, twice as long each time, between these.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Why judgments could not be taken up. They are tried again; nothing is lost.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedbackError {
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] weir_store::Error),
    /// The index failed.
    #[error("the index failed: {0}")]
    Index(#[from] IndexError),
    /// A query was not embedded.
    #[error("embedding a query failed: {0}")]
    Inference(#[from] InferenceError),
}

/// Refines the relevance of a collection's hits by all judgments whose features are known; returns those that wait for
/// theirs, a few at a time.
///
/// # Errors
/// What the store says.
pub(crate) async fn refine(
    collection: &OpenCollection,
) -> Result<Vec<weir_store::Feedback>, weir_store::Error> {
    let fingerprint = &collection.preparer.fingerprint;
    let batch = collection.preparer.documents.feedback_batch(fingerprint, FEEDBACK_MAX, AT_ONCE).await?;
    let known = batch.processed.iter().filter_map(|(is_relevant, features)| {
        // features of a version that wrote them in another way don't count
        let features: HitFeatures = serde_json::from_str(features).ok()?;
        Some(JudgedHit { features, is_relevant: *is_relevant })
    });
    let known: Vec<JudgedHit> = known.collect();
    collection.engine.refine_relevance(&known);
    Ok(batch.pending)
}

/// Takes up judgments as they come until the collection is closed. `depth` is the setting `search.depth`.
pub(crate) async fn run(collection: Arc<OpenCollection>, depth: usize) {
    tokio::select! {
        () = collection.closing.cancelled() => {}
        () = follow(&collection, depth) => {}
    }
}

async fn follow(collection: &OpenCollection, depth: usize) {
    let mut wait = RETRY_AFTER.0;
    loop {
        match take_up(collection, depth).await {
            Ok(()) => {
                wait = RETRY_AFTER.0;
                collection.feedback_added.notified().await;
                tokio::time::sleep(GATHER_FOR).await;
            }
            Err(error) => {
                tracing::warn!(collection = collection.name, %error, retry_after = ?wait, "feedback could not be taken up; it will be tried again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_AFTER.1);
            }
        }
    }
}

/// Finds out the features of the judgments that wait for theirs, and refines by them.
async fn take_up(collection: &OpenCollection, depth: usize) -> Result<(), FeedbackError> {
    let mut waiting = refine(collection).await?;
    while !waiting.is_empty() {
        // a judged document is in the store, and shall be found
        collection.wait_until_searchable(collection.accepted()).await;
        let mut found = Vec::with_capacity(waiting.len());
        for judged in &waiting {
            let features = features(collection, judged, depth).await?;
            found.push((judged.number, features.and_then(|features| serde_json::to_string(&features).ok())));
        }
        let weighed = found.iter().filter(|(_, features)| features.is_some()).count();
        let no_hit = found.len() - weighed;
        let fingerprint = &collection.preparer.fingerprint;
        collection.preparer.store.save_features(collection.id, fingerprint, found).await?;
        waiting = refine(collection).await?;
        collection.metrics.feedback_taken_up(weighed, no_hit);
    }
    Ok(())
}

/// What a search of the query says about the document now: by both legs where there are two. `None` where the document is
/// none of its hits.
async fn features(
    collection: &OpenCollection,
    judged: &weir_store::Feedback,
    depth: usize,
) -> Result<Option<HitFeatures>, FeedbackError> {
    let query = collection.read_query(&judged.query);
    let text = query.text().into_owned();
    let (mut mode, mut embedding) = (RetrievalMode::Lexical, None);
    if let Some(model) = collection.model().filter(|_| !text.trim().is_empty()) {
        let terms = EmbedOptions { lane: Lane::Bulk, caching: Caching::On, until: None };
        let inputs = vec![model.query_input(&text)];
        match collection.preparer.scheduler.embed(model, inputs, terms).await {
            Ok(mut made) => (mode, embedding) = (RetrievalMode::Hybrid, made.embeddings.pop()),
            Err(error) if collection.preparer.is_text_refused(&error).await => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    let request = IndexQuery { depth, ..IndexQuery::new(mode, Some(query), embedding, 1) };
    let features = collection.engine.features(&Caller::system(), request, &judged.document_id).await;
    Ok(features?)
}
