//! The basis of `weir plan`: figures that were measured or that a document states, each with its source.

/// A figure, and where it is from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Basis {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) kind: Kind,
    pub(super) source: &'static str,
}

/// How a figure is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An option, or its default.
    Given,
    /// By a script of `bench/`, on the machine that the page of its source names.
    Measured,
    /// Stated by another project; not measured here.
    Documented,
    /// By a formula from the others.
    Computed,
}

impl Kind {
    /// The word in the output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Given => "given",
            Kind::Measured => "measured",
            Kind::Documented => "documented",
            Kind::Computed => "computed",
        }
    }
}

const fn measured(name: &'static str, value: f64, unit: &'static str, source: &'static str) -> Basis {
    Basis { name, value, unit, kind: Kind::Measured, source }
}

const fn documented(name: &'static str, value: f64, unit: &'static str, source: &'static str) -> Basis {
    Basis { name, value, unit, kind: Kind::Documented, source }
}

/// The dimension of the embeddings with which the index was measured.
pub(super) const MEASURED_DIMENSION: f64 = 384.0;
/// The mean length of its chunks in characters.
pub(super) const MEASURED_CHARACTERS: f64 = 380.0;
/// Chunks up to which the index was measured; figures of more are extrapolated in proportion.
pub(super) const MEASURED_CHUNKS: u64 = 1_000_000;
/// Of the bytes per chunk in memory, those that grow with the dimension: an int8 value and 3/32 bytes of codes for each.
pub(super) const MEMORY_BYTES_PER_VALUE: f64 = 1.0 + 3.0 / 32.0;
/// The same on disk: besides, a value of two bytes, with which the best candidates are scored again.
pub(super) const DISK_BYTES_PER_VALUE: f64 = 3.0 + 3.0 / 32.0;
/// The part of a search of 1,000,000 chunks that grows with the dimension: 1,472 of 2,865 µs.
pub(super) const DENSE_SHARE: f64 = 1_472.04 / 2_865.01;

pub(super) const GATEWAY_BYTES: Basis = measured(
    "gateway without documents, memory",
    100.0 * 1_048_576.0,
    "bytes",
    "benchmarks/gateway.md: RSS at concurrency 256 over 5,000 documents",
);
pub(super) const INDEX_MEMORY_BYTES: Basis = measured(
    "index in memory, per chunk",
    745.0,
    "bytes",
    "benchmarks/search.md: 1,000,000 chunks of 380 characters and 384 dimensions, warm",
);
pub(super) const INDEX_DISK_BYTES: Basis =
    measured("index on disk, per chunk", 1_843.4, "bytes", "benchmarks/search.md: the same index");
pub(super) const STORE_TEXT_BYTES: Basis = measured(
    "texts and rows in the store, per chunk",
    1_761.5,
    "bytes",
    "benchmarks/search.md: 50,000 documents of 380 characters over HTTP, 5,079.6 bytes on disk less the index (1,782.1) and f32 embeddings (1,536)",
);
pub(super) const SEARCH_CPU_MS: Basis = measured(
    "CPU of a search by text over HTTP, embedding included",
    1.10,
    "ms",
    "benchmarks/gateway.md: 5,000 documents, concurrency 16, nothing cached",
);
pub(super) const SEARCH_CPU_MS_PER_MILLION: Basis = measured(
    "CPU that 1,000,000 chunks add to a search",
    4.58,
    "ms",
    "benchmarks/search.md: 873 hybrid searches/s on four cores, in process",
);
pub(super) const SEARCH_MS: Basis = measured(
    "p50 of a search by text over HTTP, embedding included",
    0.94,
    "ms",
    "benchmarks/search.md: 50,000 documents, concurrency 1",
);
pub(super) const SEARCH_MS_PER_MILLION: Basis = measured(
    "p50 that 1,000,000 chunks add to a search",
    1.64,
    "ms",
    "benchmarks/search.md: hybrid on four cores, in process",
);
pub(super) const CHAT_CPU_US: Basis = measured(
    "CPU of a chat request with key, limit and a row in PostgreSQL",
    46.9,
    "µs",
    "benchmarks/llm.md: Weir L3 at 8,000 requests/s",
);
pub(super) const TOKEN_CPU_US: Basis = measured(
    "CPU of a streamed token",
    19.9,
    "µs",
    "benchmarks/llm.md: Weir L3, 2,027 µs for a stream of 102 events",
);
pub(super) const STREAM_BYTES: Basis = measured(
    "an open stream, memory",
    40.0 * 1_024.0,
    "bytes",
    "benchmarks/llm.md: 2,000 active streams, 79 MiB",
);
pub(super) const EMBED_TOKENS_PER_CORE_S: Basis = measured(
    "tokens that a core embeds a second",
    28_785.0,
    "/s",
    "benchmarks/encoder.md: 115,142 on four cores, all-MiniLM-L6-v2 in int8",
);
pub(super) const CHARACTERS_PER_TOKEN: Basis =
    documented("characters of a token", 4.0, "", "sizing.md: English text has about four");
pub(super) const REQUEST_ROW_BYTES: Basis = measured(
    "a row of the request log in PostgreSQL, with its indexes",
    141.0,
    "bytes",
    "a study before the gateway: 73,202 rows of ten columns with two indexes, by COPY",
);
pub(super) const QDRANT_BYTES_PER_VALUE_F32: Basis = documented(
    "Qdrant in memory, f32, per value",
    4.0 * 1.5,
    "bytes",
    "qdrant.tech, capacity planning: vectors × dimension × 4 bytes × 1.5",
);
pub(super) const QDRANT_BYTES_PER_VALUE_INT8: Basis = documented(
    "Qdrant in memory, int8, per value",
    1.5,
    "bytes",
    "qdrant.tech: the same with one byte for each value, original vectors on disk",
);
pub(super) const QDRANT_BYTES_PER_VALUE_BINARY: Basis = documented(
    "Qdrant in memory, one bit, per value",
    1.5 / 8.0,
    "bytes",
    "qdrant.tech: the same with one bit for each value, original vectors on disk",
);
pub(super) const QDRANT_DISK_TEXT_BYTES: Basis = measured(
    "Qdrant on disk beside vectors, per chunk",
    2_114.0,
    "bytes",
    "benchmarks/search.md: Qdrant Edge, 100,000 documents of 380 characters, 4,418 bytes less 384 × 6",
);
pub(super) const QDRANT_USABLE_SHARE: Basis = documented(
    "share of a node's memory that Qdrant may fill",
    0.8,
    "",
    "Qdrant's notes on memory: resident memory above 80 % is a sign of a problem",
);
pub(super) const QDRANT_NODES_MIN: Basis = documented(
    "least nodes of a Qdrant cluster that survives one",
    3.0,
    "",
    "qdrant.tech, distributed deployment: three nodes",
);
pub(super) const QDRANT_SHARDS_PER_NODE: Basis = documented(
    "shards per node, so that nodes can be added",
    4.0,
    "",
    "12 shards for 3 nodes divide by 2, 3, 4 and 6; their number is fixed when a collection is created",
);

/// Seconds of a day.
pub(super) const DAY_S: f64 = 86_400.0;
/// Bytes of a GiB.
pub(super) const GIB: f64 = 1_073_741_824.0;
/// Disk to provide for each byte that is stored, for compaction and backup (sizing.md).
pub(super) const DISK_PROVISION: f64 = 2.0;
/// p50 above which the embedded index is not proposed.
pub(super) const EMBEDDED_MS_MAX: f64 = 50.0;
