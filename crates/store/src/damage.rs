//! The damaged rows that reads have met and skipped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{CollectionId, Error, Result};

/// Rows that are kept: a badly damaged file has more than anybody reads.
const ROWS_MAX: usize = 1_000;

/// The damaged rows that were skipped since the store was opened, except those that were replaced or deleted. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Damage(Arc<Mutex<BTreeMap<String, Option<Document>>>>);

/// The document of a damaged row.
pub(crate) type Document = (CollectionId, String);

impl Damage {
    /// The result of reading a row, or `None` if the row is damaged, which is noted.
    pub(crate) fn skip<T>(&self, read: Result<T>) -> Result<Option<T>> {
        self.skip_document(read, || None)
    }

    /// The same for a row of a document: its note ends when the document is replaced or deleted.
    pub(crate) fn skip_document<T>(
        &self,
        read: Result<T>,
        document: impl FnOnce() -> Option<Document>,
    ) -> Result<Option<T>> {
        match read {
            Ok(found) => Ok(Some(found)),
            Err(Error::Damaged { what, row })
                if what != Error::WHOLE_FILE && what != Error::WHOLE_DATABASE =>
            {
                let mut rows = self.rows();
                if rows.len() < ROWS_MAX {
                    rows.insert(format!("{what} {row}"), document());
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends the notes of a document, which was replaced or deleted.
    pub(crate) fn forget(&self, collection: CollectionId, id: &str) {
        let mut rows = self.rows();
        if !rows.is_empty() {
            let is_same = |(other, name): &Document| *other == collection && name == id;
            rows.retain(|_, document| !document.as_ref().is_some_and(is_same));
        }
    }

    /// The rows, each by its kind and name.
    pub(crate) fn list(&self) -> Vec<String> {
        self.rows().keys().cloned().collect()
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Option<Document>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
