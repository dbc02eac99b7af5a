//! The table of settings.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use weir_api::FusionMethod;
use weir_text::Language;

use crate::llm::LlmConfig;
use crate::models::ModelConfig;
use crate::secret::ApiKey;
use crate::value::{
    LogFormat, LogLevel, Precision, Recogniser, RequestStore, Role, Sandboxing, Scalar, SettingValue,
};

/// One row of the table: everything about a setting but its value.
pub struct Setting {
    /// The name in the file and in messages, such as `limits.body_bytes_max`.
    pub name: &'static str,
    /// The unit of a number, or the kind of another value.
    pub unit: &'static str,
    /// The description for users, in a sentence or two.
    pub doc: &'static str,
    /// The accepted numbers; unused for other types.
    pub range: RangeInclusive<f64>,
    pub(super) get: fn(&Config) -> Scalar,
    pub(super) set: fn(&mut Config, &Scalar, &RangeInclusive<f64>) -> Result<(), String>,
}

impl Setting {
    /// The row called `name`.
    pub fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// The environment variable: `limits.body_bytes_max` is `WEIR_LIMITS_BODY_BYTES_MAX`.
    pub fn variable(&self) -> String {
        format!("WEIR_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// A shorter variable, for the settings that are set most often.
    pub fn short_variable(&self) -> Option<&'static str> {
        match self.name {
            "server.listen" => Some("WEIR_LISTEN"),
            "server.data_dir" => Some("WEIR_DATA_DIR"),
            "server.role" => Some("WEIR_ROLE"),
            "client.url" => Some("WEIR_URL"),
            "client.ca_file" => Some("WEIR_CA_FILE"),
            _ => None,
        }
    }

    /// The value in `config`, as it is written in the file.
    pub fn value(&self, config: &Config) -> Scalar {
        (self.get)(config)
    }
}

/// Any number of the type; also for values that are not numbers.
const ANY: RangeInclusive<f64> = 0.0..=f64::MAX;
const ONE: RangeInclusive<f64> = 1.0..=f64::MAX;

/// Defines the structs, their defaults, [`SECTIONS`] and [`SETTINGS`] from rows
/// `name: type = default, "unit", accepted range;`.
macro_rules! settings {
    ($(
        #[doc = $description:literal]
        $section:ident: $Section:ident {
            $( $(#[doc = $doc:literal])+ $field:ident: $kind:ty = $default:expr, $unit:literal, $range:expr; )+
        }
    )+) => {
        /// Every setting, with its value.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Config {
            $( #[doc = $description] pub $section: $Section, )+
            /// The models, the default one first: the `[[models]]` tables.
            pub models: Vec<ModelConfig>,
            /// The LLM gateway: the `[[upstreams]]`, `[[routes]]` and `[[prices]]` tables.
            pub llm: LlmConfig,
        }

        $(
            #[doc = $description]
            #[derive(Debug, Clone, PartialEq)]
            pub struct $Section {
                $( $(#[doc = $doc])+ pub $field: $kind, )+
            }

            impl Default for $Section {
                fn default() -> $Section {
                    $Section { $( $field: $default, )+ }
                }
            }
        )+

        /// Every section with its description.
        pub const SECTIONS: &[(&str, &str)] = &[ $( (stringify!($section), $description), )+ ];

        /// Every setting.
        pub const SETTINGS: &[Setting] = &[ $( $( Setting {
            name: concat!(stringify!($section), ".", stringify!($field)),
            unit: $unit,
            doc: concat!($($doc),+),
            range: $range,
            get: |config| config.$section.$field.render(),
            set: |config, scalar, range| {
                config.$section.$field = SettingValue::read(scalar, range)?;
                Ok(())
            },
        }, )+ )+ ];
    };
}

settings! {
    /// The server and its data.
    server: Server {
        /// The address to listen on. Any address but loopback requires an API key in the store, or `server.insecure_no_auth`.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8000)), "address", ANY;
        /// The folder with the store and the indexes; created if it does not exist.
        data_dir: PathBuf = PathBuf::from("./weir-data"), "folder", ANY;
        /// The role of this gateway: `embed` serves embeddings and reranking without collections, `gateway` runs no model and uses those of other servers, `all` does both.
        role: Role = Role::All, "all, embed or gateway", ANY;
        /// Allow a listen address that other machines can reach, although there is no API key.
        insecure_no_auth: bool = false, "true or false", ANY;
        /// Comma-separated host names that requests may use (`Host`) and whose web pages may send requests (`Origin`), in addition to
        /// `localhost` and loopback addresses; `*` allows all. Without this check, any web page in a browser on this machine could call the gateway;
        /// with API keys there is no check, because pages have none.
        allowed_hosts: String = String::new(), "names", ANY;
        /// Comma-separated origins, such as `https://app.example.com`, whose web pages may call the gateway from a browser and read its
        /// replies (CORS); `*` allows all. Requests from other pages are refused.
        cors_origins: String = String::new(), "origins", ANY;
        /// Compress replies by gzip or zstd for clients that accept it. It saves bytes on a slow network and costs CPU time; most clients ask for it, also on the same machine.
        compress_replies: bool = false, "true or false", ANY;
        /// Time limit of a request; after it the reply is `deadline_exceeded`.
        request_deadline_ms: u64 = 30_000, "milliseconds", ONE;
        /// Time limit of a stream of documents to `/v1/ingest`, one on each line, to which `server.request_deadline_ms` does not apply. What was acknowledged stays.
        ingest_stream_deadline_ms: u64 = 86_400_000, "milliseconds", ONE;
        /// PEM file with the certificate of the gateway, followed by those of the authorities between it and the root. With `server.tls_key`, all
        /// connections are TLS. Both files are read again when they change and at SIGHUP.
        tls_certificate: String = String::new(), "file", ANY;
        /// PEM file with the private key of the certificate, without a passphrase.
        tls_key: String = String::new(), "file", ANY;
        /// Time limit of a TLS handshake; the connection is closed after it.
        tls_handshake_timeout_ms: u64 = 10_000, "milliseconds", ONE;
        /// Time from the opening of a connection, or from the first byte of a later request over HTTP/1.1, to the end of the request's head; the
        /// connection is closed after it.
        head_timeout_ms: u64 = 30_000, "milliseconds", ONE;
        /// Time without a request after which a connection is closed.
        idle_timeout_ms: u64 = 120_000, "milliseconds", ONE;
        /// Time after which a connection is closed if the client has sent nothing of a request's body, or received nothing of a reply that is ready. A
        /// stream of events may pause for longer.
        progress_timeout_ms: u64 = 60_000, "milliseconds", ONE;
        /// Interval of HTTP/2 pings; a connection is closed if a ping is not answered within this time.
        http2_ping_ms: u64 = 30_000, "milliseconds", ONE;
        /// Time in which a request is still answered after its client has closed its sending half. After it the client is taken to have left, and the
        /// work is cancelled; requests to language models are cancelled at once.
        half_close_grace_ms: u64 = 500, "milliseconds", ANY;
        /// Time after SIGTERM in which `/readyz` is 503 and requests are still taken, for load balancers to notice.
        drain_ms: u64 = 0, "milliseconds", ANY;
        /// Time that running requests have to finish after SIGTERM and `server.drain_ms`.
        shutdown_grace_ms: u64 = 10_000, "milliseconds", ANY;
        /// The same for replies that are streams, and for requests to language models. 0 is the time of `server.shutdown_grace_ms`.
        stream_drain_ms: u64 = 0, "milliseconds", ANY;
    }
    /// The store: collections, documents, API keys. Without a setting it is a file in `server.data_dir`, for one gateway.
    store: Store {
        /// Where the URL of a PostgreSQL database (version 15 or newer) is that several gateways share, because it contains a password: `env:NAME` or
        /// `file:PATH`. Its `sslmode` and `sslrootcert` are those of `telemetry.postgres_url`. Each gateway needs a `server.data_dir` of its own
        /// beside it, for its indexes.
        url: Option<ApiKey> = None, "env:NAME or file:PATH", ANY;
    }
    /// The log, on standard error.
    log: Log {
        /// The format of the log; `auto` is `text` on a terminal and `json` otherwise.
        format: LogFormat = LogFormat::Auto, "auto, text or json", ANY;
        /// Lowest level to log.
        level: LogLevel = LogLevel::Info, "error, warn, info, debug or trace", ANY;
    }
    /// Limits of requests and of the load at one time.
    limits: Limits {
        /// Maximum size of a request body, except of documents.
        body_bytes_max: usize = 32 << 20, "bytes", ONE;
        /// Maximum size of a request body with documents: of `/v1/ingest`, and of `PUT` of a document.
        ingest_body_bytes_max: usize = 256 << 20, "bytes", ONE;
        /// Maximum memory for the bodies of requests for language models at one time: three times the bytes of each, for the copies that are made
        /// of it, until its reply begins. Further requests are refused with `overloaded`, and with `payload_too_large` when they need more than all of it.
        chat_memory_bytes_max: usize = 512 << 20, "bytes", ONE;
        /// Maximum documents in one request.
        documents_per_request_max: usize = 10_000, "documents", ONE;
        /// Maximum size of the text of one document.
        document_text_bytes_max: usize = 16 << 20, "bytes", ONE;
        /// Maximum size of the title of one document, which is embedded with each of its chunks.
        title_bytes_max: usize = 2 << 10, "bytes", ONE;
        /// Maximum length of a document id.
        document_id_bytes_max: usize = 512, "bytes", ONE;
        /// Maximum size of the metadata of one document, as JSON.
        metadata_bytes_max: usize = 64 << 10, "bytes", ONE;
        /// Maximum keys in the metadata of one document.
        metadata_keys_max: usize = 256, "keys", ANY;
        /// Maximum length of a query.
        query_bytes_max: usize = 16 << 10, "bytes", ONE;
        /// Maximum terms that all prefixes (`sol*`) and wildcards (`so*r`) of a query together stand for; each has an equal share, at most 64: its most
        /// frequent terms.
        query_expanded_terms_max: usize = 256, "terms", ONE;
        /// Maximum size of the reply to a search, or to a batch of searches; a search beyond it is refused. Approximate: the text of the reply
        /// without escapes.
        search_reply_bytes_max: usize = 32 << 20, "bytes", ONE;
        /// Maximum `top_k` of a search.
        top_k_max: u64 = 1_000, "results", ONE;
        /// Maximum size of the filter of a search, as JSON.
        filter_bytes_max: usize = 1 << 20, "bytes", ONE;
        /// Maximum fields with facet counts in one search.
        facets_per_request_max: usize = 16, "fields", 0.0..=256.0;
        /// Maximum values that one facet returns.
        facet_values_max: u64 = 1_000, "values", ONE;
        /// Maximum fields that one search sorts by.
        sort_fields_max: usize = 8, "fields", 0.0..=256.0;
        /// Maximum neighbouring chunks returned before, and after, each result.
        context_chunks_max: u64 = 10, "chunks", ANY;
        /// Maximum rank of a result that pagination reaches in a search.
        page_depth_max: u64 = 10_000, "results", ONE;
        /// Maximum position that pagination reaches in a filtered or sorted list of documents.
        list_depth_max: u64 = 1_000_000, "documents", ONE;
        /// Maximum searches in one request.
        queries_per_request_max: usize = 32, "searches", 1.0..=1024.0;
        /// Maximum documents that one request deletes by filter.
        delete_documents_max: usize = 1_000, "documents", ONE;
        /// Maximum texts in one embedding request.
        embedding_inputs_max: usize = 2_048, "texts", 1.0..=(weir_api::INPUTS_MAX as f64);
        /// Maximum size of one text to embed, before truncation to the length of the model.
        embedding_input_bytes_max: usize = 1 << 20, "bytes", ONE;
        /// Maximum tokens of all texts in one embedding request, after each is truncated to the length of the model.
        embedding_tokens_max: usize = 1 << 20, "tokens", ONE;
        /// Maximum open connections. A further one replaces the connection that has waited longest for its client; when the gateway works for all of
        /// them, `limits.connections_reserved` applies.
        connections_max: usize = 1_024, "connections", ONE;
        /// Maximum open connections of one IP address, or of one IPv6 network of 64 bits; a further one replaces the one of them that has waited longest for
        /// its client, or is closed. 0 is seven eighths of `limits.connections_max`.
        connections_per_peer_max: usize = 0, "connections", ANY;
        /// Connections beyond `limits.connections_max` that answer health checks alone (`/livez`, `/readyz`, `/healthz`, `/health`, `/ping`); other requests
        /// on them are refused with `overloaded`. Further connections wait to be accepted.
        connections_reserved: usize = 16, "connections", ANY;
        /// Maximum searches at the same time; further searches are refused with `overloaded`.
        search_concurrency_max: usize = 256, "searches", ONE;
        /// Maximum estimated wait of a search for a CPU core, applied when more than four searches wait per core; further searches are refused with `overloaded`
        /// before their body is read.
        search_wait_ms_max: u64 = 25, "milliseconds", ONE;
        /// Maximum collections; creating another is refused with `collection_limit_reached`. Existing collections are served, however many there are.
        collections_max: usize = 1_024, "collections", ONE;
        /// Maximum acknowledged operations that are not searchable yet; above it, ingest is refused with `overloaded`.
        pending_operations_max: u64 = 1_000_000, "operations", ONE;
        /// Maximum streams of the events of jobs (`GET /v1/jobs/{id}/events`) at one time; further ones are refused with `overloaded`.
        job_streams_max: usize = 256, "streams", ONE;
    }
    /// Reading of uploaded files, in child processes of the gateway.
    extract: Extract {
        /// Maximum size of an uploaded file.
        file_bytes_max: usize = 64 << 20, "bytes", ONE;
        /// Maximum time for reading a file; it fails with `extraction_timeout` after it.
        timeout_ms: u64 = 60_000, "milliseconds", ONE;
        /// Maximum CPU time for reading a file; it fails with `extraction_timeout` after it.
        cpu_seconds_max: u64 = 30, "seconds", ONE;
        /// Maximum memory for reading a file: the address space of the child process. A file that needs more fails with `extraction_memory`.
        memory_bytes_max: u64 = 1 << 30, "bytes", 268_435_456.0..=f64::MAX;
        /// Maximum pages that are read of a file; the others are left out.
        pages_max: usize = 20_000, "pages", ONE;
        /// Whether text is read that files hide from those who open them, such as white text, hidden rows, sheets and slides.
        hidden_text: bool = false, "true or false", ANY;
        /// Whether comments of Office files are read.
        comments: bool = true, "true or false", ANY;
        /// Whether archives (.zip, .tar.gz) are unpacked: each file in one is a document. Other archives are refused in any case.
        archives: bool = false, "true or false", ANY;
        /// Whether the files themselves are kept beside the text of their documents, in the folder `originals` of `server.data_dir` or in the database of `store.url`; an upload can say otherwise by
        /// `keep_original`.
        keep_originals: bool = false, "true or false", ANY;
        /// Maximum size of all kept files together; beyond it, uploads that keep theirs are refused with `insufficient_storage`.
        originals_bytes_max: u64 = 10 << 30, "bytes", ONE;
        /// Maximum size of all uploaded files together that are not read yet, or failed; beyond it, uploads are refused with `overloaded`.
        uploads_bytes_max: u64 = 10 << 30, "bytes", ONE;
        /// Time for which files that failed are kept, so that `POST /v1/jobs/{id}/retry-failed` reads them again.
        failed_kept_s: u32 = 86_400, "seconds", ANY;
        /// Maximum files that are read at one time; 0 is half of the cores.
        parallel_max: usize = 0, "files", 0.0..=1024.0;
        /// Whether files are read where the system does not allow to filter the system calls of the child process (seccomp): with `required` they
        /// fail with `extraction_unavailable`, with `best_effort` they are read.
        sandbox: Sandboxing = Sandboxing::Required, "required or best_effort", ANY;
        /// Base URL of a server that recognises the text of scans and pictures; empty: they fail with `no_text` and `unsupported_format`.
        url: String = String::new(), "URL", ANY;
        /// The API of this server: docling-serve or Apache Tika.
        url_kind: Recogniser = Recogniser::Docling, "docling or tika", ANY;
        /// Where the key of this server is, if it needs one: `env:NAME` or `file:PATH`.
        api_key: Option<ApiKey> = None, "env:NAME or file:PATH", ANY;
        /// PEM file with certificates that are trusted for this server, in addition to those of Mozilla's list.
        ca_file: String = String::new(), "file", ANY;
        /// Maximum time for a request to this server; the file fails with `upstream_timeout` after it.
        url_timeout_ms: u64 = 300_000, "milliseconds", ONE;
        /// Maximum files that this server has at one time. Each is in memory meanwhile.
        url_requests_max: usize = 2, "files", 1.0..=256.0;
    }
    /// Embedding and reranking.
    inference: Inference {
        /// Threads per lane for local models; 0 uses all cores.
        threads: usize = 0, "threads", 0.0..=1024.0;
        /// Minimum share of the cores for ingest and for embedding requests of more than 512 tokens while other work, also of other programs,
        /// keeps all cores busy. They take what other work leaves idle, and this much in any case. 0 leaves them the idle time alone.
        bulk_share_min: f32 = 0.1, "share of the cores", 0.0..=0.5;
        /// Precision of local models that set none. A collection pins it: vectors of different precisions are never compared.
        precision: Precision = Precision::Int8, "f32, bf16 or int8", ANY;
        /// The folder that caches packed weights, which the next start maps into memory; empty is the folder `packed` in `server.data_dir`.
        packed_dir: String = String::new(), "folder", ANY;
        /// Maximum size of the embedding cache, which serves small requests and queries; 0 disables it.
        cache_bytes_max: usize = 16 * 1024 * 1024, "bytes", ANY;
        /// Memory limit for inference, without model weights: working memory of the threads, the embedding cache, and embedding requests
        /// from body to reply. Requests are refused with `overloaded` when the remaining memory is in use, and with `payload_too_large` when they need more
        /// than all of it. 0 sets no limit. Memory of ONNX Runtime is not counted.
        memory_limit_bytes: usize = 0, "bytes", ANY;
        /// Maximum memory of one model in this process: its packed weights, the working memory for a text of full length, and the largest
        /// tensor while it is packed. A larger model, or a folder whose sizes only claim to be as large, is refused at start before anything
        /// of that size is allocated. Of an ONNX model the files are measured.
        model_bytes_max: u64 = 16 << 30, "bytes", ONE;
        /// Maximum time for loading one model of this process, which includes trying its tokenizer on awkward texts; the start fails after it.
        model_load_ms_max: u64 = 300_000, "ms", ONE;
        /// Maximum estimated time that a search waits for the embedding of its query to begin; further searches are lexical or refused.
        /// While most are refused the limit halves, down to 5 ms, so that admitted searches are answered sooner.
        query_wait_ms_max: u64 = 50, "ms", ONE;
        /// Maximum estimated time that an embedding request of up to 512 tokens waits for a thread, or half the time to its deadline if that is
        /// less; further requests are refused with `overloaded`. A burst waits and is answered. While most requests are refused, for as long as the limit
        /// itself, the limit halves, down to 50 ms.
        request_wait_ms_max: u64 = 15_000, "ms", ONE;
        /// Maximum tokens that wait for inference; further requests are refused with `overloaded`.
        queue_tokens_max: usize = 1_048_576, "tokens", ONE;
    }
    /// ONNX Runtime, for models of the kind `onnx`. It is not part of Weir and is loaded only for such a model.
    onnx: Onnx {
        /// The shared library, version 1.17 or newer. `pip install onnxruntime` installs one: `onnxruntime/capi/libonnxruntime.so.VERSION`.
        library: String = String::new(), "file", ANY;
    }
    /// Defaults of searches, and what is recorded about them.
    search: Search {
        /// How the lexical and the dense ranking are fused.
        fusion_method: FusionMethod = FusionMethod::Convex, "convex or rrf", ANY;
        /// Weight of the lexical ranking. Convex fusion lowers it for queries whose words say little, unless a request sends weights.
        weight_lexical: f32 = 0.5, "number", 0.0..=1e6;
        /// Weight of the dense ranking.
        weight_dense: f32 = 0.5, "number", 0.0..=1e6;
        /// The constant `k` of reciprocal-rank fusion; a larger one reduces the advantage of the first ranks.
        rrf_k: f32 = 60.0, "number", 1e-3..=1e6;
        /// Smooth the scores of lexical searches, and of hybrid searches with convex fusion, over similar results. A request overrides it with `smoothing`.
        smoothing: bool = true, "true or false", ANY;
        /// The model that reranks the first results of each search; empty for none. A request overrides it with `rerank`.
        rerank: String = String::new(), "model", ANY;
        /// Number of results to rerank.
        rerank_top_n: u64 = 20, "results", 1.0..=(weir_api::RERANK_TOP_N_MAX as f64);
        /// Hits that each retriever passes to fusion, or `top_k` if that is more.
        depth: usize = 100, "hits", 1.0..=100_000.0;
        /// Sample 1 in N dense searches, re-run them exactly in the background and record recall (`weir_search_recall_chunks_total`). 0 disables.
        recall_probe_every: u64 = 1000, "searches", ANY;
        /// Log the text of queries; `GET /v1/collections/{name}/queries` counts them.
        query_log: bool = false, "true or false", ANY;
        /// Maximum logged queries per collection; the oldest are deleted.
        query_log_entries_max: u64 = 100_000, "entries", 1.0..=1e7;
        /// Maximum feedback entries per collection; the oldest are deleted.
        feedback_entries_max: u64 = 100_000, "entries", 1.0..=1e7;
        /// Judgments of one API key in a collection that count for relevance: the newest. Only the latest of a query and a document counts.
        feedback_votes_per_caller_max: usize = 100, "judgments", ONE;
        /// Time after which a judgment weighs half.
        feedback_half_life_days: f32 = 90.0, "days", 0.01..=36_500.0;
        /// Maximum change of a relevance by what judgments teach. 0 collects judgments without learning from them; a larger value trusts callers more.
        feedback_shift_max: f32 = 0.05, "relevance", 0.0..=1.0;
    }
    /// The worker that makes accepted documents searchable.
    ingest: Ingest {
        /// Maximum documents per index commit.
        batch_documents_max: usize = 256, "documents", ONE;
        /// Attempts of a batch whose model fails, in sequence, with waits of up to 10 s between them; after them its documents are stored and not
        /// searchable, and their jobs end as `failed`. Documents whose own text the model refuses fail sooner, by themselves.
        attempts_max: u64 = 60, "attempts", ONE;
        /// Approximate maximum of tokens embedded per index commit.
        batch_tokens_max: usize = 32_768, "tokens", ONE;
        /// Applied operations kept per collection, in addition to the latest of each document; the oldest are deleted. An index folder
        /// that is older than these, such as one from a backup, is rebuilt.
        operations_kept_max: u64 = 100_000, "operations", 1.0..=1e12;
        /// Finished jobs to keep; the oldest are deleted.
        jobs_kept_max: u64 = 10_000, "jobs", 1.0..=1e12;
        /// Time for which a request with an `Idempotency-Key` is answered again as it was, instead of being carried out again.
        idempotency_kept_s: u32 = 86_400, "seconds", 1.0..=31_536_000.0;
        /// Maximum requests of one API key that are kept by their `Idempotency-Key`; the oldest are forgotten.
        idempotency_keys_max: u64 = 100_000, "keys", 1.0..=1e8;
    }
    /// Webhooks: calls that tell the address of a request to ingest (`webhook_url`) that its job has ended.
    webhooks: Webhooks {
        /// Where the secret is that signs webhooks, in base64: `echo "whsec_$(openssl rand -base64 32)"` makes one. Without it, requests with
        /// `webhook_url` are refused.
        secret: Option<ApiKey> = None, "env:NAME or file:PATH", ANY;
        /// Call private, loopback and other addresses that are not public, too. Whoever may ingest can then make the gateway call servers of its network.
        allow_private_addresses: bool = false, "true or false", ANY;
        /// Time for one attempt: name, connection and reply.
        timeout_ms: u64 = 10_000, "ms", 1.0..=120_000.0;
        /// Attempts of one webhook.
        attempts_max: u64 = 10, "attempts", 1.0..=100.0;
        /// Wait after the first attempt that fails; each further wait is four times as long, up to four hours.
        retry_after_ms: u64 = 5_000, "ms", 1.0..=14_400_000.0;
        /// Time after the end of the job in which attempts begin.
        give_up_after_s: u64 = 86_400, "seconds", 1.0..=2_592_000.0;
        /// Maximum webhooks of one API key that are neither delivered nor given up; further requests with `webhook_url` are refused with `overloaded`.
        open_max: u64 = 1_000, "webhooks", ONE;
    }
    /// The embedded index.
    index: Index {
        /// Buffer of the lexical index writer, per collection that is being written.
        writer_memory_bytes: usize = 32 << 20, "bytes", 15e6..=4e9;
        /// Time after which the text of deleted and replaced documents is no longer in the index files. They are written again without it, at most
        /// once in this time for each collection, while searches go on; meanwhile they take twice the space.
        compact_after_s: u64 = 86_400, "seconds", ANY;
        /// Maximum collections whose index files are open, each with two or three descriptors; or an eighth of the process's limit of open files,
        /// if that is less. Beyond it, the least recently used collection closes its files, and its next use opens and checks them again.
        open_max: usize = 256, "collections", ONE;
        /// Folder that the gateways of one database share, with copies of their indexes, with which a new gateway begins; empty for none.
        copies_dir: String = String::new(), "folder", ANY;
        /// Time after which a collection that has changed is copied again. Copies keep the text of deleted documents for this time longer.
        copy_after_s: u64 = 86_400, "seconds", ANY;
    }
    /// How texts are split in a collection created without `chunking`.
    chunking: Chunking {
        /// Maximum tokens per chunk; the length of the model is a further limit.
        max_tokens: u32 = 200, "tokens", 1.0..=8192.0;
        /// Approximate tokens shared by neighbouring chunks; less than `chunking.max_tokens`.
        overlap_tokens: u32 = 32, "tokens", ANY;
    }
    /// Defaults of new collections.
    collections: Collections {
        /// Language of the texts, which selects the stemmer.
        language: Language = Language::English, "language", ANY;
    }
    /// Commands that call a running gateway: `ingest`, `search`, `jobs`, `eval`.
    client: Client {
        /// Base URL of the gateway; empty uses the address of `server.listen`.
        url: String = String::new(), "URL", ANY;
        /// PEM file with certificates of authorities that are trusted for `https`, in addition to those of Mozilla's list. Without it and without
        /// `client.url`, the certificate of `server.tls_certificate` is trusted, and no other.
        ca_file: String = String::new(), "file", ANY;
    }
    /// Limits of API keys that have none of their own; 0 for none. Read again while the gateway runs.
    keys: Keys {
        /// Requests per minute.
        requests_per_minute: u64 = 0, "requests", 0.0..=1e12;
        /// Tokens per minute.
        tokens_per_minute: u64 = 0, "tokens", 0.0..=1e12;
        /// Requests at one time.
        concurrent_requests: u64 = 0, "requests", 0.0..=1e12;
        /// Maximum cost of requests per day (UTC), in the currency of the price table.
        budget_per_day: f32 = 0.0, "currency", 0.0..=1e9;
        /// Maximum cost of requests per month (UTC).
        budget_per_month: f32 = 0.0, "currency", 0.0..=1e9;
    }
    /// Redis, by which several gateways count limits together and give each other's kept replies.
    redis: Redis {
        /// Where the URL of Redis is, because it may contain a password: `env:NAME` or `file:PATH`. Without it, limits are counted in this process.
        url: Option<ApiKey> = None, "env:NAME or file:PATH", ANY;
        /// The prefix of names in Redis. Gateways of one service have the same; two services over one Redis need different ones.
        prefix: String = "weir".to_owned(), "text", ANY;
        /// Longest time for which a request waits for Redis. After a call that failed, none waits until there is a new connection.
        timeout_ms: u64 = 40, "milliseconds", 1.0..=50.0;
        /// Least number of gateways among which limits are divided while Redis can't be reached. More count if more were seen before.
        gateways_min: u64 = 1, "gateways", 1.0..=10_000.0;
        /// Keep the chat replies of routes with a `cache` in Redis as well, so that each gateway over one `store.url` gives what another has kept.
        replies: bool = false, "true or false", ANY;
    }
    /// A Qdrant cluster, for collections that are created with `"engine": "qdrant"`.
    qdrant: QdrantCluster {
        /// Comma-separated gRPC addresses of the nodes, such as `http://10.0.0.1:6334`; `https` for TLS. Empty: there is no cluster.
        urls: String = String::new(), "URLs", ANY;
        /// Where the API key of the cluster is, if it needs one: `env:NAME` or `file:PATH`.
        api_key: Option<ApiKey> = None, "env:NAME or file:PATH", ANY;
        /// PEM file with certificates of authorities that are trusted for `https`, in addition to those of Mozilla's list.
        ca_file: String = String::new(), "file", ANY;
        /// The prefix of the names of Qdrant collections. A copy of the store that uses the same cluster needs another one.
        prefix: String = "weir".to_owned(), "text", ANY;
        /// Shards of a new Qdrant collection, which can't be changed later. 12 can be divided among 2, 3, 4 and 6 nodes.
        shards: u32 = 12, "shards", 1.0..=1024.0;
        /// Copies of each shard of a new Qdrant collection, on as many nodes.
        copies: u32 = 2, "copies", 1.0..=16.0;
        /// Copies that must have taken a change before it is applied. Fewer than `qdrant.copies`, or a lost node stops all changes.
        copies_written: u32 = 1, "copies", 1.0..=16.0;
        /// Time that one node has for a part of a search, before another one is asked.
        read_timeout_ms: u64 = 1_000, "milliseconds", 10.0..=60_000.0;
        /// Time that one node has for a change, before another one is asked. A node waits up to 30 s until the cluster has marked a lost copy.
        write_timeout_ms: u64 = 35_000, "milliseconds", 100.0..=600_000.0;
        /// Maximum size of what is kept of points that searches have read: embeddings and texts, which do not change while the document is the same; 0 keeps nothing.
        cache_bytes_max: usize = 64 << 20, "bytes", ANY;
        /// Time between two comparisons of an index with the store, which put lost points back and remove those of deleted documents; 0: only by `weir collections reconcile`.
        reconcile_every_s: u64 = 86_400, "seconds", 0.0..=31_536_000.0;
        /// Points that such a comparison reads in a second.
        reconcile_points_per_s: u64 = 10_000, "points", 1.0..=10_000_000.0;
    }
    /// The request log, slow requests and traces.
    telemetry: Telemetry {
        /// Where a row per request is stored: the file `telemetry.sqlite` in `server.data_dir`, PostgreSQL, or nowhere.
        requests: RequestStore = RequestStore::Sqlite, "sqlite, postgres or none", ANY;
        /// Where the URL of PostgreSQL is, because it contains a password: `env:NAME` or `file:PATH`. Its `sslmode` is `prefer` by default, `disable`,
        /// `require`, `verify-ca` or `verify-full`; `sslrootcert` names a PEM file with authorities in place of those of Mozilla's list.
        postgres_url: Option<ApiKey> = None, "env:NAME or file:PATH", ANY;
        /// Days for which rows are kept. Sums by day, API key and model are kept for 400 days.
        days_kept: u64 = 30, "days", 1.0..=36_500.0;
        /// Maximum rows in `telemetry.sqlite`; the oldest are deleted.
        sqlite_rows_max: u64 = 5_000_000, "rows", ONE;
        /// Maximum size of the rows that wait on disk while the database is slow or down; further rows are dropped and counted.
        spill_bytes_max: u64 = 256 << 20, "bytes", ANY;
        /// Log requests that take at least this long; 0 logs none.
        slow_request_ms: u64 = 0, "milliseconds", ANY;
        /// Base URL of a collector of traces, such as `http://127.0.0.1:4318`; spans are sent to `{url}/v1/traces` by OTLP in JSON. Empty sends none.
        traces_url: String = String::new(), "URL", ANY;
        /// The share of requests without a `traceparent` that are traced; the others follow the flag in it.
        traces_sample_ratio: f32 = 1.0, "ratio", 0.0..=1.0;
    }
    /// Where `weir model pull` downloads models.
    hub: Hub {
        /// A hub with files at `{url}/{model}/resolve/{revision}/{file}`.
        url: String = "https://huggingface.co".to_owned(), "URL", ANY;
    }
}

impl Server {
    /// Whether connections are TLS.
    pub fn has_tls(&self) -> bool {
        !self.tls_certificate.is_empty()
    }

    /// The origins of `cors_origins`.
    pub fn cors_origins(&self) -> impl Iterator<Item = &str> {
        self.cors_origins.split(',').map(str::trim).filter(|origin| !origin.is_empty())
    }
}

impl Inference {
    /// Threads per lane.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// Threads that compute for the bulk lane at normal priority while it has less than its minimum share.
    pub fn floor_threads(&self) -> usize {
        // the share is not an exact number: a tenth of ten threads is one
        (f64::from(self.bulk_share_min) * self.threads() as f64 - 1e-6).ceil() as usize
    }
}

impl Config {
    /// The limits of requests, in the type of the API.
    pub fn request_limits(&self) -> weir_api::Limits {
        let limits = &self.limits;
        weir_api::Limits {
            documents_per_request_max: limits.documents_per_request_max,
            document_text_bytes_max: limits.document_text_bytes_max,
            title_bytes_max: limits.title_bytes_max,
            document_id_bytes_max: limits.document_id_bytes_max,
            metadata_bytes_max: limits.metadata_bytes_max,
            metadata_keys_max: limits.metadata_keys_max,
            query_bytes_max: limits.query_bytes_max,
            top_k_max: limits.top_k_max,
            filter_bytes_max: limits.filter_bytes_max,
            facets_per_request_max: limits.facets_per_request_max,
            facet_values_max: limits.facet_values_max,
            sort_fields_max: limits.sort_fields_max,
            context_chunks_max: limits.context_chunks_max,
            page_depth_max: limits.page_depth_max,
            queries_per_request_max: limits.queries_per_request_max,
            request_deadline_ms: self.server.request_deadline_ms,
            embedding_inputs_max: limits.embedding_inputs_max,
            embedding_input_bytes_max: limits.embedding_input_bytes_max,
        }
    }

    /// The folder that caches packed weights.
    pub fn packed_dir(&self) -> PathBuf {
        let configured = &self.inference.packed_dir;
        if configured.is_empty() { self.server.data_dir.join("packed") } else { configured.into() }
    }

    /// The base URL for commands that call a running gateway, without a slash at the end.
    pub fn client_url(&self) -> String {
        if !self.client.url.is_empty() {
            return self.client.url.trim_end_matches('/').to_owned();
        }
        let mut address = self.server.listen;
        if address.ip().is_unspecified() {
            let loopback: std::net::IpAddr =
                if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
            address.set_ip(loopback);
        }
        format!("{}://{address}", if self.server.has_tls() { "https" } else { "http" })
    }
}

#[cfg(test)]
mod tests;
