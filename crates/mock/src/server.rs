//! The server: a thread that accepts connections, and threads that serve them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::args::Settings;
use crate::handler::{Mock, handle};
use crate::last::LastRequests;
use crate::stats::Stats;
use crate::wire::{CutStream, ResettingStream, Wire};

/// Most connections that wait to be accepted: Linux's default limit.
const BACKLOG: i32 = 4_096;
/// Accepted connections that wait for a thread.
const ACCEPTED_MAX: usize = 1024;
/// Pause after a failed accept (no file descriptor left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running mock; stops when dropped.
pub struct MockServer {
    addr: SocketAddr,
    stop: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// A connection and its permit.
struct Accepted {
    stream: std::net::TcpStream,
    permit: OwnedSemaphorePermit,
}

impl MockServer {
    /// Listens and starts the threads. The caller checks that the address is loopback where it must be.
    pub fn start(settings: Settings) -> io::Result<MockServer> {
        let listener = std::net::TcpListener::bind(settings.listen)?;
        socket2::SockRef::from(&listener).listen(BACKLOG)?; // the standard library's is 128
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let thread_count = settings.threads;
        let permits = Arc::new(Semaphore::new(settings.connections_max as usize));
        let mock = Arc::new(Mock {
            stats: Arc::new(Stats::default()),
            last: LastRequests::new(settings.last_max as usize, settings.last_body_bytes_max as usize),
            settings,
        });
        let (stop, stopped) = watch::channel(());
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..thread_count {
            let (sender, receiver) = mpsc::channel(ACCEPTED_MAX);
            senders.push(sender);
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (stopped, mock) = (stopped.clone(), Arc::clone(&mock));
            threads.push(std::thread::spawn(move || runtime.block_on(work(receiver, stopped, mock))));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        threads
            .push(std::thread::spawn(move || runtime.block_on(accept(listener, senders, permits, stopped))));
        Ok(MockServer { addr, stop: Some(stop), threads })
    }

    /// The address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        self.stop = None;
        for thread in std::mem::take(&mut self.threads) {
            // A thread that panicked has stopped too.
            let _ = thread.join();
        }
    }
}

/// Accepts connections while there are permits, and distributes them round-robin over the threads.
async fn accept(
    listener: std::net::TcpListener,
    threads: Vec<mpsc::Sender<Accepted>>,
    permits: Arc<Semaphore>,
    mut stopped: watch::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    for accepted_count in 0.. {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
            let stream = listener.accept().await?.0.into_std()?;
            Ok::<_, io::Error>(Accepted { stream, permit })
        };
        let accepted = tokio::select! {
            _ = stopped.changed() => return,
            accepted = next => accepted,
        };
        match accepted {
            Ok(accepted) => {
                // Fails only when the server stops.
                let _ = threads[accepted_count % threads.len()].send(accepted).await;
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn work(mut connections: mpsc::Receiver<Accepted>, mut stopped: watch::Receiver<()>, mock: Arc<Mock>) {
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            accepted = connections.recv() => {
                let Some(accepted) = accepted else { return };
                let mock = Arc::clone(&mock);
                // An error ends this connection only; the client sees it.
                tokio::spawn(async move { serve(accepted, mock).await });
            }
        }
    }
}

/// Counts an open connection until it is dropped.
struct OpenConnection(Arc<Stats>);

impl OpenConnection {
    fn new(stats: &Arc<Stats>) -> OpenConnection {
        stats.connections.fetch_add(1, Ordering::Relaxed);
        stats.connections_open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(stats))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one connection. hyper drops the request's future or body as soon as the client closes it.
async fn serve(accepted: Accepted, mock: Arc<Mock>) -> io::Result<()> {
    let Accepted { stream, permit: _permit } = accepted;
    let _open = OpenConnection::new(&mock.stats);
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let wire = Arc::new(Wire::default());
    let stream = CutStream::new(ResettingStream { stream, wire: Arc::clone(&wire) }, Arc::clone(&wire));
    let service = service_fn(move |request| {
        let (mock, wire) = (Arc::clone(&mock), Arc::clone(&wire));
        async move { handle(&mock, &wire, request).await }
    });
    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}
