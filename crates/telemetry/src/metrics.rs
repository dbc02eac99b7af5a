//! Every metric, in one table: `/metrics` and `docs/metrics.md` come from it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric as RegisteredMetric, Registry, Unit};
use weir_api::Timings;

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name as it stands on `/metrics`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it tells, in a sentence.
    pub help: &'static str,
}

/// A route's pattern, a method and a status: bounded whatever callers send.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: Text,
    method: Text,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfModel {
    model: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Probed {
    selectivity: Text,
    result: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InLane {
    lane: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfUpstream {
    upstream: Text,
    code: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InCollection {
    collection: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: Text,
    isa: Text,
}

/// A label's value that is cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Text(Arc<str>);

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.into())
    }
}

impl EncodeLabelValue for Text {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        encoder.write_str(&self.0)
    }
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Makes [`TABLE`] and [`Metrics`] of rows: field, type, how it begins, name, kind, labels.
macro_rules! table {
    ($(#[doc = $help:literal] $field:ident: $metric:ty = $new:expr, $name:literal, $kind:ident, [$($label:literal),*];)*) => {
        /// Every metric.
        pub const TABLE: &[Row] = &[
            $(Row { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help.trim_ascii() },)*
        ];

        /// The metrics of this process. Cloning gives another handle to the same numbers.
        #[derive(Clone)]
        pub struct Metrics {
            registry: Arc<Registry>,
            $($field: $metric,)*
        }

        impl Metrics {
            fn at_zero() -> Metrics {
                let mut registry = Registry::default();
                $(
                    let $field: $metric = $new;
                    register(&mut registry, Kind::$kind, $name, $help, $field.clone());
                )*
                Metrics { registry: Arc::new(registry), $($field,)* }
            }
        }
    };
}

table! {
    /// Requests that were answered.
    requests: Family<Request, Counter> = Family::default(), "weir_http_requests_total", Counter, ["route", "method", "status"];
    /// From the request's head to the reply's head.
    durations: Histograms<Route> = Family::new_with_constructor(seconds), "weir_http_request_duration_seconds", Histogram, ["route"];
    /// Time of each stage of a search.
    stages: Histograms<Stage> = Family::new_with_constructor(seconds), "weir_search_stage_seconds", Histogram, ["stage"];
    /// Searches that were answered without a part of what they asked for.
    degraded: Family<Reason, Counter> = Family::default(), "weir_search_degraded_total", Counter, ["reason"];
    /// Words of queries that no document holds, and in whose place others were searched.
    corrections: Counter = Counter::default(), "weir_search_corrections_total", Counter, [];
    /// Tokens that wait in the interactive lane.
    queue_tokens: Gauge = Gauge::default(), "weir_embed_queue_tokens", Gauge, [];
    /// Tokens that callers of the embedding routes had embedded.
    embedded_tokens: Family<OfModel, Counter> = Family::default(), "weir_embed_tokens_total", Counter, ["model"];
    /// Texts of these callers that were longer than the model reads, and were cut.
    truncated_inputs: Family<OfModel, Counter> = Family::default(), "weir_truncated_inputs_total", Counter, ["model"];
    /// Texts that were looked for among the embeddings made before: hit or miss.
    embed_cache: Family<Outcome, Counter> = Family::default(), "weir_embed_cache_lookups_total", Counter, ["result"];
    /// Bytes that the cached embeddings take.
    cache_bytes: Gauge = Gauge::default(), "weir_embed_cache_bytes", Gauge, [];
    /// Documents that were accepted, refused, made searchable (indexed), or stored and not embedded (failed).
    ingested: Family<Outcome, Counter> = Family::default(), "weir_ingest_documents_total", Counter, ["result"];
    /// Open collections.
    collections: Gauge = Gauge::default(), "weir_collections", Gauge, [];
    /// Searchable documents.
    documents: Family<InCollection, Gauge> = Family::default(), "weir_documents", Gauge, ["collection"];
    /// Searchable chunks.
    chunks: Family<InCollection, Gauge> = Family::default(), "weir_chunks", Gauge, ["collection"];
    /// Acknowledged operations that are not searchable yet.
    pending: Family<InCollection, Gauge> = Family::default(), "weir_pending_operations", Gauge, ["collection"];
    /// Bytes of the index on disk.
    index_bytes: Family<InCollection, Gauge> = Family::default(), "weir_index_bytes", Gauge, ["collection"];
    /// Segments of the lexical index that a search goes through. Small ones are merged when nothing has come for two seconds.
    index_segments: Family<InCollection, Gauge> = Family::default(), "weir_index_segments", Gauge, ["collection"];
    /// Queries for the query log: written, failed (the store refused) or dropped (too many waited).
    logged: Family<Outcome, Counter> = Family::default(), "weir_query_log_entries_total", Counter, ["result"];
    /// Judgments that were taken up for the relevance of hits: weighed, or no_hit where a search of the query finds the document nowhere.
    feedback: Family<Outcome, Counter> = Family::default(), "weir_feedback_judgments_total", Counter, ["result"];
    /// Texts that wait to be embedded, for a thread or for a place among the requests to an upstream.
    queue_depth: Family<InLane, Gauge> = Family::default(), "weir_embed_queue_depth", Gauge, ["lane"];
    /// How long they waited.
    queue_wait: Histograms<InLane> = Family::new_with_constructor(seconds), "weir_embed_queue_wait_seconds", Histogram, ["lane"];
    /// Texts that were embedded together.
    batch_size: Histogram = counts(), "weir_embed_batch_size", Histogram, [];
    /// Tokens of these texts; estimated where an upstream counts them.
    batch_tokens: Histogram = counts(), "weir_embed_batch_tokens", Histogram, [];
    /// Requests to a model's upstream that failed, retries included: the status, or connect, timeout, reply or breaker.
    upstream_errors: Family<OfUpstream, Counter> = Family::default(), "weir_upstream_errors_total", Counter, ["upstream", "code"];
    /// Open connections.
    connections: Gauge = Gauge::default(), "weir_connections", Gauge, [];
    /// Always 1; the labels tell what runs.
    build: Family<Build, Gauge> = Family::default(), "weir_build_info", Gauge, ["version", "isa"];
    /// Chunks that an exact comparison finds, in a sample of searches: found or missed by the dense leg, by the share that the filter lets through.
    recall: Family<Probed, Counter> = Family::default(), "weir_search_recall_chunks_total", Counter, ["selectivity", "result"];
}

/// What is read at the moment of a scrape.
#[derive(Debug, Clone)]
pub struct CollectionGauges {
    /// The name.
    pub name: String,
    /// Searchable documents.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Operations on their way.
    pub pending: u64,
    /// Bytes on disk.
    pub index_bytes: u64,
    /// Segments of the lexical index.
    pub index_segments: usize,
}

/// 50 microseconds to 52 seconds, each bucket twice the one before.
fn seconds() -> Histogram {
    Histogram::new((0..21).map(|i| 50e-6 * f64::from(1u32 << i)))
}

/// 1 to 16384, each bucket twice the one before.
fn counts() -> Histogram {
    Histogram::new((0..15).map(|i| f64::from(1u32 << i)))
}

/// The encoder puts unit and `_total` behind names itself.
fn register(registry: &mut Registry, kind: Kind, name: &str, help: &str, metric: impl RegisteredMetric) {
    let help = help.trim_ascii().trim_end_matches('.');
    let name = if kind == Kind::Counter { name.trim_end_matches("_total") } else { name };
    for (end, unit) in [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)] {
        if let Some(name) = name.strip_suffix(end) {
            return registry.register_with_unit(name, help, unit, metric);
        }
    }
    registry.register(name, help, metric);
}

impl Metrics {
    /// All metrics at zero.
    pub fn new(isa: &str) -> Metrics {
        let metrics = Metrics::at_zero();
        let build = Build { version: env!("CARGO_PKG_VERSION").into(), isa: isa.into() };
        metrics.build.get_or_create(&build).set(1);
        metrics
    }

    /// Counts a request that was answered.
    pub fn request(&self, route: &str, method: &str, status: u16, seconds: f64) {
        let labels = Request { route: route.into(), method: method.into(), status };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&Route { route: route.into() }).observe(seconds);
    }

    /// Records the stages of a search.
    pub fn search(&self, timings: &Timings) {
        let stages = [
            ("parse", timings.parse),
            ("embed", timings.embed),
            ("select", timings.select),
            ("lexical", timings.lexical),
            ("dense", timings.dense),
            ("fuse", timings.fuse),
            ("fetch", timings.fetch),
            ("late_interaction", timings.late_interaction),
            ("rerank", timings.rerank),
        ];
        for (stage, ms) in stages {
            self.stages.get_or_create(&Stage { stage: stage.into() }).observe(ms / 1e3);
        }
    }

    /// Counts a search that was answered without a part of what it asked for.
    pub fn search_degraded(&self, reason: &str) {
        self.degraded.get_or_create(&Reason { reason: reason.into() }).inc();
    }

    /// Counts the `wanted` chunks of an exact dense search, of which the approximate one found `found`, for a filter that
    /// passes the share `selectivity` (0..1) of all chunks.
    pub fn recall(&self, found: usize, wanted: usize, selectivity: f64) {
        let selectivity = match selectivity {
            share if share > 0.1 => "over 10 %",
            share if share > 0.01 => "1 to 10 %",
            _ => "up to 1 %",
        };
        for (result, chunks) in [("found", found), ("missed", wanted - found)] {
            let labels = Probed { selectivity: selectivity.into(), result: result.into() };
            self.recall.get_or_create(&labels).inc_by(chunks as u64);
        }
    }

    /// Counts words in whose place others were searched.
    pub fn search_corrected(&self, words: usize) {
        self.corrections.inc_by(words as u64);
    }

    /// Counts the texts of a request that were embedded: all their tokens, and how many of them were cut.
    pub fn embedded(&self, model: &str, tokens: u64, truncated: u64) {
        let labels = OfModel { model: model.into() };
        self.embedded_tokens.get_or_create(&labels).inc_by(tokens);
        self.truncated_inputs.get_or_create(&labels).inc_by(truncated);
    }

    /// Counts texts whose embedding was known, and those whose was not.
    pub fn embed_cache(&self, hits: usize, misses: usize) {
        for (result, count) in [("hit", hits), ("miss", misses)] {
            self.embed_cache.get_or_create(&Outcome { result: result.into() }).inc_by(count as u64);
        }
    }

    /// Texts came into the queue of a lane; they count as waiting until the returned value is dropped.
    pub fn queued(&self, lane: &'static str, texts: usize) -> Queued {
        let labels = InLane { lane: lane.into() };
        let depth = self.queue_depth.get_or_create_owned(&labels);
        let wait = self.queue_wait.get_or_create_owned(&labels);
        let texts = to_i64(texts as u64);
        depth.inc_by(texts);
        Queued { depth, wait, texts, since: Instant::now() }
    }

    /// Counts a request to an upstream that failed.
    pub fn upstream_failed(&self, upstream: &str, code: &str) {
        let labels = OfUpstream { upstream: upstream.into(), code: code.into() };
        self.upstream_errors.get_or_create(&labels).inc();
    }

    /// Takes note of texts that are embedded together.
    pub fn batch(&self, texts: usize, tokens: usize) {
        self.batch_size.observe(texts as f64);
        self.batch_tokens.observe(tokens as f64);
    }

    /// Counts documents that a request brought.
    pub fn documents_received(&self, accepted: u64, refused: u64) {
        self.count_documents("accepted", accepted);
        self.count_documents("refused", refused);
    }

    /// Counts documents whose change became searchable.
    pub fn documents_indexed(&self, count: u64) {
        self.count_documents("indexed", count);
    }

    /// Counts documents that can't be made searchable.
    pub fn documents_failed(&self, count: u64) {
        if count > 0 {
            self.count_documents("failed", count);
        }
    }

    fn count_documents(&self, result: &str, count: u64) {
        self.ingested.get_or_create(&Outcome { result: result.into() }).inc_by(count);
    }

    /// Counts queries that were written to the query log, or were not.
    pub fn queries_logged(&self, result: &str, count: u64) {
        self.logged.get_or_create(&Outcome { result: result.into() }).inc_by(count);
    }

    /// Counts judgments that were taken up for the relevance of hits.
    pub fn feedback_taken_up(&self, weighed: usize, no_hit: usize) {
        for (result, count) in [("weighed", weighed), ("no_hit", no_hit)] {
            self.feedback.get_or_create(&Outcome { result: result.into() }).inc_by(count as u64);
        }
    }

    /// A connection came; it counts until the returned value is dropped.
    pub fn connection(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }

    /// Everything in Prometheus' text format, with the gauges as they are now.
    pub fn render(
        &self,
        queued_tokens: usize,
        cache_bytes: usize,
        collections: &[CollectionGauges],
    ) -> String {
        self.queue_tokens.set(to_i64(queued_tokens as u64));
        self.cache_bytes.set(to_i64(cache_bytes as u64));
        self.collections.set(to_i64(collections.len() as u64));
        for family in [&self.documents, &self.chunks, &self.pending, &self.index_bytes, &self.index_segments]
        {
            family.clear(); // what was deleted must not stay
        }
        for collection in collections {
            let labels = InCollection { collection: collection.name.as_str().into() };
            self.documents.get_or_create(&labels).set(to_i64(collection.documents));
            self.chunks.get_or_create(&labels).set(to_i64(collection.chunks));
            self.pending.get_or_create(&labels).set(to_i64(collection.pending));
            self.index_bytes.get_or_create(&labels).set(to_i64(collection.index_bytes));
            self.index_segments.get_or_create(&labels).set(to_i64(collection.index_segments as u64));
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            let _ = writeln!(text, "# the metrics could not be written");
        }
        text
    }
}

/// Texts that wait in a queue.
pub struct Queued {
    depth: Gauge,
    wait: Histogram,
    texts: i64,
    since: Instant,
}

impl Queued {
    /// They are embedded now; says how long they waited.
    pub fn ends(self) -> Duration {
        let waited = self.since.elapsed();
        self.wait.observe(waited.as_secs_f64());
        waited
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.depth.dec_by(self.texts);
    }
}

/// One open connection.
pub struct OpenConnection(Gauge<i64, std::sync::atomic::AtomicI64>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
