//! The searchable state of a collection: lexical and dense legs, fusion, the Engine.
//!
//! An [`Engine`] holds one generation of one collection. It can be lost at any time: everything in it is derived from
//! the store, which replays its numbered operations from [`Engine::reached`] on. It knows no HTTP and no model; texts
//! and embeddings come from outside.
//!
//! - [`engine`](Engine): the async door, one variant per kind of engine
//! - [`Embedded`]: the engine in this process: Tantivy beside int8 vectors, files in one folder
//! - [`fusion`]: pure functions that merge rankings
//! - [`query`]: the search language; [`filter`]: conditions on metadata. Parsers alone, pure functions
//! - [`relevance`]: how probable it is that a hit answers its query

mod change;
mod embedded;
mod engine;
mod error;
pub mod fusion;
pub mod query;
pub mod relevance;
mod search;

pub use weir_filter as filter;

pub use change::{Change, ChunkId, IndexedChunk, IndexedDocument};
pub use embedded::{Embedded, RebuildReason};
pub use engine::{Capabilities, Counts, Engine, EngineSettings, Opened};
pub use error::IndexError;
pub use search::{
    Correction, DEPTH, Explanation, Facet, FacetCount, Fusion, GroupBy, Hit, LegRank, Mode, Neighbour,
    RankedChunk, Ranking, Recall, SearchReply, SearchRequest, SortKey, Stage, TermShare, Timings, Total,
    WhyNot,
};
pub use verify::{Problem, VerifyReport};

mod verify;
