//! Smoothing of scores over similar documents. Pure: equal input gives equal output, bit for bit.
//!
//! Documents that answer the same query are similar to each other (van Rijsbergen, *Information Retrieval*, 1979: the cluster
//! hypothesis). A document thus takes over a part of the scores of its nearest neighbours among the first of the ranking, which
//! lifts those that the retrievers ranked too low and lowers those that stand alone (Diaz, "Regularizing ad hoc retrieval
//! scores", CIKM 2005).

use weir_kernels::Kernels;

/// Documents that are smoothed: the first of the ranking. The constants are those of a study on five sets (cranfield, cacm, scifact, xquad,
/// dbpedia-entity): mean nDCG@10 .6344 without smoothing, .6433 with it (`weir eval --unsmoothed`).
pub const SMOOTHED_MAX: usize = 50;
/// Neighbours of a document.
const NEIGHBOURS: usize = 5;
/// Share of the neighbours' mean in a document's score.
pub const SHARE: f32 = 0.35;
/// Rounds, each of which starts from the scores of the previous one.
const ROUNDS: usize = 2;
/// Documents with a higher cosine are near-duplicates, which do not support each other.
const COSINE_MAX: f32 = 0.97;

/// The nearest neighbours of each document, with weights whose sum is 1. None for a document that is similar to no other.
type Neighbours = Vec<[(usize, f32); NEIGHBOURS]>;

/// Replaces scores by smoothed ones: [`ROUNDS`] times `0.65 × own score + 0.35 × mean of the neighbours`, where neighbours are weighted
/// by their cosines. A document without neighbours keeps its score.
///
/// `rows` are the documents' embeddings in int8, `rows.len() / scores.len()` values each.
///
/// # Panics
/// If there is not one row of the same length per score.
pub fn smooth(scores: &mut [f32], rows: &[i8]) {
    if scores.len() < 2 {
        return;
    }
    assert!(rows.len().is_multiple_of(scores.len()), "one row per score");
    let neighbours = neighbours(rows, rows.len() / scores.len());
    let own = scores.to_vec();
    for _ in 0..ROUNDS {
        let before = scores.to_vec();
        for ((score, own), neighbours) in scores.iter_mut().zip(&own).zip(&neighbours) {
            let weights: f32 = neighbours.iter().map(|(_, weight)| weight).sum();
            if weights > 0.0 {
                let sum: f32 = neighbours.iter().map(|&(index, weight)| weight * before[index]).sum();
                *score = (1.0 - SHARE) * own + SHARE * (sum / weights);
            }
        }
    }
}

fn neighbours(rows: &[i8], dimension: usize) -> Neighbours {
    let count = rows.len().checked_div(dimension).unwrap_or_default();
    let mut products = vec![0i32; count * count];
    for (index, row) in rows.chunks_exact(dimension.max(1)).enumerate() {
        // the matrix is symmetric
        let later = index * count + index..(index + 1) * count;
        (Kernels::current().dot_i8_rows)(row, &rows[index * dimension..], &mut products[later]);
    }
    // 0 for a document without direction, so that it is similar to none
    let inverse_length = |index: usize| match products[index * count + index] {
        0 => 0.0,
        square => (square as f32).sqrt().recip(),
    };
    let inverse_lengths: Vec<f32> = (0..count).map(inverse_length).collect();
    let mut cosines = vec![0.0f32; count * count];
    for one in 0..count {
        for other in one + 1..count {
            let product = products[one * count + other] as f32;
            let cosine = product * inverse_lengths[one] * inverse_lengths[other];
            cosines[one * count + other] = cosine;
            cosines[other * count + one] = cosine;
        }
    }
    let nearest = |index: usize| {
        let mut nearest = [(0, 0.0f32); NEIGHBOURS];
        for (other, &cosine) in cosines[index * count..(index + 1) * count].iter().enumerate() {
            let mut candidate = (other, cosine);
            if cosine <= nearest[NEIGHBOURS - 1].1 || cosine > COSINE_MAX {
                continue;
            }
            for kept in &mut nearest {
                if candidate.1 > kept.1 {
                    std::mem::swap(kept, &mut candidate);
                }
            }
        }
        nearest
    };
    (0..count).map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smoothed(scores: &[f32], rows: &[[i8; 2]]) -> Vec<f32> {
        let mut scores = scores.to_vec();
        smooth(&mut scores, rows.as_flattened());
        scores
    }

    #[track_caller]
    fn assert_near(got: &[f32], want: &[f32]) {
        let is_near = got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-4);
        assert!(is_near && got.len() == want.len(), "{got:?} instead of {want:?}");
    }

    #[test]
    fn a_document_takes_over_a_part_of_its_neighbours_scores() {
        // the first two are 60 degrees apart, and each is the only neighbour of the other
        let rows = [[100, 0], [50, 87], [-100, -10]];
        let first = |own: f32, other: f32| 0.65 * own + 0.35 * (0.65 * other + 0.35 * own);
        assert_near(&smoothed(&[1.0, 0.5, 0.8], &rows), &[first(1.0, 0.5), first(0.5, 1.0), 0.8]);
    }

    #[test]
    fn neighbours_are_weighted_by_their_cosines() {
        // at 0, 60 and -41.4 degrees: cosines 0.5 and 0.75 with the first, none between the others
        let rows = [[100, 0], [50, 87], [75, -66]];
        let once = |own: f32, mean: f32| 0.65 * own + 0.35 * mean;
        let (a, b, c) = (1.0, 0.4, 0.6);
        let cosine = |x: [i8; 2], y: [i8; 2]| {
            let dot = |x: [i8; 2], y: [i8; 2]| (0..2).map(|k| f32::from(x[k]) * f32::from(y[k])).sum::<f32>();
            dot(x, y) / (dot(x, x) * dot(y, y)).sqrt()
        };
        let (ab, ac) = (cosine(rows[0], rows[1]), cosine(rows[0], rows[2]));
        assert!(cosine(rows[1], rows[2]) < 0.0);
        let mean = |b: f32, c: f32| (ab * b + ac * c) / (ab + ac);
        let after_one = [once(a, mean(b, c)), once(b, a), once(c, a)];
        let want = [once(a, mean(after_one[1], after_one[2])), once(b, after_one[0]), once(c, after_one[0])];
        assert_near(&smoothed(&[a, b, c], &rows), &want);
    }

    #[test]
    fn near_duplicates_and_documents_without_direction_keep_their_scores() {
        assert_eq!(smoothed(&[1.0, 0.5], &[[100, 0], [100, 5]]), [1.0, 0.5]);
        assert_eq!(smoothed(&[1.0, 0.5, 0.3], &[[7, 7]; 3]), [1.0, 0.5, 0.3]);
        assert_eq!(smoothed(&[1.0, 0.5, 0.3], &[[0, 0]; 3]), [1.0, 0.5, 0.3]);
        assert_eq!(smoothed(&[1.0], &[[1, 1]]), [1.0]);
        assert_eq!(smoothed(&[], &[]), [0.0; 0]);
        let mut scores = [1.0, 0.5];
        smooth(&mut scores, &[]);
        assert_eq!(scores, [1.0, 0.5]);
    }

    #[test]
    fn the_nearest_five_count() {
        // further and further from the first, within 90 degrees
        let rows: Vec<[i8; 2]> = (0..8).map(|step: i8| [120 - 8 * step, 14 * step]).collect();
        let found = neighbours(rows.as_flattened(), 2);
        let first: Vec<usize> = found[0].iter().map(|(index, _)| *index).collect();
        assert_eq!(first[1..], [3, 4, 5, 6], "the cosine of the second is too high");
        assert_eq!(first[0], 2);
    }
}
