//! One forward pass that several threads work on, for a short text that should be ready soon.
//!
//! A layer has four phases: heads (their part of queries, keys and values, and attention), the product behind attention, and
//! the two of the feed-forward part. A phase consists of tasks, each some heads' or columns' worth, about as many as there are
//! threads, which whoever is there takes one after the other: with more and smaller ones, threads would mostly wait for each other's
//! cache lines. Results lie in cells that one thread writes in a layer and all read at the same time; locks keep a late reader's
//! from being written for the next layer. What is cheap (layer norm, codes) each thread does for itself, on rows of its own.
//!
//! The pass needs nobody but the thread that wants its result: who is late takes part from a later phase on, who is never
//! given a core is not missed. Only a task that was taken is waited for, or a cell that is being read.
//!
//! The numbers are those of [`Model::embed`](crate::Model::embed), bit for bit: every element is the same chain of operations.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use weir_kernels::{AlignedVec, AttentionShape, Epilogue};

use crate::forward::{Pass, Rounded, Rows, rows_of};
use crate::model::Model;
use crate::output::pool_all;
use crate::weights::{Layer, Linear};

/// The most tasks of a phase: more were not measured to be of use.
const TASKS_MAX: usize = 12;
/// So often a thread looks whether a phase is over before it gives up its core, or the pass: some tens of microseconds.
const LOOKS: usize = 1000;

/// A pass that threads work on together.
pub struct Split {
    model: Arc<Model>,
    sequences: Vec<Vec<u32>>,
    /// The phase in the upper half, its next task in the lower.
    ticket: AtomicU64,
    /// Tasks of the phase that are done.
    done: AtomicUsize,
    has_failed: AtomicBool,
    /// The results of each kind of phase.
    cells: [Cells; PHASES],
}

/// Phases of a layer.
const PHASES: usize = 4;
const HEADS: usize = 0;
const ATTENTION_OUT: usize = 1;
const UP: usize = 2;
const DOWN: usize = 3;

/// What the tasks of a phase give: `[tokens, columns]` each.
struct Cells {
    columns: usize,
    /// Columns of all cells; the last may have fewer.
    width: usize,
    cells: Vec<RwLock<AlignedVec<f32>>>,
}

/// Working memory of one thread for splits. Grows to the largest it has seen and is used again.
pub struct SplitScratch {
    /// `[tokens, width]`: the residual stream, as of the phase in `hidden_at`.
    hidden: AlignedVec<f32>,
    hidden_at: Option<u64>,
    /// Rows gathered from the cells of the phase before.
    rows: AlignedVec<f32>,
    rounded: Rounded,
    /// `[tokens, 3 * columns]`: of the heads of a task
    qkv: AlignedVec<f32>,
    attention: AlignedVec<f32>,
}

impl SplitScratch {
    /// Empty working memory.
    pub fn new() -> SplitScratch {
        let empty = || AlignedVec::zeroed(0);
        let (hidden, rows, qkv, attention) = (empty(), empty(), empty(), empty());
        SplitScratch { hidden, hidden_at: None, rows, rounded: Rounded::default(), qkv, attention }
    }
}

impl Default for SplitScratch {
    fn default() -> SplitScratch {
        SplitScratch::new()
    }
}

impl Split {
    /// A pass over `sequences` for about `threads` threads, for which [`Split::lead`] will have to be called once; `None` when the
    /// model's heads do not end at borders of the packed weights.
    ///
    /// # Panics
    /// As [`Model::embed`](crate::Model::embed), when the pass is led.
    pub fn new(model: Arc<Model>, sequences: Vec<Vec<u32>>, threads: usize) -> Option<Split> {
        let config = &model.config.network;
        let panel = model.weights.layout.packing.panel;
        let width = config.hidden_size;
        let head_dim = width / config.num_attention_heads;
        if !head_dim.is_multiple_of(panel) || !config.intermediate_size.is_multiple_of(panel) {
            return None;
        }
        let tokens: usize = sequences.iter().map(Vec::len).sum();
        let in_tasks =
            |width: usize, unit: usize| (width / unit).div_ceil(threads.clamp(1, TASKS_MAX)) * unit;
        let cells = |width: usize, columns: usize| Cells {
            columns,
            width,
            cells: (0..width.div_ceil(columns))
                .map(|_| RwLock::new(AlignedVec::zeroed(tokens * columns)))
                .collect(),
        };
        let cells = [
            cells(width, in_tasks(width, head_dim)),
            cells(width, in_tasks(width, panel)),
            cells(config.intermediate_size, in_tasks(config.intermediate_size, panel)),
            cells(width, in_tasks(width, panel)),
        ];
        let (ticket, done) = (AtomicU64::new(0), AtomicUsize::new(0));
        Some(Split { model, sequences, ticket, done, has_failed: AtomicBool::new(false), cells })
    }

    /// Works on the pass until it is done, and gives the embeddings, one after the other.
    ///
    /// # Panics
    /// When another thread's part of the pass panicked.
    pub fn lead(&self, scratch: &mut SplitScratch) -> Vec<f32> {
        let sequences: Vec<&[u32]> = self.sequences.iter().map(Vec::as_slice).collect();
        let member = Member { split: self, pass: Pass::new(&self.model, &sequences, &[]) };
        member.work(scratch, true);
        let mut out = vec![0.0; sequences.len() * member.pass.width()];
        member.finish(scratch, &mut out);
        out
    }

    /// Helps with the pass as long as there is something to do. May be called at any time, by any thread; one that comes back before
    /// the pass is over may have given up because others wait for its core.
    pub fn help(&self, scratch: &mut SplitScratch) {
        let sequences: Vec<&[u32]> = self.sequences.iter().map(Vec::as_slice).collect();
        Member { split: self, pass: Pass::new(&self.model, &sequences, &[]) }.work(scratch, false);
    }

    fn phase(&self) -> u64 {
        self.ticket.load(Ordering::Acquire) >> 32
    }

    fn last_phase(&self) -> u64 {
        (PHASES * self.model.weights.layout.layers.len()) as u64
    }

    /// The next task of the phase, if it is still the present one and has tasks left.
    fn take(&self, phase: u64) -> Option<usize> {
        let tasks = self.cells(phase).cells.len() as u64;
        let mut ticket = self.ticket.load(Ordering::Acquire);
        while ticket >> 32 == phase && ticket & u64::from(u32::MAX) < tasks {
            match self.ticket.compare_exchange_weak(ticket, ticket + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(taken) => return usize::try_from(taken & u64::from(u32::MAX)).ok(),
                Err(now) => ticket = now,
            }
        }
        None
    }

    /// A task is done; the last one of a phase opens the next.
    fn give(&self, phase: u64) {
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if done == self.cells(phase).cells.len() {
            self.done.store(0, Ordering::Relaxed);
            self.ticket.store((phase + 1) << 32, Ordering::Release);
        }
    }

    fn cells(&self, phase: u64) -> &Cells {
        &self.cells[(phase % PHASES as u64) as usize]
    }
}

impl Cells {
    fn of(&self, task: usize) -> Range<usize> {
        task * self.columns..((task + 1) * self.columns).min(self.width)
    }

    /// Puts the columns of all cells side by side.
    fn gather(&self, rows: usize, to: &mut AlignedVec<f32>, stride: usize) {
        to.grow(rows * stride);
        for (task, cell) in self.cells.iter().enumerate() {
            let (columns, cell) = (self.of(task), cell.read().unwrap_or_else(PoisonError::into_inner));
            for (from, to) in cell.chunks_exact(self.columns).zip(to.chunks_exact_mut(stride)).take(rows) {
                to[columns.clone()].copy_from_slice(&from[..columns.len()]);
            }
        }
    }
}

/// One thread's view of a pass.
struct Member<'a> {
    split: &'a Split,
    pass: Pass<'a>,
}

impl Member<'_> {
    fn work(&self, own: &mut SplitScratch, is_leader: bool) {
        let end = self.split.last_phase();
        own.hidden_at = None;
        let mut phase = self.split.phase();
        while phase < end {
            if self.prepare(phase, own) {
                while let Some(task) = self.split.take(phase) {
                    let failing = FailsUnlessForgotten(&self.split.has_failed);
                    self.run(phase, task, own);
                    std::mem::forget(failing);
                    self.split.give(phase);
                }
            }
            match self.wait(phase, is_leader) {
                Some(next) => phase = next,
                None => return,
            }
        }
    }

    /// Waits until the phase is over. A helper gives up after a while.
    fn wait(&self, phase: u64, is_leader: bool) -> Option<u64> {
        let mut looks = 0;
        loop {
            let now = self.split.phase();
            if now != phase {
                return Some(now);
            }
            assert!(
                !is_leader || !self.split.has_failed.load(Ordering::Relaxed),
                "another part of the pass panicked"
            );
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else if is_leader {
                std::thread::yield_now();
            } else {
                return None;
            }
        }
    }

    /// Makes the rows and codes that the tasks of the phase read. False when this thread has not the residual stream that
    /// they need; it can make that itself where the cells before hold it.
    ///
    /// When the phase ends meanwhile the rows are of no use, but then there is no task of the phase to be had either.
    fn prepare(&self, phase: u64, own: &mut SplitScratch) -> bool {
        let Pass { tokens, strides, .. } = self.pass;
        let (layer, cells) = (self.layer(phase), &self.split.cells);
        let is_current = phase.checked_sub(1) == own.hidden_at;
        match (phase % PHASES as u64) as usize {
            HEADS => {
                own.hidden.grow(tokens * strides.hidden);
                if phase == 0 {
                    self.pass.look_up(&mut own.hidden);
                } else {
                    cells[DOWN].gather(tokens, &mut own.hidden, strides.hidden);
                    self.pass.normalise(&mut own.hidden, &self.layer(phase - 1).ffn_norm);
                }
                own.hidden_at = Some(phase);
                let rows = (&*own.hidden, strides.hidden);
                self.pass.round(tokens, &layer.qkv, rows, &mut own.rounded);
            }
            ATTENTION_OUT if is_current => {
                self.collect(&cells[HEADS], &layer.attention_out, strides.hidden, own)
            }
            UP => {
                cells[ATTENTION_OUT].gather(tokens, &mut own.hidden, strides.hidden);
                self.pass.normalise(&mut own.hidden, &layer.attention_norm);
                own.hidden_at = Some(phase);
                self.pass.round(tokens, &layer.up, (&own.hidden, strides.hidden), &mut own.rounded);
            }
            DOWN if is_current => self.collect(&cells[UP], &layer.down, strides.wide, own),
            _ => return false,
        }
        true
    }

    fn collect(&self, cells: &Cells, linear: &Linear, stride: usize, own: &mut SplitScratch) {
        cells.gather(self.pass.tokens, &mut own.rows, stride);
        self.pass.round(self.pass.tokens, linear, (&own.rows, stride), &mut own.rounded);
    }

    fn run(&self, phase: u64, task: usize, own: &mut SplitScratch) {
        let layer = self.layer(phase);
        let cells = self.split.cells(phase);
        let mut cell = cells.cells[task].write().unwrap_or_else(PoisonError::into_inner);
        let (columns, hidden) = (cells.of(task), self.pass.strides.hidden);
        let out = (&mut **cell, cells.columns);
        match (phase % PHASES as u64) as usize {
            HEADS => {
                self.heads(layer, columns, own, out);
            }
            UP => {
                let a = Rows { floats: &own.hidden, stride: hidden, rounded: &own.rounded };
                self.pass.columns(&layer.up, columns, self.pass.tokens, &a, Epilogue::Gelu, out);
            }
            kind => {
                let (linear, stride) = match kind {
                    DOWN => (&layer.down, self.pass.strides.wide),
                    _ => (&layer.attention_out, hidden),
                };
                for (row, residual) in out.0.chunks_exact_mut(out.1).zip(own.hidden.chunks_exact(hidden)) {
                    row[..columns.len()].copy_from_slice(&residual[columns.clone()]);
                }
                let a = Rows { floats: &own.rows, stride, rounded: &own.rounded };
                self.pass.columns(linear, columns, self.pass.tokens, &a, Epilogue::Add, out);
            }
        }
    }

    /// Queries, keys and values of some heads, and their attention.
    fn heads(
        &self,
        layer: &Layer,
        columns: Range<usize>,
        own: &mut SplitScratch,
        (out, out_stride): (&mut [f32], usize),
    ) {
        let Pass { tokens, strides, .. } = self.pass;
        let (of_heads, width) = (columns.len(), self.pass.width());
        let head_dim = width / self.pass.model.config.network.num_attention_heads;
        let qkv_stride = 3 * of_heads;
        own.qkv.grow(tokens * qkv_stride);
        let a = Rows { floats: &own.hidden, stride: strides.hidden, rounded: &own.rounded };
        for part in 0..3 {
            let columns = part * width + columns.start..part * width + columns.end;
            let to = (&mut own.qkv[part * of_heads..], qkv_stride);
            self.pass.columns(&layer.qkv, columns, tokens, &a, Epilogue::Store, to);
        }
        let mut first = 0;
        for ids in self.pass.sequences {
            let (tokens, heads) = (ids.len(), of_heads / head_dim);
            let shape = AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride };
            own.attention.grow(shape.scratch_len());
            let (qkv, out) = (&own.qkv[first * qkv_stride..], &mut out[first * out_stride..]);
            self.pass.attention()(&shape, qkv, &mut own.attention, out);
            first += tokens;
        }
    }

    fn finish(&self, own: &mut SplitScratch, out: &mut [f32]) {
        let (tokens, stride) = (self.pass.tokens, self.pass.strides.hidden);
        match self.split.last_phase().checked_sub(1) {
            Some(last) => {
                self.split.cells[DOWN].gather(tokens, &mut own.hidden, stride);
                self.pass.normalise(&mut own.hidden, &self.layer(last).ffn_norm);
            }
            None => {
                own.hidden.grow(tokens * stride);
                self.pass.look_up(&mut own.hidden);
            }
        }
        let rows = rows_of(&own.hidden, self.pass.width());
        pool_all(self.pass.model, self.pass.sequences, rows, out);
    }

    fn layer(&self, phase: u64) -> &Layer {
        &self.pass.model.weights.layout.layers[(phase / PHASES as u64) as usize]
    }
}

/// Tells the leader of a panic in a task: it waits for every task that was taken.
struct FailsUnlessForgotten<'a>(&'a AtomicBool);

impl Drop for FailsUnlessForgotten<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
