//! The memory that embedding may take beside the weights, and the places of requests in it.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use weir_encoder::Model;

use super::models::{Embedder, LoadedModel, Models};
use super::scheduler::MICRO_BATCH_TOKENS;
use weir_config::table::Inference;

/// Places are counted in pieces of so many bytes.
const PIECE_BYTES: usize = 1024;

/// What the text of one token takes on its way, at most, in each of: the body, the texts read from it, token ids.
const TOKEN_BYTES: usize = 16;

/// What a float of an embedding takes: itself, in base64, and in the reply.
const FLOAT_BYTES: usize = 24;

/// What a text takes beside its bytes and its embedding: lists, places, and their allocations.
const TEXT_BYTES: usize = 512;

/// Copies of a body's bytes: itself, the texts read from it, and their token ids.
const BODY_COPIES: usize = 3;

/// Lanes that each have as many threads as [`Inference::threads`].
const LANES: usize = 2;

/// The limit is too small to embed anything.
#[derive(Debug, thiserror::Error)]
#[error(
    "`inference.memory_limit_bytes` is {limit}, and {needed} are needed: {working} for the working memory of {threads} threads \
     in each lane, {cache} for `inference.cache_bytes_max`, {text} for one text of full length; raise it to that, or lower \
     `inference.threads` or `inference.cache_bytes_max`"
)]
pub struct MemoryError {
    limit: usize,
    needed: usize,
    working: usize,
    threads: usize,
    cache: usize,
    text: usize,
}

/// Why a request finds no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// Others take it now.
    Now,
    /// It needs more than all requests together may take: so many bytes.
    Ever(usize),
}

/// What requests for embeddings may take together; no limit when there is none.
#[derive(Clone)]
pub struct Memory(Option<Room>);

#[derive(Clone)]
struct Room {
    pieces: Arc<Semaphore>,
    count: usize,
}

/// A part of the memory, until it is dropped.
#[derive(Debug, Default)]
pub struct Place(Option<OwnedSemaphorePermit>);

impl Place {
    /// One place of both.
    pub fn and(&mut self, other: Place) {
        match (&mut self.0, other.0) {
            (Some(permit), Some(other)) => permit.merge(other),
            (place, other) => *place = place.take().or(other),
        }
    }
}

impl Memory {
    /// What `inference.memory_limit_bytes` leaves to requests beside the threads' working memory and the cache.
    ///
    /// # Errors
    /// [`MemoryError`]: not even room for one text of full length.
    pub fn new(settings: &Inference, models: &Models) -> Result<Memory, MemoryError> {
        let (limit, cache, threads) =
            (settings.memory_limit_bytes, settings.cache_bytes_max, settings.threads());
        if limit == 0 {
            return Ok(Memory(None));
        }
        let embedders = models.iter().map(|model| working_bytes(model));
        // they compute on the same threads
        let rerankers = models.rerankers().filter_map(|model| model.local()).map(working_bytes_of);
        let working = embedders.chain(rerankers).max().unwrap_or(0);
        let working = LANES * threads * working;
        let text = models.iter().map(|model| text_bytes(model)).max().unwrap_or(0);
        let needed = working + cache + text;
        if needed > limit {
            return Err(MemoryError { limit, needed, working, threads, cache, text });
        }
        let count = ((limit - working - cache) / PIECE_BYTES).min(Semaphore::MAX_PERMITS);
        Ok(Memory(Some(Room { pieces: Arc::new(Semaphore::new(count)), count })))
    }

    /// A place for reading a body of so many bytes.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn for_body(&self, bytes: usize) -> Result<Place, NoPlace> {
        self.take(bytes.saturating_mul(BODY_COPIES))
    }

    /// A place for embeddings of so many texts and the reply with them.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn for_embeddings(&self, texts: usize, dimension: usize) -> Result<Place, NoPlace> {
        self.take(texts.saturating_mul(embedding_bytes(dimension)))
    }

    fn take(&self, bytes: usize) -> Result<Place, NoPlace> {
        let Some(room) = &self.0 else { return Ok(Place(None)) };
        let count = bytes.div_ceil(PIECE_BYTES);
        let pieces = u32::try_from(count).ok().filter(|_| count <= room.count);
        let pieces = pieces.ok_or(NoPlace::Ever(room.count * PIECE_BYTES))?;
        room.pieces
            .clone()
            .try_acquire_many_owned(pieces)
            .map(|permit| Place(Some(permit)))
            .map_err(|_| NoPlace::Now)
    }
}

fn embedding_bytes(dimension: usize) -> usize {
    dimension * FLOAT_BYTES + TEXT_BYTES
}

/// What one text of full length takes, in whole pieces.
fn text_bytes(model: &LoadedModel) -> usize {
    let body = model.input_tokens_max().unwrap_or(0) * TOKEN_BYTES * BODY_COPIES;
    let embedding = embedding_bytes(model.dimension().unwrap_or(0));
    body.next_multiple_of(PIECE_BYTES) + embedding.next_multiple_of(PIECE_BYTES)
}

/// Working memory of a thread that embeds; that of ONNX Runtime is its own.
fn working_bytes(model: &LoadedModel) -> usize {
    match &model.embedder {
        Embedder::Local(model) => working_bytes_of(model),
        Embedder::Onnx(_) | Embedder::Upstream(_) | Embedder::Pseudo(_) => 0,
    }
}

fn working_bytes_of(model: &Model) -> usize {
    model.working_bytes(model.info().max_tokens.max(MICRO_BATCH_TOKENS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(count: usize) -> Memory {
        Memory(Some(Room { pieces: Arc::new(Semaphore::new(count)), count }))
    }

    #[test]
    fn requests_share_the_room_and_give_it_back() {
        let memory = memory(100);
        let mut first = memory.for_body(20 * 1024).unwrap();
        first.and(memory.for_embeddings(1, 384).unwrap());
        assert_eq!(memory.for_body(11 * 1024).map(drop), Err(NoPlace::Now), "70 of 100 are taken");
        assert_eq!(memory.for_body(40 * 1024).map(drop), Err(NoPlace::Ever(100 * 1024)));
        assert_eq!(memory.for_embeddings(usize::MAX, 384).map(drop), Err(NoPlace::Ever(100 * 1024)));
        drop(first);
        assert!(memory.for_body(33 * 1024).is_ok());
    }

    #[test]
    fn without_a_limit_there_is_room_for_everything() {
        assert!(Memory(None).for_body(usize::MAX).is_ok());
    }
}
