//! Prints what the estimate of relevance sees of searches over an index folder, for `scripts/relevance.py`.
//!
//! `relevance_features FOLDER DIMENSION FINGERPRINT < searches > hits`: each line of the input is `{"query": text,
//! "embedding": [numbers]}`, each line of the output `{"hybrid": [hits], "dense": [hits], "lexical": [hits],
//! "best_cosine": number, "shape": [cosine, drop]}`, where a hit is `[document id, nearness, gap, share, exactness]`. The gateway has
//! to be stopped: an index has one owner.

use std::error::Error;
use std::io::{BufRead as _, Write as _};

use serde::Deserialize;
use weir_index::{Embedded, EngineSettings, IndexQuery, IndexResult, RetrieverRanking};
use weir_policy::Caller;
use weir_query::Query;
use weir_ranking::RetrievalMode;
use weir_ranking::fusion::ScoredDocument;
use weir_ranking::relevance::{Exactness, RankedList, ScoreProfile};
use weir_text::Language;

const DEPTH: usize = 100;
const HITS: usize = 10;

#[derive(Deserialize)]
struct Search {
    query: String,
    embedding: Vec<f32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, dimension, fingerprint] = arguments.as_slice() else {
        return Err("usage: relevance_features FOLDER DIMENSION FINGERPRINT < searches > hits".into());
    };
    let settings = EngineSettings {
        dimension: dimension.parse()?,
        language: Language::English,
        fingerprint: fingerprint.clone(),
        writer_memory_bytes: 0,
    };
    let (engine, rebuilt) = Embedded::open(folder.as_ref(), settings, u64::MAX)?;
    if let Some(reason) = rebuilt {
        return Err(format!("the index could not be used and was emptied: {reason}").into());
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let search: Search = serde_json::from_str(&line?)?;
        let (hybrid, lexical, dense) = (
            run(&engine, &search, RetrievalMode::Hybrid)?,
            run(&engine, &search, RetrievalMode::Lexical)?,
            run(&engine, &search, RetrievalMode::Dense)?,
        );
        let best_cosine = dense.dense.best.first().map(|best| best.score);
        let shape = shape(&hybrid);
        let line = serde_json::json!({
            "hybrid": hits(&hybrid), "lexical": hits(&lexical), "dense": hits(&dense), "best_cosine": best_cosine,
            "shape": [shape.cosine, shape.drop]
        });
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

fn run(engine: &Embedded, search: &Search, mode: RetrievalMode) -> Result<IndexResult, Box<dyn Error>> {
    let query = Some(Query::Words(search.query.clone()));
    let embedding = Some(search.embedding.clone());
    let request = IndexQuery { depth: DEPTH, ..IndexQuery::new(mode, query, embedding, HITS) };
    Ok(engine.search(&Caller::system(), &request)?)
}

fn hits(reply: &IndexResult) -> Vec<(&str, f32, f32, f32, Exactness)> {
    let judged = reply.hits.iter().filter_map(|hit| Some((hit.document_id.as_str(), hit.features?)));
    judged.map(|(id, hit)| (id, hit.nearness, hit.gap, hit.share, hit.exactness)).collect()
}

fn shape(reply: &IndexResult) -> ScoreProfile {
    let scored = |ranking: &RetrieverRanking| -> Vec<ScoredDocument> {
        (0..)
            .zip(&ranking.best)
            .map(|(document, one)| ScoredDocument { document, score: one.score })
            .collect()
    };
    let (lexical, dense) = (scored(&reply.lexical), scored(&reply.dense));
    // a truncated ranking has more than ten hits
    let retriever = |ranking| RankedList { ranking, is_truncated: false };
    ScoreProfile::of(Some(retriever(lexical.as_slice())), Some(retriever(dense.as_slice())))
}
