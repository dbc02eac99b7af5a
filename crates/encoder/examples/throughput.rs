//! Tokens a second and time of one query, on one thread and on all: a quick look while working on kernels.
//! `cargo run --release -p weir-encoder --example throughput [FOLDER]`

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a program for people at a terminal")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_encoder::{Model, Precision, Scratch};
use weir_kernels::Kernels;

fn main() {
    let folder =
        std::env::args().nth(1).map_or_else(|| PathBuf::from("models/all-MiniLM-L6-v2"), PathBuf::from);
    let started = Instant::now();
    let model = Model::load(&folder, Precision::F32, Kernels::current()).expect("run `make setup` first");
    println!("loaded in {:?}, kernels: {}", started.elapsed(), model.kernels_name());
    for tokens in [8, 16, 32, 128, 256] {
        let time = median(|| run(&model, tokens, 1));
        println!("{tokens:4} tokens, 1 thread: {:9.3} ms", time.as_secs_f64() * 1e3);
    }
    for (texts, tokens) in [(2, 128), (1, 256)] {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let started = Instant::now();
        let rounds = 8;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..rounds).for_each(|_| run(&model, tokens, texts)));
            }
        });
        let total = (threads * rounds * texts * tokens) as f64;
        println!(
            "{texts}x{tokens} on {threads} threads: {:.0} tokens/s",
            total / started.elapsed().as_secs_f64()
        );
    }
}

fn run(model: &Model, tokens: usize, texts: usize) {
    let ids: Vec<u32> = (0..tokens as u32).map(|i| 1000 + i * 37 % 20_000).collect();
    let mut out = vec![0.0; texts * model.info().dimension];
    model.embed(&vec![ids.as_slice(); texts], &mut Scratch::new(), &mut out);
}

fn median(run: impl Fn()) -> Duration {
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
