//! `weir serve`: opens everything, listens, and closes everything again.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tower::ServiceExt;
use weir_encoder::Kernels;
use weir_store::Store;

use weir_config::Config;
use weir_inference::{Coalescing, Memory, Models, Scheduler, Turns, search_threads, stand_back};
use weir_retrieval::collections::{CollectionError, Collections};
use weir_retrieval::query_log::QueryLog;
use weir_server::{Door, Gateway, HEAD_TIMEOUT};
use weir_telemetry::metrics::Metrics;

/// Threads that drive the workers of collections; what takes long they hand to others.
const BACKGROUND_THREADS: usize = 2;

/// Why the gateway can't serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// `WEIR_ISA` can't be had.
    #[error("{0}")]
    Kernels(String),
    /// A model can't be loaded.
    #[error(transparent)]
    Model(#[from] weir_inference::ModelError),
    /// The limit on memory is too small.
    #[error(transparent)]
    Memory(#[from] weir_inference::MemoryError),
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] weir_store::Error),
    /// A collection can't be opened.
    #[error(transparent)]
    Collection(#[from] CollectionError),
    /// The address is taken or can't be had.
    #[error("can't listen on {address}; is another program there? choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Anybody could reach a gateway that asks nobody for a key.
    #[error(
        "refusing to listen on {address}: it is not a loopback address and nobody has to show a key; \
         listen on 127.0.0.1, or say --insecure-no-auth if the network is trusted"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The system gives no threads or signals.
    #[error("can't start")]
    Start(#[source] io::Error),
}

/// Serves until SIGTERM or SIGINT, then drains, flushes and returns.
///
/// # Errors
/// [`ServeError`]: everything that keeps the gateway from starting.
pub fn run(config: Config) -> Result<(), ServeError> {
    weir_telemetry::start_log(&config.log);
    let coalescing = Coalescing::default();
    let resting = coalescing.clone();
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(move || resting.rest())
        .build()
        .map_err(ServeError::Start)?;
    let background = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(BACKGROUND_THREADS)
        .thread_name("background")
        .on_thread_start(stand_back)
        .build()
        .map_err(ServeError::Start)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let searching = search_threads(cores).map_err(ServeError::Start)?;
    let turns = Turns::new(cores, searching.handle().clone());
    runtime.block_on(serve(config, background.handle().clone(), turns, coalescing))
}

async fn serve(
    config: Config,
    background: Handle,
    turns: Turns,
    coalescing: Coalescing,
) -> Result<(), ServeError> {
    let started = Instant::now();
    let address = config.server.listen;
    if !address.ip().is_loopback() && !config.server.insecure_no_auth {
        return Err(ServeError::Exposed { address });
    }
    let kernels = Kernels::requested().map_err(ServeError::Kernels)?;
    // before anything slow: a second start shall fail at once
    let store = open_store(&config).await?;
    let listener =
        TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    let address = listener.local_addr().map_err(|source| ServeError::Listen { address, source })?;
    let metrics = Metrics::new(kernels.isa.name());
    let models = Models::load(&config, kernels, &metrics)?;
    let memory = Memory::new(&config.inference, &models)?;
    let scheduler = Scheduler::start(&config.inference, &models, turns, memory, coalescing, metrics.clone())
        .map_err(ServeError::Start)?;
    let collections = Collections::open(
        store.clone(),
        models.clone(),
        scheduler.clone(),
        config.clone(),
        metrics.clone(),
        background.clone(),
    )
    .await?;
    for model in models.iter() {
        tracing::info!(
            model = model.id,
            dimension = model.dimension(),
            fingerprint = model.fingerprint(),
            "model loaded"
        );
    }
    for model in models.rerankers() {
        tracing::info!(model = model.id, fingerprint = model.fingerprint(), "reranker loaded");
    }
    tracing::info!(%address, isa = kernels.isa.name(), data_dir = %config.server.data_dir.display(),
        collections = collections.all(&weir_policy::Caller::system()).len(),
        took = ?started.elapsed(), "weir {} is listening", env!("CARGO_PKG_VERSION"));

    let warming = models.clone();
    background.spawn_blocking(move || warming.warm_up());
    background.spawn(ask_upstreams(models.clone(), collections.clone()));
    let grace = Duration::from_millis(config.server.shutdown_grace_ms);
    let connections_max = config.limits.connections_max;
    let query_log = QueryLog::start(&config.search, store.clone(), metrics.clone(), &background);
    let gateway = Gateway::new(
        config,
        store.clone(),
        models,
        scheduler.clone(),
        collections.clone(),
        metrics.clone(),
        query_log,
    );
    accept_until_stopped(listener, &gateway, connections_max, grace).await?;

    gateway.query_log.close().await;
    collections.close().await;
    scheduler.stop();
    store.close().await;
    tracing::info!("stopped; everything acknowledged is on disk");
    Ok(())
}

/// Asks upstreams for what is not known of them, and makes the default collection if it waited for that. An upstream that can't be
/// reached is asked again when it is first needed.
async fn ask_upstreams(models: Models, collections: Collections) {
    let is_known = || models.default_model().is_some_and(|model| model.dimension().is_some());
    let was_known = is_known();
    for model in models.iter() {
        if let Err(error) = model.learn_dimension().await {
            tracing::warn!(model = model.id, %error, "the length of its embeddings is not known yet");
        }
    }
    if !was_known
        && is_known()
        && let Err(error) = collections.create_default().await
    {
        tracing::warn!(%error, "the default collection could not be made yet");
    }
}

/// Opening reads and may migrate: it belongs on a thread that may wait.
async fn open_store(config: &Config) -> Result<Store, ServeError> {
    let folder = config.server.data_dir.clone();
    let opened = tokio::task::spawn_blocking(move || Store::open_sqlite(&folder)).await;
    Ok(opened.map_err(|error| ServeError::Start(io::Error::other(error)))??)
}

/// Accepts connections until a signal comes, then gives requests on their way `grace` to finish.
async fn accept_until_stopped(
    listener: TcpListener,
    gateway: &Gateway,
    connections_max: usize,
    grace: Duration,
) -> Result<(), ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Start)?;
    let routes = weir_server::router(gateway.clone());
    let places = Arc::new(Semaphore::new(connections_max));
    let draining = GracefulShutdown::new();
    loop {
        // a place first: who finds none waits in the system's own queue
        let Ok(place) = places.clone().acquire_owned().await else { break };
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
        let held = (place, gateway.metrics.connection());
        let door = Door::new(stream, gateway.clone());
        serve_connection(door, routes.clone(), &draining, held);
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
    door: Door<TcpStream>,
    routes: Router,
    draining: &GracefulShutdown,
    held: impl Send + 'static,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let answered = door.answered();
    let noticed =
        ServiceExt::<Request<Incoming>>::map_response(routes, move |response| answered.by(response));
    let service = TowerToHyperService::new(noticed);
    let connection = builder.serve_connection(TokioIo::new(door), service).into_owned();
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
