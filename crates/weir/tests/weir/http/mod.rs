//! The HTTP API from outside: the real binary, each test with its own server on a free port over its own folder.
//!
//! Embeddings are pseudo ones wherever their quality doesn't matter, which is everywhere but in `sample`.

mod archives;
mod chunks;
mod citations;
mod contract;
mod export;
mod feedback;
mod full_disk;
mod idempotency;
mod input;
mod keys;
mod known_files;
mod limits;
mod lines;
mod measurements;
mod openapi;
mod originals;
mod own_vectors;
mod paging;
mod patches;
mod pruning;
mod reading;
mod recognition;
#[path = "../../../../access/tests/access/redis_server.rs"]
pub(crate) mod redis_server;
mod refusals;
mod relevance;
mod reply_shapes;
mod restored;
mod route_walk;
mod rust_client;
mod sample;
mod settling;
mod shared_limits;
pub(crate) mod startup;
mod stop;
mod tls;
mod uploads;

pub(crate) use crate::support::documented;
pub(crate) use crate::support::gateway::{Gateway, in_repository};
