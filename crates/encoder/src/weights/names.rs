//! Names of the tensors in checkpoints.

use crate::config::Family;

/// The names of one family. Those of a layer follow `{layers}.{number}.`; each has a `weight` and a `bias`.
pub(super) struct Names {
    /// Prefix of every name except the head's, in models saved with a head.
    pub(super) prefix: &'static str,
    pub(super) layers: &'static str,
    pub(super) query_key_value: [&'static str; 3],
    pub(super) attention_out: &'static str,
    pub(super) attention_norm: &'static str,
    pub(super) up: &'static str,
    pub(super) down: &'static str,
    pub(super) ffn_norm: &'static str,
    pub(super) head_dense: &'static str,
    pub(super) head_out: &'static str,
}

const BERT: Names = Names {
    prefix: "bert.",
    layers: "encoder.layer",
    query_key_value: ["attention.self.query", "attention.self.key", "attention.self.value"],
    attention_out: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    ffn_norm: "output.LayerNorm",
    head_dense: "pooler.dense",
    head_out: "classifier",
};

const ROBERTA: Names =
    Names { prefix: "roberta.", head_dense: "classifier.dense", head_out: "classifier.out_proj", ..BERT };

const DISTILBERT: Names = Names {
    prefix: "distilbert.",
    layers: "transformer.layer",
    query_key_value: ["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    attention_out: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    up: "ffn.lin1",
    down: "ffn.lin2",
    ffn_norm: "output_layer_norm",
    head_dense: "pre_classifier",
    head_out: "classifier",
};

impl Names {
    pub(super) fn of(family: Family) -> &'static Names {
        match family {
            Family::Bert => &BERT,
            Family::Roberta => &ROBERTA,
            Family::DistilBert => &DISTILBERT,
        }
    }
}
