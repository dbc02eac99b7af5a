//! `weir move`: changes the engine of a collection, and shows how much its results change by that.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use weir_api::{
    CollectionReply, CollectionSettings, CollectionStatus, EmbeddingChoice, EngineChoice, Mode, QueryReport,
};
use weir_client::{Client, QueryLogOptions, RetryPolicy};
use weir_eval::{Configuration, MeasureOptions, Overlap, Rankings};

use super::chat::relevance;
use super::collections::{ENGINES, engine_of, one_of};
use super::context::Context;
use super::failure::{Failure, Result};
use super::interrupt::cancelled_by_ctrl_c;
use super::missing::with_similar_name;
use super::progress::DocumentProgress;
use super::terminal::{Align, render_table};

/// Queries whose results are compared.
const QUERIES_MAX: usize = 100;
/// Queries that are shown, those with the least in common.
const SHOWN_MAX: usize = 10;
/// Characters of a query that are shown.
const QUERY_CHARS_MAX: usize = 80;
/// Results of a judged query that are measured.
const JUDGED_TOP_K: u64 = 10;
/// How often the gateway is asked how far it is, and how often that is printed.
const LOOK_EVERY: Duration = Duration::from_millis(300);
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The arguments of `weir move`.
#[derive(Debug, Args)]
pub struct MoveArguments {
    /// The collection's name.
    pub name: String,
    /// Where its index is to be.
    #[arg(long, value_name = "ENGINE", value_parser = one_of(ENGINES))]
    pub to: EngineChoice,
    /// A file with a query in each line, of which the first 100 are compared [default: the most frequent ones of the query log].
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,
    /// A folder with judged queries, as `weir eval` reads and `weir eval --draft` writes it: nDCG@10 is measured before and after.
    #[arg(long, value_name = "FOLDER")]
    pub judged: Option<PathBuf>,
    /// Move back, and exit with 1, if the first ten documents of the queries have less in common than this, from 0 to 1, in the mean.
    #[arg(long, value_name = "OVERLAP", value_parser = relevance)]
    pub overlap_min: Option<f32>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The result of a move.
struct Moved {
    from: EngineChoice,
    to: EngineChoice,
    took: Duration,
    overlap: Option<Overlap>,
    ndcg: Option<Ndcg>,
}

/// The mean nDCG@10 of judged queries, 0 to 1.
#[derive(Debug, PartialEq, Serialize)]
struct Ndcg {
    before: f64,
    after: f64,
}

/// Moves a collection, waits until its next index is complete, and prints what was found in both.
///
/// # Errors
/// When a call fails or a file can't be read, and [`Failure::Overlap`] after a collection was moved back.
pub async fn run(arguments: &MoveArguments, context: Context<'_>) -> Result<()> {
    let (once, config) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let moving = Moving {
        name: &arguments.name,
        patient: context.client(&config, RetryPolicy::LONG)?,
        once,
        cancelled: cancelled_by_ctrl_c(),
    };
    let collection = match moving.once.collection(moving.name).await {
        Ok(collection) => collection,
        Err(error) => return Err(with_similar_name(&moving.once, moving.name, error).await),
    };
    let moved = moving.compared(&collection, arguments).await?;
    let shown = match arguments.json {
        true => moved.to_json(moving.name),
        false => moved.render(moving.name),
    };
    writeln!(context.out, "{}", shown.trim_end())?;
    context.out.flush()?;
    let mean = moved.overlap.as_ref().map(|overlap| overlap.mean);
    match (arguments.overlap_min.map(f64::from), mean) {
        (Some(min), Some(mean)) if mean < min => {
            moving.move_to(&collection, moved.from).await?;
            let (name, engine) = (moving.name.to_owned(), <&str>::from(moved.from));
            Err(Failure::Overlap { name, engine, mean, min })
        }
        _ => Ok(()),
    }
}

/// A collection that is moved, and the clients for calls that are not repeated, and that are.
struct Moving<'a> {
    name: &'a str,
    once: Client,
    patient: Client,
    cancelled: CancellationToken,
}

impl Moving<'_> {
    /// Moves the collection, and searches before and after that.
    async fn compared(&self, collection: &CollectionReply, arguments: &MoveArguments) -> Result<Moved> {
        let (from, to, started) = (engine_of(collection), arguments.to, Instant::now());
        if from == to {
            // it may be on its way
            self.wait_for(to).await?;
            return Ok(Moved { from, to, took: started.elapsed(), overlap: None, ndcg: None });
        }
        let is_compared = collection.status != CollectionStatus::Unavailable;
        let queries = if is_compared {
            self.queries(arguments).await?
        } else {
            eprintln!("note: no results are compared: the engine of now does not answer");
            Vec::new()
        };
        if queries.is_empty() && arguments.overlap_min.is_some() {
            return Err(Failure::NoQueries);
        }
        let judged = arguments.judged.as_deref().filter(|_| is_compared);
        let before = Rankings::of(&self.patient, self.name, &queries).await?;
        let ndcg_before = self.ndcg(collection, judged).await?;
        let started = Instant::now();
        self.move_to(collection, to).await?;
        let took = started.elapsed();
        let after = Rankings::of(&self.patient, self.name, &queries).await?;
        let ndcg_after = self.ndcg(collection, judged).await?;
        let ndcg = ndcg_before.zip(ndcg_after).map(|(before, after)| Ndcg { before, after });
        Ok(Moved { from, to, took, overlap: before.overlap(after), ndcg })
    }

    /// nDCG@10 of the judged queries of a folder; `None` without one.
    async fn ndcg(&self, collection: &CollectionReply, folder: Option<&Path>) -> Result<Option<f64>> {
        let Some(folder) = folder else { return Ok(None) };
        let mode = match collection.settings.embedding {
            Some(EmbeddingChoice::None) => Mode::Lexical,
            None => Mode::Hybrid,
        };
        let configuration = Configuration::of_mode(mode);
        let options = MeasureOptions {
            folders: vec![folder.to_owned()],
            configurations: vec![configuration.clone()],
            top_k: JUDGED_TOP_K,
            collection: Some(self.name.to_owned()),
            ..MeasureOptions::default()
        };
        let mut progress = DocumentProgress::default();
        let report = weir_eval::measure(&options, &self.patient, &mut progress, &self.cancelled).await?;
        Ok(Some(report.ndcg(&configuration)))
    }

    /// The queries of a file, or else of the query log.
    async fn queries(&self, arguments: &MoveArguments) -> Result<Vec<String>> {
        let all = match arguments.queries.as_deref() {
            Some(file) => read_queries(file)?,
            None => {
                let (report, limit) = (Some(QueryReport::Popular), Some(QUERIES_MAX as u64));
                let options = QueryLogOptions { report, limit, ..QueryLogOptions::default() };
                let logged = self.once.logged_queries(self.name, options).await?;
                logged.into_iter().map(|logged| logged.query).collect()
            }
        };
        let mut queries: Vec<String> = all.into_iter().filter(|query| !query.trim().is_empty()).collect();
        if queries.is_empty() && arguments.judged.is_none() {
            eprintln!(
                "note: no results are compared: there are no queries; name a file with --queries, or have searches logged by `search.query_log`"
            );
        }
        if queries.len() > QUERIES_MAX {
            eprintln!("note: the first {QUERIES_MAX} of {} queries are compared", queries.len());
            queries.truncate(QUERIES_MAX);
        }
        Ok(queries)
    }

    /// Moves the collection, and waits until its next index is complete.
    async fn move_to(&self, collection: &CollectionReply, engine: EngineChoice) -> Result<()> {
        // those that are absent stay as they are
        let settings = CollectionSettings {
            engine: Some(engine),
            chunking: None,
            lexical: None,
            ..collection.settings.clone()
        };
        self.once.move_collection(self.name, &settings).await?;
        self.wait_for(engine).await
    }

    async fn wait_for(&self, engine: EngineChoice) -> Result<()> {
        let mut tell_at = Instant::now() + TELL_EVERY;
        loop {
            let now = self.patient.collection(self.name).await?;
            if engine_of(&now) != engine {
                let engine = <&str>::from(engine_of(&now));
                return Err(Failure::MovedElsewhere { name: self.name.to_owned(), engine });
            }
            if now.status == CollectionStatus::Ready {
                return Ok(());
            }
            if Instant::now() >= tell_at {
                tell_at = Instant::now() + TELL_EVERY;
                eprintln!("{}", progress(&now));
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.cancelled.cancelled() => {
                    eprintln!("note: the gateway goes on with the move; the same command waits for it, and moving back cancels it");
                    return Err(Failure::Interrupted);
                }
            }
        }
    }
}

impl Moved {
    fn to_json(&self, name: &str) -> String {
        let Moved { from, to, took, overlap, ndcg } = self;
        let seconds = took.as_secs_f64();
        json!({
            "collection": name, "from": from, "to": to, "took_s": seconds, "overlap": overlap, "ndcg_at_10": ndcg,
        })
        .to_string()
    }

    fn render(&self, name: &str) -> String {
        let Moved { from, to, took, overlap, ndcg } = self;
        let (from, to) = (<&str>::from(*from), <&str>::from(*to));
        if from == to {
            return format!("the index of `{name}` is in the engine {to}\n");
        }
        let mut shown =
            format!("moved the index of `{name}` from {from} to {to} in {:.1} s\n", took.as_secs_f64());
        if let Some(Ndcg { before, after }) = ndcg {
            shown.push_str(&format!("nDCG@10 of the judged queries: {before:.4} before, {after:.4} after\n"));
        }
        let Some(Overlap { mean, queries }) = overlap else { return shown };
        shown.push_str(&format!("overlap@10 of {} queries: {mean:.3}\n", queries.len()));
        let least = queries.iter().filter(|one| one.overlap < 1.0).take(SHOWN_MAX);
        let rows: Vec<_> = least.map(|one| [format!("{:.2}", one.overlap), beginning(&one.query)]).collect();
        if !rows.is_empty() {
            shown.push_str(&render_table([("OVERLAP", Align::Right), ("QUERY", Align::Left)], &rows));
        }
        shown
    }
}

/// The first characters of a query, for a line of the table.
fn beginning(query: &str) -> String {
    match query.char_indices().nth(QUERY_CHARS_MAX) {
        Some((end, _)) => format!("{}\u{2026}", &query[..end]),
        None => query.to_owned(),
    }
}

fn progress(now: &CollectionReply) -> String {
    match (now.status, now.rebuilt) {
        (CollectionStatus::Unavailable, _) => "the engine does not answer".to_owned(),
        (_, Some(part)) => format!("{:.0} % of the changes are in the next index", part * 100.0),
        (_, None) => "the next index is being built".to_owned(),
    }
}

fn read_queries(file: &Path) -> Result<Vec<String>> {
    let unreadable = |source| Failure::File { path: file.display().to_string(), source };
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_eval::QueryOverlap;

    #[test]
    fn the_queries_with_the_least_in_common_follow_the_mean() {
        let one = |query: &str, overlap| QueryOverlap { query: query.to_owned(), overlap };
        let long = "x".repeat(QUERY_CHARS_MAX + 1);
        let queries = vec![one(&long, 0.25), one("tall dam", 0.5), one("eel", 1.0)];
        let moved = |overlap| Moved {
            from: EngineChoice::Embedded,
            to: EngineChoice::Qdrant,
            took: Duration::from_millis(1240),
            overlap,
            ndcg: None,
        };
        let first = "moved the index of `notes` from embedded to qdrant in 1.2 s\n";
        assert_eq!(moved(None).render("notes"), first);
        assert_eq!(
            moved(Some(Overlap { mean: 0.625, queries })).render("notes"),
            format!(
                "{first}overlap@10 of 3 queries: 0.625\nOVERLAP  QUERY\n   0.25  {}\u{2026}\n   0.50  tall dam\n",
                "x".repeat(QUERY_CHARS_MAX)
            )
        );
        let json: serde_json::Value = serde_json::from_str(&moved(None).to_json("notes")).unwrap();
        assert_eq!((&json["to"], &json["overlap"]), (&json!("qdrant"), &json!(null)));
        let judged = Moved { ndcg: Some(Ndcg { before: 0.5, after: 0.4875 }), ..moved(None) };
        let line = "nDCG@10 of the judged queries: 0.5000 before, 0.4875 after\n";
        assert_eq!(judged.render("notes"), format!("{first}{line}"));
    }
}
