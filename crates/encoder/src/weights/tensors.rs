//! The tensors that a network consists of, by name, with their shapes.

use super::names::Names;
use crate::config::Network;

/// A tensor of a checkpoint.
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
}

/// Every tensor of `network`. Lazy: the number of layers in a configuration may be any.
pub(super) fn of(network: &Network) -> impl Iterator<Item = Tensor> {
    let names = Names::of(network.family);
    let hidden = network.hidden_size;
    let words = matrix("embeddings.word_embeddings.weight".to_owned(), network.vocab_size, hidden);
    let positions = matrix("embeddings.position_embeddings.weight".to_owned(), network.position_rows, hidden);
    let types = (network.token_types > 0)
        .then(|| matrix("embeddings.token_type_embeddings.weight".to_owned(), network.token_types, hidden));
    let norm = pair("embeddings.LayerNorm", vec![hidden]);
    let layers =
        (0..network.num_hidden_layers).flat_map(move |layer| tensors_of_layer(network, names, layer));
    let labels = network.labels.len();
    let head = (labels > 0).then(|| {
        [linear(names.head_dense, hidden, hidden), linear(names.head_out, labels, hidden)]
            .into_iter()
            .flatten()
    });
    [words, positions].into_iter().chain(types).chain(norm).chain(layers).chain(head.into_iter().flatten())
}

fn tensors_of_layer(network: &Network, names: &Names, layer: usize) -> impl Iterator<Item = Tensor> {
    let (hidden, wide) = (network.hidden_size, network.intermediate_size);
    let name = |of: &str| format!("{}.{layer}.{of}", names.layers);
    let [query, key, value] = names.query_key_value;
    let linears = [
        (query, hidden, hidden),
        (key, hidden, hidden),
        (value, hidden, hidden),
        (names.attention_out, hidden, hidden),
        (names.up, wide, hidden),
        (names.down, hidden, wide),
    ];
    let linears = linears.map(|(of, outputs, inputs)| linear(&name(of), outputs, inputs));
    let norms = [names.attention_norm, names.ffn_norm].map(|of| pair(&name(of), vec![hidden]));
    linears.into_iter().flatten().chain(norms.into_iter().flatten())
}

fn matrix(name: String, rows: usize, columns: usize) -> Tensor {
    Tensor { name, shape: vec![rows, columns] }
}

/// A matrix and its bias.
fn linear(name: &str, outputs: usize, inputs: usize) -> [Tensor; 2] {
    [
        matrix(format!("{name}.weight"), outputs, inputs),
        Tensor { name: format!("{name}.bias"), shape: vec![outputs] },
    ]
}

/// A weight and a bias of the same shape.
fn pair(name: &str, shape: Vec<usize>) -> [Tensor; 2] {
    ["weight", "bias"].map(|part| Tensor { name: format!("{name}.{part}"), shape: shape.clone() })
}
