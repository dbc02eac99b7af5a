//! Product quantisation of embeddings, trained on the rows themselves, so that a scan reads few bytes of each row.
//!
//! Embeddings lie close to a subspace of fewer dimensions than they have values. Orthogonal iteration on the second moments of a
//! sample finds it (Golub and Van Loan, *Matrix Computations*, 8.2.4). Its axes are distributed over groups of about equal
//! variance (Ge, He, Ke, Sun, "Optimized Product Quantization", 2013, the parametric solution), and each group of values is
//! rounded to the nearest of sixteen centroids (Jégou, Douze, Schmid, 2011).

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use weir_kernels::{Kernels, PQ4_CENTROIDS, Pq4Query};

/// Shorter embeddings keep one direction per value.
const REDUCED_DIMENSION_MIN: usize = 256;
/// More directions cost more than they improve recall.
const DIRECTIONS_MAX: usize = 512;
/// Directions per code.
const GROUP: usize = 4;
/// A reduced number of directions is a multiple of this: their codes fill a register.
const DIRECTIONS_MULTIPLE: usize = 32;
/// Iterations that find the directions.
const ITERATIONS: usize = 8;
/// Iterations of the search for centroids (Lloyd, 1982).
const CENTROID_ITERATIONS: usize = 6;
/// A shorter direction is only the rounding error of one that the others span.
const LENGTH_MIN: f32 = 1e-3;

/// Orthogonal directions and the centroids of each group of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Codebook {
    dimension: usize,
    /// One after the other, those of a group adjacent; int8 with one scale for all.
    directions: Vec<i8>,
    /// Per group and direction, the value of each centroid; for rows scaled to length one along all directions.
    centroids: Vec<[[f32; PQ4_CENTROIDS]; GROUP]>,
}

/// The codes of a row.
pub struct EncodedRow<'a> {
    /// One per group.
    pub codes: &'a [u8],
    /// Multiplies the product of query and centroids to estimate that of query and row: `|x|² / <x, centroids>`, which is exact
    /// if the query is the row (RaBitQ, Gao and Long, 2024, has it for signs).
    pub factor: f32,
}

/// Buffers for encoding rows.
pub struct RowEncoder<'a> {
    codebook: &'a Codebook,
    products: Vec<i32>,
    values: Vec<f32>,
    codes: Vec<u8>,
}

impl Codebook {
    /// Trains a codebook on rows of `dimension` values. Equal rows in equal order give an equal codebook.
    pub fn train(rows: &[Vec<f32>], dimension: usize) -> Codebook {
        let count = direction_count(dimension);
        let rows: Vec<Vec<f32>> = rows.iter().map(|row| normalised(row)).collect();
        let directions = balance_groups(directions(&rows, dimension, count));
        let largest = directions.iter().flatten().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
        let quantise = |x: &f32| (x / largest * 127.0).round() as i8;
        let values: Vec<Vec<f32>> =
            rows.par_iter().map(|row| normalised(&products(&directions, row))).collect();
        let groups = (0..count.div_ceil(GROUP)).into_par_iter();
        Codebook {
            dimension,
            directions: directions.iter().flatten().map(quantise).collect(),
            centroids: groups.map(|group| centroids(&values, group * GROUP)).collect(),
        }
    }

    /// Bytes of a stored codebook.
    pub fn len(dimension: usize) -> usize {
        let directions = direction_count(dimension);
        directions * dimension + directions.div_ceil(GROUP) * GROUP * PQ4_CENTROIDS * size_of::<f32>()
    }

    /// Appends the codebook to `out`: directions, then centroids.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.directions.iter().map(|value| value.cast_unsigned()));
        out.extend(self.centroids.iter().flatten().flatten().flat_map(|value| value.to_le_bytes()));
    }

    /// The inverse of [`Codebook::write`]; `None` unless the bytes are as many as those of a codebook.
    pub fn read(dimension: usize, bytes: &[u8]) -> Option<Codebook> {
        if bytes.len() != Codebook::len(dimension) {
            return None;
        }
        let (directions, centroids) = bytes.split_at(direction_count(dimension) * dimension);
        let mut values = centroids.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let groups = direction_count(dimension).div_ceil(GROUP);
        let mut centroids = vec![[[0.0; PQ4_CENTROIDS]; GROUP]; groups];
        centroids
            .iter_mut()
            .flatten()
            .flatten()
            .zip(&mut values)
            .for_each(|(centroid, value)| *centroid = value);
        let directions = directions.iter().map(|value| value.cast_signed()).collect();
        Some(Codebook { dimension, directions, centroids })
    }

    /// Codes per row.
    pub fn groups(&self) -> usize {
        self.centroids.len()
    }

    /// New buffers for encoding rows.
    pub fn encoder(&self) -> RowEncoder<'_> {
        let directions = self.directions.len() / self.dimension.max(1);
        RowEncoder {
            codebook: self,
            products: vec![0; directions],
            values: vec![0.0; self.groups() * GROUP],
            codes: vec![0; self.groups()],
        }
    }

    /// Prepares an int8 query for comparison with codes. It estimates products up to a factor that is equal for all rows.
    pub fn query(&self, kernels: &Kernels, query: &[i8]) -> Pq4Query {
        let mut encoder = self.encoder();
        encoder.project(kernels, query);
        let groups = self.centroids.iter().zip(encoder.values.as_chunks::<GROUP>().0);
        let products = |(centroids, values): (&[[f32; PQ4_CENTROIDS]; GROUP], &[f32; GROUP])| {
            std::array::from_fn(|code| (0..GROUP).map(|i| centroids[i][code] * values[i]).sum())
        };
        Pq4Query::new(&groups.map(products).collect::<Vec<_>>())
    }
}

impl RowEncoder<'_> {
    /// The products of an int8 row with the directions, in integer units.
    fn project(&mut self, kernels: &Kernels, row: &[i8]) {
        (kernels.dot_i8_rows)(row, &self.codebook.directions, &mut self.products);
        self.values.iter_mut().zip(&self.products).for_each(|(value, product)| *value = *product as f32);
    }

    /// Encodes the row `row * scale`.
    pub fn encode(&mut self, kernels: &Kernels, row: &[i8], scale: f32) -> EncodedRow<'_> {
        self.project(kernels, row);
        let squares = (kernels.dot)(&self.values, &self.values);
        let to_unit = if squares > 0.0 { 1.0 / squares.sqrt() } else { 0.0 };
        let mut projection = 0.0;
        let groups = self.values.as_chunks::<GROUP>().0.iter().zip(&self.codebook.centroids);
        for (code, (values, centroids)) in self.codes.iter_mut().zip(groups) {
            let values = values.map(|value| value * to_unit);
            let nearest = nearest(centroids, &values);
            *code = nearest as u8;
            projection += (0..GROUP).map(|i| values[i] * centroids[i][nearest]).sum::<f32>();
        }
        let length = squares.sqrt() * scale;
        EncodedRow { codes: &self.codes, factor: if projection > 0.0 { length / projection } else { 0.0 } }
    }
}

/// Number of directions for embeddings of this dimension.
fn direction_count(dimension: usize) -> usize {
    match dimension {
        ..REDUCED_DIMENSION_MIN => dimension,
        _ => (dimension * 2 / 3).next_multiple_of(DIRECTIONS_MULTIPLE).min(DIRECTIONS_MAX),
    }
}

/// The index of the centroid nearest to `values`.
#[inline]
fn nearest(centroids: &[[f32; PQ4_CENTROIDS]; GROUP], values: &[f32; GROUP]) -> usize {
    let mut distances = [0.0f32; PQ4_CENTROIDS];
    for (centroids, value) in centroids.iter().zip(values) {
        for (distance, centroid) in distances.iter_mut().zip(centroids) {
            *distance += (centroid - value) * (centroid - value);
        }
    }
    let mut nearest = 0;
    for code in 1..PQ4_CENTROIDS {
        if distances[code] < distances[nearest] {
            nearest = code;
        }
    }
    nearest
}

/// The centroids of the group that starts at direction `first`.
fn centroids(rows: &[Vec<f32>], first: usize) -> [[f32; PQ4_CENTROIDS]; GROUP] {
    let values = |row: &Vec<f32>| std::array::from_fn(|i| row.get(first + i).copied().unwrap_or(0.0));
    let rows: Vec<[f32; GROUP]> = rows.iter().map(values).collect();
    let mut centroids = [[0.0; PQ4_CENTROIDS]; GROUP];
    if rows.is_empty() {
        return centroids;
    }
    for code in 0..PQ4_CENTROIDS {
        let row = rows[code * rows.len() / PQ4_CENTROIDS];
        centroids.iter_mut().zip(row).for_each(|(centroids, value)| centroids[code] = value);
    }
    for _ in 0..CENTROID_ITERATIONS {
        let (mut sums, mut counts) = ([[0.0f32; PQ4_CENTROIDS]; GROUP], [0.0f32; PQ4_CENTROIDS]);
        for row in &rows {
            let nearest = nearest(&centroids, row);
            counts[nearest] += 1.0;
            sums.iter_mut().zip(row).for_each(|(sums, value)| sums[nearest] += value);
        }
        for (centroids, sums) in centroids.iter_mut().zip(sums) {
            for code in (0..PQ4_CENTROIDS).filter(|&code| counts[code] > 0.0) {
                centroids[code] = sums[code] / counts[code];
            }
        }
    }
    centroids
}

/// The `count` orthogonal directions of largest variance, each with the mean square of the rows along it.
fn directions(rows: &[Vec<f32>], dimension: usize, count: usize) -> Vec<(f32, Vec<f32>)> {
    let mut random = Rng(1);
    let moments = moments(rows, dimension);
    let mut directions: Vec<Vec<f32>> = (0..count).map(|_| random.vector(dimension)).collect();
    orthonormalise(&mut directions, &mut random);
    for _ in 0..ITERATIONS {
        directions = directions.par_iter().map(|direction| products(&moments, direction)).collect();
        orthonormalise(&mut directions, &mut random);
    }
    let dot = Kernels::current().dot;
    directions
        .into_par_iter()
        .map(|direction| (dot(&products(&moments, &direction), &direction), direction))
        .collect()
}

/// Orders directions so that groups have similar products of mean squares: each direction, in order of decreasing variance, goes
/// to the group with the smallest product that has room.
fn balance_groups(mut directions: Vec<(f32, Vec<f32>)>) -> Vec<Vec<f32>> {
    directions.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let smallest = directions.last().map_or(0.0, |(square, _)| *square).max(f32::MIN_POSITIVE);
    let mut groups: Vec<(f32, Vec<Vec<f32>>)> = vec![Default::default(); directions.len().div_ceil(GROUP)];
    // the last group may be smaller
    let capacity = |group: usize| (directions.len() - group * GROUP).min(GROUP);
    let capacities: Vec<usize> = (0..groups.len()).map(capacity).collect();
    for (square, direction) in directions {
        let with_room =
            groups.iter_mut().zip(&capacities).filter(|((_, group), capacity)| group.len() < **capacity);
        if let Some(((logarithm, group), _)) = with_room.min_by(|((a, _), _), ((b, _), _)| a.total_cmp(b)) {
            *logarithm += (square.max(smallest) / smallest).ln();
            group.push(direction);
        }
    }
    groups.into_iter().flat_map(|(_, group)| group).collect()
}

/// The second moments of the rows: sums of products of each two values, a symmetric matrix.
fn moments(rows: &[Vec<f32>], dimension: usize) -> Vec<Vec<f32>> {
    let columns = transposed(rows, dimension);
    columns.par_iter().map(|column| products(&columns, column)).collect()
}

/// Matrix times vector.
fn products(matrix: &[Vec<f32>], vector: &[f32]) -> Vec<f32> {
    let dot = Kernels::current().dot;
    matrix.iter().map(|row| dot(row, vector)).collect()
}

fn transposed(rows: &[Vec<f32>], columns: usize) -> Vec<Vec<f32>> {
    (0..columns).into_par_iter().map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

/// The vector scaled to length one; a zero vector stays zero.
fn normalised(vector: &[f32]) -> Vec<f32> {
    let length = (Kernels::current().dot)(vector, vector).sqrt();
    let factor = if length > 0.0 { 1.0 / length } else { 0.0 };
    vector.iter().map(|x| x * factor).collect()
}

/// Orthonormalises the vectors in place (modified Gram–Schmidt, two passes). Requires at most as many vectors as they have
/// values. A vector in the span of earlier ones is replaced by a random one.
fn orthonormalise(vectors: &mut [Vec<f32>], random: &mut Rng) {
    let dot = Kernels::current().dot;
    for i in 0..vectors.len() {
        let (before, rest) = vectors.split_at_mut(i);
        let vector = &mut rest[0];
        let mut passes = 0;
        while passes < 2 {
            let length = dot(vector, vector).sqrt();
            if length > 0.0 {
                vector.iter_mut().for_each(|x| *x /= length);
            }
            for other in before.iter() {
                let projection = dot(vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= projection * y);
            }
            passes += 1;
            if dot(vector, vector).sqrt() < LENGTH_MIN {
                *vector = random.vector(vector.len());
                passes = 0;
            }
        }
        let length = dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine.
struct Rng(u64);

impl Rng {
    /// Values from -1 to 1.
    fn vector(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantise;

    const DIMENSION: usize = 384;

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        let dot = Kernels::current().dot;
        let lengths = (dot(a, a) * dot(b, b)).sqrt();
        if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
    }

    fn direction(codebook: &Codebook, at: usize) -> Vec<f32> {
        let directions = codebook.directions.chunks_exact(codebook.dimension);
        directions.map(|direction| direction.iter().map(|&x| f32::from(x)).collect()).nth(at).unwrap()
    }

    fn count(codebook: &Codebook) -> usize {
        codebook.directions.len() / codebook.dimension
    }

    /// Rows close to a subspace of 20 dimensions, as embeddings are.
    fn rows(random: &mut Rng, count: usize) -> Vec<Vec<f32>> {
        let axes: Vec<Vec<f32>> = (0..20).map(|_| random.vector(DIMENSION)).collect();
        let columns = transposed(&axes, DIMENSION);
        (0..count).map(|_| products(&columns, &random.vector(20))).collect()
    }

    #[test]
    fn directions_are_orthogonal_for_any_rows() {
        let mut random = Rng(7);
        let rows: Vec<Vec<f32>> = (0..50).map(|_| random.vector(320)).collect();
        for rows in [rows, vec![vec![1.0; 320]; 50], vec![vec![0.0; 320]; 3], Vec::new()] {
            let codebook = Codebook::train(&rows, 320);
            assert_eq!((count(&codebook), codebook.groups()), (224, 56));
            for i in 0..count(&codebook) {
                for j in 0..i {
                    let cosine = cosine(&direction(&codebook, i), &direction(&codebook, j));
                    assert!(cosine.abs() < 0.03, "directions {i} and {j}: {cosine}");
                }
            }
        }
    }

    #[test]
    fn long_embeddings_have_fewer_directions_than_values() {
        let count = |dimension| {
            let codebook = Codebook::train(&[], dimension);
            (count(&codebook), codebook.groups())
        };
        assert_eq!([1, 2, 64, 255].map(count), [(1, 1), (2, 1), (64, 16), (255, 64)]);
        assert_eq!([256, 384, 1100].map(count), [(192, 48), (256, 64), (512, 128)]);
    }

    #[test]
    fn directions_span_the_space_of_the_rows() {
        let rows = rows(&mut Rng(3), 201);
        let (another, rows) = rows.split_last().unwrap();
        let codebook = Codebook::train(rows, DIMENSION);
        let projection = (0..count(&codebook)).map(|at| cosine(&direction(&codebook, at), another));
        let kept: f32 = projection.map(|cosine| cosine * cosine).sum();
        assert!(kept > 0.995, "of its squared length {kept} is kept");
    }

    #[test]
    fn groups_balance_directions_of_high_and_low_variance() {
        let of =
            |squares: &[f32]| balance_groups(squares.iter().map(|&square| (square, vec![square])).collect());
        assert_eq!(
            of(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]).concat(),
            [128.0, 16.0, 8.0, 1.0, 64.0, 32.0, 4.0, 2.0]
        );
        // the last group of six directions has room for two
        assert_eq!(of(&[1.0, 1.0, 1.0, 1.0, 1.0, 9.0]).concat(), [9.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_codebook_round_trips_for_any_dimension() {
        for dimension in [1, 6, 8, 256] {
            let rows: Vec<Vec<f32>> = (0..50).map(|seed| Rng(seed + 1).vector(dimension)).collect();
            let codebook = Codebook::train(&rows, dimension);
            let mut bytes = Vec::new();
            codebook.write(&mut bytes);
            assert_eq!(bytes.len(), Codebook::len(dimension));
            assert_eq!(Codebook::read(dimension, &bytes), Some(codebook), "dimension {dimension}");
            assert_eq!(Codebook::read(dimension, &bytes[1..]), None);
        }
    }

    #[test]
    fn estimates_are_close_to_products_and_scale_exactly() {
        let kernels = Kernels::current();
        let rows = rows(&mut Rng(5), 1100);
        let (others, fitted) = rows.split_at(100);
        let codebook = Codebook::train(fitted, DIMENSION);
        let (query, query_scale) = quantise(&others[0]);
        let products = codebook.query(kernels, &query);
        let estimate = |row: &[i8], scale: f32| {
            let mut encoder = codebook.encoder();
            let coded = encoder.encode(kernels, row, scale);
            let mut block = vec![0; weir_kernels::pq4_block_bytes(codebook.groups())];
            weir_kernels::pq4_write_row(&mut block, 0, coded.codes);
            let mut factors = [f32::NAN; weir_kernels::PQ4_BLOCK_ROWS];
            factors[0] = coded.factor;
            let mut scores = [0.0; weir_kernels::PQ4_BLOCK_ROWS];
            products.scan(kernels, &block, &factors, f32::NEG_INFINITY, &mut scores);
            scores[0]
        };
        let of_itself = estimate(&query, query_scale);
        let three_times = estimate(&query, 3.0 * query_scale);
        assert!((three_times / of_itself - 3.0).abs() < 1e-4, "of a row three times as long");
        let dot = Kernels::current().dot;
        for other in &others[1..] {
            let (row, scale) = quantise(other);
            let estimated = estimate(&row, scale) / of_itself;
            let exact = dot(&others[0], other) / dot(&others[0], &others[0]);
            assert!((estimated - exact).abs() < 0.15, "{estimated}, exact {exact}");
        }
        assert_eq!(estimate(&[0; DIMENSION], 0.0), 0.0, "of a row of zeros");
    }
}
