//! The second process: opens the index and asks it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_index::{CpuLimiter, Embedded, EmbeddedEngine, Engine, IndexQuery, IndexResult};
use weir_policy::Caller;
use weir_ranking::RetrievalMode;

use crate::{Outcome, open};

/// A query and the numbers of the ten documents that are nearest to its vector.
#[derive(Serialize, Deserialize)]
pub(crate) struct Query {
    pub(crate) text: String,
    pub(crate) vector: Vec<f32>,
    pub(crate) exact: Vec<usize>,
}

pub(crate) fn run(folder: &Path) -> Outcome<()> {
    let queries: Vec<Query> = serde_json::from_slice(&std::fs::read(folder.join("queries.json"))?)?;
    let texts: Vec<String> = serde_json::from_slice(&std::fs::read(folder.join("compounds.json"))?)?;
    let before = Memory::now()?;
    let (engine, seconds) = open(folder)?;
    let documents = engine.counts().documents;
    println!(
        "opened {documents} documents in {seconds:.2} s with every checksum verified; {} lexical segments, kernels {:?}",
        engine.counts().segments,
        weir_kernels::Kernels::current().isa
    );
    let opened = Memory::now()?;
    for _ in 0..2 {
        println!("{:<34}{:>9}{:>9}{:>9}  us", "", "p50", "p95", "p99");
        search_all(&engine, &queries)?;
        legs_alone(&engine, &queries)?;
        compounds(&engine, &texts)?;
    }
    through_the_engine(&engine, &queries)?;
    println!("recall@10 of the dense retriever against exact f32: {:.5}", recall(&engine, &queries)?);
    let warm = Memory::now()?;
    let per_document = |bytes: u64, before: u64| bytes.saturating_sub(before) / documents.max(1);
    println!(
        "resident bytes per document: {} after opening, {} warm (of which {} anonymous, {} of mapped files); id table {}",
        per_document(opened.total(), before.total()),
        per_document(warm.total(), before.total()),
        per_document(warm.anonymous, before.anonymous),
        per_document(warm.files, before.files),
        engine.table_bytes() as u64 / documents.max(1),
    );
    Ok(())
}

fn request(query: &Query, mode: RetrievalMode, depth: usize, limit: usize) -> IndexQuery {
    let (text, embedding) = (query.text.clone(), Some(query.vector.clone()));
    IndexQuery { depth, ..IndexQuery::new(mode, Some(weir_query::Query::Words(text)), embedding, limit) }
}

fn search(engine: &Embedded, request: &IndexQuery) -> Outcome<IndexResult> {
    Ok(engine.search(&Caller::system(), request)?)
}

/// Hybrid top 10 of depth 100, and where its time goes.
fn search_all(engine: &Embedded, queries: &[Query]) -> Outcome<()> {
    let mut times: [Vec<Duration>; 5] = Default::default();
    for query in queries {
        let request = request(query, RetrievalMode::Hybrid, 100, 10);
        let start = Instant::now();
        let reply = search(engine, &request)?;
        let parts = [reply.timings.lexical, reply.timings.dense, reply.timings.fuse, reply.timings.fetch];
        times[0].push(start.elapsed());
        times[1..].iter_mut().zip(parts).for_each(|(times, part)| times.push(part));
    }
    let names = ["hybrid, depth 100, 10 hits", "  lexical", "  dense", "  fusion", "  texts"];
    names.iter().zip(&mut times).for_each(|(name, times)| print_percentiles(name, times));
    Ok(())
}

/// Each retriever alone, without fetching texts.
fn legs_alone(engine: &Embedded, queries: &[Query]) -> Outcome<()> {
    for (name, mode, depth) in [
        ("lexical alone, top 10", RetrievalMode::Lexical, 10),
        ("lexical alone, top 100", RetrievalMode::Lexical, 100),
        ("scan alone, top 10", RetrievalMode::Dense, 10),
        ("scan alone, top 100", RetrievalMode::Dense, 100),
    ] {
        let mut times = Vec::new();
        for query in queries {
            let request = request(query, mode, depth, 0);
            let start = Instant::now();
            search(engine, &request)?;
            times.push(start.elapsed());
        }
        print_percentiles(name, &mut times);
    }
    Ok(())
}

/// The lexical retriever alone, for queries with identifiers.
fn compounds(engine: &Embedded, texts: &[String]) -> Outcome<()> {
    for (name, depth) in [("lexical, identifiers, top 10", 10), ("lexical, identifiers, top 100", 100)] {
        let mut times = Vec::new();
        for text in texts {
            let query = weir_query::Query::Words(text.clone());
            let request =
                IndexQuery { depth, ..IndexQuery::new(RetrievalMode::Lexical, Some(query), None, 0) };
            let start = Instant::now();
            search(engine, &request)?;
            times.push(start.elapsed());
        }
        if !times.is_empty() {
            print_percentiles(name, &mut times);
        }
    }
    Ok(())
}

/// The same search as the gateway makes it.
fn through_the_engine(engine: &Embedded, queries: &[Query]) -> Outcome<()> {
    let limiter = CpuLimiter::start(1, || ())?;
    let engine = Engine::Embedded(EmbeddedEngine::of(engine.clone(), limiter));
    let caller = Caller::system();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut times = Vec::new();
    for query in queries {
        let request = request(query, RetrievalMode::Hybrid, 100, 10);
        let start = Instant::now();
        runtime.block_on(engine.search(&caller, request))?;
        times.push(start.elapsed());
    }
    print_percentiles("hybrid through the async engine", &mut times);
    Ok(())
}

fn recall(engine: &Embedded, queries: &[Query]) -> Outcome<f64> {
    let (mut found, mut wanted) = (0u32, 0u32);
    for query in queries {
        let hits = search(engine, &request(query, RetrievalMode::Dense, 100, query.exact.len()))?.hits;
        let exact: Vec<String> = query.exact.iter().map(|number| format!("document-{number:07}")).collect();
        found += hits.iter().filter(|hit| exact.contains(&hit.document_id)).count() as u32;
        wanted += exact.len() as u32;
    }
    Ok(f64::from(found) / f64::from(wanted.max(1)))
}

fn print_percentiles(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!("{name:<34}{:>9.1}{:>9.1}{:>9.1}", at(0.5), at(0.95), at(0.99));
}

/// Resident bytes of this process.
struct Memory {
    anonymous: u64,
    files: u64,
}

impl Memory {
    fn now() -> Outcome<Memory> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let bytes = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap_or("");
            line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or(0) * 1024
        };
        Ok(Memory { anonymous: bytes("RssAnon"), files: bytes("RssFile") })
    }

    fn total(&self) -> u64 {
        self.anonymous + self.files
    }
}
