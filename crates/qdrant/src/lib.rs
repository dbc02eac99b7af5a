//! Calls of a Qdrant cluster: one client per node, deadlines, retries on other nodes, and what counts as success.
//!
//! - [`Qdrant`]: the nodes of a cluster; its functions are the calls
//! - [`Layout`]: the Qdrant collection in which collections of one model are, behind an alias
//! - [`point_id`]: ids of points that are the same in every attempt
//! - [`sparse_of`]: the terms of a chunk with their weights
//!
//! Rules of a client, by the tests that enforce them (`row_…` here and in `weir-index`; a test compares this table with them):
//!
//! | rule | what is done |
//! |---|---|
//! | write ack | a change is repeated, at other nodes too, until it is done; each attempt has 35 s, because a node waits up to 30 s for the cluster to mark a replica dead |
//! | wait | each change waits until it can be found; every status but `Completed` is no success |
//! | durability | a node can lose what it was given seconds before a power failure: missing chunks are found by `Engine::verify`, a missing whole by `Engine::check_files` |
//! | ordering | `medium` for points, `strong` for deletions, after which the same document may be put again |
//! | fencing | points are replaced by newer versions of their document only; a gateway that is behind the cluster applies nothing |
//! | reads | one replica answers, as is the default; `all` would fail while a replica is down |
//! | ids | UUIDv5 of tenant, document and chunk: what is repeated or delivered twice changes nothing |
//! | batching | at most 128 points per change, of several documents; limits of messages are far above |
//! | tenants | collections of a model share a Qdrant collection with an index of tenants; every call names the tenant, every answer is checked |
//! | idf | the corpus of each query is the collection, as far as the caller may see it |
//! | bm25 | terms are those of our analysis, with our weights; no text is left to the server |
//! | rrf | rankings are fused by the hit pipeline; the filter is in each of them |
//! | quantization | int8 in memory, embeddings on disk, twice as many ranked by int8 as are compared exactly |
//! | aliases | a collection is used by its alias; an alias of something else is refused |
//! | snapshots | an alias that a restored collection lacks is created again |
//! | shards | their number and their copies are set when a collection is created |
//! | quorum | searches and changes go on without one of three nodes |
//! | timeouts | 1 s for an attempt to read, then another node; unavailable, deadline and internal are tried elsewhere, what is invalid nowhere, and a busy server when it says |
//! | versions | a server whose minor version is not the client's or one beside it is refused by name |
//!
//! A call that fails at a node is made again at another one: see [`Qdrant::read`] for what is read and [`Qdrant::write`] for changes, which are
//! such that they may be carried out more than once. Messages and fields are those of the crate `qdrant-client` ([`api`]),
//! but for replies with points, of which a search reads a thousand: their fields are found in the bytes of the reply ([`FoundPoint`]).

#![forbid(unsafe_code)]

mod cache;
mod calls;
mod client;
mod collection;
mod conditions;
mod depth;
mod error;
mod ids;
mod node;
mod numbers;
mod replies;
mod sparse;

pub use qdrant_client::qdrant as api;

pub use cache::{PointCache, PointVersion};
pub use calls::{BATCH_POINTS_MAX, VALUES_MAX};
pub use client::{Checked, EndedCall, Observer, Outcome, Qdrant, QdrantSettings, VERSIONS};
pub use collection::{CHUNK, CHUNKS, DENSE, DOCUMENT, KEYWORDS, Layout, METADATA, SPARSE, TENANT, VERSION};
pub use conditions::{has_any_text, has_integer, has_text};
pub use depth::{PointsPerUnit, RANKED_MAX};
pub use error::{QdrantError, Result, SetupError};
pub use ids::{digest, point_id};
pub use numbers::{KnownPoint, PointNumbers, version_of};
pub use replies::FoundPoint;
pub use sparse::{frequencies, sparse_of, term_index};
pub use uuid::Uuid;
