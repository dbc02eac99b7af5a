//! The HTTP client of the commands that talk to a running gateway.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};
use weir_api::{ErrorCode, Problem};

use super::interrupt;
use weir_config::is_on_this_machine;
use weir_config::{Config, Environment, Flags, Problems, load};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a whole call may take; a big batch on a slow disk takes its time.
const CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes in a reply, at most.
const REPLY_BYTES_MAX: u64 = 1 << 30;
/// The first and the longest wait between two attempts when the gateway doesn't say how long.
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest wait that a `Retry-After` can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered.
    #[error("the gateway at {url} can't be reached: {source}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What happened.
        source: ureq::Error,
    },
    /// The gateway refused or failed.
    #[error("{message}")]
    Refused {
        /// The row of the error table.
        code: ErrorCode,
        /// What happened.
        message: String,
    },
    /// What answered is no gateway.
    #[error("{url} answered with status {status}, and not like a gateway")]
    NotAGateway {
        /// Who answered.
        url: String,
        /// The status.
        status: u16,
    },
    /// Ctrl-C was pressed while waiting.
    #[error("interrupted")]
    Interrupted,
}

impl ClientError {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            ClientError::Unreachable { .. } => Some(
                "start the gateway with `weir serve`, or say where it is with --url or WEIR_URL".to_owned(),
            ),
            // These messages say all there is to say.
            ClientError::Refused { code: ErrorCode::InvalidParameter | ErrorCode::UnknownField, .. } => None,
            ClientError::Refused { code, .. } => Some(code.row().remedy.to_owned()),
            ClientError::NotAGateway { .. } => {
                Some("check the address: --url, WEIR_URL or client.url".to_owned())
            }
            ClientError::Interrupted => None,
        }
    }
}

/// How long to try again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// While nobody answers: the gateway may be starting again.
    pub(super) unreachable: Duration,
    /// While the gateway answers 429 or 503.
    pub(super) busy: Duration,
}

impl Patience {
    /// One attempt.
    pub(super) const NONE: Patience = Patience { unreachable: Duration::ZERO, busy: Duration::ZERO };
    /// For long work.
    pub(super) const LONG: Patience =
        Patience { unreachable: Duration::from_secs(20), busy: Duration::from_secs(600) };
}

/// A client of one gateway.
pub(super) struct Client {
    url: String,
    agent: Agent,
}

impl Client {
    /// A client of the gateway at `url`, which has no slash at its end.
    pub(super) fn new(url: String) -> Client {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(CALL_TIMEOUT));
        if is_on_this_machine(&url) {
            config = config.proxy(None);
        }
        Client { url, agent: config.build().into() }
    }

    /// A client of the gateway that `--url`, the configuration and the environment name, and the configuration.
    pub(super) fn configured(
        url: Option<String>,
        file: Option<PathBuf>,
        environment: &Environment,
    ) -> Result<(Client, Config), Problems> {
        let flags = Flags { config: file, url, ..Flags::default() };
        let config = load(&flags, environment)?.config;
        Ok((Client::new(config.client_url()), config))
    }

    /// `GET`s `path` and reads the reply as text.
    pub(super) fn get_text(&self, path: &str, patience: Patience) -> Result<String, ClientError> {
        let address = format!("{}{path}", self.url);
        self.call(patience, &|_| {}, &|| self.agent.get(&address).call())
    }

    /// `GET`s `path`.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str, patience: Patience) -> Result<T, ClientError> {
        let text = self.get_text(path, patience)?;
        self.read(&text)
    }

    /// `POST`s JSON to `path` and reads the reply as text. `on_wait` hears why and how long the client waits.
    pub(super) fn post_text(
        &self,
        path: &str,
        body: &str,
        patience: Patience,
        on_wait: &dyn Fn(&str),
    ) -> Result<String, ClientError> {
        let address = format!("{}{path}", self.url);
        self.call(patience, on_wait, &|| {
            self.agent.post(&address).header("content-type", "application/json").send(body)
        })
    }

    /// `PUT`s JSON to `path`.
    pub(super) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &str,
        patience: Patience,
    ) -> Result<T, ClientError> {
        let address = format!("{}{path}", self.url);
        let text = self.call(patience, &|_| {}, &|| {
            self.agent.put(&address).header("content-type", "application/json").send(body)
        })?;
        self.read(&text)
    }

    /// `DELETE`s `path`.
    pub(super) fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        patience: Patience,
    ) -> Result<T, ClientError> {
        let address = format!("{}{path}", self.url);
        let text = self.call(patience, &|_| {}, &|| self.agent.delete(&address).call())?;
        self.read(&text)
    }

    /// Reads a reply.
    pub(super) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, ClientError> {
        let not_a_gateway = |_| ClientError::NotAGateway { url: self.url.clone(), status: 200 };
        serde_json::from_str(text).map_err(not_a_gateway)
    }

    fn call(
        &self,
        patience: Patience,
        on_wait: &dyn Fn(&str),
        attempt: &dyn Fn() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<String, ClientError> {
        let begun = Instant::now();
        let mut wait = WAIT_FIRST;
        loop {
            let (error, next, is_final) = match attempt().and_then(Reply::read) {
                Ok(reply) if reply.status.is_success() => return Ok(reply.text),
                Ok(reply) => {
                    let is_busy = matches!(reply.status.as_u16(), 429 | 503);
                    let next = reply.retry_after.unwrap_or(wait);
                    (self.refusal(&reply), next, !is_busy || begun.elapsed() + next > patience.busy)
                }
                Err(source) => {
                    let is_final = !is_transient(&source) || begun.elapsed() + wait > patience.unreachable;
                    (ClientError::Unreachable { url: self.url.clone(), source }, wait, is_final)
                }
            };
            if is_final {
                return Err(error);
            }
            if next >= Duration::from_secs(1) {
                on_wait(&format!("{error}; trying again in {:.0} s", next.as_secs_f64()));
            }
            interrupt::sleep(next);
            if interrupt::is_asked() {
                return Err(ClientError::Interrupted);
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    fn refusal(&self, reply: &Reply) -> ClientError {
        match serde_json::from_str::<Problem>(&reply.text) {
            Ok(problem) => {
                let message =
                    problem.detail.trim_end_matches(problem.code.row().remedy).trim_end_matches(['.', ' ']);
                ClientError::Refused { code: problem.code, message: message.to_owned() }
            }
            Err(_) => ClientError::NotAGateway { url: self.url.clone(), status: reply.status.as_u16() },
        }
    }
}

struct Reply {
    status: StatusCode,
    retry_after: Option<Duration>,
    text: String,
}

impl Reply {
    fn read(mut response: Response<Body>) -> Result<Reply, ureq::Error> {
        let seconds =
            response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after =
            seconds.map(|seconds| Duration::from_secs(seconds).clamp(WAIT_FIRST, RETRY_AFTER_MAX));
        let status = response.status();
        let text = response.body_mut().with_config().limit(REPLY_BYTES_MAX).read_to_string()?;
        Ok(Reply { status, retry_after, text })
    }
}

/// Whether the same call can succeed in a moment: the gateway is starting, or was stopped while it answered.
fn is_transient(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(_) | ureq::Error::ConnectionFailed | ureq::Error::Timeout(_))
}
