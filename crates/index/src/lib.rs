//! The searchable state of a collection: its files, the dense retriever, hybrid search, the [`Engine`].
//!
//! An [`Engine`] holds one generation of one collection. Losing it loses no data: all of it is derived from the store, which
//! replays its numbered operations from [`Engine::applied_seq`] on. The crate uses neither HTTP nor a model; texts and embeddings
//! are its input.
//!
//! - [`Engine`]: the asynchronous interface, one variant per implementation; [`Engines`] opens them
//! - [`Embedded`]: the engine in this process: the lexical index and quantised vectors, files in one folder, open only while it is used
//! - [`QdrantEngine`]: the engine in a Qdrant cluster, for collections that are larger than one machine
//! - [`Inventory`]: the versions of each document in an engine and their number of chunks, to be compared with the store
//! - [`weir_pipeline`]: from the rankings of an engine to the hits of a page, written once over what every engine answers (`Retriever`)
//! - [`features`]: the support of each search feature, by engine
//! - [`CpuLimiter`]: the limit on the CPU work of searches
//! - [`filter`]: conditions on metadata

#![forbid(unsafe_code)]

mod embedded;
mod engine;
mod engines;
#[cfg(test)]
mod exact;
mod limiter;
mod qdrant;

pub use weir_filter as filter;
/// Types of fields of [`IndexQuery`] and [`IndexResult`].
pub use weir_lexical::{LexicalSettings, PhraseContribution, SpellingCorrection, TermContribution};
pub use weir_pipeline::features;

pub use weir_pipeline::{
    Change, ConsistencyReport, DEPTH, DocumentTrace, EngineKind, EngineSettings, FacetSpec, FusionFunction,
    Grouping, HistoryPoint, Hit, Inconsistency, IndexCounts, IndexError, IndexQuery, IndexResult,
    IndexedChunk, IndexedDocument, MatchCount, Neighbour, RankedChunk, Recall, Result, RetrieverRank,
    RetrieverRanking, ScoreBreakdown, SortKey, StageTimings, TraceStage, ValueCount,
};
use weir_pipeline::{field_values, pipeline, restricted, search};

pub use embedded::{Embedded, EmbeddedEngine, FILTER_CACHE_BYTES_MAX, OpenIndexes, RebuildReason};
pub use engine::{Capabilities, Engine, Opened};
pub use engines::{EngineId, Engines, EnginesInUse};
pub use limiter::CpuLimiter;
pub use qdrant::{
    Held, IndexedVersion, Inventory, InventoryPage, InventoryPlace, QdrantEngine, QdrantEngines,
    QdrantPlacement,
};
