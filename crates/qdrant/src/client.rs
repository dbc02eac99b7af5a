//! The nodes of a cluster, and how calls are made: which node, how long, how often.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use qdrant_client::qdrant::HealthCheckRequest;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Response, Status};

use crate::node::{ApiKey, Node};
use crate::{QdrantError, Result, SetupError};

/// The versions of the server that the client supports: its own minor version and those beside it, of which the first has IDF per query.
pub const VERSIONS: [&str; 3] = ["1.19", "1.20", "1.21"];

/// Attempts of a read: the first, and one at another node; one more where a second node may be away.
const READ_ATTEMPTS: (usize, usize) = (2, 3);
/// Attempts of a change at each node, and the least in all.
const WRITE_ATTEMPTS: (usize, usize) = (2, 4);
/// The wait before a change is sent to a node again; it doubles each time.
const WRITE_PAUSE: Duration = Duration::from_millis(100);
/// When to try again, where the server does not say.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Where a cluster is and how long it may take.
#[derive(Clone)]
pub struct QdrantSettings {
    /// The gRPC address of each node, `http://HOST:6334` or `https://…`.
    pub urls: Vec<String>,
    /// Sent with each call.
    pub api_key: Option<String>,
    /// Certificates of authorities (PEM) that are trusted beside the public ones.
    pub ca_file: Option<PathBuf>,
    /// The time that an attempt of a read has.
    pub read_timeout: Duration,
    /// The time that an attempt of a change has: more than the 30 s for which a node waits until the cluster has marked a replica dead.
    pub write_timeout: Duration,
}

impl QdrantSettings {
    /// Of nodes without API key, with the usual timeouts: 1 s for reads, 35 s for changes.
    pub fn new(urls: Vec<String>) -> QdrantSettings {
        QdrantSettings {
            urls,
            api_key: None,
            ca_file: None,
            read_timeout: Duration::from_secs(1),
            write_timeout: Duration::from_secs(35),
        }
    }
}

/// A call that has ended, with all its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedCall {
    /// Its name, as `upsert`.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// The time that it took.
    pub took: Duration,
    /// Attempts after the first.
    pub retries: usize,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A node carried it out.
    Done,
    /// It can't succeed.
    Refused,
    /// No node carried it out.
    Unavailable,
}

/// Receives each call that has ended.
pub type Observer = Arc<dyn Fn(EndedCall) + Send + Sync>;

/// The nodes of a cluster. Clones share the connections.
#[derive(Clone)]
pub struct Qdrant(Arc<Shared>);

struct Shared {
    nodes: Vec<Node>,
    /// Counts calls, for taking nodes in turn.
    next: AtomicUsize,
    read_timeout: Duration,
    write_timeout: Duration,
    observer: Option<Observer>,
}

/// The result of checking the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Address and version of each node that answers.
    pub nodes: Vec<(String, String)>,
    /// Address of each that does not, and why.
    pub missing: Vec<(String, String)>,
}

impl std::fmt::Debug for Qdrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.nodes.iter().map(|node| &node.url)).finish()
    }
}

/// The failure of an attempt.
enum Failed {
    /// Another node may carry the call out.
    Here(String),
    /// The server requests a pause.
    Busy(Duration, String),
    /// No node will.
    For(QdrantError),
}

impl Qdrant {
    /// The cluster of these nodes. It connects when it is first used. Within a runtime of Tokio.
    ///
    /// # Errors
    /// When an address, the file of certificates or the API key has not the right form.
    pub fn new(settings: &QdrantSettings) -> Result<Qdrant, SetupError> {
        Qdrant::observed(settings, None)
    }

    /// The same; `observer` receives each call when it has ended.
    ///
    /// # Errors
    /// As [`Qdrant::new`].
    pub fn observed(settings: &QdrantSettings, observer: Option<Observer>) -> Result<Qdrant, SetupError> {
        if settings.urls.is_empty() {
            return Err(SetupError::NoNodes);
        }
        let api_key = ApiKey::parse(settings.api_key.as_deref())?;
        let authorities = match &settings.ca_file {
            Some(path) => {
                let unfit = |error: &dyn std::fmt::Display| SetupError::Authorities(error.to_string());
                weir_trust::read_certificates(path).map_err(|error| unfit(&error))?;
                Some(std::fs::read(path).map_err(|error| unfit(&error))?)
            }
            None => None,
        };
        let node = |url: &String| Node::new(url, api_key.clone(), authorities.as_deref());
        let nodes = settings.urls.iter().map(node).collect::<Result<_, _>>()?;
        Ok(Qdrant(Arc::new(Shared {
            nodes,
            next: AtomicUsize::new(0),
            read_timeout: settings.read_timeout,
            write_timeout: settings.write_timeout,
            observer,
        })))
    }

    /// How many nodes there are, and of how many the last call was answered.
    pub fn nodes(&self) -> (usize, usize) {
        let nodes = &self.0.nodes;
        (nodes.len(), nodes.iter().filter(|node| node.answers()).count())
    }

    /// Asks each node for its version.
    ///
    /// # Errors
    /// When none answers, one refuses the API key, or one has a version that the client does not support.
    pub async fn check(&self) -> Result<Checked, SetupError> {
        let mut checked = Checked { nodes: Vec::new(), missing: Vec::new() };
        for node in &self.0.nodes {
            let mut service = node.service();
            let answer = match timeout(self.0.read_timeout, service.health_check(HealthCheckRequest {})).await
            {
                Ok(answer) => answer,
                Err(_) => Err(Status::deadline_exceeded("no answer in time")),
            };
            if answer.is_ok() {
                node.trust()
            } else {
                node.avoid()
            }
            let url = node.url.clone();
            match answer {
                Ok(answer) => {
                    let version = answer.into_inner().version;
                    if !is_known(&version) {
                        return Err(SetupError::Version { url, version });
                    }
                    checked.nodes.push((url, version));
                }
                Err(status) if is_about_key(status.code()) => return Err(SetupError::KeyRefused { url }),
                Err(status) => checked.missing.push((url, reason_of(&status))),
            }
        }
        if checked.nodes.is_empty() {
            let reasons = checked.missing.iter().map(|(url, reason)| format!("{url}: {reason}"));
            return Err(SetupError::Unreachable { reason: reasons.collect::<Vec<_>>().join("; ") });
        }
        Ok(checked)
    }

    /// Makes a call that changes nothing. If a node is unavailable, fails internally or takes longer than the deadline, the call is made at
    /// another; where a server is too busy, after the time that it requests.
    pub(crate) async fn read<Q: Clone, R, F>(
        &self,
        call: &'static str,
        request: Q,
        send: impl Fn(&Node, Request<Q>) -> F,
    ) -> Result<R>
    where
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let mut sent = 0;
        let (started, answer) = (Instant::now(), self.read_at_nodes(call, request, send, &mut sent).await);
        self.observe(call, started, sent, &answer);
        answer
    }

    async fn read_at_nodes<Q: Clone, R, F>(
        &self,
        call: &'static str,
        request: Q,
        send: impl Fn(&Node, Request<Q>) -> F,
        sent: &mut usize,
    ) -> Result<R>
    where
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let attempts = self.0.nodes.len().clamp(READ_ATTEMPTS.0, READ_ATTEMPTS.1);
        let nodes = self.in_turn();
        let (started, mut reasons) = (Instant::now(), Vec::new());
        for attempt in 0..2 * attempts {
            *sent = attempt + 1;
            // a connection that broke is noticed by the first call that needs it: each node gets a second one if there is time
            if attempt >= attempts && started.elapsed() >= self.0.read_timeout {
                break;
            }
            let node = nodes[attempt % nodes.len()];
            match self.attempt(call, node, self.0.read_timeout, request.clone(), &send).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::For(error)) => return Err(error),
                Err(Failed::Here(reason)) => reasons.push(reason),
                Err(Failed::Busy(retry_after, reason)) => {
                    if attempt + 1 >= attempts || retry_after > self.0.read_timeout {
                        return Err(QdrantError::Unavailable { call, reason, retry_after });
                    }
                    sleep(retry_after).await;
                    reasons.push(reason);
                }
            }
        }
        Err(QdrantError::Unavailable { call, reason: reasons.join("; "), retry_after: RETRY_AFTER })
    }

    /// Makes a change, which may be carried out more than once. `incomplete` says what a reply lacks: then, too, the change is made again.
    pub(crate) async fn write<Q: Clone, R, F>(
        &self,
        call: &'static str,
        request: Q,
        send: impl Fn(&Node, Request<Q>) -> F,
        incomplete: impl Fn(&R) -> Option<String>,
    ) -> Result<R>
    where
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let (mut sent, started) = (0, Instant::now());
        let answer = self.write_at_nodes(call, request, send, incomplete, &mut sent).await;
        self.observe(call, started, sent, &answer);
        answer
    }

    async fn write_at_nodes<Q: Clone, R, F>(
        &self,
        call: &'static str,
        request: Q,
        send: impl Fn(&Node, Request<Q>) -> F,
        incomplete: impl Fn(&R) -> Option<String>,
        sent: &mut usize,
    ) -> Result<R>
    where
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let nodes = self.in_turn();
        let attempts = (nodes.len() * WRITE_ATTEMPTS.0).max(WRITE_ATTEMPTS.1);
        let (mut reasons, mut pause) = (Vec::new(), WRITE_PAUSE);
        for attempt in 0..attempts {
            *sent = attempt + 1;
            let node = nodes[attempt % nodes.len()];
            match self.attempt(call, node, self.0.write_timeout, request.clone(), &send).await {
                Ok(answer) => match incomplete(&answer) {
                    None => return Ok(answer),
                    Some(reason) => reasons.push(format!("{}: {reason}", node.url)),
                },
                Err(Failed::For(error)) => return Err(error),
                Err(Failed::Here(reason)) => reasons.push(reason),
                Err(Failed::Busy(retry_after, reason)) => {
                    if attempt + 1 == attempts || retry_after > self.0.write_timeout {
                        return Err(QdrantError::Unavailable { call, reason, retry_after });
                    }
                    sleep(retry_after).await;
                    reasons.push(reason);
                    continue;
                }
            }
            // each node was asked once more
            if (attempt + 1) % nodes.len() == 0 && attempt + 1 < attempts {
                sleep(pause).await;
                pause *= 2;
            }
        }
        Err(QdrantError::Unavailable { call, reason: reasons.join("; "), retry_after: RETRY_AFTER })
    }

    fn observe<R>(&self, name: &'static str, started: Instant, sent: usize, answer: &Result<R>) {
        let Some(observer) = &self.0.observer else { return };
        let outcome = match answer {
            Ok(_) => Outcome::Done,
            Err(QdrantError::Unavailable { .. }) => Outcome::Unavailable,
            Err(QdrantError::Refused { .. } | QdrantError::Malformed { .. }) => Outcome::Refused,
        };
        observer(EndedCall { name, outcome, took: started.elapsed(), retries: sent.saturating_sub(1) });
    }

    async fn attempt<Q, R, F>(
        &self,
        call: &'static str,
        node: &Node,
        deadline: Duration,
        request: Q,
        send: impl Fn(&Node, Request<Q>) -> F,
    ) -> Result<R, Failed>
    where
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let mut request = Request::new(request);
        // the node stops working on it then, too
        request.set_timeout(deadline);
        let here = |reason: &str| Failed::Here(format!("{}: {reason}", node.url));
        let status = match timeout(deadline, send(node, request)).await {
            Ok(Ok(answer)) => {
                node.trust();
                return Ok(answer.into_inner());
            }
            Err(_) => {
                node.avoid();
                return Err(here(&format!("no answer within {deadline:?}")));
            }
            Ok(Err(status)) => status,
        };
        match status.code() {
            // the last two are what a broken connection is reported as
            Code::Unavailable | Code::DeadlineExceeded | Code::Internal | Code::Cancelled | Code::Unknown => {
                node.avoid();
                Err(here(&reason_of(&status)))
            }
            Code::ResourceExhausted => {
                let retry_after = retry_after_of(&status).unwrap_or(RETRY_AFTER);
                Err(Failed::Busy(retry_after, format!("{}: {}", node.url, reason_of(&status))))
            }
            Code::Ok
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::DataLoss => Err(Failed::For(QdrantError::refused(call, &status))),
        }
    }

    /// All nodes, another one first each time; those that have failed lately are last.
    fn in_turn(&self) -> Vec<&Node> {
        let Shared { nodes, next, .. } = &*self.0;
        let first = next.fetch_add(1, Ordering::Relaxed) % nodes.len();
        let turned = nodes[first..].iter().chain(&nodes[..first]);
        let (avoided, mut ordered): (Vec<&Node>, Vec<&Node>) = turned.partition(|node| node.is_avoided());
        ordered.extend(avoided);
        ordered
    }
}

fn is_known(version: &str) -> bool {
    VERSIONS.iter().any(|known| version.strip_prefix(known).is_some_and(|patch| patch.starts_with('.')))
}

fn is_about_key(code: Code) -> bool {
    matches!(code, Code::Unauthenticated | Code::PermissionDenied)
}

fn retry_after_of(status: &Status) -> Option<Duration> {
    let seconds = status.metadata().get("retry-after")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn reason_of(status: &Status) -> String {
    let source = std::error::Error::source(status).map(|source| format!(" ({source})"));
    format!("{:?} {}{}", status.code(), status.message(), source.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_by_their_minor_number() {
        let check = |version: &str, expected: bool| assert_eq!(is_known(version), expected, "{version}");
        check("1.19.0", true);
        check("1.20.3-dev", true);
        check("1.21.0", true);
        check("1.18.9", false);
        check("1.2.0", false);
        check("1.190.0", false);
        check("2.20.0", false);
        check("", false);
    }
}
