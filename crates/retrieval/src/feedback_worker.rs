//! The feedback worker: calibrates relevance by users' judgments of hits.
//!
//! A judgment grades a document for a query. The worker repeats the search in the background and stores the features of the hit beside
//! the judgment, so that a restart does not repeat it.

use std::sync::Arc;
use std::time::Duration;

use weir_config::table::Search;
use weir_index::{IndexError, IndexQuery};
use weir_inference::{Caching, EmbedOptions, InferenceError, Lane};
use weir_policy::Caller;
use weir_ranking::RetrievalMode;
use weir_ranking::relevance::{FEEDBACK_MAX, HitFeatures, JudgedHit, LearnedRelevance, Voter};
use weir_store::FeedbackLimits;

use crate::clock::now;
use crate::open_collection::OpenCollection;

/// Pending judgments that are processed between two calibrations.
const BATCH_MAX: usize = 64;

/// Longest time between two calibrations.
const CALIBRATE_EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Longest wait of a judgment for others of the same batch.
const BATCH_DELAY: Duration = Duration::from_millis(100);

const DAY_SECONDS: f64 = 86_400.0;

/// First and longest wait after a failure; it doubles each time.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Why judgments could not be processed. They stay pending and are processed later.
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

/// Calibrates a collection's relevance by the judgments with features that count; returns the first pending judgments.
pub(crate) async fn calibrate(
    collection: &OpenCollection,
    settings: &Search,
) -> Result<Vec<weir_store::Feedback>, weir_store::Error> {
    let fingerprint = &collection.preparer.fingerprint;
    let limits = FeedbackLimits {
        entries_max: FEEDBACK_MAX,
        per_caller_max: settings.feedback_votes_per_caller_max,
        pending_max: BATCH_MAX,
    };
    let batch = collection.preparer.documents.feedback_batch(fingerprint, limits).await?;
    let now = now();
    let votes = batch.processed.iter().filter_map(|judged| {
        // features in the format of another version are ignored
        let features: HitFeatures = serde_json::from_str(&judged.features).ok()?;
        // whole days: relevance is the same before and after a restart
        let days = ((now - judged.created_at).max(0.0) / DAY_SECONDS).floor();
        Some(JudgedHit {
            features,
            is_relevant: judged.is_relevant,
            weight: (-days / f64::from(settings.feedback_half_life_days)).exp2() as f32,
            voter: match (judged.is_operator, judged.caller) {
                (true, _) => Voter::Operator,
                (false, Some(key)) => Voter::Caller(key.0),
                (false, None) => Voter::Unnamed,
            },
        })
    });
    let votes: Vec<JudgedHit> = votes.collect();
    collection.engine.set_learned_relevance(LearnedRelevance::of(&votes, settings.feedback_shift_max));
    Ok(batch.pending)
}

/// Processes judgments until the collection is closed.
pub(crate) async fn run(collection: Arc<OpenCollection>, settings: Search) {
    tokio::select! {
        () = collection.closing.cancelled() => {}
        () = process_all(&collection, &settings) => {}
    }
}

async fn process_all(collection: &OpenCollection, settings: &Search) {
    let mut wait = RETRY_AFTER.0;
    loop {
        match process_pending(collection, settings).await {
            Ok(()) => {
                wait = RETRY_AFTER.0;
                // judgments lose weight while none arrives
                drop(tokio::time::timeout(CALIBRATE_EVERY, collection.feedback_changed.notified()).await);
                tokio::time::sleep(BATCH_DELAY).await;
            }
            Err(error) => {
                tracing::warn!(collection = collection.name, %error, retry_after = ?wait, "feedback was not processed; it is retried");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_AFTER.1);
            }
        }
    }
}

/// Computes the features of pending judgments and calibrates by them.
async fn process_pending(collection: &OpenCollection, settings: &Search) -> Result<(), FeedbackError> {
    let mut pending = calibrate(collection, settings).await?;
    while !pending.is_empty() {
        // judged documents are in the store, but may not be searchable yet
        collection.wait_until_searchable(collection.accepted()).await;
        let mut found = Vec::with_capacity(pending.len());
        for judged in &pending {
            let features = features(collection, judged, settings.depth).await?;
            found.push((judged.number, features.and_then(|features| serde_json::to_string(&features).ok())));
        }
        let with_features = found.iter().filter(|(_, features)| features.is_some()).count();
        let no_hit = found.len() - with_features;
        let fingerprint = &collection.preparer.fingerprint;
        collection.preparer.store.save_features(collection.id, fingerprint, found).await?;
        pending = calibrate(collection, settings).await?;
        collection.metrics.feedback_processed(with_features, no_hit);
    }
    Ok(())
}

/// The features of the document in a search for the query, by both retrievers if the collection has embeddings. `None` if it is not
/// among the candidates.
async fn features(
    collection: &OpenCollection,
    judged: &weir_store::Feedback,
    depth: usize,
) -> Result<Option<HitFeatures>, FeedbackError> {
    let query = collection.engine.read_query(&Caller::system(), &judged.query).await?.query;
    let text = query.text().into_owned();
    let (mut mode, mut embedding) = (RetrievalMode::Lexical, None);
    if let Some(model) = collection.model().filter(|_| !text.trim().is_empty()) {
        let flow = collection.preparer.flow();
        let options = EmbedOptions { lane: Lane::Bulk, flow, caching: Caching::On, deadline: None };
        let inputs = vec![model.query_input(&text)];
        match collection.preparer.scheduler.embed(model, inputs, options).await {
            Ok(made) => (mode, embedding) = (RetrievalMode::Hybrid, made.embeddings.into_single()),
            Err(error) if collection.preparer.is_text_refused(&error).await => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    let lexical = collection.lexical().index.clone();
    let request = IndexQuery { depth, lexical, ..IndexQuery::new(mode, Some(query), embedding, 1) };
    let features = collection.engine.features(&Caller::system(), request, &judged.document_id).await;
    Ok(features?)
}
