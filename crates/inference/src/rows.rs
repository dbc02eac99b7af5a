//! Embeddings or logits in one buffer.

/// Rows of floats, one after the other in one buffer. They may differ in length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    floats: Vec<f32>,
    /// The end of each row in `floats`.
    ends: Vec<usize>,
}

impl Rows {
    /// No rows, with space for `rows` rows of `width` floats.
    pub fn with_capacity(rows: usize, width: usize) -> Rows {
        Rows { floats: Vec::with_capacity(rows.saturating_mul(width)), ends: Vec::with_capacity(rows) }
    }

    /// Rows of these lengths, whose sum is the number of floats.
    pub(super) fn of_lengths(floats: Vec<f32>, lengths: impl Iterator<Item = usize>) -> Rows {
        let ends = lengths.scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        debug_assert_eq!(ends.last().copied().unwrap_or_default(), floats.len());
        Rows { floats, ends }
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[f32]) {
        self.floats.extend_from_slice(row);
        self.ends.push(self.floats.len());
    }

    /// Appends a row that `write` appends to the floats.
    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut Vec<f32>)) {
        write(&mut self.floats);
        self.ends.push(self.floats.len());
    }

    /// Appends the rows of another buffer.
    pub(super) fn append(&mut self, mut other: Rows) {
        if self.ends.is_empty() {
            *self = other;
            return;
        }
        let start = self.floats.len();
        self.floats.append(&mut other.floats);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    /// Removes the first `count` rows, or all if there are fewer.
    pub(super) fn take_front(&mut self, count: usize) -> Rows {
        if count >= self.ends.len() {
            return std::mem::take(self);
        }
        let behind = self.ends.split_off(count);
        let ends = std::mem::replace(&mut self.ends, behind);
        let end = ends.last().copied().unwrap_or_default();
        self.ends.iter_mut().for_each(|later| *later -= end);
        Rows { floats: self.floats.drain(..end).collect(), ends }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Floats of the first row, and of each if all have the same length; 0 without rows.
    pub fn width(&self) -> usize {
        self.ends.first().copied().unwrap_or_default()
    }

    /// The floats of all rows.
    pub fn floats(&self) -> &[f32] {
        &self.floats
    }

    /// The floats of all rows, as one buffer.
    pub fn into_floats(self) -> Vec<f32> {
        self.floats
    }

    /// The row `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&[f32]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.floats[start..end])
    }

    /// The rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.floats[std::mem::replace(&mut start, *end)..*end])
    }

    /// The rows, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let (mut rest, mut start) = (self.floats.as_mut_slice(), 0);
        self.ends.iter().map(move |end| {
            let (row, behind) = std::mem::take(&mut rest).split_at_mut(*end - start);
            (rest, start) = (behind, *end);
            row
        })
    }

    /// The floats of a single row; `None` for another number of rows.
    pub fn into_single(self) -> Option<Vec<f32>> {
        (self.ends.len() == 1).then_some(self.floats)
    }
}

impl<'a> FromIterator<&'a [f32]> for Rows {
    fn from_iter<I: IntoIterator<Item = &'a [f32]>>(rows: I) -> Rows {
        let mut all = Rows::default();
        rows.into_iter().for_each(|row| all.push(row));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_different_lengths_keep_their_bounds() {
        let mut rows = Rows::of_lengths(vec![1.0, 2.0, 3.0], [2, 0, 1].into_iter());
        assert_eq!(rows.iter().collect::<Vec<_>>(), [&[1.0, 2.0][..], &[], &[3.0]]);
        rows.append(Rows::from_iter([&[4.0][..], &[5.0, 6.0]]));
        rows.push(&[7.0]);
        assert_eq!((rows.len(), rows.width(), rows.floats().len()), (6, 2, 7));
        assert_eq!((rows.get(3), rows.get(4), rows.get(6)), (Some(&[4.0][..]), Some(&[5.0, 6.0][..]), None));
        rows.iter_mut().filter(|row| row.len() == 2).for_each(|row| row[0] = 0.0);
        assert_eq!(rows.floats(), [0.0, 2.0, 3.0, 4.0, 0.0, 6.0, 7.0]);
        let front = rows.take_front(2);
        assert_eq!((front.floats(), front.len()), (&[0.0, 2.0][..], 2));
        assert_eq!((rows.get(0), rows.get(1), rows.len()), (Some(&[3.0][..]), Some(&[4.0][..]), 4));
        assert_eq!(rows.clone().take_front(9), rows);
        assert_eq!(rows.into_single(), None);
        assert_eq!(Rows::from_iter([&[1.0][..]]).into_single(), Some(vec![1.0]));
        let mut empty = Rows::default();
        empty.append(Rows::of_lengths(vec![1.0], [1].into_iter()));
        assert_eq!(empty.get(0), Some(&[1.0][..]));
    }
}
