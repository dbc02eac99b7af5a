//! `weir collections`: lists, shows, creates and deletes collections.

use serde_json::json;
use weir_api::{Chunking, CollectionReply, CollectionSettings, CollectionStatus, Count, EmbeddingChoice};
use weir_client::{Client, ClientError, Reply, RetryPolicy};

use super::arguments::{CollectionsArguments, CollectionsCommand, SettingsArguments};
use super::context::Context;
use super::delete::documents;
use super::failure::{Failure, Result};
use super::missing::with_similar_name;
use super::terminal::{Align, confirm, render_table};

/// The value of `--embedding` for a collection without embeddings.
const NONE: &str = "none";

/// Runs one of the commands.
///
/// # Errors
/// When a call fails, and when a deletion is not confirmed.
pub async fn run(arguments: &CollectionsArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let out = context.out;
    let command = arguments.command.as_ref().unwrap_or(&CollectionsCommand::List);
    let (reply, words) = match command {
        CollectionsCommand::List => {
            let reply = client.collections().await?;
            (reply.text().to_owned(), render_list(&reply.parse()?.data))
        }
        CollectionsCommand::Show { name } => match client.collection_reply(name).await {
            Ok(reply) => shown(&reply)?,
            Err(error) => return Err(with_similar_name(&client, name, error).await),
        },
        CollectionsCommand::Create { name, settings } => {
            shown(&client.put_collection(name, &settings_of(settings)).await?)?
        }
        CollectionsCommand::Delete { name, yes } => delete(&client, name, *yes).await?,
    };
    out.write_all(if arguments.json { reply.trim_end() } else { words.trim_end() }.as_bytes())?;
    writeln!(out)?;
    Ok(())
}

/// A reply as it was received, and in words.
fn shown(reply: &Reply<CollectionReply>) -> Result<(String, String), ClientError> {
    Ok((reply.text().to_owned(), render_one(&reply.parse()?)))
}

async fn delete(client: &Client, name: &str, yes: bool) -> Result<(String, String), Failure> {
    let collection = match client.collection(name).await {
        Ok(collection) => collection,
        Err(error) => return Err(with_similar_name(client, name, error).await),
    };
    let what = format!("the collection `{name}` with {}", documents(collection.document_count));
    if !yes && !confirm(&format!("Delete {what}?"))? {
        return Err(Failure::NotConfirmed(what));
    }
    let reply = client.delete_collection(name).await?;
    Ok((json!(reply).to_string(), format!("deleted {what}\n")))
}

fn settings_of(arguments: &SettingsArguments) -> CollectionSettings {
    let is_none = arguments.embedding.as_deref() == Some(NONE);
    let chunking = Chunking {
        max_tokens: arguments.max_tokens.map(Into::into),
        overlap_tokens: arguments.overlap_tokens.map(Into::into),
    };
    CollectionSettings {
        model: arguments.embedding.clone().filter(|_| !is_none),
        embedding: is_none.then_some(EmbeddingChoice::None),
        language: arguments.language.clone(),
        chunking: (chunking != Chunking::default()).then_some(chunking),
        keep_originals: arguments.keep_originals.then_some(true),
        lexical: None,
    }
}

fn render_list(collections: &[CollectionReply]) -> String {
    if collections.is_empty() {
        return "no collections; `weir ingest` and `weir collections create` make them\n".to_owned();
    }
    let header = [
        ("NAME", Align::Left),
        ("DOCUMENTS", Align::Right),
        ("CHUNKS", Align::Right),
        ("MODEL", Align::Left),
        ("STATUS", Align::Left),
    ];
    let rows = collections.iter().map(|collection| {
        [
            collection.name.clone(),
            collection.document_count.to_string(),
            collection.chunk_count.to_string(),
            model_of(collection),
            status_of(collection).to_owned(),
        ]
    });
    render_table(header, &rows.collect::<Vec<_>>())
}

fn render_one(collection: &CollectionReply) -> String {
    let chunking = collection.settings.chunking.unwrap_or_default();
    let count = |count: Option<Count>| count.map(|count| count.get().to_string()).unwrap_or_default();
    let lines = [
        ("name", collection.name.clone()),
        ("documents", collection.document_count.to_string()),
        ("chunks", collection.chunk_count.to_string()),
        ("model", model_of(collection)),
        ("language", collection.settings.language.clone().unwrap_or_default()),
        ("max tokens", count(chunking.max_tokens)),
        ("overlap tokens", count(chunking.overlap_tokens)),
        ("status", status_of(collection).to_owned()),
    ];
    lines.iter().map(|(name, value)| format!("{name:<14}  {value}\n")).collect()
}

fn model_of(collection: &CollectionReply) -> String {
    collection.model.clone().unwrap_or_else(|| NONE.to_owned())
}

fn status_of(collection: &CollectionReply) -> &'static str {
    match collection.status {
        CollectionStatus::Ready => "ready",
        CollectionStatus::Rebuilding => "rebuilding",
    }
}
