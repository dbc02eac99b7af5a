//! One forward pass that several threads compute together, for a short text with low latency.
//!
//! A layer has four phases: attention heads (queries, keys, values and attention of some heads), the projection after attention, and the two
//! matrices of the feed-forward network. A phase has about one task per thread, each a range of heads or columns; threads claim tasks
//! one by one. More, smaller tasks were slower, because of cache line contention. A task writes its result to a cell that all threads read in
//! the next phase. A lock per cell keeps the next layer from overwriting it under a slow reader. Every thread repeats cheap steps (layer
//! norm, quantization) on its own copy of the rows.
//!
//! Only the thread that calls [`ParallelPass::run`] is required. Others may join at any phase or never: `run` only waits for tasks in progress.
//!
//! Results are those of [`Model::embed`](crate::Model::embed), bit for bit: every element is the same chain of operations.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use weir_kernels::{AlignedVec, AttentionShape, Epilogue};

use crate::forward::{Activations, Pass, QuantizedActivations, rows_of};
use crate::model::Model;
use crate::output::pool_all;
use crate::weights::{Layer, Linear};

/// Maximum tasks of a phase; more were not faster in measurements.
const TASKS_MAX: usize = 12;
/// Spins before a waiting thread yields its core (in `run`) or returns (in `assist`): some tens of microseconds.
const SPINS_MAX: usize = 1000;

/// A forward pass that several threads compute together.
pub struct ParallelPass {
    model: Arc<Model>,
    sequences: Vec<Vec<u32>>,
    /// The current phase in the upper 32 bits, its next unclaimed task in the lower.
    next: AtomicU64,
    /// Completed tasks of the current phase.
    completed: AtomicUsize,
    has_failed: AtomicBool,
    /// The outputs of each kind of phase.
    outputs: [PhaseOutput; PHASES],
}

/// Phases of a layer.
const PHASES: usize = 4;
const HEADS: usize = 0;
const ATTENTION_OUT: usize = 1;
const UP: usize = 2;
const DOWN: usize = 3;

/// The output of a phase: a cell `[tokens, columns]` for each task.
struct PhaseOutput {
    columns: usize,
    /// Total columns of all cells; the last cell may have fewer than `columns`.
    width: usize,
    cells: Vec<RwLock<AlignedVec<f32>>>,
}

/// Working memory of one thread for parallel passes. Grows to the largest pass, and is reused.
pub struct ParallelScratch {
    /// `[tokens, width]`: the residual stream at phase `hidden_phase`.
    hidden: AlignedVec<f32>,
    hidden_phase: Option<u64>,
    /// Rows gathered from the cells of the previous phase.
    rows: AlignedVec<f32>,
    quantized: QuantizedActivations,
    /// `[tokens, 3 * columns]`: queries, keys and values of a task's heads.
    qkv: AlignedVec<f32>,
    attention: AlignedVec<f32>,
}

impl ParallelScratch {
    /// Empty working memory.
    pub fn new() -> ParallelScratch {
        let empty = || AlignedVec::zeroed(0);
        let (hidden, rows, qkv, attention) = (empty(), empty(), empty(), empty());
        ParallelScratch {
            hidden,
            hidden_phase: None,
            rows,
            quantized: QuantizedActivations::default(),
            qkv,
            attention,
        }
    }
}

impl Default for ParallelScratch {
    fn default() -> ParallelScratch {
        ParallelScratch::new()
    }
}

impl ParallelPass {
    /// A pass over `sequences` with tasks for about `threads` threads. `None` if heads do not end at panel boundaries.
    pub fn new(model: Arc<Model>, sequences: Vec<Vec<u32>>, threads: usize) -> Option<ParallelPass> {
        let config = &model.network().config.network;
        let panel = model.network().weights.layout.packing.panel;
        let width = config.hidden_size;
        let head_dim = width / config.num_attention_heads;
        if !head_dim.is_multiple_of(panel) || !config.intermediate_size.is_multiple_of(panel) {
            return None;
        }
        let tokens: usize = sequences.iter().map(Vec::len).sum();
        let columns_per_task =
            |width: usize, unit: usize| (width / unit).div_ceil(threads.clamp(1, TASKS_MAX)) * unit;
        let output = |width: usize, columns: usize| PhaseOutput {
            columns,
            width,
            cells: (0..width.div_ceil(columns))
                .map(|_| RwLock::new(AlignedVec::zeroed(tokens * columns)))
                .collect(),
        };
        let outputs = [
            output(width, columns_per_task(width, head_dim)),
            output(width, columns_per_task(width, panel)),
            output(config.intermediate_size, columns_per_task(config.intermediate_size, panel)),
            output(width, columns_per_task(width, panel)),
        ];
        let (next, completed) = (AtomicU64::new(0), AtomicUsize::new(0));
        Some(ParallelPass { model, sequences, next, completed, has_failed: AtomicBool::new(false), outputs })
    }

    /// Computes the pass, and returns the embeddings one after the other.
    ///
    /// # Panics
    /// As [`Model::embed`](crate::Model::embed), and when a task of another thread panicked.
    pub fn run(&self, scratch: &mut ParallelScratch) -> Vec<f32> {
        let sequences: Vec<&[u32]> = self.sequences.iter().map(Vec::as_slice).collect();
        let worker = Worker { shared: self, pass: Pass::new(self.model.network(), &sequences, &[]) };
        worker.work(scratch, true);
        let mut out = vec![0.0; sequences.len() * worker.pass.width()];
        worker.pool(scratch, &mut out);
        self.model.assert_weights();
        out
    }

    /// Computes tasks of the pass. May be called at any time, by any thread, any number of times. Returns when the pass is complete, or
    /// after waiting [`SPINS_MAX`] spins for tasks of other threads.
    pub fn assist(&self, scratch: &mut ParallelScratch) {
        let sequences: Vec<&[u32]> = self.sequences.iter().map(Vec::as_slice).collect();
        Worker { shared: self, pass: Pass::new(self.model.network(), &sequences, &[]) }.work(scratch, false);
    }

    fn phase(&self) -> u64 {
        self.next.load(Ordering::Acquire) >> 32
    }

    fn last_phase(&self) -> u64 {
        (PHASES * self.model.network().weights.layout.layers.len()) as u64
    }

    /// Claims the next task of `phase`; `None` when the phase is over or has no unclaimed task.
    fn claim(&self, phase: u64) -> Option<usize> {
        let tasks = self.output(phase).cells.len() as u64;
        let mut next = self.next.load(Ordering::Acquire);
        while next >> 32 == phase && next & u64::from(u32::MAX) < tasks {
            match self.next.compare_exchange_weak(next, next + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(claimed) => return usize::try_from(claimed & u64::from(u32::MAX)).ok(),
                Err(current) => next = current,
            }
        }
        None
    }

    /// Counts a completed task; the last one of a phase starts the next phase.
    fn complete(&self, phase: u64) {
        let completed = self.completed.fetch_add(1, Ordering::AcqRel) + 1;
        if completed == self.output(phase).cells.len() {
            self.completed.store(0, Ordering::Relaxed);
            self.next.store((phase + 1) << 32, Ordering::Release);
        }
    }

    fn output(&self, phase: u64) -> &PhaseOutput {
        &self.outputs[(phase % PHASES as u64) as usize]
    }
}

impl PhaseOutput {
    /// The columns of a task.
    fn columns_of(&self, task: usize) -> Range<usize> {
        task * self.columns..((task + 1) * self.columns).min(self.width)
    }

    /// Copies the columns of all cells to contiguous rows.
    fn gather(&self, rows: usize, to: &mut AlignedVec<f32>, stride: usize) {
        to.grow(rows * stride);
        for (task, cell) in self.cells.iter().enumerate() {
            let (columns, cell) =
                (self.columns_of(task), cell.read().unwrap_or_else(PoisonError::into_inner));
            for (from, to) in cell.chunks_exact(self.columns).zip(to.chunks_exact_mut(stride)).take(rows) {
                to[columns.clone()].copy_from_slice(&from[..columns.len()]);
            }
        }
    }
}

/// One thread's view of a pass.
struct Worker<'a> {
    shared: &'a ParallelPass,
    pass: Pass<'a>,
}

impl Worker<'_> {
    fn work(&self, scratch: &mut ParallelScratch, must_finish: bool) {
        let end = self.shared.last_phase();
        scratch.hidden_phase = None;
        let mut phase = self.shared.phase();
        while phase < end {
            if self.prepare(phase, scratch) {
                while let Some(task) = self.shared.claim(phase) {
                    let guard = PanicGuard(&self.shared.has_failed);
                    self.compute(phase, task, scratch);
                    guard.disarm();
                    self.shared.complete(phase);
                }
            }
            match self.wait(phase, must_finish) {
                Some(next) => phase = next,
                None => return,
            }
        }
    }

    /// Waits until the phase is over, and returns the current one. In `assist`, `None` after [`SPINS_MAX`].
    fn wait(&self, phase: u64, must_finish: bool) -> Option<u64> {
        let mut spins = 0;
        loop {
            let current = self.shared.phase();
            if current != phase {
                return Some(current);
            }
            assert!(
                !must_finish || !self.shared.has_failed.load(Ordering::Relaxed),
                "a task of another thread panicked"
            );
            spins += 1;
            if spins < SPINS_MAX {
                std::hint::spin_loop();
            } else if must_finish {
                std::thread::yield_now();
            } else {
                return None;
            }
        }
    }

    /// Gathers and quantizes the input rows of the phase's tasks. `false` when the tasks also need the residual stream and this thread does
    /// not have it; heads and the first feed-forward matrix compute it from the cells of the previous phase.
    ///
    /// If the phase ends during the call, the rows may be inconsistent, but no task of the phase can be claimed any more.
    fn prepare(&self, phase: u64, scratch: &mut ParallelScratch) -> bool {
        let Pass { tokens, strides, .. } = self.pass;
        let (layer, outputs) = (self.layer(phase), &self.shared.outputs);
        let is_current = phase.checked_sub(1) == scratch.hidden_phase;
        match (phase % PHASES as u64) as usize {
            HEADS => {
                scratch.hidden.grow(tokens * strides.hidden);
                if phase == 0 {
                    self.pass.look_up_embeddings(&mut scratch.hidden);
                } else {
                    outputs[DOWN].gather(tokens, &mut scratch.hidden, strides.hidden);
                    self.pass.normalise(&mut scratch.hidden, &self.layer(phase - 1).ffn_norm);
                }
                scratch.hidden_phase = Some(phase);
                let rows = (&*scratch.hidden, strides.hidden);
                self.pass.quantize(tokens, &layer.qkv, rows, &mut scratch.quantized);
            }
            ATTENTION_OUT if is_current => {
                self.gather_rows(&outputs[HEADS], &layer.attention_out, strides.hidden, scratch)
            }
            UP => {
                outputs[ATTENTION_OUT].gather(tokens, &mut scratch.hidden, strides.hidden);
                self.pass.normalise(&mut scratch.hidden, &layer.attention_norm);
                scratch.hidden_phase = Some(phase);
                self.pass.quantize(
                    tokens,
                    &layer.up,
                    (&scratch.hidden, strides.hidden),
                    &mut scratch.quantized,
                );
            }
            DOWN if is_current => self.gather_rows(&outputs[UP], &layer.down, strides.wide, scratch),
            _ => return false,
        }
        true
    }

    fn gather_rows(
        &self,
        output: &PhaseOutput,
        linear: &Linear,
        stride: usize,
        scratch: &mut ParallelScratch,
    ) {
        output.gather(self.pass.tokens, &mut scratch.rows, stride);
        self.pass.quantize(self.pass.tokens, linear, (&scratch.rows, stride), &mut scratch.quantized);
    }

    /// Computes a task and writes its cell.
    fn compute(&self, phase: u64, task: usize, scratch: &mut ParallelScratch) {
        let layer = self.layer(phase);
        let output = self.shared.output(phase);
        let mut cell = output.cells[task].write().unwrap_or_else(PoisonError::into_inner);
        let (columns, hidden) = (output.columns_of(task), self.pass.strides.hidden);
        let out = (&mut **cell, output.columns);
        match (phase % PHASES as u64) as usize {
            HEADS => {
                self.attend(layer, columns, scratch, out);
            }
            UP => {
                let a =
                    Activations { floats: &scratch.hidden, stride: hidden, quantized: &scratch.quantized };
                self.pass.columns(&layer.up, columns, self.pass.tokens, &a, Epilogue::Gelu, out);
            }
            kind => {
                let (linear, stride) = match kind {
                    DOWN => (&layer.down, self.pass.strides.wide),
                    _ => (&layer.attention_out, hidden),
                };
                for (row, residual) in out.0.chunks_exact_mut(out.1).zip(scratch.hidden.chunks_exact(hidden))
                {
                    row[..columns.len()].copy_from_slice(&residual[columns.clone()]);
                }
                let a = Activations { floats: &scratch.rows, stride, quantized: &scratch.quantized };
                self.pass.columns(linear, columns, self.pass.tokens, &a, Epilogue::Add, out);
            }
        }
    }

    /// Computes queries, keys and values of some heads, and their attention.
    fn attend(
        &self,
        layer: &Layer,
        columns: Range<usize>,
        scratch: &mut ParallelScratch,
        (out, out_stride): (&mut [f32], usize),
    ) {
        let Pass { tokens, strides, .. } = self.pass;
        let (heads_width, width) = (columns.len(), self.pass.width());
        let head_dim = width / self.pass.network.config.network.num_attention_heads;
        let qkv_stride = 3 * heads_width;
        scratch.qkv.grow(tokens * qkv_stride);
        let a =
            Activations { floats: &scratch.hidden, stride: strides.hidden, quantized: &scratch.quantized };
        for part in 0..3 {
            let columns = part * width + columns.start..part * width + columns.end;
            let to = (&mut scratch.qkv[part * heads_width..], qkv_stride);
            self.pass.columns(&layer.qkv, columns, tokens, &a, Epilogue::Store, to);
        }
        let mut first = 0;
        for ids in self.pass.sequences {
            let (tokens, heads) = (ids.len(), heads_width / head_dim);
            let shape = AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride };
            scratch.attention.grow(shape.scratch_len());
            let (qkv, out) = (&scratch.qkv[first * qkv_stride..], &mut out[first * out_stride..]);
            self.pass.attention()(&shape, qkv, &mut scratch.attention, out);
            first += tokens;
        }
    }

    /// Normalises and pools the output of the last phase.
    fn pool(&self, scratch: &mut ParallelScratch, out: &mut [f32]) {
        let (tokens, stride) = (self.pass.tokens, self.pass.strides.hidden);
        match self.shared.last_phase().checked_sub(1) {
            Some(last) => {
                self.shared.outputs[DOWN].gather(tokens, &mut scratch.hidden, stride);
                self.pass.normalise(&mut scratch.hidden, &self.layer(last).ffn_norm);
            }
            None => {
                scratch.hidden.grow(tokens * stride);
                self.pass.look_up_embeddings(&mut scratch.hidden);
            }
        }
        let rows = rows_of(&scratch.hidden, self.pass.width());
        pool_all(self.pass.network, self.pass.sequences, rows, out);
    }

    fn layer(&self, phase: u64) -> &Layer {
        &self.pass.network.weights.layout.layers[(phase / PHASES as u64) as usize]
    }
}

/// Reports a panic in a task, because [`ParallelPass::run`] waits for every claimed task.
struct PanicGuard<'a>(&'a AtomicBool);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PanicGuard<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}
