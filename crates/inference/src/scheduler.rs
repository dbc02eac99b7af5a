//! The threads that embed, and the two lanes before them.
//!
//! A request becomes micro-batches of about [`MICRO_BATCH_TOKENS`] tokens. Each lane has a queue and threads of its own, as
//! many as cores. Those of the bulk lane stand back: where a thread of the interactive lane, or one that answers a request,
//! wants a core, the system takes it from them at once. So a query never waits for bulk work, and bulk work uses all
//! that is left. A model that another server runs occupies none of them (see [`super::upstream`]). Micro-batches whose caller has left are dropped unopened. Both lanes are bounded: the interactive one, in
//! tokens and in time, refuses; the bulk one lets its callers wait.
//!
//! What takes many tokens for one caller who waits, such as reranking, takes turns in the interactive lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, oneshot};

use super::admission::Admission;
use super::cache::{Cache, Key};
use super::input::Input;
use super::memory::Memory;
use super::models::{Embedder, LoadedModel, Models};
use super::pool::{Engine, MicroBatch, Pool, Sequence, Settings};
use super::standing::Standing;
use weir_config::table::Inference;
use weir_telemetry::metrics::Metrics;
use weir_upstream::UpstreamError;

/// Tokens of one micro-batch; a single longer text is a micro-batch of its own.
pub(super) const MICRO_BATCH_TOKENS: usize = 128;

/// Tokens a second of one thread, as long as nothing was measured.
const RATE_UNKNOWN: f64 = 4000.0;

/// Which work goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Queries: somebody waits.
    Interactive,
    /// Documents.
    Bulk,
}

impl Lane {
    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Interactive => "interactive",
            Lane::Bulk => "bulk",
        }
    }
}

/// How texts shall be embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbedOptions {
    /// In which lane.
    pub lane: Lane,
    /// Whether embeddings that were made before will do.
    pub caching: Caching,
    /// When nobody waits for them any more, if that is known: upstreams are not asked for what would come later.
    pub until: Option<Instant>,
}

/// Embeddings, and what is to be told about them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embedded {
    /// One for each text, in order.
    pub embeddings: Vec<Vec<f32>>,
    /// How long the last of them waited until it was begun with.
    pub waited: Duration,
}

/// Whether embeddings that were made before may be given again, and new ones kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// They may.
    On,
    /// Everything is made anew, and nothing kept.
    Off,
}

/// Why texts were not embedded, or not scored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    /// The lane holds as many tokens as it may.
    #[error("{queued} tokens wait to be embedded; the limit `inference.queue_tokens_max` is {limit}")]
    TooMany {
        /// Tokens that wait.
        queued: usize,
        /// The limit.
        limit: usize,
    },
    /// What waits in the lane takes longer than it may.
    #[error(
        "a text would wait {} ms to be embedded, and may wait {} ms: `inference.queue_wait_ms_max`, or less while many are refused",
        wait.as_micros().div_ceil(1000), limit.as_millis()
    )]
    TooLong {
        /// How long a text would wait.
        wait: Duration,
        /// The limit.
        limit: Duration,
        /// After what time to come again: later where fewer are admitted, or most would be refused again.
        again: Duration,
    },
    /// The model's upstream gave none.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The scheduler is being stopped.
    #[error("the gateway is stopping")]
    Stopping,
    /// A micro-batch panicked.
    #[error("the model failed; the log has the reason")]
    Failed,
}

/// Owns the threads that embed. Cloning gives another handle to the same threads.
#[derive(Clone)]
pub struct Scheduler(Arc<Parts>);

struct Parts {
    interactive: Pool,
    bulk: Pool,
    bulk_room: Arc<Semaphore>,
    cache: Cache,
    metrics: Metrics,
    rescoring: Rescoring,
    memory: Memory,
    queue_tokens_max: usize,
    admission: Admission,
}

impl Scheduler {
    /// Starts the threads of both lanes, for these models.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        settings: &Inference,
        models: &Models,
        memory: Memory,
        metrics: Metrics,
    ) -> std::io::Result<Scheduler> {
        let threads = settings.threads();
        let queue_tokens_max = settings.queue_tokens_max;
        let token_time = models.default_model().map(|model| model.token_time).filter(|time| !time.is_zero());
        let rate_at_start = token_time.map_or(RATE_UNKNOWN, |time| time.as_secs_f64().recip());
        let interactive = Pool::start(Settings {
            name: "embed",
            threads,
            standing: Standing::Soon,
            splits: true,
            lane: Lane::Interactive,
            rate_at_start,
            metrics: metrics.clone(),
        })?;
        let bulk = Pool::start(Settings {
            name: "bulk",
            threads,
            standing: Standing::WhenIdle,
            splits: false,
            lane: Lane::Bulk,
            rate_at_start,
            metrics: metrics.clone(),
        })?;
        let bulk_room = Arc::new(Semaphore::new(queue_tokens_max.min(Semaphore::MAX_PERMITS)));
        let queue_wait_max = Duration::from_millis(settings.queue_wait_ms_max);
        let admission = Admission::new(queue_tokens_max, queue_wait_max);
        let cache = Cache::new(settings.cache_bytes_max);
        Ok(Scheduler(Arc::new(Parts {
            interactive,
            bulk,
            bulk_room,
            cache,
            metrics,
            rescoring: Rescoring::of(threads.saturating_sub(1).max(1)),
            memory,
            queue_tokens_max,
            admission,
        })))
    }

    /// The embeddings of `inputs`, in order. They must be of this model.
    ///
    /// Bulk work reads the cache and leaves it as it is: what is embedded once must not drive out what is asked often.
    ///
    /// # Errors
    /// [`InferenceError`]; in the bulk lane never `TooMany` or `TooLong`.
    pub async fn embed(
        &self,
        model: &LoadedModel,
        inputs: Vec<Input>,
        terms: EmbedOptions,
    ) -> Result<Embedded, InferenceError> {
        let is_cheap = matches!(model.embedder, Embedder::Pseudo(_));
        if is_cheap || terms.caching == Caching::Off || !self.0.cache.is_on() {
            return self.make(model, inputs, terms).await;
        }
        let Parts { cache, metrics, .. } = &*self.0;
        let fingerprint = model.own_fingerprint();
        let keys: Vec<Key> = inputs.iter().map(|input| input.key(&fingerprint)).collect();
        let known: Vec<Option<Vec<f32>>> = keys.iter().map(|key| cache.get(key)).collect();
        let unknown: Vec<Input> = inputs
            .into_iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(input, _)| input)
            .collect();
        metrics.embed_cache(known.len() - unknown.len(), unknown.len());
        let made = match unknown.is_empty() {
            true => Embedded::default(),
            false => self.make(model, unknown, terms).await?,
        };
        let mut fresh = made.embeddings.into_iter();
        let mut embeddings = Vec::with_capacity(keys.len());
        for (key, known) in keys.into_iter().zip(known) {
            let embedding = known.or_else(|| fresh.next().inspect(|made| self.keep(terms.lane, key, made)));
            embeddings.push(embedding.ok_or(InferenceError::Failed)?);
        }
        Ok(Embedded { embeddings, waited: made.waited })
    }

    /// Makes embeddings, each by whoever makes those of the model.
    async fn make(
        &self,
        model: &LoadedModel,
        inputs: Vec<Input>,
        terms: EmbedOptions,
    ) -> Result<Embedded, InferenceError> {
        let engine = match &model.embedder {
            Embedder::Local(encoder) => Engine::Local(encoder.clone(), model.token_time),
            Embedder::Onnx(model) => Engine::Onnx(model.clone()),
            Embedder::Upstream(upstream) => {
                let texts = inputs.into_iter().map(Input::into_text).collect();
                return upstream.embed(texts, terms.lane, terms.until).await;
            }
            Embedder::Pseudo(pseudo) => {
                let embeddings = inputs.into_iter().map(|input| pseudo.embed(&input.into_text().text));
                return Ok(Embedded { embeddings: embeddings.collect(), waited: Duration::ZERO });
            }
        };
        let sequences = inputs.into_iter().map(|input| Sequence::from(input.into_ids())).collect();
        self.compute(&engine, sequences, terms.lane).await
    }

    fn keep(&self, lane: Lane, key: Key, embedding: &[f32]) {
        if lane == Lane::Interactive {
            self.0.cache.put(key, embedding);
        }
    }

    /// Has the threads of `lane` compute.
    async fn compute(
        &self,
        engine: &Engine,
        sequences: Vec<Sequence>,
        lane: Lane,
    ) -> Result<Embedded, InferenceError> {
        let (mut batches, replies) = cut(engine, sequences);
        let queued = |batch: &mut MicroBatch| {
            batch.queued = Some(self.0.metrics.queued(lane.name(), batch.sequences.len()));
        };
        match lane {
            Lane::Interactive => {
                let tokens = batches.iter().map(|batch| batch.tokens).sum();
                batches.iter_mut().for_each(queued);
                if may_block()
                    && let [batch] = &mut *batches
                    && let Some(made) = self.0.interactive.compute_here(batch)
                {
                    return Ok(made);
                }
                let admit = |load| self.0.admission.admit(load, tokens);
                self.0.interactive.push(batches, InferenceError::Stopping, admit)?;
            }
            Lane::Bulk => {
                for mut batch in batches {
                    queued(&mut batch);
                    let tokens = batch.tokens.min(self.0.queue_tokens_max);
                    let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
                    let room = self.0.bulk_room.clone().acquire_many_owned(tokens).await;
                    batch.room = Some(room.map_err(|_| InferenceError::Stopping)?);
                    self.0.bulk.push(vec![batch], InferenceError::Stopping, |_| Ok(()))?;
                }
            }
        }
        let mut made = Embedded::default();
        for reply in replies {
            let part = reply.await.map_err(|_| self.0.why_no_reply())?;
            made.embeddings.extend(part.embeddings);
            made.waited = made.waited.max(part.waited);
        }
        Ok(made)
    }

    /// Has the threads of the interactive lane compute a row for each sequence. All that is computed so takes turns, and no more
    /// micro-batches at a time than all threads but one: that is left to queries, which wait for none of it. The longest sequences come
    /// first, and those of like length together.
    ///
    /// Who stops waiting is not computed.
    ///
    /// # Errors
    /// [`InferenceError`], never `TooLong`: the caller knows how long it may take.
    pub(super) async fn compute_in_turn(
        &self,
        engine: &Engine,
        sequences: Vec<Sequence>,
    ) -> Result<Vec<Vec<f32>>, InferenceError> {
        let Parts { interactive, metrics, rescoring, .. } = &*self.0;
        let tokens = sequences.iter().map(|sequence| sequence.ids.len()).sum();
        let _waiting = rescoring.wait_in_line(tokens, self.0.queue_tokens_max)?;
        let mut placed: Vec<(usize, Sequence)> = sequences.into_iter().enumerate().collect();
        placed.sort_by_key(|(_, sequence)| std::cmp::Reverse(sequence.ids.len()));
        let (order, sequences): (Vec<usize>, Vec<Sequence>) = placed.into_iter().unzip();
        let (batches, replies) = cut(engine, sequences);
        let made = batches.into_iter().zip(replies).map(|(mut batch, reply)| async move {
            batch.queued = Some(metrics.queued(Lane::Interactive.name(), batch.sequences.len()));
            let place = rescoring.places.clone().acquire_owned().await;
            batch.room = Some(place.map_err(|_| InferenceError::Stopping)?);
            interactive.push(vec![batch], InferenceError::Stopping, |_| Ok(()))?;
            reply.await.map_err(|_| self.0.why_no_reply())
        });
        let made: Vec<Embedded> =
            futures_util::stream::iter(made).buffered(rescoring.at_once).try_collect().await?;
        let mut rows = vec![Vec::new(); order.len()];
        for (place, row) in order.into_iter().zip(made.into_iter().flat_map(|part| part.embeddings)) {
            rows[place] = row;
        }
        Ok(rows)
    }

    /// Whether the cache has the embedding of `input`, which must be of this model.
    pub fn has_cached(&self, model: &LoadedModel, input: &Input) -> bool {
        self.0.cache.has(&input.key(&model.own_fingerprint()))
    }

    /// What requests for embeddings may take of the memory.
    pub fn memory(&self) -> &Memory {
        &self.0.memory
    }

    /// Whether the interactive lane refuses most of what comes.
    pub fn is_overloaded(&self) -> bool {
        self.0.admission.is_overrun()
    }

    /// Tokens that wait in the interactive lane.
    pub fn queued_tokens(&self) -> usize {
        self.0.interactive.load().waiting
    }

    /// Bytes that the cached embeddings take.
    pub fn cache_bytes(&self) -> usize {
        self.0.cache.bytes()
    }

    /// Ends the threads after the micro-batch that each of them works on. What still waits hears
    /// [`InferenceError::Stopping`].
    pub fn stop(&self) {
        self.0.bulk_room.close();
        self.0.rescoring.places.close();
        self.0.interactive.stop();
        self.0.bulk.stop();
    }
}

impl Parts {
    fn why_no_reply(&self) -> InferenceError {
        if self.bulk_room.is_closed() { InferenceError::Stopping } else { InferenceError::Failed }
    }
}

/// Whether the runtime has other threads that take over what this one would do while it computes.
fn may_block() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Who takes turns in the interactive lane.
struct Rescoring {
    /// Micro-batches at one instant.
    places: Arc<Semaphore>,
    at_once: usize,
    /// Tokens of all who wait for their turns to be over.
    waiting: AtomicUsize,
}

impl Rescoring {
    fn of(at_once: usize) -> Rescoring {
        Rescoring { places: Arc::new(Semaphore::new(at_once)), at_once, waiting: AtomicUsize::new(0) }
    }

    /// Counts tokens that wait, up to a limit. Where nobody waits, any number may come.
    fn wait_in_line(&self, tokens: usize, limit: usize) -> Result<Waiting<'_>, InferenceError> {
        let queued = self.waiting.fetch_add(tokens, Ordering::Relaxed);
        let waiting = Waiting { rescoring: self, tokens };
        if queued > 0 && queued + tokens > limit {
            return Err(InferenceError::TooMany { queued, limit });
        }
        Ok(waiting)
    }
}

/// Tokens that wait for their turns, until it is dropped.
struct Waiting<'a> {
    rescoring: &'a Rescoring,
    tokens: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.rescoring.waiting.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}

/// The embeddings of one micro-batch, when they come.
type Reply = oneshot::Receiver<Embedded>;

/// Cuts sequences into micro-batches, in order, each with the end of its reply channel.
fn cut(engine: &Engine, sequences: Vec<Sequence>) -> (Vec<MicroBatch>, Vec<Reply>) {
    let (mut batches, mut replies) = (Vec::new(), Vec::new());
    let mut open: Option<MicroBatch> = None;
    for sequence in sequences {
        let tokens = sequence.ids.len();
        let full = open.as_ref().is_some_and(|batch| batch.tokens + tokens > MICRO_BATCH_TOKENS);
        if full {
            batches.extend(open.take());
        }
        let batch = open.get_or_insert_with(|| {
            let (reply, receiver) = oneshot::channel();
            replies.push(receiver);
            MicroBatch {
                engine: engine.clone(),
                sequences: Vec::new(),
                tokens: 0,
                reply,
                room: None,
                queued: None,
            }
        });
        batch.sequences.push(sequence);
        batch.tokens += tokens;
    }
    batches.extend(open);
    (batches, replies)
}
