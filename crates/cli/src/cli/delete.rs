//! `weir delete`: deletes documents by their ids or by a filter, or all of a collection.

use std::io::Write;

use clap::{ArgGroup, Args};
use serde_json::json;
use weir_api::{DocumentsDeleteReply, DocumentsDeleteRequest, ErrorCode, RawJson};
use weir_client::{Client, ClientError, RetryPolicy};

use super::context::Context;
use super::failure::{Failure, Result};
use super::missing::with_similar_name;
use super::terminal::{confirm, one_line};

/// The arguments of `weir delete`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["ids", "filter", "all"]))]
pub struct DeleteArguments {
    /// The ids of the documents.
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// Delete the documents that match these conditions on metadata, as JSON: '{"year": {"lt": 2019}}'.
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// Delete every document of the collection, which stays with its settings.
    #[arg(long)]
    pub all: bool,
    /// With --all: do not ask.
    #[arg(long, requires = "all")]
    pub yes: bool,
    /// The collection of the documents.
    #[arg(long, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// Only count the documents.
    #[arg(long)]
    pub dry_run: bool,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The gateway's advice for a filter without a condition; the command line has `--all` instead.
const SEND_ALL: &str = "\"all\": true";

/// Deletes documents, or counts them.
///
/// # Errors
/// When a call fails, when one of the ids does not exist, and when the deletion of all is not confirmed.
pub async fn run(arguments: &DeleteArguments, context: Context<'_>) -> Result<()> {
    let filter = arguments.filter.clone().map(RawJson::from_text).transpose().map_err(Failure::Filter)?;
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let out = context.out;
    if filter.is_none() && !arguments.all {
        return delete_by_id(&client, arguments, out).await;
    }
    if arguments.all {
        check_confirmed(&client, arguments).await?;
    }
    let reply = match delete_matching(&client, arguments, filter).await {
        Ok(reply) => reply,
        Err(ClientError::Refused { code: ErrorCode::InvalidFilter, message })
            if message.contains(SEND_ALL) =>
        {
            return Err(Failure::EmptyFilter);
        }
        Err(error) => return Err(with_similar_name(&client, &arguments.collection, error).await),
    };
    let shown = if arguments.json { json!(reply).to_string() } else { describe(&reply) };
    writeln!(out, "{shown}")?;
    Ok(())
}

/// Asks before every document is deleted.
async fn check_confirmed(client: &Client, arguments: &DeleteArguments) -> Result<(), Failure> {
    let name = &arguments.collection;
    let collection = match client.collection(name).await {
        Ok(collection) => collection,
        Err(error) => return Err(with_similar_name(client, name, error).await),
    };
    let what = format!("{} of the collection `{name}`", documents(collection.document_count));
    match arguments.dry_run || arguments.yes || confirm(&format!("Delete {what}?"))? {
        true => Ok(()),
        false => Err(Failure::NotConfirmed(what)),
    }
}

/// Deletes documents in as many calls as it takes; the sum of their replies.
async fn delete_matching(
    client: &Client,
    arguments: &DeleteArguments,
    filter: Option<RawJson>,
) -> Result<DocumentsDeleteReply, ClientError> {
    let dry_run = arguments.dry_run.then_some(true);
    let request = DocumentsDeleteRequest { filter, all: arguments.all.then_some(true), dry_run };
    let mut sum = client.delete_documents(&arguments.collection, &request).await?;
    // a call that deletes nothing would be repeated without end
    let mut deleted = sum.deleted;
    while !sum.dry_run && sum.remaining > 0 && deleted > 0 {
        let reply = client.delete_documents(&arguments.collection, &request).await?;
        deleted = reply.deleted;
        sum.deleted += reply.deleted;
        sum.skipped = reply.skipped;
        sum.remaining = reply.remaining;
    }
    Ok(sum)
}

fn describe(reply: &DocumentsDeleteReply) -> String {
    if reply.dry_run {
        return format!("{} would be deleted", documents(reply.matched));
    }
    let mut shown = format!("{} deleted", documents(reply.deleted));
    if reply.skipped > 0 {
        shown.push_str(&format!(", {} left because a newer version is not searchable yet", reply.skipped));
    }
    shown
}

/// `1 document`, `2 documents`.
pub(super) fn documents(count: u64) -> String {
    format!("{count} document{}", if count == 1 { "" } else { "s" })
}

async fn delete_by_id(
    client: &Client,
    arguments: &DeleteArguments,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (mut deleted, mut chunks, mut missing) = (0, 0, Vec::new());
    for id in &arguments.ids {
        let found = match arguments.dry_run {
            true => client.document(&arguments.collection, id).await.map(|document| document.chunks),
            false => delete_one(client, &arguments.collection, id).await,
        };
        match found {
            Ok(count) => {
                deleted += 1;
                chunks += count;
            }
            Err(ClientError::Refused { code: ErrorCode::DocumentNotFound, message }) => {
                eprintln!("{}", one_line(&message));
                missing.push(id);
            }
            Err(error) => return Err(with_similar_name(client, &arguments.collection, error).await),
        }
    }
    if arguments.json {
        let dry_run = arguments.dry_run;
        let shown = json!({"deleted": deleted, "chunks": chunks, "missing": missing, "dry_run": dry_run});
        writeln!(out, "{shown}")?;
    } else {
        let verb = if arguments.dry_run { "would be deleted" } else { "deleted" };
        writeln!(out, "{} {verb} ({chunks} chunks)", documents(deleted))?;
    }
    if missing.is_empty() { Ok(()) } else { Err(Failure::Missing(missing.len())) }
}

/// Deletes a document; the number of its chunks.
pub(super) async fn delete_one(client: &Client, collection: &str, id: &str) -> Result<u64, ClientError> {
    Ok(client.delete_document(collection, id).await?.chunks.unwrap_or_default())
}
