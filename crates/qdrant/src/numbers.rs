//! The points that a search was given, by their numbers.

use std::sync::Arc;

use hashbrown::HashMap;
use uuid::Uuid;

use crate::{CHUNK, CHUNKS, DOCUMENT, FoundPoint, METADATA, PointVersion, VERSION};

/// A point that was found.
#[derive(Debug, Clone)]
pub struct KnownPoint {
    /// Its id.
    pub id: Uuid,
    /// The id of its document.
    pub document_id: Arc<str>,
    /// Its position in the document.
    pub chunk: u32,
    /// The version of the document.
    pub version: u64,
    /// The chunks of the document, if their number was asked for.
    pub chunks: Option<u32>,
    /// The number of its document.
    pub document: u32,
    /// Its metadata, if it was asked for.
    pub metadata: Option<String>,
}

/// The numbers of points and documents.
#[derive(Debug, Default)]
pub struct PointNumbers {
    /// By number.
    pub chunks: Vec<KnownPoint>,
    by_id: HashMap<Uuid, u32>,
    /// The number of a document: that of its point that came first.
    pub by_document: HashMap<Arc<str>, u32>,
    /// By number of the document, its newest version that came.
    newest: Vec<u64>,
}

impl KnownPoint {
    /// Under which [`PointCache`](crate::PointCache) keeps what belongs to it.
    pub fn point_version(&self) -> PointVersion {
        (self.id, self.version)
    }
}

impl PointNumbers {
    /// Makes room for more points.
    pub fn reserve(&mut self, more: usize) {
        self.chunks.reserve(more);
        self.by_id.reserve(more);
        self.by_document.reserve(more);
        self.newest.reserve(more);
    }

    /// Gives a point and its document their numbers; returns that of the point, `None` if it is of no document.
    pub fn add(&mut self, point: &FoundPoint) -> Option<u32> {
        let document_id = point.text(DOCUMENT)?;
        let chunk = point.integer(CHUNK).and_then(|chunk| u32::try_from(chunk).ok());
        let version = version_of(point);
        let metadata = point.text(METADATA).map(str::to_owned);
        let chunks = point.integer(CHUNKS).and_then(|chunks| u32::try_from(chunks).ok());
        if let Some(number) = self.by_id.get(&point.id) {
            let known = &mut self.chunks[*number as usize];
            known.version = version;
            known.metadata = metadata.or(known.metadata.take());
            known.chunks = chunks.or(known.chunks);
            let newest = &mut self.newest[known.document as usize];
            *newest = version.max(*newest);
            return Some(*number);
        }
        let number = self.next();
        let (document, document_id) = match self.by_document.get_key_value(document_id) {
            Some((id, document)) => (*document, id.clone()),
            None => {
                let id: Arc<str> = document_id.into();
                self.by_document.insert(id.clone(), number);
                (number, id)
            }
        };
        let chunk = chunk.unwrap_or_default();
        let id = point.id;
        self.push(KnownPoint { id, document_id, chunk, version, chunks, document, metadata });
        let newest = &mut self.newest[document as usize];
        *newest = version.max(*newest);
        Some(number)
    }

    /// The number of another chunk of the document of a point that has one, in the same version.
    pub fn add_sibling(&mut self, known: &KnownPoint, chunk: u32, id: Uuid) -> u32 {
        if let Some(number) = self.by_id.get(&id) {
            return *number;
        }
        let number = self.next();
        self.push(KnownPoint { id, chunk, ..known.clone() });
        number
    }

    fn next(&self) -> u32 {
        self.chunks.len() as u32
    }

    fn push(&mut self, point: KnownPoint) {
        self.by_id.insert(point.id, self.next());
        self.newest.push(0);
        self.chunks.push(point);
    }

    /// Whether no newer version of its document came with a point.
    pub fn is_newest(&self, chunk_id: u32) -> bool {
        let known = &self.chunks[chunk_id as usize];
        known.version == self.newest[known.document as usize]
    }

    /// The version of the document of a point.
    pub fn version_of(&self, chunk_id: u32) -> u64 {
        self.chunks[chunk_id as usize].version
    }

    /// The place of a point in an order that is the same in each search: of versions, ids and positions.
    pub fn place(&self, chunk_id: u32) -> (u64, &str, u32) {
        let known = &self.chunks[chunk_id as usize];
        (known.version, &known.document_id, known.chunk)
    }

    /// The number of the document of a point.
    pub fn document_of(&self, chunk_id: u32) -> Option<u32> {
        self.chunks.get(chunk_id as usize).map(|known| known.document)
    }
}

/// The version of the document of a point; 0 without one.
pub fn version_of(point: &FoundPoint) -> u64 {
    point.integer(VERSION).and_then(|version| u64::try_from(version).ok()).unwrap_or(0)
}
