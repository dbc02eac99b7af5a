//! Why a set can't be measured or drafted.

use std::path::PathBuf;

use weir_client::{ClientError, IngestError};

/// The result of a measurement or a draft.
pub type Result<T, E = EvalError> = std::result::Result<T, E>;

/// Why a set can't be measured or drafted.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A file can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file can't be written.
    #[error("{} can't be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line of a file is malformed.
    #[error("{}, line {number}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        number: usize,
        /// The reason.
        message: String,
    },
    /// There is no file of judgments, or there are several and none was chosen.
    #[error("{} {}", folder.display(), no_judgments(splits))]
    NoJudgments {
        /// The folder.
        folder: PathBuf,
        /// The available splits.
        splits: Vec<String>,
    },
    /// There are judgments of unknown queries.
    #[error("{} judges {count} queries that are not in queries.jsonl, such as `{example}`", folder.display())]
    UnknownQueries {
        /// The folder.
        folder: PathBuf,
        /// How many.
        count: usize,
        /// One of them.
        example: String,
    },
    /// No query has a relevant document.
    #[error("{} has no query with a relevant document", .0.display())]
    NoRelevantJudgment(PathBuf),
    /// The collection has none of the relevant documents: every score would be 0.
    #[error("none of the {count} documents that `{set}` calls relevant is in {place}")]
    NoRelevantDocument {
        /// The set.
        set: String,
        /// The number of relevant documents.
        count: usize,
        /// The searched file or collection.
        place: String,
    },
    /// Two folders have the same name.
    #[error("two sets are called `{0}`; rename one of the folders")]
    DuplicateName(String),
    /// A collection is named for several sets.
    #[error("--collection goes with one folder; leave it out, and each set gets a collection of its own")]
    OneCollection,
    /// A query was not answered.
    #[error("query {name}: {source}")]
    Query {
        /// The set and the query's id.
        name: String,
        /// The cause.
        source: ClientError,
    },
    /// A call that is not a query failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The documents of a set could not be ingested.
    #[error(transparent)]
    Ingest(IngestError),
    /// The measurement was cancelled.
    #[error("interrupted")]
    Cancelled,
    /// The baseline is not a run file.
    #[error("{} is not a run file: {reason}", path.display())]
    NotARunFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The baseline was measured on other sets or configurations.
    #[error("the baseline does not have {0}")]
    NotInBaseline(String),
    /// The baseline was measured with other queries.
    #[error("the baseline has other queries of `{0}`")]
    OtherQueries(String),
    /// An unknown set is named.
    #[error("no set is called `{set}`; there are: {known}")]
    UnknownSet {
        /// The name.
        set: String,
        /// The names of the measured sets.
        known: String,
    },
    /// An unknown configuration is named.
    #[error("no configuration is called `{label}`; there are: {known}")]
    UnknownConfiguration {
        /// The label.
        label: String,
        /// The labels of the measured configurations.
        known: String,
    },
    /// A draft would overwrite a file.
    #[error("{} is there already; name a new folder for the draft", .0.display())]
    DraftExists(PathBuf),
    /// No query can be drafted from a collection.
    #[error(
        "no query can be drafted from the collection `{0}`: its documents have neither titles nor sentences that name them"
    )]
    NothingToDraft(String),
}

fn no_judgments(splits: &[String]) -> String {
    match splits {
        [] => "has no judgments: neither qrels.tsv nor a qrels folder".to_owned(),
        splits => format!("has no judgments of that --split; there are: {}", splits.join(", ")),
    }
}

impl From<IngestError> for EvalError {
    fn from(error: IngestError) -> EvalError {
        match error {
            IngestError::Cancelled { .. } => EvalError::Cancelled, // the documents are removed again
            error @ (IngestError::Call { .. }
            | IngestError::Incomplete { .. }
            | IngestError::Replaced { .. }) => EvalError::Ingest(error),
        }
    }
}

impl EvalError {
    /// How to solve the problem, where the message does not say it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            EvalError::Query { source, .. } | EvalError::Client(source) => return source.hint(),
            EvalError::Ingest(IngestError::Call { source, .. }) => return source.hint(),
            EvalError::NoJudgments { splits, .. } if !splits.is_empty() => "choose one with --split",
            EvalError::NotInBaseline(_) | EvalError::OtherQueries(_) => {
                "measure the baseline anew with --out, over the same folders"
            }
            EvalError::NothingToDraft(_) => "send feedback with `POST /v1/feedback`, and draft again",
            EvalError::NoRelevantDocument { .. } => {
                "compare the ids in the judgments with those of the documents, and see which collection --collection names"
            }
            EvalError::Read { .. }
            | EvalError::Write { .. }
            | EvalError::Line { .. }
            | EvalError::NoJudgments { .. }
            | EvalError::UnknownQueries { .. }
            | EvalError::NoRelevantJudgment(_)
            | EvalError::DuplicateName(_)
            | EvalError::OneCollection
            | EvalError::Ingest(_)
            | EvalError::Cancelled
            | EvalError::NotARunFile { .. }
            | EvalError::UnknownSet { .. }
            | EvalError::UnknownConfiguration { .. }
            | EvalError::DraftExists(_) => return None,
        };
        Some(hint.to_owned())
    }
}
