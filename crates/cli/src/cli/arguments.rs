//! The arguments of the command line. `docs/cli.md` shows the help texts.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use super::chat::{ChatArguments, relevance};
use super::collections::CollectionsArguments;
use super::delete::DeleteArguments;
use super::demo::DemoArguments;
use super::doctor::DoctorArguments;
use super::export::ExportArguments;
use super::extract::ExtractArguments;
use super::feedback::FeedbackArguments;
use super::health::HealthArguments;
use super::ingest::IngestArguments;
use super::keys::KeysArguments;
use super::moves::MoveArguments;
use super::plan::PlanArguments;
use super::prices::PricesArguments;
use super::selftest::SelftestArguments;
use super::store::StoreArguments;
use super::sync::SyncArguments;
use super::usage::UsageArguments;
use super::watch::WatchArguments;
use weir_api::{Mode, Syntax};
use weir_config::Flags;
use weir_eval::{Configuration, Minimum};

/// A retrieval gateway: ingest documents, embed them on the CPU, search them and cite.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    /// The configuration file (TOML); also WEIR_CONFIG.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// The arguments of this process. Prints an error or the help text and exits when there is nothing to run.
    pub fn parse_process() -> Arguments {
        Arguments::try_parse().unwrap_or_else(|error| {
            let is_search = std::env::args_os().any(|word| word == "search");
            if is_search { explain_search(error).exit() } else { error.exit() }
        })
    }
}

/// Adds a tip to the error about the second word of a query.
fn explain_search(mut error: clap::Error) -> clap::Error {
    let is_word =
        |value: &ContextValue| matches!(value, ContextValue::String(word) if !word.starts_with('-'));
    if error.kind() == ErrorKind::UnknownArgument && error.get(ContextKind::InvalidArg).is_some_and(is_word) {
        let tip = "a query of several words is one argument: put it in quotes";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway.
    Serve(ServeArguments),
    /// Send files to a running gateway.
    ///
    /// Reads text, Markdown, reStructuredText, AsciiDoc, Org, HTML, JSON, JSON Lines, YAML, CSV, TSV and log files, also
    /// compressed with gzip, and folders of them. PDF, Office, OpenDocument, EPUB, RTF and e-mail files are sent as they are;
    /// the gateway extracts their text. Unchanged documents are recognised and not embedded again, so repeating
    /// the command is cheap and continues an interrupted run.
    Ingest(IngestArguments),
    /// Print the text of a document file, by pages.
    ///
    /// Reads the file as the gateway reads an uploaded one, in a process without files and network, with the limits of `[extract]`.
    Extract(ExtractArguments),
    /// Make a collection show a folder: send what is new or changed, delete what is gone.
    ///
    /// Sends the folder as `weir ingest` does. When everything is in, deletes the documents of the collection whose file is
    /// gone from the folder, or whose line or row is gone from its file. Documents that were not made from files (those
    /// without `path` in their metadata) and those whose id does not begin with --prefix stay.
    Sync(SyncArguments),
    /// Keep a collection equal to a folder while its files change.
    ///
    /// Begins as `weir sync`, then sends files and deletes documents within seconds of a change, until Ctrl-C or SIGTERM. A renamed
    /// file keeps its id. While the gateway is down, it waits; what changed while it was stopped is found at the next start.
    Watch(WatchArguments),
    /// Delete documents, by their ids or by a filter, or all of a collection.
    Delete(DeleteArguments),
    /// List, show, create and delete collections.
    Collections(CollectionsArguments),
    /// Move the index of a collection into another engine, and back: into a Qdrant cluster, or into the gateway.
    ///
    /// The gateway builds the next index from its store, and embeds nothing again. Searches go on: until it is complete, the index of now
    /// answers them. Queries are searched before and after that, and it is printed how much their first ten documents have in common.
    /// Waits for the end. Moving back cancels a move; the same command again waits for one that is on its way.
    Move(MoveArguments),
    /// Write the documents of a collection to the output, a file or a folder.
    ///
    /// Writes a JSON object for each document, in the order of their ids, as `weir ingest` and POST /v1/ingest take them back: id,
    /// title, text, metadata and pages. A document that is changed meanwhile is in the export once, as it was or as it is.
    Export(ExportArguments),
    /// Search in a running gateway.
    Search(SearchArguments),
    /// Ask a language model behind a running gateway, with cited documents if a collection is named.
    ///
    /// Prints the answer as it comes, then its citations: document, bytes of its text, quote. The gateway has checked each quote
    /// against its source; one that the source does not contain is marked NOT VERIFIED. docs/chat.md is a tutorial.
    Chat(ChatArguments),
    /// Show the jobs of a running gateway.
    Jobs(JobsArguments),
    /// Tell whether a gateway takes requests: exit code 0, or 1.
    Health(HealthArguments),
    /// Check every row of a store and every original file, and name those that are damaged.
    ///
    /// Works while a gateway is running over it. Exits with 1 when something is damaged: ingesting a document or a file again replaces
    /// its row or file, and removing the folder `index` has all indexes rebuilt at the next start; restore anything else from a backup.
    ///
    /// Asks the nodes of `qdrant.urls` and the server of `redis.url` too, and exits with 1 when one can't be used.
    Doctor(DoctorArguments),
    /// Move the store of a gateway into another database.
    Store(StoreArguments),
    /// Export, import and delete the judgments that relevance learns from.
    Feedback(FeedbackArguments),
    /// Create, list, change, revoke and rotate the API keys of a gateway.
    ///
    /// With --url or WEIR_URL, a running gateway is asked, with the key of WEIR_API_KEY. Otherwise the keys in the data directory are
    /// changed, also before the first start; a gateway that is running over it is asked instead.
    Keys(KeysArguments),
    /// Show requests, tokens and cost by key, model and day.
    ///
    /// A key sees its own requests; one with the scope admin and without restrictions sees all.
    Usage(UsageArguments),
    /// List the prices of models, and where each is from.
    ///
    /// Those of `[[prices]]` in the configuration come first; behind them are the public prices that come with the program, for the models of
    /// each of `[[upstreams]]`. Prices are for a million tokens, in one currency.
    Prices(PricesArguments),
    /// Compute processes, memory, disk and cost for a number of documents and requests.
    ///
    /// Asks nobody. Each figure is marked as given (an option), measured (by a script of this project), documented (by another project) or
    /// computed from these, with its source.
    Plan(PlanArguments),
    /// Measure the retrieval quality of a running gateway, or draft an evaluation set.
    ///
    /// A set is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and qrels.tsv or qrels/*.tsv
    /// (query, document, grade). Its documents go into a temporary collection, which is removed afterwards. Exits with 3
    /// when everything was measured and a score is below --min-ndcg or significantly worse than the baseline.
    Eval(EvalArguments),
    /// Check whether a server replies as the APIs promise that the gateway serves.
    ///
    /// Sends requests of OpenAI, text-embeddings-inference, Cohere, Jina, Ollama and Weir to any server, and prints which replies
    /// deviate, with what was sent and expected. Changes no data. Exits with 1 when something deviates.
    Selftest(SelftestArguments),
    /// Show or check the configuration.
    Config(ConfigArguments),
    /// Download a model, or describe one.
    Model(ModelArguments),
    /// Serve a sample or your own files, and show what to try.
    ///
    /// Runs the gateway, ingests the files into the collection `default`, and prints three things to try. The sample is part
    /// of the program: 240 paragraphs of Wikipedia, from XQuAD (CC BY-SA 4.0).
    Demo(DemoArguments),
    /// Print the completions of a shell.
    ///
    /// For bash: weir completions bash > ~/.local/share/bash-completion/completions/weir
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages.
    Man {
        /// The folder to write them to.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// The arguments of `weir serve`; `weir config` takes them too.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArguments {
    /// The address to listen on; also WEIR_LISTEN [default: 127.0.0.1:8000].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// The folder of the database and the indexes; also WEIR_DATA_DIR [default: ./weir-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// The folder of the default model, or `pseudo` for deterministic embeddings without a model; also WEIR_MODEL
    /// [default: models/all-MiniLM-L6-v2].
    #[arg(long, value_name = "DIR")]
    pub model: Option<String>,
    /// The URL of a gateway that embeds, in place of a model; also WEIR_EMBEDDER_URL.
    #[arg(long, value_name = "URL", conflicts_with = "model")]
    pub embedder_url: Option<String>,
    /// `embed`: embeddings and reranking without collections; `gateway`: models of other servers only; also WEIR_ROLE [default: all].
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Allow listening on an address that other machines can reach, although no API key is required.
    #[arg(long)]
    pub insecure_no_auth: bool,
}

impl ServeArguments {
    pub(super) fn flags(&self, config: Option<PathBuf>) -> Flags {
        Flags {
            config,
            listen: self.listen.clone(),
            data_dir: self.data_dir.clone(),
            model: self.model.clone(),
            embedder_url: self.embedder_url.clone(),
            role: self.role.clone(),
            insecure_no_auth: self.insecure_no_auth,
            ..Flags::default()
        }
    }
}

/// The arguments of `weir search`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["query", "filter", "sort", "facet"]))]
pub struct SearchArguments {
    /// The query: words, a sentence, or the query language. Put a query that begins with `-` last, after `--`. Without a
    /// query, the documents that match --filter are listed.
    pub query: Option<String>,
    /// Maximum number of results.
    #[arg(long, value_name = "N", default_value_t = weir_api::DEFAULT_TOP_K)]
    pub top_k: u64,
    /// Fetch the page after this cursor: `next_cursor` in the --json output. Repeat all other arguments.
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
    /// The collection to search in.
    #[arg(long, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// How operators of the query language are read [default: auto].
    #[arg(long, value_enum)]
    pub syntax: Option<SearchSyntax>,
    /// Which retrievers rank the results [default: hybrid; lexical where a collection has no embeddings].
    #[arg(long, value_enum)]
    pub mode: Option<SearchMode>,
    /// The model that reranks the first results, or `none` [default: the gateway's setting].
    #[arg(long, value_name = "MODEL")]
    pub rerank: Option<String>,
    /// Leave out results with a lower relevance, from 0 to 1.
    #[arg(long, value_name = "RELEVANCE", value_parser = relevance)]
    pub min_relevance: Option<f32>,
    /// Conditions on metadata, as JSON: '{"year": {"gte": 2019}}'.
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// Metadata fields to sort by, separated by commas; `-` before a field sorts it in descending order.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', allow_hyphen_values = true)]
    pub sort: Vec<String>,
    /// A metadata field whose values are counted; may be repeated.
    #[arg(long, value_name = "FIELD")]
    pub facet: Vec<String>,
    /// The unit of results: a `document`, a `chunk`, or a group of documents with the same value of a metadata field.
    #[arg(long, value_name = "WHAT")]
    pub group_by: Option<String>,
    /// Highlight the matches that the gateway reports, including those of corrected terms and of `prefix*`.
    #[arg(long)]
    pub highlight: bool,
    /// Explain how the query was parsed and how each result was scored.
    #[arg(long)]
    pub explain: bool,
    /// Explain at which stage of the search this document was dropped.
    #[arg(long, value_name = "ID")]
    pub why_not: Option<String>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print the gateway's reply unchanged.
    #[arg(long)]
    pub json: bool,
}

/// How a query is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchSyntax {
    /// Nothing is an operator.
    Text,
    /// Operators where they are meant; text in pasted commands, messages and sentences.
    Auto,
    /// Every operator is one; a syntax error is refused.
    Strict,
}

impl SearchSyntax {
    pub(super) fn to_api(self) -> Syntax {
        match self {
            SearchSyntax::Text => Syntax::Text,
            SearchSyntax::Auto => Syntax::Auto,
            SearchSyntax::Strict => Syntax::Strict,
        }
    }
}

/// Which retrievers rank the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchMode {
    /// Lexical and dense, fused.
    Hybrid,
    /// Words alone (BM25).
    Lexical,
    /// Embeddings alone.
    Dense,
}

impl SearchMode {
    const ALL: [SearchMode; 3] = [SearchMode::Hybrid, SearchMode::Lexical, SearchMode::Dense];

    pub(super) fn to_api(self) -> Mode {
        match self {
            SearchMode::Hybrid => Mode::Hybrid,
            SearchMode::Lexical => Mode::Lexical,
            SearchMode::Dense => Mode::Dense,
        }
    }
}

/// The states of documents of a job.
const JOB_DOCUMENT_STATES: [&str; 5] = ["pending", "searchable", "failed", "cancelled", "replaced"];

/// The arguments of `weir jobs`.
#[derive(Debug, Args)]
pub struct JobsArguments {
    /// The id of a job [default: all jobs].
    pub id: Option<String>,
    /// Until all jobs are finished, show what changes: the whole table on a terminal, elsewhere a line for each job that
    /// advanced.
    #[arg(long)]
    pub watch: bool,
    /// Cancel the job: what is searchable by now stays, the rest is not embedded.
    #[arg(long, requires = "id", conflicts_with = "retry_failed")]
    pub cancel: bool,
    /// Store the failed and the cancelled documents of the job again, with a new job, which is shown.
    #[arg(long, requires = "id")]
    pub retry_failed: bool,
    /// List the documents of the job with their states; unchanged ones are not listed.
    #[arg(long, requires = "id", conflicts_with_all = ["watch", "cancel", "retry_failed"])]
    pub documents: bool,
    /// List only documents of this state.
    #[arg(long, requires = "documents", value_name = "STATE", value_parser = JOB_DOCUMENT_STATES)]
    pub state: Option<String>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print the gateway's reply unchanged.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `weir eval`.
#[derive(Debug, Args)]
pub struct EvalArguments {
    /// The folders of the sets, or with --draft the folder to create. For several sets, their mean is shown too.
    #[arg(required = true, value_name = "FOLDER")]
    pub folders: Vec<PathBuf>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// The modes to measure with the gateway's settings, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = SearchMode::ALL)]
    pub mode: Vec<SearchMode>,
    /// Also measure hybrid search with this fusion, such as rrf:k=30 or convex:0.4,0.6; may be repeated.
    #[arg(long, value_name = "METHOD[:LEXICAL,DENSE][,k=K]", value_parser = Configuration::parse_fusion)]
    pub fusion: Vec<Configuration>,
    /// Also measure hybrid search without smoothing, as `hybrid unsmoothed`.
    #[arg(long)]
    pub unsmoothed: bool,
    /// Also measure hybrid search with this reranker; may be repeated.
    #[arg(long, value_name = "MODEL[:TOP_N]", value_parser = Configuration::parse_rerank)]
    pub rerank: Vec<Configuration>,
    /// Also measure hybrid search with late interaction (MaxSim of token embeddings) at this weight; may be repeated.
    #[arg(long, value_name = "WEIGHT[:TOP_N]", value_parser = Configuration::parse_late_interaction)]
    pub late_interaction: Vec<Configuration>,
    /// Results per search; recall is measured at this rank.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..))]
    pub top_k: u64,
    /// The file of judgments in a qrels folder, without .tsv [default: `test`, or the only file].
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// Compare with a run file written by --out. Exits with 3 if a score is significantly worse: the 95 % interval of the
    /// difference is below 0.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Compare with this configuration of the same run, such as `hybrid`. Does not affect the exit code.
    #[arg(long, value_name = "CONFIGURATION", conflicts_with = "baseline")]
    pub against: Option<String>,
    /// The minimum nDCG@10: exits with 3 if a score is lower. Applies to the mean of the sets and the first configuration
    /// unless others are named; may be repeated.
    #[arg(long, value_name = "[SET][/CONFIGURATION]=X")]
    pub min_ndcg: Vec<Minimum>,
    /// Write the scores of every query to this run file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Search this existing collection unchanged; if it does not exist, create it from the set's documents. With --draft,
    /// the collection to draft from.
    #[arg(long, value_name = "NAME", required_if_eq("draft", "true"))]
    pub collection: Option<String>,
    /// Keep the collection that was created.
    #[arg(long)]
    pub keep: bool,
    /// Draft a set from the documents of a collection and the feedback to it.
    #[arg(long, conflicts_with_all = ["baseline", "against", "min_ndcg", "out", "keep", "fusion", "unsmoothed", "rerank", "late_interaction"])]
    pub draft: bool,
    /// Maximum queries to draft from documents; queries from feedback are not limited.
    #[arg(long, value_name = "N", default_value_t = 200, requires = "draft")]
    pub queries: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `weir config`.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands under `weir config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting and its source, as a valid configuration file.
    Show {
        /// The arguments of `weir serve`.
        #[command(flatten)]
        serve: ServeArguments,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check whether `weir serve` would start with this configuration, and list all problems.
    Check {
        /// The arguments of `weir serve`.
        #[command(flatten)]
        serve: ServeArguments,
    },
}

/// The arguments of `weir model`.
#[derive(Debug, Args)]
pub struct ModelArguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: ModelCommand,
}

/// The commands under `weir model`.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Download a model's files from a hub.
    Pull {
        /// The model's name on the hub [default owner: sentence-transformers].
        name: String,
        /// The folder to create [default: models/ and the last part of the name].
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// The URL of the hub [default: https://huggingface.co].
        #[arg(long, value_name = "URL")]
        hub: Option<String>,
        /// The branch, tag or commit.
        #[arg(long, default_value = "main")]
        revision: String,
    },
    /// Load a model and print its properties.
    Info {
        /// The model's folder [default: the folder of the default model].
        folder: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
