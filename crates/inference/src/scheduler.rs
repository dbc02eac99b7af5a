//! The inference threads, and the three lanes of work for them.
//!
//! A request becomes micro-batches of about [`MICRO_BATCH_TOKENS`] tokens. The query lane and the interactive lane share one thread per core,
//! which takes queries first; the bulk lane has as many threads of its own. They run at idle priority, so the system preempts them for queries
//! and requests: a query never waits for bulk work, and bulk work uses the idle time of all cores, or a minimum share of them (see
//! [`super::floor`]). In the bulk lane collections and requests take turns (see [`super::fair_queue`]). Models on other servers use no thread
//! of the lanes (see [`super::upstream`]). A cancelled micro-batch is dropped from the queue. The query lane and the interactive lane refuse
//! requests beyond their limits of tokens and time; in the bulk lane a request waits, and is refused if it would miss its deadline.
//!
//! Second-stage work (reranking, late interaction) has many tokens per request. It runs in the query lane with a concurrency limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, oneshot};

use super::admission::Admission;
use super::cache::{CacheKey, EmbeddingCache};
use super::fair_queue::FlowKey;
use super::input::Input;
use super::memory_budget::MemoryBudget;
use super::models::{Embedder, LoadedModel, Models};
use super::pool::{MICRO_BATCH_TOKENS, MicroBatch, Pool, Settings};
use super::progress::{DEADLINE_SHARE, Progress};
use super::request::{Caching, EmbedOptions, Embedded, InferenceError, Lane};
use super::rows::Rows;
use super::task::{ModelTask, Sequence};
use super::waiting::WaitingTokens;
use weir_config::table::Inference;
use weir_telemetry::metrics::Metrics;

/// Minimum of the wait limit of queries under any load (or one micro-batch, if longer). A shorter queue would leave threads idle until
/// the next request is read.
const QUERY_WAIT_MIN: Duration = Duration::from_millis(5);
/// The same of small requests for embeddings.
const REQUEST_WAIT_MIN: Duration = Duration::from_millis(50);

/// Tokens per second of one thread, for models without calibration.
const RATE_DEFAULT: f64 = 4000.0;

/// Owns the inference threads. Clones share them.
#[derive(Clone)]
pub struct Scheduler(Arc<SchedulerInner>);

struct SchedulerInner {
    interactive: Pool,
    bulk: Pool,
    cache: EmbeddingCache,
    metrics: Metrics,
    second_stage: SecondStage,
    memory_budget: MemoryBudget,
    query_admission: Admission,
    interactive_admission: Admission,
}

impl Scheduler {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn start(
        settings: &Inference,
        models: &Models,
        memory_budget: MemoryBudget,
        metrics: Metrics,
    ) -> std::io::Result<Scheduler> {
        let threads = settings.threads();
        let queue_tokens_max = settings.queue_tokens_max;
        let admission = |setting, wait_min, wait_ms_max| {
            Admission::new(setting, wait_min, Duration::from_millis(wait_ms_max), queue_tokens_max)
        };
        let token_time = models.default_model().map(|model| model.token_time).filter(|time| !time.is_zero());
        let initial_rate = token_time.map_or(RATE_DEFAULT, |time| time.as_secs_f64().recip());
        let is_calibrated = token_time.is_some();
        let pool = |lane| {
            let (share_min, floor_threads) = match lane {
                Lane::Bulk => (f64::from(settings.bulk_share_min), settings.floor_threads()),
                Lane::Query | Lane::Interactive => (0.0, 0),
            };
            let metrics = metrics.clone();
            Pool::start(Settings {
                lane,
                threads,
                share_min,
                floor_threads,
                initial_rate,
                is_calibrated,
                metrics,
            })
        };
        Ok(Scheduler(Arc::new(SchedulerInner {
            interactive: pool(Lane::Interactive)?,
            bulk: pool(Lane::Bulk)?,
            cache: EmbeddingCache::new(settings.cache_bytes_max),
            second_stage: SecondStage::new(threads.saturating_sub(1).max(1), queue_tokens_max),
            memory_budget,
            query_admission: admission(
                "inference.query_wait_ms_max",
                QUERY_WAIT_MIN,
                settings.query_wait_ms_max,
            ),
            interactive_admission: admission(
                "inference.request_wait_ms_max",
                REQUEST_WAIT_MIN,
                settings.request_wait_ms_max,
            ),
            metrics,
        })))
    }

    /// Embeds `inputs`, which `model` must have made.
    ///
    /// The bulk lane does not write to the cache: documents are embedded once and would evict frequent queries.
    ///
    /// # Errors
    /// [`InferenceError`]; local models never refuse bulk work with `QueueFull` or `QueueTooSlow`.
    pub async fn embed(
        &self,
        model: &LoadedModel,
        inputs: Vec<Input>,
        options: EmbedOptions,
    ) -> Result<Embedded, InferenceError> {
        let is_pseudo = matches!(model.embedder, Embedder::Pseudo(_));
        if is_pseudo || options.caching == Caching::Off || !self.0.cache.is_enabled() {
            return self.embed_uncached(model, inputs, options).await;
        }
        let SchedulerInner { cache, metrics, .. } = &*self.0;
        let fingerprint = model.embedder_fingerprint();
        let keys: Vec<CacheKey> = inputs.iter().map(|input| input.key(&fingerprint)).collect();
        let known: Vec<Option<Arc<[f32]>>> = keys.iter().map(|key| cache.get(key)).collect();
        let unknown: Vec<Input> = inputs
            .into_iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(input, _)| input)
            .collect();
        metrics.embed_cache(known.len() - unknown.len(), unknown.len());
        let computed = match unknown.is_empty() {
            true => Embedded::default(),
            false => self.embed_uncached(model, unknown, options).await?,
        };
        if computed.embeddings.len() == keys.len() {
            if options.lane != Lane::Bulk {
                keys.into_iter().zip(computed.embeddings.iter()).for_each(|(key, row)| cache.put(key, row));
            }
            return Ok(computed);
        }
        let mut new = computed.embeddings.iter();
        let mut embeddings = Rows::with_capacity(keys.len(), computed.embeddings.width());
        for (key, known) in keys.into_iter().zip(known) {
            match known {
                Some(embedding) => embeddings.push(&embedding),
                None => {
                    let embedding = new.next().ok_or(InferenceError::Failed)?;
                    if options.lane != Lane::Bulk {
                        cache.put(key, embedding);
                    }
                    embeddings.push(embedding);
                }
            }
        }
        Ok(Embedded { embeddings, waited: computed.waited })
    }

    async fn embed_uncached(
        &self,
        model: &LoadedModel,
        inputs: Vec<Input>,
        options: EmbedOptions,
    ) -> Result<Embedded, InferenceError> {
        let (lane, texts) = (options.lane, inputs.len());
        let embedded = self.compute_embeddings(model, inputs, options).await?;
        self.0.metrics.texts_embedded(lane.name(), texts);
        Ok(embedded)
    }

    async fn compute_embeddings(
        &self,
        model: &LoadedModel,
        inputs: Vec<Input>,
        options: EmbedOptions,
    ) -> Result<Embedded, InferenceError> {
        let task = match &model.embedder {
            Embedder::Local(encoder) => ModelTask::Embed(encoder.clone(), model.token_time),
            Embedder::Onnx(model) => ModelTask::EmbedOnnx(model.clone()),
            Embedder::Upstream(upstream) => {
                let texts = inputs.into_iter().map(Input::into_text).collect();
                return upstream.embed(texts, options.lane, options.deadline).await;
            }
            Embedder::Pseudo(pseudo) => {
                let mut embeddings = Rows::with_capacity(inputs.len(), pseudo.dimension);
                for input in &inputs {
                    embeddings.push_with(|floats| pseudo.embed(input.word_hashes(), floats));
                }
                return Ok(Embedded { embeddings, waited: Duration::ZERO });
            }
        };
        let sequences = inputs.into_iter().map(|input| Sequence::from(input.into_ids())).collect();
        self.compute(&task, sequences, options).await
    }

    async fn compute(
        &self,
        task: &ModelTask,
        sequences: Vec<Sequence>,
        EmbedOptions { lane, flow, deadline, .. }: EmbedOptions,
    ) -> Result<Embedded, InferenceError> {
        let (mut batches, replies) = micro_batches(task, sequences);
        match lane {
            Lane::Query | Lane::Interactive => {
                let tokens = batches.iter().map(|batch| batch.tokens).sum();
                batches.iter_mut().for_each(|batch| self.count_queued(batch, lane));
                if has_other_runtime_threads()
                    && let [batch] = &mut *batches
                    && let Some(embedded) = self.0.interactive.compute_on_caller(batch)
                {
                    return embedded;
                }
                let admission = match lane {
                    Lane::Query => &self.0.query_admission,
                    Lane::Interactive | Lane::Bulk => &self.0.interactive_admission,
                };
                // half, because the wait is an estimate and the computation takes time too
                let patience = deadline.map(|until| until.saturating_duration_since(Instant::now()) / 2);
                self.0.interactive.push(lane, batches, |load| admission.admit(load, tokens, patience))?;
            }
            Lane::Bulk => return self.compute_bulk(FlowKey::of(flow), batches, replies, deadline).await,
        }
        let mut embedded = Embedded::default();
        for reply in replies {
            embedded.append(reply.await.map_err(|_| self.no_reply_error())?);
        }
        Ok(embedded)
    }

    /// Embeds in the bulk lane. Work that would not be done by `deadline` is refused, on arrival or as soon as its speed shows it.
    async fn compute_bulk(
        &self,
        flow: FlowKey,
        mut batches: Vec<MicroBatch>,
        replies: Vec<oneshot::Receiver<Embedded>>,
        deadline: Option<Instant>,
    ) -> Result<Embedded, InferenceError> {
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.tokens).collect();
        let tokens = sizes.iter().sum();
        let mut progress = None;
        if let Some(until) = deadline {
            let takes = self.0.bulk.undisturbed_time_for(tokens);
            self.admit_bulk(flow, tokens, takes, until.saturating_duration_since(Instant::now()))?;
            progress = Some(Progress::new(until, tokens, takes));
        }
        batches.iter_mut().for_each(|batch| self.count_queued(batch, Lane::Bulk));
        self.0.bulk.push_bulk(flow, batches)?;
        // in order of completion, as the threads of the lane are not equally fast
        let mut waiting: FuturesUnordered<_> = replies
            .into_iter()
            .enumerate()
            .map(|(index, reply)| reply.map(move |part| (index, part)))
            .collect();
        let mut parts = vec![Embedded::default(); sizes.len()];
        while let Some((index, part)) = waiting.next().await {
            parts[index] = part.map_err(|_| self.no_reply_error())?;
            if let Some(progress) = &mut progress {
                progress.add(Instant::now(), sizes[index])?;
            }
        }
        let mut embedded = Embedded::default();
        parts.into_iter().for_each(|part| embedded.append(part));
        Ok(embedded)
    }

    /// Refuses bulk work that would not be done within `left`: it takes the time `takes` if nothing disturbs it, and what is computed before
    /// its end, by the turns of the flows, is done at the measured speed of the lane.
    fn admit_bulk(
        &self,
        flow: FlowKey,
        tokens: usize,
        takes: Option<Duration>,
        left: Duration,
    ) -> Result<(), InferenceError> {
        let (Some(takes), Some(wait)) = (takes, self.0.bulk.wait_of(flow, tokens)) else {
            return Ok(()); // not measured yet
        };
        let limit = left.mul_f64(DEADLINE_SHARE);
        if takes > limit {
            return Err(InferenceError::TooMuchWork { tokens, takes, left });
        }
        if takes + wait > limit {
            let setting = "server.request_deadline_ms";
            return Err(InferenceError::QueueTooSlow {
                wait,
                limit: limit - takes,
                setting,
                retry_after: wait,
            });
        }
        Ok(())
    }

    /// Computes one row for each sequence in the lane of queries. All second-stage work together occupies all threads but one, which is
    /// left to queries. The longest sequences come first, so that the sequences of a micro-batch have similar lengths.
    ///
    /// Dropping the future cancels the work.
    ///
    /// # Errors
    /// [`InferenceError`], never `QueueTooSlow`: callers set their own deadlines.
    pub(super) async fn compute_second_stage(
        &self,
        task: &ModelTask,
        sequences: Vec<Sequence>,
    ) -> Result<Rows, InferenceError> {
        let SecondStage { permits, concurrency, waiting } = &self.0.second_stage;
        let tokens = sequences.iter().map(|sequence| sequence.ids.len()).sum();
        let waiting = waiting.add(tokens);
        waiting.check()?;
        let mut indexed: Vec<(usize, Sequence)> = sequences.into_iter().enumerate().collect();
        indexed.sort_by_key(|(_, sequence)| std::cmp::Reverse(sequence.ids.len()));
        let (order, sequences): (Vec<usize>, Vec<Sequence>) = indexed.into_iter().unzip();
        let (batches, replies) = micro_batches(task, sequences);
        let parts = batches.into_iter().zip(replies).map(|(mut batch, reply)| async move {
            self.count_queued(&mut batch, Lane::Query);
            let permit = permits.clone().acquire_owned().await;
            batch.permit = Some(permit.map_err(|_| InferenceError::Stopping)?);
            self.0.interactive.push(Lane::Query, vec![batch], |_| Ok(()))?;
            reply.await.map_err(|_| self.no_reply_error())
        });
        let parts: Vec<Embedded> =
            futures_util::stream::iter(parts).buffered(*concurrency).try_collect().await?;
        let mut rows: Vec<&[f32]> = vec![&[]; order.len()];
        for (index, row) in order.into_iter().zip(parts.iter().flat_map(|part| part.embeddings.iter())) {
            rows[index] = row;
        }
        Ok(rows.into_iter().collect())
    }

    fn count_queued(&self, batch: &mut MicroBatch, lane: Lane) {
        batch.queued = Some(self.0.metrics.queued(lane.name(), batch.sequences.len()));
    }

    fn no_reply_error(&self) -> InferenceError {
        if self.0.second_stage.permits.is_closed() {
            InferenceError::Stopping
        } else {
            InferenceError::Failed
        }
    }

    /// Whether the cache has the embedding of `input`, which `model` must have made.
    pub fn has_cached(&self, model: &LoadedModel, input: &Input) -> bool {
        self.0.cache.contains(&input.key(&model.embedder_fingerprint()))
    }

    /// The memory that requests for embeddings share.
    pub fn memory_budget(&self) -> &MemoryBudget {
        &self.0.memory_budget
    }

    /// Whether most queries are refused.
    pub fn is_overloaded(&self) -> bool {
        self.0.query_admission.is_overloaded()
    }

    /// Tokens that wait in the lanes for queries and small requests.
    pub fn queued_tokens(&self) -> usize {
        self.0.interactive.queued_tokens()
    }

    /// Bytes of the cached embeddings.
    pub fn cache_bytes(&self) -> usize {
        self.0.cache.bytes()
    }

    /// Stops every thread after its current micro-batch. Waiting requests fail with [`InferenceError::Stopping`].
    pub fn stop(&self) {
        self.0.second_stage.permits.close();
        self.0.interactive.stop();
        self.0.bulk.stop();
    }
}

/// Whether the runtime has other threads that serve requests while this one computes.
fn has_other_runtime_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// The concurrency limit of second-stage work.
struct SecondStage {
    /// One per micro-batch.
    permits: Arc<Semaphore>,
    concurrency: usize,
    /// Tokens of all unfinished requests.
    waiting: WaitingTokens,
}

impl SecondStage {
    fn new(concurrency: usize, tokens_max: usize) -> SecondStage {
        let permits = Arc::new(Semaphore::new(concurrency));
        SecondStage { permits, concurrency, waiting: WaitingTokens::new(tokens_max) }
    }
}

/// Splits sequences, in order, into micro-batches with a reply channel each.
fn micro_batches(
    task: &ModelTask,
    sequences: Vec<Sequence>,
) -> (Vec<MicroBatch>, Vec<oneshot::Receiver<Embedded>>) {
    let (mut batches, mut replies) = (Vec::<MicroBatch>::new(), Vec::new());
    for sequence in sequences {
        let tokens = sequence.ids.len();
        match batches.last_mut().filter(|batch| batch.tokens + tokens <= MICRO_BATCH_TOKENS) {
            Some(batch) => {
                batch.sequences.push(sequence);
                batch.tokens += tokens;
            }
            None => {
                let (reply, receiver) = oneshot::channel();
                replies.push(receiver);
                let (task, sequences) = (task.clone(), vec![sequence]);
                batches.push(MicroBatch { task, sequences, tokens, reply, permit: None, queued: None });
            }
        }
    }
    (batches, replies)
}
