//! The memory budget of requests for embeddings.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use weir_encoder::Model;

use super::models::{Embedder, LoadedModel, Models};
use super::pool::BULK_TOKENS_MAX;
use weir_config::table::Inference;

/// The unit of reservations, because a semaphore counts in `u32`.
const UNIT_BYTES: usize = 1024;

/// Maximum bytes of one token in each copy of a body (see [`BODY_COPIES`]).
const TOKEN_BYTES: usize = 16;

/// Bytes of one float of an embedding: the float, its base64 and its text in the reply.
const FLOAT_BYTES: usize = 24;

/// Bytes of a text beside its content and its embedding: list entries, and the overhead of allocations.
const TEXT_BYTES: usize = 512;

/// Copies of a body's bytes: the body, the texts parsed from it, and their token ids.
const BODY_COPIES: usize = 3;

/// Lanes, each with [`Inference::threads`] threads.
const LANES: usize = 2;

/// `inference.memory_limit_bytes` is too small to embed one text.
#[derive(Debug, thiserror::Error)]
#[error(
    "`inference.memory_limit_bytes` is {limit}, and {needed} are needed: {working} for the working memory of {threads} threads \
     in each lane, {cache} for `inference.cache_bytes_max`, {text} for one text of full length; raise it to that, or lower \
     `inference.threads` or `inference.cache_bytes_max`"
)]
pub struct MemoryLimitError {
    limit: usize,
    needed: usize,
    working: usize,
    threads: usize,
    cache: usize,
    text: usize,
}

/// The reason for refusing a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetError {
    /// Other requests have reserved the memory.
    Busy,
    /// More bytes than the whole budget, whose bytes are the value.
    TooLarge(usize),
}

/// The memory that all requests for embeddings share; unlimited when `inference.memory_limit_bytes` is 0.
#[derive(Clone)]
pub struct MemoryBudget(Option<Units>);

#[derive(Clone)]
struct Units {
    free: Arc<Semaphore>,
    total: usize,
}

/// Bytes set aside in a [`MemoryBudget`]; dropping it releases them.
#[derive(Debug, Default)]
pub struct Reservation(Option<OwnedSemaphorePermit>);

impl Reservation {
    /// Adds `other` to this reservation.
    pub fn merge(&mut self, other: Reservation) {
        match (&mut self.0, other.0) {
            (Some(permit), Some(other)) => permit.merge(other),
            (permit, other) => *permit = permit.take().or(other),
        }
    }
}

impl MemoryBudget {
    /// `inference.memory_limit_bytes` less the working memory of the threads and the cache.
    ///
    /// # Errors
    /// [`MemoryLimitError`] when one text of full length does not fit.
    pub fn new(settings: &Inference, models: &Models) -> Result<MemoryBudget, MemoryLimitError> {
        let (limit, cache, threads) =
            (settings.memory_limit_bytes, settings.cache_bytes_max, settings.threads());
        if limit == 0 {
            return Ok(MemoryBudget(None));
        }
        // rerankers run on the same threads; ONNX Runtime manages its own memory
        let encoders = models.iter().filter_map(|model| match &model.embedder {
            Embedder::Local(model) => Some(&**model),
            Embedder::Onnx(_) | Embedder::Upstream(_) | Embedder::Pseudo(_) => None,
        });
        let rerankers = models.cross_encoders().filter_map(|model| model.local_model());
        let working_threads = LANES * threads + settings.floor_threads();
        let working = working_threads * encoders.chain(rerankers).map(working_bytes).max().unwrap_or(0);
        let text = models.iter().map(|model| text_bytes(model)).max().unwrap_or(0);
        let needed = working + cache + text;
        if needed > limit {
            return Err(MemoryLimitError { limit, needed, working, threads, cache, text });
        }
        let total = ((limit - working - cache) / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Ok(MemoryBudget(Some(Units { free: Arc::new(Semaphore::new(total)), total })))
    }

    /// A budget of `bytes` bytes.
    pub fn with_limit(bytes: usize) -> MemoryBudget {
        let total = (bytes / UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        MemoryBudget(Some(Units { free: Arc::new(Semaphore::new(total)), total }))
    }

    /// Reserves memory for a body of `bytes` bytes in all, of which a part may be reserved already.
    ///
    /// # Errors
    /// [`BudgetError`].
    pub fn extend_body(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), BudgetError> {
        let Some(Units { total, .. }) = &self.0 else { return Ok(()) };
        let reserved = reservation.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) * UNIT_BYTES;
        let needed = bytes.saturating_mul(BODY_COPIES);
        if needed > total * UNIT_BYTES {
            return Err(BudgetError::TooLarge(total * UNIT_BYTES));
        }
        if needed > reserved {
            reservation.merge(self.reserve(needed - reserved)?);
        }
        Ok(())
    }

    /// Reserves memory for a body of `bytes` bytes, and its parsed and tokenised texts.
    ///
    /// # Errors
    /// [`BudgetError`].
    pub fn reserve_body(&self, bytes: usize) -> Result<Reservation, BudgetError> {
        self.reserve(bytes.saturating_mul(BODY_COPIES))
    }

    /// Reserves memory for the embeddings of `texts` texts and the reply with them.
    ///
    /// # Errors
    /// [`BudgetError`].
    pub fn reserve_embeddings(&self, texts: usize, dimension: usize) -> Result<Reservation, BudgetError> {
        self.reserve(texts.saturating_mul(embedding_bytes(dimension)))
    }

    fn reserve(&self, bytes: usize) -> Result<Reservation, BudgetError> {
        let Some(Units { free, total }) = &self.0 else { return Ok(Reservation(None)) };
        let units = bytes.div_ceil(UNIT_BYTES);
        let permits = u32::try_from(units).ok().filter(|_| units <= *total);
        let permits = permits.ok_or(BudgetError::TooLarge(total * UNIT_BYTES))?;
        let permit = free.clone().try_acquire_many_owned(permits).map_err(|_| BudgetError::Busy)?;
        Ok(Reservation(Some(permit)))
    }
}

fn embedding_bytes(dimension: usize) -> usize {
    dimension * FLOAT_BYTES + TEXT_BYTES
}

/// Bytes reserved for one text of full length: its body and its embedding, each in whole units.
fn text_bytes(model: &LoadedModel) -> usize {
    let body = model.input_tokens_max().unwrap_or(0) * TOKEN_BYTES * BODY_COPIES;
    let embedding = embedding_bytes(model.dimension().unwrap_or(0));
    body.next_multiple_of(UNIT_BYTES) + embedding.next_multiple_of(UNIT_BYTES)
}

/// Working memory of one thread for the most that it computes together.
fn working_bytes(model: &Model) -> usize {
    model.working_bytes(model.info().max_tokens.max(BULK_TOKENS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(total: usize) -> MemoryBudget {
        MemoryBudget(Some(Units { free: Arc::new(Semaphore::new(total)), total }))
    }

    #[test]
    fn dropping_a_reservation_releases_its_memory() {
        let budget = budget(100);
        let mut first = budget.reserve_body(20 * 1024).unwrap();
        first.merge(budget.reserve_embeddings(1, 384).unwrap());
        let busy = budget.reserve_body(11 * 1024).map(drop);
        assert_eq!(busy, Err(BudgetError::Busy), "70 of 100 units are reserved");
        let too_large = Err(BudgetError::TooLarge(100 * 1024));
        assert_eq!(budget.reserve_body(40 * 1024).map(drop), too_large);
        assert_eq!(budget.reserve_embeddings(usize::MAX, 384).map(drop), too_large);
        drop(first);
        assert!(budget.reserve_body(33 * 1024).is_ok());
    }

    #[test]
    fn a_reservation_grows_with_its_body() {
        let budget = MemoryBudget::with_limit(100 * 1024);
        let mut grown = Reservation::default();
        for bytes in [1, 1_024, 5_000, 20 * 1024] {
            budget.extend_body(&mut grown, bytes).unwrap();
        }
        assert!(budget.reserve_body(13 * 1024).is_ok());
        assert_eq!(budget.reserve_body(14 * 1024).map(drop), Err(BudgetError::Busy), "60 units are reserved");
        let too_large = Err(BudgetError::TooLarge(100 * 1024));
        assert_eq!(budget.extend_body(&mut grown, 34 * 1024), too_large);
        let other = budget.reserve_body(10 * 1024).unwrap();
        assert_eq!(budget.extend_body(&mut grown, 30 * 1024), Err(BudgetError::Busy));
        drop(other);
        assert!(budget.extend_body(&mut grown, 30 * 1024).is_ok());
    }

    #[test]
    fn without_a_limit_every_reservation_succeeds() {
        assert!(MemoryBudget(None).reserve_body(usize::MAX).is_ok());
    }
}
