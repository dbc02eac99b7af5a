//! Queries restricted to the documents that their caller may see.

use std::sync::Arc;

use weir_filter::Filter;
use weir_policy::Caller;

use crate::embedded::Embedded;
use crate::embedded::record::DocumentRecord;
use crate::{IndexQuery, Result};

/// A checked query of a caller. The only input that a search takes.
pub(crate) struct RestrictedQuery {
    /// Its filter includes the mandatory one.
    pub(crate) query: IndexQuery,
    /// The caller's mandatory filter: other documents do not exist for the caller.
    pub(super) mandatory: Option<Arc<Filter>>,
}

impl Embedded {
    /// Checks a query and restricts it to documents that pass the caller's mandatory filter.
    ///
    /// Only fields in the query itself must be known: a mandatory filter on a field that no document has had passes no document.
    pub(crate) fn restrict(&self, caller: &Caller, query: IndexQuery) -> Result<RestrictedQuery> {
        self.check_parameters(&query)?;
        let mandatory = caller.filter.clone();
        // the names of other documents' fields are not for restricted callers
        self.snapshot().check_fields(&query, mandatory.is_none())?;
        let filter = match (&mandatory, query.filter) {
            (Some(mandatory), Some(filter)) => Some(Filter::and((**mandatory).clone(), filter)),
            (Some(mandatory), None) => Some((**mandatory).clone()),
            (None, filter) => filter,
        };
        Ok(RestrictedQuery { query: IndexQuery { filter, ..query }, mandatory })
    }
}

impl RestrictedQuery {
    /// Whether the document exists for the caller.
    pub(super) fn shows(&self, document: &DocumentRecord<'_>) -> bool {
        let metadata = || serde_json::from_str(document.metadata).unwrap_or_default();
        self.mandatory.as_ref().is_none_or(|filter| filter.evaluate(&metadata()))
    }
}
