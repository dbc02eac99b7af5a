//! Why a command failed: message, hints and exit code.

use std::io::Write;

use super::model::{InfoError, PullError};
use weir_client::{ClientError, IngestError};
use weir_config::Problems;
use weir_eval::EvalError;
use weir_llm::TableError;
use weir_sources::accepted;

/// Exit code of a command that failed. (Wrong usage is 2, by clap.)
const EXIT_FAILED: u8 = 1;
/// Exit code of a complete measurement with a score below its minimum or worse than the baseline.
const EXIT_BELOW: u8 = 3;
/// Exit code after Ctrl-C: 128 plus the signal's number, as in shells.
pub(super) const EXIT_INTERRUPTED: u8 = 130;

/// The hint after an ingest that did not finish.
const CONTINUE_HINT: &str = "run the same command again to continue: unchanged documents cost nothing";

/// The hint where no model answers chat requests.
const NO_CHAT_MODEL_HINT: &str = "add an `[[upstreams]]` entry to the gateway's configuration, such as id = \"local\" and provider = \"ollama\", and name \
    its model with --model local/NAME, or the model of a `[[routes]]` entry: docs/llm.md";

/// The result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] Problems),
    /// The tables of the LLM gateway can't be used.
    #[error(transparent)]
    Llm(#[from] TableError),
    /// A call of the gateway failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An ingest failed, is incomplete, or was interrupted.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// No file to ingest.
    #[error("there is nothing to ingest in {paths}{}", only(.left_out))]
    NothingFound {
        /// Where files were looked for.
        paths: String,
        /// The files of other kinds, if any: `12 .png`.
        left_out: String,
    },
    /// The data directory whose keys are asked for is not there.
    #[error("there is no data directory {0}")]
    NoDataDir(String),
    /// The path of `weir sync` is not a folder.
    #[error("{0} is not a folder")]
    NotAFolder(String),
    /// The collection has documents of another folder of the name, which would be replaced.
    #[error("`{collection}` has documents of another folder `{folder}` than {path}: {what}")]
    OtherFolder {
        /// The collection.
        collection: String,
        /// The name of both folders.
        folder: String,
        /// How the other one is known.
        what: String,
        /// The absolute path of the folder.
        path: String,
    },
    /// Something is to be deleted, and nobody said yes.
    #[error("nothing was deleted: {0} would be deleted")]
    NotConfirmed(String),
    /// The comparison of an index with the store has failed.
    #[error("the index was not compared with the store: {0}")]
    NotCompared(String),
    /// A collection was moved back.
    #[error("the overlap@10 is {mean:.3}, below {min}: the index of `{name}` was moved back to {engine}")]
    Overlap {
        /// The collection.
        name: String,
        /// The engine that it was in before.
        engine: &'static str,
        /// The mean of the queries.
        mean: f64,
        /// The required value.
        min: f64,
    },
    /// There is nothing to compare an overlap of.
    #[error("there are no queries to compare results of, and nothing was moved")]
    NoQueries,
    /// A collection was moved elsewhere while it was waited for.
    #[error("the index of `{name}` was moved to {engine} meanwhile")]
    MovedElsewhere {
        /// The collection.
        name: String,
        /// The engine.
        engine: &'static str,
    },
    /// There is no collection of the name, and one with a similar name.
    #[error("{message}")]
    NoCollection {
        /// The message of the gateway.
        message: String,
        /// The similar name.
        similar: String,
    },
    /// A question was put to no model, or to one that there is not.
    #[error("{0}")]
    NoChatModel(String),
    /// There are these models for chat, and none was named.
    #[error("the gateway has several models for chat: {0}")]
    SeveralChatModels(String),
    /// The standard input could not be read.
    #[error("the input can't be read: {0}")]
    Input(std::io::Error),
    /// A file could not be opened.
    #[error("{path} can't be read: {source}")]
    File {
        /// Its path.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A file or folder could not be written.
    #[error("{path} can't be written: {source}")]
    Write {
        /// Its path.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The folder of an export has files.
    #[error("the folder {path} is not empty")]
    FolderNotEmpty {
        /// Its path.
        path: String,
    },
    /// A file has no text.
    #[error("{path}: {source} ({})", .source.code())]
    Extract {
        /// Its path.
        path: String,
        /// The cause.
        source: weir_isolation::ExtractError,
    },
    /// The price table of `weir plan` can't be used.
    #[error("{path} is no price table: {message}")]
    Prices {
        /// Its path.
        path: String,
        /// The problem.
        message: String,
    },
    /// A filter without a condition would delete every document.
    #[error("the filter has no condition and would delete every document of the collection")]
    EmptyFilter,
    /// So many of the documents to delete do not exist; they were named before.
    #[error("{0} of the documents did not exist")]
    Missing(usize),
    /// The job named by its id failed; it was shown before.
    #[error("the job `{0}` failed")]
    Job(String),
    /// So many checks of a server failed; they were shown before.
    #[error("{0} of the server's replies deviate")]
    Deviates(usize),
    /// The key of `--api-key` can't be read.
    #[error("the API key can't be read: {0}")]
    ApiKey(String),
    /// `--filter` is not JSON.
    #[error("the filter is not JSON: {0}")]
    Filter(serde_json::Error),
    /// `--model-limits` is not JSON, or names other fields.
    #[error("the limits of models can't be read: {0}")]
    ModelLimits(serde_json::Error),
    /// An option of `weir keys update` that is given and taken away.
    #[error("--{0} is given a value, and --unset takes it away: leave one of them out")]
    GivenAndUnset(String),
    /// `weir keys update` without an option.
    #[error("no option says what to change")]
    NoChange,
    /// Ctrl-C before the command had done its work.
    #[error("interrupted")]
    Interrupted,
    /// A set could not be measured or drafted.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// The gateway answers and is not ready.
    #[error("the gateway is not ready: {0}")]
    NotReady(String),
    /// A key could not be created or changed.
    #[error(transparent)]
    Keys(#[from] weir_access::AccessError),
    /// There is no store to copy.
    #[error("there is no store to copy")]
    NoStore,
    /// `--to` names no URL.
    #[error("the URL of the database can't be read: {0}")]
    StoreUrl(String),
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] weir_store::Error),
    /// An original file could not be copied.
    #[error("the rows are copied, and an original file is not: {0}; empty the target and try again")]
    Originals(weir_retrieval::CopyError),
    /// So much of a data directory is damaged; it was shown before.
    #[error("problems found: {0}")]
    Damaged(usize),
    /// Everything was measured, and a score is below its minimum or worse than the baseline.
    #[error("the quality is below what was asked for: {0}")]
    Quality(String),
    /// A model could not be fetched.
    #[error(transparent)]
    Pull(#[from] PullError),
    /// A model could not be described.
    #[error("{}", with_causes(.0))]
    Info(#[from] InfoError),
    /// The server could not start, or stopped.
    #[error("{}", with_causes(.0))]
    Serve(#[from] crate::serve::ServeError),
    /// The asynchronous runtime of a command could not start.
    #[error("can't start: {0}")]
    Start(std::io::Error),
    /// The output could not be written.
    #[error("the output could not be written: {0}")]
    Output(#[from] std::io::Error),
}

fn only(left_out: &str) -> String {
    if left_out.is_empty() { String::new() } else { format!(", only {left_out}") }
}

/// The messages of an error and of its causes; one that an outer message contains is left out.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut shown = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let message = inner.to_string();
        if !shown.contains(&message) {
            shown.push_str(": ");
            shown.push_str(&message);
        }
        cause = inner.source();
    }
    shown
}

impl Failure {
    /// Writes `error: …` and `hint: …` lines; nothing when the reader of the output closed the pipe.
    pub fn print(&self, err: &mut dyn Write) {
        if self.is_closed_pipe() {
            return;
        }
        // writing fails only when the error stream is closed
        let _ = writeln!(err, "error: {self}");
        for hint in self.hints() {
            let _ = writeln!(err, "hint: {hint}");
        }
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        let cancelled = matches!(self, Failure::Ingest(IngestError::Cancelled { .. }))
            || matches!(self, Failure::Eval(EvalError::Cancelled))
            || matches!(self, Failure::Interrupted | Failure::Pull(PullError::Interrupted));
        if cancelled {
            EXIT_INTERRUPTED
        } else if matches!(self, Failure::Quality(_)) {
            EXIT_BELOW
        } else if self.is_closed_pipe() {
            0
        } else {
            EXIT_FAILED
        }
    }

    /// Whether the reader of the output closed the pipe.
    pub(super) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Failure::Config(problems) => match problems.0.as_slice() {
                [only] => only.hint.clone(),
                _ => None, // each is shown with its own
            },
            Failure::Ingest(IngestError::Call { source, .. }) => {
                return source.hint().into_iter().chain([CONTINUE_HINT.to_owned()]).collect();
            }
            Failure::Ingest(IngestError::Cancelled { .. }) => Some(CONTINUE_HINT.to_owned()),
            Failure::NothingFound { .. } => Some(format!("accepted are {}", accepted())),
            Failure::NoDataDir(_) => {
                Some("name that of the gateway; `weir keys create` makes a new one".to_owned())
            }
            Failure::NoStore => {
                Some("name the data directory with --data-dir, or the database in `store.url`".to_owned())
            }
            Failure::StoreUrl(_) => {
                Some("name the variable or the file that has it, as in --to env:STORE_URL".to_owned())
            }
            Failure::NotAFolder(_) => Some("send single files with `weir ingest`".to_owned()),
            Failure::OtherFolder { folder, .. } => Some(format!(
                "keep both with a prefix for the ids of this one, such as --prefix {folder}-2/; if it is the same folder, or is to take \
                 the other's place: --replace"
            )),
            Failure::NotConfirmed(_) => Some("repeat the command with --yes".to_owned()),
            Failure::NoQueries => Some(
                "name a file of queries with --queries, have searches logged by `search.query_log`, or leave out --overlap-min".to_owned(),
            ),
            Failure::NotCompared(_) => Some("`weir doctor` asks the nodes of the cluster".to_owned()),
            Failure::NoCollection { similar, .. } => {
                Some(format!("did you mean `{similar}`? `weir collections` lists all"))
            }
            Failure::NoChatModel(_) => Some(NO_CHAT_MODEL_HINT.to_owned()),
            Failure::SeveralChatModels(_) => Some("choose one with --model".to_owned()),
            Failure::EmptyFilter => Some(
                "give the filter a condition, or say --all in its place to delete every document".to_owned(),
            ),
            Failure::Client(error) => error.hint(),
            Failure::Eval(error) => error.hint(),
            Failure::Pull(error) => error.hint(),
            Failure::Info(error) => error.hint(),
            Failure::Deviates(_) => {
                Some("--dialect restricts the checks to the APIs that the server is to have".to_owned())
            }
            Failure::Damaged(_) => Some("each problem says what repairs it".to_owned()),
            Failure::ApiKey(_) => {
                Some("name the variable or the file that has it, as in --api-key env:API_KEY".to_owned())
            }
            Failure::Filter(_) => {
                Some("quote it for the shell, as in --filter '{\"year\": {\"gte\": 2019}}'".to_owned())
            }
            Failure::FolderNotEmpty { .. } => Some(
                "name a new or an empty folder, so that no file of another export is among its files"
                    .to_owned(),
            ),
            Failure::Prices { .. } => Some(
                "write an object, as in {\"currency\": \"EUR\", \"core\": 20, \"memory_gib\": 3, \"disk_gib\": 0.1}, each a month"
                    .to_owned(),
            ),
            Failure::NoChange => Some("`weir keys update --help` lists the options".to_owned()),
            Failure::ModelLimits(_) => Some(
                "write an object, as in --model-limits '{\"gpt-4o*\": {\"requests_per_minute\": 60}}'"
                    .to_owned(),
            ),
            Failure::Ingest(IngestError::Incomplete { .. } | IngestError::Replaced { .. })
            | Failure::Input(_)
            | Failure::File { .. }
            | Failure::Write { .. }
            | Failure::Extract { .. }
            | Failure::Interrupted
            | Failure::Llm(_)
            | Failure::Keys(_)
            | Failure::NotReady(_)
            | Failure::Store(_)
            | Failure::Originals(_)
            | Failure::Missing(_)
            | Failure::Overlap { .. }
            | Failure::MovedElsewhere { .. }
            | Failure::GivenAndUnset(_)
            | Failure::Job(_)
            | Failure::Quality(_)
            | Failure::Serve(_)
            | Failure::Start(_)
            | Failure::Output(_) => None,
        };
        hint.into_iter().collect()
    }
}
