//! Embeddings: from a file, or clustered random ones.

use std::path::Path;

use crate::{DIMENSION, Outcome};

/// Clusters of the random vectors, directions in each, and share of noise.
const CLUSTERS: usize = 2000;
const RANK: usize = 48;

pub(crate) struct Vectors {
    pub(crate) documents: Vec<Vec<f32>>,
    pub(crate) queries: Vec<Vec<f32>>,
}

impl Vectors {
    pub(crate) fn from_file(path: &Path, documents: usize, queries: usize) -> Outcome<Vectors> {
        let bytes = std::fs::read(path)?;
        let values: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let mut rows = values.chunks_exact(DIMENSION).map(<[f32]>::to_vec);
        let documents: Vec<Vec<f32>> = rows.by_ref().take(documents).collect();
        let queries: Vec<Vec<f32>> = rows.take(queries).collect();
        if queries.is_empty() {
            Err("the vectors file has too few rows".into())
        } else {
            Ok(Vectors { documents, queries })
        }
    }

    pub(crate) fn clustered(documents: usize, queries: usize) -> Vectors {
        let mut random = Rng(11);
        let directions: Vec<Vec<f32>> = (0..RANK).map(|_| random.normals(DIMENSION)).collect();
        let centres: Vec<Vec<f32>> = (0..CLUSTERS).map(|_| random.normals(RANK)).collect();
        let mut near_centre = || {
            let centre = &centres[random.below(CLUSTERS)];
            let inner: Vec<f32> = centre.iter().map(|value| value + 0.5 * random.normal()).collect();
            let mut vector: Vec<f32> = (0..DIMENSION).map(|_| 2.0 * random.normal()).collect();
            for (direction, weight) in directions.iter().zip(&inner) {
                vector.iter_mut().zip(direction).for_each(|(value, step)| *value += weight * step);
            }
            unit(vector)
        };
        Vectors {
            documents: (0..documents).map(|_| near_centre()).collect(),
            queries: (0..queries).map(|_| near_centre()).collect(),
        }
    }

    /// The documents with the largest dot products in f64, best first.
    pub(crate) fn nearest(&self, query: &[f32], count: usize) -> Vec<usize> {
        let mut scored: Vec<(f64, usize)> = self
            .documents
            .iter()
            .enumerate()
            .map(|(number, document)| (dot(query, document), number))
            .collect();
        let count = count.min(scored.len());
        scored.select_nth_unstable_by(count.saturating_sub(1), |a, b| b.0.total_cmp(&a.0));
        scored.truncate(count);
        scored.into_iter().map(|(_, number)| number).collect()
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0f64; 8];
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        for lane in 0..8 {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    sums.iter().sum()
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

/// SplitMix64: the same numbers on every machine.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// In 0..1.
    pub(crate) fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// Near enough to a normal distribution: four uniform numbers.
    fn normal(&mut self) -> f32 {
        ((0..4).map(|_| self.uniform()).sum::<f32>() - 2.0) * 1.732
    }

    fn normals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.normal()).collect()
    }
}
