//! What a search knows: the terms of its query, and the chunks that it was given, by their numbers.

use std::sync::Arc;

use hashbrown::HashMap;
use weir_qdrant::{FoundPoint, Uuid, term_index};
use weir_query::Query;
use weir_text::QueryTerm;

use super::Shared;
use super::points::{CHUNK, DOCUMENT, METADATA, VERSION};
use crate::IndexQuery;

/// Terms of a query that are searched; of longer ones the first.
const TERMS_MAX: usize = 64;

/// A term of the query.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) term: QueryTerm,
    /// Its number in sparse vectors.
    pub(super) index: u32,
}

/// A chunk that the search was given.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) id: Uuid,
    pub(super) document_id: Arc<str>,
    pub(super) chunk: u32,
    pub(super) version: u64,
    /// The number of its document.
    pub(super) document: u32,
    /// Its metadata, if it was asked for.
    pub(super) metadata: Option<String>,
}

/// The numbers of chunks and documents.
#[derive(Default)]
pub(super) struct Numbers {
    /// By number.
    pub(super) chunks: Vec<Known>,
    pub(super) by_id: HashMap<Uuid, u32>,
    pub(super) by_document: HashMap<Arc<str>, u32>,
    /// By number of the document, its newest version that came.
    newest: Vec<u64>,
}

impl Numbers {
    /// Gives a point and its document their numbers; returns that of the point, `None` if it is of no document.
    pub(super) fn add(&mut self, point: &FoundPoint) -> Option<u32> {
        let document_id = point.text(DOCUMENT)?;
        let chunk = point.integer(CHUNK).and_then(|chunk| u32::try_from(chunk).ok());
        let version = version_of(point);
        let metadata = point.text(METADATA).map(str::to_owned);
        if let Some(number) = self.by_id.get(&point.id) {
            let known = &mut self.chunks[*number as usize];
            known.version = version;
            known.metadata = metadata.or(known.metadata.take());
            let newest = &mut self.newest[known.document as usize];
            *newest = version.max(*newest);
            return Some(*number);
        }
        let number = self.chunks.len() as u32;
        let (document, document_id) = match self.by_document.get_key_value(document_id) {
            Some((id, document)) => (*document, id.clone()),
            None => {
                let id: Arc<str> = document_id.into();
                self.by_document.insert(id.clone(), number);
                (number, id)
            }
        };
        self.by_id.insert(point.id, number);
        self.newest.push(0);
        let newest = &mut self.newest[document as usize];
        *newest = version.max(*newest);
        let chunk = chunk.unwrap_or_default();
        self.chunks.push(Known { id: point.id, document_id, chunk, version, document, metadata });
        Some(number)
    }

    /// Whether no newer version of its document came with a chunk.
    pub(super) fn is_newest(&self, chunk_id: u32) -> bool {
        let known = &self.chunks[chunk_id as usize];
        known.version == self.newest[known.document as usize]
    }

    pub(super) fn version_of(&self, chunk_id: u32) -> u64 {
        self.chunks[chunk_id as usize].version
    }

    /// The place of a chunk in an order that is the same in each search: of versions, ids and positions.
    pub(super) fn place(&self, chunk_id: u32) -> (u64, &str, u32) {
        let known = &self.chunks[chunk_id as usize];
        (known.version, &known.document_id, known.chunk)
    }

    pub(super) fn document_of(&self, chunk_id: u32) -> Option<u32> {
        self.chunks.get(chunk_id as usize).map(|known| known.document)
    }
}

pub(super) fn version_of(point: &FoundPoint) -> u64 {
    point.integer(VERSION).and_then(|version| u64::try_from(version).ok()).unwrap_or(0)
}

/// The words of the query, and all terms that are searched.
pub(super) fn terms_of(request: &IndexQuery, engine: &Shared) -> (Option<Vec<QueryTerm>>, Vec<Term>) {
    let Some(Query::Words(text)) = &request.query else { return (None, Vec::new()) };
    let found = weir_text::query_terms(text, engine.settings.language, None);
    let mut words = found.terms;
    words.truncate(TERMS_MAX);
    let mut terms: Vec<Term> = Vec::new();
    for term in words.iter().chain(&found.forms).take(TERMS_MAX) {
        let index = term_index(&term.text);
        // a vector has each number once
        if terms.iter().all(|known| known.index != index) {
            terms.push(Term { term: term.clone(), index });
        }
    }
    (Some(words), terms)
}
