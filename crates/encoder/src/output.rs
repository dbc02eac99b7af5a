//! Computes sequence embeddings, token embeddings and logits from the last hidden rows.

use crate::Pooling;
use crate::config::Family;
use crate::forward::{self, Scratch};
use crate::network::LoadedNetwork;
use crate::weights::Dense;

/// See [`crate::Model::embed`].
pub(crate) fn embed(network: &LoadedNetwork, sequences: &[&[u32]], scratch: &mut Scratch, out: &mut [f32]) {
    let width = network.config.network.hidden_size;
    assert_eq!(out.len(), sequences.len() * width, "embed: out has the wrong length");
    forward::run(network, sequences, &[], scratch);
    pool_all(network, sequences, scratch.rows(width), out);
}

/// See [`crate::Model::embed_tokens`].
pub(crate) fn embed_tokens(
    network: &LoadedNetwork,
    sequences: &[&[u32]],
    scratch: &mut Scratch,
    out: &mut [f32],
    tokens: &mut [f32],
) {
    let width = network.config.network.hidden_size;
    let count = sequences.iter().map(|ids| ids.len()).sum::<usize>();
    assert_eq!(tokens.len(), count * width, "embed_tokens: tokens has the wrong length");
    embed(network, sequences, scratch, out);
    for (token, row) in tokens.chunks_exact_mut(width).zip(scratch.rows(width)) {
        token.copy_from_slice(row);
        normalise(network, token);
    }
}

/// See [`crate::Model::max_sim`].
pub(crate) fn max_sim(
    network: &LoadedNetwork,
    tokens: &[f32],
    sequences: &[&[u32]],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let width = network.config.network.hidden_size;
    assert!(
        !tokens.is_empty() && tokens.len().is_multiple_of(width),
        "max_sim: tokens is empty or not whole embeddings"
    );
    assert_eq!(out.len(), sequences.len(), "max_sim: out has the wrong length");
    forward::run(network, sequences, &[], scratch);
    let mut rows = scratch.rows(width);
    let mut best = vec![0.0; tokens.len() / width];
    let mut normalised = vec![0.0; width];
    for (ids, out) in sequences.iter().zip(out) {
        best.fill(-1.0f32);
        for (index, row) in rows.by_ref().take(ids.len()).enumerate() {
            // the first and the last token are special
            let is_special = index == 0 || index + 1 == ids.len();
            if is_special && ids.len() > 2 {
                continue;
            }
            normalised.copy_from_slice(row);
            normalise(network, &mut normalised);
            for (best, token) in best.iter_mut().zip(tokens.chunks_exact(width)) {
                *best = best.max((network.kernels.dot)(token, &normalised));
            }
        }
        *out = best.iter().sum::<f32>() / best.len() as f32;
    }
}

/// See [`crate::Model::classify`].
pub(crate) fn classify(
    network: &LoadedNetwork,
    pairs: &[&[u32]],
    second: &[usize],
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let labels = network.config.network.labels.len();
    assert!(labels > 0, "classify: the model has no classification head");
    assert_eq!(out.len(), pairs.len() * labels, "classify: out has the wrong length");
    forward::run(network, pairs, second, scratch);
    let Some(head) = &network.weights.layout.head else { return };
    let mut rows = scratch.rows(network.config.network.hidden_size);
    let mut hidden = vec![0.0; network.config.network.hidden_size];
    for (ids, logits) in pairs.iter().zip(out.chunks_exact_mut(labels)) {
        let Some(first) = rows.next() else { return };
        dense(network, &head.dense, first, &mut hidden);
        hidden.iter_mut().for_each(|x| *x = activate(network.config.network.family, *x));
        dense(network, &head.out, &hidden, logits);
        rows.by_ref().take(ids.len() - 1).for_each(drop);
    }
}

/// The activation function between the two layers of a head.
fn activate(family: Family, x: f32) -> f32 {
    match family {
        Family::Bert | Family::Roberta => x.tanh(),
        Family::DistilBert => x.max(0.0),
    }
}

fn dense(network: &LoadedNetwork, dense: &Dense, row: &[f32], out: &mut [f32]) {
    let weights = &network.weights;
    let columns = weights.floats(&dense.weight).chunks_exact(dense.depth);
    for ((x, column), bias) in out.iter_mut().zip(columns).zip(weights.floats(&dense.bias)) {
        *x = (network.kernels.dot)(row, column) + bias;
    }
}

/// Pools the rows of each sequence into one vector.
pub(crate) fn pool_all<'a>(
    network: &LoadedNetwork,
    sequences: &[&[u32]],
    mut rows: impl Iterator<Item = &'a [f32]>,
    out: &mut [f32],
) {
    let width = network.config.network.hidden_size;
    for (ids, out) in sequences.iter().zip(out.chunks_exact_mut(width)) {
        pool(network.config.pooling, rows.by_ref().take(ids.len()), ids.len(), out);
        if network.config.normalise {
            normalise(network, out);
        }
    }
}

/// Pools the `count` rows into one vector. Consumes all of `rows`.
pub(crate) fn pool<'a>(
    pooling: Pooling,
    rows: impl Iterator<Item = &'a [f32]>,
    count: usize,
    out: &mut [f32],
) {
    match pooling {
        Pooling::Mean => {
            sum(rows, out);
            out.iter_mut().for_each(|x| *x /= count as f32);
        }
        Pooling::MeanSqrtLen => {
            sum(rows, out);
            out.iter_mut().for_each(|x| *x /= (count as f32).sqrt());
        }
        Pooling::Max => {
            out.fill(f32::NEG_INFINITY);
            rows.for_each(|row| out.iter_mut().zip(row).for_each(|(max, x)| *max = max.max(*x)));
        }
        Pooling::Cls => rows.enumerate().for_each(|(at, row)| {
            if at == 0 {
                out.copy_from_slice(row);
            }
        }),
        Pooling::LastToken => rows.for_each(|row| out.copy_from_slice(row)),
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a [f32]>, out: &mut [f32]) {
    out.fill(0.0);
    rows.for_each(|row| out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
}

/// Lower bound of the divisor when a vector is normalised: the direction of a shorter vector is noise.
pub(crate) const LENGTH_MIN: f32 = 1e-12;

/// Scales `vector` to length one.
pub(crate) fn normalise(network: &LoadedNetwork, vector: &mut [f32]) {
    let length = (network.kernels.dot)(vector, vector).sqrt().max(LENGTH_MIN);
    vector.iter_mut().for_each(|x| *x /= length);
}
