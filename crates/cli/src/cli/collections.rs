//! `weir collections`: lists, shows, creates and deletes collections, and shows how a file is split.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{Args, Subcommand};
use serde_json::json;
use weir_api::{
    Chunking, ChunkingPolicy, ChunksPreviewReply, ChunksPreviewRequest, CollectionReply, CollectionSettings,
    CollectionStatus, Count, EmbeddingChoice, EngineChoice, Metric, PreviewedChunk, ReconciliationReply,
    VectorSettings,
};
use weir_client::{Client, ClientError, Reply, RetryPolicy};

use super::context::Context;
use super::delete::documents;
use super::failure::{Failure, Result};
use super::missing::with_similar_name;
use super::terminal::{Align, confirm, one_line, render_table};

/// The value of `--embedding` for a collection without embeddings.
const NONE: &str = "none";

/// Characters of a chunk that are shown.
const SHOWN_CHARS: usize = 60;

/// The arguments of `weir collections`.
#[derive(Debug, Args)]
pub struct CollectionsArguments {
    /// The command to run [default: list].
    #[command(subcommand)]
    pub command: Option<CollectionsCommand>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long, global = true)]
    pub url: Option<String>,
    /// Print the gateway's reply unchanged.
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands under `weir collections`.
#[derive(Debug, Subcommand)]
pub enum CollectionsCommand {
    /// List all collections.
    List,
    /// Show one collection with its settings.
    Show {
        /// The collection's name.
        name: String,
    },
    /// Create a collection. Settings that are not given are those of the gateway's configuration.
    Create {
        /// The collection's name.
        name: String,
        /// The settings of the new collection.
        #[command(flatten)]
        settings: SettingsArguments,
        /// If the collection exists, split its documents again by the settings of chunks. Searches find the earlier chunks until that is done.
        #[arg(long)]
        rechunk: bool,
    },
    /// Show the chunks of a file, without storing it.
    Chunks {
        /// The collection's name.
        name: String,
        /// The file.
        file: PathBuf,
        /// How the file is split [default: as the documents of the collection].
        #[command(flatten)]
        chunking: ChunkingArguments,
        /// Maximum number of chunks to show.
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u64,
    },
    /// Compare the index of a collection in a Qdrant cluster with the store, and mend what differs.
    Reconcile {
        /// The collection's name.
        name: String,
        /// Do not wait for its end.
        #[arg(long)]
        no_wait: bool,
    },
    /// Delete a collection with all its documents.
    Delete {
        /// The collection's name.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// The settings of `weir collections create`.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    /// The model that embeds the chunks, by id or alias; `none` for a collection with lexical search alone.
    #[arg(long, value_name = "MODEL")]
    pub embedding: Option<String>,
    /// The documents bring their embeddings, of N values each.
    #[arg(long, value_name = "N", conflicts_with = "embedding")]
    pub dimension: Option<u64>,
    /// How embeddings that the documents bring are compared [default: cosine].
    #[arg(long, value_parser = one_of(METRICS), requires = "dimension")]
    pub metric: Option<Metric>,
    /// The language of the texts, such as `english`, for stemming and stop words.
    #[arg(long)]
    pub language: Option<String>,
    /// Where its index is [default: embedded].
    #[arg(long, value_parser = one_of(ENGINES))]
    pub engine: Option<EngineChoice>,
    /// How texts are split.
    #[command(flatten)]
    pub chunking: ChunkingArguments,
    /// Keep the files of documents beside their text, such as PDF and Office files.
    #[arg(long)]
    pub keep_originals: bool,
}

/// How embeddings are compared.
const METRICS: [(Metric, &str); 2] =
    [(Metric::Cosine, "By their angle"), (Metric::Dot, "By their dot product")];

/// Where the index of a collection is.
pub(super) const ENGINES: [(EngineChoice, &str); 2] = [
    (EngineChoice::Embedded, "In the gateway"),
    (EngineChoice::Qdrant, "In the Qdrant cluster of the gateway"),
];

/// How texts are split.
#[derive(Debug, Args)]
pub struct ChunkingArguments {
    /// Where chunks begin and end [default: tokens].
    #[arg(long, value_parser = one_of(POLICIES), value_name = "POLICY")]
    pub chunking: Option<ChunkingPolicy>,
    /// Maximum tokens of a chunk.
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Tokens that neighbouring chunks share, about.
    #[arg(long, value_name = "N")]
    pub overlap_tokens: Option<u64>,
    /// Maximum sentences of a chunk, with --chunking sentences.
    #[arg(long, value_name = "N")]
    pub max_sentences: Option<u64>,
    /// Sentences that neighbouring chunks share, with --chunking sentences.
    #[arg(long, value_name = "N")]
    pub overlap_sentences: Option<u64>,
}

/// Where chunks begin and end.
const POLICIES: [(ChunkingPolicy, &str); 6] = [
    (ChunkingPolicy::Tokens, "As many sentences as fit, preferably whole paragraphs"),
    (ChunkingPolicy::Sentences, "A number of sentences"),
    (ChunkingPolicy::Headings, "Sections below headings, with the headings above them"),
    (ChunkingPolicy::Pages, "Pages"),
    (ChunkingPolicy::Fixed, "Windows of --max-tokens"),
    (ChunkingPolicy::None, "The whole document"),
];

/// Reads one of these values by its name in the API; `--help` lists them.
pub(super) fn one_of<T, const N: usize>(values: [(T, &'static str); N]) -> ValueParser
where
    T: Copy + Into<&'static str> + Send + Sync + 'static,
{
    let shown = values.map(|(value, help)| {
        let name: &'static str = value.into();
        PossibleValue::new(name).help(help)
    });
    ValueParser::new(PossibleValuesParser::new(shown).try_map(move |name| {
        let found = values.iter().find(|(value, _)| Into::<&'static str>::into(*value) == name);
        found.map(|(value, _)| *value).ok_or("it is none of the possible values")
    }))
}

impl ChunkingArguments {
    /// `None` if nothing is said.
    fn settings(&self) -> Option<Chunking> {
        let chunking = Chunking {
            policy: self.chunking,
            max_tokens: self.max_tokens.map(Into::into),
            overlap_tokens: self.overlap_tokens.map(Into::into),
            max_sentences: self.max_sentences.map(Into::into),
            overlap_sentences: self.overlap_sentences.map(Into::into),
        };
        (chunking != Chunking::default()).then_some(chunking)
    }
}

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
        CollectionsCommand::Create { name, settings, rechunk } => {
            let settings = settings_of(settings);
            shown(&match rechunk {
                true => client.rechunk_collection(name, &settings).await?,
                false => client.put_collection(name, &settings).await?,
            })?
        }
        CollectionsCommand::Chunks { name, file, chunking, limit } => {
            let options = ChunksPreviewRequest {
                chunking: chunking.settings(),
                limit: Some((*limit).into()),
                ..ChunksPreviewRequest::default()
            };
            let reply = match preview(&client, name, file, &options).await? {
                Ok(reply) => reply,
                Err(error) => return Err(with_similar_name(&client, name, error).await),
            };
            (reply.text().to_owned(), render_chunks(&reply.parse()?))
        }
        CollectionsCommand::Reconcile { name, no_wait } => {
            let made = match no_wait {
                true => client.reconcile(name).await,
                false => client.reconcile_to_the_end(name).await,
            };
            match made {
                Ok(reply) => match reply.parse()? {
                    ReconciliationReply { error: Some(error), .. } => {
                        return Err(Failure::NotCompared(error));
                    }
                    made => (reply.text().to_owned(), render_reconciliation(&made)),
                },
                Err(error) => return Err(with_similar_name(&client, name, error).await),
            }
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
    CollectionSettings {
        vectors: arguments
            .dimension
            .map(|dimension| VectorSettings { dimension: dimension.into(), metric: arguments.metric }),
        model: arguments.embedding.clone().filter(|_| !is_none),
        embedding: is_none.then_some(EmbeddingChoice::None),
        engine: arguments.engine,
        language: arguments.language.clone(),
        chunking: arguments.chunking.settings(),
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
        ("ENGINE", Align::Left),
        ("STATUS", Align::Left),
    ];
    let rows = collections.iter().map(|collection| {
        [
            collection.name.clone(),
            collection.document_count.to_string(),
            collection.chunk_count.to_string(),
            model_of(collection),
            <&str>::from(engine_of(collection)).to_owned(),
            status_of(collection).to_owned(),
        ]
    });
    render_table(header, &rows.collect::<Vec<_>>())
}

fn render_one(collection: &CollectionReply) -> String {
    let chunking = collection.settings.chunking.unwrap_or_default();
    let vectors = collection.settings.vectors.map(|vectors| {
        let metric: &str = vectors.metric().into();
        format!("{} values, {metric}", vectors.dimension)
    });
    let policy: &str = chunking.policy.unwrap_or_default().into();
    let count = |count: Option<Count>| count.map(|count| count.get().to_string());
    let lines = [
        ("name", Some(collection.name.clone())),
        ("documents", Some(collection.document_count.to_string())),
        ("chunks", Some(collection.chunk_count.to_string())),
        ("model", Some(model_of(collection))),
        ("vectors", vectors),
        ("engine", collection.settings.engine.map(|engine| <&str>::from(engine).to_owned())),
        ("language", collection.settings.language.clone()),
        ("chunking", Some(policy.to_owned())),
        ("max tokens", count(chunking.max_tokens)),
        ("overlap tokens", count(chunking.overlap_tokens)),
        ("max sentences", count(chunking.max_sentences)),
        ("overlap sentences", count(chunking.overlap_sentences)),
        ("status", Some(status_of(collection).to_owned())),
        ("rebuilt", collection.rebuilt.map(|part| format!("{:.0} %", part * 100.0))),
    ];
    let lines = lines.into_iter().filter_map(|(name, value)| Some((name, value?)));
    lines.map(|(name, value)| format!("{name:<17}  {value}\n")).collect()
}

/// The chunks of a file, as the gateway splits it.
async fn preview(
    client: &Client,
    collection: &str,
    file: &Path,
    options: &ChunksPreviewRequest,
) -> Result<Result<Reply<ChunksPreviewReply>, ClientError>> {
    let path = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|source| Failure::File { path, source })?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok(client.preview_file_chunks(collection, &name, bytes, options).await)
}

fn render_chunks(preview: &ChunksPreviewReply) -> String {
    let header = [
        ("CHUNK", Align::Right),
        ("BYTES", Align::Right),
        ("PAGE", Align::Right),
        ("TOKENS", Align::Right),
        ("TEXT", Align::Left),
    ];
    let rows: Vec<_> = preview.chunks.iter().map(row_of).collect();
    let shown = rows.len() as u64;
    let more = if shown < preview.total_chunks { format!(", {shown} of them shown") } else { String::new() };
    format!("{}{} chunks{more}\n", render_table(header, &rows), preview.total_chunks)
}

/// Number, bytes, pages, tokens and the beginning of the text of a chunk, behind what stands before it.
fn row_of(chunk: &PreviewedChunk) -> [String; 5] {
    let page = match (chunk.page, chunk.page_end) {
        (Some(first), Some(last)) if first < last => format!("{first}-{last}"),
        (page, _) => page.map(|page| page.to_string()).unwrap_or_default(),
    };
    let context = chunk.context.as_ref().map(|context| format!("[{context}] ")).unwrap_or_default();
    let text: String = format!("{context}{}", chunk.quote).chars().take(SHOWN_CHARS).collect();
    [
        chunk.chunk.to_string(),
        format!("{}-{}", chunk.start, chunk.end),
        page,
        chunk.tokens.to_string(),
        one_line(&text),
    ]
}

fn render_reconciliation(made: &ReconciliationReply) -> String {
    let ReconciliationReply { documents, points, deleted, lost, earlier, mended, .. } = made;
    format!(
        "{}\n{documents} documents and {points} points compared: {deleted} deleted documents had points, {lost} lacked points, {earlier} had points of earlier \
         versions; {mended} mended\n",
        <&str>::from(made.status)
    )
}

fn model_of(collection: &CollectionReply) -> String {
    collection.model.clone().unwrap_or_else(|| NONE.to_owned())
}

/// Where the index of a collection is, or is moved to.
pub(super) fn engine_of(collection: &CollectionReply) -> EngineChoice {
    collection.settings.engine.unwrap_or(EngineChoice::Embedded)
}

fn status_of(collection: &CollectionReply) -> &'static str {
    match collection.status {
        CollectionStatus::Ready => "ready",
        CollectionStatus::Rebuilding => "rebuilding",
        CollectionStatus::Unavailable => "unavailable",
    }
}
