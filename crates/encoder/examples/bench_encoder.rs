//! The encoder as an engine of `bench/encoder`: reads one request per line from standard input, writes one reply per line.
//! `cargo run --release -p weir-encoder --example bench_encoder -- --model FOLDER --precision int8 --threads 4 [--cache FOLDER]`
//!
//! | request | reply |
//! |---|---|
//! | (at the start) | `{"detail":"avx2","load_ns":…}` |
//! | `{"command":"tokenize","texts":[…]}` | `{"sequences":[[ids]…]}` |
//! | `{"command":"load","case":"a","sequences":[[ids]…]}` | `{"loaded":…}`, the number of sequences |
//! | `{"command":"run","case":"a","warmup":2,"repetitions":6}` | `{"wall_ns":[…],"cpu_ns":[…]}`, one of each per repetition |
//! | `{"command":"embed","sequences":[[ids]…]}` | `{"vectors":[[…]…]}`, each sequence embedded alone |
//!
//! `bench/encoder/worker.py` has the same protocol for other engines.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "replies go to standard output")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use weir_encoder::{Kernels, Model, ParallelPass, Precision, Scratch};

use thread_pool::with_helpers;

mod thread_pool;

/// Tokens per part of a batch, unless one sequence is longer.
const PART_TOKENS_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Request {
    Tokenize { texts: Vec<String> },
    Load { case: String, sequences: Vec<Vec<u32>> },
    Run { case: String, warmup: usize, repetitions: usize },
    Embed { sequences: Vec<Vec<u32>> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Reply {
    Ready { detail: &'static str, load_ns: u64 },
    Tokens { sequences: Vec<Vec<u32>> },
    Loaded { loaded: usize },
    Times { wall_ns: Vec<u64>, cpu_ns: Vec<u64> },
    Vectors { vectors: Vec<Vec<f32>> },
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let started = Instant::now();
    let model = Model::load(&options.model, options.precision, Kernels::current(), options.cache.as_deref())?;
    let load_ns = nanoseconds(started);
    let model = Arc::new(model);
    let mut engine = Engine::new(&model, options.threads);
    reply(&Reply::Ready { detail: model.kernels_name(), load_ns })?;
    for line in std::io::stdin().lock().lines() {
        reply(&engine.answer(serde_json::from_str(&line?)?)?)?;
    }
    Ok(())
}

fn reply(reply: &Reply) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, reply)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

struct Options {
    model: PathBuf,
    precision: Precision,
    threads: usize,
    cache: Option<PathBuf>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options {
            model: PathBuf::from("models/all-MiniLM-L6-v2"),
            precision: Precision::Int8,
            threads: 1,
            cache: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("`{name}` needs a value"))?;
            match name.as_str() {
                "--model" => options.model = PathBuf::from(value),
                "--precision" => {
                    options.precision = Precision::parse(&value)
                        .ok_or_else(|| format!("no precision is called `{value}`"))?;
                }
                "--threads" => options.threads = value.parse::<usize>()?.max(1),
                "--cache" => options.cache = Some(PathBuf::from(value)),
                _ => return Err(format!("no option is called `{name}`").into()),
            }
        }
        Ok(options)
    }
}

/// A model, the working memory of each thread, and the loaded cases.
struct Engine<'a> {
    model: &'a Arc<Model>,
    scratches: Vec<Scratch>,
    cases: HashMap<String, Vec<Vec<u32>>>,
}

impl<'a> Engine<'a> {
    fn new(model: &'a Arc<Model>, threads: usize) -> Engine<'a> {
        Engine { model, scratches: (0..threads).map(|_| Scratch::new()).collect(), cases: HashMap::new() }
    }

    fn answer(&mut self, request: Request) -> Result<Reply, String> {
        Ok(match request {
            Request::Tokenize { texts } => {
                let ids = |text: &String| self.model.tokenizer().encode(text).ids;
                Reply::Tokens { sequences: texts.iter().map(ids).collect() }
            }
            Request::Load { case, sequences } => {
                let loaded = sequences.len();
                self.cases.insert(case, sequences);
                Reply::Loaded { loaded }
            }
            Request::Run { case, warmup, repetitions } => {
                let sequences = self.cases.get(&case).ok_or_else(|| format!("no case is called `{case}`"))?;
                match sequences.as_slice() {
                    [query] if self.scratches.len() > 1 => {
                        run_parallel(self.model, query, self.scratches.len() - 1, warmup, repetitions)?
                    }
                    _ => {
                        let job = Job::new(self.model, sequences);
                        run(|| job.embed(&mut self.scratches), warmup, repetitions)
                    }
                }
            }
            Request::Embed { sequences } => {
                let alone = |ids: &Vec<u32>| {
                    let ids = std::slice::from_ref(ids);
                    Job::new(self.model, ids).embed(&mut self.scratches[..1])
                };
                Reply::Vectors { vectors: sequences.iter().map(alone).collect() }
            }
        })
    }
}

/// Measures `repetitions` calls after `warmup` calls.
fn run(mut embed: impl FnMut() -> Vec<f32>, warmup: usize, repetitions: usize) -> Reply {
    for _ in 0..warmup {
        std::hint::black_box(embed());
    }
    let (mut wall_ns, mut cpu_ns) = (Vec::new(), Vec::new());
    for _ in 0..repetitions {
        let (started, cpu_started) = (Instant::now(), cpu_nanoseconds());
        std::hint::black_box(embed());
        wall_ns.push(nanoseconds(started));
        cpu_ns.push(cpu_nanoseconds() - cpu_started);
    }
    Reply::Times { wall_ns, cpu_ns }
}

/// The same for one query on all threads together; `helpers` threads poll for it.
fn run_parallel(
    model: &Arc<Model>,
    query: &[u32],
    helpers: usize,
    warmup: usize,
    repetitions: usize,
) -> Result<Reply, String> {
    if ParallelPass::new(model.clone(), vec![query.to_vec()], helpers + 1).is_none() {
        return Err("the heads of this model do not end at panel boundaries of its packed weights".to_owned());
    }
    Ok(with_helpers(model, helpers, |embed| run(|| embed(query), warmup, repetitions)))
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of all threads of this process, including finished ones.
fn cpu_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

/// Sequences to embed, divided into parts for one thread each.
struct Job<'a> {
    model: &'a Model,
    parts: Vec<Vec<&'a [u32]>>,
    texts: usize,
}

impl<'a> Job<'a> {
    fn new(model: &'a Model, sequences: &'a [Vec<u32>]) -> Job<'a> {
        let mut parts: Vec<Vec<&[u32]>> = Vec::new();
        let mut tokens = usize::MAX;
        for sequence in sequences {
            tokens = tokens.saturating_add(sequence.len());
            if tokens > PART_TOKENS_MAX {
                parts.push(Vec::new());
                tokens = sequence.len();
            }
            if let Some(part) = parts.last_mut() {
                part.push(sequence);
            }
        }
        Job { model, parts, texts: sequences.len() }
    }

    /// All vectors, in the order of the sequences. A single sequence is computed on one thread.
    fn embed(&self, scratches: &mut [Scratch]) -> Vec<f32> {
        if self.texts == 1 { self.embed_alone(scratches) } else { self.embed_batch(scratches) }
    }

    fn embed_alone(&self, scratches: &mut [Scratch]) -> Vec<f32> {
        let mut out = vec![0.0; self.model.info().dimension];
        if let (Some(part), Some(scratch)) = (self.parts.first(), scratches.first_mut()) {
            self.model.embed(part, scratch, &mut out);
        }
        out
    }

    /// Each thread claims the next part from a counter until none is left.
    fn embed_batch(&self, scratches: &mut [Scratch]) -> Vec<f32> {
        let dimension = self.model.info().dimension;
        let mut out = vec![0.0; self.texts * dimension];
        let mut left = out.as_mut_slice();
        let mut slots = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (slot, rest) = left.split_at_mut(part.len() * dimension);
            slots.push(Mutex::new(slot));
            left = rest;
        }
        let next = AtomicUsize::new(0);
        let work = |scratch: &mut Scratch| {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(part), Some(slot)) = (self.parts.get(at), slots.get(at)) else { break };
                let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                self.model.embed(part, scratch, &mut slot);
            }
        };
        std::thread::scope(|scope| {
            let (first, others) =
                scratches.split_first_mut().map_or((None, [].as_mut_slice()), |(f, o)| (Some(f), o));
            for scratch in others {
                scope.spawn(|| work(scratch));
            }
            first.map(work)
        });
        drop(slots);
        out
    }
}
