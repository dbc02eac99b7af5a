//! The part common to every engine: changes, queries, results and errors, the table of features, and the hit pipeline over the candidates that an engine
//! ranks ([`pipeline`]).

#![forbid(unsafe_code)]

pub mod change;
pub mod error;
pub mod features;
pub mod field_values;
pub mod generation;
pub mod pipeline;
pub mod restricted;
pub mod search;
pub mod verify;

pub use change::{Change, HistoryPoint, IndexedChunk, IndexedDocument};
pub use error::{IndexError, Result};
pub use features::EngineKind;
pub use generation::{EngineSettings, IndexCounts};
pub use search::{
    DEPTH, DocumentTrace, FacetSpec, FusionFunction, Grouping, Hit, IndexQuery, IndexResult, MatchCount,
    Neighbour, RankedChunk, Recall, RetrieverRank, RetrieverRanking, ScoreBreakdown, SortKey, StageTimings,
    TraceStage, ValueCount,
};
pub use verify::{ConsistencyReport, Inconsistency};
