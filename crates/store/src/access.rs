//! Which documents and jobs exist for a caller.

use std::sync::Arc;

use serde_json::{Map, Value};
use weir_filter::Filter;
use weir_policy::{Caller, KeyId};

use crate::{CollectionId, Error};

/// A collection together with the mandatory filter of the caller that accesses it.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) collection: CollectionId,
    /// The API key of the caller.
    pub(crate) key: Option<KeyId>,
    /// The last operation that is known to be in the store.
    known: u64,
    filter: Option<Arc<Filter>>,
}

impl Access {
    pub(crate) fn new(caller: &Caller, collection: CollectionId) -> Access {
        Access { collection, key: caller.key, known: 0, filter: caller.filter.clone() }
    }

    /// The same with another known operation.
    pub(crate) fn after(self, known: u64) -> Access {
        Access { known, ..self }
    }

    /// Refuses a store that ends before the operation that is known.
    pub(crate) fn check_known(&self, last_operation: u64) -> Result<(), Error> {
        if last_operation >= self.known {
            return Ok(());
        }
        Err(Error::LostCommits { operation: self.known })
    }

    /// Whether the caller has a mandatory filter.
    pub(crate) fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// Whether a document exists for the caller: the one decision for every read and every database. `None`: there is no such document.
    /// Parses the metadata only if there is a filter. Metadata that is not a JSON object passes no filter.
    pub(crate) fn is_visible_document(&self, metadata: Option<&str>) -> bool {
        let Some(metadata) = metadata else { return false };
        self.filter.as_ref().is_none_or(|filter| {
            let metadata: Result<Map<String, Value>, _> = serde_json::from_str(metadata);
            metadata.is_ok_and(|metadata| filter.evaluate(&metadata))
        })
    }

    /// Whether a document is hidden by the caller's filter, or does not exist. `false` without a filter.
    pub(crate) fn hides_document(&self, metadata: Option<&str>) -> bool {
        self.is_filtered() && !self.is_visible_document(metadata)
    }

    pub(crate) fn filter_hash(&self) -> Option<FilterHash> {
        self.filter.as_deref().map(hash_of)
    }
}

/// The jobs that exist for a caller.
pub(crate) struct JobAccess {
    caller: Caller,
    filter_hash: Option<FilterHash>,
}

impl JobAccess {
    pub(crate) fn new(caller: &Caller) -> JobAccess {
        JobAccess { caller: caller.clone(), filter_hash: caller.filter().map(hash_of) }
    }

    /// Whether a job exists for the caller, by its collection and by the filter of the caller that submitted it.
    pub(crate) fn is_visible(&self, collection: &str, submitted_with: Option<FilterHash>) -> bool {
        self.caller.sees(collection) && (self.filter_hash.is_none() || self.filter_hash == submitted_with)
    }
}

/// Identifies a mandatory filter.
pub(crate) type FilterHash = [u8; 32];

/// BLAKE3 of the canonical encoding. Jobs whose hash is of another version of it are hidden from callers with a filter.
fn hash_of(filter: &Filter) -> FilterHash {
    blake3::hash(&filter.canonical()).into()
}
