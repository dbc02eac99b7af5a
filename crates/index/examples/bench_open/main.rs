//! Restart of the embedded engine: from opening a folder to the answer of the first hybrid search, each time in a new process,
//! with the files in the page cache.
//!
//! `cargo run --release -p weir-index --example bench_open -- [--sizes 0,2000,60000,1000000] [--runs 7] [--folder FOLDER]`
//!
//! Indexes are built in FOLDER, or in a temporary folder (2 GB per million documents, about two minutes), and an index in FOLDER
//! is measured as it is. Every run measures all sizes in turn, first as they are, then without the file `codes`, so that a change
//! of the load of the machine affects all alike. Documents are made up: one chunk of ten words, 384 dimensions.
#![allow(clippy::print_stdout, reason = "a program whose purpose is to print")]

mod corpus;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use weir_index::{Embedded, EngineSettings, IndexQuery};
use weir_policy::Caller;
use weir_query::Query;
use weir_ranking::RetrievalMode;
use weir_text::Language;

/// Values per embedding, as all-MiniLM-L6-v2 has them.
const DIMENSION: usize = 384;
/// Documents per batch while building.
const BATCH: usize = 20_000;
/// Stands for the embedded engine's whole history of operations.
const LAST_OPERATION: u64 = u64::MAX;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Arguments {
    sizes: Vec<usize>,
    runs: usize,
    folder: Option<PathBuf>,
    /// Set in a process that opens an index.
    start: Option<PathBuf>,
}

/// Milliseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Start {
    open: f64,
    search: f64,
    hits: usize,
}

fn main() -> Outcome<()> {
    let arguments = parse_arguments()?;
    match &arguments.start {
        Some(folder) => {
            println!("{}", serde_json::to_string(&start(folder)?)?);
            Ok(())
        }
        None => compare(&arguments),
    }
}

fn parse_arguments() -> Outcome<Arguments> {
    let mut arguments =
        Arguments { sizes: vec![0, 2_000, 60_000, 1_000_000], runs: 7, folder: None, start: None };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--sizes" => {
                arguments.sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--runs" => arguments.runs = value.parse::<usize>()?.max(1),
            "--folder" => arguments.folder = Some(value.into()),
            "--start" => arguments.start = Some(value.into()),
            _ => return Err(format!("unknown argument {name}, see the top of the source").into()),
        }
    }
    Ok(arguments)
}

/// Opens the index and searches once.
fn start(folder: &Path) -> Outcome<Start> {
    let (text, embedding) = corpus::query();
    let request = IndexQuery::new(RetrievalMode::Hybrid, Some(Query::Words(text)), Some(embedding), 10);
    let begin = Instant::now();
    let (engine, rebuilt) = Embedded::open(folder, settings(), LAST_OPERATION)?;
    let open = begin.elapsed();
    let found = engine.search(&Caller::system(), &request)?;
    let search = begin.elapsed() - open;
    match rebuilt {
        Some(reason) => Err(format!("the index cannot be used: {reason}").into()),
        None => {
            let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            Ok(Start { open: milliseconds(open), search: milliseconds(search), hits: found.hits.len() })
        }
    }
}

fn compare(arguments: &Arguments) -> Outcome<()> {
    let temporary = tempfile::tempdir()?;
    let folder = arguments.folder.as_deref().unwrap_or(temporary.path());
    let mut indexes = Vec::new();
    for &size in &arguments.sizes {
        let index = folder.join(size.to_string());
        if !index.join("head").exists() {
            build(&index, size)?;
        }
        indexes.push((size, index));
    }
    // the first start does not count: it may read files from disk, and it writes `codes` if an older version made the index
    for (_, index) in &indexes {
        Embedded::open(index, settings(), LAST_OPERATION)?.0.close()?;
    }
    let mut starts: Vec<[Vec<Start>; 2]> = indexes.iter().map(|_| Default::default()).collect();
    for _ in 0..arguments.runs {
        for ((_, index), starts) in indexes.iter().zip(&mut starts) {
            starts[0].push(start_process(index)?);
            let (codes, aside) = (index.join("codes"), folder.join("codes-aside"));
            if codes.exists() {
                std::fs::rename(&codes, &aside)?;
                starts[1].push(start_process(index)?);
                std::fs::rename(&aside, &codes)?;
            }
        }
    }
    println!(
        "| chunks | open | first search | restart | slowest | without `codes` |\n|--:|--:|--:|--:|--:|--:|"
    );
    for ((size, _), [usual, without]) in indexes.iter().zip(&starts) {
        let total = |start: &Start| start.open + start.search;
        println!(
            "| {size} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            median(usual, |start| start.open),
            median(usual, |start| start.search),
            median(usual, total),
            usual.iter().map(total).fold(0.0, f64::max),
            median(without, total),
        );
    }
    Ok(())
}

fn build(folder: &Path, size: usize) -> Outcome<()> {
    std::fs::create_dir_all(folder)?;
    let (engine, _) = Embedded::open(folder, settings(), LAST_OPERATION)?;
    for first in (0..size).step_by(BATCH) {
        let end = size.min(first + BATCH);
        engine.apply((first..end).map(corpus::put).collect(), end as u64)?;
    }
    engine.flush()?;
    Ok(engine.close()?)
}

fn start_process(folder: &Path) -> Outcome<Start> {
    let output = Command::new(std::env::current_exe()?).arg("--start").arg(folder).output()?;
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout)?)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into())
    }
}

fn settings() -> EngineSettings {
    EngineSettings {
        dimension: DIMENSION,
        language: Language::English,
        fingerprint: "bench".to_owned(),
        writer_memory_bytes: 50_000_000,
    }
}

/// Of the values of all starts; NaN of none.
fn median(starts: &[Start], value: impl Fn(&Start) -> f64) -> f64 {
    let mut values: Vec<f64> = starts.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
