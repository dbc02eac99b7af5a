//! The way to an upstream: requests of the size that it takes, several at once, sent again where that helps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use weir_policy::upstream::{BreakerDecision, FailedAttempt, RetryBudget, wait_before_retry};

use super::call::Caller;
use super::{UpstreamError, fingerprint};
use crate::{InferenceError, Lane, Truncation};
use weir_config::UpstreamConfig;
use weir_telemetry::metrics::Metrics;

/// What is left of a deadline for the reply to be written.
const REPLY_TIME: Duration = Duration::from_millis(50);

/// The way to one upstream.
pub(crate) struct Line {
    pub(super) caller: Arc<Caller>,
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
pub(crate) struct UpstreamText {
    pub(crate) text: String,
    /// Its tokens, estimated.
    pub(crate) tokens: usize,
    /// What the upstream shall do when it is too long.
    pub(crate) truncation: Truncation,
}

/// What an upstream is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    /// What the texts are scored by, where the upstream reranks.
    pub(crate) query: Option<String>,
    /// What is embedded, or scored.
    pub(crate) texts: Vec<UpstreamText>,
}

impl Line {
    /// The way to the upstream of the model `id`; nothing is sent yet.
    ///
    /// # Errors
    /// Why there is no `api_key`.
    pub(crate) fn new(
        id: &str,
        settings: &UpstreamConfig,
        waiting_max: usize,
        metrics: Metrics,
    ) -> Result<Line, String> {
        let UpstreamConfig { protocol, url, model, normalize, concurrent_requests_max, .. } = settings;
        let kind = if protocol.is_reranking() {
            "rerank"
        } else if *normalize {
            "true"
        } else {
            "false"
        };
        Ok(Line {
            caller: Arc::new(Caller::new(id, settings, metrics.clone())?),
            fingerprint: fingerprint(&[protocol.name(), url, model, kind]),
            places: Arc::new(Semaphore::new(*concurrent_requests_max)),
            bulk_places: Arc::new(Semaphore::new(concurrent_requests_max.saturating_sub(1).max(1))),
            waiting: AtomicUsize::new(0),
            waiting_max,
            budget: Mutex::default(),
            metrics,
        })
    }

    pub(super) fn settings(&self) -> &UpstreamConfig {
        &self.caller.settings
    }

    /// Hash of the kind, the address and the model's name.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// A row for each text, in order: its embedding, or its score alone; and how long the last of them waited for a place. What can't
    /// be had before `until` is not waited for.
    ///
    /// # Errors
    /// [`InferenceError`]; the first failure counts, and what was not sent by then is not sent.
    pub(crate) async fn rows(
        &self,
        ask: Ask,
        lane: Lane,
        until: Option<Instant>,
    ) -> Result<(Vec<Vec<f32>>, Duration), InferenceError> {
        let until = until.map(|until| until.checked_sub(REPLY_TIME).unwrap_or(until));
        let requests = cut(ask, self.settings());
        let parts = try_join_all(requests.into_iter().map(|ask| self.send(ask, lane, until))).await?;
        let waited = parts.iter().map(|(_, waited)| *waited).max().unwrap_or_default();
        Ok((parts.into_iter().flat_map(|(rows, _)| rows).collect(), waited))
    }

    /// One request, sent again where that helps.
    async fn send(
        &self,
        ask: Ask,
        lane: Lane,
        until: Option<Instant>,
    ) -> Result<(Vec<Vec<f32>>, Duration), InferenceError> {
        let ask = Arc::new(ask);
        self.with_budget(RetryBudget::deposit);
        let mut retries = 0;
        let mut waited = Duration::ZERO;
        loop {
            let (place, queued) = self.place(&ask.texts, lane, until).await?;
            waited = waited.max(queued);
            let error = match self.attempt(ask.clone(), place, until).await? {
                Ok(rows) => return Ok((rows, waited)),
                Err(error) => error,
            };
            let failed = FailedAttempt {
                retries,
                retries_max: self.settings().retries_max,
                retry_after: error.retry_after(),
                time_left: until.map(|until| until.saturating_duration_since(Instant::now())),
                random: random(),
            };
            let wait = if error.is_transient() { wait_before_retry(&failed) } else { None };
            match wait.filter(|_| self.with_budget(RetryBudget::withdraw)) {
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
        if let BreakerDecision::Reject { retry_after } = self.caller.would_admit() {
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
        ask: Arc<Ask>,
        place: Places,
        until: Option<Instant>,
    ) -> Result<Result<Vec<Vec<f32>>, UpstreamError>, InferenceError> {
        let caller = self.caller.clone();
        let (reply, rows) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            // whose caller has left is not sent
            if !reply.is_closed() {
                drop(reply.send(caller.call(&ask, until)));
            }
            drop(place);
        });
        rows.await.map_err(|_| InferenceError::Failed)
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

/// Cuts what is asked into requests, in order: as many texts as the upstream takes at once, all to be cut alike.
fn cut(ask: Ask, settings: &UpstreamConfig) -> Vec<Ask> {
    let Ask { query, texts } = ask;
    let mut requests: Vec<Ask> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        bytes += text.text.len();
        let open = requests.last_mut().map(|request| &mut request.texts).filter(|texts| {
            texts.len() < settings.texts_per_request_max
                && bytes <= settings.bytes_per_request_max
                && texts.last().is_some_and(|last| last.truncation == text.truncation)
        });
        match open {
            Some(texts) => texts.push(text),
            None => {
                bytes = text.text.len();
                requests.push(Ask { query: query.clone(), texts: vec![text] });
            }
        }
    }
    requests
}

/// From 0 up to 1; good enough to spread callers.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::Protocol;

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
        let ask = Ask { query: Some("q".to_owned()), texts: lengths.iter().map(text).collect() };
        let requests = cut(ask, &settings);
        assert!(requests.iter().all(|request| request.query.as_deref() == Some("q")));
        let lengths: Vec<Vec<usize>> = requests
            .iter()
            .map(|request| request.texts.iter().map(|text| text.text.len()).collect())
            .collect();
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
