//! Sorting documents by fields.

use std::cmp::Ordering;

use super::column::SortValue;
use super::{Fields, SEGMENT_WORDS, Segment, for_each_bit};
use crate::search::SortKey;

/// The values that a document is sorted by, one per key; `None` if it lacks the field.
type Values<'a> = Vec<Option<SortValue<'a>>>;

impl Fields {
    /// The first `limit` documents in the order of `keys`, then in insertion order.
    ///
    /// Of several values of a document the smallest counts, or the largest in descending order.
    pub(crate) fn sort(&self, keys: &[SortKey], documents: &[u64], limit: usize) -> Vec<u32> {
        let mut first: Vec<(Values<'_>, u32)> = Vec::new();
        let by_rank =
            |a: &(Values<'_>, u32), b: &(Values<'_>, u32)| compare(keys, &a.0, &b.0).then(a.1.cmp(&b.1));
        for (number, (segment, rows)) in self.segments.iter().zip(documents.chunks(SEGMENT_WORDS)).enumerate()
        {
            segment.first_rows(keys, rows, number, &mut first);
            if first.len() > limit {
                if limit > 0 {
                    first.select_nth_unstable_by(limit - 1, by_rank);
                }
                first.truncate(limit);
            }
        }
        first.sort_unstable_by(by_rank);
        first.into_iter().map(|(_, document)| document).collect()
    }
}

impl Segment {
    /// Appends the segment's documents with their values.
    fn first_rows<'a>(
        &'a self,
        keys: &[SortKey],
        rows: &[u64],
        number: usize,
        found: &mut Vec<(Values<'a>, u32)>,
    ) {
        let columns: Vec<Vec<Option<SortValue<'a>>>> =
            keys.iter().map(|key| self.values_by_row(key)).collect();
        let first_document = number * super::SEGMENT_DOCUMENTS;
        for_each_bit(rows, |row| {
            let values = columns.iter().map(|column| column[row]).collect();
            found.push((values, (first_document + row) as u32));
        });
    }

    pub(super) fn values_by_row(&self, key: &SortKey) -> Vec<Option<SortValue<'_>>> {
        let mut by_row = vec![None; self.first_chunks.len()];
        let Some(column) = self.columns.get(key.field.as_str()) else { return by_row };
        for (value, rows) in column.values() {
            for &row in rows {
                let pins = &mut by_row[usize::from(row)];
                // values are visited in ascending order
                if pins.is_none() || key.descending {
                    *pins = Some(value);
                }
            }
        }
        by_row
    }
}

fn compare(keys: &[SortKey], a: &Values<'_>, b: &Values<'_>) -> Ordering {
    for (key, (a, b)) in keys.iter().zip(a.iter().zip(b)) {
        let order = match (a, b) {
            (Some(a), Some(b)) if key.descending => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
