//! The metadata of all documents, in memory, by field: what filters, facets and sorting read.
//!
//! Documents are numbered in the order of the file `documents`, deleted ones included. Segments of [`SEGMENT_DOCUMENTS`] are
//! shared between snapshots; every commit that adds to the last one copies it. Everything is computed from that file, so no other
//! stores it.

mod column;
mod facets;
mod lazy;
mod order;
mod sorted;

pub(crate) use column::smallest;
pub(crate) use lazy::LazyFields;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use column::{Column, NewValues};
use weir_filter::Filter;
use weir_ranking::{Selection, Tombstones, set_bits};

use super::record::DocumentRecord;

/// Documents per segment: a row number has 16 bits, and a segment's bitmap fills whole words.
const SEGMENT_DOCUMENTS: usize = 1 << 14;
const SEGMENT_WORDS: usize = SEGMENT_DOCUMENTS / 64;
/// Maximum number of fields in a collection; later ones cannot be used in filters.
pub(crate) const FIELDS_MAX: usize = 4096;
/// Maximum number of filters whose results are cached.
const CACHED_FILTERS_MAX: usize = 16;
/// Maximum bytes of the cached results of filters of one open index.
pub const FILTER_CACHE_BYTES_MAX: usize = 16 << 20;

/// The fields of all documents of a snapshot.
#[derive(Default)]
pub(crate) struct Fields {
    /// Bytes of the file `documents` read so far.
    bytes: u64,
    segments: Vec<Arc<Segment>>,
    /// All usable fields. Once there are [`FIELDS_MAX`], no field is added, so that each is indexed for all documents or for
    /// none.
    paths: BTreeSet<Box<str>>,
    /// The latest filters and the chunks that pass them, the most recently used last.
    cached: Mutex<Vec<CachedFilter>>,
}

/// A filter and the chunks that pass it.
struct CachedFilter {
    filter: Filter,
    selection: Arc<Selection>,
    /// Of both, estimated.
    bytes: usize,
}

fn bytes_of(cached: &[CachedFilter]) -> usize {
    cached.iter().map(|cached| cached.bytes).sum()
}

#[derive(Clone, Default)]
struct Segment {
    /// First chunk id of each document.
    first_chunks: Vec<u32>,
    /// End of the chunk ids, exclusive.
    end_chunk: u32,
    columns: BTreeMap<Box<str>, Column>,
}

impl Clone for Fields {
    fn clone(&self) -> Fields {
        Fields {
            bytes: self.bytes,
            segments: self.segments.clone(),
            paths: self.paths.clone(),
            cached: Mutex::default(),
        }
    }
}

impl Fields {
    /// Adds the documents of the file that were not read yet; `None` if their records are malformed.
    pub(crate) fn extend(&mut self, documents: &[u8]) -> Option<()> {
        self.cached = Mutex::default();
        while self.bytes < documents.len() as u64 {
            let mut segment = match self.segments.last() {
                Some(last) if last.first_chunks.len() < SEGMENT_DOCUMENTS => {
                    let last = Segment::clone(last);
                    self.segments.pop();
                    last
                }
                Some(_) | None => Segment::default(),
            };
            let mut added: BTreeMap<Box<str>, NewValues> = BTreeMap::new();
            while self.bytes < documents.len() as u64 && segment.first_chunks.len() < SEGMENT_DOCUMENTS {
                let (record, next) = DocumentRecord::read(documents, self.bytes)?;
                let row = segment.first_chunks.len() as u16;
                segment.first_chunks.push(record.first_chunk);
                segment.end_chunk = record.first_chunk + record.chunks;
                self.bytes = next;
                collect(&mut self.paths, record.metadata, row, &mut added);
            }
            for (path, added) in added {
                let column = segment.columns.entry(path).or_default();
                *column = column.with(added);
            }
            self.segments.push(Arc::new(segment));
        }
        Some(())
    }

    /// Bytes of the file `documents` read so far.
    pub(crate) fn documents_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a document has ever had this field.
    pub(crate) fn has_field(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether one of the documents of a bitmap has this field.
    pub(crate) fn has_field_among(&self, path: &str, documents: &[u64]) -> bool {
        let mut segments = self.segments.iter().zip(documents.chunks(SEGMENT_WORDS));
        segments.any(|(segment, rows)| {
            let is_among = |row: &u16| rows[usize::from(*row) / 64] >> (row % 64) & 1 != 0;
            segment.columns.get(path).is_some_and(|column| column.has_any(is_among))
        })
    }

    /// Whether no other field can be added.
    pub(crate) fn is_full(&self) -> bool {
        self.paths.len() == FIELDS_MAX
    }

    /// All fields that documents have had, sorted.
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| &**path)
    }

    /// Number of documents, deleted ones included.
    pub(crate) fn documents(&self) -> usize {
        match self.segments.split_last() {
            Some((last, full)) => full.len() * SEGMENT_DOCUMENTS + last.first_chunks.len(),
            None => 0,
        }
    }

    /// The chunk ids of a document.
    pub(crate) fn chunk_ids(&self, document: u32) -> Range<u32> {
        let (segment, row) = (document as usize / SEGMENT_DOCUMENTS, document as usize % SEGMENT_DOCUMENTS);
        self.segments[segment].chunk_ids(row)
    }

    /// The document of a chunk; the last one for chunk ids beyond the end.
    pub(crate) fn document_of(&self, chunk_id: u32) -> u32 {
        let segment =
            self.segments.partition_point(|segment| segment.first_chunk() <= chunk_id).saturating_sub(1);
        let row = match self.segments.get(segment) {
            Some(segment) => {
                segment.first_chunks.partition_point(|&first| first <= chunk_id).saturating_sub(1)
            }
            None => 0,
        };
        (segment * SEGMENT_DOCUMENTS + row) as u32
    }

    /// The chunks of the documents that pass the filter. Recent results are cached.
    pub(crate) fn select(&self, filter: &Filter) -> Arc<Selection> {
        let lock = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut cached = lock();
            if let Some(place) = cached.iter().position(|other| other.filter == *filter) {
                let found = cached.remove(place);
                let selection = Arc::clone(&found.selection);
                cached.push(found);
                return selection;
            }
        }
        let selection = Arc::new(self.chunk_ids_of(&self.evaluate(filter)));
        // each part of a filter takes a few times its encoding
        let bytes = selection.bytes() + 4 * filter.canonical().len();
        if bytes <= FILTER_CACHE_BYTES_MAX {
            let mut cached = lock();
            cached.push(CachedFilter { filter: filter.clone(), selection: Arc::clone(&selection), bytes });
            while cached.len() > CACHED_FILTERS_MAX || bytes_of(&cached) > FILTER_CACHE_BYTES_MAX {
                cached.remove(0);
            }
        }
        selection
    }

    /// Bytes of the cached results.
    pub(crate) fn cached_bytes(&self) -> usize {
        bytes_of(&self.cached.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The documents that pass the filter, as a bitmap.
    fn evaluate(&self, filter: &Filter) -> Vec<u64> {
        self.segments.iter().flat_map(|segment| *segment.evaluate(filter)).collect()
    }

    /// The chunks of the documents.
    fn chunk_ids_of(&self, documents: &[u64]) -> Selection {
        let chunk_count = self.segments.last().map_or(0, |last| last.end_chunk);
        let mut words = vec![0; chunk_count.div_ceil(64) as usize];
        for (segment, rows) in self.segments.iter().zip(documents.chunks(SEGMENT_WORDS)) {
            for_each_bit(rows, |row| {
                let chunk_ids = segment.chunk_ids(row);
                set_bits(&mut words, chunk_ids.start, chunk_ids.end);
            });
        }
        Selection::of_words(words)
    }

    /// Number of chunks of the documents of a bitmap.
    pub(crate) fn chunks_in(&self, documents: &[u64]) -> usize {
        let mut count = 0;
        for (segment, rows) in self.segments.iter().zip(documents.chunks(SEGMENT_WORDS)) {
            for_each_bit(rows, |row| count += segment.chunk_ids(row).len());
        }
        count
    }

    /// The documents with at least one visible chunk, as a bitmap.
    pub(crate) fn documents_of(&self, tombstones: &Tombstones, selection: Option<&Selection>) -> Vec<u64> {
        let mut words = vec![0; self.segments.len() * SEGMENT_WORDS];
        let Some(selection) = selection else {
            for (segment, rows) in self.segments.iter().zip(words.chunks_mut(SEGMENT_WORDS)) {
                for (row, _) in
                    (0..).zip(&segment.first_chunks).filter(|(_, first)| tombstones.is_live(**first))
                {
                    set_bits(rows, row, row + 1);
                }
            }
            return words;
        };
        let mut segments = self.segments.iter().zip(words.chunks_mut(SEGMENT_WORDS)).peekable();
        let (mut row, mut end) = (0, 0);
        for chunk_id in selection
            .chunk_ids()
            .take_while(|chunk_id| self.segments.last().is_some_and(|last| *chunk_id < last.end_chunk))
        {
            if chunk_id < end {
                continue; // of the same document as the one before
            }
            while segments.next_if(|(segment, _)| segment.end_chunk <= chunk_id).is_some() {
                row = 0;
            }
            let Some((segment, rows)) = segments.peek_mut() else { break };
            row = segment.row_of(chunk_id, row);
            let chunk_ids = segment.chunk_ids(row);
            end = chunk_ids.end;
            if tombstones.is_live(chunk_ids.start) {
                set_bits(rows, row as u32, row as u32 + 1);
            }
        }
        words
    }
}

fn collect(
    paths: &mut BTreeSet<Box<str>>,
    metadata: &str,
    row: u16,
    added: &mut BTreeMap<Box<str>, NewValues>,
) {
    // metadata that is not an object (in tests) has no fields
    let Ok(metadata) = serde_json::from_str(metadata) else { return };
    weir_filter::flatten(&metadata, |path, value| {
        if !paths.contains(path) {
            if paths.len() == FIELDS_MAX {
                return;
            }
            paths.insert(path.into());
        }
        match added.get_mut(path) {
            Some(added) => added.push(value, row),
            None => added.entry(path.into()).or_default().push(value, row),
        }
    });
}

type RowBitmap = Box<[u64; SEGMENT_WORDS]>;

impl Segment {
    fn first_chunk(&self) -> u32 {
        self.first_chunks.first().copied().unwrap_or(self.end_chunk)
    }

    /// The row of a chunk of this segment, at or after row `from`. Galloping search: it is usually close.
    fn row_of(&self, chunk_id: u32, from: usize) -> usize {
        let rest = &self.first_chunks[from..];
        let mut steps = 1;
        while rest.get(steps).is_some_and(|&first| first <= chunk_id) {
            steps *= 2;
        }
        let (near, far) = (steps / 2, steps.min(rest.len()));
        from + near + rest[near..far].partition_point(|&first| first <= chunk_id).saturating_sub(1)
    }

    fn chunk_ids(&self, row: usize) -> Range<u32> {
        self.first_chunks[row]..self.first_chunks.get(row + 1).copied().unwrap_or(self.end_chunk)
    }

    fn evaluate(&self, filter: &Filter) -> RowBitmap {
        match filter {
            Filter::And(filters) => self.combine(self.all(), filters, |word, other| word & other),
            Filter::Or(filters) => self.combine(none(), filters, |word, other| word | other),
            Filter::Not(filter) => self.combine(self.all(), [&**filter], |word, other| word & !other),
            Filter::Condition { path, test } => {
                let mut rows = none();
                if let Some(column) = self.columns.get(path.as_str()) {
                    column.select(test, |found| {
                        for &row in found {
                            rows[usize::from(row) / 64] |= 1 << (row % 64);
                        }
                    });
                }
                rows
            }
        }
    }

    /// Combines `rows` with those that pass each filter, word by word.
    fn combine<'f>(
        &self,
        mut rows: RowBitmap,
        filters: impl IntoIterator<Item = &'f Filter>,
        combine: impl Fn(u64, u64) -> u64,
    ) -> RowBitmap {
        for filter in filters {
            let others = self.evaluate(filter);
            rows.iter_mut().zip(others.iter()).for_each(|(word, other)| *word = combine(*word, *other));
        }
        rows
    }

    fn all(&self) -> RowBitmap {
        let mut rows = none();
        set_bits(rows.as_mut_slice(), 0, self.first_chunks.len() as u32);
        rows
    }
}

fn none() -> RowBitmap {
    Box::new([0; SEGMENT_WORDS])
}

/// Calls `found` with the position of every set bit.
fn for_each_bit(words: &[u64], mut found: impl FnMut(usize)) {
    for (index, &word) in words.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            found(index * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of documents with this metadata, one chunk each.
    fn file(metadata: &[String]) -> Vec<u8> {
        let mut file = Vec::new();
        for (chunk_id, metadata) in (0..).zip(metadata) {
            let record = DocumentRecord {
                version: 1,
                first_chunk: chunk_id,
                chunks: 1,
                id: "",
                title: None,
                metadata,
                pages: None,
            };
            record.write(&mut file).unwrap();
        }
        file
    }

    #[test]
    fn fields_beyond_the_limit_are_unknown_for_all_documents() {
        let many: Vec<String> = (0..16)
            .map(|of| (of * 256..(of + 1) * 256).map(|field| format!(r#""f{field}":1"#)))
            .map(|fields| format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
            .collect();
        let half = file(&many[..15]);
        let mut metadata = many;
        metadata.extend([r#"{"late":1,"f0":1}"#.to_owned(), r#"{"f1":1}"#.to_owned()]);
        let whole = file(&metadata);
        let mut fields = Fields::default();
        fields.extend(&half).unwrap();
        assert_eq!(fields.known().count(), 3840);
        fields.extend(&whole).unwrap();
        assert_eq!(fields.known().count(), FIELDS_MAX);
        assert!(fields.has_field("f4095") && !fields.has_field("late"));
        let with = |path: &str| {
            fields
                .select(&Filter::parse(&format!(r#"{{"{path}":1}}"#)).unwrap())
                .chunk_ids()
                .collect::<Vec<_>>()
        };
        assert_eq!((with("f0"), with("f1")), (vec![0, 16], vec![0, 17]));
        let mut at_once = Fields::default();
        at_once.extend(&whole).unwrap();
        assert_eq!(at_once.known().collect::<Vec<_>>(), fields.known().collect::<Vec<_>>());
    }
}
