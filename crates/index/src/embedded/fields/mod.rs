//! The metadata of all documents by field, in memory: what filters, facets and sorting read.
//!
//! Documents are numbered in the order of the file `documents`, dead ones too. Segments of [`SEGMENT_DOCUMENTS`] are
//! shared between snapshots, and the last one is made anew by every commit that adds to it. All of it follows from
//! that file, so no other holds it.

mod column;
mod facets;
mod order;
mod sorted;

pub(crate) use column::smallest;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use column::{Added, Column};

use super::record::DocumentRecord;
use super::selection::{Selection, set_bits};
use super::tombstones::Tombstones;
use weir_filter::Filter;

/// Documents of a segment; a row in it has 16 bits, and a segment's rows fill whole words.
const SEGMENT_DOCUMENTS: usize = 1 << 14;
const SEGMENT_WORDS: usize = SEGMENT_DOCUMENTS / 64;
/// Fields of a collection that can be filtered by, those that came first.
pub(crate) const FIELDS_MAX: usize = 4096;
/// Filters whose outcome is remembered.
const REMEMBERED: usize = 16;

/// The fields of every document up to a moment.
#[derive(Default)]
pub(crate) struct Fields {
    /// Bytes of the file `documents` that are in.
    bytes: u64,
    segments: Vec<Arc<Segment>>,
    /// Every field that can be filtered by. Once there are [`FIELDS_MAX`], no other becomes one, so that each is known of all
    /// documents or of none.
    paths: BTreeSet<Box<str>>,
    /// The latest filters and the slots that they let through, the last used last.
    remembered: Mutex<Vec<(Filter, Arc<Selection>)>>,
}

#[derive(Clone, Default)]
struct Segment {
    /// The first slot of each document.
    first_slots: Vec<u32>,
    /// The slot after the last.
    end_slot: u32,
    columns: BTreeMap<Box<str>, Column>,
}

impl Clone for Fields {
    fn clone(&self) -> Fields {
        Fields {
            bytes: self.bytes,
            segments: self.segments.clone(),
            paths: self.paths.clone(),
            remembered: Mutex::default(),
        }
    }
}

impl Fields {
    /// Adds what the file `documents` has beyond what is in; `None` when it does not hold records there.
    pub(crate) fn extend(&mut self, documents: &[u8]) -> Option<()> {
        self.remembered = Mutex::default();
        while self.bytes < documents.len() as u64 {
            let mut segment = match self.segments.last() {
                Some(last) if last.first_slots.len() < SEGMENT_DOCUMENTS => {
                    let last = Segment::clone(last);
                    self.segments.pop();
                    last
                }
                Some(_) | None => Segment::default(),
            };
            let mut added: BTreeMap<Box<str>, Added> = BTreeMap::new();
            while self.bytes < documents.len() as u64 && segment.first_slots.len() < SEGMENT_DOCUMENTS {
                let (record, next) = DocumentRecord::read(documents, self.bytes)?;
                let row = segment.first_slots.len() as u16;
                segment.first_slots.push(record.first_slot);
                segment.end_slot = record.first_slot + record.chunks;
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

    /// Bytes of the file `documents` that are in.
    pub(crate) fn documents_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a document has ever had this field.
    pub(crate) fn is_known(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether no other field can become known.
    pub(crate) fn is_full(&self) -> bool {
        self.paths.len() == FIELDS_MAX
    }

    /// Every field that a document has had, in order.
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| &**path)
    }

    /// Number of documents, dead ones included.
    pub(crate) fn documents(&self) -> usize {
        match self.segments.split_last() {
            Some((last, full)) => full.len() * SEGMENT_DOCUMENTS + last.first_slots.len(),
            None => 0,
        }
    }

    /// The slots of a document.
    pub(crate) fn slots(&self, document: u32) -> Range<u32> {
        let (segment, row) = (document as usize / SEGMENT_DOCUMENTS, document as usize % SEGMENT_DOCUMENTS);
        self.segments[segment].slots(row)
    }

    /// The document that a slot belongs to; the last one for slots beyond the last.
    pub(crate) fn document_of(&self, slot: u32) -> u32 {
        let segment = self.segments.partition_point(|segment| segment.first_slot() <= slot).saturating_sub(1);
        let row = match self.segments.get(segment) {
            Some(segment) => segment.first_slots.partition_point(|&first| first <= slot).saturating_sub(1),
            None => 0,
        };
        (segment * SEGMENT_DOCUMENTS + row) as u32
    }

    /// The slots of the documents that pass the filter. The filters that were asked last are remembered.
    pub(crate) fn select(&self, filter: &Filter) -> Arc<Selection> {
        let lock = || self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut remembered = lock();
            if let Some(place) = remembered.iter().position(|(other, _)| other == filter) {
                let found = remembered.remove(place);
                let selection = Arc::clone(&found.1);
                remembered.push(found);
                return selection;
            }
        }
        let selection = Arc::new(self.slots_of(&self.evaluate(filter)));
        let mut remembered = lock();
        if remembered.len() >= REMEMBERED {
            remembered.remove(0);
        }
        remembered.push((filter.clone(), Arc::clone(&selection)));
        selection
    }

    /// The documents that pass the filter.
    fn evaluate(&self, filter: &Filter) -> Vec<u64> {
        self.segments.iter().flat_map(|segment| *segment.evaluate(filter)).collect()
    }

    /// The slots of these documents.
    fn slots_of(&self, documents: &[u64]) -> Selection {
        let slots = self.segments.last().map_or(0, |last| last.end_slot);
        let mut words = vec![0; slots.div_ceil(64) as usize];
        for (segment, rows) in self.segments.iter().zip(documents.chunks(SEGMENT_WORDS)) {
            for_each_bit(rows, |row| {
                let slots = segment.slots(row);
                set_bits(&mut words, slots.start, slots.end);
            });
        }
        Selection::of_words(words)
    }

    /// The documents of which a slot is visible.
    pub(crate) fn documents_of(&self, tombstones: &Tombstones, selection: Option<&Selection>) -> Vec<u64> {
        let mut words = vec![0; self.segments.len() * SEGMENT_WORDS];
        let Some(selection) = selection else {
            for (segment, rows) in self.segments.iter().zip(words.chunks_mut(SEGMENT_WORDS)) {
                for (row, _) in
                    (0..).zip(&segment.first_slots).filter(|(_, first)| tombstones.is_live(**first))
                {
                    set_bits(rows, row, row + 1);
                }
            }
            return words;
        };
        let mut segments = self.segments.iter().zip(words.chunks_mut(SEGMENT_WORDS)).peekable();
        let (mut row, mut end) = (0, 0);
        for slot in selection
            .slots()
            .take_while(|slot| self.segments.last().is_some_and(|last| *slot < last.end_slot))
        {
            if slot < end {
                continue; // of the same document as the one before
            }
            while segments.next_if(|(segment, _)| segment.end_slot <= slot).is_some() {
                row = 0;
            }
            let Some((segment, rows)) = segments.peek_mut() else { break };
            row = segment.row_of(slot, row);
            let slots = segment.slots(row);
            end = slots.end;
            if tombstones.is_live(slots.start) {
                set_bits(rows, row as u32, row as u32 + 1);
            }
        }
        words
    }
}

fn collect(paths: &mut BTreeSet<Box<str>>, metadata: &str, row: u16, added: &mut BTreeMap<Box<str>, Added>) {
    // Metadata that is no object (as tests have it) has no fields.
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

type Rows = Box<[u64; SEGMENT_WORDS]>;

impl Segment {
    fn first_slot(&self) -> u32 {
        self.first_slots.first().copied().unwrap_or(self.end_slot)
    }

    /// The row that a slot of the segment belongs to, which is `from` or after it: most often soon after it.
    fn row_of(&self, slot: u32, from: usize) -> usize {
        let rest = &self.first_slots[from..];
        let mut steps = 1;
        while rest.get(steps).is_some_and(|&first| first <= slot) {
            steps *= 2;
        }
        let (near, far) = (steps / 2, steps.min(rest.len()));
        from + near + rest[near..far].partition_point(|&first| first <= slot).saturating_sub(1)
    }

    fn slots(&self, row: usize) -> Range<u32> {
        self.first_slots[row]..self.first_slots.get(row + 1).copied().unwrap_or(self.end_slot)
    }

    fn evaluate(&self, filter: &Filter) -> Rows {
        match filter {
            Filter::And(filters) => {
                let mut rows = self.all();
                for filter in filters {
                    let others = self.evaluate(filter);
                    rows.iter_mut().zip(others.iter()).for_each(|(word, other)| *word &= other);
                }
                rows
            }
            Filter::Or(filters) => {
                let mut rows = none();
                for filter in filters {
                    let others = self.evaluate(filter);
                    rows.iter_mut().zip(others.iter()).for_each(|(word, other)| *word |= other);
                }
                rows
            }
            Filter::Not(filter) => {
                let mut rows = self.all();
                let others = self.evaluate(filter);
                rows.iter_mut().zip(others.iter()).for_each(|(word, other)| *word &= !other);
                rows
            }
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

    fn all(&self) -> Rows {
        let mut rows = none();
        set_bits(rows.as_mut_slice(), 0, self.first_slots.len() as u32);
        rows
    }
}

fn none() -> Rows {
    Box::new([0; SEGMENT_WORDS])
}

/// Calls `found` with the place of every bit that is set.
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

    /// The file of documents with this metadata, one slot each.
    fn file(metadata: &[String]) -> Vec<u8> {
        let mut file = Vec::new();
        for (slot, metadata) in (0..).zip(metadata) {
            let record =
                DocumentRecord { version: 1, first_slot: slot, chunks: 1, id: "", title: None, metadata };
            record.write(&mut file).unwrap();
        }
        file
    }

    #[test]
    fn a_field_beyond_the_limit_is_known_of_no_document_whenever_it_comes() {
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
        assert!(fields.is_known("f4095") && !fields.is_known("late"));
        let with = |path: &str| {
            fields.select(&Filter::parse(&format!(r#"{{"{path}":1}}"#)).unwrap()).slots().collect::<Vec<_>>()
        };
        assert_eq!((with("f0"), with("f1")), (vec![0, 16], vec![0, 17]));
        let mut at_once = Fields::default();
        at_once.extend(&whole).unwrap();
        assert_eq!(at_once.known().collect::<Vec<_>>(), fields.known().collect::<Vec<_>>());
    }
}
