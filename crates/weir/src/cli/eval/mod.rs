//! `weir eval`: how well a gateway searches, by sets whose relevant documents people named.
//!
//! A set's documents go into a collection of their own, all its queries are asked through HTTP by every
//! configuration, and the scores are printed, compared, and judged.

mod ask;
mod bootstrap;
mod configuration;
mod dataset;
mod draft;
mod metrics;
mod minimum;
mod run_file;
mod table;

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use weir_api::Mode;

use super::arguments::{EvalArguments, SearchMode};
use super::client::{Client, ClientError};
use super::failure::Failure;
use super::interrupt;
use ask::Target;
use configuration::Configuration;
use dataset::EvaluationSet;
use minimum::Reached;
use run_file::{Comparison, Run};
use weir_config::Environment;

pub use configuration::{FusionArgument, LateInteractionArgument, RerankArgument};
pub use minimum::Minimum;

/// Why a set can't be measured or drafted.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A file can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file can't be written.
    #[error("{} can't be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of a file makes no sense.
    #[error("{}, line {number}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        number: usize,
        /// What is wrong.
        message: String,
    },
    /// There is no file of judgments, or there are several.
    #[error("{} {}", folder.display(), no_qrels(splits))]
    NoQrels {
        /// The folder.
        folder: PathBuf,
        /// The splits that are there.
        splits: Vec<String>,
    },
    /// Judgments of queries that are not there.
    #[error("{} judges {count} queries that are not in queries.jsonl, such as `{example}`", folder.display())]
    MissingQueries {
        /// The folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// One of them.
        example: String,
    },
    /// No query has a relevant document.
    #[error("{} has no query with a relevant document", folder.display())]
    NothingJudged {
        /// The folder.
        folder: PathBuf,
    },
    /// No relevant document is there, so that every score would be 0.
    #[error("none of the {count} documents that `{set}` calls relevant is in {place}")]
    NoRelevantDocument {
        /// The set.
        set: String,
        /// How many it calls relevant.
        count: usize,
        /// Where they were looked for.
        place: String,
    },
    /// Two folders of one name would be one row.
    #[error("two sets are called `{0}`; rename one of the folders")]
    Namesakes(String),
    /// One collection can't hold several sets.
    #[error("--collection goes with one folder; leave it out, and each set gets a collection of its own")]
    OneCollection,
    /// A query could not be asked.
    #[error("query {name}: {source}")]
    Query {
        /// The set and the query's id.
        name: String,
        /// What happened.
        source: Box<ClientError>,
    },
    /// The baseline is no run file.
    #[error("{} is no run file: {reason}", path.display())]
    NoRunFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The baseline was measured on other sets or configurations.
    #[error("the baseline does not have {what}")]
    NotInBaseline {
        /// What is missing.
        what: String,
    },
    /// The baseline was measured with other queries.
    #[error("the baseline has other queries of `{set}`")]
    OtherQueries {
        /// The set.
        set: String,
    },
    /// A set was named that is not measured.
    #[error("no set is called `{set}`; there are: {known}")]
    NoSet {
        /// The name.
        set: String,
        /// Those that are.
        known: String,
    },
    /// A configuration was named that is not measured.
    #[error("no configuration is called `{label}`; there are: {known}")]
    NoConfiguration {
        /// The label.
        label: String,
        /// Those that are.
        known: String,
    },
    /// A draft would replace a set.
    #[error("{} is there already; name a new folder for the draft", path.display())]
    DraftExists {
        /// The file that would be replaced.
        path: PathBuf,
    },
    /// A collection gives no queries.
    #[error(
        "no query can be drafted from the collection `{collection}`: its documents have neither titles nor sentences that name them"
    )]
    NothingToDraft {
        /// The collection.
        collection: String,
    },
}

fn no_qrels(splits: &[String]) -> String {
    match splits {
        [] => "has no judgments: neither qrels.tsv nor a qrels folder".to_owned(),
        splits => format!("has no judgments of that --split; there are: {}", splits.join(", ")),
    }
}

impl EvalError {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            EvalError::Query { source, .. } => source.hint(),
            EvalError::NoQrels { splits, .. } if !splits.is_empty() => {
                Some("choose one with --split".to_owned())
            }
            EvalError::NotInBaseline { .. } | EvalError::OtherQueries { .. } => {
                Some("measure the baseline anew with --out, over the same folders".to_owned())
            }
            EvalError::NothingToDraft { .. } => {
                Some("send feedback with `POST /v1/feedback`, and draft again".to_owned())
            }
            EvalError::NoRelevantDocument { .. } => Some(
                "compare the ids in the judgments with those of the documents, and see which collection --collection names"
                    .to_owned(),
            ),
            EvalError::Read { .. }
            | EvalError::Write { .. }
            | EvalError::Line { .. }
            | EvalError::NoQrels { .. }
            | EvalError::MissingQueries { .. }
            | EvalError::NothingJudged { .. }
            | EvalError::Namesakes(_)
            | EvalError::OneCollection
            | EvalError::NoRunFile { .. }
            | EvalError::NoSet { .. }
            | EvalError::NoConfiguration { .. }
            | EvalError::DraftExists { .. } => None,
        }
    }
}

/// Everything that is printed.
struct Outcome {
    run: Run,
    /// What the differences are to: the baseline's file, or a configuration.
    other: String,
    differences: Vec<Comparison>,
    minima: Vec<Reached>,
    /// What is not good enough, in words.
    below: Vec<String>,
}

/// Measures sets, or drafts one.
///
/// # Errors
/// When something can't be read, written or asked; and [`Failure::Quality`] when everything was measured and is below
/// what was asked for.
pub fn run(
    arguments: &EvalArguments,
    file: Option<PathBuf>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (client, config) = Client::configured(arguments.url.clone(), file, environment)?;
    if let Some(name) = &arguments.collection {
        let refused = |invalid: weir_api::Invalid| ClientError::Refused {
            code: invalid.code,
            message: invalid.message,
        };
        weir_api::check_collection_name(name).map_err(refused)?;
    }
    if arguments.draft {
        return draft::run(arguments, &client, config.collections.language, out);
    }
    // everything that can be wrong with the arguments, before minutes of work
    let baseline = arguments.baseline.as_deref().map(Run::load).transpose()?;
    let sets = load_sets(arguments)?;
    let configurations = configurations(arguments);
    check_against_names(arguments, &sets, &configurations)?;
    interrupt::listen();
    let target =
        Target { client: &client, collection: arguments.collection.as_deref(), is_kept: arguments.keep };
    let mut run = Run { top_k: arguments.top_k, sets: Vec::new() };
    for set in &sets {
        run.sets.push(target.measure(set, &configurations, arguments.top_k)?);
    }
    if let Some(path) = &arguments.out {
        run.save(path)?;
    }
    let outcome = Outcome::judge(run, arguments, baseline.as_ref())?;
    let text = if arguments.json { table::json(&outcome) } else { table::render(&outcome) };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    if outcome.below.is_empty() { Ok(()) } else { Err(Failure::Quality(outcome.below.join("; "))) }
}

fn load_sets(arguments: &EvalArguments) -> Result<Vec<EvaluationSet>, EvalError> {
    if arguments.collection.is_some() && arguments.folders.len() > 1 {
        return Err(EvalError::OneCollection);
    }
    let load = |folder: &PathBuf| EvaluationSet::load(folder, arguments.split.as_deref());
    let sets = arguments.folders.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let mut names = HashSet::new();
    match sets.iter().find(|set| !names.insert(set.name.as_str())) {
        Some(set) => Err(EvalError::Namesakes(set.name.clone())),
        None => Ok(sets),
    }
}

/// The modes, each once, and hybrid searches by the fusions, rerankers and weights of late interaction.
fn configurations(arguments: &EvalArguments) -> Vec<Configuration> {
    let mode = |mode: &SearchMode| match mode {
        SearchMode::Hybrid => Mode::Hybrid,
        SearchMode::Lexical => Mode::Lexical,
        SearchMode::Dense => Mode::Dense,
    };
    let modes = arguments.mode.iter().map(|typed| Configuration::of_mode(mode(typed)));
    let mut seen = HashSet::new();
    modes
        .chain(arguments.fusion.iter().map(Configuration::of_fusion))
        .chain(arguments.rerank.iter().map(Configuration::of_rerank))
        .chain(arguments.late_interaction.iter().map(Configuration::of_late_interaction))
        .filter(|configuration| seen.insert(configuration.label.clone()))
        .collect()
}

/// Tries the names in `--min-ndcg` and `--against` on a run without scores.
fn check_against_names(
    arguments: &EvalArguments,
    sets: &[EvaluationSet],
    configurations: &[Configuration],
) -> Result<(), EvalError> {
    let configuration = |one: &Configuration| run_file::ConfigurationRun {
        configuration: one.label.clone(),
        queries: Default::default(),
    };
    let set = |set: &EvaluationSet| run_file::SetRun {
        set: set.name.clone(),
        configurations: configurations.iter().map(configuration).collect(),
    };
    let run = Run { top_k: arguments.top_k, sets: sets.iter().map(set).collect() };
    for minimum in &arguments.min_ndcg {
        minimum.judge(&run)?;
    }
    arguments.against.as_deref().map(|label| run.against_configuration(label)).transpose()?;
    Ok(())
}

impl Outcome {
    fn judge(run: Run, arguments: &EvalArguments, baseline: Option<&Run>) -> Result<Outcome, EvalError> {
        let minima =
            arguments.min_ndcg.iter().map(|minimum| minimum.judge(&run)).collect::<Result<Vec<_>, _>>()?;
        let mut below: Vec<String> =
            minima.iter().filter(|one| !one.is_reached).map(Reached::in_words).collect();
        let (mut other, mut differences) = (String::new(), Vec::new());
        if let Some(baseline) = baseline {
            other = arguments.baseline.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            differences = run.against_baseline(baseline)?;
            let worse = Comparison::verdicts(&differences).filter(|row| row.difference.is_worse());
            below.extend(worse.map(Comparison::in_words));
        } else if let Some(label) = &arguments.against {
            other = label.clone();
            differences = run.against_configuration(label)?;
        }
        Ok(Outcome { run, other, differences, minima, below })
    }
}
