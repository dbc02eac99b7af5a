//! `weir demo`: serves a sample, or the user's own files, and says what to try.

use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_client::{Client, IngestOptions, RetryPolicy, Trust, ingest};
use weir_config::{Config, Flags, LogLevel, load_for_serving};

use super::context::{Context, trust};
use super::failure::{Failure, Result};
use super::ingest::{check_found, steps};
use super::progress::DocumentProgress;
use crate::reload::ConfigSource;
use crate::serve::{self, ServeError};
use weir_sources::SourceFiles;

/// 240 paragraphs, one JSON object a line: `samples/xquad`.
const SAMPLE: &str = include_str!("../../../../samples/xquad/documents/xquad.jsonl");
/// A query that a paragraph of the sample answers in other words, and one about its subject.
const SAMPLE_QUERIES: [&str; 2] = [
    "how do spinning blades turn steam into motion",
    "who sang the American anthem before the football final",
];
/// Most documents of a request.
const BATCH_DOCUMENTS_MAX: usize = 200;

/// The arguments of `weir demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// Files to serve, and folders to search for files [default: the sample].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The address to listen on; also WEIR_LISTEN [default: 127.0.0.1:8000].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// The folder of the database and the indexes, which is kept [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The folder of the model; also WEIR_MODEL [default: models/all-MiniLM-L6-v2].
    #[arg(long, value_name = "DIR")]
    pub model: Option<String>,
}

/// Serves until SIGTERM or SIGINT. Without a data directory in `arguments`, the data is removed then.
///
/// # Errors
/// When the gateway can't start, when no document can be read, and when it is interrupted before all are searchable.
pub fn run(arguments: &DemoArguments, context: Context<'_>) -> Result<()> {
    let temporary = tempfile::Builder::new().prefix("weir-demo-").tempdir().map_err(Failure::Start)?;
    let config = load_config(arguments, &context, temporary.path())?;
    check_is_free(&config)?;
    let demo = Demo { arguments, folder: temporary.path(), url: config.client_url(), trust: trust(&config) };
    let (stopped, server_stopped) = oneshot::channel();
    let server = std::thread::spawn(move || {
        // fails when this command has ended already
        let _ = stopped.send(serve::run(config, ConfigSource::default()));
    });
    let outcome = super::block_on(demo.fill_and_wait(server_stopped, context.out));
    if matches!(outcome, Ok(()) | Err(Failure::Interrupted)) {
        // the store is closed before its folder is removed
        let _ = server.join();
    }
    outcome
}

/// The settings of `weir serve` with a data directory and a log of its own.
fn load_config(arguments: &DemoArguments, context: &Context<'_>, temporary: &Path) -> Result<Config> {
    let data_dir = arguments.data_dir.clone().unwrap_or_else(|| temporary.join("data"));
    let flags = Flags {
        config: context.file.clone(),
        listen: arguments.listen.clone(),
        data_dir: Some(data_dir.display().to_string()),
        model: arguments.model.clone(),
        ..Flags::default()
    };
    let mut config = load_for_serving(&flags, context.environment, &weir_inference::reranks)?.config;
    config.log.level = LogLevel::Warn;
    // the documents go to this gateway, whatever gateway the commands of this user call
    config.client.url.clear();
    config.client.ca_file.clear();
    Ok(config)
}

/// Checks that the address is free: otherwise the documents would go to the program that listens there.
fn check_is_free(config: &Config) -> Result<(), ServeError> {
    let address = config.server.listen;
    TcpListener::bind(address).map(drop).map_err(|source| ServeError::Listen { address, source })
}

struct Demo<'a> {
    arguments: &'a DemoArguments,
    /// A folder of this process.
    folder: &'a Path,
    url: String,
    trust: Trust,
}

impl Demo<'_> {
    /// Fills the gateway, prints what to try, and waits until the gateway stops.
    async fn fill_and_wait(
        &self,
        mut stopped: oneshot::Receiver<Result<(), ServeError>>,
        out: &mut dyn Write,
    ) -> Result<()> {
        tokio::select! {
            ended = &mut stopped => {
                result_of_server(ended)?;
                return Err(Failure::Interrupted);
            }
            filled = self.fill(out) => filled?,
        }
        Ok(result_of_server(stopped.await)?)
    }

    /// Ingests the files or the sample. Files that can't be read are named on the error stream.
    async fn fill(&self, out: &mut dyn Write) -> Result<()> {
        let sources = self.sources()?;
        let client = Client::new(self.url.clone(), RetryPolicy::LONG).with_trust(&self.trust)?;
        let options = IngestOptions {
            collection: weir_api::DEFAULT_COLLECTION,
            batch_documents_max: BATCH_DOCUMENTS_MAX,
            bytes_total: sources.bytes(),
            replace_if_equal: &[],
            keep_originals: false,
            webhook_url: None,
        };
        let mut progress = DocumentProgress::default();
        let never = CancellationToken::new();
        let (steps, _) = steps(sources);
        let report = ingest(&client, options, steps, &mut progress, &never).await?;
        self.print_what_to_try(report.documents, out)?;
        Ok(out.flush()?)
    }

    fn sources(&self) -> Result<SourceFiles> {
        let paths = &self.arguments.paths;
        if !paths.is_empty() {
            let sources = SourceFiles::find(paths, "");
            check_found(&sources, paths)?;
            return Ok(sources);
        }
        let sample = self.folder.join("xquad.jsonl");
        std::fs::write(&sample, SAMPLE).map_err(Failure::Start)?;
        Ok(SourceFiles::find(&[sample], ""))
    }

    fn print_what_to_try(&self, documents: u64, out: &mut dyn Write) -> io::Result<()> {
        let url = &self.url;
        let plural = if documents == 1 { "" } else { "s" };
        let is_sample = self.arguments.paths.is_empty();
        let [first, second] = if is_sample { SAMPLE_QUERIES } else { ["your question", "your question"] };
        let url_option =
            if *url == Config::default().client_url() { String::new() } else { format!(" --url {url}") };
        writeln!(out, "\nWeir serves {documents} document{plural} on {url}. Three things to try:\n")?;
        writeln!(out, "  1. weir search \"{first}\"{url_option}")?;
        writeln!(out, "  2. curl -s {url}/v1/search -H 'content-type: application/json' \\")?;
        writeln!(out, "       -d '{{\"query\": \"{second}\", \"top_k\": 3}}'")?;
        writeln!(out, "  3. open {url}/ in a browser to search, and {url}/docs for every call of the API\n")?;
        if is_sample {
            writeln!(out, "The documents are paragraphs of Wikipedia, from XQuAD (CC BY-SA 4.0).")?;
        }
        match &self.arguments.data_dir {
            Some(folder) => writeln!(out, "The data is in {}. Ctrl-C stops the gateway.", folder.display()),
            None => writeln!(out, "Ctrl-C stops the gateway and removes its data."),
        }
    }
}

fn result_of_server(
    ended: Result<Result<(), ServeError>, oneshot::error::RecvError>,
) -> Result<(), ServeError> {
    ended.unwrap_or_else(|_| Err(ServeError::Start(io::Error::other("the gateway panicked"))))
}
