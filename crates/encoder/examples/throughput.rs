//! Tokens per second, and latency of one query and of its tokenizer, on one thread and on all: a quick benchmark for work on kernels.
//! `cargo run --release -p weir-encoder --example throughput [FOLDER [PRECISION]]`

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for a terminal")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_encoder::{Model, Precision, Scratch};
use weir_kernels::Kernels;

use thread_pool::with_helpers;

mod thread_pool;

/// Tokens that each thread computes.
const ROUNDS_TOKENS: usize = 30_000;

fn main() {
    let folder =
        std::env::args().nth(1).map_or_else(|| PathBuf::from("models/all-MiniLM-L6-v2"), PathBuf::from);
    let only = std::env::args().nth(2);
    let chosen = |precision: &Precision| only.as_deref().is_none_or(|name| name == precision.name());
    for precision in Precision::ALL.into_iter().rev().filter(chosen) {
        let started = Instant::now();
        let model = Model::load(&folder, precision, Kernels::current(), None);
        let model = Arc::new(model.expect("run `make setup` first"));
        let (name, kernels) = (precision.name(), model.kernels_name());
        println!("{name}: loaded in {:?}, kernels: {kernels}", started.elapsed());
        measure(&model);
    }
}

fn measure(model: &Arc<Model>) {
    let mut scratch = Scratch::new();
    for tokens in [8, 16, 32, 128, 256] {
        let time = median(|| run(model, tokens, 1, &mut scratch));
        let parallel = parallel(model, tokens);
        println!(
            "{tokens:4} tokens, 1 thread: {:9.3} ms; all threads: {:9.3} ms",
            time.as_secs_f64() * 1e3,
            parallel.as_secs_f64() * 1e3
        );
    }
    for query in
        ["what is a weir", "who plays the lead in the matrix", "effect of boundary layer on wing lift"]
    {
        let (time, ids) = tokenise(model, query);
        println!("`{query}` to {ids} ids: {:.2} µs", time.as_secs_f64() * 1e6);
    }
    for (texts, tokens) in [(1, 10), (4, 10), (12, 10), (1, 66), (2, 66), (2, 128), (1, 256)] {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let started = Instant::now();
        let rounds = ROUNDS_TOKENS / (texts * tokens);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut scratch = Scratch::new();
                    (0..rounds).for_each(|_| run(model, tokens, texts, &mut scratch));
                });
            }
        });
        let total = (threads * rounds * texts * tokens) as f64;
        println!(
            "{texts}x{tokens} on {threads} threads: {:.0} tokens/s, {:.0} texts/s",
            total / started.elapsed().as_secs_f64(),
            total / tokens as f64 / started.elapsed().as_secs_f64()
        );
    }
}

/// Time of the tokenizer for a text, and the number of ids.
fn tokenise(model: &Model, text: &str) -> (Duration, usize) {
    const TIMES: u32 = 10_000;
    let encode = || std::hint::black_box(model.tokenizer().encode(std::hint::black_box(text)));
    let time = median(|| (0..TIMES).for_each(|_| drop(encode())));
    (time / TIMES, encode().ids.len())
}

/// Time of one text on all threads together.
fn parallel(model: &Arc<Model>, tokens: usize) -> Duration {
    let helpers = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let ids = ids(tokens);
    with_helpers(model, helpers, |embed| median(|| drop(embed(&ids))))
}

fn ids(tokens: usize) -> Vec<u32> {
    (0..tokens as u32).map(|i| 1000 + i * 37 % 20_000).collect()
}

fn run(model: &Model, tokens: usize, texts: usize, scratch: &mut Scratch) {
    let ids = ids(tokens);
    let mut out = vec![0.0; texts * model.info().dimension];
    model.embed(&vec![ids.as_slice(); texts], scratch, &mut out);
}

fn median(mut run: impl FnMut()) -> Duration {
    run();
    let mut times: Vec<Duration> = (0..25)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
