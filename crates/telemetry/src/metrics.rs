//! The table of all metrics, from which `/metrics` and `docs/metrics.md` are generated.

mod files;
mod guards;
mod labels;
mod llm;
mod qdrant;
mod render;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric as RegisteredMetric, Registry, Unit};
use weir_api::{DegradedReason, Timings};

pub use guards::{OpenConnection, Queued};
use labels::{
    BuildLabels, CallLabel, CallLabels, CollectionLabel, ExtractionLabels, FindingLabels, KeyLabel,
    KeyResultLabels, KeyTokenLabels, LabelValue, LaneLabel, ModelLabel, ModelTokenLabels, ModelUpstreamLabel,
    ModelUpstreamLabels, ReasonLabel, RecallLabels, RequestLabels, ResultLabel, RouteLabel, StageLabel,
    TableLabel, UpstreamLabels,
};
pub use llm::{KeySeries, ModelSeries};
pub use render::CollectionGauges;

/// The type of a metric.
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
    /// The name in `/metrics`.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// The description, in a sentence.
    pub help: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Generates [`TABLE`] and [`Metrics`] from rows: field, type, initial value, name, kind, labels.
macro_rules! table {
    ($(#[doc = $help:literal] $field:ident: $metric:ty = $new:expr, $name:literal, $kind:ident, [$($label:literal),*];)*) => {
        /// Every metric.
        pub const TABLE: &[Row] = &[
            $(Row { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help.trim_ascii() },)*
        ];

        /// The metrics of this process. Clones share them.
        #[derive(Clone)]
        pub struct Metrics {
            /// Locked while gauges are set and written for one caller.
            registry: Arc<Mutex<Registry>>,
            $($field: $metric,)*
        }

        impl Metrics {
            fn at_zero() -> Metrics {
                let mut registry = Registry::default();
                $(
                    let $field: $metric = $new;
                    register(&mut registry, Kind::$kind, $name, $help, $field.clone());
                )*
                Metrics { registry: Arc::new(Mutex::new(registry)), $($field,)* }
            }
        }
    };
}

table! {
    /// Answered requests.
    requests: Family<RequestLabels, Counter> = Family::default(), "weir_http_requests_total", Counter, ["route", "method", "status"];
    /// Time from the request's head to the reply's head.
    durations: Histograms<RouteLabel> = Family::new_with_constructor(seconds), "weir_http_request_duration_seconds", Histogram, ["route"];
    /// Time of each stage of a search.
    stages: Histograms<StageLabel> = Family::new_with_constructor(seconds), "weir_search_stage_seconds", Histogram, ["stage"];
    /// Searches answered without a requested stage or retriever.
    degraded: Family<ReasonLabel, Counter> = Family::default(), "weir_search_degraded_total", Counter, ["reason"];
    /// Query words that are in no document and were replaced by similar ones.
    corrections: Counter = Counter::default(), "weir_search_corrections_total", Counter, [];
    /// Waiting tokens in the interactive lane.
    queue_tokens: Gauge = Gauge::default(), "weir_embed_queue_tokens", Gauge, [];
    /// Tokens embedded by the embedding routes.
    embedded_tokens: Family<ModelLabel, Counter> = Family::default(), "weir_embed_tokens_total", Counter, ["model"];
    /// Texts truncated by the embedding routes to the length of the model.
    truncated_inputs: Family<ModelLabel, Counter> = Family::default(), "weir_truncated_inputs_total", Counter, ["model"];
    /// Texts of which an embedding was computed, by lane: query, interactive, or bulk (documents and large requests). Those of the cache are not among them.
    embedded_texts: Family<LaneLabel, Counter> = Family::default(), "weir_embed_texts_total", Counter, ["lane"];
    /// Lookups in the embedding cache: hit or miss.
    embed_cache: Family<ResultLabel, Counter> = Family::default(), "weir_embed_cache_lookups_total", Counter, ["result"];
    /// Bytes of the cached embeddings.
    cache_bytes: Gauge = Gauge::default(), "weir_embed_cache_bytes", Gauge, [];
    /// Documents that were accepted, refused, indexed, or stored without embeddings (failed).
    ingested: Family<ResultLabel, Counter> = Family::default(), "weir_ingest_documents_total", Counter, ["result"];
    /// Ingest jobs that ended: completed, failed or cancelled.
    jobs: Family<ResultLabel, Counter> = Family::default(), "weir_jobs_ended_total", Counter, ["result"];
    /// Attempts of the webhooks of jobs: delivered, retried (they failed and are repeated), or given_up.
    webhooks: Family<ResultLabel, Counter> = Family::default(), "weir_webhook_attempts_total", Counter, ["result"];
    /// Open streams of the events of jobs.
    job_streams: Gauge = Gauge::default(), "weir_job_event_streams", Gauge, [];
    /// Lines of streams of documents: stored, or failed.
    ingest_lines: Family<ResultLabel, Counter> = Family::default(), "weir_ingest_lines_total", Counter, ["result"];
    /// Files of which text was extracted, by the kind that their name tells and by result: extracted, partial (something was left out), unchanged (stored already, and not read), or the code of the error.
    extractions: Family<ExtractionLabels, Counter> = Family::default(), "weir_extractions_total", Counter, ["format", "result"];
    /// Time for the text of a file, from the start of the child process to its end.
    extraction_seconds: Histogram = seconds(), "weir_extraction_seconds", Histogram, [];
    /// Files that the server at `extract.url` was asked for: answered, or failed.
    recognitions: Family<ResultLabel, Counter> = Family::default(), "weir_recognitions_total", Counter, ["result"];
    /// Time for the answer of this server, with the wait for its turn and retries.
    recognition_seconds: Histogram = seconds(), "weir_recognition_seconds", Histogram, [];
    /// Files within archives: unpacked, or refused.
    archive_members: Family<ResultLabel, Counter> = Family::default(), "weir_archive_members_total", Counter, ["result"];
    /// Original files: kept, refused (over the limit or not written), or removed because no document had them.
    originals: Family<ResultLabel, Counter> = Family::default(), "weir_originals_total", Counter, ["result"];
    /// Original files in the data directory.
    original_files: Gauge = Gauge::default(), "weir_original_files", Gauge, [];
    /// Bytes of these files; `extract.originals_bytes_max` is their bound.
    original_bytes: Gauge = Gauge::default(), "weir_original_bytes", Gauge, [];
    /// Uploaded files whose text is not extracted yet.
    unread_files: Gauge = Gauge::default(), "weir_unread_files", Gauge, [];
    /// Bytes of uploaded files that are not read yet or have failed; `extract.uploads_bytes_max` is their bound.
    upload_bytes: Gauge = Gauge::default(), "weir_upload_bytes", Gauge, [];
    /// Open collections.
    collections: Gauge = Gauge::default(), "weir_collections", Gauge, [];
    /// Searchable documents.
    documents: Family<CollectionLabel, Gauge> = Family::default(), "weir_documents", Gauge, ["collection"];
    /// Searchable chunks.
    chunks: Family<CollectionLabel, Gauge> = Family::default(), "weir_chunks", Gauge, ["collection"];
    /// Acknowledged operations that are not searchable yet.
    pending: Family<CollectionLabel, Gauge> = Family::default(), "weir_pending_operations", Gauge, ["collection"];
    /// Bytes of the index on disk.
    index_bytes: Family<CollectionLabel, Gauge> = Family::default(), "weir_index_bytes", Gauge, ["collection"];
    /// Segments of the lexical index. Small ones are merged after two seconds without writes.
    index_segments: Family<CollectionLabel, Gauge> = Family::default(), "weir_index_segments", Gauge, ["collection"];
    /// Rows of the store that were found damaged and skipped since the start, and not replaced since; `/readyz` and `weir doctor` name them.
    damaged_rows: Gauge = Gauge::default(), "weir_store_damaged_rows", Gauge, [];
    /// Failed writes of what keys with a budget have spent. Their requests are refused until one succeeds; `/readyz` names the reason.
    ledger_failures: Counter = Counter::default(), "weir_ledger_write_failures_total", Counter, [];
    /// Whether limits are counted with other gateways in Redis: 1; 0 while this gateway counts its share, or without `redis.url`.
    limits_shared: Gauge = Gauge::default(), "weir_limits_shared", Gauge, [];
    /// Gateways that share limits, as last seen; 0 without `redis.url`.
    limits_gateways: Gauge = Gauge::default(), "weir_limits_gateways", Gauge, [];
    /// Questions to Redis for leases of limits. Most requests ask nobody.
    limits_asked: Counter = Counter::default(), "weir_limits_asked_total", Counter, [];
    /// Calls of Redis that failed or were late.
    limits_failed: Counter = Counter::default(), "weir_limits_failures_total", Counter, [];
    /// Questions to the store for leases of budgets, which gateways over one store share. Most requests ask nobody.
    budget_leases_asked: Counter = Counter::default(), "weir_budget_leases_asked_total", Counter, [];
    /// Collections whose index files are open; the others open them when they are used.
    indexes_open: Gauge = Gauge::default(), "weir_indexes_open", Gauge, [];
    /// Copies of indexes in `index.copies_dir`: written by this gateway, read at its start, or failed.
    index_copies: Family<ResultLabel, Counter> = Family::default(), "weir_index_copies_total", Counter, ["result"];
    /// Whether the last call of the store reached its database, and its files are those that were opened: 1, or 0.
    store_up: Gauge = Gauge::default(), "weir_store_up", Gauge, [];
    /// Indexes whose files were removed or damaged while the gateway ran, and which it rebuilt from the store.
    indexes_lost: Counter = Counter::default(), "weir_indexes_lost_total", Counter, [];
    /// Calls of the Qdrant cluster, each with all its attempts: done, refused, or unavailable (no node carried it out).
    qdrant_calls: Family<CallLabels, Counter> = Family::default(), "weir_qdrant_calls_total", Counter, ["call", "result"];
    /// Time of a call of the Qdrant cluster, with all its attempts.
    qdrant_seconds: Histograms<CallLabel> = Family::new_with_constructor(seconds), "weir_qdrant_call_seconds", Histogram, ["call"];
    /// Attempts of calls of the Qdrant cluster after the first, at other nodes or later.
    qdrant_retries: Family<CallLabel, Counter> = Family::default(), "weir_qdrant_retries_total", Counter, ["call"];
    /// Nodes of the Qdrant cluster in `qdrant.urls`.
    qdrant_nodes: Gauge = Gauge::default(), "weir_qdrant_nodes", Gauge, [];
    /// Those of them whose last call was answered.
    qdrant_nodes_up: Gauge = Gauge::default(), "weir_qdrant_nodes_up", Gauge, [];
    /// Comparisons of the index of a collection in the Qdrant cluster with the store that have ended: completed, or failed.
    reconciliations: Family<ResultLabel, Counter> = Family::default(), "weir_reconciliations_total", Counter, ["result"];
    /// Documents that differed: those that the store does not have (deleted), of which points were missing (lost), or with points of earlier versions.
    reconciled: Family<ReasonLabel, Counter> = Family::default(), "weir_reconciled_documents_total", Counter, ["reason"];
    /// Judgments that count for a collection's relevance.
    feedback_votes: Family<CollectionLabel, Gauge> = Family::default(), "weir_feedback_votes", Gauge, ["collection"];
    /// The largest change of a relevance by judgments, negative if it falls; at most `search.feedback_shift_max`.
    relevance_shift: Family<CollectionLabel, Gauge<f64, AtomicU64>> = Family::default(), "weir_relevance_shift", Gauge, ["collection"];
    /// Queries for the query log: written, failed (store error) or dropped (queue full).
    logged: Family<ResultLabel, Counter> = Family::default(), "weir_query_log_entries_total", Counter, ["result"];
    /// Feedback judgments processed for relevance: hit, or no_hit if a search for the query does not find the document.
    feedback: Family<ResultLabel, Counter> = Family::default(), "weir_feedback_judgments_total", Counter, ["result"];
    /// Texts waiting to be embedded, for a thread or for a permit of an upstream.
    queue_depth: Family<LaneLabel, Gauge> = Family::default(), "weir_embed_queue_depth", Gauge, ["lane"];
    /// Collections and requests that wait for their turn in the bulk lane.
    bulk_flows: Gauge = Gauge::default(), "weir_bulk_flows", Gauge, [];
    /// Micro-batches that were computed at normal priority because the bulk lane had less than `inference.bulk_share_min` of the cores.
    bulk_floor_batches: Counter = Counter::default(), "weir_bulk_floor_batches_total", Counter, [];
    /// Time that texts waited to be embedded.
    queue_wait: Histograms<LaneLabel> = Family::new_with_constructor(seconds), "weir_embed_queue_wait_seconds", Histogram, ["lane"];
    /// Texts per micro-batch, or per request to an upstream.
    batch_size: Histogram = counts(), "weir_embed_batch_size", Histogram, [];
    /// Tokens per micro-batch, or per request to an upstream (estimated).
    batch_tokens: Histogram = counts(), "weir_embed_batch_tokens", Histogram, [];
    /// Failed requests to upstreams, retries included; the code is the status, or connect, broken, timeout, reply or breaker.
    upstream_errors: Family<UpstreamLabels, Counter> = Family::default(), "weir_upstream_errors_total", Counter, ["upstream", "code"];
    /// Open connections.
    connections: Gauge = Gauge::default(), "weir_connections", Gauge, [];
    /// Connections that the gateway closed: the TLS handshake failed (handshake), no head in time (head_timeout), no request for too long (idle_timeout), a client that neither sent nor received (no_progress), a newer connection took its place (replaced), or too many of one client (peer_limit).
    connections_closed: Family<ReasonLabel, Counter> = Family::default(), "weir_connections_closed_total", Counter, ["reason"];
    /// Panics, each of which is a defect to report: a request is answered with `internal`, other work is tried again or fails with the reason.
    panics: Counter = Counter::default(), "weir_panics_total", Counter, [];
    /// Always 1; the labels are the version and the instruction set.
    build: Family<BuildLabels, Gauge> = Family::default(), "weir_build_info", Gauge, ["version", "isa"];
    /// Rows of the request log: written to the database, spilled to disk because the database was busy or down (they are written later), or dropped.
    request_rows: Family<ResultLabel, Counter> = Family::default(), "weir_request_log_rows_total", Counter, ["result"];
    /// Bytes of the rows of the request log that wait on disk.
    request_spill: Gauge = Gauge::default(), "weir_request_log_spill_bytes", Gauge, [];
    /// Spans of requests: sent to the server at `telemetry.traces_url`, or dropped.
    spans: Family<ResultLabel, Counter> = Family::default(), "weir_trace_spans_total", Counter, ["result"];
    /// Times that the configuration or the certificate was read again: applied, or refused for an error, which the log tells.
    reloads: Family<ResultLabel, Counter> = Family::default(), "weir_reloads_total", Counter, ["result"];
    /// Requests that upstreams answered or failed, by the model that was asked for.
    model_requests: Family<ModelUpstreamLabels, Counter> = Family::default(), "weir_model_requests_total", Counter, ["model", "upstream", "result"];
    /// Tokens of these requests: prompt, cached (a part of prompt) or completion.
    model_tokens: Family<ModelTokenLabels, Counter> = Family::default(), "weir_model_tokens_total", Counter, ["model", "upstream", "type"];
    /// Cost of these requests in the currency of the price table.
    model_cost: Family<ModelUpstreamLabel, Counter<f64, AtomicU64>> = Family::default(), "weir_model_cost_total", Counter, ["model", "upstream"];
    /// Those of these requests of which no price is known: they count nothing against budgets.
    model_unpriced: Family<ModelUpstreamLabel, Counter> = Family::default(), "weir_model_requests_without_price_total", Counter, ["model", "upstream"];
    /// Requests with an API key, by its name; keys beyond 500 names are counted as other. Only callers without allow lists and filter see it.
    key_requests: Family<KeyResultLabels, Counter> = Family::default(), "weir_key_requests_total", Counter, ["key", "result"];
    /// Tokens of these requests: prompt, cached (a part of prompt) or completion.
    key_tokens: Family<KeyTokenLabels, Counter> = Family::default(), "weir_key_tokens_total", Counter, ["key", "type"];
    /// Cost of these requests in the currency of the price table.
    key_cost: Family<KeyLabel, Counter<f64, AtomicU64>> = Family::default(), "weir_key_cost_total", Counter, ["key"];
    /// Bytes of a table in memory, estimated with its overhead.
    table_bytes: Family<TableLabel, Gauge> = Family::default(), "weir_table_bytes", Gauge, ["table"];
    /// The bound of these bytes.
    table_bytes_max: Family<TableLabel, Gauge> = Family::default(), "weir_table_bytes_max", Gauge, ["table"];
    /// Chat requests of routes with a cache: answered from it for an equal body (hit) or for a question that means the same (semantic_hit), or not (miss).
    reply_cache: Family<ResultLabel, Counter> = Family::default(), "weir_reply_cache_lookups_total", Counter, ["result"];
    /// Bytes of the kept replies and of their questions.
    reply_cache_bytes: Gauge = Gauge::default(), "weir_reply_cache_bytes", Gauge, [];
    /// Lookups of chat replies in Redis, of requests whose reply is not in memory: hit, miss, unreadable (damaged, or of another version), or failed (Redis does not answer, or answers too many others).
    shared_reply_lookups: Family<ResultLabel, Counter> = Family::default(), "weir_shared_reply_lookups_total", Counter, ["result"];
    /// Chat replies for Redis: written, failed (Redis does not answer, or refuses them), or dropped (too large, or too many at once).
    shared_reply_writes: Family<ResultLabel, Counter> = Family::default(), "weir_shared_reply_writes_total", Counter, ["result"];
    /// Bytes of chat replies that were read from Redis, as they are stored.
    shared_reply_read: Counter = Counter::default(), "weir_shared_reply_read_bytes_total", Counter, [];
    /// Bytes of chat replies that were written to Redis, as they are stored.
    shared_reply_written: Counter = Counter::default(), "weir_shared_reply_written_bytes_total", Counter, [];
    /// Cost of the requests that were answered from the cache, had the upstream been called, in the currency of the price table.
    reply_cache_savings: Counter<f64, AtomicU64> = Counter::default(), "weir_reply_cache_savings_total", Counter, [];
    /// Findings of guardrails in prompts (input) and answers (output).
    findings: Family<FindingLabels, Counter> = Family::default(), "weir_guardrail_findings_total", Counter, ["direction", "rule", "action"];
    /// Time from the request's head to the first byte of the body, of streams.
    first_token: Histograms<ModelLabel> = Family::new_with_constructor(seconds), "weir_model_time_to_first_token_seconds", Histogram, ["model"];
    /// In a sample of searches, chunks of the exact result that the dense retriever found or missed, by the share of chunks that the filter passes.
    recall: Family<RecallLabels, Counter> = Family::default(), "weir_search_recall_chunks_total", Counter, ["selectivity", "result"];
}

/// 50 microseconds to 52 seconds, each bucket twice the one before.
fn seconds() -> Histogram {
    Histogram::new((0..21).map(|i| 50e-6 * f64::from(1u32 << i)))
}

/// 1 to 16384, each bucket twice the one before.
fn counts() -> Histogram {
    Histogram::new((0..15).map(|i| f64::from(1u32 << i)))
}

/// Registers a metric under its name without unit and `_total`, which the encoder appends.
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

/// Why connections are closed.
const CONNECTION_CLOSED: [&str; 6] =
    ["handshake", "head_timeout", "idle_timeout", "no_progress", "replaced", "peer_limit"];

impl Metrics {
    /// All metrics at zero.
    pub fn new(isa: &str) -> Metrics {
        let metrics = Metrics::at_zero();
        let build = BuildLabels { version: env!("CARGO_PKG_VERSION").into(), isa: isa.into() };
        metrics.build.get_or_create(&build).set(1);
        metrics.start_series();
        metrics
    }

    /// Shows the series whose labels are known before the first event, so that alerts see the first increase.
    fn start_series(&self) {
        let results: [(&Family<ResultLabel, Counter>, &[&str]); 15] = [
            (&self.embed_cache, &["hit", "miss"]),
            (&self.ingested, &["accepted", "refused", "indexed", "failed"]),
            (&self.ingest_lines, &["stored", "failed"]),
            (&self.recognitions, &["answered", "failed"]),
            (&self.archive_members, &["unpacked", "refused"]),
            (&self.originals, &["kept", "refused", "removed"]),
            (&self.jobs, &["completed", "failed", "cancelled"]),
            (&self.logged, &["written", "failed", "dropped"]),
            (&self.feedback, &["hit", "no_hit"]),
            (&self.request_rows, &["written", "spilled", "dropped"]),
            (&self.spans, &["sent", "dropped"]),
            (&self.reloads, &["applied", "refused"]),
            (&self.reply_cache, &["hit", "semantic_hit", "miss"]),
            (&self.shared_reply_lookups, &["hit", "miss", "unreadable", "failed"]),
            (&self.shared_reply_writes, &["written", "failed", "dropped"]),
        ];
        for (family, results) in results {
            for result in results {
                drop(family.get_or_create(&ResultLabel { result: (*result).into() }));
            }
        }
        for (family, reasons) in [
            (&self.connections_closed, CONNECTION_CLOSED.as_slice()),
            (&self.degraded, DegradedReason::NAMES),
        ] {
            for reason in reasons {
                drop(family.get_or_create(&ReasonLabel { reason: LabelValue::Static(reason) }));
            }
        }
    }

    /// Counts an answered request.
    pub fn request(&self, route: &'static str, method: &'static str, status: u16, seconds: f64) {
        let (route, method) = (LabelValue::Static(route), LabelValue::Static(method));
        self.requests.get_or_create(&RequestLabels { route: route.clone(), method, status }).inc();
        self.durations.get_or_create(&RouteLabel { route }).observe(seconds);
    }

    /// Counts a reload of the configuration or the certificate.
    pub fn reload(&self, is_applied: bool) {
        let result = if is_applied { "applied" } else { "refused" };
        self.reloads.get_or_create(&ResultLabel { result: result.into() }).inc();
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
            ("smooth", timings.smooth),
            ("fetch", timings.fetch),
            ("late_interaction", timings.late_interaction),
            ("rerank", timings.rerank),
        ];
        for (stage, ms) in stages {
            self.stages.get_or_create(&StageLabel { stage: LabelValue::Static(stage) }).observe(ms / 1e3);
        }
    }

    /// Counts a search that was answered without a requested stage or retriever.
    pub fn search_degraded(&self, reason: &str) {
        self.degraded.get_or_create(&ReasonLabel { reason: reason.into() }).inc();
    }

    /// Counts the `expected` chunks of an exact dense search, of which the approximate one found `found`, for a filter that
    /// passes the share `selectivity` (0..1) of all chunks.
    pub fn recall(&self, found: usize, expected: usize, selectivity: f64) {
        let selectivity = match selectivity {
            share if share > 0.1 => "over 10 %",
            share if share > 0.01 => "1 to 10 %",
            _ => "up to 1 %",
        };
        for (result, chunks) in [("found", found), ("missed", expected - found)] {
            let labels = RecallLabels { selectivity: selectivity.into(), result: result.into() };
            self.recall.get_or_create(&labels).inc_by(chunks as u64);
        }
    }

    /// Counts query words that were replaced by similar ones.
    pub fn search_corrected(&self, words: usize) {
        self.corrections.inc_by(words as u64);
    }

    /// Counts the tokens of an embedding request, and its truncated texts.
    pub fn embedded(&self, model: &str, tokens: u64, truncated: u64) {
        let labels = ModelLabel { model: model.into() };
        self.embedded_tokens.get_or_create(&labels).inc_by(tokens);
        self.truncated_inputs.get_or_create(&labels).inc_by(truncated);
    }

    /// Counts texts of which an embedding was computed.
    pub fn texts_embedded(&self, lane: &'static str, texts: usize) {
        let labels = LaneLabel { lane: LabelValue::Static(lane) };
        self.embedded_texts.get_or_create(&labels).inc_by(texts as u64);
    }

    /// Counts lookups in the embedding cache.
    pub fn embed_cache(&self, hits: usize, misses: usize) {
        for (result, count) in [("hit", hits), ("miss", misses)] {
            let labels = ResultLabel { result: LabelValue::Static(result) };
            self.embed_cache.get_or_create(&labels).inc_by(count as u64);
        }
    }

    /// Counts texts in the queue of a lane until the returned guard is dropped.
    pub fn queued(&self, lane: &'static str, texts: usize) -> Queued {
        let labels = LaneLabel { lane: LabelValue::Static(lane) };
        let depth = self.queue_depth.get_or_create_owned(&labels);
        let wait = self.queue_wait.get_or_create_owned(&labels);
        let texts = to_i64(texts as u64);
        depth.inc_by(texts);
        Queued::of(depth, wait, texts)
    }

    /// Counts a failed write of what keys have spent.
    pub fn ledger_write_failed(&self) {
        self.ledger_failures.inc();
    }

    /// Counts rows of the request log by result.
    pub(crate) fn request_rows(&self, result: &str, rows: usize) {
        self.request_rows.get_or_create(&ResultLabel { result: result.into() }).inc_by(rows as u64);
    }

    /// Sets the bytes of rows of the request log on disk.
    pub(crate) fn request_spill_bytes(&self, bytes: u64) {
        self.request_spill.set(to_i64(bytes));
    }

    /// Counts spans by result.
    pub(crate) fn spans(&self, result: &str, spans: usize) {
        self.spans.get_or_create(&ResultLabel { result: result.into() }).inc_by(spans as u64);
    }

    /// Shows the series of failed requests to an upstream before the first of them.
    pub fn upstream(&self, upstream: &str) {
        for code in ["connect", "broken", "timeout", "reply", "breaker", "429", "500", "502", "503", "504"] {
            let labels = UpstreamLabels { upstream: upstream.into(), code: LabelValue::Static(code) };
            drop(self.upstream_errors.get_or_create(&labels));
        }
    }

    /// Counts a failed request to an upstream.
    pub fn upstream_failed(&self, upstream: &str, code: &str) {
        let labels = UpstreamLabels { upstream: upstream.into(), code: code.into() };
        self.upstream_errors.get_or_create(&labels).inc();
    }

    /// Records the size of a micro-batch.
    pub fn batch(&self, texts: usize, tokens: usize) {
        self.batch_size.observe(texts as f64);
        self.batch_tokens.observe(tokens as f64);
    }

    /// Sets the number of flows that wait in the bulk lane.
    pub fn bulk_flows(&self, flows: usize) {
        self.bulk_flows.set(to_i64(flows as u64));
    }

    /// Counts a micro-batch of the bulk lane at normal priority.
    pub fn bulk_floor_batch(&self) {
        self.bulk_floor_batches.inc();
    }

    /// Counts the documents of a request.
    pub fn documents_received(&self, accepted: u64, refused: u64) {
        self.count_documents("accepted", accepted);
        self.count_documents("refused", refused);
    }

    /// Counts a job that ended.
    pub fn job_ended(&self, status: &'static str) {
        self.jobs.get_or_create(&ResultLabel { result: LabelValue::Static(status) }).inc();
    }

    /// Counts an attempt of a webhook: `delivered`, `retried` or `given_up`.
    pub fn webhook_attempt(&self, result: &'static str) {
        self.webhooks.get_or_create(&ResultLabel { result: LabelValue::Static(result) }).inc();
    }

    /// Counts an open stream of the events of a job until the returned guard is dropped.
    pub fn job_stream(&self) -> OpenConnection {
        self.job_streams.inc();
        OpenConnection::of(self.job_streams.clone())
    }

    /// Counts documents whose changes became searchable.
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
        self.ingested.get_or_create(&ResultLabel { result: result.into() }).inc_by(count);
    }

    /// Counts an index that was lost.
    pub fn index_lost(&self) {
        self.indexes_lost.inc();
    }

    /// Sets whether the store can be reached.
    pub fn store_up(&self, is_up: bool) {
        self.store_up.set(i64::from(is_up));
    }

    /// Sets the number of damaged rows of the store.
    pub fn damaged_rows(&self, count: usize) {
        self.damaged_rows.set(to_i64(count as u64));
    }

    /// Sets the number of open indexes.
    pub fn indexes_open(&self, count: usize) {
        self.indexes_open.set(to_i64(count as u64));
    }

    /// Sets how many copies of indexes were written, read, and failed until now.
    pub fn index_copies(&self, counts: [u64; 3]) {
        for (result, count) in ["written", "read", "failed"].into_iter().zip(counts) {
            let counter = self.index_copies.get_or_create(&ResultLabel { result: result.into() });
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }

    /// Counts queries for the query log by result.
    pub fn queries_logged(&self, result: &str, count: u64) {
        self.logged.get_or_create(&ResultLabel { result: result.into() }).inc_by(count);
    }

    /// Counts processed feedback judgments.
    pub fn feedback_processed(&self, hit: usize, no_hit: usize) {
        for (result, count) in [("hit", hit), ("no_hit", no_hit)] {
            self.feedback.get_or_create(&ResultLabel { result: result.into() }).inc_by(count as u64);
        }
    }

    /// Counts a connection that the gateway closed.
    pub fn connection_closed(&self, reason: &str) {
        self.connections_closed.get_or_create(&ReasonLabel { reason: reason.into() }).inc();
    }

    /// Sets the bytes of a table in memory, and their bound.
    pub fn table(&self, table: &'static str, bytes: usize, bytes_max: usize) {
        let labels = TableLabel { table: LabelValue::Static(table) };
        self.table_bytes.get_or_create(&labels).set(to_i64(bytes as u64));
        self.table_bytes_max.get_or_create(&labels).set(to_i64(bytes_max as u64));
    }

    /// Sets how limits are counted with other gateways: whether they are, as many gateways, and what was asked and failed until now.
    pub fn shared_limits(&self, is_shared: bool, gateways: u64, (asked, failed): (u64, u64)) {
        self.limits_shared.set(i64::from(is_shared));
        self.limits_gateways.set(to_i64(gateways));
        self.limits_asked.inc_by(asked.saturating_sub(self.limits_asked.get()));
        self.limits_failed.inc_by(failed.saturating_sub(self.limits_failed.get()));
    }

    /// Sets how often the store was asked for leases of budgets until now.
    pub fn budget_leases_asked(&self, asked: u64) {
        self.budget_leases_asked.inc_by(asked.saturating_sub(self.budget_leases_asked.get()));
    }

    /// Counts a panic.
    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts an open connection until the returned guard is dropped.
    pub fn connection(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection::of(self.connections.clone())
    }
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
