//! `weir ingest`: sends files as documents and waits until they are searchable.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use weir_api::ErrorCode;
use weir_client::{
    Client, ClientError, IngestOptions, IngestReport, ReadStep, Rejection, RetryPolicy, StepResult, ingest,
};

use super::context::Context;
use super::failure::{Failure, Result};
use super::interrupt::cancelled_by_ctrl_c;
use super::known_folders::{Destination, KnownFolders};
use super::progress::DocumentProgress;
use weir_sources::{Documents, FOLDER, LeftOut, MoreKinds, SourceFiles};

/// The arguments of `weir ingest`.
#[derive(Debug, Args)]
pub struct IngestArguments {
    /// Files, and folders to search for files.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// The collection to add the documents to.
    #[arg(long, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// Put this before the id of every document, such as `notes/`: before the path of its file, or the id that a line, row
    /// or object brings.
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Replace documents of other folders that have the same ids, and send folders although the collection has documents of
    /// others of their names. Without this they stay, and the new ones fail.
    #[arg(long)]
    pub replace: bool,
    /// Keep the files of documents in the gateway beside their text, such as PDF and Office files. GET …/original returns them.
    #[arg(long)]
    pub keep_originals: bool,
    /// Maximum documents per request.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// An address that the gateway calls when a job of this ingest has ended; each request makes one job.
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The effect of a file that was given itself, not with its folder: its folder is not known to the gateway.
const NAMED_FILES: &str = "a file that is given by its name replaces the file of that name from any other folder; --prefix keeps them apart";

/// Sends files to a gateway.
///
/// # Errors
/// When a call fails, and when some documents were rejected.
pub async fn run(arguments: &IngestArguments, context: Context<'_>) -> Result<()> {
    let (client, config) = context.connect(&arguments.url, RetryPolicy::LONG)?;
    let sources = find(&client, &arguments.paths, &arguments.prefix).await?;
    check_found(&sources, &arguments.paths)?;
    let (collection, prefix) = (&arguments.collection, &arguments.prefix);
    let url = &config.client_url();
    let to = Destination { client: &client, url, collection, prefix, deletes: false };
    let known = KnownFolders::of(context.environment);
    known.check(&to, &arguments.paths, arguments.replace).await?;
    known.record(&to, &arguments.paths, arguments.replace);
    let cancelled = cancelled_by_ctrl_c();
    let options = IngestOptions {
        collection: &arguments.collection,
        batch_documents_max: arguments.batch as usize,
        bytes_total: sources.bytes(),
        replace_if_equal: if arguments.replace { &[] } else { &[FOLDER] },
        keep_originals: arguments.keep_originals,
        webhook_url: arguments.webhook_url.as_deref(),
    };
    let has_named_files = sources.has_named_files();
    let (steps, left_out) = steps(sources);
    let report = ingest(&client, options, steps, &mut DocumentProgress::default(), &cancelled).await?;
    let left_out = LeftOut { empty: report.empty, ..left_out };
    if arguments.json {
        writeln!(context.out, "{}", summary_json(&report, &arguments.collection, &left_out))?;
    } else {
        context.out.write_all(summary(&report, &arguments.collection, &left_out).as_bytes())?;
        if has_named_files && report.changed > 0 {
            writeln!(context.out, "{NAMED_FILES}")?;
        }
    }
    context.out.flush()?;
    Ok(report.check_complete()?)
}

/// Finds the files that this gateway reads. It is asked only where there are files that not all gateways read.
pub(super) async fn find(client: &Client, paths: &[PathBuf], prefix: &str) -> Result<SourceFiles> {
    let sources = SourceFiles::find(paths, prefix);
    if sources.of_more_kinds.is_empty() {
        return Ok(sources);
    }
    Ok(SourceFiles::find_with(paths, prefix, more_kinds(client).await?))
}

/// The kinds that this gateway reads and others do not; none of a gateway that is too old to say so.
pub(super) async fn more_kinds(client: &Client) -> Result<MoreKinds, ClientError> {
    match client.formats().await {
        Ok(formats) => Ok(MoreKinds { archives: formats.archives, pictures: formats.pictures }),
        Err(ClientError::Refused { code: ErrorCode::RouteNotFound, .. }) => Ok(MoreKinds::default()),
        Err(error) => Err(error),
    }
}

/// Refuses to go on with nothing.
pub(super) fn check_found(sources: &SourceFiles, paths: &[PathBuf]) -> Result<(), Failure> {
    if !sources.is_empty() {
        return Ok(());
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Err(Failure::NothingFound { paths: paths.join(", "), left_out: sources.left_out.to_string() })
}

/// The steps of reading files, and the entries that are left out.
pub(super) fn steps(sources: SourceFiles) -> (impl Iterator<Item = ReadStep>, LeftOut) {
    let rejected = |rejection: Rejection| ReadStep {
        bytes: 0,
        place: rejection.name.clone(),
        result: StepResult::Rejected(rejection),
    };
    let steps = sources.rejections.into_iter().map(rejected).chain(Documents::of(sources.files));
    (steps, sources.left_out)
}

/// The result as fields.
pub(super) fn summary_json(report: &IngestReport, collection: &str, left_out: &LeftOut) -> Value {
    json!({
        "collection": collection, "documents": report.documents, "new": report.new, "changed": report.changed,
        "unchanged": report.unchanged, "chunks": report.chunks, "failed": report.rejections, "replaced": report.replaced,
        "left_out": left_out.files, "empty": left_out.empty, "jobs": report.jobs,
        "seconds": report.elapsed.as_secs_f64(),
    })
}

/// The result in a few lines.
pub(super) fn summary(report: &IngestReport, collection: &str, left_out: &LeftOut) -> String {
    let (count, seconds) = (report.documents, report.elapsed.as_secs_f64());
    let plural = if count == 1 { "" } else { "s" };
    let rate = count as f64 / seconds.max(1e-3);
    let mut lines = format!(
        "{count} document{plural} went into `{collection}` in {seconds:.1} s ({rate:.0} documents/s)\n\
         {} new, {} changed, {} unchanged, {} failed; {} chunks\n",
        report.new,
        report.changed,
        report.unchanged,
        report.rejections.len(),
        report.chunks
    );
    if report.replaced > 0 {
        lines.push_str(&format!("replaced by a later document with the same id: {}\n", report.replaced));
    }
    if !left_out.is_nothing() {
        lines.push_str(&format!("left out: {left_out}\n"));
    }
    lines
}
