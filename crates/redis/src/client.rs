//! One connection for calls, which is opened again in the background, one for values where they are wanted, and one for each subscription.
//!
//! Values have a connection of their own because large ones would delay the calls behind them. Both are given up together: after a call of either
//! that was late, nothing waits for the server until it is connected again.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::StreamExt as _;
use redis::aio::{MultiplexedConnection, PubSub, PubSubSink, PubSubStream};
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, Pipeline};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::address::Address;

/// Time to connect and log in. No request waits for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pauses between attempts to connect.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How often it is looked whether the server of a subscription still answers, and how long it may take.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the server was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// There is no connection now.
    #[error("there is no connection to Redis")]
    Disconnected,
    /// It took too long.
    #[error("Redis did not answer within {0:?}")]
    Timeout(Duration),
    /// The server refuses the password, the user or a command.
    #[error("Redis refuses the connection: {0}")]
    Refused(String),
    /// The certificate of the server is not trusted.
    #[error(
        "the certificate of Redis is not trusted ({0}); name the file of its authority as `ca_file` in the URL, and the host as the certificate does"
    )]
    Untrusted(rustls::Error),
    /// The connection can't be opened, or broke.
    #[error("no connection to Redis: {0}")]
    Connection(String),
}

impl From<io::Error> for RedisError {
    fn from(error: io::Error) -> RedisError {
        let refused = error.get_ref().and_then(|refused| refused.downcast_ref::<rustls::Error>());
        match refused {
            Some(untrusted @ rustls::Error::InvalidCertificate(_)) => {
                RedisError::Untrusted(untrusted.clone())
            }
            Some(_) | None => RedisError::Connection(error.to_string()),
        }
    }
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> RedisError {
        let is_refusal = matches!(
            error.kind(),
            ErrorKind::AuthenticationFailed | ErrorKind::Server(_) | ErrorKind::Extension
        );
        match is_refusal {
            true => RedisError::Refused(error.to_string()),
            false => RedisError::Connection(error.to_string()),
        }
    }
}

/// A server. Clones share the connection.
#[derive(Clone)]
pub struct Redis(Arc<RedisInner>);

struct RedisInner {
    address: Address,
    timeout: Duration,
    scripts: &'static [&'static str],
    has_values: bool,
    open: ArcSwapOption<Open>,
    /// Told when the connection is given up.
    lost: Notify,
}

/// The connections, with the scripts of the first.
struct Open {
    calls: Connection,
    /// The names that the server gave the scripts.
    hashes: Vec<String>,
    values: Option<Connection>,
}

/// A connection that is closed when it is dropped.
struct Connection {
    multiplexed: MultiplexedConnection,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A call of a script.
#[derive(Debug, Clone)]
pub struct ScriptCall {
    /// Which of the scripts.
    pub script: usize,
    /// The key that it reads and writes.
    pub key: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// A value that is stored.
#[derive(Debug, Clone)]
pub struct NewValue {
    /// Its key.
    pub key: String,
    /// The stored bytes.
    pub bytes: Vec<u8>,
    /// After this time the server removes it.
    pub lifetime: Duration,
}

impl Redis {
    /// A server that is not connected yet. `timeout` is that of a call; `scripts` are in Lua.
    pub fn new(address: Address, timeout: Duration, scripts: &'static [&'static str]) -> Redis {
        let (open, lost) = (ArcSwapOption::empty(), Notify::new());
        Redis(Arc::new(RedisInner { address, timeout, scripts, has_values: false, open, lost }))
    }

    /// The same server, not connected yet, with a connection for values.
    #[must_use]
    pub fn with_values(&self) -> Redis {
        let RedisInner { address, timeout, scripts, .. } = &*self.0;
        let (open, lost) = (ArcSwapOption::empty(), Notify::new());
        let (address, timeout, scripts) = (address.clone(), *timeout, *scripts);
        Redis(Arc::new(RedisInner { address, timeout, scripts, has_values: true, open, lost }))
    }

    /// Whether there is a connection whose last call was answered.
    pub fn is_connected(&self) -> bool {
        self.0.open.load().is_some()
    }

    /// Connects once.
    ///
    /// # Errors
    /// [`RedisError`].
    pub async fn connect(&self) -> Result<(), RedisError> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.open()).await;
        let opened = opened.unwrap_or(Err(RedisError::Timeout(CONNECT_TIMEOUT)))?;
        self.0.open.store(Some(Arc::new(opened)));
        Ok(())
    }

    async fn open(&self) -> Result<Open, RedisError> {
        let RedisInner { address, scripts, has_values, .. } = &*self.0;
        let mut calls = Connection::open(address).await?;
        let mut hashes = Vec::new();
        for script in *scripts {
            let mut load = Cmd::new();
            load.arg("SCRIPT").arg("LOAD").arg(*script);
            hashes.push(load.query_async(&mut calls.multiplexed).await?);
        }
        let values = if *has_values { Some(Connection::open(address).await?) } else { None };
        Ok(Open { calls, hashes, values })
    }

    /// Opens the connection again whenever it is lost. Never ends. `report` is called at each change, with the reason of a failure.
    pub async fn keep_connected(&self, report: impl Fn(Result<(), &RedisError>)) {
        let mut pause = RETRY_MIN;
        let mut is_reported = self.is_connected();
        loop {
            if self.is_connected() {
                self.0.lost.notified().await;
                continue;
            }
            match self.connect().await {
                Ok(()) => {
                    (pause, is_reported) = (RETRY_MIN, true);
                    report(Ok(()));
                }
                Err(error) => {
                    if std::mem::take(&mut is_reported) {
                        report(Err(&error));
                    }
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(RETRY_MAX);
                }
            }
        }
    }

    /// Calls scripts, in one message; their replies are lists of integers.
    ///
    /// # Errors
    /// [`RedisError`]; the connection is given up then.
    pub async fn run(&self, calls: &[ScriptCall]) -> Result<Vec<Vec<i64>>, RedisError> {
        let open = self.0.open.load_full().ok_or(RedisError::Disconnected)?;
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for ScriptCall { script, key, arguments } in calls {
            let hash = open.hashes.get(*script).map_or("", String::as_str);
            pipeline.cmd("EVALSHA").arg(hash).arg(1).arg(key).arg(arguments);
        }
        let mut connection = open.calls.multiplexed.clone();
        self.within(pipeline.query_async(&mut connection), &open).await
    }

    /// A value, or its first `bytes_max` bytes if it has more, and how long the server keeps it. `None`: there is none, or one without an end.
    ///
    /// # Errors
    /// [`RedisError`]. The connection is given up then, but for [`RedisError::Refused`]: a server that refuses one value answers still.
    pub async fn value(
        &self,
        key: &str,
        bytes_max: usize,
    ) -> Result<Option<(Vec<u8>, Duration)>, RedisError> {
        let (open, mut connection) = self.values()?;
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("GETRANGE").arg(key).arg(0).arg(bytes_max.saturating_sub(1));
        pipeline.cmd("PTTL").arg(key);
        let reply = self.within(answer(pipeline.query_async(&mut connection)), &open).await?;
        let (bytes, milliseconds): (Vec<u8>, i64) = reply?;
        // negative for a key that is not there, and for one without an end
        let lifetime = u64::try_from(milliseconds).map(Duration::from_millis);
        Ok(lifetime.ok().filter(|_| !bytes.is_empty()).map(|lifetime| (bytes, lifetime)))
    }

    /// Stores values, in one message.
    ///
    /// # Errors
    /// As of [`Redis::value`].
    pub async fn store(&self, values: &[NewValue]) -> Result<(), RedisError> {
        let (open, mut connection) = self.values()?;
        let mut pipeline = Pipeline::with_capacity(values.len());
        for NewValue { key, bytes, lifetime } in values {
            let milliseconds = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
            pipeline.cmd("SET").arg(key).arg(bytes).arg("PX").arg(milliseconds).ignore();
        }
        self.within(answer(pipeline.query_async(&mut connection)), &open).await?
    }

    /// The connection for values.
    fn values(&self) -> Result<(Arc<Open>, MultiplexedConnection), RedisError> {
        let open = self.0.open.load_full().ok_or(RedisError::Disconnected)?;
        let connection = open.values.as_ref().ok_or(RedisError::Disconnected)?.multiplexed.clone();
        Ok((open, connection))
    }

    /// Sends a message to the subscribers of a channel.
    ///
    /// # Errors
    /// [`RedisError`]; the connection is given up then.
    pub async fn publish(&self, channel: &str, message: &str) -> Result<(), RedisError> {
        let open = self.0.open.load_full().ok_or(RedisError::Disconnected)?;
        let mut publish = Cmd::new();
        publish.arg("PUBLISH").arg(channel).arg(message);
        let mut connection = open.calls.multiplexed.clone();
        self.within(publish.query_async::<i64>(&mut connection), &open).await?;
        Ok(())
    }

    /// Waits for a reply until the time limit. A connection that fails is given up.
    async fn within<T, E: Into<RedisError>>(
        &self,
        call: impl Future<Output = Result<T, E>>,
        open: &Arc<Open>,
    ) -> Result<T, RedisError> {
        let RedisInner { timeout, open: current, lost, .. } = &*self.0;
        let replied = match tokio::time::timeout(*timeout, call).await {
            Ok(replied) => replied.map_err(E::into),
            Err(_) => Err(RedisError::Timeout(*timeout)),
        };
        // another call may have given it up, and there may be a new one
        if replied.is_err() && current.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, open)) {
            current.store(None);
            lost.notify_one();
        }
        replied
    }

    /// The messages of a channel from now on.
    ///
    /// # Errors
    /// [`RedisError`].
    pub async fn subscribe(&self, channel: &str) -> Result<Messages, RedisError> {
        let subscribe = async {
            let stream = self.0.address.connect().await?;
            let mut messages = PubSub::new(&self.0.address.login, stream).await?;
            messages.subscribe(channel).await?;
            Ok::<_, RedisError>(messages.split())
        };
        let subscribed = tokio::time::timeout(CONNECT_TIMEOUT, subscribe).await;
        let (sink, stream) = subscribed.unwrap_or(Err(RedisError::Timeout(CONNECT_TIMEOUT)))?;
        Ok(Messages { sink, stream })
    }
}

/// A reply or a refusal, each of which is an answer.
async fn answer<T>(
    call: impl Future<Output = redis::RedisResult<T>>,
) -> Result<Result<T, RedisError>, RedisError> {
    match call.await.map_err(RedisError::from) {
        Err(refused @ RedisError::Refused(_)) => Ok(Err(refused)),
        answered => answered.map(Ok),
    }
}

impl Connection {
    async fn open(address: &Address) -> Result<Connection, RedisError> {
        let stream = address.connect().await?;
        // each call has a time limit of its own
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let opened = MultiplexedConnection::new_with_config(&address.login, stream, config).await;
        let (multiplexed, driver) = opened?;
        Ok(Connection { multiplexed, driver: tokio::spawn(driver).abort_handle() })
    }
}

/// The messages of a channel.
pub struct Messages {
    sink: PubSubSink,
    stream: PubSubStream,
}

impl Messages {
    /// The next message; `None` when the subscription has ended, or the server does not answer.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            match tokio::time::timeout(PING_INTERVAL, self.stream.next()).await {
                Ok(message) => return Some(message?.get_payload().unwrap_or_default()),
                Err(_) => {
                    let ping = self.sink.ping::<redis::Value>();
                    tokio::time::timeout(PING_TIMEOUT, ping).await.ok()?.ok()?;
                }
            }
        }
    }
}
