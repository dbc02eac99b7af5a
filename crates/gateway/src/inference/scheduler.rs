//! The threads that embed, and the two lanes before them.
//!
//! A request becomes micro-batches of about [`MICRO_BATCH_TOKENS`] tokens. Each lane has a queue and threads of its own, as
//! many as cores. Those of the bulk lane stand back: where a thread of the interactive lane, or one that answers a request,
//! wants a core, the system takes it from them at once. So a query never waits for bulk work, and bulk work uses all
//! that is left. Micro-batches whose caller has left are dropped unopened. Both lanes are bounded: the interactive one, in
//! tokens and in time, refuses; the bulk one lets its callers wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use weir_encoder::Model;

use super::cache::{Cache, Key};
use super::input::Input;
use super::models::{Embedder, LoadedModel};
use super::pool::{Load, MicroBatch, Pool, Settings, Standing};
use crate::config::table::Inference;
use crate::metrics::Metrics;

/// Tokens of one micro-batch; a single longer text is a micro-batch of its own.
pub(super) const MICRO_BATCH_TOKENS: usize = 128;

/// Which work goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Queries: somebody waits.
    Interactive,
    /// Documents.
    Bulk,
}

/// Whether embeddings that were made before may be given again, and new ones kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// They may.
    On,
    /// Everything is made anew, and nothing kept.
    Off,
}

/// Why texts were not embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
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
        "a text would wait {} ms to be embedded; the limit `inference.queue_wait_ms_max` is {}",
        wait.as_millis(), limit.as_millis()
    )]
    TooLong {
        /// How long a text would wait.
        wait: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The scheduler is being stopped.
    #[error("the gateway is stopping")]
    Stopping,
    /// A micro-batch panicked.
    #[error("embedding failed; the log has the reason")]
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
    queue_tokens_max: usize,
    queue_wait_max: Duration,
}

impl Scheduler {
    /// Starts the threads of both lanes.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(settings: &Inference, metrics: Metrics) -> std::io::Result<Scheduler> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if settings.threads == 0 { cores } else { settings.threads };
        let queue_tokens_max = settings.queue_tokens_max;
        let interactive =
            Pool::start(Settings { name: "embed", threads, standing: Standing::Soon, splits: true })?;
        let bulk =
            Pool::start(Settings { name: "bulk", threads, standing: Standing::WhenIdle, splits: false })?;
        let bulk_room = Arc::new(Semaphore::new(queue_tokens_max.min(Semaphore::MAX_PERMITS)));
        let queue_wait_max = Duration::from_millis(settings.queue_wait_ms_max);
        let cache = Cache::new(settings.cache_bytes_max);
        Ok(Scheduler(Arc::new(Parts {
            interactive,
            bulk,
            bulk_room,
            cache,
            metrics,
            queue_tokens_max,
            queue_wait_max,
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
        lane: Lane,
        caching: Caching,
    ) -> Result<Vec<Vec<f32>>, InferenceError> {
        match &model.embedder {
            Embedder::Pseudo(pseudo) => Ok(inputs.iter().map(|input| pseudo.embed(input.text())).collect()),
            Embedder::Local(model) => {
                let sequences = inputs.into_iter().map(Input::into_ids).collect();
                if caching == Caching::Off || !self.0.cache.is_on() {
                    return self.embed_sequences(model, sequences, lane).await;
                }
                self.embed_unknown(model, sequences, lane).await
            }
        }
    }

    /// Embeds those sequences that the cache doesn't know.
    async fn embed_unknown(
        &self,
        model: &Arc<Model>,
        sequences: Vec<Vec<u32>>,
        lane: Lane,
    ) -> Result<Vec<Vec<f32>>, InferenceError> {
        let Parts { cache, metrics, .. } = &*self.0;
        let keys: Vec<Key> = sequences.iter().map(|ids| Key::new(&model.info().fingerprint, ids)).collect();
        let known: Vec<Option<Vec<f32>>> = keys.iter().map(|key| cache.get(key)).collect();
        let unknown: Vec<Vec<u32>> = sequences
            .into_iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(ids, _)| ids)
            .collect();
        metrics.embed_cache(known.len() - unknown.len(), unknown.len());
        let mut made = match unknown.is_empty() {
            true => Vec::new(),
            false => self.embed_sequences(model, unknown, lane).await?,
        }
        .into_iter();
        let mut embeddings = Vec::with_capacity(keys.len());
        for (key, known) in keys.into_iter().zip(known) {
            let Some(embedding) = known.or_else(|| made.next().inspect(|made| self.keep(lane, key, made)))
            else {
                return Err(InferenceError::Failed);
            };
            embeddings.push(embedding);
        }
        Ok(embeddings)
    }

    fn keep(&self, lane: Lane, key: Key, embedding: &[f32]) {
        if lane == Lane::Interactive {
            self.0.cache.put(key, embedding);
        }
    }

    async fn embed_sequences(
        &self,
        model: &Arc<Model>,
        sequences: Vec<Vec<u32>>,
        lane: Lane,
    ) -> Result<Vec<Vec<f32>>, InferenceError> {
        let (batches, replies) = cut(model, sequences);
        match lane {
            Lane::Interactive => {
                let tokens = batches.iter().map(|batch| batch.tokens).sum();
                let admit = |load| self.0.admit(load, tokens);
                self.0.interactive.push(batches, InferenceError::Stopping, admit)?;
            }
            Lane::Bulk => {
                for mut batch in batches {
                    let tokens = batch.tokens.min(self.0.queue_tokens_max);
                    let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
                    let room = self.0.bulk_room.clone().acquire_many_owned(tokens).await;
                    batch.room = Some(room.map_err(|_| InferenceError::Stopping)?);
                    self.0.bulk.push(vec![batch], InferenceError::Stopping, |_| Ok(()))?;
                }
            }
        }
        let mut embeddings = Vec::new();
        for reply in replies {
            embeddings.extend(reply.await.map_err(|_| self.0.why_no_reply())?);
        }
        Ok(embeddings)
    }

    /// Whether the cache has the embedding of `input`, which must be of this model.
    pub fn knows(&self, model: &LoadedModel, input: &Input) -> bool {
        match &model.embedder {
            Embedder::Pseudo(_) => false,
            Embedder::Local(model) => self.0.cache.has(&Key::new(&model.info().fingerprint, input.ids())),
        }
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
        self.0.interactive.stop();
        self.0.bulk.stop();
    }
}

impl Parts {
    fn why_no_reply(&self) -> InferenceError {
        if self.bulk_room.is_closed() { InferenceError::Stopping } else { InferenceError::Failed }
    }

    /// Whether the interactive lane takes more tokens. An empty queue takes any number.
    fn admit(&self, load: Load, tokens: usize) -> Result<(), InferenceError> {
        let Load { waiting: queued, wait } = load;
        if queued == 0 {
            return Ok(());
        }
        if queued + tokens > self.queue_tokens_max {
            return Err(InferenceError::TooMany { queued, limit: self.queue_tokens_max });
        }
        if wait > self.queue_wait_max {
            return Err(InferenceError::TooLong { wait, limit: self.queue_wait_max });
        }
        Ok(())
    }
}

/// The embeddings of one micro-batch, when they come.
type Reply = oneshot::Receiver<Vec<Vec<f32>>>;

/// Cuts sequences into micro-batches, in order, each with the end of its reply channel.
fn cut(model: &Arc<Model>, sequences: Vec<Vec<u32>>) -> (Vec<MicroBatch>, Vec<Reply>) {
    let (mut batches, mut replies) = (Vec::new(), Vec::new());
    let mut open: Option<MicroBatch> = None;
    for sequence in sequences {
        let tokens = sequence.len();
        let full = open.as_ref().is_some_and(|batch| batch.tokens + tokens > MICRO_BATCH_TOKENS);
        if full {
            batches.extend(open.take());
        }
        let batch = open.get_or_insert_with(|| {
            let (reply, receiver) = oneshot::channel();
            replies.push(receiver);
            MicroBatch { model: model.clone(), sequences: Vec::new(), tokens: 0, reply, room: None }
        });
        batch.sequences.push(sequence);
        batch.tokens += tokens;
    }
    batches.extend(open);
    (batches, replies)
}
