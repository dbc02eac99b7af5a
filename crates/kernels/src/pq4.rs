//! Product quantization with four bits a code (PQ4): the first, approximate pass of a scan.
//!
//! A row is divided into groups of values, and each group is encoded as the index of the nearest of its sixteen centroids (product
//! quantization: Jégou, Douze, Schmid, 2011). The dot product of a query with a row is then a sum of table entries, one for each code.
//! Rows are stored in blocks of [`PQ4_BLOCK_ROWS`], with the codes of one group of all rows adjacent, so that a register looks up 16 rows
//! at once. The layout and the look-up by byte shuffle are those of "Quicker ADC" (André, Kermarrec, Le Scouarnec, 2019), which
//! Faiss calls fast scan. Entries have six bits: the sum of four fits a byte.

use crate::Kernels;
use crate::size::{round_up, times};

/// Rows of a block.
pub const PQ4_BLOCK_ROWS: usize = 32;
/// Entries of the table of a group: one for each code.
pub const PQ4_CENTROIDS: usize = 16;
/// Groups are padded to a multiple of this number: two 32-byte registers of four groups each, which are summed in bytes.
pub(crate) const GROUPS_MULTIPLE: usize = 8;
/// The largest table entry.
pub(crate) const ENTRY_MAX: u8 = 63;
/// The most groups whose sums fit 16 bits.
const GROUPS_MAX: usize = u16::MAX as usize / ENTRY_MAX as usize;

/// Bytes of a block of [`PQ4_BLOCK_ROWS`] rows with `groups` codes each.
///
/// # Panics
/// When they overflow `usize`.
pub fn pq4_block_bytes(groups: usize) -> usize {
    times(round_up(groups, GROUPS_MULTIPLE), PQ4_BLOCK_ROWS / 2)
}

/// Writes the codes of a row, each below [`PQ4_CENTROIDS`], to row `row` of a block, which must be zero.
///
/// # Panics
/// When the block is not [`pq4_block_bytes`] long, or `row` is not below [`PQ4_BLOCK_ROWS`].
pub fn pq4_write_row(block: &mut [u8], row: usize, codes: &[u8]) {
    assert!(
        row < PQ4_BLOCK_ROWS && block.len() == pq4_block_bytes(codes.len()),
        "pq4_write_row: shapes differ"
    );
    let (byte, shift) = (row % PQ4_CENTROIDS, row / PQ4_CENTROIDS * 4);
    for (group, code) in block.chunks_exact_mut(PQ4_CENTROIDS).zip(codes) {
        group[byte] |= (code & 15) << shift;
    }
}

/// The look-up tables of a query.
pub struct Pq4Query {
    /// 16 entries of at most [`ENTRY_MAX`] for each group.
    tables: Vec<u8>,
    /// A dot product is `offset + step · sum of entries`.
    step: f32,
    /// See `step`.
    offset: f32,
}

impl Pq4Query {
    /// Builds the tables from the dot products of the query with the 16 centroids of each group. These are rounded to six bits; all groups
    /// share the step of the group with the widest range.
    ///
    /// # Panics
    /// When there are more than 1,040 groups.
    pub fn new(products: &[[f32; PQ4_CENTROIDS]]) -> Pq4Query {
        assert!(
            products.len() <= GROUPS_MAX,
            "Pq4Query: sums of more than {GROUPS_MAX} groups do not fit 16 bits"
        );
        let min_of = |products: &[f32; PQ4_CENTROIDS]| products.iter().copied().fold(f32::INFINITY, f32::min);
        let max_of =
            |products: &[f32; PQ4_CENTROIDS]| products.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let widest = products.iter().map(|products| max_of(products) - min_of(products)).fold(0.0, f32::max);
        let step = if widest > 0.0 { widest / f32::from(ENTRY_MAX) } else { 1.0 };
        let mut tables = vec![0; products.len().next_multiple_of(GROUPS_MULTIPLE) * PQ4_CENTROIDS];
        let mut offset = 0.0;
        for (table, products) in tables.chunks_exact_mut(PQ4_CENTROIDS).zip(products) {
            let min = min_of(products);
            offset += min;
            for (entry, product) in table.iter_mut().zip(products) {
                // adding ½ rounds to the nearest integer, since no difference is negative
                *entry = (((product - min) / step + 0.5) as u8).min(ENTRY_MAX);
            }
        }
        Pq4Query { tables, step, offset }
    }

    /// Estimates the dot product of the query with each row of a block that [`pq4_write_row`] wrote: the row's factor times the sum of
    /// the dot products with its centroids, up to the rounding of the tables.
    ///
    /// Returns a bit mask of the rows whose estimate is above `threshold`. The factor of an empty row is NaN.
    ///
    /// # Panics
    /// When `codes` is not a block with the query's number of groups.
    #[inline]
    pub fn scan(
        &self,
        kernels: &Kernels,
        codes: &[u8],
        factors: &[f32; PQ4_BLOCK_ROWS],
        threshold: f32,
        scores: &mut [f32; PQ4_BLOCK_ROWS],
    ) -> u32 {
        let Pq4Query { tables, step, offset } = self;
        let block = Pq4Block { tables, codes, factors, step: *step, offset: *offset, threshold };
        (kernels.scan_pq4)(&block, scores)
    }
}

/// A block of rows and a query: the arguments of [`crate::Kernels::scan_pq4`].
pub struct Pq4Block<'a> {
    /// 16 entries of at most 63 for each group, a multiple of eight groups, at most 1,040.
    pub tables: &'a [u8],
    /// 16 bytes for each group: the code of row `r` in the lower half of byte `r`, of row `16 + r` in its upper half.
    pub codes: &'a [u8],
    /// The factor of each row's score.
    pub factors: &'a [f32; PQ4_BLOCK_ROWS],
    /// A row's score is `(sum * step + offset) * factor`, rounded after each operation.
    pub step: f32,
    /// See `step`.
    pub offset: f32,
    /// Rows with a score above it are reported.
    pub threshold: f32,
}

impl Pq4Block<'_> {
    /// Panics unless the tables are whole registers and the codes have the same length.
    pub(crate) fn check(&self) {
        assert!(
            self.tables.len().is_multiple_of(GROUPS_MULTIPLE * PQ4_CENTROIDS),
            "scan_pq4: the tables are not whole registers"
        );
        assert_eq!(self.tables.len(), self.codes.len(), "scan_pq4: shapes differ");
    }

    /// Computes the scores of the rows from their sums, and the bit mask of those above the threshold.
    #[inline]
    pub(crate) fn score(&self, sums: &[u16; PQ4_BLOCK_ROWS], scores: &mut [f32; PQ4_BLOCK_ROWS]) -> u32 {
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

    fn products(groups: usize) -> Vec<[f32; PQ4_CENTROIDS]> {
        let product = |group: usize, code: usize| ((group * 31 + code * code * 7) as f32 * 0.37).sin();
        (0..groups).map(|group| std::array::from_fn(|code| product(group, code))).collect()
    }

    #[test]
    fn the_sums_are_the_products_of_the_codes_up_to_the_rounding_of_the_tables() {
        for &groups in if cfg!(miri) { &[1, 8][..] } else { &[1, 2, 7, 8, 64, 97, 1040] } {
            let products = products(groups);
            let code = |row: usize, group: usize| ((row * 5 + group * 3) % PQ4_CENTROIDS) as u8;
            let mut block = vec![0; pq4_block_bytes(groups)];
            for row in 0..PQ4_BLOCK_ROWS {
                let codes: Vec<u8> = (0..groups).map(|group| code(row, group)).collect();
                pq4_write_row(&mut block, row, &codes);
            }
            let query = Pq4Query::new(&products);
            let mut out = [0.0; PQ4_BLOCK_ROWS];
            query.scan(Kernels::current(), &block, &[1.0; PQ4_BLOCK_ROWS], 0.0, &mut out);
            for (row, got) in out.into_iter().enumerate() {
                let want: f32 = (0..groups).map(|group| products[group][usize::from(code(row, group))]).sum();
                let rounding = query.step * 0.5 * groups as f32 + 1e-2;
                assert!((got - want).abs() <= rounding, "{groups}: {got}, want {want} within {rounding}");
            }
        }
    }

    #[test]
    fn a_query_of_zeros_and_one_without_groups_are_harmless() {
        let mut out = [1.0; PQ4_BLOCK_ROWS];
        let zeros = Pq4Query::new(&[[0.0; PQ4_CENTROIDS]; 3]);
        assert_eq!(zeros.scan(Kernels::current(), &[0xff; 128], &[1.0; PQ4_BLOCK_ROWS], 0.0, &mut out), 0);
        assert_eq!(out, [0.0; PQ4_BLOCK_ROWS]);
        Pq4Query::new(&[]).scan(Kernels::current(), &[], &[1.0; PQ4_BLOCK_ROWS], 0.0, &mut out);
    }
}
