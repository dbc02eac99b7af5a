//! Hash table of live documents by id: eight bytes per entry; the ids stay in the file.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::record::DocumentRecord;

/// Runs in which a table is filled: at a million documents, the places of one fit the second-level cache.
const PARTS: usize = 64;

/// Offsets of the live documents' records in the file `documents`.
///
/// Every call takes the bytes of the file, which must contain all inserted records.
#[derive(Debug, Default)]
pub(crate) struct DocumentTable {
    offsets: HashTable<u64>,
    hasher: RandomState,
}

impl DocumentTable {
    /// The table of those records of the whole file that are live, `count` of them; `None` if there are more or fewer, if two have
    /// the same id, or if the file is malformed.
    ///
    /// Entries are inserted in [`PARTS`] runs of neighbouring places, because a table of many documents exceeds the cache.
    pub(crate) fn read(
        documents: &[u8],
        count: usize,
        is_live: impl Fn(&DocumentRecord<'_>) -> bool,
    ) -> Option<DocumentTable> {
        let hasher = RandomState::default();
        // the table takes a place by the lower bits of the hash, and is at most 7/8 full
        let places = (count + count / 7 + 1).next_power_of_two();
        let part = |hash: u64| (hash as usize & (places - 1)) * PARTS / places;
        let part_capacity = count / PARTS + 1;
        let mut parts: Vec<Vec<(u64, u64)>> = (0..PARTS).map(|_| Vec::with_capacity(part_capacity)).collect();
        let (mut offset, mut live) = (0, 0);
        while offset < documents.len() as u64 {
            let (record, next) = DocumentRecord::read(documents, offset)?;
            if is_live(&record) {
                let hash = hasher.hash_one(record.id);
                parts[part(hash)].push((hash, offset));
                live += 1;
            }
            offset = next;
        }
        if live != count {
            return None;
        }
        let mut offsets: HashTable<u64> = HashTable::with_capacity(count);
        for (hash, offset) in parts.into_iter().flatten() {
            let same_id = |&other: &u64| {
                record_at(documents, offset).is_some_and(|record| has_id(documents, other, record.id))
            };
            if offsets.find(hash, same_id).is_some() {
                return None;
            }
            offsets.insert_unique(hash, offset, |&other| {
                record_at(documents, other).map_or(0, |record| hasher.hash_one(record.id))
            });
        }
        Some(DocumentTable { offsets, hasher })
    }

    /// Number of live documents.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The live document with this id.
    pub(crate) fn find<'a>(&self, id: &str, documents: &'a [u8]) -> Option<DocumentRecord<'a>> {
        let offset = self.offsets.find(self.hasher.hash_one(id), |&offset| has_id(documents, offset, id))?;
        record_at(documents, *offset)
    }

    /// Removes the document with this id and returns its record.
    pub(crate) fn remove<'a>(&mut self, id: &str, documents: &'a [u8]) -> Option<DocumentRecord<'a>> {
        let hash = self.hasher.hash_one(id);
        let entry = self.offsets.find_entry(hash, |&offset| has_id(documents, offset, id)).ok()?;
        record_at(documents, entry.remove().0)
    }

    /// Inserts the record at `offset`, replacing one with the same id. Returns whether there was none, or `None` if there is no
    /// record at `offset`.
    pub(crate) fn insert(&mut self, offset: u64, documents: &[u8]) -> Option<bool> {
        let id = record_at(documents, offset)?.id;
        let hasher = &self.hasher;
        let rehash =
            |&offset: &u64| record_at(documents, offset).map_or(0, |record| hasher.hash_one(record.id));
        match self.offsets.entry(hasher.hash_one(id), |&other| has_id(documents, other, id), rehash) {
            Entry::Occupied(mut entry) => {
                *entry.get_mut() = offset;
                Some(false)
            }
            Entry::Vacant(entry) => {
                entry.insert(offset);
                Some(true)
            }
        }
    }

    /// Heap bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.offsets.allocation_size()
    }
}

fn record_at(documents: &[u8], offset: u64) -> Option<DocumentRecord<'_>> {
    DocumentRecord::read(documents, offset).map(|(record, _)| record)
}

fn has_id(documents: &[u8], offset: u64, id: &str) -> bool {
    record_at(documents, offset).is_some_and(|record| record.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(ids: &[&str]) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = Vec::new();
        let mut offsets = Vec::new();
        for (place, id) in ids.iter().enumerate() {
            offsets.push(bytes.len() as u64);
            let first_chunk = place as u32;
            let record = DocumentRecord {
                version: 1,
                first_chunk,
                chunks: 1,
                id,
                title: None,
                metadata: "",
                pages: None,
            };
            record.write(&mut bytes).unwrap();
        }
        (bytes, offsets)
    }

    #[test]
    fn documents_are_found_by_id_until_they_are_removed() {
        let ids: Vec<String> = (0..1000).map(|number| format!("id {number}")).collect();
        let (bytes, offsets) = documents(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        let mut table = DocumentTable::default();
        for &offset in &offsets {
            assert_eq!(table.insert(offset, &bytes), Some(true));
        }
        assert_eq!(table.find("id 700", &bytes).map(|record| record.first_chunk), Some(700));
        assert_eq!(table.remove("id 700", &bytes).map(|record| record.first_chunk), Some(700));
        assert_eq!(table.remove("id 700", &bytes), None);
        assert_eq!(table.find("id 700", &bytes), None);
        assert_eq!(table.len(), 999);
    }

    #[test]
    fn a_table_is_read_from_all_live_records() {
        let ids: Vec<String> = (0..1000).map(|number| format!("id {number}")).collect();
        let (bytes, _) = documents(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        let is_live = |record: &DocumentRecord<'_>| !record.first_chunk.is_multiple_of(3);
        let mut table = DocumentTable::read(&bytes, 666, is_live).unwrap();
        for (number, id) in (0..).zip(&ids) {
            let found = table.find(id, &bytes).map(|record| record.first_chunk);
            assert_eq!(found, (number % 3 != 0).then_some(number));
        }
        assert_eq!(table.len(), 666);
        assert_eq!(table.remove("id 700", &bytes).map(|record| record.first_chunk), Some(700));
        assert_eq!(table.insert(0, &bytes), Some(true));
        assert!(DocumentTable::read(&bytes, 665, is_live).is_none(), "one more");
        assert!(DocumentTable::read(&bytes[..bytes.len() - 1], 666, is_live).is_none(), "malformed");
        assert_eq!(DocumentTable::read(&[], 0, is_live).unwrap().len(), 0);
        let (twice, _) = documents(&["a", "b", "a"]);
        assert!(DocumentTable::read(&twice, 3, |_| true).is_none(), "the same id twice");
        assert_eq!(DocumentTable::read(&twice, 2, |record| record.first_chunk > 0).unwrap().len(), 2);
    }

    #[test]
    fn a_newer_record_replaces_the_older_one() {
        let (bytes, offsets) = documents(&["a", "a"]);
        let mut table = DocumentTable::default();
        table.insert(offsets[0], &bytes);
        assert_eq!(table.insert(offsets[1], &bytes), Some(false));
        assert_eq!(table.find("a", &bytes).map(|record| record.first_chunk), Some(1));
        assert_eq!(table.insert(bytes.len() as u64, &bytes), None);
    }
}
