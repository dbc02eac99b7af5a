//! The threads that embed, and the two lanes before them.
//!
//! A request becomes micro-batches of about [`MICRO_BATCH_TOKENS`] tokens. Each thread takes the next micro-batch of the
//! interactive lane, together with others that wait there, and, when there is none, of the bulk lane; so a query waits
//! for at most one micro-batch of bulk work. Micro-batches whose caller has left are dropped unopened. Both lanes are bounded in tokens: the interactive
//! one refuses, the bulk one lets its callers wait.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use weir_encoder::{Model, Scratch};

use super::input::Input;
use super::models::{Embedder, LoadedModel};

/// Tokens of one micro-batch; a single longer text is a micro-batch of its own.
const MICRO_BATCH_TOKENS: usize = 128;

/// Which work goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Queries: somebody waits.
    Interactive,
    /// Documents.
    Bulk,
}

/// Why texts were not embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InferenceError {
    /// The lane holds as many tokens as it may.
    #[error("{queued} tokens wait to be embedded; the limit `inference.queue_tokens_max` is {limit}")]
    Overloaded {
        /// Tokens that wait.
        queued: usize,
        /// The limit.
        limit: usize,
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
pub struct Scheduler {
    shared: Arc<Shared>,
    bulk_room: Arc<Semaphore>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

struct Shared {
    lanes: Mutex<Lanes>,
    work_came: Condvar,
    queue_tokens_max: usize,
    threads: usize,
}

#[derive(Default)]
struct Lanes {
    interactive: VecDeque<MicroBatch>,
    bulk: VecDeque<MicroBatch>,
    interactive_tokens: usize,
    is_stopping: bool,
}

struct MicroBatch {
    model: Arc<Model>,
    sequences: Vec<Vec<u32>>,
    tokens: usize,
    reply: oneshot::Sender<Vec<Vec<f32>>>,
    /// The place in the bulk lane that this micro-batch holds until it is done.
    room: Option<OwnedSemaphorePermit>,
}

impl Scheduler {
    /// Starts `threads` threads (all cores when 0); each lane holds at most `queue_tokens_max` tokens.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(threads: usize, queue_tokens_max: usize) -> std::io::Result<Scheduler> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = if threads == 0 { cores } else { threads };
        let shared = Arc::new(Shared {
            lanes: Mutex::default(),
            work_came: Condvar::new(),
            queue_tokens_max,
            threads: count,
        });
        let start = |number: usize| {
            let shared = shared.clone();
            std::thread::Builder::new().name(format!("embed-{number}")).spawn(move || work(&shared))
        };
        let threads = (0..count).map(start).collect::<std::io::Result<Vec<_>>>()?;
        let bulk_room = Arc::new(Semaphore::new(queue_tokens_max.min(Semaphore::MAX_PERMITS)));
        Ok(Scheduler { shared, bulk_room, threads: Arc::new(Mutex::new(threads)) })
    }

    /// The embeddings of `inputs`, in order. They must be of this model.
    ///
    /// # Errors
    /// [`InferenceError`]; in the bulk lane never `Overloaded`.
    pub async fn embed(
        &self,
        model: &LoadedModel,
        inputs: Vec<Input>,
        lane: Lane,
    ) -> Result<Vec<Vec<f32>>, InferenceError> {
        match &model.embedder {
            Embedder::Pseudo(pseudo) => Ok(inputs.iter().map(|input| pseudo.embed(input.text())).collect()),
            Embedder::Local(model) => {
                let sequences = inputs.into_iter().map(Input::into_ids).collect();
                self.embed_sequences(model, sequences, lane).await
            }
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
            Lane::Interactive => self.shared.offer(batches)?,
            Lane::Bulk => {
                for mut batch in batches {
                    let tokens = batch.tokens.min(self.shared.queue_tokens_max);
                    let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
                    let room = self.bulk_room.clone().acquire_many_owned(tokens).await;
                    batch.room = Some(room.map_err(|_| InferenceError::Stopping)?);
                    self.shared.push_bulk(batch)?;
                }
            }
        }
        let mut embeddings = Vec::new();
        for reply in replies {
            embeddings.extend(reply.await.map_err(|_| InferenceError::Failed)?);
        }
        Ok(embeddings)
    }

    /// Tokens that wait in the interactive lane.
    pub fn queued_tokens(&self) -> usize {
        self.shared.lock().interactive_tokens
    }

    /// Ends the threads after the micro-batch that each of them works on. What still waits hears
    /// [`InferenceError::Stopping`].
    pub fn stop(&self) {
        {
            let mut lanes = self.shared.lock();
            lanes.is_stopping = true;
            lanes.interactive.clear();
            lanes.bulk.clear();
        }
        self.bulk_room.close();
        self.shared.work_came.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("an embedding thread ended by a panic");
            }
        }
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, batches: Vec<MicroBatch>) -> Result<(), InferenceError> {
        let tokens: usize = batches.iter().map(|batch| batch.tokens).sum();
        let count = batches.len();
        let mut lanes = self.lock();
        if lanes.is_stopping {
            return Err(InferenceError::Stopping);
        }
        let (queued, limit) = (lanes.interactive_tokens, self.queue_tokens_max);
        if queued > 0 && queued + tokens > limit {
            return Err(InferenceError::Overloaded { queued, limit });
        }
        lanes.interactive_tokens += tokens;
        lanes.interactive.extend(batches);
        drop(lanes);
        for _ in 0..count {
            self.work_came.notify_one();
        }
        Ok(())
    }

    fn push_bulk(&self, batch: MicroBatch) -> Result<(), InferenceError> {
        let mut lanes = self.lock();
        if lanes.is_stopping {
            return Err(InferenceError::Stopping);
        }
        lanes.bulk.push_back(batch);
        drop(lanes);
        self.work_came.notify_one();
        Ok(())
    }

    /// The next micro-batches, all of one model and all with callers who still wait; `None` when the threads shall end.
    ///
    /// Queries that wait together are computed together, a fair share of them by each thread: they then share the reading
    /// of the weights, which is most of a short query's time.
    fn next(&self) -> Option<Vec<MicroBatch>> {
        let mut lanes = self.lock();
        loop {
            if lanes.is_stopping {
                return None;
            }
            let share = lanes.interactive.len().div_ceil(self.threads);
            let mut batches: Vec<MicroBatch> = Vec::new();
            let mut tokens = 0;
            while let Some(batch) = lanes.interactive.pop_front() {
                let fits = batches.first().is_none_or(|first| {
                    Arc::ptr_eq(&first.model, &batch.model) && tokens + batch.tokens <= MICRO_BATCH_TOKENS
                });
                if batches.len() >= share || !fits {
                    lanes.interactive.push_front(batch);
                    break;
                }
                lanes.interactive_tokens -= batch.tokens;
                if !batch.reply.is_closed() {
                    tokens += batch.tokens;
                    batches.push(batch);
                }
            }
            while batches.is_empty() {
                let Some(batch) = lanes.bulk.pop_front() else { break };
                if !batch.reply.is_closed() {
                    batches.push(batch);
                }
            }
            if !batches.is_empty() {
                return Some(batches);
            }
            lanes = self.work_came.wait(lanes).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What each thread does.
fn work(shared: &Shared) {
    let mut scratch = Scratch::new();
    while let Some(batches) = shared.next() {
        let run = || embed(&batches, &mut scratch);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(embeddings) => {
                let mut embeddings = embeddings.into_iter();
                for batch in batches {
                    // a caller who has left is no concern of ours
                    drop(batch.reply.send(embeddings.by_ref().take(batch.sequences.len()).collect()));
                }
            }
            Err(_) => {
                tracing::error!("a micro-batch panicked; its callers hear `internal`");
                scratch = Scratch::new();
            }
        }
    }
}

/// The embeddings of all sequences of all micro-batches, in order. They are of one model.
fn embed(batches: &[MicroBatch], scratch: &mut Scratch) -> Vec<Vec<f32>> {
    let Some(first) = batches.first() else { return Vec::new() };
    let sequences: Vec<&[u32]> =
        batches.iter().flat_map(|batch| &batch.sequences).map(Vec::as_slice).collect();
    let dimension = first.model.info().dimension;
    let mut out = vec![0.0; sequences.len() * dimension];
    first.model.embed(&sequences, scratch, &mut out);
    out.chunks_exact(dimension).map(<[f32]>::to_vec).collect()
}
