//! ONNX Runtime as one of the engines of `bench/encoder`, called from Rust: requests and replies as those of `bench_encoder`.
//! `bench-ort --model FILE [--threads 4] [--sessions 1]`, with the shared library in `ORT_DYLIB_PATH`.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::TensorRef;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Texts that an engine with one session gets at once of a batch, as in `peers.py`.
const BATCH_TEXTS_MAX: usize = 8;

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Request {
    Load { case: String, sequences: Vec<Vec<i64>> },
    Run { case: String, warmup: usize, repetitions: usize },
    Embed { sequences: Vec<Vec<i64>> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Reply {
    Ready { detail: String, load_ns: u64 },
    Loaded { loaded: usize },
    Times { wall_ns: Vec<u64>, cpu_ns: Vec<u64> },
    Vectors { vectors: Vec<Vec<f32>> },
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let count = |name: &str| option(name).map_or(Ok(1), |value| value.parse::<usize>());
    let model = option("--model").ok_or("`--model FILE` is missing")?;
    let (threads, sessions) = (count("--threads")?, count("--sessions")?);

    let started = Instant::now();
    let environment = ort::init().with_telemetry(false).build()?;
    let mut engine = Engine { sessions: Vec::new(), cases: HashMap::new() };
    for _ in 0..sessions {
        engine.sessions.push(open(&environment, &model, threads)?);
    }
    reply(&Reply::Ready {
        detail: format!("1.{} by ort rc.15", ort::MINOR_VERSION),
        load_ns: nanoseconds(started),
    })?;
    for line in std::io::stdin().lock().lines() {
        reply(&engine.answer(serde_json::from_str(&line?)?)?)?;
    }
    Ok(())
}

fn open(environment: &Environment, model: &str, threads: usize) -> ort::Result<Session> {
    Session::builder(environment)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .commit_from_file(model)
}

fn reply(reply: &Reply) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, reply)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn cpu_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

struct Engine {
    sessions: Vec<Session>,
    cases: HashMap<String, Vec<Vec<i64>>>,
}

impl Engine {
    fn answer(&mut self, request: Request) -> Result<Reply, Failure> {
        Ok(match request {
            Request::Load { case, sequences } => {
                let loaded = sequences.len();
                self.cases.insert(case, sequences);
                Reply::Loaded { loaded }
            }
            Request::Run { case, warmup, repetitions } => {
                let sequences = self.cases.get(&case).ok_or("no such case was loaded")?;
                for _ in 0..warmup {
                    embed(&mut self.sessions, sequences)?;
                }
                let (mut wall_ns, mut cpu_ns) = (Vec::new(), Vec::new());
                for _ in 0..repetitions {
                    let (started, cpu_started) = (Instant::now(), cpu_nanoseconds());
                    embed(&mut self.sessions, sequences)?;
                    wall_ns.push(nanoseconds(started));
                    cpu_ns.push(cpu_nanoseconds() - cpu_started);
                }
                Reply::Times { wall_ns, cpu_ns }
            }
            Request::Embed { sequences } => {
                let session = &mut self.sessions[0];
                let vectors =
                    sequences.iter().map(|ids| run(session, &[ids])?.pop().ok_or_else(|| "no vector".into()));
                Reply::Vectors { vectors: vectors.collect::<Result<_, Failure>>()? }
            }
        })
    }
}

/// One session gets batches of similar length; several take one text at a time, the longest first.
fn embed(sessions: &mut [Session], sequences: &[Vec<i64>]) -> Result<Vec<Vec<f32>>, Failure> {
    let mut order: Vec<usize> = (0..sequences.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(sequences[*at].len()));
    let size = if sessions.len() == 1 { BATCH_TEXTS_MAX } else { 1 };
    let parts: Vec<&[usize]> = order.chunks(size).collect();
    let out = Mutex::new(vec![Vec::new(); sequences.len()]);
    let next = AtomicUsize::new(0);
    let work = |session: &mut Session| -> Result<(), Failure> {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let batch: Vec<&Vec<i64>> = part.iter().map(|at| &sequences[*at]).collect();
            let vectors = run(session, &batch)?;
            let mut out = out.lock().map_err(|_| "another thread failed")?;
            part.iter().zip(vectors).for_each(|(at, vector)| out[*at] = vector);
        }
        Ok(())
    };
    if let [session] = sessions {
        work(session)?;
    } else {
        std::thread::scope(|scope| {
            let threads: Vec<_> = sessions.iter_mut().map(|session| scope.spawn(|| work(session))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread failed")?)
        })?;
    }
    Ok(out.into_inner()?)
}

/// One padded batch.
fn run(session: &mut Session, batch: &[&Vec<i64>]) -> Result<Vec<Vec<f32>>, Failure> {
    let longest = batch.iter().map(|ids| ids.len()).max().unwrap_or(0);
    let mut ids = vec![0_i64; batch.len() * longest];
    let mut mask = ids.clone();
    let segments = ids.clone();
    for (row, sequence) in batch.iter().enumerate() {
        let start = row * longest;
        ids[start..start + sequence.len()].copy_from_slice(sequence);
        mask[start..start + sequence.len()].fill(1);
    }
    let shape = [batch.len(), longest];
    let outputs = session.run(ort::inputs![
        "input_ids" => TensorRef::from_array_view((shape, ids.as_slice()))?,
        "attention_mask" => TensorRef::from_array_view((shape, mask.as_slice()))?,
        "token_type_ids" => TensorRef::from_array_view((shape, segments.as_slice()))?,
    ])?;
    let (_, values) = outputs["sentence_embedding"].try_extract_tensor::<f32>()?;
    Ok(values.chunks_exact(values.len() / batch.len().max(1)).map(<[f32]>::to_vec).collect())
}
