//! `weir sync`: makes a collection show a folder.
//!
//! Everything is sent as by `weir ingest`, and the gateway recognises what it has. Only then the documents that the folder no
//! longer has are deleted, so that what was renamed is never missing from searches.

pub(super) mod plan;
pub(super) mod renames;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use weir_api::ErrorCode;
use weir_client::{Client, ClientError, IngestError, IngestOptions, IngestReport, RetryPolicy, ingest};

use super::context::Context;
use super::delete::{delete_one, documents};
use super::failure::{Failure, Result};
use super::ingest::{check_found, find, steps, summary, summary_json};
use super::interrupt::cancelled_by_ctrl_c;
use super::known_folders::{Destination, KnownFolders};
use super::progress::DocumentProgress;
use super::terminal::{confirm, one_line};
use plan::Plan;
use weir_sources::{FOLDER, LeftOut, SourceFiles, folder_name};

/// Ids that are shown one by one; --json has all.
const IDS_SHOWN_MAX: usize = 100;

/// Up to this number of documents is deleted without a question.
const UNASKED_MAX: usize = 10;

/// The arguments of `weir sync`.
#[derive(Debug, Args)]
pub struct SyncArguments {
    /// The folder.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The collection that shows the folder.
    #[arg(long, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// Put this before the id of every document, such as `notes/`: before the path of its file, or the id that a line, row
    /// or object brings. Delete only documents whose id begins with it. Give each folder of a collection its own where
    /// names of folders, paths of files or ids are equal.
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Replace documents of other folders that have the same ids, and send the folder although the collection has documents of
    /// another one of its name. Without this they stay, and the new ones fail.
    #[arg(long)]
    pub replace: bool,
    /// Keep the files of documents in the gateway beside their text, such as PDF and Office files. GET …/original returns them.
    #[arg(long)]
    pub keep_originals: bool,
    /// Only say what would be sent and deleted.
    #[arg(long)]
    pub dry_run: bool,
    /// Also delete when more than half of the documents are gone or the folder is empty, without asking.
    #[arg(long)]
    pub yes: bool,
    /// Maximum documents per request.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Sends what is new or changed, and deletes what is gone.
///
/// # Errors
/// When a call fails, when some documents were rejected, and when many files are gone and the deletion was not confirmed.
pub async fn run(arguments: &SyncArguments, context: Context<'_>) -> Result<()> {
    if !arguments.folder.is_dir() {
        return Err(Failure::NotAFolder(arguments.folder.display().to_string()));
    }
    let (client, config) = context.connect(&arguments.url, RetryPolicy::LONG)?;
    let out = context.out;
    let folder = std::slice::from_ref(&arguments.folder);
    let (collection, prefix) = (&arguments.collection, &arguments.prefix);
    let url = &config.client_url();
    let to = Destination { client: &client, url, collection, prefix, deletes: true };
    let known = KnownFolders::of(context.environment);
    known.check(&to, folder, arguments.replace).await?;
    let mut sources = find(&client, folder, &arguments.prefix).await?;
    let mut stored = plan::list(&client, collection, prefix).await?;
    // they are of other folders, or of this one under another prefix
    let others = known.longer_prefixes(&to, &arguments.folder);
    stored.retain(|id, _| !others.iter().any(|prefix| id.starts_with(prefix)));
    let folder_name = folder_name(&arguments.folder);
    let present = renames::Present::of(&sources.files);
    renames::keep_ids(&stored, &folder_name, &mut sources.files, &present);
    let mut plan = Plan::new(&stored, &folder_name, &sources);
    // an empty folder is more often a disk that is not mounted than a wish to delete everything
    let is_empty = sources.is_empty();
    if plan.count_of_files() == 0 {
        check_found(&sources, folder)?;
    }
    if arguments.dry_run {
        steps(sources).0.for_each(|step| plan.observe(&step));
        return show_plan(&plan, arguments, out);
    }
    known.record(&to, folder, arguments.replace);
    let (report, left_out) = send(&client, arguments, sources, &mut plan).await?;
    print_kept(&plan);
    if !arguments.json {
        out.write_all(summary(&report, &arguments.collection, &left_out).as_bytes())?;
        out.flush()?;
    }
    let gone = plan.gone();
    check_confirmed(arguments, gone.len(), plan.count_of_files(), is_empty)?;
    delete(&client, arguments, &gone, out).await?;
    if arguments.json {
        let mut shown = summary_json(&report, &arguments.collection, &left_out);
        shown["deleted"] = json!(gone);
        shown["kept"] = json!(plan.kept());
        writeln!(out, "{shown}")?;
    } else {
        writeln!(out, "{} deleted", documents(gone.len() as u64))?;
    }
    out.flush()?;
    Ok(report.check_complete()?)
}

async fn send(
    client: &Client,
    arguments: &SyncArguments,
    sources: SourceFiles,
    plan: &mut Plan<'_>,
) -> Result<(IngestReport, LeftOut), IngestError> {
    let options = IngestOptions {
        collection: &arguments.collection,
        batch_documents_max: arguments.batch as usize,
        bytes_total: sources.bytes(),
        replace_if_equal: if arguments.replace { &[] } else { &[FOLDER] },
        keep_originals: arguments.keep_originals,
        webhook_url: None,
    };
    let (steps, left_out) = steps(sources);
    let steps = steps.inspect(|step| plan.observe(step));
    let cancelled = cancelled_by_ctrl_c();
    let report = ingest(client, options, steps, &mut DocumentProgress::default(), &cancelled).await?;
    let left_out = LeftOut { empty: report.empty, ..left_out };
    Ok((report, left_out))
}

/// Says which documents stay although the folder does not have them.
fn print_kept(plan: &Plan<'_>) {
    if plan.is_incomplete {
        eprintln!("nothing is deleted, because a part of the folder could not be read");
        return;
    }
    for (path, count) in plan.kept() {
        let (kept, path) = (documents(count), one_line(path));
        eprintln!("kept: {kept} of {path}, because a part of it can't be read");
    }
}

/// Asks before most of a collection is deleted: the folder is perhaps another one, or empty because a disk is not mounted.
fn check_confirmed(
    arguments: &SyncArguments,
    gone: usize,
    total: usize,
    is_empty: bool,
) -> Result<(), Failure> {
    if arguments.yes || is_deleted_unasked(gone, total, is_empty) {
        return Ok(());
    }
    let what = format!("{gone} of {total} documents of `{}`", arguments.collection);
    match confirm(&format!("Delete {what}, whose files are gone?"))? {
        true => Ok(()),
        false => Err(Failure::NotConfirmed(what)),
    }
}

/// Whether documents are deleted without a question: few of a folder, or none.
pub(super) fn is_deleted_unasked(gone: usize, total: usize, is_empty: bool) -> bool {
    gone == 0 || !is_empty && (gone <= UNASKED_MAX || gone * 2 <= total)
}

async fn delete(
    client: &Client,
    arguments: &SyncArguments,
    gone: &[&str],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for (position, id) in gone.iter().enumerate() {
        match delete_one(client, &arguments.collection, id).await {
            // somebody else deleted it
            Ok(_) | Err(ClientError::Refused { code: ErrorCode::DocumentNotFound, .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if !arguments.json && position < IDS_SHOWN_MAX {
            writeln!(out, "deleted: {}", one_line(id))?;
        }
    }
    if !arguments.json && gone.len() > IDS_SHOWN_MAX {
        writeln!(out, "deleted: and {} more (--json names all)", gone.len() - IDS_SHOWN_MAX)?;
    }
    Ok(())
}

fn show_plan(plan: &Plan<'_>, arguments: &SyncArguments, out: &mut dyn Write) -> Result<(), Failure> {
    let gone = plan.gone();
    print_kept(plan);
    if arguments.json {
        let shown = json!({
            "collection": arguments.collection, "dry_run": true, "new": plan.new, "changed": plan.changed,
            "unchanged": plan.unchanged, "deleted": gone, "failed": plan.rejections,
            "replaced": plan.replacing.len(), "kept": plan.kept(),
        });
        writeln!(out, "{shown}")?;
        return Ok(());
    }
    let new = plan.new.iter().map(|id| ("new", id.as_str()));
    let changed = plan.changed.iter().map(|id| ("changed", id.as_str()));
    let deleted = gone.iter().map(|id| ("deleted", *id));
    for (what, id) in new.chain(changed).chain(deleted) {
        writeln!(out, "{what}: {}", one_line(id))?;
    }
    for rejection in &plan.rejections {
        writeln!(out, "failed: {}: {}", rejection.name, rejection.message)?;
    }
    for (id, place) in &plan.replacing {
        writeln!(out, "replaced: {}: has the id `{}` of an earlier document", one_line(place), one_line(id))?;
    }
    writeln!(
        out,
        "{} new, {} changed, {} unchanged, {} failed, {} to delete; nothing was sent or deleted",
        plan.new.len(),
        plan.changed.len(),
        plan.unchanged,
        plan.rejections.len(),
        gone.len()
    )?;
    Ok(())
}
