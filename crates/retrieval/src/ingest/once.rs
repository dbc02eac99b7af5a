//! Idempotency keys: a request to store documents that is sent again is carried out once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_api::ErrorCode;
use weir_policy::Caller;
use weir_store::{Acceptance, IdempotencyKey};

use super::accept::IngestOutcome;
use crate::clock::now;
use crate::{Result, Retrieval};
use weir_refusal::RequestError;

/// The scopes of keys whose requests are being carried out.
#[derive(Clone, Default)]
pub(crate) struct RunningKeys(Arc<Mutex<HashSet<[u8; 32]>>>);

impl RunningKeys {
    fn lock(&self) -> MutexGuard<'_, HashSet<[u8; 32]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request with an idempotency key, while it is carried out: until this is dropped, others with the key are refused.
pub struct KeyedRequest {
    scope: [u8; 32],
    running: RunningKeys,
}

impl Drop for KeyedRequest {
    fn drop(&mut self) {
        self.running.lock().remove(&self.scope);
    }
}

impl Retrieval {
    /// Begins a request with an idempotency key, before its body is read. `route` is its method and path: keys of other callers and routes
    /// are others.
    ///
    /// # Errors
    /// `idempotency_in_flight`.
    pub fn begin_keyed(&self, caller: &Caller, key: &str, route: &str) -> Result<KeyedRequest> {
        let caller = caller.key.map(|key| key.0);
        let scope = weir_text::text_hash(&serde_json::json!([caller, route, key]).to_string());
        let running = self.running_keys.clone();
        if !running.lock().insert(scope) {
            let message = "another request with this idempotency key is being carried out";
            return Err(RequestError::new(ErrorCode::IdempotencyInFlight, message));
        }
        Ok(KeyedRequest { scope, running })
    }

    /// The key under which the result of a request is kept. `fingerprint` identifies what it asks for.
    pub fn idempotency_key(&self, request: &KeyedRequest, fingerprint: [u8; 32]) -> IdempotencyKey {
        IdempotencyKey {
            scope: request.scope,
            fingerprint,
            kept_seconds: self.config.ingest.idempotency_kept_s,
            kept_max: self.config.ingest.idempotency_keys_max,
        }
    }

    /// The result that an earlier request with this key stored. `None` if there was none.
    ///
    /// # Errors
    /// `idempotency_mismatch`; `collection_not_found` if the caller may not see the collection any more; store errors.
    pub async fn earlier(&self, caller: &Arc<Caller>, key: &IdempotencyKey) -> Result<Option<IngestOutcome>> {
        let Some(Acceptance { job, version, .. }) = self.store.repeated(key.clone(), now()).await? else {
            return Ok(None);
        };
        if !caller.sees(&job.collection) {
            return Err(RequestError::no_collection(&job.collection));
        }
        let view = self.view(caller, &job.collection).ok();
        Ok(Some(IngestOutcome { view, job, version, is_repeated: true }))
    }
}
