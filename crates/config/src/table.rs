//! The table of settings.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use weir_api::FusionMethod;
use weir_text::Language;

use crate::models::ModelConfig;
use crate::value::{LogFormat, LogLevel, Precision, Scalar, SettingValue};

/// One row of the table: what can be said about a setting without a configuration at hand.
pub struct Setting {
    /// The name in the file and in messages: `limits.body_bytes_max`.
    pub name: &'static str,
    /// What a number counts, or what a text is.
    pub unit: &'static str,
    /// What it does, in a sentence or two.
    pub doc: &'static str,
    /// The accepted numbers; of no meaning for other types.
    pub range: RangeInclusive<f64>,
    /// Another name in the environment, for the settings that are set most often.
    pub short_variable: Option<&'static str>,
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

    /// The value in `config`, as it is written in the file.
    pub fn value(&self, config: &Config) -> Scalar {
        (self.get)(config)
    }
}

/// The other names in the environment.
const SHORT_VARIABLES: [(&str, &str); 3] =
    [("server.listen", "WEIR_LISTEN"), ("server.data_dir", "WEIR_DATA_DIR"), ("client.url", "WEIR_URL")];

const fn short_variable(name: &str) -> Option<&'static str> {
    let mut i = 0;
    while i < SHORT_VARIABLES.len() {
        if is_same(SHORT_VARIABLES[i].0.as_bytes(), name.as_bytes()) {
            return Some(SHORT_VARIABLES[i].1);
        }
        i += 1;
    }
    None
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Any number that the type holds, or no number at all.
const ANY: RangeInclusive<f64> = 0.0..=f64::MAX;
/// At least one.
const ONE: RangeInclusive<f64> = 1.0..=f64::MAX;

/// Makes the tree of structs, their defaults and [`SETTINGS`] from the rows
/// `name: type = default, "unit", accepted range;`.
macro_rules! settings {
    ($(
        #[doc = $about:literal]
        $section:ident: $Section:ident {
            $( $(#[doc = $doc:literal])+ $field:ident: $kind:ty = $default:expr, $unit:literal, $range:expr; )+
        }
    )+) => {
        /// Every setting, with its value.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Config {
            $( #[doc = $about] pub $section: $Section, )+
            /// The models, the default one first: the `[[models]]` tables.
            pub models: Vec<ModelConfig>,
        }

        $(
            #[doc = $about]
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

        /// Every section and what it is about, in the order of the table.
        pub const SECTIONS: &[(&str, &str)] = &[ $( (stringify!($section), $about), )+ ];

        /// Every setting.
        pub const SETTINGS: &[Setting] = &[ $( $( Setting {
            name: concat!(stringify!($section), ".", stringify!($field)),
            unit: $unit,
            doc: concat!($($doc),+),
            range: $range,
            short_variable: short_variable(concat!(stringify!($section), ".", stringify!($field))),
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
        /// The address that the gateway listens on. Anything but loopback needs `server.insecure_no_auth`.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8000)), "address", ANY;
        /// The folder that holds the store and the indexes; created when it isn't there.
        data_dir: PathBuf = PathBuf::from("./weir-data"), "folder", ANY;
        /// Whether to listen where others can reach it although nobody has to show a key.
        insecure_no_auth: bool = false, "true or false", ANY;
        /// Names, separated by commas, by which the gateway may be called and whose web pages may call it, beside `localhost`
        /// and loopback addresses; `*` allows all. Any page in a browser can reach a loopback address, hence the question.
        allowed_hosts: String = String::new(), "names", ANY;
        /// How long a request may take before it is answered with `deadline_exceeded`.
        request_deadline_ms: u64 = 30_000, "milliseconds", ONE;
        /// How long running requests may take to finish after SIGTERM.
        shutdown_grace_ms: u64 = 10_000, "milliseconds", ANY;
    }
    /// The log, on the standard error stream.
    log: Log {
        /// How it is written; `auto` is `text` on a terminal and `json` otherwise.
        format: LogFormat = LogFormat::Auto, "auto, text or json", ANY;
        /// The least important level that is written.
        level: LogLevel = LogLevel::Info, "error, warn, info, debug or trace", ANY;
    }
    /// What a request may ask for and what the gateway takes at once.
    limits: Limits {
        /// The body of a request, `/v1/ingest` aside.
        body_bytes_max: usize = 32 << 20, "bytes", ONE;
        /// The body of `/v1/ingest`.
        ingest_body_bytes_max: usize = 256 << 20, "bytes", ONE;
        /// Documents in one request.
        documents_per_request_max: usize = 10_000, "documents", ONE;
        /// The text of one document.
        document_text_bytes_max: usize = 16 << 20, "bytes", ONE;
        /// The id of a document.
        document_id_bytes_max: usize = 512, "bytes", ONE;
        /// The metadata of one document, as JSON.
        metadata_bytes_max: usize = 64 << 10, "bytes", ONE;
        /// Keys in the metadata of one document.
        metadata_keys_max: usize = 256, "keys", ANY;
        /// A query.
        query_bytes_max: usize = 16 << 10, "bytes", ONE;
        /// Results of one search.
        top_k_max: u64 = 1_000, "results", ONE;
        /// The filter of one search, as JSON.
        filter_bytes_max: usize = 1 << 20, "bytes", ONE;
        /// Fields whose values one search counts.
        facets_per_request_max: usize = 16, "fields", 0.0..=256.0;
        /// Values of one field that a search counts.
        facet_values_max: u64 = 1_000, "values", ONE;
        /// Fields that one search sorts by.
        sort_fields_max: usize = 8, "fields", 0.0..=256.0;
        /// Chunks before, and after, a result that come with it.
        context_chunks_max: u64 = 10, "chunks", ANY;
        /// The last result of a search that pages lead to.
        page_depth_max: u64 = 10_000, "results", ONE;
        /// The last document of a filtered or sorted list that pages lead to.
        list_depth_max: u64 = 1_000_000, "documents", ONE;
        /// Searches in one request.
        queries_per_request_max: usize = 32, "searches", 1.0..=1024.0;
        /// Documents that one request deletes by a filter.
        delete_documents_max: usize = 1_000, "documents", ONE;
        /// Texts in one request for embeddings.
        embedding_inputs_max: usize = 2_048, "texts", 1.0..=(weir_api::INPUTS_MAX as f64);
        /// One text to embed; what the model doesn't read of it counts too.
        embedding_input_bytes_max: usize = 1 << 20, "bytes", ONE;
        /// Tokens of all texts of one request for embeddings, after each was cut to what the model reads.
        embedding_tokens_max: usize = 1 << 20, "tokens", ONE;
        /// Open connections; more wait to be accepted.
        connections_max: usize = 1_024, "connections", ONE;
        /// Searches at one instant; more are answered with `overloaded`.
        search_concurrency_max: usize = 256, "searches", ONE;
        /// How long a search may have to wait for a core, where more than four wait for each; above it, searches are answered with `overloaded`, unread.
        search_wait_ms_max: u64 = 25, "milliseconds", ONE;
        /// Acknowledged operations that are not searchable yet; above it, ingest is answered with `overloaded`.
        pending_operations_max: u64 = 1_000_000, "operations", ONE;
    }
    /// The embedding of texts.
    inference: Inference {
        /// Threads that embed; 0 takes all cores.
        threads: usize = 0, "threads", 0.0..=1024.0;
        /// The numbers that local models compute with, unless their own table says otherwise. A collection pins them:
        /// vectors of two precisions never meet.
        precision: Precision = Precision::Int8, "f32, bf16 or int8", ANY;
        /// The folder that keeps packed weights, to be mapped at the next start; empty takes `packed` in `server.data_dir`.
        packed_dir: String = String::new(), "folder", ANY;
        /// Bytes that embeddings of short requests may take to be given again; 0 turns that off.
        cache_bytes_max: usize = 16 * 1024 * 1024, "bytes", ANY;
        /// Memory that embedding may take beside the weights: the working memory of the threads, the embeddings that are kept, and
        /// requests for embeddings from their bodies to their replies. A request that finds no room is answered with `overloaded`, one
        /// that needs more than there is with `payload_too_large`. 0 sets no limit. ONNX Runtime's own memory isn't counted.
        memory_limit_bytes: usize = 0, "bytes", ANY;
        /// How long a text of the interactive lane may have to wait for a thread; above it, requests are answered with
        /// `overloaded`, at once. It is for bursts: while requests are refused, the time shrinks with the square of the share of those
        /// admitted, down to 5 ms, so that these are answered sooner.
        queue_wait_ms_max: u64 = 50, "ms", ONE;
        /// Tokens that may wait to be embedded; above it, requests are answered with `overloaded`.
        queue_tokens_max: usize = 65_536, "tokens", ONE;
    }
    /// ONNX Runtime, which models of the kind `onnx` need. It is not part of Weir and is loaded only when there is such a model.
    onnx: Onnx {
        /// Its shared library, of version 1.17 or newer. `pip install onnxruntime` brings one: `onnxruntime/capi/libonnxruntime.so.VERSION`.
        library: String = String::new(), "file", ANY;
    }
    /// How searches rank when the request doesn't say, and what is kept of them.
    search: Search {
        /// How the lexical and the dense ranking are fused.
        fusion_method: FusionMethod = FusionMethod::Convex, "convex or rrf", ANY;
        /// The weight of the lexical ranking.
        weight_lexical: f32 = 0.5, "number", 0.0..=1e6;
        /// The weight of the dense ranking.
        weight_dense: f32 = 0.5, "number", 0.0..=1e6;
        /// The constant of reciprocal-rank fusion; larger flattens the top.
        rrf_k: f32 = 60.0, "number", 1e-3..=1e6;
        /// The model that orders the first results of each search by reading query and text together; empty for none. A request says
        /// otherwise by `rerank`.
        rerank: String = String::new(), "model", ANY;
        /// How many of the first results it orders.
        rerank_top_n: u64 = 20, "results", 1.0..=(weir_api::RERANK_TOP_N_MAX as f64);
        /// Hits that each leg hands to the fusion, at least; never fewer than `top_k`.
        depth: usize = 100, "hits", 1.0..=100_000.0;
        /// One of so many searches by embeddings is repeated exactly, in the background, for `weir_search_recall_chunks_total`; none when 0.
        recall_probe_every: u64 = 1000, "searches", ANY;
        /// Whether queries are logged, as they were typed, to be counted by `GET /v1/collections/{name}/queries`.
        query_log: bool = false, "true or false", ANY;
        /// Logged queries of one collection; the oldest go.
        query_log_entries_max: u64 = 100_000, "entries", 1.0..=1e7;
        /// Feedback to one collection; the oldest goes.
        feedback_entries_max: u64 = 100_000, "entries", 1.0..=1e7;
    }
    /// The worker that makes accepted documents searchable.
    ingest: Ingest {
        /// Documents that become searchable in one commit.
        batch_documents_max: usize = 256, "documents", ONE;
        /// Tokens that are embedded for one commit, about.
        batch_tokens_max: usize = 32_768, "tokens", ONE;
        /// Applied operations of one collection that are kept beside those that its documents stand for; the oldest go. An index
        /// folder that is older than that, as from a backup, is rebuilt.
        operations_kept_max: u64 = 100_000, "operations", 1.0..=1e12;
        /// Finished jobs that are kept; the oldest go.
        jobs_kept_max: u64 = 10_000, "jobs", 1.0..=1e12;
    }
    /// The embedded index.
    index: Index {
        /// Memory for the lexical writer's buffer, per collection that is being written.
        writer_memory_bytes: usize = 32 << 20, "bytes", 15e6..=4e9;
    }
    /// How texts are cut in a collection created without `chunking`.
    chunking: Chunking {
        /// Tokens in a chunk, at most; never more than the model reads.
        max_tokens: u32 = 200, "tokens", 1.0..=8192.0;
        /// Tokens that neighbouring chunks share, about; below `chunking.max_tokens`.
        overlap_tokens: u32 = 32, "tokens", ANY;
    }
    /// What a new collection gets when its creator doesn't say.
    collections: Collections {
        /// The language of its texts, which chooses the stemmer.
        language: Language = Language::English, "language", ANY;
    }
    /// The commands that talk to a running gateway: `ingest`, `search`, `jobs`, `eval`.
    client: Client {
        /// Where that gateway is; empty takes the address of `server.listen`.
        url: String = String::new(), "URL", ANY;
    }
    /// Where `weir model pull` gets models.
    hub: Hub {
        /// A hub that serves files under `{url}/{model}/resolve/{revision}/{file}`.
        url: String = "https://huggingface.co".to_owned(), "URL", ANY;
    }
}

impl Inference {
    /// Threads that embed.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

impl Config {
    /// The limits that requests are checked against.
    pub fn request_limits(&self) -> weir_api::Limits {
        let limits = &self.limits;
        weir_api::Limits {
            documents_per_request_max: limits.documents_per_request_max,
            document_text_bytes_max: limits.document_text_bytes_max,
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

    /// The folder that keeps packed weights.
    pub fn packed_dir(&self) -> PathBuf {
        let own = &self.inference.packed_dir;
        if own.is_empty() { self.server.data_dir.join("packed") } else { own.into() }
    }

    /// Where the commands that talk to a running gateway find it, without a slash at the end.
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
        format!("http://{address}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_variables_and_back() {
        let setting = Setting::named("limits.body_bytes_max").unwrap();
        assert_eq!(setting.variable(), "WEIR_LIMITS_BODY_BYTES_MAX");
        assert_eq!(setting.value(&Config::default()), Scalar::Integer(33_554_432));
        assert_eq!(Setting::named("server.listen").unwrap().short_variable, Some("WEIR_LISTEN"));
    }

    #[test]
    fn every_default_is_accepted_by_its_own_setting() {
        let defaults = Config::default();
        for setting in SETTINGS {
            let mut config = Config::default();
            (setting.set)(&mut config, &setting.value(&defaults), &setting.range).expect(setting.name);
            assert_eq!(config, defaults, "{}", setting.name);
            assert!(setting.doc.starts_with(' ') && setting.doc.ends_with('.'), "{}", setting.name);
        }
    }

    #[test]
    fn the_limits_of_the_api_and_of_the_configuration_are_the_same_by_default() {
        assert_eq!(Config::default().request_limits(), weir_api::Limits::default());
    }

    #[test]
    fn clients_go_where_the_server_listens() {
        let mut config = Config::default();
        assert_eq!(config.client_url(), "http://127.0.0.1:8000");
        config.server.listen = "0.0.0.0:9000".parse().unwrap();
        assert_eq!(config.client_url(), "http://127.0.0.1:9000");
        config.server.listen = "[::]:9000".parse().unwrap();
        assert_eq!(config.client_url(), "http://[::1]:9000");
        config.client.url = "https://weir.example/".to_owned();
        assert_eq!(config.client_url(), "https://weir.example");
    }
}
