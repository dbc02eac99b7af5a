//! `weir model pull`: the files of a model, from a hub into a folder.
//!
//! The files are written to a folder beside the target, which is renamed when it is complete: an interrupted pull leaves no
//! incomplete model.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use sha2::{Digest, Sha256};
use weir_client::{Transport, TransportError};

use super::error::PullError;
use crate::cli::failure::Result;
use crate::cli::interrupt::cancelled_by_ctrl_c;
use crate::cli::progress::Progress;

/// The files of a model folder, and whether each is required.
const FILES: [(&str, bool); 10] = [
    ("config.json", true),
    ("tokenizer.json", true),
    ("model.safetensors", true),
    ("tokenizer_config.json", false),
    ("special_tokens_map.json", false),
    ("vocab.txt", false),
    ("modules.json", false),
    ("sentence_bert_config.json", false),
    ("config_sentence_transformers.json", false),
    ("1_Pooling/config.json", false),
];

/// The owner of a model whose name has none.
const DEFAULT_OWNER: &str = "sentence-transformers";
/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a reply's head may take, redirects and connecting included. The body has no limit.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The files to fetch and their destination.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PullRequest {
    name: String,
    to: PathBuf,
    hub: String,
    revision: String,
}

impl PullRequest {
    pub(super) fn new(name: &str, to: Option<PathBuf>, hub: &str, revision: &str) -> PullRequest {
        let name = if name.contains('/') { name.to_owned() } else { format!("{DEFAULT_OWNER}/{name}") };
        let last = name.rsplit('/').next().unwrap_or_default();
        let to = to.unwrap_or_else(|| Path::new("models").join(last));
        PullRequest { to, hub: hub.trim_end_matches('/').to_owned(), revision: revision.to_owned(), name }
    }

    fn url(&self, file: &str) -> String {
        format!("{}/{}/resolve/{}/{file}", self.hub, self.name, self.revision)
    }

    /// Checks name and target. A name becomes part of a URL and of a path: letters, digits, `_`, `.` and `-`, and one slash.
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
pub(super) async fn run(request: &PullRequest, out: &mut dyn Write) -> Result<()> {
    request.check()?;
    let cancelled = cancelled_by_ctrl_c();
    let partial = partial_folder(&request.to);
    let PullRequest { name, to, hub, revision } = request;
    writeln!(out, "fetching {name} ({revision}) from {hub} into {}: SHA-256, bytes, file", to.display())?;
    out.flush()?;
    let fetched = cancelled.run_until_cancelled(fetch_all(request, &partial, out)).await;
    let fetched = fetched.unwrap_or(Err(PullError::Interrupted.into()));
    if fetched.is_err() {
        // the cause of the failure is the better message, should this fail too
        let _ = fs::remove_dir_all(&partial);
    }
    fetched?;
    fs::rename(&partial, &request.to)
        .map_err(|source| PullError::Disk { path: request.to.clone(), source })?;
    writeln!(out, "{} is in {}", request.name, request.to.display())?;
    Ok(())
}

/// A folder beside the target that only this process uses.
fn partial_folder(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".partial-{}", std::process::id()));
    to.with_file_name(name)
}

async fn fetch_all(request: &PullRequest, partial: &Path, out: &mut dyn Write) -> Result<()> {
    let transport = Transport::new(CONNECT_TIMEOUT);
    for (file, is_required) in FILES {
        let url = request.url(file);
        let response = tokio::time::timeout(RESPONSE_TIMEOUT, transport.get(&url)).await;
        let response = response.unwrap_or(Err(TransportError::Timeout(RESPONSE_TIMEOUT)));
        let response = response.map_err(|source| PullError::Unreachable { url: url.clone(), source })?;
        match response.status().as_u16() {
            200 => {}
            404 if !is_required => continue,
            status => return Err(PullError::Status { url, status }.into()),
        }
        let (bytes, checksum) = save(response.into_body(), file, &url, &partial.join(file)).await?;
        writeln!(out, "{checksum}  {bytes:>11}  {file}")?;
        out.flush()?;
    }
    Ok(())
}

/// Writes a reply to a file while it is received; returns its size and SHA-256.
async fn save(
    mut body: Incoming,
    label: &'static str,
    url: &str,
    path: &Path,
) -> Result<(u64, String), PullError> {
    let disk = |source| PullError::Disk { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(disk)?;
    }
    let mut file = File::create(path).map_err(disk)?;
    let expected = body.size_hint().exact();
    let mut progress = Progress::begin(label, "", expected.unwrap_or_default());
    let mut hash = Sha256::new();
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| PullError::Unreachable {
            url: url.to_owned(),
            source: TransportError::Body(source.into()),
        })?;
        let Ok(bytes) = frame.into_data() else { continue };
        file.write_all(&bytes).map_err(disk)?;
        hash.update(&bytes);
        received += bytes.len() as u64;
        progress.advance(bytes.len() as u64, 0);
    }
    progress.finish();
    if let Some(expected) = expected.filter(|expected| *expected != received) {
        return Err(PullError::Length { url: url.to_owned(), expected, received });
    }
    file.sync_all().map_err(disk)?;
    let checksum: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((received, checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_owner_is_sentence_transformers() {
        let request = PullRequest::new("all-MiniLM-L6-v2", None, "https://hub.example/", "main");
        assert_eq!(request.to, Path::new("models/all-MiniLM-L6-v2"));
        assert_eq!(
            request.url("1_Pooling/config.json"),
            "https://hub.example/sentence-transformers/all-MiniLM-L6-v2/resolve/main/1_Pooling/config.json"
        );
    }

    #[test]
    fn a_name_that_would_leave_its_folder_or_url_is_refused() {
        for name in ["../x", "a/..", "a/b/c", "a b/c", "/", "a/b?c"] {
            let request =
                PullRequest::new(name, Some("nowhere-at-all".into()), "https://hub.example", "main");
            assert!(matches!(request.check(), Err(PullError::Name(_))), "{name}");
        }
        assert!(PullRequest::new("BAAI/bge-small", None, "h", "main").check().is_ok());
    }
}
