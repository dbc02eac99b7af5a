//! Rows of signs and the query that is compared with them: the first, rough pass of a scan.
//!
//! A row keeps the sign of each value. Its product with a query is a sum of table entries: four signs choose one of the
//! sixteen sums that the four values of the query can make. A register looks up 16 rows at once, because rows stand in
//! blocks of [`SIGN_ROWS`] with the same four signs of all rows side by side. The layout and the look-up by byte shuffle are
//! those of "Quicker ADC" (André, Kermarrec, Le Scouarnec, 2019), which Faiss calls fast scan.

use crate::Kernels;

/// Rows of a block.
pub const SIGN_ROWS: usize = 32;
/// Signs that choose a table entry.
const GROUP: usize = 4;
/// Entries of the table of a group.
pub(crate) const GROUP_TABLE: usize = 1 << GROUP;

/// Groups of four signs in a row of `dimension` values, filled up so that registers of 64 bytes hold whole groups.
fn groups(dimension: usize) -> usize {
    dimension.div_ceil(GROUP).next_multiple_of(4)
}

/// Bytes of a block of [`SIGN_ROWS`] rows.
pub fn sign_block_bytes(dimension: usize) -> usize {
    groups(dimension) * SIGN_ROWS / 2
}

/// Writes the signs of `values` as row `row` of a block; a value below zero has a sign.
///
/// The row must not have been written before.
///
/// # Panics
/// When the block has not [`sign_block_bytes`] or no such row.
pub fn write_signs(block: &mut [u8], row: usize, values: &[i32]) {
    assert!(row < SIGN_ROWS && block.len() == sign_block_bytes(values.len()), "write_signs: shapes differ");
    let (byte, shift) = (row % GROUP_TABLE, row / GROUP_TABLE * GROUP);
    for (group, values) in block.chunks_exact_mut(GROUP_TABLE).zip(values.chunks(GROUP)) {
        let signs = values.iter().rev().fold(0, |signs, value| signs << 1 | u8::from(*value < 0));
        group[byte] |= signs << shift;
    }
}

/// A query, made ready to be compared with rows of signs.
pub struct SignQuery {
    /// For each group of four values 16 entries of 0..=255.
    tables: Vec<u8>,
    /// What one step of a sum of entries stands for.
    step: f32,
    /// What a sum of zero stands for.
    offset: f32,
}

impl SignQuery {
    /// The entries are rounded to 8 bits, less when sums of as many as `query` needs would not fit 16.
    pub fn new(query: &[f32]) -> SignQuery {
        let groups = groups(query.len());
        let reach = |values: &[f32]| 2.0 * values.iter().map(|value| value.abs()).sum::<f32>();
        let widest = query.chunks(GROUP).map(reach).fold(0.0, f32::max);
        let entry_max = (usize::from(u16::MAX) / groups.max(1)).min(usize::from(u8::MAX));
        let step = if widest > 0.0 { widest / entry_max as f32 } else { 1.0 };
        let mut tables = vec![0; groups * GROUP_TABLE];
        for (table, values) in tables.chunks_exact_mut(GROUP_TABLE).zip(query.chunks(GROUP)) {
            let mut sums = [0.0f32; GROUP_TABLE];
            sums[0] = values.iter().map(|value| value.abs() + value).sum();
            for signs in 1..GROUP_TABLE {
                let value = values.get(signs.trailing_zeros() as usize).copied().unwrap_or(0.0);
                sums[signs] = sums[signs & (signs - 1)] - 2.0 * value;
            }
            // none is below zero but by rounding: adding a half and cutting is to the nearest
            table.iter_mut().zip(sums).for_each(|(entry, sum)| *entry = (sum / step + 0.5) as u8);
        }
        SignQuery { tables, step, offset: -query.iter().map(|value| value.abs()).sum::<f32>() }
    }

    /// Estimates the product of the query with each row of a block; [`write_signs`] made `signs`, and the estimate is a
    /// row's factor times what the products `query[j] * sign(row[j])` add up to, up to the rounding of the tables.
    ///
    /// Gives a bit for each row whose estimate is above `threshold`. A factor that is not a number stands for no row.
    ///
    /// # Panics
    /// When `signs` is not a block of rows of the query's length.
    #[inline]
    pub fn scan(
        &self,
        kernels: &Kernels,
        signs: &[u8],
        factors: &[f32; SIGN_ROWS],
        threshold: f32,
        scores: &mut [f32; SIGN_ROWS],
    ) -> u32 {
        let SignQuery { tables, step, offset } = self;
        let block = SignBlock { tables, signs, factors, step: *step, offset: *offset, threshold };
        (kernels.scan_signs)(&block, scores)
    }
}

/// A block of rows and the query that it is compared with: the arguments of [`crate::Kernels::scan_signs`].
pub struct SignBlock<'a> {
    /// 16 entries for each group of four signs, a multiple of four groups; a row's entries add up to 16 bits at most.
    pub tables: &'a [u8],
    /// 16 bytes for each group: the signs of row `r` in the lower half of byte `r`, of row `16 + r` in its upper half.
    pub signs: &'a [u8],
    /// What each row's sum is multiplied by at last.
    pub factors: &'a [f32; SIGN_ROWS],
    /// A row's score is `(sum * step + offset) * factor`, rounded after each operation.
    pub step: f32,
    /// See `step`.
    pub offset: f32,
    /// Which scores are reported.
    pub threshold: f32,
}

impl SignBlock<'_> {
    /// Panics unless the slices fit each other.
    pub(crate) fn check(&self) {
        assert!(
            self.tables.len().is_multiple_of(4 * GROUP_TABLE),
            "scan_signs: the tables are not of whole registers"
        );
        assert_eq!(self.tables.len(), self.signs.len(), "scan_signs: shapes differ");
    }

    /// Scores of the rows by their sums, and the bits of those above the threshold.
    #[inline]
    pub(crate) fn score(&self, sums: &[u16; SIGN_ROWS], scores: &mut [f32; SIGN_ROWS]) -> u32 {
        let mut above = 0;
        for (row, ((score, sum), factor)) in scores.iter_mut().zip(sums).zip(self.factors).enumerate() {
            *score = (f32::from(*sum) * self.step + self.offset) * factor;
            above |= u32::from(*score > self.threshold) << row;
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(seed: usize, len: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * i + 7 * i * seed + seed) as f32 * 0.37).sin()).collect()
    }

    #[test]
    fn the_sums_are_the_products_with_the_signs_up_to_the_rounding_of_the_tables() {
        for dimension in [1, 3, 4, 17, 64, 384, 385, 1024, 4096] {
            let query = wave(3, dimension);
            let rows: Vec<Vec<i32>> = (0..SIGN_ROWS)
                .map(|row| wave(row + 5, dimension).iter().map(|x| (x * 127.0) as i32).collect())
                .collect();
            let mut block = vec![0; sign_block_bytes(dimension)];
            for (number, row) in rows.iter().enumerate() {
                write_signs(&mut block, number, row);
            }
            let query_for_signs = SignQuery::new(&query);
            let mut out = [0.0; SIGN_ROWS];
            query_for_signs.scan(Kernels::current(), &block, &[1.0; SIGN_ROWS], 0.0, &mut out);
            for (row, got) in rows.iter().zip(out) {
                let signs = row.iter().map(|x| if *x < 0 { -1.0 } else { 1.0 });
                let want: f32 = signs.zip(&query).map(|(sign, q)| sign * q).sum();
                let rounding = query_for_signs.step * 0.5 * dimension.div_ceil(GROUP) as f32 + 1e-3;
                assert!((got - want).abs() <= rounding, "{dimension}: {got}, want {want} within {rounding}");
            }
        }
    }

    #[test]
    fn a_query_of_zeros_and_one_without_values_are_harmless() {
        let mut out = [1.0; SIGN_ROWS];
        let zeros = SignQuery::new(&[0.0; 8]);
        assert_eq!(zeros.scan(Kernels::current(), &[0xff; 64], &[1.0; SIGN_ROWS], 0.0, &mut out), 0);
        assert_eq!(out, [0.0; SIGN_ROWS]);
        SignQuery::new(&[]).scan(Kernels::current(), &[], &[1.0; SIGN_ROWS], 0.0, &mut out);
    }
}
