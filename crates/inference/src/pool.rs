//! A queue of micro-batches and the threads that empty it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::vec;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::block_in_place;
use weir_encoder::{Model, ParallelPass, ParallelScratch, Scratch};
use weir_onnx::{OnnxError, OnnxModel};

use super::scheduler::{Embedded, Lane, MICRO_BATCH_TOKENS};
use super::standing::Standing;
use weir_telemetry::metrics::{Metrics, Queued};

/// A text of up to so many tokens is worked on by every thread that has nothing else to do.
const SPLIT_TOKENS_MAX: usize = 32;
/// What one thread computes in this time is not split: to wake the others and to wait for them takes as long.
const SHORT: Duration = Duration::from_micros(500);
/// How much of the rate the newest micro-batch decides.
const RATE_NEWEST: f64 = 0.1;

/// What is computed of token ids on the threads of a pool, and by what: a row of floats for each sequence.
#[derive(Clone)]
pub(super) enum Engine {
    /// Embeddings, by our encoder, which takes so long for a token of a short text on one thread.
    Local(Arc<Model>, Duration),
    /// Embeddings, by ONNX Runtime, which brings threads of its own.
    Onnx(Arc<OnnxModel>),
    /// The logits of pairs, by our encoder.
    Pairs(Arc<Model>),
    /// Embeddings of every token, one behind the other, by our encoder.
    Tokens(Arc<Model>),
    /// MaxSim against a query with these token embeddings, by our encoder.
    MaxSim(Arc<Model>, Arc<[f32]>),
}

/// Token ids, and where those of a second text begin; behind the last where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) ids: Vec<u32>,
    pub(super) second: usize,
}

impl From<Vec<u32>> for Sequence {
    fn from(ids: Vec<u32>) -> Sequence {
        Sequence { second: ids.len(), ids }
    }
}

impl Engine {
    fn is_same(&self, other: &Engine) -> bool {
        match (self, other) {
            (Engine::Local(a, _), Engine::Local(b, _))
            | (Engine::Pairs(a), Engine::Pairs(b))
            | (Engine::Tokens(a), Engine::Tokens(b)) => Arc::ptr_eq(a, b),
            (Engine::MaxSim(a, to), Engine::MaxSim(b, and)) => Arc::ptr_eq(a, b) && Arc::ptr_eq(to, and),
            (Engine::Onnx(a), Engine::Onnx(b)) => Arc::ptr_eq(a, b),
            (
                Engine::Local(..)
                | Engine::Onnx(_)
                | Engine::Pairs(_)
                | Engine::Tokens(_)
                | Engine::MaxSim(..),
                _,
            ) => false,
        }
    }

    /// A row for each sequence.
    fn compute(
        &self,
        sequences: &[&Sequence],
        lane: Lane,
        scratch: &mut Scratch,
    ) -> Result<Vec<Vec<f32>>, OnnxError> {
        let ids: Vec<&[u32]> = sequences.iter().map(|sequence| sequence.ids.as_slice()).collect();
        let (out, width) = match self {
            Engine::Local(model, _) => {
                let width = model.info().dimension;
                let mut out = vec![0.0; ids.len() * width];
                model.embed(&ids, scratch, &mut out);
                (out, width)
            }
            Engine::Onnx(model) => {
                let lane = match lane {
                    Lane::Interactive => weir_onnx::Lane::Interactive,
                    Lane::Bulk => weir_onnx::Lane::Bulk,
                };
                (model.embed(&ids, lane)?, model.external_model().dimension())
            }
            Engine::Pairs(model) => {
                let width = model.info().labels.len();
                let mut out = vec![0.0; ids.len() * width];
                let second: Vec<usize> = sequences.iter().map(|sequence| sequence.second).collect();
                model.classify(&ids, &second, scratch, &mut out);
                (out, width)
            }
            Engine::Tokens(model) => return Ok(token_rows(model, &ids, scratch)),
            Engine::MaxSim(model, tokens) => {
                let mut out = vec![0.0; ids.len()];
                model.max_sim(tokens, &ids, scratch, &mut out);
                (out, 1)
            }
        };
        Ok(out.chunks_exact(width).map(<[f32]>::to_vec).collect())
    }
}

/// For each sequence the embeddings of its tokens.
fn token_rows(model: &Model, sequences: &[&[u32]], scratch: &mut Scratch) -> Vec<Vec<f32>> {
    let width = model.info().dimension;
    let count: usize = sequences.iter().map(|ids| ids.len()).sum();
    let (mut pooled, mut tokens) = (vec![0.0; sequences.len() * width], vec![0.0; count * width]);
    model.embed_tokens(sequences, scratch, &mut pooled, &mut tokens);
    let mut rest = tokens.as_slice();
    let row = |ids: &&[u32]| {
        let (row, behind) = rest.split_at(ids.len() * width);
        rest = behind;
        row.to_vec()
    };
    sequences.iter().map(row).collect()
}

/// Sequences that are computed together, and where their embeddings go.
pub(super) struct MicroBatch {
    pub(super) engine: Engine,
    pub(super) sequences: Vec<Sequence>,
    pub(super) tokens: usize,
    pub(super) reply: oneshot::Sender<Embedded>,
    /// The place among bulk work, or among those who take turns, that this micro-batch holds until it is done.
    pub(super) room: Option<OwnedSemaphorePermit>,
    /// Counts it as waiting.
    pub(super) queued: Option<Queued>,
}

impl MicroBatch {
    /// Tokens that others may have to wait for. What takes turns leaves a thread to others, so they don't wait for it.
    fn weight(&self) -> usize {
        match &self.engine {
            Engine::Local(..) | Engine::Onnx(_) => self.tokens,
            Engine::Pairs(_) | Engine::Tokens(_) | Engine::MaxSim(..) => 0,
        }
    }

    /// Whether one thread computes it about as soon as several.
    fn is_short(&self) -> bool {
        matches!(self.engine, Engine::Local(_, token_time) if token_time * self.tokens as u32 <= SHORT)
    }

    /// Whether several threads compute it sooner than one, if its model can be shared.
    fn gains_by_split(&self) -> bool {
        matches!(self.engine, Engine::Local(..)) && self.tokens <= SPLIT_TOKENS_MAX && !self.is_short()
    }

    /// A pass over it that so many threads can share; `None` when it is not of our encoder, or of a model that can't be shared.
    fn split(&self, threads: usize) -> Option<Arc<ParallelPass>> {
        let Engine::Local(model, _) = &self.engine else { return None };
        let ids = self.sequences.iter().map(|sequence| sequence.ids.clone()).collect();
        ParallelPass::new(model.clone(), ids, threads).map(Arc::new)
    }

    /// Ends the waiting; says how long it was.
    fn begin(&mut self) -> Duration {
        self.queued.take().map_or(Duration::ZERO, Queued::ends)
    }
}

/// What a pool is for.
pub(super) struct Settings {
    /// The threads' name.
    pub(super) name: &'static str,
    pub(super) threads: usize,
    pub(super) standing: Standing,
    /// Whether threads without work help with a short text that another one works on.
    pub(super) splits: bool,
    pub(super) lane: Lane,
    /// Tokens a second of one thread, about, as long as it has computed nothing.
    pub(super) rate_at_start: f64,
    pub(super) metrics: Metrics,
}

/// The work of a queue at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Tokens that wait.
    pub(super) waiting: usize,
    /// When tokens that came now could be begun with.
    pub(super) wait: Duration,
    /// What a full micro-batch takes.
    pub(super) at_a_time: Duration,
}

/// The queue and its threads.
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    settings: Settings,
    queue: Mutex<Queue>,
    work_came: Condvar,
}

struct Queue {
    waiting: VecDeque<MicroBatch>,
    /// Tokens that wait, and that are being computed.
    waiting_tokens: usize,
    running_tokens: usize,
    /// Threads without work.
    idle: usize,
    /// Micro-batches that threads of callers compute.
    here: usize,
    /// A pass that they may help with.
    split: Option<Arc<ParallelPass>>,
    /// Tokens a second of one thread.
    rate: f64,
    is_stopping: bool,
}

/// What a thread does next.
enum Work {
    Compute(Vec<MicroBatch>),
    /// The same, and others may help.
    Lead(MicroBatch),
    Help(Arc<ParallelPass>),
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(settings: Settings) -> std::io::Result<Pool> {
        let queue = Queue {
            waiting: VecDeque::new(),
            waiting_tokens: 0,
            running_tokens: 0,
            idle: 0,
            here: 0,
            split: None,
            rate: settings.rate_at_start,
            is_stopping: false,
        };
        let (name, count) = (settings.name, settings.threads);
        let shared = Arc::new(Shared { settings, queue: Mutex::new(queue), work_came: Condvar::new() });
        let start = |number: usize| {
            let shared = shared.clone();
            let name = format!("{name}-{number}");
            std::thread::Builder::new().name(name).spawn(move || shared.work(number))
        };
        let threads = (0..count).map(start).collect::<std::io::Result<_>>()?;
        Ok(Pool { shared, threads: Mutex::new(threads) })
    }

    /// Puts micro-batches into the queue when `admit` agrees to what waits there already.
    ///
    /// # Errors
    /// What `admit` says; `stopping` when the pool is being stopped.
    pub(super) fn push<E>(
        &self,
        batches: Vec<MicroBatch>,
        stopping: E,
        admit: impl FnOnce(Load) -> Result<(), E>,
    ) -> Result<(), E> {
        let count = batches.len();
        let mut queue = self.shared.lock();
        if queue.is_stopping {
            return Err(stopping);
        }
        admit(queue.load(self.shared.settings.threads))?;
        queue.waiting_tokens += batches.iter().map(MicroBatch::weight).sum::<usize>();
        queue.waiting.extend(batches);
        drop(queue);
        for _ in 0..count.min(self.shared.settings.threads) {
            self.shared.work_came.notify_one();
        }
        Ok(())
    }

    /// Computes a micro-batch on the calling thread when none of the pool's has work: to wake one and be woken by it takes long beside
    /// a short text. They help where that pays; the runtime is told when the calling thread is busy for longer than a moment.
    pub(super) fn compute_here(&self, batch: &mut MicroBatch) -> Option<Embedded> {
        thread_local! {
            static SCRATCH: RefCell<(Scratch, ParallelScratch)> = RefCell::default();
        }
        let Shared { settings, .. } = &*self.shared;
        let gains_by_split = settings.threads > 1 && batch.gains_by_split();
        if !settings.splits || !(batch.is_short() || gains_by_split) {
            return None;
        }
        let mut queue = self.shared.lock();
        if !queue.is_idle(settings.threads) || queue.here >= settings.threads.div_ceil(2) {
            return None;
        }
        queue.running_tokens += batch.weight();
        queue.here += 1;
        drop(queue);
        let running = Running::new(&self.shared, std::slice::from_ref(batch)).here();
        SCRATCH.with_borrow_mut(|(scratch, split_scratch)| {
            if batch.is_short() {
                let waited = batch.begin();
                let embeddings = self.shared.embed(std::slice::from_ref(batch), running, scratch)?.collect();
                return Some(Embedded { embeddings, waited });
            }
            let split = batch.split(settings.threads)?;
            Some(block_in_place(|| self.shared.lead_split(split, batch, running, split_scratch)))
        })
    }

    pub(super) fn load(&self) -> Load {
        self.shared.lock().load(self.shared.settings.threads)
    }

    /// Ends the threads after the work that each of them has begun. What still waits is dropped.
    pub(super) fn stop(&self) {
        let mut queue = self.shared.lock();
        queue.is_stopping = true;
        queue.waiting.clear();
        drop(queue);
        self.shared.work_came.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("an embedding thread ended by a panic");
            }
        }
    }
}

impl Queue {
    fn is_idle(&self, threads: usize) -> bool {
        self.idle == threads && self.waiting.is_empty() && self.split.is_none() && !self.is_stopping
    }

    fn load(&self, threads: usize) -> Load {
        let ahead = (self.waiting_tokens + self.running_tokens) as f64;
        let wait = Duration::from_secs_f64(ahead / (self.rate * threads as f64));
        Load {
            waiting: self.waiting_tokens,
            wait: if self.waiting_tokens == 0 { Duration::ZERO } else { wait },
            at_a_time: Duration::from_secs_f64(MICRO_BATCH_TOKENS as f64 / self.rate),
        }
    }

    /// The next micro-batches, all of one model and all with callers who still wait.
    ///
    /// Those that wait together are computed together, a fair share of them by each thread: they then share the reading of
    /// the weights, which is most of a short text's time.
    fn take(&mut self, threads: usize) -> Vec<MicroBatch> {
        let share = self.waiting.len().div_ceil(threads);
        let mut batches: Vec<MicroBatch> = Vec::new();
        let mut tokens = 0;
        while batches.len() < share {
            let Some(batch) = self.waiting.front() else { break };
            let fits = batches.first().is_none_or(|first| {
                first.engine.is_same(&batch.engine) && tokens + batch.tokens <= MICRO_BATCH_TOKENS
            });
            let Some(batch) = self.waiting.pop_front_if(|_| fits) else { break };
            self.waiting_tokens -= batch.weight();
            if !batch.reply.is_closed() {
                tokens += batch.tokens;
                self.running_tokens += batch.weight();
                batches.push(batch);
            }
        }
        batches
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do next; `None` when the threads shall end. A pass that the thread has `left` is none of it.
    fn next(&self, left: &Weak<ParallelPass>) -> Option<Work> {
        let Settings { threads, splits, .. } = &self.settings;
        let (threads, splits) = (*threads, *splits);
        let mut queue = self.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            let mut batches = queue.take(threads);
            let is_alone = queue.waiting.is_empty() && queue.split.is_none() && batches.len() == 1;
            if let Some(batch) =
                batches.pop_if(|batch| splits && is_alone && queue.idle > 0 && batch.gains_by_split())
            {
                return Some(Work::Lead(batch));
            }
            if !batches.is_empty() {
                return Some(Work::Compute(batches));
            }
            if !queue.waiting.is_empty() {
                continue; // the callers of a whole share have left
            }
            if let Some(split) = &queue.split
                && !std::ptr::eq(Arc::as_ptr(split), left.as_ptr())
            {
                return Some(Work::Help(split.clone()));
            }
            queue.idle += 1;
            queue = self.work_came.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// What each thread does.
    fn work(&self, number: usize) {
        self.settings.standing.take(number);
        let (mut scratch, mut split_scratch) = (giving_way(), ParallelScratch::new());
        let mut left = Weak::new();
        while let Some(work) = self.next(&left) {
            left = match &work {
                Work::Help(split) => Arc::downgrade(split),
                Work::Compute(_) | Work::Lead(_) => Weak::new(),
            };
            let run = AssertUnwindSafe(|| match work {
                Work::Compute(batches) => self.compute(batches, &mut scratch),
                Work::Lead(batch) => self.lead(batch, &mut scratch, &mut split_scratch),
                Work::Help(split) => split.assist(&mut split_scratch),
            });
            if catch_unwind(run).is_err() {
                tracing::error!("a micro-batch panicked; its callers hear `internal`");
                (scratch, split_scratch) = (giving_way(), ParallelScratch::new());
            }
        }
    }

    fn compute(&self, mut batches: Vec<MicroBatch>, scratch: &mut Scratch) {
        let running = Running::new(self, &batches);
        let waited: Vec<Duration> = batches.iter_mut().map(MicroBatch::begin).collect();
        let Some(mut embeddings) = self.embed(&batches, running, scratch) else { return };
        for (batch, waited) in batches.into_iter().zip(waited) {
            let embeddings = embeddings.by_ref().take(batch.sequences.len()).collect();
            // a caller who has left is no concern of ours
            drop(batch.reply.send(Embedded { embeddings, waited }));
        }
    }

    /// The rows of micro-batches of one engine, one behind the other; `None` when it fails, and then the log has the reason.
    fn embed(
        &self,
        batches: &[MicroBatch],
        running: Running<'_>,
        scratch: &mut Scratch,
    ) -> Option<vec::IntoIter<Vec<f32>>> {
        let sequences: Vec<&Sequence> = batches.iter().flat_map(|batch| &batch.sequences).collect();
        self.settings.metrics.batch(sequences.len(), running.tokens);
        let started = Instant::now();
        let made = batches.first()?.engine.compute(&sequences, self.settings.lane, scratch);
        running.ends_after(started.elapsed());
        match made {
            Ok(embeddings) => Some(embeddings.into_iter()),
            Err(error) => {
                tracing::error!(%error, "a micro-batch failed; its callers hear `internal`");
                None
            }
        }
    }

    /// Computes one micro-batch with the help of the threads that have no work.
    fn lead(&self, mut batch: MicroBatch, scratch: &mut Scratch, split_scratch: &mut ParallelScratch) {
        let Some(split) = batch.split(self.settings.threads) else {
            return self.compute(vec![batch], scratch);
        };
        let running = Running::new(self, std::slice::from_ref(&batch));
        let made = self.lead_split(split, &mut batch, running, split_scratch);
        drop(batch.reply.send(made));
    }

    /// Leads a pass that threads without work can see.
    fn lead_split(
        &self,
        split: Arc<ParallelPass>,
        batch: &mut MicroBatch,
        running: Running<'_>,
        scratch: &mut ParallelScratch,
    ) -> Embedded {
        self.lock().split = Some(split.clone());
        self.work_came.notify_all();
        let waited = batch.begin();
        self.settings.metrics.batch(batch.sequences.len(), batch.tokens);
        let out = split.run(scratch);
        drop(running);
        let width = out.len() / batch.sequences.len().max(1);
        Embedded { embeddings: out.chunks_exact(width.max(1)).map(<[f32]>::to_vec).collect(), waited }
    }
}

/// Working memory of a thread that offers its core to others at every layer, so that who answers requests, or refuses them, need not wait
/// until the system takes it away.
fn giving_way() -> Scratch {
    Scratch::new().before_each_layer(std::thread::yield_now)
}

/// Tokens that are being computed, until it is dropped.
struct Running<'a> {
    shared: &'a Shared,
    tokens: usize,
    weight: usize,
    rate: Option<f64>,
    /// By a thread that isn't the pool's.
    is_here: bool,
}

impl<'a> Running<'a> {
    fn new(shared: &'a Shared, batches: &[MicroBatch]) -> Running<'a> {
        let tokens = batches.iter().map(|batch| batch.tokens).sum();
        let weight = batches.iter().map(MicroBatch::weight).sum();
        Running { shared, tokens, weight, rate: None, is_here: false }
    }

    fn here(mut self) -> Running<'a> {
        self.is_here = true;
        self
    }

    fn ends_after(mut self, time: Duration) {
        self.rate = Some(self.tokens as f64 / time.as_secs_f64().max(1e-6));
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.running_tokens -= self.weight;
        queue.here -= usize::from(self.is_here);
        match self.rate {
            Some(rate) => queue.rate += RATE_NEWEST * (rate - queue.rate),
            None => queue.split = None, // led, or ended by a panic
        }
    }
}

#[cfg(test)]
mod tests;
