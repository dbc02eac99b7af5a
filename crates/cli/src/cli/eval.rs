//! `weir eval`.

use std::collections::HashSet;
use std::io::Write;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weir_client::{Client, ClientError, RetryPolicy};
use weir_eval::{Configuration, DraftOptions, EvalError, MeasureOptions};
use weir_text::Language;

use super::arguments::{EvalArguments, SearchMode};
use super::context::Context;
use super::failure::{Failure, Result};
use super::interrupt::cancelled_by_ctrl_c;
use super::progress::DocumentProgress;

/// Measures sets, or drafts one.
///
/// # Errors
/// When a file can't be read or written, or a call fails; and [`Failure::Quality`] when everything was measured and a
/// score is below its minimum or worse than the baseline.
pub async fn run(arguments: &EvalArguments, context: Context<'_>) -> Result<()> {
    let (client, config) = context.connect(&arguments.url, RetryPolicy::LONG)?;
    let out = context.out;
    if let Some(name) = &arguments.collection {
        let refused = |invalid: weir_api::Invalid| ClientError::Refused {
            code: invalid.code,
            message: invalid.message,
        };
        weir_api::check_collection_name(name).map_err(refused)?;
    }
    let cancelled = cancelled_by_ctrl_c();
    if arguments.draft {
        return draft(arguments, &client, config.collections.language, &cancelled, out).await;
    }
    let options = measure_options(arguments);
    let mut progress = DocumentProgress::default();
    let report = weir_eval::measure(&options, &client, &mut progress, &cancelled).await?;
    let text = if arguments.json { report.to_json() } else { report.render() };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    if report.shortfalls().is_empty() {
        Ok(())
    } else {
        Err(Failure::Quality(report.shortfalls().join("; ")))
    }
}

fn measure_options(arguments: &EvalArguments) -> MeasureOptions {
    MeasureOptions {
        folders: arguments.folders.clone(),
        split: arguments.split.clone(),
        configurations: configurations(arguments),
        top_k: arguments.top_k,
        collection: arguments.collection.clone(),
        keep_collection: arguments.keep,
        baseline: arguments.baseline.clone(),
        against: arguments.against.clone(),
        min_ndcg: arguments.min_ndcg.clone(),
        out: arguments.out.clone(),
    }
}

/// The configurations of all flags, each label once.
fn configurations(arguments: &EvalArguments) -> Vec<Configuration> {
    let modes = arguments.mode.iter().map(|mode| Configuration::of_mode(SearchMode::to_api(*mode)));
    let hybrid = [&arguments.fusion, &arguments.rerank, &arguments.late_interaction];
    let mut labels = HashSet::new();
    modes
        .chain(arguments.unsmoothed.then(Configuration::unsmoothed))
        .chain(hybrid.into_iter().flatten().cloned())
        .filter(|configuration| labels.insert(configuration.label().to_owned()))
        .collect()
}

async fn draft(
    arguments: &EvalArguments,
    client: &Client,
    language: Language,
    cancelled: &CancellationToken,
    out: &mut dyn Write,
) -> Result<()> {
    let ([folder], Some(collection)) = (arguments.folders.as_slice(), arguments.collection.as_deref()) else {
        return Err(EvalError::OneCollection.into());
    };
    let options = DraftOptions { folder, collection, language, queries_max: arguments.queries };
    let drafted = weir_eval::draft(options, client, cancelled).await?;
    if arguments.json {
        let shown = json!({
            "folder": folder, "documents": drafted.documents,
            "queries": drafted.from_documents + drafted.from_feedback, "from_feedback": drafted.from_feedback,
        });
        writeln!(out, "{shown}")?;
    } else {
        writeln!(
            out,
            "{}: {} documents, {} queries drafted from them and {} from feedback",
            folder.display(),
            drafted.documents,
            drafted.from_documents,
            drafted.from_feedback
        )?;
    }
    Ok(())
}
