//! `weir watch`: keeps a collection equal to a folder while its files change.
//!
//! Each look compares the folder with what was sent, so that it does not matter which change was noticed, and nothing is lost by a failure or a
//! stop: what was not sent differs at the next look, or at the next start.

mod changes;
mod folder;
mod retry;

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_api::ErrorCode;
use weir_client::{Client, ClientError, IngestOptions, IngestReport, Rejection, RetryPolicy, ingest};

use super::context::Context;
use super::delete::{delete_one, documents};
use super::failure::{Failure, Result};
use super::ingest::more_kinds;
use super::interrupt::cancelled_by_signals;
use super::known_folders::{Destination, KnownFolders};
use super::progress::DocumentProgress;
use super::sync::is_deleted_unasked;
use super::sync::plan::{self, Plan, Stored, stored_by};
use super::sync::renames::{Present, keep_ids};
use super::terminal::one_line;
use changes::Changes;
use folder::{FolderFiles, Look, QUIET};
use retry::Backoff;
use weir_sources::{Documents, FOLDER, MoreKinds, PATH, SourceFiles, folder_name};

/// Changes that follow each other within this time are looked at together.
const TOGETHER: Duration = Duration::from_millis(100);
/// The share of the time that is spent on reading the folder is at most one divided by this.
const LOOK_SHARE: u32 = 5;

/// The arguments of `weir watch`.
#[derive(Debug, Args)]
pub struct WatchArguments {
    /// The folder.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The collection that shows the folder.
    #[arg(long, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// Put this before the id of every document, as `weir sync` does.
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Replace documents of other folders that have the same ids, as `weir sync` does.
    #[arg(long)]
    pub replace: bool,
    /// Keep the files of documents in the gateway beside their text, such as PDF and Office files. GET …/original returns them.
    #[arg(long)]
    pub keep_originals: bool,
    /// Also delete when more than half of the documents are gone at once or the folder is empty. Without this they stay, and
    /// a note says it.
    #[arg(long)]
    pub yes: bool,
    /// Interval between looks for changes, in seconds. Needed where other machines change the files of a network folder; elsewhere the
    /// system notifies of changes, or the folder is looked at every 5 seconds where it can't.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub poll: Option<u64>,
    /// Maximum documents per request.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print a line of JSON for each time that something was sent or deleted.
    #[arg(long)]
    pub json: bool,
}

/// Sends and deletes what changes, until the process is asked to end.
///
/// # Errors
/// When the gateway refuses the folder or the key. While it can't be reached, the command waits.
pub async fn run(arguments: &WatchArguments, context: Context<'_>) -> Result<()> {
    if !arguments.folder.is_dir() {
        return Err(Failure::NotAFolder(arguments.folder.display().to_string()));
    }
    let (client, config) = context.connect(&arguments.url, RetryPolicy::LONG)?;
    let known = KnownFolders::of(context.environment);
    let (collection, prefix) = (&arguments.collection, &arguments.prefix);
    let to = Destination { client: &client, url: &config.client_url(), collection, prefix, deletes: true };
    let watch = async {
        let (stored, more) = prepare(arguments, &known, &to).await?;
        let mut watch = Watch {
            arguments,
            client: &client,
            folder_name: folder_name(&arguments.folder).to_string(),
            stored,
            more,
            files: FolderFiles::default(),
            unreadable: Vec::new(),
            kept_back: 0,
            out: context.out,
        };
        watch.run().await
    };
    // what is not sent is found at the next start
    cancelled_by_signals().run_until_cancelled(watch).await.unwrap_or(Ok(()))
}

/// Checks the folder and lists the documents of the collection, as `weir sync` does, and asks for the kinds that are read. Waits for the gateway.
async fn prepare(
    arguments: &WatchArguments,
    known: &KnownFolders,
    to: &Destination<'_>,
) -> Result<(BTreeMap<String, Stored>, MoreKinds)> {
    let folder = std::slice::from_ref(&arguments.folder);
    let mut backoff = Backoff::default();
    loop {
        let listed = match known.check(to, folder, arguments.replace).await {
            Ok(()) => list(to).await,
            Err(error) => Err(error),
        };
        match listed {
            Ok((mut stored, more)) => {
                known.record(to, folder, arguments.replace);
                let others = known.longer_prefixes(to, &arguments.folder);
                stored.retain(|id, _| !others.iter().any(|prefix| id.starts_with(prefix)));
                return Ok((stored, more));
            }
            Err(error) => backoff.wait(error).await?,
        }
    }
}

async fn list(to: &Destination<'_>) -> Result<(BTreeMap<String, Stored>, MoreKinds)> {
    Ok((plan::list(to.client, to.collection, to.prefix).await?, more_kinds(to.client).await?))
}

struct Watch<'a> {
    arguments: &'a WatchArguments,
    client: &'a Client,
    folder_name: String,
    /// The documents of the collection, as far as this command knows.
    stored: BTreeMap<String, Stored>,
    more: MoreKinds,
    files: FolderFiles,
    /// The paths that could not be read at the last look.
    unreadable: Vec<Rejection>,
    /// The documents whose deletion was not confirmed.
    kept_back: usize,
    out: &'a mut dyn Write,
}

/// The result of one look at the folder.
#[derive(Default)]
struct Pass {
    report: IngestReport,
    renamed: u64,
    deleted: Vec<String>,
}

impl Watch<'_> {
    async fn run(&mut self) -> Result<()> {
        let poll = self.arguments.poll.map(Duration::from_secs);
        let mut changes = Changes::begin(&self.arguments.folder, poll);
        let mut backoff = Backoff::default();
        let mut is_first = true;
        loop {
            let begun = Instant::now();
            changes.watch_folders();
            let (sources, look) = self.look(&changes);
            let (count, look_took) = (sources.files.len(), begun.elapsed());
            let next = look.next;
            match self.pass(sources, look).await {
                Ok(pass) => self.print(&pass)?,
                Err(error) => {
                    backoff.wait(error).await?;
                    continue;
                }
            }
            backoff = Backoff::default();
            if std::mem::take(&mut is_first) {
                self.print_begin(count, changes.polled_every())?;
            }
            let due = async { tokio::time::sleep_until(next.unwrap_or_else(Instant::now)).await };
            tokio::select! {
                () = changes.next() => tokio::time::sleep(TOGETHER).await,
                () = due, if next.is_some() => {}
            }
            tokio::time::sleep(look_took * LOOK_SHARE).await;
        }
    }

    fn look(&mut self, changes: &Changes) -> (SourceFiles, Look) {
        let WatchArguments { folder, prefix, .. } = self.arguments;
        let sources = SourceFiles::find_with(std::slice::from_ref(folder), prefix, self.more);
        let quiet = changes.polled_every().map_or(QUIET, |poll| QUIET.max(poll / 2));
        let look = self.files.look(&sources.files, |path| changes.is_open(path), quiet, Instant::now());
        (sources, look)
    }

    /// Sends what is due, and deletes what is gone.
    async fn pass(&mut self, mut sources: SourceFiles, look: Look) -> Result<Pass> {
        self.note_unreadable(std::mem::take(&mut sources.rejections));
        let present = Present::of(&sources.files);
        sources.files.retain(|file| look.due.contains(file.path()));
        let renamed = keep_ids(&self.stored, &self.folder_name, &mut sources.files, &present);
        let mut plan = Plan::new(&self.stored, &self.folder_name, &sources);
        plan.leave(look.left.iter().cloned());
        plan.is_incomplete = !self.unreadable.is_empty();
        let mut sent = Vec::new();
        let report = match sources.files.is_empty() {
            true => IngestReport::default(),
            false => {
                let bytes_total = sources.bytes();
                let steps = Documents::of(sources.files).inspect(|step| {
                    plan.observe(step);
                    sent.extend(stored_by(step).map(|(id, stored)| (id, step.place.clone(), stored)));
                });
                let replace_if_equal: &[&str] = if self.arguments.replace { &[] } else { &[FOLDER] };
                let options = IngestOptions {
                    collection: &self.arguments.collection,
                    batch_documents_max: self.arguments.batch as usize,
                    bytes_total,
                    replace_if_equal,
                    keep_originals: self.arguments.keep_originals,
                    webhook_url: None,
                };
                ingest(
                    self.client,
                    options,
                    steps,
                    &mut DocumentProgress::default(),
                    &CancellationToken::new(),
                )
                .await?
            }
        };
        let gone: Vec<String> = plan.gone().into_iter().map(str::to_owned).collect();
        let total = plan.count_of_files();
        let refused: HashSet<&str> = report.rejections.iter().map(|refused| refused.name.as_str()).collect();
        sent.retain(|(id, place, _)| !refused.contains(id.as_str()) && !refused.contains(place.as_str()));
        self.stored.extend(sent.into_iter().map(|(id, _, stored)| (id, stored)));
        self.files.sent(&look);
        // a file that is gone may be one that is new under another name
        let deleted = match !look.has_new && self.is_confirmed(gone.len(), total, present.is_empty()) {
            true => self.delete(gone).await?,
            false => Vec::new(),
        };
        Ok(Pass { report, renamed, deleted })
    }

    /// Says once which paths can't be read.
    fn note_unreadable(&mut self, unreadable: Vec<Rejection>) {
        for rejection in unreadable.iter().filter(|rejection| !self.unreadable.contains(rejection)) {
            let (name, message) = (one_line(&rejection.name), &rejection.message);
            eprintln!("failed: {name}: {message}; nothing is deleted until it can be read");
        }
        self.unreadable = unreadable;
    }

    /// Whether this number of documents may be deleted; reports once that it may not.
    fn is_confirmed(&mut self, gone: usize, total: usize, is_empty: bool) -> bool {
        let is_confirmed = self.arguments.yes || is_deleted_unasked(gone, total, is_empty);
        let kept_back = if is_confirmed { 0 } else { gone };
        if kept_back > 0 && kept_back != self.kept_back {
            eprintln!(
                "kept: {gone} of {total} documents of `{}` whose files are gone at once; `weir sync` asks and deletes them, `weir watch --yes` deletes them unasked",
                self.arguments.collection
            );
        }
        self.kept_back = kept_back;
        is_confirmed
    }

    /// Deletes documents that still are those of the folder's files.
    async fn delete(&mut self, gone: Vec<String>) -> Result<Vec<String>> {
        let mut deleted = Vec::new();
        for id in gone {
            if self.is_unchanged(&id).await? {
                match delete_one(self.client, &self.arguments.collection, &id).await {
                    Ok(_) => deleted.push(id.clone()),
                    Err(ClientError::Refused { code: ErrorCode::DocumentNotFound, .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.stored.remove(&id);
        }
        Ok(deleted)
    }

    /// Whether the document is of the folder and file of which this command knows it.
    async fn is_unchanged(&self, id: &str) -> Result<bool> {
        let document = match self.client.document(&self.arguments.collection, id).await {
            Err(ClientError::Refused { code: ErrorCode::DocumentNotFound, .. }) => return Ok(false),
            document => document?,
        };
        let fields = document.metadata.to_map().unwrap_or_default();
        let is_equal = |name: &str, expected: Option<&str>| {
            fields.get(name).and_then(|value| value.as_str()) == expected
        };
        let path = self.stored.get(id).and_then(|stored| stored.path.as_deref());
        Ok(is_equal(FOLDER, Some(&self.folder_name)) && is_equal(PATH, path))
    }

    fn print_begin(&mut self, files: usize, polled_every: Option<Duration>) -> Result<()> {
        let folder = self.arguments.folder.display().to_string();
        if self.arguments.json {
            let poll = polled_every.map(|poll| poll.as_secs());
            writeln!(
                self.out,
                "{}",
                json!({"event": "watching", "folder": folder, "files": files, "poll_seconds": poll})
            )?;
        } else {
            writeln!(self.out, "watching {}: {files} files; Ctrl-C ends", one_line(&folder))?;
        }
        Ok(self.out.flush()?)
    }

    /// Prints what was sent and deleted, if anything was.
    fn print(&mut self, pass: &Pass) -> Result<()> {
        let Pass { report, renamed, deleted } = pass;
        if report.new + report.changed + renamed == 0 && report.rejections.is_empty() && deleted.is_empty() {
            return Ok(());
        }
        let failed = report.rejections.len();
        if self.arguments.json {
            let line = json!({
                "event": "changes", "new": report.new, "changed": report.changed, "unchanged": report.unchanged,
                "renamed": renamed, "failed": report.rejections, "deleted": deleted, "chunks": report.chunks,
                "jobs": report.jobs,
            });
            writeln!(self.out, "{line}")?;
        } else {
            let count = documents(deleted.len() as u64);
            writeln!(
                self.out,
                "{} new, {} changed, {} unchanged, {failed} failed, {renamed} renamed; {count} deleted",
                report.new, report.changed, report.unchanged
            )?;
        }
        Ok(self.out.flush()?)
    }
}
