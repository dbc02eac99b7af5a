//! The sums of `weir plan`.
//!
//! A gateway with the embedded index has all of it in memory, so that the number of gateways follows from CPU time alone. A Qdrant cluster
//! divides the index, so that its number of nodes follows from memory.

use serde::Deserialize;

use super::basis::{self, Basis, GIB, Kind};
use super::{PlanArguments, PlanEngine, QdrantVectors};

/// The demand that a plan serves. Rates are per second.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    pub(super) documents: u64,
    pub(super) chunks: u64,
    pub(super) characters: f64,
    pub(super) dimension: f64,
    pub(super) searches: f64,
    pub(super) chat: f64,
    pub(super) chat_tokens: f64,
    pub(super) chat_seconds: f64,
    pub(super) copies: u64,
    pub(super) cores: u64,
    pub(super) memory_gib: f64,
    pub(super) busy: f64,
    pub(super) engine: PlanEngine,
    pub(super) qdrant_vectors: QdrantVectors,
    pub(super) database_cores: u64,
    pub(super) database_memory_gib: f64,
    pub(super) days_kept: f64,
}

impl Demand {
    /// By the command line.
    pub(super) fn of(arguments: &PlanArguments) -> Demand {
        Demand {
            documents: arguments.documents,
            chunks: arguments.chunks.unwrap_or(arguments.documents),
            characters: arguments.characters as f64,
            dimension: arguments.dimension as f64,
            searches: arguments.searches,
            chat: arguments.chat,
            chat_tokens: arguments.chat_tokens,
            chat_seconds: arguments.chat_seconds,
            copies: arguments.copies,
            cores: arguments.cores,
            memory_gib: arguments.memory,
            busy: arguments.busy,
            engine: arguments.engine,
            qdrant_vectors: arguments.qdrant_vectors,
            database_cores: arguments.database_cores,
            database_memory_gib: arguments.database_memory,
            days_kept: arguments.days_kept,
        }
    }
}

/// Monthly prices of a core, a GiB of memory and a GiB of disk.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prices {
    pub(super) currency: String,
    /// Where the prices are from.
    #[serde(default)]
    pub(super) source: String,
    pub(super) core: f64,
    pub(super) memory_gib: f64,
    pub(super) disk_gib: f64,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            currency: "USD".to_owned(),
            source: "documented: OpenCost's default prices, after Google Cloud in us-central1: 0.031611 a core-hour, 0.004237 a \
                     GiB-hour of memory, 0.00005479452 of disk; 730 hours"
                .to_owned(),
            core: 0.031611 * 730.0,
            memory_gib: 0.004237 * 730.0,
            disk_gib: 0.04,
        }
    }
}

impl Prices {
    /// The name of a price that is negative, if one is.
    pub(super) fn negative(&self) -> Option<&'static str> {
        let all = [("core", self.core), ("memory_gib", self.memory_gib), ("disk_gib", self.disk_gib)];
        all.into_iter().find(|(_, price)| *price < 0.0).map(|(name, _)| name)
    }
}

/// How the service is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One gateway with its own data directory.
    One,
    /// Gateways with an index each, over PostgreSQL, with Redis.
    Replicas,
    /// Gateways without an index, over PostgreSQL, Redis and a Qdrant cluster.
    Qdrant,
}

impl Shape {
    /// The word in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Shape::One => "one gateway",
            Shape::Replicas => "replicas",
            Shape::Qdrant => "qdrant",
        }
    }
}

/// Processes of one kind, each on a machine or in a container of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Processes {
    pub(super) name: &'static str,
    pub(super) count: u64,
    pub(super) cores_each: u64,
    pub(super) memory_bytes_each: f64,
    /// To provide, free space included.
    pub(super) disk_bytes_each: f64,
    /// Of all of them.
    pub(super) cost_a_month: f64,
    /// How `memory_bytes_each` is known.
    pub(super) memory_kind: Kind,
}

/// A figure of the plan, and how it is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) kind: Kind,
    pub(super) source: String,
}

impl From<Basis> for Figure {
    fn from(basis: Basis) -> Figure {
        let Basis { name, value, unit, kind, source } = basis;
        Figure { name, value, unit, kind, source: source.to_owned() }
    }
}

/// The required resources.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) shape: Shape,
    pub(super) processes: Vec<Processes>,
    pub(super) figures: Vec<Figure>,
    pub(super) prices: Prices,
    pub(super) cost_a_month: f64,
    /// Notes on the figures.
    pub(super) notes: Vec<String>,
}

/// Computes what is needed for `demand`.
pub(super) fn plan(demand: &Demand, prices: &Prices) -> Plan {
    let sums = Sums::of(demand);
    let shape = sums.shape(demand);
    let gateways = sums.gateways(demand, shape);
    let mut processes = vec![sums.gateway(demand, shape, gateways)];
    if shape != Shape::One {
        processes.push(sums.database(demand));
        processes.push(redis());
    }
    if shape == Shape::Qdrant {
        processes.push(sums.qdrant(demand));
    }
    for process in &mut processes {
        process.cost_a_month = cost(process, prices);
    }
    Plan {
        shape,
        cost_a_month: processes.iter().map(|process| process.cost_a_month).sum(),
        figures: sums.figures(demand, shape, gateways),
        notes: notes(demand, shape, &sums),
        processes,
        prices: prices.clone(),
    }
}

fn cost(process: &Processes, prices: &Prices) -> f64 {
    let memory = process.memory_bytes_each / GIB * prices.memory_gib;
    let disk = process.disk_bytes_each / GIB * prices.disk_gib;
    process.count as f64 * (process.cores_each as f64 * prices.core + memory + disk)
}

/// Counters that are lost without harm: one process, small.
fn redis() -> Processes {
    Processes {
        name: "redis",
        count: 1,
        cores_each: 1,
        memory_bytes_each: GIB,
        disk_bytes_each: 0.0,
        cost_a_month: 0.0,
        memory_kind: Kind::Given,
    }
}

/// Sums that depend on the demand alone.
struct Sums {
    index_memory_bytes: f64,
    index_disk_bytes: f64,
    store_bytes: f64,
    requests_bytes: f64,
    search_cpu_ms: f64,
    search_ms: f64,
    chat_cpu_ms: f64,
    qdrant_memory_bytes: f64,
    qdrant_disk_bytes: f64,
}

impl Sums {
    fn of(demand: &Demand) -> Sums {
        let chunks = demand.chunks as f64;
        let text = demand.characters / basis::MEASURED_CHARACTERS;
        // the measured bytes of a chunk: a part by the dimension, the rest by the length of the text
        let per_chunk = |measured: f64, per_value: f64| {
            demand.dimension * per_value + (measured - basis::MEASURED_DIMENSION * per_value) * text
        };
        let in_memory = match demand.qdrant_vectors {
            QdrantVectors::F32 => basis::QDRANT_BYTES_PER_VALUE_F32,
            QdrantVectors::Int8 => basis::QDRANT_BYTES_PER_VALUE_INT8,
            QdrantVectors::Binary => basis::QDRANT_BYTES_PER_VALUE_BINARY,
        };
        let quantised = match demand.qdrant_vectors {
            QdrantVectors::F32 => 0.0,
            QdrantVectors::Int8 | QdrantVectors::Binary => in_memory.value,
        };
        let millions = demand.chunks as f64 / basis::MEASURED_CHUNKS as f64;
        let wider = demand.dimension / basis::MEASURED_DIMENSION;
        let scanned = millions * (1.0 - basis::DENSE_SHARE + basis::DENSE_SHARE * wider);
        let copies = demand.copies as f64;
        let on_disk = demand.dimension * (basis::QDRANT_BYTES_PER_VALUE_F32.value + quantised)
            + basis::QDRANT_DISK_TEXT_BYTES.value * text;
        Sums {
            index_memory_bytes: chunks
                * per_chunk(basis::INDEX_MEMORY_BYTES.value, basis::MEMORY_BYTES_PER_VALUE),
            index_disk_bytes: chunks * per_chunk(basis::INDEX_DISK_BYTES.value, basis::DISK_BYTES_PER_VALUE),
            store_bytes: chunks * (4.0 * demand.dimension + basis::STORE_TEXT_BYTES.value * text),
            requests_bytes: (demand.searches + demand.chat)
                * basis::DAY_S
                * demand.days_kept
                * basis::REQUEST_ROW_BYTES.value,
            search_cpu_ms: basis::SEARCH_CPU_MS.value + basis::SEARCH_CPU_MS_PER_MILLION.value * scanned,
            search_ms: basis::SEARCH_MS.value + basis::SEARCH_MS_PER_MILLION.value * scanned,
            chat_cpu_ms: (basis::CHAT_CPU_US.value + demand.chat_tokens * basis::TOKEN_CPU_US.value) / 1e3,
            qdrant_memory_bytes: chunks * demand.dimension * in_memory.value * copies,
            qdrant_disk_bytes: chunks * on_disk * copies,
        }
    }

    fn shape(&self, demand: &Demand) -> Shape {
        let fits = basis::GATEWAY_BYTES.value + self.index_memory_bytes <= demand.memory_gib * GIB
            && self.search_ms <= basis::EMBEDDED_MS_MAX;
        let is_embedded = match demand.engine {
            PlanEngine::Auto => fits,
            PlanEngine::Embedded => true,
            PlanEngine::Qdrant => false,
        };
        match is_embedded {
            false => Shape::Qdrant,
            true if self.gateways(demand, Shape::Replicas) == 1 => Shape::One,
            true => Shape::Replicas,
        }
    }

    /// As many as the load takes, and one more for each further copy.
    fn gateways(&self, demand: &Demand, shape: Shape) -> u64 {
        let of_the_load = self.busy_cores(demand, shape) / (demand.cores as f64 * demand.busy);
        (of_the_load.ceil() as u64).max(1) + demand.copies - 1
    }

    /// Cores that the load keeps busy.
    fn busy_cores(&self, demand: &Demand, shape: Shape) -> f64 {
        (demand.searches * self.gateway_search_cpu_ms(shape) + demand.chat * self.chat_cpu_ms) / 1e3
    }

    /// CPU of a search in the gateways: with Qdrant, without that of the index.
    fn gateway_search_cpu_ms(&self, shape: Shape) -> f64 {
        match shape {
            Shape::One | Shape::Replicas => self.search_cpu_ms,
            Shape::Qdrant => basis::SEARCH_CPU_MS.value,
        }
    }

    fn gateway(&self, demand: &Demand, shape: Shape, count: u64) -> Processes {
        let (index_memory, index_disk) = match shape {
            Shape::One | Shape::Replicas => (self.index_memory_bytes, self.index_disk_bytes),
            Shape::Qdrant => (0.0, 0.0),
        };
        let store = if shape == Shape::One { self.store_bytes + self.requests_bytes } else { 0.0 };
        // the streams of a gateway that is lost go to the others
        let carrying = (count + 1 - demand.copies) as f64;
        let streams = demand.chat * demand.chat_seconds / carrying * basis::STREAM_BYTES.value;
        Processes {
            name: "gateway",
            count,
            cores_each: demand.cores,
            memory_bytes_each: basis::GATEWAY_BYTES.value + index_memory + streams,
            disk_bytes_each: basis::DISK_PROVISION * (index_disk + store),
            cost_a_month: 0.0,
            memory_kind: Kind::Computed,
        }
    }

    fn database_bytes(&self) -> f64 {
        self.store_bytes + self.requests_bytes
    }

    fn database(&self, demand: &Demand) -> Processes {
        Processes {
            name: "postgresql",
            count: demand.copies,
            cores_each: demand.database_cores,
            memory_bytes_each: demand.database_memory_gib * GIB,
            disk_bytes_each: basis::DISK_PROVISION * self.database_bytes(),
            cost_a_month: 0.0,
            memory_kind: Kind::Given,
        }
    }

    fn qdrant_nodes(&self, demand: &Demand) -> u64 {
        let usable = demand.memory_gib * GIB * basis::QDRANT_USABLE_SHARE.value;
        let of_memory = (self.qdrant_memory_bytes / usable).ceil() as u64;
        of_memory.max(basis::QDRANT_NODES_MIN.value as u64).max(demand.copies)
    }

    fn qdrant(&self, demand: &Demand) -> Processes {
        let count = self.qdrant_nodes(demand);
        let share = basis::QDRANT_USABLE_SHARE.value * count as f64;
        Processes {
            name: "qdrant",
            count,
            cores_each: demand.cores,
            memory_bytes_each: self.qdrant_memory_bytes / share,
            disk_bytes_each: self.qdrant_disk_bytes / count as f64,
            cost_a_month: 0.0,
            memory_kind: Kind::Documented,
        }
    }

    fn figures(&self, demand: &Demand, shape: Shape, gateways: u64) -> Vec<Figure> {
        let mut figures = given(demand);
        figures.extend(self.load_figures(demand, shape, gateways));
        figures.extend(self.size_figures(demand, shape));
        figures.extend(basis_of(demand, shape).into_iter().map(Figure::from));
        figures
    }

    fn load_figures(&self, demand: &Demand, shape: Shape, gateways: u64) -> Vec<Figure> {
        let mut figures = vec![
            computed(
                "CPU of a search in the gateway",
                self.gateway_search_cpu_ms(shape),
                "ms",
                match shape {
                    Shape::Qdrant => "that of a search over HTTP; the index is elsewhere",
                    Shape::One | Shape::Replicas => {
                        "over HTTP + per 1,000,000 chunks × chunks; the dense part in proportion to the dimension"
                    }
                },
            ),
            computed("CPU of a chat request", self.chat_cpu_ms, "ms", "request + tokens × CPU of a token"),
            computed(
                "busy cores",
                self.busy_cores(demand, shape),
                "",
                "searches × CPU of a search + chat requests × CPU of one",
            ),
            computed(
                "gateways",
                gateways as f64,
                "",
                "busy cores ÷ (cores × busy share), rounded up, + copies − 1",
            ),
        ];
        if shape != Shape::Qdrant {
            figures.push(computed(
                "p50 of a search on four cores",
                self.search_ms,
                "ms",
                "over HTTP + per 1,000,000 chunks × chunks",
            ));
        }
        if demand.dimension == basis::MEASURED_DIMENSION {
            let tokens = demand.chunks as f64 * demand.characters / basis::CHARACTERS_PER_TOKEN.value;
            let cores = (gateways * demand.cores) as f64;
            figures.push(computed(
                "first embedding of all chunks",
                tokens / (basis::EMBED_TOKENS_PER_CORE_S.value * cores) / 3_600.0,
                "hours",
                "characters ÷ characters of a token ÷ tokens a core embeds ÷ all cores of the gateways, otherwise idle",
            ));
        }
        figures
    }

    fn size_figures(&self, demand: &Demand, shape: Shape) -> Vec<Figure> {
        let mut figures = vec![
            computed(
                "database",
                self.database_bytes(),
                "bytes",
                "chunks × (4 × dimension + texts and rows) + rows of requests; as measured with SQLite",
            ),
            computed(
                "of it rows of requests",
                self.requests_bytes,
                "bytes",
                "(searches + chat requests) × 86,400 × --days-kept × row, as if these rates lasted all day",
            ),
        ];
        match shape {
            Shape::One | Shape::Replicas => figures.extend([
                computed(
                    "index in memory, each gateway",
                    self.index_memory_bytes,
                    "bytes",
                    "chunks × bytes per chunk, 35/32 bytes of them for each value of the embedding, the rest by characters",
                ),
                computed(
                    "index on disk, each gateway",
                    self.index_disk_bytes,
                    "bytes",
                    "chunks × bytes per chunk, 99/32 bytes of them for each value, the rest by characters",
                ),
            ]),
            Shape::Qdrant => figures.extend([
                computed(
                    "Qdrant in memory, all nodes",
                    self.qdrant_memory_bytes,
                    "bytes",
                    "chunks × dimension × bytes per value × copies; without sparse vectors",
                ),
                computed(
                    "Qdrant on disk, all nodes",
                    self.qdrant_disk_bytes,
                    "bytes",
                    "chunks × (dimension × bytes per value, f32 and quantised + beside vectors by characters) × copies",
                ),
                computed(
                    "shards",
                    self.qdrant_nodes(demand) as f64 * basis::QDRANT_SHARDS_PER_NODE.value,
                    "",
                    "nodes × shards per node",
                ),
            ]),
        }
        figures
    }
}

fn computed(name: &'static str, value: f64, unit: &'static str, formula: &str) -> Figure {
    Figure { name, value, unit, kind: Kind::Computed, source: formula.to_owned() }
}

/// The demand as figures.
fn given(demand: &Demand) -> Vec<Figure> {
    let figures = [
        ("documents", demand.documents as f64, "", "--documents"),
        ("chunks", demand.chunks as f64, "", "--chunks, or one for each document"),
        ("characters of a chunk", demand.characters, "", "--characters"),
        ("dimension", demand.dimension, "", "--dimension"),
        ("searches", demand.searches, "/s", "--searches"),
        ("chat requests", demand.chat, "/s", "--chat"),
        ("tokens of an answer", demand.chat_tokens, "", "--chat-tokens"),
        ("copies", demand.copies as f64, "", "--copies"),
        ("cores of a machine", demand.cores as f64, "", "--cores"),
        ("memory of a machine", demand.memory_gib * GIB, "bytes", "--memory"),
        ("busy share of the cores", demand.busy, "", "--busy"),
    ];
    figures
        .map(|(name, value, unit, source)| Figure {
            name,
            value,
            unit,
            kind: Kind::Given,
            source: source.to_owned(),
        })
        .into()
}

/// The measured and documented figures that the plan used.
fn basis_of(demand: &Demand, shape: Shape) -> Vec<Basis> {
    let mut used =
        vec![basis::GATEWAY_BYTES, basis::SEARCH_CPU_MS, basis::STORE_TEXT_BYTES, basis::REQUEST_ROW_BYTES];
    if demand.chat > 0.0 {
        used.extend([basis::CHAT_CPU_US, basis::TOKEN_CPU_US, basis::STREAM_BYTES]);
    }
    if demand.dimension == basis::MEASURED_DIMENSION {
        used.extend([basis::EMBED_TOKENS_PER_CORE_S, basis::CHARACTERS_PER_TOKEN]);
    }
    match shape {
        Shape::One | Shape::Replicas => used.extend([
            basis::SEARCH_CPU_MS_PER_MILLION,
            basis::SEARCH_MS,
            basis::SEARCH_MS_PER_MILLION,
            basis::INDEX_MEMORY_BYTES,
            basis::INDEX_DISK_BYTES,
        ]),
        Shape::Qdrant => used.extend([
            match demand.qdrant_vectors {
                QdrantVectors::F32 => basis::QDRANT_BYTES_PER_VALUE_F32,
                QdrantVectors::Int8 => basis::QDRANT_BYTES_PER_VALUE_INT8,
                QdrantVectors::Binary => basis::QDRANT_BYTES_PER_VALUE_BINARY,
            },
            basis::QDRANT_DISK_TEXT_BYTES,
            basis::QDRANT_USABLE_SHARE,
            basis::QDRANT_NODES_MIN,
            basis::QDRANT_SHARDS_PER_NODE,
        ]),
    }
    used
}

fn notes(demand: &Demand, shape: Shape, sums: &Sums) -> Vec<String> {
    let mut notes = Vec::new();
    match shape {
        Shape::Qdrant => notes.push(
            "this version of Weir does not search a Qdrant cluster; its rows are what Qdrant's documents state, for comparison. Searches/s of \
             such a cluster at this size, and the memory of its sparse vectors, are not known here"
                .to_owned(),
        ),
        Shape::One | Shape::Replicas if demand.chunks > basis::MEASURED_CHUNKS => notes.push(
            "the index was measured up to 1,000,000 chunks; what is computed for more is in proportion, not seen".to_owned(),
        ),
        Shape::One | Shape::Replicas => {}
    }
    let memory = basis::GATEWAY_BYTES.value + sums.index_memory_bytes;
    if shape != Shape::Qdrant && memory > demand.memory_gib * GIB {
        notes.push("the index does not fit the memory of a machine (--memory)".to_owned());
    }
    if shape != Shape::Qdrant && sums.search_ms > basis::EMBEDDED_MS_MAX {
        notes.push("a search takes more than 50 ms: choose smaller collections".to_owned());
    }
    if shape != Shape::One {
        notes.push(
            "cores and memory of PostgreSQL and Redis are given, not computed: watch them under your load"
                .to_owned(),
        );
    }
    notes
}
