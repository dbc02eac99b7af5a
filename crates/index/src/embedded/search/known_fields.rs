//! The metadata fields that a caller's queries can name.

use std::cell::OnceCell;

use weir_ranking::Selection;

use crate::embedded::snapshot::Snapshot;
use crate::search::TITLE;
use crate::{IndexError, Result};

/// Maximum number of known fields in the error about an unknown field.
const KNOWN_FIELDS_SHOWN: usize = 50;

/// The fields of the documents that exist for a caller: all that a document has had; or, with a mandatory filter, those of the caller's
/// live documents, so that the fields of hidden ones are as unknown as any other.
pub(super) struct KnownFields<'a> {
    snapshot: &'a Snapshot,
    /// The chunks that the mandatory filter passes.
    own: Option<&'a Selection>,
    /// Their live documents, as a bitmap.
    documents: OnceCell<Vec<u64>>,
}

impl<'a> KnownFields<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, own: Option<&'a Selection>) -> KnownFields<'a> {
        KnownFields { snapshot, own, documents: OnceCell::new() }
    }

    /// Whether a query can name the field.
    pub(super) fn has(&self, name: &str) -> bool {
        name == TITLE || self.has_metadata(name)
    }

    fn has_metadata(&self, path: &str) -> bool {
        let fields = &self.snapshot.fields;
        let Some(own) = self.own else { return fields.has_field(path) };
        let documents = || fields.documents_of(&self.snapshot.tombstones, Some(own));
        fields.has_field(path) && fields.has_field_among(path, self.documents.get_or_init(documents))
    }

    /// Rejects unknown fields.
    pub(super) fn check<'f>(&self, mut named: impl Iterator<Item = &'f str>) -> Result<()> {
        let Some(unknown) = named.find(|path| !self.has_metadata(path)) else { return Ok(()) };
        let known = self.snapshot.fields.known().filter(|path| self.has_metadata(path));
        Err(IndexError::UnknownField {
            field: unknown.to_owned(),
            known: known.take(KNOWN_FIELDS_SHOWN).map(str::to_owned).collect(),
            // hidden documents fill the index too
            is_full: self.own.is_none() && self.snapshot.fields.is_full(),
        })
    }
}
