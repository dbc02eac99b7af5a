//! `weir ingest`: sends files as documents and waits until they are searchable.

use std::io::Write;

use serde_json::json;
use weir_client::{IngestOptions, IngestReport, ReadStep, RetryPolicy, StepResult, ingest};

use super::arguments::IngestArguments;
use super::context::Context;
use super::failure::{Failure, Result};
use super::interrupt::cancelled_by_ctrl_c;
use super::progress::DocumentProgress;
use super::sources::{Documents, SourceFiles};

/// Sends files to a gateway.
///
/// # Errors
/// When a call fails, and when some documents were rejected.
pub async fn run(arguments: &IngestArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::LONG)?;
    let sources = SourceFiles::find(&arguments.paths);
    if sources.files.is_empty() && sources.rejections.is_empty() {
        let paths: Vec<String> = arguments.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::NothingFound(paths.join(", ")));
    }
    let cancelled = cancelled_by_ctrl_c();
    let options = IngestOptions {
        collection: &arguments.collection,
        batch_documents_max: arguments.batch as usize,
        bytes_total: sources.bytes(),
    };
    let rejected = |rejection| ReadStep { bytes: 0, result: StepResult::Rejected(rejection) };
    let steps = sources.rejections.into_iter().map(rejected).chain(Documents::of(sources.files));
    let report = ingest(&client, options, steps, &mut DocumentProgress::default(), &cancelled).await?;
    print(&report, arguments, sources.other_files, context.out)?;
    context.out.flush()?;
    Ok(report.check_complete()?)
}

fn print(
    report: &IngestReport,
    arguments: &IngestArguments,
    other_files: u64,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let (collection, seconds) = (&arguments.collection, report.elapsed.as_secs_f64());
    if arguments.json {
        let shown = json!({
            "collection": collection, "documents": report.documents, "failed": report.rejections,
            "empty": report.empty, "other_files": other_files, "jobs": report.jobs, "seconds": seconds,
        });
        return writeln!(out, "{shown}");
    }
    let rate = report.documents as f64 / seconds.max(1e-3);
    let (count, plural) = (report.documents, if report.documents == 1 { "" } else { "s" });
    writeln!(
        out,
        "{count} document{plural} went into `{collection}` in {seconds:.1} s ({rate:.0} documents/s)"
    )?;
    for (count, reason) in [(report.empty, "were empty"), (other_files, "are of other kinds")] {
        if count > 0 {
            writeln!(out, "left out: {count} files or lines that {reason}")?;
        }
    }
    Ok(())
}
