//! Queries restricted to the documents that their caller may see.

use std::sync::Arc;

use weir_filter::Filter;
use weir_policy::Caller;

use crate::{IndexQuery, Result};

/// A checked query of a caller. The only input that an engine's search takes.
pub struct RestrictedQuery {
    /// Its filter includes the mandatory one.
    pub query: IndexQuery,
    /// The caller's mandatory filter: other documents do not exist for the caller.
    pub mandatory: Option<Arc<Filter>>,
    /// The fields that the query itself names: only these must be known. A mandatory filter on a field that no document has had passes no
    /// document.
    pub named_fields: Vec<String>,
}

impl RestrictedQuery {
    /// Checks a query to a collection of embeddings with `dimension` values, and restricts it to documents that pass the caller's mandatory
    /// filter.
    ///
    /// # Errors
    /// A missing or unfit embedding, an invalid parameter.
    pub fn new(caller: &Caller, query: IndexQuery, dimension: usize) -> Result<RestrictedQuery> {
        query.check(dimension)?;
        let mandatory = caller.filter.clone();
        let named_fields = query.named_fields().map(str::to_owned).collect();
        let filter = match (&mandatory, query.filter) {
            (Some(mandatory), Some(filter)) => Some(Filter::and((**mandatory).clone(), filter)),
            (Some(mandatory), None) => Some((**mandatory).clone()),
            (None, filter) => filter,
        };
        Ok(RestrictedQuery { query: IndexQuery { filter, ..query }, mandatory, named_fields })
    }

    /// Whether a document with this metadata exists for the caller.
    pub fn shows(&self, metadata: &str) -> bool {
        let metadata = || serde_json::from_str(metadata).unwrap_or_default();
        self.mandatory.as_ref().is_none_or(|filter| filter.evaluate(&metadata()))
    }
}
