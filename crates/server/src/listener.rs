//! Accepts connections and serves them until the process is told to stop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::Gateway;
use super::tls::Tls;

/// Longest time from the first byte of a request's head to its last.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts connections until a signal comes, then gives requests on their way time to finish.
pub async fn serve(listener: TcpListener, gateway: &Gateway, tls: Option<Tls>) -> io::Result<()> {
    let server = &gateway.config.server;
    let grace = Duration::from_millis(server.shutdown_grace_ms);
    let handshake_limit = Duration::from_millis(server.tls_handshake_timeout_ms);
    let connections_max = gateway.config.limits.connections_max;
    let mut signals = Signals::new()?;
    let routes = super::router(gateway.clone());
    let connections = Arc::new(Semaphore::new(connections_max));
    let draining = GracefulShutdown::new();
    loop {
        // beyond the limit, connections wait in the system's accept queue
        let Ok(connection) = connections.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            signal = signals.next() => {
                tracing::info!(signal, "stopping: requests on their way are finished");
                break;
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        let held = (connection, gateway.metrics.connection());
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let (routes, watcher) = (routes.clone(), draining.watcher());
        tokio::spawn(async move {
            match acceptor {
                None => serve_connection(Either::Left(stream), routes, watcher).await,
                Some(acceptor) => {
                    if let Some(stream) = handshake(acceptor, stream, handshake_limit).await {
                        serve_connection(Either::Right(stream), routes, watcher).await;
                    }
                }
            }
            drop(held);
        });
    }
    drop(listener);
    tokio::select! {
        () = draining.shutdown() => {}
        () = tokio::time::sleep(grace) => tracing::warn!(?grace, "some requests did not finish in time and were cut off"),
        _ = signals.next() => tracing::warn!("stopped at once by a second signal"),
    }
    Ok(())
}

/// The TLS connection; `None` when the client does not complete the handshake in time.
async fn handshake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    limit: Duration,
) -> Option<Box<TlsStream<TcpStream>>> {
    let accepted = tokio::time::timeout(limit, acceptor.accept(stream)).await;
    match accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(stream) => Some(Box::new(stream)),
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}

/// Serves one connection to its end.
async fn serve_connection(
    stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    routes: Router,
    watcher: Watcher,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let service = TowerToHyperService::new(routes);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
