//! Hybrid search with a ready query vector over real-size documents, in one thread.
//!
//! `cargo run --release -p weir-index --example bench_hybrid -- [--documents N] [--queries N] [--corpus FOLDER]
//! [--vectors FILE] [--folder FOLDER]`
//!
//! `--corpus` is a folder with `corpus.jsonl` (`title`, `text`), whose sentences are recombined into documents of real
//! size; without it, words are made up after Zipf's law. `--vectors` is a file of little-endian f32 rows of 384 values,
//! first those of the documents, then those of the queries; without it, clustered random vectors are made. The index
//! is built in one process and measured in a second, so that its memory can be told. Pin it with `taskset -c 3`.
#![allow(clippy::print_stdout, reason = "a program whose purpose is to print")]

mod corpus;
mod measure;
mod vectors;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use corpus::Corpus;
use measure::Query;
use vectors::Vectors;
use weir_index::{Change, Embedded, EngineSettings, IndexedChunk, IndexedDocument};
use weir_text::Language;

/// Values per embedding, as all-MiniLM-L6-v2 has them.
const DIMENSION: usize = 384;
/// Documents per batch while building.
const BATCH: usize = 1000;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

struct Arguments {
    documents: usize,
    queries: usize,
    corpus: Option<PathBuf>,
    vectors: Option<PathBuf>,
    folder: Option<PathBuf>,
    /// Set in the second process.
    measure: Option<PathBuf>,
}

fn main() -> Outcome<()> {
    let arguments = parse_arguments()?;
    match &arguments.measure {
        Some(folder) => measure::run(folder),
        None => build_and_measure(&arguments),
    }
}

fn parse_arguments() -> Outcome<Arguments> {
    let mut arguments = Arguments {
        documents: 50_000,
        queries: 2_000,
        corpus: None,
        vectors: None,
        folder: None,
        measure: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--documents" => arguments.documents = value.parse()?,
            "--queries" => arguments.queries = value.parse()?,
            "--corpus" => arguments.corpus = Some(value.into()),
            "--vectors" => arguments.vectors = Some(value.into()),
            "--folder" => arguments.folder = Some(value.into()),
            "--measure" => arguments.measure = Some(value.into()),
            _ => return Err(format!("unknown argument {name}, see the top of the source").into()),
        }
    }
    Ok(arguments)
}

fn build_and_measure(arguments: &Arguments) -> Outcome<()> {
    let temporary = tempfile::tempdir()?;
    let folder = arguments.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    let corpus = match &arguments.corpus {
        Some(folder) => Corpus::from_folder(folder)?,
        None => Corpus::synthetic(),
    };
    println!("texts: {}", corpus.origin);
    let vectors = match &arguments.vectors {
        Some(file) => Vectors::from_file(file, arguments.documents, arguments.queries)?,
        None => Vectors::clustered(arguments.documents, arguments.queries),
    };
    build(&folder, &corpus, &vectors)?;
    let texts = corpus.queries(arguments.queries);
    let queries: Vec<Query> = texts
        .into_iter()
        .zip(&vectors.queries)
        .map(|(text, vector)| Query { text, vector: vector.clone(), exact: vectors.nearest(vector, 10) })
        .collect();
    std::fs::write(folder.join("queries.json"), serde_json::to_vec(&queries)?)?;
    let compounds = corpus.compounds(arguments.queries);
    std::fs::write(folder.join("compounds.json"), serde_json::to_vec(&compounds)?)?;
    let status = Command::new(std::env::current_exe()?).arg("--measure").arg(&folder).status()?;
    if status.success() { Ok(()) } else { Err("the measuring process failed".into()) }
}

fn build(folder: &Path, corpus: &Corpus, vectors: &Vectors) -> Outcome<()> {
    let (engine, _) = open(folder)?;
    let mut characters = 0;
    let mut documents =
        corpus.documents().zip(&vectors.documents).enumerate().map(|(number, (text, vector))| {
            characters += text.body.len();
            let chunk = IndexedChunk {
                start: 0,
                end: text.body.len(),
                text: text.body,
                embedding: Some(vector.clone()),
            };
            Change::Put(IndexedDocument {
                id: format!("document-{number:07}"),
                version: 1,
                title: Some(text.title),
                metadata: format!("{{\"number\": {number}}}"),
                pages: None,
                chunks: vec![chunk],
            })
        });
    let mut seconds = 0.0;
    let mut count = 0;
    loop {
        let batch: Vec<Change> = documents.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        count += batch.len();
        let start = Instant::now();
        engine.apply(batch, count as u64)?;
        seconds += start.elapsed().as_secs_f64();
    }
    drop(documents);
    let start = Instant::now();
    engine.flush()?;
    println!(
        "indexing: {count} documents of {} bytes on average, {:.0} documents/s in durable batches of {BATCH}; merging after it {:.1} s",
        characters / count.max(1),
        count as f64 / seconds,
        start.elapsed().as_secs_f64(),
    );
    println!("disk: {} bytes per document", engine.disk_bytes()? / count.max(1) as u64);
    Ok(engine.close()?)
}

pub(crate) fn open(folder: &Path) -> Outcome<(Embedded, f64)> {
    let settings = EngineSettings {
        dimension: DIMENSION,
        language: Language::English,
        fingerprint: "bench".to_owned(),
        writer_memory_bytes: 50_000_000,
    };
    let start = Instant::now();
    let (engine, _) = Embedded::open(folder, settings, u64::MAX)?;
    Ok((engine, start.elapsed().as_secs_f64()))
}
