//! Why a command failed, for the person who typed it.

use std::io::Write;

use super::client::ClientError;
use super::eval::EvalError;
use super::model::{InfoError, PullError};
use weir_config::Problems;

/// Exit code of a command that failed. (Wrong usage is 2, by clap.)
const EXIT_FAILED: u8 = 1;
/// Exit code of a measurement that was made and is below what was asked for.
const EXIT_BELOW: u8 = 3;
/// Exit code after Ctrl-C: 128 and the signal's number, as shells do.
const EXIT_INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] Problems),
    /// The gateway could not be asked, or it refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The gateway could not be asked while documents were on their way.
    #[error("{source} ({done} documents are in)")]
    Ingest {
        /// What happened.
        source: ClientError,
        /// Documents whose job was completed.
        done: u64,
    },
    /// Some documents did not go in; they were named before.
    #[error("{failed} of {total} documents did not go in")]
    Documents {
        /// How many did not.
        failed: u64,
        /// How many there were.
        total: u64,
    },
    /// No file to ingest.
    #[error("there is nothing to ingest in {0}")]
    NothingFound(String),
    /// Some jobs failed; they were shown before.
    #[error("the job `{0}` failed")]
    Job(String),
    /// `--filter` is no JSON.
    #[error("the filter is not JSON: {0}")]
    Filter(serde_json::Error),
    /// A set could not be measured or drafted.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// Everything was measured, and is below what was asked for.
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
    /// Ctrl-C; the text says what was done, empty when nothing of it stays.
    #[error("interrupted{0}")]
    Interrupted(String),
    /// The output could not be written.
    #[error("the output could not be written: {0}")]
    Output(#[from] std::io::Error),
}

/// The message of an error and those of its causes, each once.
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
    /// Writes `error: …` and `hint: …` lines. A reader of our output that went away is no error worth a line.
    pub fn print(&self, err: &mut dyn Write) {
        if self.is_closed_pipe() {
            return;
        }
        // Nothing can be done when the error stream itself is closed.
        let _ = writeln!(err, "error: {self}");
        for hint in self.hints() {
            let _ = writeln!(err, "hint: {hint}");
        }
    }

    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Interrupted(_) => EXIT_INTERRUPTED,
            Failure::Quality(_) => EXIT_BELOW,
            failure if failure.is_closed_pipe() => 0,
            Failure::Config(_)
            | Failure::Client(_)
            | Failure::Ingest { .. }
            | Failure::Documents { .. }
            | Failure::NothingFound(_)
            | Failure::Job(_)
            | Failure::Filter(_)
            | Failure::Eval(_)
            | Failure::Pull(_)
            | Failure::Info(_)
            | Failure::Serve(_)
            | Failure::Output(_) => EXIT_FAILED,
        }
    }

    fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Failure::Config(problems) => problems
                .0
                .iter()
                .filter_map(|problem| problem.hint.as_ref())
                .map(|hint| hint.to_owned())
                .collect(),
            Failure::Client(error) => error.hint().into_iter().collect(),
            Failure::Ingest { source, .. } => source
                .hint()
                .into_iter()
                .chain(
                    ["run the same command again to continue: unchanged documents cost nothing".to_owned()],
                )
                .collect(),
            Failure::Interrupted(done) if done.is_empty() => Vec::new(),
            Failure::Interrupted(_) => {
                vec!["run the same command again to continue: unchanged documents cost nothing".to_owned()]
            }
            Failure::NothingFound(_) => {
                vec!["accepted are .txt, .md, .html, .htm and .jsonl files".to_owned()]
            }
            Failure::Eval(error) => error.hint().into_iter().collect(),
            Failure::Pull(error) => error.hint().into_iter().collect(),
            Failure::Info(error) => error.hint().into_iter().collect(),
            Failure::Filter(_) => {
                vec!["quote it for the shell, as in --filter '{\"year\": {\"gte\": 2019}}'".to_owned()]
            }
            Failure::Documents { .. }
            | Failure::Job(_)
            | Failure::Quality(_)
            | Failure::Serve(_)
            | Failure::Output(_) => Vec::new(),
        }
    }
}
