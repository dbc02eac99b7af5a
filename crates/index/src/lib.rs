//! The searchable state of a collection: lexical and dense retrievers, fusion, relevance, the [`Engine`].
//!
//! An [`Engine`] holds one generation of one collection. Losing it loses no data: all of it is derived from the store, which
//! replays its numbered operations from [`Engine::applied_seq`] on. The crate uses neither HTTP nor a model; texts and embeddings
//! are its input.
//!
//! - [`Engine`]: the asynchronous interface, one variant per implementation
//! - [`Embedded`]: the engine in this process: Tantivy and quantised vectors, files in one folder
//! - [`OnDemand`]: an index whose files are open only while it is used; [`OpenIndexes`] bounds how many are
//! - [`CpuLimiter`]: the limit on the CPU work of searches
//! - [`fusion`]: pure functions that merge rankings; [`smoothing`] of their scores over similar documents
//! - [`query`]: the parser of the search language; [`filter`]: conditions on metadata
//! - [`relevance`]: the probability that a hit answers its query

#![forbid(unsafe_code)]

mod change;
mod embedded;
mod engine;
mod error;
pub mod fusion;
mod generation;
mod lexical_settings;
mod limiter;
mod on_demand;
pub mod query;
pub mod relevance;
mod retrieval_mode;
mod search;
pub mod smoothing;

pub use weir_filter as filter;

pub use change::{Change, IndexedChunk, IndexedDocument};
pub use embedded::{Embedded, RebuildReason};
pub use engine::{Capabilities, Engine, Opened};
pub use error::{IndexError, Result};
pub use generation::{EngineSettings, IndexCounts};
pub use lexical_settings::LexicalSettings;
pub use limiter::CpuLimiter;
pub use on_demand::{OnDemand, OpenIndexes};
pub use retrieval_mode::RetrievalMode;
pub use search::{
    DEPTH, DocumentTrace, FacetSpec, FusionFunction, Grouping, Hit, IndexQuery, IndexResult, MatchCount,
    Neighbour, RankedChunk, Recall, RetrieverRank, RetrieverRanking, ScoreBreakdown, SortKey,
    SpellingCorrection, StageTimings, TermContribution, TraceStage, ValueCount,
};
pub use verify::{ConsistencyReport, Inconsistency};

mod verify;
