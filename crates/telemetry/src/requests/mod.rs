//! One record per request, for telemetry: written when the last owner of its [`RequestEntry`] is done with it.
//!
//! Records pass a bounded channel to the collector (a thread), which makes batches and hands them to the sink (a thread), which writes each in one
//! transaction. Batches that the sink can't take wait in files (`spill`). A request never waits: when the channel or the folder is full, rows
//! are dropped and counted.

mod collector;
mod labels;
mod postgres;
mod retention;
mod row;
mod sink;
mod spans;
mod spill;
mod sqlite;
mod trace;
mod usage;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use weir_config::{Config, RequestStore, Secret};
use weir_postgres::Address;

use collector::{Collector, Store, Sums};
use labels::Labels;
use postgres::PostgresSink;
use sink::Sink;
use spans::SpanExporter;
use spill::Spill;
use sqlite::SqliteSink;

use crate::metrics::Metrics;

pub use postgres::PostgresError;
pub use row::Charge;
pub use trace::TraceContext;
pub use usage::{KnownKeys, USAGE_ROWS_MAX, UsageQuery, UsageReport, UsageRow, UsageSums, day_of};
pub use weir_postgres::AddressError;

/// Records between requests and the collector.
const CHANNEL_RECORDS_MAX: usize = 65_536;
/// The folder of batches that wait, in the data folder.
const SPILL_FOLDER: &str = "telemetry-spill";

/// The record of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestRecord {
    /// When it began, in unix seconds.
    pub at: f64,
    /// Its id, as in the reply and the log.
    pub request_id: Arc<str>,
    /// The number of the API key.
    pub key: Option<i64>,
    /// Its name.
    pub key_name: Option<Arc<str>>,
    /// The method and the pattern of the route.
    pub method: &'static str,
    /// The pattern of the route; `none` for a path that is no route's.
    pub route: &'static str,
    /// The model that was asked for.
    pub model: Option<Arc<str>>,
    /// Whether that is a model of this gateway or of a route with this name, and no name that the caller may have invented.
    pub is_known_model: bool,
    /// The upstream that answered or failed last.
    pub upstream: Option<Arc<str>>,
    /// Its provider, by its name in the conventions for generative AI.
    pub provider: Option<&'static str>,
    /// The HTTP status of the reply; 499 when the client left before.
    pub status: u16,
    /// The code of the error, also of one after the head of the reply.
    pub error: Option<&'static str>,
    /// Tokens of the prompt or of the texts.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that the provider had cached.
    pub cached_tokens: u64,
    /// Tokens of the completion.
    pub completion_tokens: u64,
    /// Cost in billionths of the currency of the price table.
    pub cost_nanos: u64,
    /// Usage and cost by class.
    pub charges: Vec<Charge>,
    /// Whether a model was called of which no price is known.
    pub is_unpriced: bool,
    /// Attempts at upstreams.
    pub attempts: u32,
    /// From the head of the request to the first byte of the reply's body, of streams.
    pub first_token: Option<Duration>,
    /// From the head of the request to the end of the reply.
    pub duration: Duration,
    /// Whether the reply was streamed.
    pub is_stream: bool,
    /// Its place in a trace.
    pub trace: Option<TraceContext>,
    /// The findings of guardrails, as in the reply.
    pub guardrails: Option<Box<str>>,
    /// Whether the reply was kept from an earlier request: `hit`, `semantic_hit` or `miss`; `None` without a cache.
    pub cache: Option<&'static str>,
    /// Cost that a kept reply saved, in billionths of the currency.
    pub saved_nanos: u64,
}

impl RequestRecord {
    /// Adds what a call used and what it costs.
    pub fn charge(&mut self, charges: Vec<Charge>) {
        for charge in charges {
            self.cost_nanos = self.cost_nanos.saturating_add(charge.cost_nanos);
            match self.charges.iter_mut().find(|of| of.class == charge.class) {
                Some(of) => of.add(&charge),
                None => self.charges.push(charge),
            }
        }
    }

    /// Whether it failed: status 400 and above, or an error after the head of the reply.
    pub fn is_failed(&self) -> bool {
        self.status >= 400 || self.error.is_some()
    }
}

/// Why the request log can't be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The URL of PostgreSQL.
    #[error("`telemetry.postgres_url` can't be used: {0}")]
    PostgresUrl(#[from] AddressError),
    /// The folder for rows that wait.
    #[error("rows of the request log can't be put on disk: {0}")]
    Spill(String),
    /// The system gives no threads.
    #[error("the threads of the request log can't be started")]
    Thread(#[from] std::io::Error),
}

/// Why sums can't be read.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The log is off.
    #[error("this gateway keeps no request log; set `telemetry.requests` to sqlite or postgres")]
    Disabled,
    /// The file can't be read.
    #[error("telemetry.sqlite can't be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL can't be read.
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// The thread was ended.
    #[error("the reading of telemetry.sqlite was ended")]
    Ended(#[from] tokio::task::JoinError),
}

/// Where the records go. Clones share it.
#[derive(Clone, Default)]
pub struct RequestLog(Option<Arc<Shared>>);

struct Shared {
    records: mpsc::Sender<RequestRecord>,
    metrics: Metrics,
    source: UsageSource,
    /// Whether spans are exported, and the share of new traces that are.
    sampled: Option<f32>,
    is_closing: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Where sums are read.
enum UsageSource {
    None,
    Sqlite(PathBuf),
    /// The database, and the folder with the sums of this gateway.
    Postgres(Box<Address>, PathBuf),
}

impl RequestLog {
    /// Writes nothing.
    pub fn disabled() -> RequestLog {
        RequestLog(None)
    }

    /// Starts the threads of the log. The database is opened later: it may be down. Usage in it that is not of `keys` is reported.
    ///
    /// # Errors
    /// When the settings or the data folder can't be used.
    pub fn start(config: &Config, metrics: Metrics, keys: KnownKeys) -> Result<RequestLog, StartError> {
        let settings = &config.telemetry;
        let folder = &config.server.data_dir;
        let (source, sink) = match settings.requests {
            RequestStore::None => (UsageSource::None, None),
            RequestStore::Sqlite => {
                let mut sink = SqliteSink::new(folder, settings.days_kept, settings.sqlite_rows_max);
                sink.check_keys(&keys);
                (UsageSource::Sqlite(folder.clone()), Some(Sink::Sqlite(sink)))
            }
            RequestStore::Postgres => {
                let url = settings.postgres_url.as_ref().and_then(|url| url.secret().ok());
                let address = Address::parse(url.map(Secret::reveal).unwrap_or_default())?;
                let sink = PostgresSink::new(address.clone(), settings.days_kept, keys)?;
                (
                    UsageSource::Postgres(Box::new(address), folder.clone()),
                    Some(Sink::Postgres(Box::new(sink))),
                )
            }
        };
        let store = match sink {
            None => None,
            Some(sink) => {
                let spill = Spill::open(&folder.join(SPILL_FOLDER), settings.spill_bytes_max);
                let spill = spill.map_err(|error| StartError::Spill(error.to_string()))?;
                let sums = matches!(sink, Sink::Postgres(_)).then(|| Sums::new(SqliteSink::of_sums(folder)));
                Some(Store::start(sink, spill, sums, metrics.clone(), folder)?)
            }
        };
        let has_traces = !settings.traces_url.is_empty();
        let spans = match has_traces {
            true => Some(SpanExporter::start(&settings.traces_url, metrics.clone())?),
            false => None,
        };
        let slow = settings.slow_request_ms;
        let slow = (slow > 0).then(|| Duration::from_millis(slow));
        let (sender, records) = mpsc::channel(CHANNEL_RECORDS_MAX);
        let is_closing = Arc::new(AtomicBool::new(false));
        let collector = Collector {
            records,
            store,
            spans,
            slow,
            writer: writer(),
            metrics: metrics.clone(),
            labels: Labels::default(),
        };
        let closing = is_closing.clone();
        let thread = std::thread::Builder::new()
            .name("request-log".to_owned())
            .spawn(move || collector.run(&closing))?;
        Ok(RequestLog(Some(Arc::new(Shared {
            records: sender,
            metrics,
            source,
            sampled: has_traces.then_some(settings.traces_sample_ratio),
            is_closing,
            thread: Mutex::new(Some(thread)),
        }))))
    }

    /// The entry of a request that has begun.
    pub fn begin(&self, record: RequestRecord) -> RequestEntry {
        RequestEntry(Arc::new(Entry {
            log: self.clone(),
            started: Instant::now(),
            record: Mutex::new(record),
        }))
    }

    /// The place of a request with these headers in a trace, if it is traced.
    pub fn trace(&self, traceparent: Option<&str>, tracestate: Option<&str>) -> Option<TraceContext> {
        let caller = traceparent.and_then(|parent| TraceContext::parse(parent.trim(), tracestate));
        let Some(ratio) = self.0.as_ref().and_then(|shared| shared.sampled) else { return caller };
        Some(match caller {
            Some(caller) => caller.child(),
            None => TraceContext::root(rand::random::<f32>() < ratio),
        })
    }

    /// Sums over requests, at most [`USAGE_ROWS_MAX`] of them. While PostgreSQL can't be read, they are those of this gateway.
    ///
    /// # Errors
    /// When the log is off, and when its database can't be read.
    pub async fn usage(&self, query: UsageQuery) -> Result<UsageReport, UsageError> {
        let of_file = |folder: &PathBuf, query: UsageQuery| {
            let folder = folder.clone();
            tokio::task::spawn_blocking(move || sqlite::usage(&folder, &query))
        };
        match self.0.as_ref().map(|shared| &shared.source) {
            None | Some(UsageSource::None) => Err(UsageError::Disabled),
            Some(UsageSource::Sqlite(folder)) => {
                Ok(UsageReport { rows: of_file(folder, query).await??, is_of_this_gateway: false })
            }
            Some(UsageSource::Postgres(address, folder)) => match postgres::usage(address, &query).await {
                Ok(rows) => Ok(UsageReport { rows, is_of_this_gateway: false }),
                Err(error) => {
                    tracing::warn!(%error, "usage is reported from the sums of this gateway: PostgreSQL can't be read");
                    Ok(UsageReport { rows: of_file(folder, query).await??, is_of_this_gateway: true })
                }
            },
        }
    }

    /// Writes what has been recorded, or puts it on disk for the next start. It waits for one attempt to write.
    pub fn close(&self) {
        let Some(shared) = &self.0 else { return };
        shared.is_closing.store(true, Ordering::Release);
        let thread = shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }

    /// Hands a record over; never waits.
    fn write(&self, record: RequestRecord) {
        if let Some(shared) = &self.0
            && shared.records.try_send(record).is_err()
        {
            shared.metrics.request_rows("dropped", 1);
        }
    }
}

/// A number for the batches of this process: the time in microseconds, and eight random bits for processes that start together.
fn writer() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX >> 8);
    (micros << 8) | i64::from(rand::random::<u8>())
}

/// The record of a request on its way. Handlers and streams hold clones; the record is written when the last one is dropped.
#[derive(Clone)]
pub struct RequestEntry(Arc<Entry>);

struct Entry {
    log: RequestLog,
    started: Instant,
    record: Mutex<RequestRecord>,
}

impl RequestEntry {
    /// Changes the record.
    pub fn update(&self, change: impl FnOnce(&mut RequestRecord)) {
        change(&mut self.0.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The entry of a call that the gateway makes of another model for this request. It has a row of its own, with the id of the request.
    pub fn of_call(&self) -> RequestEntry {
        let record = self.0.record.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.log.begin(RequestRecord {
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            request_id: record.request_id.clone(),
            key: record.key,
            key_name: record.key_name.clone(),
            method: record.method,
            route: record.route,
            status: record.status,
            trace: record.trace.clone().map(TraceContext::child),
            ..RequestRecord::default()
        })
    }

    /// The value of the header `traceparent` for a call to an upstream on behalf of this request, if it is traced.
    pub fn traceparent(&self) -> Option<String> {
        let record = self.0.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.trace.as_ref().map(TraceContext::traceparent)
    }

    /// The value of the header `tracestate` for the same call.
    pub fn tracestate(&self) -> Option<String> {
        let record = self.0.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.trace.as_ref()?.tracestate().map(str::to_owned)
    }

    /// When the request began.
    pub fn started(&self) -> Instant {
        self.0.started
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut record = std::mem::take(self.record.get_mut().unwrap_or_else(PoisonError::into_inner));
        record.duration = self.started.elapsed();
        // any text of a client; the queue holds many records
        labels::bounded(&mut record.model);
        self.log.write(record);
    }
}
