//! `weir feedback`: exports, imports and deletes the judgments that relevance learns from.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use weir_api::{Count, FeedbackReply, FeedbackRequest};
use weir_client::{Client, FeedbackOptions, RetryPolicy};

use super::context::Context;
use super::failure::{Failure, Result};
use super::terminal::confirm;

/// The arguments of `weir feedback`.
#[derive(Debug, Args)]
pub struct FeedbackArguments {
    /// The command.
    #[command(subcommand)]
    pub command: FeedbackCommand,
    /// The collection.
    #[arg(long, global = true, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long, global = true)]
    pub url: Option<String>,
}

/// The commands under `weir feedback`.
#[derive(Debug, Subcommand)]
pub enum FeedbackCommand {
    /// Print the judgments as JSON Lines, oldest first.
    Export(SelectionArguments),
    /// Store the judgments of an export. They count as those of the caller, an operator's without another's agreement.
    Import {
        /// The file; - is the standard input.
        file: PathBuf,
    },
    /// Delete judgments. Without --key, --since and --until all are deleted, and relevance also forgets what searches have taught it.
    Reset {
        /// Which judgments.
        #[command(flatten)]
        selection: SelectionArguments,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Which judgments are exported or deleted.
#[derive(Debug, Args)]
pub struct SelectionArguments {
    /// Only those of the API key with this number.
    #[arg(long, value_name = "N")]
    pub key: Option<i64>,
    /// Only those of this time, in unix seconds, or later.
    #[arg(long, value_name = "SECONDS")]
    pub since: Option<f64>,
    /// Only those before this time.
    #[arg(long, value_name = "SECONDS")]
    pub until: Option<f64>,
}

impl SelectionArguments {
    fn options(&self) -> FeedbackOptions {
        FeedbackOptions { key: self.key, since: self.since, until: self.until }
    }
}

/// Judgments in a call.
const PAGE: usize = 1_000;

/// Runs one of the commands.
///
/// # Errors
/// When a call fails, a line of the import can't be read, or a deletion is not confirmed.
pub async fn run(arguments: &FeedbackArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let name = &arguments.collection;
    let shown = match &arguments.command {
        FeedbackCommand::Export(selection) => export(&client, name, selection).await?,
        FeedbackCommand::Import { file } => {
            let count = import(&client, name, file).await?;
            format!("{count} judgments stored\n")
        }
        FeedbackCommand::Reset { selection, yes } => {
            let options = selection.options();
            let is_all = options == FeedbackOptions::default();
            let what = match is_all {
                true => format!("all feedback of the collection `{name}`, and what searches have taught,"),
                false => format!("the selected feedback of the collection `{name}`"),
            };
            if !yes && !confirm(&format!("Delete {what}?"))? {
                return Err(Failure::NotConfirmed(what));
            }
            let reply = client.delete_feedback(name, options).await?;
            format!("{} judgments deleted\n", reply.deleted)
        }
    };
    context.out.write_all(shown.as_bytes())?;
    Ok(())
}

async fn export(client: &Client, collection: &str, selection: &SelectionArguments) -> Result<String> {
    let (mut cursor, mut all) = (None::<String>, Vec::<FeedbackReply>::new());
    loop {
        let options = selection.options();
        let page = client.selected_feedback(collection, options, PAGE, cursor.as_deref()).await?;
        all.extend(page.data);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(all.iter().rev().map(|judgment| format!("{}\n", json!(judgment))).collect())
}

async fn import(client: &Client, collection: &str, file: &Path) -> Result<usize> {
    let source: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(file)?),
    };
    let mut count = 0;
    for line in BufReader::new(source).lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let judgment: FeedbackReply = serde_json::from_str(&line)
            .map_err(|error| std::io::Error::other(format!("line {}: {error}", count + 1)))?;
        let request = FeedbackRequest {
            query: judgment.query,
            document_id: judgment.document_id,
            collection: Some(collection.to_owned()),
            relevant: None,
            grade: Some(Count::from(u64::from(judgment.grade))),
            chunk: judgment.chunk,
        };
        client.add_feedback(&request).await?;
        count += 1;
    }
    Ok(count)
}
