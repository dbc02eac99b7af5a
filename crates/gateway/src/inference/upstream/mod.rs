//! Models that another server runs: texts become requests of the size that it takes, several at once, sent again where that helps.
//!
//! Every request waits for one of `concurrent_requests_max` places; bulk work leaves one of them to callers who wait. A request runs on
//! one of the runtime's threads for work that blocks, never on one that embeds. Whoever no longer waits is not sent; what is
//! already on its way keeps its place until it ends, so that the upstream never gets more at once than it should.
//!
//! When to give up, to wait and to try again is decided in [`weir_policy::upstream`].

mod call;
mod dimension;
mod error;
mod wire;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use weir_policy::upstream::{Admission, FailedAttempt, RetryBudget, wait_before_retry};

use super::scheduler::{Embedded, Lane};
use super::{InferenceError, Truncation};
use crate::config::UpstreamConfig;
use crate::metrics::Metrics;
use call::Caller;
use dimension::Dimension;
pub use error::UpstreamError;

/// What is left of a deadline for the reply to be written.
const REPLY_TIME: Duration = Duration::from_millis(50);

/// A model that another server runs.
pub struct Upstream {
    caller: Arc<Caller>,
    dimension: Dimension,
    fingerprint: String,
    places: Arc<Semaphore>,
    bulk_places: Arc<Semaphore>,
    /// Tokens of interactive texts that wait for a place, about.
    waiting: AtomicUsize,
    waiting_max: usize,
    budget: Mutex<RetryBudget>,
    metrics: Metrics,
}

/// A text for an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UpstreamText {
    pub(super) text: String,
    /// Its tokens, estimated.
    pub(super) tokens: usize,
    /// What the upstream shall do when it is too long.
    pub(super) truncation: Truncation,
}

impl Upstream {
    /// The upstream of the model `id`; nothing is sent yet. What its embeddings' length is found to be is kept in `folder`.
    ///
    /// # Errors
    /// Why there is no `api_key`.
    pub(super) fn new(
        id: &str,
        settings: &UpstreamConfig,
        folder: &std::path::Path,
        waiting_max: usize,
        metrics: Metrics,
    ) -> Result<Upstream, String> {
        let UpstreamConfig { protocol, url, model, concurrent_requests_max, .. } = settings;
        let fingerprint = fingerprint(&[protocol.name(), url, model, &settings.normalize.to_string()]);
        Ok(Upstream {
            caller: Arc::new(Caller::new(id, settings, metrics.clone())?),
            dimension: Dimension::new(settings.dimension, folder, &fingerprint),
            fingerprint,
            places: Arc::new(Semaphore::new(*concurrent_requests_max)),
            bulk_places: Arc::new(Semaphore::new(concurrent_requests_max.saturating_sub(1).max(1))),
            waiting: AtomicUsize::new(0),
            waiting_max,
            budget: Mutex::default(),
            metrics,
        })
    }

    fn settings(&self) -> &UpstreamConfig {
        &self.caller.settings
    }

    /// Floats of an embedding, as soon as that is known.
    pub fn dimension(&self) -> Option<usize> {
        self.dimension.get()
    }

    /// Lengths that an embedding may be cut to.
    pub fn dimensions(&self) -> &[usize] {
        &self.settings().dimensions
    }

    /// Whether every embedding has length one.
    pub fn is_normalised(&self) -> bool {
        self.settings().normalize
    }

    /// Hash of the kind, the address, the model's name, and the embeddings' length as soon as that is known. It tells one configured
    /// upstream from another, and can't tell that somebody put another model behind the same name.
    pub fn fingerprint(&self) -> String {
        let dimension = self.dimension().map_or_else(String::new, |dimension| dimension.to_string());
        fingerprint(&[&self.fingerprint, &dimension])
    }

    /// Finds out the embeddings' length where it is not known yet, by one request.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn learn_dimension(&self) -> Result<(), InferenceError> {
        if self.dimension().is_some() {
            return Ok(());
        }
        let text = UpstreamText { text: "dimension".to_owned(), tokens: 1, truncation: Truncation::End };
        self.embed(vec![text], Lane::Interactive, None).await.map(drop)
    }

    /// The embeddings of `texts`, in order. What can't be had before `until` is not waited for.
    ///
    /// # Errors
    /// [`InferenceError`]; the first failure counts, and what was not sent by then is not sent.
    pub(super) async fn embed(
        &self,
        texts: Vec<UpstreamText>,
        lane: Lane,
        until: Option<Instant>,
    ) -> Result<Embedded, InferenceError> {
        let until = until.map(|until| until.checked_sub(REPLY_TIME).unwrap_or(until));
        let requests = cut(texts, self.settings());
        let parts = try_join_all(requests.into_iter().map(|texts| self.send(texts, lane, until))).await?;
        let waited = parts.iter().map(|part| part.waited).max().unwrap_or_default();
        Ok(Embedded { embeddings: parts.into_iter().flat_map(|part| part.embeddings).collect(), waited })
    }

    /// One request, sent again where that helps.
    async fn send(
        &self,
        texts: Vec<UpstreamText>,
        lane: Lane,
        until: Option<Instant>,
    ) -> Result<Embedded, InferenceError> {
        let texts: Arc<[UpstreamText]> = texts.into();
        self.with_budget(RetryBudget::earn);
        let mut retries = 0;
        let mut waited = Duration::ZERO;
        loop {
            let (place, queued) = self.place(&texts, lane, until).await?;
            waited = waited.max(queued);
            let error = match self.attempt(texts.clone(), place, until).await? {
                Ok(embeddings) => return self.checked(embeddings, waited),
                Err(error) => error,
            };
            let failed = FailedAttempt {
                retries,
                retries_max: self.settings().retries_max,
                retry_after: error.retry_after(),
                left: until.map(|until| until.saturating_duration_since(Instant::now())),
                random: random(),
            };
            let wait = if error.is_transient() { wait_before_retry(&failed) } else { None };
            match wait.filter(|_| self.with_budget(RetryBudget::take)) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error.into()),
            }
            retries += 1;
        }
    }

    fn with_budget<T>(&self, act: impl FnOnce(&mut RetryBudget) -> T) -> T {
        act(&mut self.budget.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A place among the requests of the moment, and how long it took to get it.
    async fn place(
        &self,
        texts: &[UpstreamText],
        lane: Lane,
        until: Option<Instant>,
    ) -> Result<(Places, Duration), InferenceError> {
        if let Admission::Refused(retry_after) = self.caller.would_admit() {
            return Err(self.caller.open(retry_after).into());
        }
        let queued = self.metrics.queued(lane.name(), texts.len());
        let tokens: usize = texts.iter().map(|text| text.tokens).sum();
        let wait = async {
            match lane {
                Lane::Interactive => {
                    let _waiting = self.wait_in_line(tokens)?;
                    Ok(Places { _one: self.places.clone().acquire_owned().await.ok(), _bulk: None })
                }
                Lane::Bulk => {
                    let bulk = self.bulk_places.clone().acquire_owned().await.ok();
                    Ok(Places { _one: self.places.clone().acquire_owned().await.ok(), _bulk: bulk })
                }
            }
        };
        let place: Result<Places, InferenceError> = match until {
            None => wait.await,
            Some(until) => {
                let given = until.saturating_duration_since(Instant::now());
                tokio::time::timeout_at(until.into(), wait)
                    .await
                    .unwrap_or_else(|_| Err(self.caller.timeout(given).into()))
            }
        };
        let place = place?;
        self.metrics.batch(texts.len(), tokens);
        Ok((place, queued.ends()))
    }

    /// Counts interactive tokens that wait, up to a limit. A free place takes any number.
    fn wait_in_line(&self, tokens: usize) -> Result<Waiting<'_>, InferenceError> {
        let queued = self.waiting.fetch_add(tokens, Ordering::Relaxed);
        let waiting = Waiting { waiting: &self.waiting, tokens };
        if self.places.available_permits() == 0 && queued > 0 && queued + tokens > self.waiting_max {
            return Err(InferenceError::TooMany { queued, limit: self.waiting_max });
        }
        Ok(waiting)
    }

    /// One attempt, on a thread that may block.
    async fn attempt(
        &self,
        texts: Arc<[UpstreamText]>,
        place: Places,
        until: Option<Instant>,
    ) -> Result<Result<Vec<Vec<f32>>, UpstreamError>, InferenceError> {
        let caller = self.caller.clone();
        let (reply, embeddings) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            // whose caller has left is not sent
            if !reply.is_closed() {
                drop(reply.send(caller.call(&texts, until)));
            }
            drop(place);
        });
        embeddings.await.map_err(|_| InferenceError::Failed)
    }

    /// Refuses embeddings of another length than those before.
    fn checked(&self, embeddings: Vec<Vec<f32>>, waited: Duration) -> Result<Embedded, InferenceError> {
        for embedding in &embeddings {
            let dimension = self.dimension.get_or_keep(embedding.len());
            if embedding.len() != dimension {
                let reason = format!(
                    "an embedding of {} floats, and those of this model have {dimension}; is another model running there? \
                     `dimension` and `model` say what is expected",
                    embedding.len()
                );
                return Err(self.caller.reply(reason).into());
            }
        }
        Ok(Embedded { embeddings, waited })
    }
}

/// What a request holds while it is on its way. The semaphores are never closed.
struct Places {
    _one: Option<OwnedSemaphorePermit>,
    _bulk: Option<OwnedSemaphorePermit>,
}

/// Tokens that wait for a place, until it is dropped.
struct Waiting<'a> {
    waiting: &'a AtomicUsize,
    tokens: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}

/// Cuts texts into requests, in order: as many as the upstream takes at once, all to be cut alike.
fn cut(texts: Vec<UpstreamText>, settings: &UpstreamConfig) -> Vec<Vec<UpstreamText>> {
    let mut requests: Vec<Vec<UpstreamText>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        bytes += text.text.len();
        let open = requests.last_mut().filter(|request| {
            request.len() < settings.texts_per_request_max
                && bytes <= settings.bytes_per_request_max
                && request.last().is_some_and(|last| last.truncation == text.truncation)
        });
        match open {
            Some(request) => request.push(text),
            None => {
                bytes = text.text.len();
                requests.push(vec![text]);
            }
        }
    }
    requests
}

/// Hash of parts that decide an embedding, as 32 hex digits.
fn fingerprint(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// From 0 up to 1; good enough to spread callers.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;

    /// Cuts texts of these lengths, at most three texts or ten bytes at once; `expected` has the lengths of each request.
    fn check(lengths: &[usize], expected: &[&[usize]]) {
        let settings = UpstreamConfig {
            protocol: Protocol::Tei,
            url: String::new(),
            model: String::new(),
            api_key: None,
            dimension: None,
            dimensions: Vec::new(),
            normalize: true,
            texts_per_request_max: 3,
            bytes_per_request_max: 10,
            concurrent_requests_max: 1,
            timeout_ms: 1,
            retries_max: 0,
        };
        let text = |length: &usize| UpstreamText {
            text: "a".repeat(*length),
            tokens: 1,
            truncation: Truncation::End,
        };
        let requests = cut(lengths.iter().map(text).collect(), &settings);
        let lengths: Vec<Vec<usize>> =
            requests.iter().map(|request| request.iter().map(|text| text.text.len()).collect()).collect();
        assert_eq!(lengths, expected);
    }

    #[test]
    fn requests_hold_as_many_texts_and_bytes_as_the_upstream_takes() {
        check(&[], &[]);
        check(&[1, 1, 1, 1], &[&[1, 1, 1], &[1]]);
        check(&[5, 5, 1], &[&[5, 5], &[1]]);
        check(&[11, 1, 10], &[&[11], &[1], &[10]]);
    }

    #[test]
    fn random_numbers_differ_and_lie_between_0_and_1() {
        let numbers: Vec<f64> = (0..8).map(|_| random()).collect();
        assert!(numbers.iter().all(|number| (0.0..=1.0).contains(number)), "{numbers:?}");
        assert!(numbers.windows(2).any(|pair| pair[0] != pair[1]), "{numbers:?}");
    }
}
