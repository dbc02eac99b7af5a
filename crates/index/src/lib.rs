//! The searchable state of a collection: lexical and dense legs, fusion, the Engine.
//!
//! An [`Engine`] holds one generation of one collection. It can be lost at any time: everything in it is derived from
//! the store, which replays its numbered operations from [`Engine::applied_seq`] on. It knows no HTTP and no model; texts
//! and embeddings come from outside.
//!
//! - [`engine`](Engine): the async door, one variant per kind of engine
//! - [`Embedded`]: the engine in this process: Tantivy beside int8 vectors, files in one folder
//! - [`fusion`]: pure functions that merge rankings
//! - [`query`]: the search language; [`filter`]: conditions on metadata. Parsers alone, pure functions
//! - [`relevance`]: how probable it is that a hit answers its query

#![forbid(unsafe_code)]

mod change;
mod embedded;
mod engine;
mod error;
pub mod fusion;
mod limiter;
pub mod query;
pub mod relevance;
mod search;

pub use weir_filter as filter;

pub use change::{Change, IndexedChunk, IndexedDocument};
pub use embedded::{Embedded, RebuildReason};
pub use engine::{Capabilities, Engine, EngineSettings, IndexCounts, Opened};
pub use error::IndexError;
pub use limiter::CpuLimiter;
pub use search::{
    DEPTH, DocumentTrace, FacetSpec, FusionFunction, Grouping, Hit, IndexQuery, IndexResult, MatchCount,
    Neighbour, RankedChunk, Recall, RetrievalMode, RetrieverRank, RetrieverRanking, ScoreBreakdown, SortKey,
    SpellingCorrection, StageTimings, TermContribution, TraceStage, ValueCount,
};
pub use verify::{ConsistencyReport, Inconsistency};

mod verify;
