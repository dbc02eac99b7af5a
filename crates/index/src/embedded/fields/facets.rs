//! Value counts of a field.

use std::collections::{HashMap, HashSet};

use super::column::SortValue;
use super::{Fields, SEGMENT_WORDS, for_each_bit};
use crate::search::{FacetSpec, SortKey, ValueCount};

impl Fields {
    /// Counts the documents with each value of the field: most frequent first, then in the order of values.
    pub(crate) fn count_values(&self, facet: &FacetSpec, documents: &[u64]) -> Vec<ValueCount> {
        let mut counts: HashMap<SortValue<'_>, u64> = HashMap::new();
        for (segment, rows) in self.segments.iter().zip(documents.chunks(SEGMENT_WORDS)) {
            let Some(column) = segment.columns.get(facet.field.as_str()) else { continue };
            for (value, holders) in column.values() {
                let is_in = |&&row: &&u16| rows[usize::from(row) / 64] >> (row % 64) & 1 != 0;
                let count = holders.iter().filter(is_in).count() as u64;
                if count > 0 {
                    *counts.entry(value).or_default() += count;
                }
            }
        }
        let mut counts: Vec<(SortValue<'_>, u64)> = counts.into_iter().collect();
        counts.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        counts.truncate(facet.limit);
        counts.into_iter().map(|(value, count)| ValueCount { value: value.to_value(), count }).collect()
    }

    /// Number of groups of the documents by the smallest value of the field; a document without the field is its own group.
    pub(crate) fn count_groups(&self, field: &str, documents: &[u64]) -> usize {
        let key = SortKey { field: field.to_owned(), descending: false };
        let mut values = HashSet::new();
        let mut alone = 0;
        for (segment, rows) in self.segments.iter().zip(documents.chunks(SEGMENT_WORDS)) {
            let by_row = segment.values_by_row(&key);
            for_each_bit(rows, |row| match by_row[row] {
                Some(value) => drop(values.insert(value)),
                None => alone += 1,
            });
        }
        values.len() + alone
    }
}
