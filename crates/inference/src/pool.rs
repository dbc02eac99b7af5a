//! A queue of micro-batches and the threads that compute them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::block_in_place;
use weir_encoder::{ParallelPass, ParallelScratch, Scratch};

use super::fair_queue::{FairQueue, FlowKey};
use super::request::{Embedded, InferenceError, Lane};
use super::rows::Rows;
use super::task::{ModelTask, Sequence};
use super::thread_priority::ThreadPriority;
use weir_telemetry::metrics::{Metrics, Queued};

mod floor;
mod running;

pub(super) use floor::charge_cpu_time;
use floor::{Computation, FloorAccount};
use running::RunningGuard;
pub(super) use running::thread_cpu_time;

/// Maximum tokens of a micro-batch; a longer text is a micro-batch of its own.
pub(super) const MICRO_BATCH_TOKENS: usize = 128;
/// Tokens of the micro-batches that a thread of the bulk lane computes together: texts of a usual passage are computed a few per cent faster by
/// two or more.
pub(super) const BULK_TOKENS_MAX: usize = 256;
/// A faster micro-batch is computed by the thread of its caller, because waking another one takes a good part of this.
const SHORT_TIME_MAX: Duration = Duration::from_millis(1);
/// A text of at most this many tokens is computed by all idle threads together,
const PARALLEL_TOKENS_MAX: usize = 32;
/// unless one thread is faster than this: what others gain then is lost by waking and joining them.
const PARALLEL_TIME_MIN: Duration = Duration::from_millis(3);

/// Sequences that are computed together, and the channel for their rows.
pub(super) struct MicroBatch {
    pub(super) task: ModelTask,
    pub(super) sequences: Vec<Sequence>,
    pub(super) tokens: usize,
    pub(super) reply: oneshot::Sender<Embedded>,
    /// A permit of second-stage work; released when the micro-batch is computed.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// Counts the micro-batch as waiting.
    pub(super) queued: Option<Queued>,
}

impl MicroBatch {
    /// Tokens that delay other requests: 0 for second-stage work, which leaves one thread free.
    fn delaying_tokens(&self) -> usize {
        match &self.task {
            ModelTask::Embed(..) | ModelTask::EmbedOnnx(_) => self.tokens,
            ModelTask::ScorePairs(_) | ModelTask::EmbedTokens(_) | ModelTask::MaxSim(..) => 0,
        }
    }

    /// The estimated time on one thread, of a text for a local model.
    fn time(&self) -> Option<Duration> {
        match &self.task {
            ModelTask::Embed(_, token_time) => Some(*token_time * self.tokens as u32),
            ModelTask::EmbedOnnx(_)
            | ModelTask::ScorePairs(_)
            | ModelTask::EmbedTokens(_)
            | ModelTask::MaxSim(..) => None,
        }
    }

    /// Whether one thread computes it in less than [`SHORT_TIME_MAX`].
    fn is_short(&self) -> bool {
        self.time().is_some_and(|time| time <= SHORT_TIME_MAX)
    }

    /// Whether several threads would compute it faster than one.
    fn benefits_from_threads(&self) -> bool {
        self.tokens <= PARALLEL_TOKENS_MAX && self.time().is_some_and(|time| time > PARALLEL_TIME_MIN)
    }

    /// A pass for up to `threads` threads; `None` if the task or model does not support it.
    fn parallel_pass(&self, threads: usize) -> Option<Arc<ParallelPass>> {
        let ModelTask::Embed(model, _) = &self.task else { return None };
        let ids = self.sequences.iter().map(|sequence| sequence.ids.clone()).collect();
        ParallelPass::new(model.clone(), ids, threads).map(Arc::new)
    }

    /// Stops counting it as waiting. Returns the time in the queue.
    fn dequeue(&mut self) -> Duration {
        self.queued.take().map_or(Duration::ZERO, Queued::finish)
    }
}

/// The settings of a pool.
pub(super) struct Settings {
    /// Unless it is the bulk lane, a short text is computed by the caller's thread, or by several threads.
    pub(super) lane: Lane,
    pub(super) threads: usize,
    /// The minimum share of the bulk lane, of its threads; 0 for another lane.
    pub(super) share_min: f64,
    /// Threads of normal priority that compute while the lane has less.
    pub(super) floor_threads: usize,
    /// Estimated tokens per second of one thread, until the first micro-batch is measured.
    pub(super) initial_rate: f64,
    /// Whether `initial_rate` is a measurement.
    pub(super) is_calibrated: bool,
    pub(super) metrics: Metrics,
}

impl Settings {
    /// The minimum share of the bulk lane, in cores.
    fn floor_share(&self) -> f64 {
        self.share_min * self.threads as f64
    }
}

/// The state of a queue at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueLoad {
    /// Tokens that are computed before a text of the lane.
    pub(super) queued_tokens: usize,
    /// Estimated wait of a text of the lane that arrives now.
    pub(super) wait: Duration,
    /// Estimated time of a full micro-batch on one thread.
    pub(super) batch_time: Duration,
}

/// A queue and its threads.
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    settings: Settings,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Notifies the threads of [`floor`].
    floor_changed: Condvar,
}

struct Queue {
    /// Micro-batches of queries, which go first.
    queries: Waiting,
    /// Micro-batches of the interactive lane.
    texts: Waiting,
    /// Micro-batches of the bulk lane.
    bulk: FairQueue,
    /// Work of the bulk lane that is being computed.
    begun: Vec<Arc<Computation>>,
    floor: FloorAccount,
    /// [`MicroBatch::delaying_tokens`] of micro-batches that are being computed.
    running_tokens: usize,
    idle_threads: usize,
    /// Micro-batches that callers' threads are computing.
    on_callers: usize,
    /// A running pass that idle threads may assist.
    pass: Option<Arc<ParallelPass>>,
    /// Tokens per second of one thread, a moving average.
    rate: f64,
    /// The same per second of CPU time: what the thread would compute if no other work took its core.
    cpu_rate: f64,
    /// Whether the rates are measurements.
    is_measured: bool,
    is_stopping: bool,
}

/// Micro-batches that wait, in order of arrival.
#[derive(Default)]
struct Waiting {
    batches: VecDeque<MicroBatch>,
    /// Their [`MicroBatch::delaying_tokens`].
    tokens: usize,
}

/// The next work of a thread.
enum Work {
    Compute(Vec<MicroBatch>),
    /// Computes one micro-batch while idle threads may assist.
    ComputeInParallel(MicroBatch),
    Assist(Arc<ParallelPass>),
}

/// Working memory of one thread.
#[derive(Default)]
struct ThreadScratch {
    single: Scratch,
    parallel: ParallelScratch,
}

impl ThreadScratch {
    /// For a pool's thread, which gives way twice in every layer.
    fn of(priority: ThreadPriority) -> ThreadScratch {
        let single = Scratch::new().before_each_sublayer(priority.give_way());
        ThreadScratch { single, parallel: ParallelScratch::new() }
    }

    /// Runs model code; `None` when it panics. `renew` replaces the scratch, which a panic may leave in any state.
    fn catch_panic<T>(
        &mut self,
        renew: impl FnOnce() -> ThreadScratch,
        run: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        catch_unwind(AssertUnwindSafe(|| run(self)))
            .inspect_err(|_| {
                tracing::error!("model code panicked; the requests of its micro-batch fail with `internal`");
                *self = renew();
            })
            .ok()
    }
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub(super) fn start(settings: Settings) -> std::io::Result<Pool> {
        let queue = Queue {
            queries: Waiting::default(),
            texts: Waiting::default(),
            bulk: FairQueue::default(),
            begun: Vec::new(),
            floor: FloorAccount::new(settings.floor_share()),
            running_tokens: 0,
            idle_threads: 0,
            on_callers: 0,
            pass: None,
            rate: settings.initial_rate,
            cpu_rate: settings.initial_rate,
            is_measured: settings.is_calibrated,
            is_stopping: false,
        };
        let (name, count, floor_count) = (settings.lane.name(), settings.threads, settings.floor_threads);
        let (changed, floor_changed) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { settings, queue: Mutex::new(queue), changed, floor_changed });
        let start = |name: String, run: fn(&Shared)| {
            let shared = shared.clone();
            std::thread::Builder::new().name(name).spawn(move || run(&shared))
        };
        let usual = (0..count).map(|index| start(format!("{name}-{index}"), Shared::run_thread));
        let floor =
            (0..floor_count).map(|index| start(format!("{name}-floor-{index}"), Shared::run_floor_thread));
        let threads = usual.chain(floor).collect::<std::io::Result<_>>()?;
        Ok(Pool { shared, threads: Mutex::new(threads) })
    }

    /// Queues micro-batches of `lane` if `admit` accepts the load of the queue.
    ///
    /// # Errors
    /// Those of `admit`; [`InferenceError::Stopping`].
    pub(super) fn push(
        &self,
        lane: Lane,
        batches: Vec<MicroBatch>,
        admit: impl FnOnce(QueueLoad) -> Result<(), InferenceError>,
    ) -> Result<(), InferenceError> {
        let count = batches.len();
        let mut queue = self.shared.lock();
        if queue.is_stopping {
            return Err(InferenceError::Stopping);
        }
        admit(queue.load(lane, self.shared.settings.threads))?;
        let waiting = if lane == Lane::Query { &mut queue.queries } else { &mut queue.texts };
        waiting.tokens += batches.iter().map(MicroBatch::delaying_tokens).sum::<usize>();
        waiting.batches.extend(batches);
        drop(queue);
        for _ in 0..count.min(self.shared.settings.threads) {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Queues the micro-batches of one call in the bulk lane.
    ///
    /// # Errors
    /// [`InferenceError::Stopping`].
    pub(super) fn push_bulk(&self, flow: FlowKey, batches: Vec<MicroBatch>) -> Result<(), InferenceError> {
        let count = batches.len();
        let mut queue = self.shared.lock();
        if queue.is_stopping {
            return Err(InferenceError::Stopping);
        }
        queue.bulk.push(flow, batches);
        self.shared.settings.metrics.bulk_flows(queue.bulk.flows());
        drop(queue);
        for _ in 0..count.min(self.shared.settings.threads) {
            self.shared.changed.notify_one();
        }
        self.shared.floor_changed.notify_all();
        Ok(())
    }

    /// Computes a micro-batch on the calling thread while the pool is idle, since waking another thread takes as long as a short text. Idle
    /// threads assist if it [benefits](MicroBatch::benefits_from_threads); the calling thread then blocks.
    ///
    /// `None` if the micro-batch must be queued.
    pub(super) fn compute_on_caller(
        &self,
        batch: &mut MicroBatch,
    ) -> Option<Result<Embedded, InferenceError>> {
        thread_local! {
            static SCRATCH: RefCell<ThreadScratch> = RefCell::default();
        }
        let Shared { settings, .. } = &*self.shared;
        let benefits_from_threads = settings.threads > 1 && batch.benefits_from_threads();
        if settings.lane == Lane::Bulk || !(batch.is_short() || benefits_from_threads) {
            return None;
        }
        let mut queue = self.shared.lock();
        if !queue.is_idle(settings.threads) || queue.on_callers >= settings.threads.div_ceil(2) {
            return None;
        }
        queue.running_tokens += batch.delaying_tokens();
        queue.on_callers += 1;
        drop(queue);
        let running = RunningGuard::new(&self.shared, slice::from_ref(batch), true);
        let compute = |scratch: &mut ThreadScratch| {
            if batch.is_short() {
                let waited = batch.dequeue();
                let sequences: Vec<&Sequence> = batch.sequences.iter().collect();
                let rows = self.shared.compute_rows(&batch.task, &sequences, running, &mut scratch.single);
                return Some(rows.map(|embeddings| Embedded { embeddings, waited }));
            }
            let pass = batch.parallel_pass(settings.threads)?;
            let run = || self.shared.run_pass(pass, batch, running, &mut scratch.parallel);
            Some(Some(block_in_place(run)))
        };
        let computed =
            SCRATCH.with_borrow_mut(|scratch| scratch.catch_panic(ThreadScratch::default, compute));
        let computed = computed.unwrap_or(Some(None))?;
        Some(computed.ok_or(InferenceError::Failed))
    }

    /// The estimated time until the bulk lane has computed what goes before the end of `tokens` that `flow` adds now; `None` before the first
    /// micro-batch is measured.
    pub(super) fn wait_of(&self, flow: FlowKey, tokens: usize) -> Option<Duration> {
        let settings = &self.shared.settings;
        let mut queue = self.shared.lock();
        queue.bulk.drop_cancelled();
        let ahead = queue.bulk.tokens_ahead(flow, tokens) + queue.running_tokens;
        let rate = (queue.rate * settings.threads as f64).max(queue.cpu_rate * settings.floor_share());
        queue.is_measured.then(|| Duration::from_secs_f64(ahead as f64 / rate))
    }

    /// The estimated time of all threads for `tokens`, if no other work took their cores.
    pub(super) fn undisturbed_time_for(&self, tokens: usize) -> Option<Duration> {
        let queue = self.shared.lock();
        let rate = queue.cpu_rate * self.shared.settings.threads as f64;
        queue.is_measured.then(|| Duration::from_secs_f64(tokens as f64 / rate))
    }

    /// Tokens that wait in the query lane and the interactive lane.
    pub(super) fn queued_tokens(&self) -> usize {
        let queue = self.shared.lock();
        queue.queries.tokens + queue.texts.tokens
    }

    /// Stops every thread after its current work. Waiting micro-batches are dropped.
    pub(super) fn stop(&self) {
        let mut queue = self.shared.lock();
        queue.is_stopping = true;
        (queue.queries, queue.texts, queue.bulk) = Default::default();
        drop(queue);
        self.shared.changed.notify_all();
        self.shared.floor_changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("an inference thread ended by a panic");
            }
        }
    }
}

impl Queue {
    fn is_idle(&self, threads: usize) -> bool {
        self.idle_threads == threads && self.is_empty() && self.pass.is_none() && !self.is_stopping
    }

    fn is_empty(&self) -> bool {
        self.queries.batches.is_empty() && self.texts.batches.is_empty() && self.bulk.is_empty()
    }

    /// The load for a text of `lane`: texts do not delay queries.
    fn load(&self, lane: Lane, threads: usize) -> QueueLoad {
        let texts = if lane == Lane::Query { 0 } else { self.texts.tokens };
        let queued_tokens = self.queries.tokens + texts;
        let ahead = (queued_tokens + self.running_tokens) as f64;
        let wait = Duration::from_secs_f64(ahead / (self.rate * threads as f64));
        QueueLoad {
            queued_tokens,
            wait: if queued_tokens == 0 { Duration::ZERO } else { wait },
            batch_time: Duration::from_secs_f64(MICRO_BATCH_TOKENS as f64 / self.rate),
        }
    }

    /// The next micro-batches of one task for a thread of the bulk lane.
    fn take_bulk(&mut self, threads: usize, metrics: &Metrics) -> Vec<MicroBatch> {
        let batches = self.bulk.take(threads);
        metrics.bulk_flows(self.bulk.flows());
        self.running_tokens += batches.iter().map(MicroBatch::delaying_tokens).sum::<usize>();
        batches
    }

    /// The next micro-batches of one task for a thread of the other lanes: its share of the queue, so that the weights, most of a short text's
    /// time, are read once, and at most [`MICRO_BATCH_TOKENS`]. Cancelled micro-batches are dropped.
    fn take(&mut self, threads: usize) -> Vec<MicroBatch> {
        let Queue { queries, texts, running_tokens, .. } = self;
        let waiting = if queries.batches.is_empty() { texts } else { queries };
        let share = waiting.batches.len().div_ceil(threads);
        let mut batches: Vec<MicroBatch> = Vec::new();
        let mut tokens = 0;
        while batches.len() < share {
            let Some(batch) = waiting.batches.front() else { break };
            let fits = batches.first().is_none_or(|first| {
                first.task.is_same(&batch.task) && tokens + batch.tokens <= MICRO_BATCH_TOKENS
            });
            let Some(batch) = waiting.batches.pop_front_if(|_| fits) else { break };
            waiting.tokens -= batch.delaying_tokens();
            if !batch.reply.is_closed() {
                tokens += batch.tokens;
                *running_tokens += batch.delaying_tokens();
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

    /// Waits for work; `None` when the pool stops. Does not return `assisted`, the pass that the thread assisted last.
    fn next_work(&self, assisted: &Weak<ParallelPass>) -> Option<Work> {
        let Settings { threads, lane, .. } = self.settings;
        let mut queue = self.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            let mut batches = match lane {
                Lane::Query | Lane::Interactive => queue.take(threads),
                Lane::Bulk => queue.take_bulk(threads, &self.settings.metrics),
            };
            let is_alone = queue.is_empty() && queue.pass.is_none() && batches.len() == 1;
            let may_assist = lane != Lane::Bulk && is_alone && queue.idle_threads > 0;
            if let Some(batch) = batches.pop_if(|batch| may_assist && batch.benefits_from_threads()) {
                return Some(Work::ComputeInParallel(batch));
            }
            if !batches.is_empty() {
                return Some(Work::Compute(batches));
            }
            if !queue.is_empty() {
                continue; // every micro-batch of the share was cancelled
            }
            if let Some(pass) = &queue.pass
                && !std::ptr::eq(Arc::as_ptr(pass), assisted.as_ptr())
            {
                return Some(Work::Assist(pass.clone()));
            }
            queue.idle_threads += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle_threads -= 1;
        }
    }

    /// The main function of a thread.
    fn run_thread(&self) {
        let priority = match self.settings.lane {
            Lane::Query | Lane::Interactive => ThreadPriority::Compute,
            Lane::Bulk => ThreadPriority::Idle,
        };
        priority.apply();
        floor::meter_thread(&self.lock().floor);
        let mut scratch = ThreadScratch::of(priority);
        let mut assisted = Weak::new();
        while let Some(work) = self.next_work(&assisted) {
            assisted = match &work {
                Work::Assist(pass) => Arc::downgrade(pass),
                Work::Compute(_) | Work::ComputeInParallel(_) => Weak::new(),
            };
            scratch.catch_panic(
                || ThreadScratch::of(priority),
                |scratch| match work {
                    Work::Compute(batches) => self.compute(batches, &mut scratch.single),
                    Work::ComputeInParallel(batch) => self.compute_in_parallel(batch, scratch),
                    Work::Assist(pass) => pass.assist(&mut scratch.parallel),
                },
            );
        }
    }

    fn compute(&self, batches: Vec<MicroBatch>, scratch: &mut Scratch) {
        let mut running = RunningGuard::new(self, &batches, false);
        let Some(computation) = Computation::begin(batches).map(Arc::new) else { return };
        if self.settings.lane == Lane::Bulk && !computation.task.is_on_own_threads() {
            running.begin(&computation);
        }
        let sequences: Vec<&Sequence> = computation.sequences.iter().collect();
        if let Some(rows) = self.compute_rows(&computation.task, &sequences, running, scratch) {
            computation.finish(rows);
        }
    }

    /// One row for each sequence, measured; `None` if the model fails, which is logged.
    fn compute_rows(
        &self,
        task: &ModelTask,
        sequences: &[&Sequence],
        running: RunningGuard<'_>,
        scratch: &mut Scratch,
    ) -> Option<Rows> {
        self.settings.metrics.batch(sequences.len(), running.tokens);
        let (started, cpu_started) = (Instant::now(), thread_cpu_time());
        let rows = self.rows(task, sequences, scratch);
        let elapsed = started.elapsed();
        let cpu_time =
            if task.is_on_own_threads() { elapsed } else { thread_cpu_time().saturating_sub(cpu_started) };
        running.finish(elapsed, cpu_time);
        rows
    }

    fn rows(&self, task: &ModelTask, sequences: &[&Sequence], scratch: &mut Scratch) -> Option<Rows> {
        let rows = task.compute(sequences, self.settings.lane, scratch);
        // a value that is not finite would be `null` in a reply, and a search by it a mistake of the client
        let rows = rows.map_err(|error| error.to_string()).and_then(|rows| {
            let is_finite = rows.floats().iter().all(|x| x.is_finite());
            is_finite.then_some(rows).ok_or_else(|| "its results are not finite numbers".to_owned())
        });
        rows.inspect_err(
            |error| tracing::error!(%error, "a micro-batch failed; its requests fail with `internal`"),
        )
        .ok()
    }

    fn compute_in_parallel(&self, mut batch: MicroBatch, scratch: &mut ThreadScratch) {
        let Some(pass) = batch.parallel_pass(self.settings.threads) else {
            return self.compute(vec![batch], &mut scratch.single);
        };
        let running = RunningGuard::new(self, slice::from_ref(&batch), false);
        let embedded = self.run_pass(pass, &mut batch, running, &mut scratch.parallel);
        drop(batch.reply.send(embedded));
    }

    /// Runs a pass that idle threads may assist.
    fn run_pass(
        &self,
        pass: Arc<ParallelPass>,
        batch: &mut MicroBatch,
        running: RunningGuard<'_>,
        scratch: &mut ParallelScratch,
    ) -> Embedded {
        self.lock().pass = Some(pass.clone());
        self.changed.notify_all();
        let waited = batch.dequeue();
        self.settings.metrics.batch(batch.sequences.len(), batch.tokens);
        let out = pass.run(scratch);
        drop(running);
        let count = batch.sequences.len();
        let width = out.len() / count.max(1);
        Embedded { embeddings: Rows::of_lengths(out, std::iter::repeat_n(width, count)), waited }
    }
}

#[cfg(test)]
mod tests;
