//! `weir serve`: opens everything, listens, and closes everything again.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Handle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use weir_encoder::Kernels;
use weir_index::{CpuLimiter, Engines};
use weir_store::{Service, Store};

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use weir_access::{AccessError, Keys, Limits, unix_now};
use weir_config::Config;
use weir_config::table::Index;
use weir_inference::{
    MemoryBudget, ModelError, Models, Scheduler, serving_runtime, set_background_priority,
    set_compute_priority,
};
use weir_llm::{Embedding, Llm, TableError};
use weir_policy::Caller;
use weir_retrieval::{CollectionError, Collections, QueryLog, Retrieval};
use weir_server::{Gateway, Services, Signals, Tls, TlsError};
use weir_telemetry::metrics::Metrics;

use crate::redis::RedisUnusable;
use crate::reload::{ConfigSource, Reload, default_limits};
use crate::store_location::store_location;
use crate::{qdrant, redis};
use weir_telemetry::requests::{KnownKeys, RequestLog};

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
    Model(#[from] ModelError),
    /// The limit on memory is too small.
    #[error(transparent)]
    Memory(#[from] weir_inference::MemoryLimitError),
    /// The upstreams and routes can't be used.
    #[error(transparent)]
    Llm(#[from] TableError),
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] weir_store::Error),
    /// The API keys can't be read.
    #[error("the API keys can't be read")]
    Keys(#[from] AccessError),
    /// Redis can't be used as it is.
    #[error(transparent)]
    Redis(#[from] RedisUnusable),
    /// The Qdrant cluster can't be used as it is.
    #[error(transparent)]
    Qdrant(#[from] weir_qdrant::SetupError),
    /// A collection can't be opened.
    #[error(transparent)]
    Collection(#[from] CollectionError),
    /// The address is taken or can't be had.
    #[error("can't listen on {address}; is another program there? choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Certificate or key can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Anybody could reach a gateway that asks nobody for a key.
    #[error(
        "listening on {0} would let everybody who can reach it read and change all data: there is no API key. `weir keys create NAME` makes \
         one; or listen on 127.0.0.1, or say --insecure-no-auth if the network is trusted"
    )]
    Exposed(SocketAddr),
    /// The request log can't be started.
    #[error(transparent)]
    Requests(#[from] weir_telemetry::requests::StartError),
    /// The system gives no threads or signals.
    #[error("can't start")]
    Start(#[source] io::Error),
}

/// Serves until SIGTERM or SIGINT, then drains, flushes and returns.
pub fn run(config: Config, source: ConfigSource) -> Result<(), ServeError> {
    weir_telemetry::start_log(&config.log);
    // data is for the user that weir runs as: folders 0700, files 0600
    umask(Mode::RWXG | Mode::RWXO);
    let config = with_open_indexes(config, raise_file_limit());
    let runtime = serving_runtime().map_err(ServeError::Start)?;
    let share_min = config.inference.bulk_share_min;
    let background = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(BACKGROUND_THREADS)
        .thread_name("background")
        .on_thread_start(move || set_background_priority(share_min))
        .build()
        .map_err(ServeError::Start)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limiter = CpuLimiter::start(cores, set_compute_priority).map_err(ServeError::Start)?;
    let served = runtime.block_on(serve(config, source, background.handle().clone(), limiter));
    // the text of an upload that is being extracted is extracted again after the next start
    runtime.shutdown_timeout(STOP_TIMEOUT);
    served
}

/// Time for threads that still work when everything is stored and closed.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Raises the soft limit of open files to the hard one: often it is 1,024, and every connection and every collection takes some.
/// Returns the limit in force; `None` without one.
fn raise_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
            limit.current
        }
    }
}

/// The share of the limit of open files that indexes may take: most of it is for connections.
const INDEX_FILES_SHARE: u64 = 8;

/// Lowers `index.open_max` to what the limit of open files allows.
fn with_open_indexes(mut config: Config, files_max: Option<u64>) -> Config {
    let share = files_max
        .map_or(usize::MAX, |files| usize::try_from(files / INDEX_FILES_SHARE).unwrap_or(usize::MAX));
    config.index.open_max = config.index.open_max.min(share).max(1);
    config
}

async fn serve(
    config: Config,
    source: ConfigSource,
    background: Handle,
    limiter: CpuLimiter,
) -> Result<(), ServeError> {
    let config = Arc::new(config);
    let started = Instant::now();
    let address = config.server.listen;
    let is_exposed = !address.ip().is_loopback() && !config.server.insecure_no_auth;
    // without a data directory there is no key, and none is left behind
    let has_folder = config.store.url.is_none();
    if is_exposed
        && has_folder
        && !config.server.data_dir.read_dir().is_ok_and(|mut files| files.next().is_some())
    {
        return Err(ServeError::Exposed(address));
    }
    let kernels = Kernels::requested().map_err(ServeError::Kernels)?;
    let metrics = Metrics::new(kernels.isa.name());
    weir_telemetry::count_panics(&metrics);
    let models = start_loading(config.clone(), kernels, metrics.clone())?;
    // before anything slow is waited for: a second start shall fail at once
    let location = store_location(&config)?.with_data_dir(&config.server.data_dir);
    let is_new_store = !Store::exists(&location).await?;
    let store = Store::open(&location).await?;
    let keys = Keys::load_with(store.clone(), limits(&config.redis).await?, unix_now()).await?;
    keys.set_default_limits(default_limits(&config), unix_now()).await?;
    if is_exposed && !keys.are_required() {
        return Err(ServeError::Exposed(address));
    }
    let tls = Tls::load(&config.server)?;
    let listener = listen(address).map_err(|source| ServeError::Listen { address, source })?;
    let address = listener.local_addr().map_err(|source| ServeError::Listen { address, source })?;
    let known_keys = KnownKeys { is_new_store, created_at: keys.created_at() };
    let requests = RequestLog::start(&config, metrics.clone(), known_keys)?;
    let llm = Llm::new(&config.llm, metrics.clone())?;
    let models =
        models.await.map_err(|_| ServeError::Start(io::Error::other("loading the models panicked")))??;
    let memory = MemoryBudget::new(&config.inference, &models)?;
    let scheduler =
        Scheduler::start(&config.inference, &models, memory, metrics.clone()).map_err(ServeError::Start)?;
    let engines = engines(&config, &store, limiter, &metrics).await?;
    let collections = Collections::open(
        store.clone(),
        models.clone(),
        scheduler.clone(),
        engines,
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
    // before the line below, after which a service manager may send signals
    let signals = Signals::take().map_err(ServeError::Start)?;
    let hangups = signal(SignalKind::hangup()).map_err(ServeError::Start)?;
    tracing::info!(%address, isa = kernels.isa.name(), data_dir = %config.server.data_dir.display(),
        store = if store.is_shared() { "postgresql" } else { "sqlite" },
        collections = collections.count(), tls = tls.is_some(),
        took = ?started.elapsed(), "weir {} is listening", env!("CARGO_PKG_VERSION"));

    background.spawn(ask_upstreams(models.clone(), collections.clone()));
    // not in the background: there, a busy host would delay it
    let (writing, failures) = (keys.clone(), metrics.clone());
    tokio::spawn(async move { writing.keep_ledger(|| failures.ledger_write_failed()).await });
    if store.is_shared() {
        let following = keys.clone();
        tokio::spawn(async move { following.keep_up().await });
    }
    let (ledger, shared) = (keys.clone(), keys.clone());
    tokio::spawn(async move { shared.work_with_others().await });
    let reload = Reload {
        source,
        current: Config::clone(&config),
        llm: llm.clone(),
        keys: keys.clone(),
        tls: tls.clone(),
        metrics: metrics.clone(),
    };
    background.spawn(reload.watch(hangups));
    let query_log = QueryLog::start(&config.search, store.clone(), metrics.clone(), &background);
    let retrieval = Retrieval::new(collections, query_log);
    retrieval.resume_reading().await?;
    let isolated = retrieval.clone();
    background.spawn_blocking(move || isolated.log_isolation());
    let embedding = Embedding { models: models.clone(), scheduler: scheduler.clone() };
    let mut llm = llm.with_retrieval(retrieval.clone(), embedding);
    if config.redis.replies {
        let Service { id, cursor_key } = store.service().await?;
        llm = llm.with_shared_replies(keys.clone(), &config.redis.prefix, (&id, &cursor_key));
    }
    // without API keys, everybody who reaches the gateway is its operator
    let operator = Arc::new(Caller::system());
    let known = keys.clone();
    let authenticate = Arc::new(move |credential: Option<&str>| match known.are_required() {
        true => known.caller(credential?, unix_now()),
        false => Some(operator.clone()),
    });
    let gateway = Gateway::new(Services {
        config,
        retrieval: retrieval.clone(),
        models,
        scheduler,
        metrics,
        requests: requests.clone(),
        authenticate,
        keys,
        llm,
    });
    weir_server::serve(listener, signals, &gateway, tls).await;

    ledger.leave_others().await;
    // before the store is closed
    if let Err(error) = ledger.store_revocations().await {
        tracing::error!(%error, "revocations are lost: revoke these keys again after the start");
    }
    if let Err(error) = ledger.flush_ledger(unix_now()).await {
        tracing::error!(%error, "what keys have spent since the ledger was last written is lost");
    }
    retrieval.close().await;
    requests.close();
    tracing::info!("stopped; everything acknowledged is on disk");
    Ok(())
}

/// Stack of the thread that loads models. Without optimisation, 2 MiB are too few.
const LOADING_STACK_BYTES: usize = 8 << 20;

/// Loads the models while the store is opened. The thread is left behind when the start fails.
fn start_loading(
    config: Arc<Config>,
    kernels: &'static Kernels,
    metrics: Metrics,
) -> Result<oneshot::Receiver<Result<Models, ModelError>>, ServeError> {
    let (done, models) = oneshot::channel();
    let thread = std::thread::Builder::new().name("models".to_owned()).stack_size(LOADING_STACK_BYTES);
    thread
        .spawn(move || drop(done.send(Models::load(&config, kernels, &metrics))))
        .map_err(ServeError::Start)?;
    Ok(models)
}

/// The engines of collections: in the data directory, and in a Qdrant cluster if there is one.
async fn engines(
    config: &Config,
    store: &Store,
    limiter: CpuLimiter,
    metrics: &Metrics,
) -> Result<Engines, ServeError> {
    let service = store.service().await?.id;
    let Index { copies_dir, copy_after_s, open_max, .. } = &config.index;
    let mut embedded = Engines::embedded(config.server.data_dir.join("index"), limiter, *open_max);
    if !copies_dir.is_empty() {
        embedded =
            embedded.with_copies(Path::new(copies_dir).join(&service), Duration::from_secs(*copy_after_s));
    }
    Ok(match qdrant::engines(&config.qdrant, service, metrics).await? {
        Some(cluster) => embedded.with_qdrant(cluster),
        None => embedded,
    })
}

/// Where limits are counted: in Redis if there is one by the settings.
async fn limits(settings: &weir_config::table::Redis) -> Result<Limits, RedisUnusable> {
    let Some(shared) = redis::shared_limits(settings)? else { return Ok(Limits::Local) };
    match shared.connect().await.map_err(RedisUnusable::of) {
        Ok(()) => tracing::info!("limits are counted with other gateways in Redis"),
        Err(Ok(unusable)) => return Err(unusable),
        Err(Err(error)) => {
            tracing::error!(%error, "Redis can't be reached: this gateway counts its share of the limits until it can")
        }
    }
    Ok(Limits::Redis(Arc::new(shared)))
}

/// Asks upstreams for what is not known of them, and makes the default collection if it waited for that. An upstream that can't be
/// reached is asked again when it is first needed.
async fn ask_upstreams(models: Models, collections: Collections) {
    let is_known = || models.default_model().is_some_and(|model| model.dimension().is_some());
    let was_known = is_known();
    for model in models.iter() {
        if let Err(error) = model.fetch_dimension().await {
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

/// Most connections that wait to be accepted; beyond them the system drops a new one, whose client tries again after a second. Systems lower the
/// number to their own limit, in Linux `net.core.somaxconn`, by default 4,096.
const BACKLOG: u32 = 4_096;

/// Listens at an address.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // as the standard library does: an address can be listened at again while connections of an ended process close
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
