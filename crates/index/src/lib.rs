//! The searchable state of a collection: its files, the dense retriever, hybrid search, the [`Engine`].
//!
//! An [`Engine`] holds one generation of one collection. Losing it loses no data: all of it is derived from the store, which
//! replays its numbered operations from [`Engine::applied_seq`] on. The crate uses neither HTTP nor a model; texts and embeddings
//! are its input.
//!
//! - [`Engine`]: the asynchronous interface, one variant per implementation
//! - [`Embedded`]: the engine in this process: the lexical index and quantised vectors, files in one folder
//! - [`OnDemand`]: an index whose files are open only while it is used; [`OpenIndexes`] bounds how many are
//! - [`CpuLimiter`]: the limit on the CPU work of searches
//! - [`filter`]: conditions on metadata

#![forbid(unsafe_code)]

mod change;
mod embedded;
mod engine;
mod error;
mod generation;
mod limiter;
mod on_demand;
mod search;

pub use weir_filter as filter;
/// Types of fields of [`IndexQuery`] and [`IndexResult`].
pub use weir_lexical::{LexicalSettings, PhraseContribution, SpellingCorrection, TermContribution};

pub use change::{Change, HistoryPoint, IndexedChunk, IndexedDocument};
pub use embedded::{Embedded, FILTER_CACHE_BYTES_MAX, RebuildReason};
pub use engine::{Capabilities, Engine, Opened};
pub use error::{IndexError, Result};
pub use generation::{EngineSettings, IndexCounts};
pub use limiter::CpuLimiter;
pub use on_demand::{OnDemand, OpenIndexes};
pub use search::{
    DEPTH, DocumentTrace, FacetSpec, FusionFunction, Grouping, Hit, IndexQuery, IndexResult, MatchCount,
    Neighbour, RankedChunk, Recall, RetrieverRank, RetrieverRanking, ScoreBreakdown, SortKey, StageTimings,
    TraceStage, ValueCount,
};
pub use verify::{ConsistencyReport, Inconsistency};

mod verify;
