//! Directions in which the signs of embeddings tell most about them.
//!
//! Embeddings lie near a space of fewer dimensions than they have values: two thirds as many signs, taken in directions that
//! span that space, rank a collection as well as those of all values, and a scan reads two thirds as much. The space is found by
//! orthogonal iteration on the second moments of a sample (Golub and Van Loan, *Matrix Computations*, 8.2.4), and its axes are
//! turned at random, so that each sign tells equally much (Gong and Lazebnik, "Iterative Quantization", 2011).

use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator};
use weir_kernels::Kernels;

/// Embeddings of fewer values keep a direction for each.
const REDUCED_FROM: usize = 256;
/// More directions than these cost more than they tell.
const DIRECTIONS_MAX: usize = 512;
/// Signs are looked up by the register, which so many fill.
const DIRECTIONS_MULTIPLE: usize = 16;
/// Rounds of the iteration: more did not rank better.
const ROUNDS: usize = 4;
/// Below this length a direction is what rounding left of one that the others span.
const LENGTH_MIN: f32 = 1e-3;

/// Orthogonal directions, in int8 as rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Basis {
    dimension: usize,
    /// One after the other, all with one scale.
    directions: Vec<i8>,
}

impl Basis {
    /// Learns from rows of `dimension` values. The same rows in the same order give the same basis.
    pub(crate) fn learn(rows: &[Vec<f32>], dimension: usize) -> Basis {
        let count = match dimension {
            ..REDUCED_FROM => dimension,
            _ => (dimension * 2 / 3).next_multiple_of(DIRECTIONS_MULTIPLE).min(DIRECTIONS_MAX),
        };
        let mut random = Random(1);
        let moments = moments(rows, dimension);
        let mut directions: Vec<Vec<f32>> = (0..count).map(|_| random.vector(dimension)).collect();
        orthonormalise(&mut directions, &mut random);
        for _ in 0..ROUNDS {
            directions = directions.par_iter().map(|direction| products(&moments, direction)).collect();
            orthonormalise(&mut directions, &mut random);
        }
        let mut turns: Vec<Vec<f32>> = (0..count).map(|_| random.vector(count)).collect();
        orthonormalise(&mut turns, &mut random);
        let directions = transposed(&directions, dimension);
        let turned: Vec<Vec<f32>> = turns.par_iter().map(|turn| products(&directions, turn)).collect();
        let largest = turned.iter().flatten().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
        let quantise = |x: &f32| (x / largest * 127.0).round() as i8;
        Basis { dimension, directions: turned.iter().flatten().map(quantise).collect() }
    }

    /// Number of directions.
    pub(crate) fn len(&self) -> usize {
        self.directions.len() / self.dimension.max(1)
    }

    /// The products of a row with each direction, of which `out` has room for all.
    pub(crate) fn project(&self, kernels: &Kernels, row: &[i8], out: &mut [i32]) {
        (kernels.dot_i8_rows)(row, &self.directions, out);
    }
}

/// The sums over all rows of the products of each two values: a symmetric matrix.
fn moments(rows: &[Vec<f32>], dimension: usize) -> Vec<Vec<f32>> {
    let columns = transposed(rows, dimension);
    columns.par_iter().map(|column| products(&columns, column)).collect()
}

/// The product of each row of a matrix with a vector.
fn products(matrix: &[Vec<f32>], vector: &[f32]) -> Vec<f32> {
    let dot = Kernels::current().dot;
    matrix.iter().map(|row| dot(row, vector)).collect()
}

fn transposed(rows: &[Vec<f32>], columns: usize) -> Vec<Vec<f32>> {
    (0..columns).into_par_iter().map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

/// Makes the vectors, of which there are no more than they have values, orthogonal and of length one (Gram and Schmidt, twice
/// over against rounding). What the ones before it span is replaced by a random one.
fn orthonormalise(vectors: &mut [Vec<f32>], random: &mut Random) {
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
                let along = dot(vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
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

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers everywhere.
struct Random(u64);

impl Random {
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

    fn direction(basis: &Basis, at: usize) -> Vec<f32> {
        basis
            .directions
            .chunks_exact(basis.dimension)
            .nth(at)
            .unwrap()
            .iter()
            .map(|&x| f32::from(x))
            .collect()
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    #[test]
    fn directions_are_orthogonal_whatever_the_rows_are() {
        let mut random = Random(7);
        let rows: Vec<Vec<f32>> = (0..50).map(|_| random.vector(320)).collect();
        for rows in [rows, vec![vec![1.0; 320]; 50], vec![vec![0.0; 320]; 3], Vec::new()] {
            let basis = Basis::learn(&rows, 320);
            assert_eq!(basis.len(), 224);
            for i in 0..basis.len() {
                for j in 0..i {
                    let cosine = cosine(&direction(&basis, i), &direction(&basis, j));
                    assert!(cosine.abs() < 0.03, "directions {i} and {j}: {cosine}");
                }
            }
        }
    }

    #[test]
    fn there_are_fewer_directions_than_values_in_long_embeddings_and_never_many() {
        let len = |dimension| Basis::learn(&[], dimension).len();
        assert_eq!([1, 2, 64, 255, 256, 384].map(len), [1, 2, 64, 255, 176, 256]);
        assert_eq!(len(1100), 512);
    }

    #[test]
    fn directions_span_the_space_of_the_rows() {
        let mut random = Random(3);
        let axes: Vec<Vec<f32>> = (0..20).map(|_| random.vector(384)).collect();
        let columns = transposed(&axes, 384);
        let mut row = || products(&columns, &random.vector(20));
        let basis = Basis::learn(&(0..200).map(|_| row()).collect::<Vec<_>>(), 384);
        let another = row();
        let along: Vec<f32> = (0..basis.len()).map(|at| cosine(&direction(&basis, at), &another)).collect();
        let kept: f32 = along.iter().map(|cosine| cosine * cosine).sum();
        assert!(kept > 0.995, "of its squared length {kept} is kept");
        // none tells much more than another
        assert!(along.iter().all(|cosine| cosine.abs() < 0.35), "{along:?}");
    }
}
