//! Retrieval quality: measures a running gateway on evaluation sets, and drafts such sets from its documents.
//!
//! A set has documents, queries, and judgments that say which documents are relevant to a query. Its documents go into a
//! collection of their own, every configuration answers every query over HTTP, and the scores of the rankings are
//! reported, compared with a baseline and checked against minima. Rankings of one collection before and after a change can be compared too.

#![forbid(unsafe_code)]

mod bootstrap;
mod configuration;
mod dataset;
mod draft;
mod error;
mod measure;
mod metrics;
mod minimum;
mod overlap;
mod report;
mod run_file;

use std::collections::HashSet;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;
use weir_client::{Client, IngestProgress};

use dataset::EvaluationSet;
use measure::MeasuredTarget;
use run_file::{ConfigurationRun, Run, SetRun};

pub use configuration::Configuration;
pub use draft::{Draft, DraftOptions, draft};
pub use error::{EvalError, Result};
pub use minimum::Minimum;
pub use overlap::{Overlap, QueryOverlap, Rankings};
pub use report::Report;

/// The configurations to measure, and the baseline to compare with.
#[derive(Debug, Default)]
pub struct MeasureOptions {
    /// The folders of the sets.
    pub folders: Vec<PathBuf>,
    /// The file of judgments in a folder `qrels`, without its extension: `test` or the only file when absent.
    pub split: Option<String>,
    /// The ways to search.
    pub configurations: Vec<Configuration>,
    /// Results per search. Recall is measured at this rank.
    pub top_k: u64,
    /// An existing collection to search, or the name of the collection to create.
    pub collection: Option<String>,
    /// Whether a created collection is kept.
    pub keep_collection: bool,
    /// The run file to compare with.
    pub baseline: Option<PathBuf>,
    /// The label of the configuration to compare with.
    pub against: Option<String>,
    /// The required scores.
    pub min_ndcg: Vec<Minimum>,
    /// The run file to write.
    pub out: Option<PathBuf>,
}

/// Measures every configuration on every set.
///
/// # Errors
/// When a file can't be read or written, a call fails, or `cancelled` is set. Scores below a minimum or the baseline are
/// not an error: see [`Report::shortfalls`].
pub async fn measure(
    options: &MeasureOptions,
    client: &Client,
    progress: &mut dyn IngestProgress,
    cancelled: &CancellationToken,
) -> Result<Report> {
    // find every mistake in the arguments before minutes of work
    let baseline = options.baseline.as_deref().map(Run::load).transpose()?;
    let sets = load_sets(options)?;
    check_names(options, &sets)?;
    let mut target = MeasuredTarget {
        client,
        collection: options.collection.as_deref(),
        keep_collection: options.keep_collection,
        configurations: &options.configurations,
        top_k: options.top_k,
        progress,
        cancelled,
    };
    let mut run = Run { top_k: options.top_k, sets: Vec::new() };
    for set in &sets {
        run.sets.push(target.measure(set).await?);
    }
    if let Some(path) = &options.out {
        run.save(path)?;
    }
    Report::new(run, options, baseline.as_ref())
}

fn load_sets(options: &MeasureOptions) -> Result<Vec<EvaluationSet>> {
    if options.collection.is_some() && options.folders.len() > 1 {
        return Err(EvalError::OneCollection);
    }
    let load = |folder: &PathBuf| EvaluationSet::load(folder, options.split.as_deref());
    let sets = options.folders.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let mut names = HashSet::new();
    match sets.iter().find(|set| !names.insert(set.name.as_str())) {
        Some(set) => Err(EvalError::DuplicateName(set.name.clone())),
        None => Ok(sets),
    }
}

/// Checks the names of sets and configurations in the options, on a run without scores.
fn check_names(options: &MeasureOptions, sets: &[EvaluationSet]) -> Result<()> {
    let configuration = |one: &Configuration| ConfigurationRun {
        configuration: one.label().to_owned(),
        queries: Default::default(),
    };
    let set = |set: &EvaluationSet| SetRun {
        set: set.name.clone(),
        configurations: options.configurations.iter().map(configuration).collect(),
    };
    let run = Run { top_k: options.top_k, sets: sets.iter().map(set).collect() };
    for minimum in &options.min_ndcg {
        minimum.check(&run)?;
    }
    options.against.as_deref().map(|label| run.compare_with_configuration(label)).transpose()?;
    Ok(())
}
