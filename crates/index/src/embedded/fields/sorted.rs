//! The values of one field in one segment, sorted, each with its rows.

use std::ops::Range;

/// Distinct values in ascending order, each with its rows in ascending order.
///
/// Per value: its size and 4 bytes; per row of a value: 2 bytes.
#[derive(Debug, Clone)]
pub(crate) struct SortedColumn<T> {
    values: Vec<T>,
    /// End of each value's rows in `rows`.
    ends: Vec<u32>,
    rows: Vec<u16>,
}

impl<T> Default for SortedColumn<T> {
    fn default() -> SortedColumn<T> {
        SortedColumn { values: Vec::new(), ends: Vec::new(), rows: Vec::new() }
    }
}

impl<T: Ord + Clone> SortedColumn<T> {
    /// A copy with more values. A row that has a value twice is listed once.
    pub(crate) fn with(&self, added: Vec<(T, u16)>) -> SortedColumn<T> {
        let mut pairs: Vec<(T, u16)> = Vec::with_capacity(self.rows.len() + added.len());
        for (value, rows) in self.iter() {
            pairs.extend(rows.iter().map(|&row| (value.clone(), row)));
        }
        pairs.extend(added);
        // most pairs are sorted already, which this sort exploits
        pairs.sort();
        pairs.dedup();
        let mut sorted = SortedColumn::default();
        for (value, row) in pairs {
            sorted.rows.push(row);
            if sorted.values.last() == Some(&value) {
                sorted.ends.pop();
            } else {
                sorted.values.push(value);
            }
            sorted.ends.push(sorted.rows.len() as u32);
        }
        sorted.values.shrink_to_fit();
        sorted.ends.shrink_to_fit();
        sorted.rows.shrink_to_fit();
        sorted
    }

    /// Every value with its rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&T, &[u16])> {
        self.values.iter().enumerate().map(|(index, value)| (value, self.rows_at(index..index + 1)))
    }

    /// The rows of `value`.
    pub(crate) fn rows_of(&self, value: &T) -> &[u16] {
        match self.values.binary_search(value) {
            Ok(index) => self.rows_at(index..index + 1),
            Err(_) => &[],
        }
    }

    /// The rows of all values that are not below the range and within it; rows may repeat.
    pub(crate) fn rows_between(
        &self,
        is_below: impl Fn(&T) -> bool,
        is_within: impl Fn(&T) -> bool,
    ) -> &[u16] {
        let from = self.values.partition_point(is_below);
        let to = from + self.values[from..].partition_point(is_within);
        self.rows_at(from..to)
    }

    /// All rows; rows may repeat.
    pub(crate) fn rows(&self) -> &[u16] {
        &self.rows
    }

    fn rows_at(&self, indexes: Range<usize>) -> &[u16] {
        let end = |index: usize| index.checked_sub(1).map_or(0, |previous| self.ends[previous] as usize);
        &self.rows[end(indexes.start)..end(indexes.end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sorted: &SortedColumn<i32>, expected: &[(i32, &[u16])]) {
        let found: Vec<(i32, &[u16])> = sorted.iter().map(|(value, rows)| (*value, rows)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn values_are_sorted_and_rows_are_distinct() {
        let first = SortedColumn::default().with(vec![(5, 0), (3, 1), (5, 2), (5, 2)]);
        check(&first, &[(3, &[1]), (5, &[0, 2])]);
        let second = first.with(vec![(4, 3), (5, 1), (9, 9)]);
        check(&second, &[(3, &[1]), (4, &[3]), (5, &[0, 1, 2]), (9, &[9])]);
        assert_eq!(second.rows_of(&5), [0, 1, 2]);
        assert!(second.rows_of(&6).is_empty());
        assert_eq!(second.rows(), [1, 3, 0, 1, 2, 9]);
    }

    #[test]
    fn ranges_take_the_rows_of_their_values() {
        let sorted = SortedColumn::default().with(vec![(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!(sorted.rows_between(|value| *value < 2, |value| *value < 4), [2, 3]);
        assert!(sorted.rows_between(|value| *value <= 4, |_| true).is_empty());
        assert_eq!(sorted.rows_between(|_| false, |_| true), [1, 2, 3, 4]);
    }
}
