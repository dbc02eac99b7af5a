//! Rows of four-bit codes and the query that is compared with them: the first, rough pass of a scan.
//!
//! A row is cut into groups of values, and for each group a code names the one of sixteen centroids that is nearest (product
//! quantisation: Jégou, Douze, Schmid, 2011). The product of a query with a row is then a sum of table entries, one for each code.
//! A register looks up 16 rows at once, because rows stand in blocks of [`CODE_ROWS`] with the same codes of all rows side by
//! side. The layout and the look-up by byte shuffle are those of "Quicker ADC" (André, Kermarrec, Le Scouarnec, 2019), which
//! Faiss calls fast scan. Entries have six bits: four of them fit a byte, so that few sums need wider registers.

use crate::Kernels;
use crate::size::{round_up, times};

/// Rows of a block.
pub const CODE_ROWS: usize = 32;
/// Entries of the table of a group: one for each code.
pub const CODES: usize = 16;
/// Groups are filled up to a multiple of so many: four registers, which are summed in bytes.
pub(crate) const GROUPS_MULTIPLE: usize = 8;
/// The largest table entry.
pub(crate) const ENTRY_MAX: u8 = 63;
/// So many groups have sums that 16 bits hold.
const GROUPS_MAX: usize = u16::MAX as usize / ENTRY_MAX as usize;

/// Bytes of a block of [`CODE_ROWS`] rows that have so many codes each.
///
/// # Panics
/// When they overflow `usize`.
pub fn code_block_bytes(groups: usize) -> usize {
    times(round_up(groups, GROUPS_MULTIPLE), CODE_ROWS / 2)
}

/// Writes the codes of a row, each below [`CODES`], as row `row` of a block.
///
/// The row must not have been written before.
///
/// # Panics
/// When the block has not [`code_block_bytes`] or no such row.
pub fn write_codes(block: &mut [u8], row: usize, codes: &[u8]) {
    assert!(row < CODE_ROWS && block.len() == code_block_bytes(codes.len()), "write_codes: shapes differ");
    let (byte, shift) = (row % CODES, row / CODES * 4);
    for (group, code) in block.chunks_exact_mut(CODES).zip(codes) {
        group[byte] |= (code & 15) << shift;
    }
}

/// A query, made ready to be compared with rows of codes.
pub struct CodeQuery {
    /// For each group 16 entries of at most [`ENTRY_MAX`].
    tables: Vec<u8>,
    /// What one step of a sum of entries stands for.
    step: f32,
    /// What a sum of zero stands for.
    offset: f32,
}

impl CodeQuery {
    /// From the products of the query with the 16 centroids of each group. They are rounded to six bits, the widest group
    /// taking all of them.
    ///
    /// # Panics
    /// When there are more than 1,040 groups.
    pub fn new(products: &[[f32; CODES]]) -> CodeQuery {
        assert!(products.len() <= GROUPS_MAX, "CodeQuery: sums of so many groups do not fit 16 bits");
        let least = |products: &[f32; CODES]| products.iter().copied().fold(f32::INFINITY, f32::min);
        let most = |products: &[f32; CODES]| products.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let widest = products.iter().map(|products| most(products) - least(products)).fold(0.0, f32::max);
        let step = if widest > 0.0 { widest / f32::from(ENTRY_MAX) } else { 1.0 };
        let mut tables = vec![0; products.len().next_multiple_of(GROUPS_MULTIPLE) * CODES];
        let mut offset = 0.0;
        for (table, products) in tables.chunks_exact_mut(CODES).zip(products) {
            let least = least(products);
            offset += least;
            for (entry, product) in table.iter_mut().zip(products) {
                // none is below zero: adding a half and cutting is to the nearest
                *entry = (((product - least) / step + 0.5) as u8).min(ENTRY_MAX);
            }
        }
        CodeQuery { tables, step, offset }
    }

    /// Estimates the product of the query with each row of a block, which [`write_codes`] made: a row's factor times the sum of
    /// the products with its centroids, up to the rounding of the tables.
    ///
    /// Gives a bit for each row whose estimate is above `threshold`. A factor that is not a number stands for no row.
    ///
    /// # Panics
    /// When `codes` is not a block of rows of as many groups.
    #[inline]
    pub fn scan(
        &self,
        kernels: &Kernels,
        codes: &[u8],
        factors: &[f32; CODE_ROWS],
        threshold: f32,
        scores: &mut [f32; CODE_ROWS],
    ) -> u32 {
        let CodeQuery { tables, step, offset } = self;
        let block = CodeBlock { tables, codes, factors, step: *step, offset: *offset, threshold };
        (kernels.scan_codes)(&block, scores)
    }
}

/// A block of rows and the query that it is compared with: the arguments of [`crate::Kernels::scan_codes`].
pub struct CodeBlock<'a> {
    /// 16 entries of at most 63 for each group, a multiple of eight groups, at most 1,040.
    pub tables: &'a [u8],
    /// 16 bytes for each group: the code of row `r` in the lower half of byte `r`, of row `16 + r` in its upper half.
    pub codes: &'a [u8],
    /// What each row's sum is multiplied by at last.
    pub factors: &'a [f32; CODE_ROWS],
    /// A row's score is `(sum * step + offset) * factor`, rounded after each operation.
    pub step: f32,
    /// See `step`.
    pub offset: f32,
    /// Which scores are reported.
    pub threshold: f32,
}

impl CodeBlock<'_> {
    /// Panics unless the slices fit each other.
    pub(crate) fn check(&self) {
        assert!(
            self.tables.len().is_multiple_of(GROUPS_MULTIPLE * CODES),
            "scan_codes: the tables are not of whole registers"
        );
        assert_eq!(self.tables.len(), self.codes.len(), "scan_codes: shapes differ");
    }

    /// Scores of the rows by their sums, and the bits of those above the threshold.
    #[inline]
    pub(crate) fn score(&self, sums: &[u16; CODE_ROWS], scores: &mut [f32; CODE_ROWS]) -> u32 {
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

    fn products(groups: usize) -> Vec<[f32; CODES]> {
        let product = |group: usize, code: usize| ((group * 31 + code * code * 7) as f32 * 0.37).sin();
        (0..groups).map(|group| std::array::from_fn(|code| product(group, code))).collect()
    }

    #[test]
    fn the_sums_are_the_products_of_the_codes_up_to_the_rounding_of_the_tables() {
        for groups in [1, 2, 7, 8, 64, 97, 1040] {
            let products = products(groups);
            let code = |row: usize, group: usize| ((row * 5 + group * 3) % CODES) as u8;
            let mut block = vec![0; code_block_bytes(groups)];
            for row in 0..CODE_ROWS {
                let codes: Vec<u8> = (0..groups).map(|group| code(row, group)).collect();
                write_codes(&mut block, row, &codes);
            }
            let query = CodeQuery::new(&products);
            let mut out = [0.0; CODE_ROWS];
            query.scan(Kernels::current(), &block, &[1.0; CODE_ROWS], 0.0, &mut out);
            for (row, got) in out.into_iter().enumerate() {
                let want: f32 = (0..groups).map(|group| products[group][usize::from(code(row, group))]).sum();
                let rounding = query.step * 0.5 * groups as f32 + 1e-2;
                assert!((got - want).abs() <= rounding, "{groups}: {got}, want {want} within {rounding}");
            }
        }
    }

    #[test]
    fn a_query_of_zeros_and_one_without_groups_are_harmless() {
        let mut out = [1.0; CODE_ROWS];
        let zeros = CodeQuery::new(&[[0.0; CODES]; 3]);
        assert_eq!(zeros.scan(Kernels::current(), &[0xff; 128], &[1.0; CODE_ROWS], 0.0, &mut out), 0);
        assert_eq!(out, [0.0; CODE_ROWS]);
        CodeQuery::new(&[]).scan(Kernels::current(), &[], &[1.0; CODE_ROWS], 0.0, &mut out);
    }
}
