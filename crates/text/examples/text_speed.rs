//! Measures the throughput of analysis and chunking: `cargo run --release -p weir-text --example text_speed FILE`.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;
use weir_text::{Analyser, Chunking, Language, chunk, text_hash};

fn words(text: &str) -> Vec<Range<usize>> {
    let start_of = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_ascii_whitespace().map(|word| start_of(word)..start_of(word) + word.len()).collect()
}

#[allow(clippy::print_stdout, reason = "a measurement prints its result")]
fn measure(name: &str, bytes: usize, mut work: impl FnMut() -> usize) {
    let mut best = f64::INFINITY;
    let mut count = 0;
    for _ in 0..7 {
        let started = Instant::now();
        count = work();
        best = best.min(started.elapsed().as_secs_f64());
    }
    println!("{name}: {:.1} MB/s, {count} results, best of 7", bytes as f64 / best / 1e6);
}

fn main() -> ExitCode {
    let Some(text) = std::env::args().nth(1).and_then(|path| std::fs::read_to_string(path).ok()) else {
        return ExitCode::FAILURE;
    };
    for language in [Language::None, Language::English, Language::French] {
        let mut analyser = Analyser::new(language);
        measure(&format!("analyse, {}", language.name()), text.len(), || {
            let mut count = 0;
            analyser.analyse(&text, |_| count += 1);
            count
        });
    }
    let chunking = Chunking::default();
    measure("chunk, one token per word", text.len(), || chunk(&text, &chunking, &mut words).len());
    measure("the token function alone", text.len(), || words(&text).len());
    measure("hash", text.len(), || usize::from(text_hash(&text)[0]));
    ExitCode::SUCCESS
}
