//! Embeds the lines of a file, for `bench/search`.
//! `cargo run --release -p weir-encoder --example embed_lines -- --texts FILE --out FILE [--tokens 64] [--threads 4]
//! [--precision int8] [--model FOLDER]`
//!
//! Every line of the input is a JSON string; every row of the output is its embedding in little-endian f32. Existing rows
//! of the output are kept, so that an interrupted run can be continued.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use weir_encoder::{Kernels, Model, Precision, Scratch};

/// Lines per write.
const BLOCK_LINES: usize = 4096;
/// Texts per micro-batch of a thread: with 64 tokens each, about as many tokens as in the gateway's bulk lane.
const PART_TEXTS: usize = 4;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Options {
    texts: PathBuf,
    out: PathBuf,
    model: PathBuf,
    precision: Precision,
    tokens: usize,
    threads: usize,
}

fn main() -> Outcome<()> {
    let options = parse(std::env::args().skip(1))?;
    let model = Model::load(&options.model, options.precision, Kernels::current(), None)?;
    let row_bytes = model.info().dimension as u64 * 4;
    let mut out = OpenOptions::new().create(true).append(true).open(&options.out)?;
    let done = out.metadata()?.len() / row_bytes;
    out.set_len(done * row_bytes)?;

    let mut lines = BufReader::new(File::open(&options.texts)?).lines().skip(usize::try_from(done)?);
    let (started, mut texts, mut tokens) = (Instant::now(), 0, 0);
    loop {
        let block: Vec<String> = lines
            .by_ref()
            .take(BLOCK_LINES)
            .map(|line| Ok(serde_json::from_str(&line?)?))
            .collect::<Outcome<_>>()?;
        if block.is_empty() {
            break;
        }
        texts += block.len();
        tokens += embed(&model, &options, &block, &mut out)?;
        let rate = tokens as f64 / started.elapsed().as_secs_f64();
        println!("{} texts, {rate:.0} tokens/s", done as usize + texts);
    }
    println!(
        "{texts} texts of {tokens} tokens in {:.1} s with {} threads, {}, kernels {}; {done} were there",
        started.elapsed().as_secs_f64(),
        options.threads,
        options.precision.name(),
        model.kernels_name()
    );
    Ok(())
}

/// Embeds the texts, the longest first, writes their rows in order, and returns the number of tokens.
fn embed(model: &Model, options: &Options, texts: &[String], out: &mut File) -> Outcome<usize> {
    let sequences: Vec<Vec<u32>> =
        texts.iter().map(|text| model.tokenizer().encode_to(text, options.tokens).ids).collect();
    let mut order: Vec<usize> = (0..sequences.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(sequences[at].len()));
    let parts: Vec<&[usize]> = order.chunks(PART_TEXTS).collect();
    let dimension = model.info().dimension;
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![0u8; sequences.len() * dimension * 4]));
    let work = || {
        let mut scratch = Scratch::new();
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ids: Vec<&[u32]> = part.iter().map(|&at| sequences[at].as_slice()).collect();
            let mut vectors = vec![0.0; part.len() * dimension];
            model.embed(&ids, &mut scratch, &mut vectors);
            let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
            for (&at, vector) in part.iter().zip(vectors.chunks_exact(dimension)) {
                let row = rows[at * dimension * 4..][..dimension * 4].as_chunks_mut::<4>().0;
                row.iter_mut().zip(vector).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(work);
        }
    });
    out.write_all(&rows.into_inner().unwrap_or_else(PoisonError::into_inner))?;
    Ok(sequences.iter().map(Vec::len).sum())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Outcome<Options> {
    let mut options = Options {
        texts: PathBuf::new(),
        out: PathBuf::new(),
        model: PathBuf::from("models/all-MiniLM-L6-v2"),
        precision: Precision::Int8,
        tokens: 64,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("`{name}` needs a value"))?;
        match name.as_str() {
            "--texts" => options.texts = value.into(),
            "--out" => options.out = value.into(),
            "--model" => options.model = value.into(),
            "--tokens" => options.tokens = value.parse()?,
            "--threads" => options.threads = value.parse::<usize>()?.max(1),
            "--precision" => {
                options.precision =
                    Precision::parse(&value).ok_or_else(|| format!("no precision is called `{value}`"))?;
            }
            _ => return Err(format!("no option is called `{name}`").into()),
        }
    }
    if options.texts.as_os_str().is_empty() || options.out.as_os_str().is_empty() {
        return Err("`--texts FILE` and `--out FILE` are needed".into());
    }
    Ok(options)
}
