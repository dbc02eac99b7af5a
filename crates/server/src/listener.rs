//! Accepts connections and serves them until the process is told to stop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Gateway;

/// Longest time from the first byte of a request's head to its last.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Accepts connections until a signal comes, then gives requests on their way `grace` to finish.
pub async fn serve(
    listener: TcpListener,
    gateway: &Gateway,
    connections_max: usize,
    grace: Duration,
) -> io::Result<()> {
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
        serve_connection(stream, routes.clone(), &draining, held);
    }
    drop(listener);
    tokio::select! {
        () = draining.shutdown() => {}
        () = tokio::time::sleep(grace) => tracing::warn!(?grace, "some requests did not finish in time and were cut off"),
        _ = signals.next() => tracing::warn!("stopped at once by a second signal"),
    }
    Ok(())
}

/// Serves one connection; `held` is dropped at its end.
fn serve_connection(
    stream: TcpStream,
    routes: Router,
    draining: &GracefulShutdown,
    held: impl Send + 'static,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let service = TowerToHyperService::new(routes);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let connection = draining.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
        drop(held);
    });
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
