//! The index as one of the engines of `bench/search`, in process.
//!
//! `cargo run --release -p weir-index --example bench_search -- build --corpus FOLDER --index FOLDER --documents N
//! [--batch 1000] [--text-only]`
//! fills an index and prints `{"seconds":…,"settle_seconds":…,"disk_bytes":…}`; `serve --corpus FOLDER --index FOLDER
//! [--text-only]` reads a request a line from standard input and writes a reply a line:
//!
//! | request | reply |
//! |---|---|
//! | (at the start) | `{"detail":"avx2"}`: the queries are read, the index is not open |
//! | `{"command":"open"}` | `{"seconds":…,"documents":…,"segments":…}` |
//! | `{"command":"search","mode":"hybrid","below":null,"first":0,"count":100}` | `{"wall_ns":[…],"hits":[[…]…]}`: numbers of documents; `below`: only documents with `n` below it |
//! | `{"command":"throughput","mode":"hybrid","threads":4,"seconds":1.0}` | `{"searches":…,"seconds":…}` |
//! | `{"command":"workers","mode":"lexical","workers":100,"count":10000}` | `{"searches":…,"seconds":…}`: so many searches, divided among threads |
//! | `{"command":"parse","kind":"phrase","count":200}` | `{"wall_ns":[…]}`: parsing a query of a kind (`simple`, `phrase`, `negation`, `complex`) |
//! | `{"command":"parts","first":0,"count":100}` | `{"parts":{"select":[…],"lexical":[…],"dense":[…],"fuse":[…],"fetch":[…]}}`, nanoseconds of hybrid searches |
//! | `{"command":"fusion","length":1000,"count":200}` | `{"wall_ns":[…]}`: reciprocal rank of two lists of this length |
//!
//! What the peers' processes do, in `bench/search/worker.py`, is the same. The corpus is that of `bench/search/corpus.py`.
#![allow(clippy::print_stdout, reason = "replies go to standard output")]

mod corpus;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corpus::{DIMENSION, Documents, Queries};
use serde::{Deserialize, Serialize};
use weir_filter::{Comparison, Filter, Number, Test, Value};
use weir_index::{Change, Embedded, EngineSettings, IndexCounts, IndexQuery, IndexResult, RebuildReason};
use weir_policy::Caller;
use weir_ranking::RetrievalMode;
use weir_ranking::fusion::{self, ScoredDocument, WeightedRanking};
use weir_text::Language;

/// Documents per batch while building, unless `--batch` says otherwise.
const BATCH: usize = 1000;
/// Candidates of each retriever for the fusion, and returned hits.
const DEPTH: usize = 100;
const HITS: usize = 10;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Request {
    Open,
    Search { mode: RetrievalMode, below: Option<u32>, first: usize, count: usize },
    Throughput { mode: RetrievalMode, threads: usize, seconds: f64 },
    Workers { mode: RetrievalMode, workers: usize, count: usize },
    Parse { kind: ParsedKind, count: usize },
    Parts { first: usize, count: usize },
    Fusion { length: u32, count: usize },
}

/// Queries of which parsing is measured.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ParsedKind {
    Simple,
    Phrase,
    Negation,
    Complex,
}

impl ParsedKind {
    const fn text(self) -> &'static str {
        match self {
            ParsedKind::Simple => "solar panel efficiency",
            ParsedKind::Phrase => "\"solar panel\" efficiency",
            ParsedKind::Negation => "solar panel -wind",
            ParsedKind::Complex => "(solar OR wind) AND title:grid -\"coal plant\" effic*",
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Reply {
    Ready { detail: String },
    Built { seconds: f64, settle_seconds: f64, disk_bytes: u64 },
    Opened { seconds: f64, documents: u64, segments: usize },
    Searched { wall_ns: Vec<u64>, hits: Vec<Vec<u32>> },
    Answered { searches: u64, seconds: f64 },
    Parts { parts: BTreeMap<&'static str, Vec<u64>> },
    Times { wall_ns: Vec<u64> },
}

struct Options {
    corpus: PathBuf,
    index: PathBuf,
    documents: usize,
    batch: usize,
    text_only: bool,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let options = parse(arguments)?;
    match command.as_str() {
        "build" => reply(&build(&options)?),
        "serve" => serve(&options),
        other => Err(format!("no command is called `{other}`: `build` and `serve` are").into()),
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Outcome<Options> {
    let mut options = Options {
        corpus: PathBuf::new(),
        index: PathBuf::new(),
        documents: usize::MAX,
        batch: BATCH,
        text_only: false,
    };
    while let Some(name) = arguments.next() {
        if name == "--text-only" {
            options.text_only = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("`{name}` needs a value"))?;
        match name.as_str() {
            "--corpus" => options.corpus = value.into(),
            "--index" => options.index = value.into(),
            "--documents" => options.documents = value.parse()?,
            "--batch" => options.batch = value.parse::<usize>()?.max(1),
            _ => return Err(format!("no option is called `{name}`").into()),
        }
    }
    Ok(options)
}

fn open(options: &Options) -> Outcome<(Embedded, Option<RebuildReason>)> {
    let settings = EngineSettings {
        dimension: if options.text_only { 0 } else { DIMENSION },
        language: Language::English,
        fingerprint: "bench".to_owned(),
        writer_memory_bytes: 50_000_000,
    };
    Ok(Embedded::open(&options.index, settings, u64::MAX)?)
}

/// Applies all documents in durable batches. Reading them is no part of the time.
fn build(options: &Options) -> Outcome<Reply> {
    std::fs::create_dir_all(&options.index)?;
    let (engine, _) = open(options)?;
    let mut documents = Documents::open(&options.corpus, options.documents, !options.text_only)?;
    let (mut seconds, mut count) = (0.0, 0);
    loop {
        let batch: Vec<Change> = documents
            .by_ref()
            .take(options.batch)
            .map(|document| document.map(Change::Put))
            .collect::<Outcome<_>>()?;
        if batch.is_empty() {
            break;
        }
        count += batch.len() as u64;
        let start = Instant::now();
        engine.apply(batch, count)?;
        seconds += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    engine.flush()?;
    let settle_seconds = start.elapsed().as_secs_f64();
    let disk_bytes = engine.disk_bytes()?;
    engine.close()?;
    Ok(Reply::Built { seconds, settle_seconds, disk_bytes })
}

fn serve(options: &Options) -> Outcome<()> {
    let queries = Queries::read(&options.corpus)?;
    reply(&Reply::Ready { detail: format!("{:?}", weir_kernels::Kernels::current().isa).to_lowercase() })?;
    let mut searcher = None;
    for line in std::io::stdin().lock().lines() {
        let request = serde_json::from_str(&line?)?;
        let answer = match (request, &searcher) {
            (Request::Open, _) => {
                let start = Instant::now();
                let (engine, rebuilt) = open(options)?;
                if let Some(reason) = rebuilt {
                    return Err(format!("the index cannot be used: {reason:?}").into());
                }
                let seconds = start.elapsed().as_secs_f64();
                let IndexCounts { documents, segments, .. } = engine.counts();
                searcher = Some(Searcher { engine, queries: &queries });
                Reply::Opened { seconds, documents, segments }
            }
            (Request::Fusion { length, count }, _) => fuse(length, count),
            (Request::Parse { kind, count }, _) => parse_each(kind, count),
            (request, Some(searcher)) => searcher.answer(&request)?,
            (_, None) => return Err("the index is not open".into()),
        };
        reply(&answer)?;
    }
    Ok(())
}

fn reply(reply: &Reply) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, reply)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

struct Searcher<'a> {
    engine: Embedded,
    queries: &'a Queries,
}

impl Searcher<'_> {
    fn answer(&self, request: &Request) -> Outcome<Reply> {
        match *request {
            Request::Search { mode, below, first, count } => self.search_each(mode, below, first, count),
            Request::Throughput { mode, threads, seconds } => {
                self.throughput(mode, threads, u64::MAX, Duration::from_secs_f64(seconds))
            }
            Request::Workers { mode, workers, count } => {
                self.throughput(mode, workers, count as u64, Duration::MAX)
            }
            Request::Parts { first, count } => self.parts(first, count),
            Request::Open | Request::Fusion { .. } | Request::Parse { .. } => {
                unreachable!("answered before")
            }
        }
    }

    /// The requests as a caller would hold them: making them is no part of a search.
    fn requests(
        &self,
        mode: RetrievalMode,
        below: Option<u32>,
        first: usize,
        count: usize,
    ) -> Vec<IndexQuery> {
        let filter = below.map(|below| Filter::Condition {
            path: "n".to_owned(),
            test: Test::Compare(Comparison::Less, Value::Number(Number::Integer(below.into()))),
        });
        let request =
            |at: usize| IndexQuery { filter: filter.clone(), ..self.request(mode, at % self.queries.len()) };
        (first..first + count).map(request).collect()
    }

    fn request(&self, mode: RetrievalMode, at: usize) -> IndexQuery {
        let depth = if mode == RetrievalMode::Hybrid { DEPTH } else { HITS };
        let query = weir_query::parse_auto(&self.queries.texts[at], &weir_query::NoVocabulary).query;
        let embedding = self.queries.vectors[at].clone();
        IndexQuery { depth, ..IndexQuery::new(mode, Some(query), Some(embedding), HITS) }
    }

    fn search(&self, request: &IndexQuery) -> Outcome<IndexResult> {
        Ok(self.engine.search(&Caller::system(), request)?)
    }

    fn search_each(
        &self,
        mode: RetrievalMode,
        below: Option<u32>,
        first: usize,
        count: usize,
    ) -> Outcome<Reply> {
        let (mut wall_ns, mut hits) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for request in self.requests(mode, below, first, count) {
            let start = Instant::now();
            let found = self.search(&request)?;
            wall_ns.push(nanoseconds(start.elapsed()));
            hits.push(found.hits.iter().map(|hit| corpus::number(&hit.document_id)).collect::<Outcome<_>>()?);
        }
        Ok(Reply::Searched { wall_ns, hits })
    }

    /// All threads take the next query until the time is over or all `count` are taken.
    fn throughput(&self, mode: RetrievalMode, threads: usize, count: u64, time: Duration) -> Outcome<Reply> {
        let requests = self.requests(mode, None, 0, self.queries.len());
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let start = Instant::now();
        let work = || -> Outcome<()> {
            while start.elapsed() < time {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    break;
                }
                std::hint::black_box(self.search(&requests[at as usize % requests.len()])?);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err("a searching thread panicked".into()))
            })
        })?;
        Ok(Reply::Answered { searches: done.into_inner(), seconds: start.elapsed().as_secs_f64() })
    }

    fn parts(&self, first: usize, count: usize) -> Outcome<Reply> {
        let mut parts: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
        for request in self.requests(RetrievalMode::Hybrid, None, first, count) {
            let timings = self.search(&request)?.timings;
            let named = [
                ("select", timings.select),
                ("lexical", timings.lexical),
                ("dense", timings.dense),
                ("fuse", timings.fuse),
                ("fetch", timings.fetch),
            ];
            named.into_iter().for_each(|(name, time)| parts.entry(name).or_default().push(nanoseconds(time)));
        }
        Ok(Reply::Parts { parts })
    }
}

/// Parses the query of a kind again and again.
fn parse_each(kind: ParsedKind, count: usize) -> Reply {
    let wall_ns = (0..count)
        .map(|_| {
            let text = std::hint::black_box(kind.text());
            let start = Instant::now();
            let parsed = std::hint::black_box(weir_query::parse_auto(text, &weir_query::NoVocabulary));
            let time = nanoseconds(start.elapsed());
            drop(parsed);
            time
        })
        .collect();
    Reply::Times { wall_ns }
}

/// Two lists of which half is in both, merged.
fn fuse(length: u32, count: usize) -> Reply {
    let list = |first: u32, step: u32| -> Vec<ScoredDocument> {
        // an odd step visits every number of a power of two once, in no order
        (0..length)
            .map(|at| ScoredDocument {
                document: first + at.wrapping_mul(step) % length.next_power_of_two(),
                score: 1.0 / at.max(1) as f32,
            })
            .collect()
    };
    let (one, other) = (list(0, 7), list(length / 2, 11));
    let wall_ns = (0..count)
        .map(|_| {
            let rankings = [
                WeightedRanking { ranking: &one, weight: 1.0 },
                WeightedRanking { ranking: &other, weight: 1.0 },
            ];
            let start = Instant::now();
            std::hint::black_box(fusion::reciprocal_rank(&rankings, 60.0, HITS));
            nanoseconds(start.elapsed())
        })
        .collect();
    Reply::Times { wall_ns }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
