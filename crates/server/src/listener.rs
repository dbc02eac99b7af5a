//! Accepts connections and serves them until the process is asked to stop, within the limits of time and number.

mod activity;
mod registry;
mod self_wakes;
mod service;
mod stream;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::ReadBuf;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::task::TaskTracker;
use weir_config::table::Server;

pub(crate) use activity::RequestActivity;
use activity::{Activity, Closed, TimeLimits};
use registry::{Connection, Refused, Registry};
use self_wakes::SelfWakes;
use service::HttpService;
use stream::NotedStream;

use super::gateway::Gateway;
use super::router::Router;
use super::tls::Tls;

/// Time in which a client is notified that its connection ends.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// How often it is looked for a connection that has begun to wait for its client, when all were at work.
const FULL_INTERVAL: Duration = Duration::from_millis(20);

/// Time in which connections end that are cut off.
const CUT_OFF_TIME: Duration = Duration::from_secs(1);

/// Accepts connections until a signal comes, and after SIGTERM for as long as load balancers need to notice; then gives requests on their way
/// time to finish.
pub async fn serve(listener: TcpListener, mut signals: Signals, gateway: &Gateway, tls: Option<Tls>) {
    let acceptor = Arc::new(Acceptor::new(gateway, tls));
    let tasks = TaskTracker::new();
    tokio::select! {
        () = until_stop(gateway, &mut signals) => {}
        () = accept(&listener, &acceptor, &tasks) => {}
    }
    drop(listener);
    gateway.start_drain();
    acceptor.registry.stop();
    gateway.retrieval.end_streams();
    tasks.close();
    if finish(&tasks, &acceptor.registry, &gateway.config.server, &mut signals).await {
        return;
    }
    // what the requests have used is counted when their connections are dropped
    acceptor.registry.cut_off(|_| true);
    drop(tokio::time::timeout(CUT_OFF_TIME, tasks.wait()).await);
}

/// Serves connections for as long as it is polled.
async fn accept(listener: &TcpListener, acceptor: &Arc<Acceptor>, tasks: &TaskTracker) {
    loop {
        let (stream, connection) = acceptor.open(listener).await;
        tasks.spawn(acceptor.clone().serve(stream, connection));
    }
}

/// Waits for a signal and, if it is SIGTERM, for the end of the time in which load balancers notice; another signal ends it.
async fn until_stop(gateway: &Gateway, signals: &mut Signals) {
    let signal = signals.next().await;
    let time = Duration::from_millis(gateway.config.server.drain_ms);
    if signal == SIGTERM && !time.is_zero() {
        gateway.start_drain();
        tracing::info!(signal, ?time, "stopping: not ready for further requests, which are still taken");
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            _ = signals.next() => {}
        }
    }
    tracing::info!(signal, "stopping: requests on their way are finished");
}

/// Waits for the requests on their way, for each kind as long as it may take. Whether all of them have ended.
async fn finish(tasks: &TaskTracker, registry: &Registry, server: &Server, signals: &mut Signals) -> bool {
    let started = tokio::time::Instant::now();
    let grace = Duration::from_millis(server.shutdown_grace_ms);
    let stream_grace = match server.stream_drain_ms {
        0 => grace,
        time => Duration::from_millis(time),
    };
    for time in [grace.min(stream_grace), grace.max(stream_grace)] {
        tokio::select! {
            () = tasks.wait() => return true,
            () = tokio::time::sleep_until(started + time) => {}
            _ = signals.next() => {
                tracing::warn!("stopped at once by a second signal");
                return false;
            }
        }
        registry.cut_off(|has_stream| if has_stream { time >= stream_grace } else { time >= grace });
        tracing::warn!(?time, "some requests did not finish in time and were cut off");
    }
    false
}

/// The parts that serve connections.
struct Acceptor {
    registry: Arc<Registry>,
    router: Router,
    /// For connections whose protocol is not known.
    any: auto::Builder<TokioExecutor>,
    /// Takes 8 KiB less for each connection: `any` gives HTTP/1 the first bytes apart, and its buffer grows when the rest comes.
    http1: auto::Builder<TokioExecutor>,
    tls: Option<Tls>,
    handshake_limit: Duration,
}

impl Acceptor {
    fn new(gateway: &Gateway, tls: Option<Tls>) -> Acceptor {
        let (server, limits) = (&gateway.config.server, &gateway.config.limits);
        let mut http = auto::Builder::new(TokioExecutor::new());
        // the limits of `activity` apply, which are of each phase of a connection
        http.http1().header_read_timeout(None);
        let ping = Duration::from_millis(server.http2_ping_ms);
        http.http2().timer(TokioTimer::new()).keep_alive_interval(ping).keep_alive_timeout(ping);
        Acceptor {
            registry: Arc::new(Registry::new(limits, TimeLimits::of(server), gateway.metrics.clone())),
            router: Router::new(gateway.clone()),
            http1: http.clone().http1_only(),
            any: http,
            tls,
            handshake_limit: Duration::from_millis(server.tls_handshake_timeout_ms),
        }
    }

    /// The next connection that may be opened.
    async fn open(&self, listener: &TcpListener) -> (TcpStream, Connection) {
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            if let Some(connection) = self.admit(address).await {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "no TCP_NODELAY");
                }
                return (stream, connection);
            }
        }
    }

    /// Admits a connection, when all others are at work after one of them has ended. `None`: its client has too many.
    async fn admit(&self, address: SocketAddr) -> Option<Connection> {
        loop {
            match self.registry.admit(address.ip()) {
                Ok(connection) => return Some(connection),
                Err(Refused::Peer) => {
                    tracing::debug!(client = %address.ip(), "a client has too many connections");
                    return None;
                }
                Err(Refused::Full) => {
                    drop(tokio::time::timeout(FULL_INTERVAL, self.registry.freed.notified()).await);
                }
            }
        }
    }

    /// Serves a connection to its end.
    async fn serve(self: Arc<Acceptor>, stream: TcpStream, connection: Connection) {
        let activity = &connection.activity;
        let closed = match &self.tls {
            None => match begins_as_http1(&stream, activity).await {
                Ok(is_http1) => self.serve_http(Either::Left(stream), is_http1, activity).await,
                Err(closed) => closed,
            },
            Some(tls) => match self.handshake(tls, stream, activity).await {
                Ok(stream) => {
                    let is_http1 = stream.get_ref().1.alpn_protocol() == Some(b"http/1.1");
                    self.serve_http(Either::Right(stream), is_http1, activity).await
                }
                Err(closed) => closed,
            },
        };
        if let Some(reason) = closed {
            self.registry.count(reason);
        }
    }

    async fn handshake(
        &self,
        tls: &Tls,
        stream: TcpStream,
        activity: &Activity,
    ) -> Result<Box<TlsStream<TcpStream>>, Option<Closed>> {
        let told = poll_fn(|context| {
            activity.watch(context);
            match (activity.is_replaced(), activity.is_stopping()) {
                (true, _) => Poll::Ready(Some(Closed::Replaced)),
                (false, true) => Poll::Ready(None),
                (false, false) => Poll::Pending,
            }
        });
        tokio::select! {
            accepted = tokio::time::timeout(self.handshake_limit, tls.acceptor().accept(stream)) => {
                match accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(stream) => Ok(Box::new(stream)),
                    Err(error) => {
                        tracing::debug!(%error, "a TLS handshake failed");
                        Err(Some(Closed::Handshake))
                    }
                }
            }
            closed = told => Err(closed),
        }
    }

    /// Serves HTTP/1 or HTTP/2. Returns why the gateway closed the connection; `None` when it ended otherwise.
    async fn serve_http(
        &self,
        stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
        is_http1: bool,
        activity: &Arc<Activity>,
    ) -> Option<Closed> {
        let stream = TokioIo::new(NotedStream::new(stream, activity.clone()));
        let service = HttpService::new(self.router.clone(), activity.clone());
        let http = if is_http1 { &self.http1 } else { &self.any };
        let mut http = pin!(http.serve_connection(stream, service));
        let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
        let mut is_stopping = false;
        let mut self_wakes = SelfWakes::default();
        let closed = poll_fn(|context| {
            activity.watch(context);
            if activity.is_cut_off() {
                return Poll::Ready(None);
            }
            if activity.is_stopping() && !is_stopping {
                is_stopping = true;
                http.as_mut().graceful_shutdown();
            }
            match self_wakes.poll(context, |context| http.as_mut().poll(context)) {
                Poll::Ready(ended) => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "a connection ended early");
                    }
                    Poll::Ready(None)
                }
                Poll::Pending => activity.poll_closed(timer.as_mut(), context).map(Some),
            }
        });
        let closed = closed.await?;
        if closed == Closed::Idle || closed == Closed::Replaced {
            http.as_mut().graceful_shutdown();
            // the connection that replaces this one is open already
            let time = if closed == Closed::Idle { CLOSING_TIME } else { Duration::ZERO };
            drop(tokio::time::timeout(time, http).await);
        }
        Some(closed)
    }
}

/// Waits for the first bytes of a connection. `false`: they may be those of HTTP/2, which begins with `PRI`.
///
/// # Errors
/// Why the gateway closes the connection; `None` while it stops.
async fn begins_as_http1(stream: &TcpStream, activity: &Activity) -> Result<bool, Option<Closed>> {
    let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn(|context| {
        activity.watch(context);
        if activity.is_stopping() {
            return Poll::Ready(Err(None));
        }
        let mut first = [0; 2];
        let mut read = ReadBuf::new(&mut first);
        match stream.poll_peek(context, &mut read) {
            Poll::Ready(_) => {
                let first = read.filled();
                Poll::Ready(Ok(first.len() == 2 && first != b"PR"))
            }
            Poll::Pending => activity.poll_closed(timer.as_mut(), context).map(|closed| Err(Some(closed))),
        }
    })
    .await
}

/// The signal by which service managers stop a process.
const SIGTERM: &str = "SIGTERM";

/// The signals that stop the process. From when they are taken, they end it no longer by themselves.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Takes SIGTERM and SIGINT; to be done before readiness is reported.
    pub fn take() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => SIGTERM,
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
