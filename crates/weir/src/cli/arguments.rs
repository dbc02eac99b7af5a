//! What can be typed. `docs/cli.md` shows the help texts.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use super::eval::{FusionArgument, LateInteractionArgument, Minimum, RerankArgument};
use weir_config::Flags;

/// A retrieval gateway: ingest documents, embed them on the CPU, search them and cite.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    /// The configuration file (TOML); also WEIR_CONFIG.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway.
    Serve(ServeArguments),
    /// Send files to a running gateway.
    ///
    /// Takes .txt, .md, .html, .htm and .jsonl files, and folders of them. Running it again is cheap: documents that
    /// didn't change are recognised and left alone, so an interrupted run is continued by repeating it.
    Ingest(IngestArguments),
    /// Search in a running gateway.
    Search(SearchArguments),
    /// Show the jobs of a running gateway.
    Jobs(JobsArguments),
    /// Measure how well a running gateway searches, or draft a set to measure with.
    ///
    /// A set is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) and qrels.tsv or qrels/*.tsv
    /// (query, document, grade). Its documents go into a collection of their own, which is removed afterwards. Exits
    /// with 3 when everything was measured, and is below --min-ndcg or worse than the baseline.
    Eval(EvalArguments),
    /// Show or check the configuration.
    Config(ConfigArguments),
    /// Get a model, or describe one.
    Model(ModelArguments),
}

/// The arguments of `weir serve`; `weir config` takes them too.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArguments {
    /// The address to listen on; also WEIR_LISTEN [default: 127.0.0.1:8000].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// The folder of the store and the indexes; also WEIR_DATA_DIR [default: ./weir-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// The folder of the default model, or `pseudo` for embeddings without a model; also WEIR_MODEL
    /// [default: models/all-MiniLM-L6-v2].
    #[arg(long, value_name = "DIR")]
    pub model: Option<String>,
    /// Listen where others can reach the gateway although nobody has to show a key.
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
            insecure_no_auth: self.insecure_no_auth,
            ..Flags::default()
        }
    }
}

/// The arguments of `weir ingest`.
#[derive(Debug, Args)]
pub struct IngestArguments {
    /// Files, and folders to look for files in.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Where the gateway is; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// The collection that the documents go to.
    #[arg(long, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// Documents in one request, at most.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Print the outcome as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `weir search`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["query", "filter", "sort", "facet"]))]
pub struct SearchArguments {
    /// What to search: words, a sentence, or the query language; one that begins with `-` stands last, behind `--`. Without
    /// it, what --filter lets through is listed.
    pub query: Option<String>,
    /// How many results at most.
    #[arg(long, value_name = "N", default_value_t = weir_api::DEFAULT_TOP_K)]
    pub top_k: u64,
    /// Where the page begins: `next_cursor` of the page before it, which --json shows, with its other arguments repeated.
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
    /// The collection to search in.
    #[arg(long, value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// Refuse a query that the query language doesn't know, instead of searching it as text.
    #[arg(long)]
    pub strict: bool,
    /// Which legs rank.
    #[arg(long, value_enum, default_value_t = SearchMode::Hybrid)]
    pub mode: SearchMode,
    /// A model that orders the first results by reading query and text together, or `none` [default: as the gateway is set].
    #[arg(long, value_name = "MODEL")]
    pub rerank: Option<String>,
    /// Leave out results that are less relevant than this, from 0 to 1.
    #[arg(long, value_name = "RELEVANCE", value_parser = relevance)]
    pub min_relevance: Option<f32>,
    /// Conditions on metadata, as JSON: '{"year": {"gte": 2019}}'.
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// Metadata fields to sort by, with commas between them and `-` before those from the largest value.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', allow_hyphen_values = true)]
    pub sort: Vec<String>,
    /// A metadata field whose values are counted; may be given several times.
    #[arg(long, value_name = "FIELD")]
    pub facet: Vec<String>,
    /// What counts as one result: `document`, `chunk`, or a metadata field.
    #[arg(long, value_name = "WHAT")]
    pub group_by: Option<String>,
    /// Mark what the gateway says was searched, corrections and words behind `prefix*` among it.
    #[arg(long)]
    pub highlight: bool,
    /// Say how the query was understood and how each result got its score.
    #[arg(long)]
    pub explain: bool,
    /// Say at which stage this document fell out.
    #[arg(long, value_name = "ID")]
    pub why_not: Option<String>,
    /// Where the gateway is; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print the gateway's reply as it is.
    #[arg(long)]
    pub json: bool,
}

fn relevance(text: &str) -> Result<f32, String> {
    let relevance = text.parse().ok().filter(|relevance| (0.0..=1.0).contains(relevance));
    relevance.ok_or_else(|| format!("`{text}` is no number from 0 to 1"))
}

/// Which legs rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchMode {
    /// Words and embeddings, fused.
    Hybrid,
    /// Words alone.
    Lexical,
    /// Embeddings alone.
    Dense,
}

impl SearchMode {
    const ALL: [SearchMode; 3] = [SearchMode::Hybrid, SearchMode::Lexical, SearchMode::Dense];
}

/// The arguments of `weir jobs`.
#[derive(Debug, Args)]
pub struct JobsArguments {
    /// One job; all when absent.
    pub id: Option<String>,
    /// Show the table again and again, until every job is finished.
    #[arg(long)]
    pub watch: bool,
    /// Where the gateway is; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Print the gateway's reply as it is.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `weir eval`.
#[derive(Debug, Args)]
pub struct EvalArguments {
    /// The folders of the sets; with --draft the one to make. Several sets give their mean as well.
    #[arg(required = true, value_name = "FOLDER")]
    pub folders: Vec<PathBuf>,
    /// Where the gateway is; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// Which legs rank, as the gateway is set; several with commas between.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = SearchMode::ALL)]
    pub mode: Vec<SearchMode>,
    /// Also a hybrid search that fuses in this way, such as rrf:k=30 or convex:0.4,0.6; may be repeated.
    #[arg(long, value_name = "METHOD[:LEXICAL,DENSE][,k=K]")]
    pub fusion: Vec<FusionArgument>,
    /// Also a hybrid search whose first results this model orders; may be repeated.
    #[arg(long, value_name = "MODEL[:TOP_N]")]
    pub rerank: Vec<RerankArgument>,
    /// Also a hybrid search that counts the likeness of tokens by this weight; may be repeated.
    #[arg(long, value_name = "WEIGHT[:TOP_N]")]
    pub late_interaction: Vec<LateInteractionArgument>,
    /// How many results each search asks for; recall is taken at this number.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..))]
    pub top_k: u64,
    /// Which judgments of a qrels folder; `test`, or the only ones, when absent.
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// A run file to compare with, by --out; worse than it (the interval of 95 % is below 0) exits with 3.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Compare with this configuration of the same run instead, such as `hybrid`; for the reader alone.
    #[arg(long, value_name = "CONFIGURATION", conflicts_with = "baseline")]
    pub against: Option<String>,
    /// The nDCG@10 that must be reached, else the exit code is 3; by the mean of the sets and the first configuration,
    /// or those that are named; may be repeated.
    #[arg(long, value_name = "[SET][/CONFIGURATION]=X")]
    pub min_ndcg: Vec<Minimum>,
    /// Write the scores of every query to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A collection to ask as it stands; when it isn't there, the set's documents go into one of this name. With
    /// --draft the collection whose documents are taken.
    #[arg(long, value_name = "NAME", required_if_eq("draft", "true"))]
    pub collection: Option<String>,
    /// Leave the collection that was made.
    #[arg(long)]
    pub keep: bool,
    /// Draft a set from the documents of a collection and the feedback to it, into a new folder.
    #[arg(long, conflicts_with_all = ["baseline", "against", "min_ndcg", "out", "keep", "fusion", "rerank", "late_interaction"])]
    pub draft: bool,
    /// How many queries to draft, those from feedback aside.
    #[arg(long, value_name = "N", default_value_t = 200, requires = "draft")]
    pub queries: usize,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `weir config`.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// What to do with the configuration.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands under `weir config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting in force and where it came from, as a file that can be used.
    Show {
        /// What `weir serve` would be given.
        #[command(flatten)]
        serve: ServeArguments,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell whether `weir serve` would start with this configuration; if not, everything that is wrong.
    Check {
        /// What `weir serve` would be given.
        #[command(flatten)]
        serve: ServeArguments,
    },
}

/// The arguments of `weir model`.
#[derive(Debug, Args)]
pub struct ModelArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: ModelCommand,
}

/// The commands under `weir model`.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Fetch a model's files from a hub.
    Pull {
        /// The model's name on the hub; without an owner it is one of `sentence-transformers`.
        name: String,
        /// The folder to make [default: models/ and the last part of the name].
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// The hub's address [default: https://huggingface.co].
        #[arg(long, value_name = "URL")]
        hub: Option<String>,
        /// The branch, tag or commit.
        #[arg(long, default_value = "main")]
        revision: String,
    },
    /// Load a model and describe it.
    Info {
        /// The model's folder [default: that of the default model].
        folder: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
