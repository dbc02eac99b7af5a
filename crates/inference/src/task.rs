//! The task of the threads: a model over token sequences.

use std::sync::Arc;
use std::time::Duration;

use weir_encoder::{Model, Scratch};
use weir_onnx::{OnnxError, OnnxModel};

use super::request::Lane;
use super::rows::Rows;

/// A model task: maps each token sequence to one row of f32.
#[derive(Clone)]
pub(super) enum ModelTask {
    /// Embeddings by our encoder, with the time for one token of a short text on one thread.
    Embed(Arc<Model>, Duration),
    /// Embeddings by ONNX Runtime, which has threads of its own.
    EmbedOnnx(Arc<OnnxModel>),
    /// Logits of text pairs, by our encoder.
    ScorePairs(Arc<Model>),
    /// The embeddings of all tokens of a sequence, concatenated, by our encoder.
    EmbedTokens(Arc<Model>),
    /// MaxSim with these token embeddings of a query, by our encoder.
    MaxSim(Arc<Model>, Arc<[f32]>),
}

/// Token ids. Those of a second text begin at `second`, which is the length if there is only one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) ids: Vec<u32>,
    pub(super) second: usize,
}

impl From<Vec<u32>> for Sequence {
    fn from(ids: Vec<u32>) -> Sequence {
        Sequence { second: ids.len(), ids }
    }
}

impl ModelTask {
    /// Whether both are the same task of the same model.
    pub(super) fn is_same(&self, other: &ModelTask) -> bool {
        use ModelTask::{Embed, EmbedOnnx, EmbedTokens, MaxSim, ScorePairs};
        match (self, other) {
            (Embed(a, _), Embed(b, _))
            | (ScorePairs(a), ScorePairs(b))
            | (EmbedTokens(a), EmbedTokens(b)) => Arc::ptr_eq(a, b),
            (MaxSim(a, query), MaxSim(b, other)) => Arc::ptr_eq(a, b) && Arc::ptr_eq(query, other),
            (EmbedOnnx(a), EmbedOnnx(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Whether the model has threads of its own, whose CPU time is not that of the caller.
    pub(super) fn is_on_own_threads(&self) -> bool {
        matches!(self, ModelTask::EmbedOnnx(_))
    }

    /// One row for each sequence.
    pub(super) fn compute(
        &self,
        sequences: &[&Sequence],
        lane: Lane,
        scratch: &mut Scratch,
    ) -> Result<Rows, OnnxError> {
        let ids: Vec<&[u32]> = sequences.iter().map(|sequence| sequence.ids.as_slice()).collect();
        let (out, width) = match self {
            ModelTask::Embed(model, _) => {
                let width = model.info().dimension;
                let mut out = vec![0.0; ids.len() * width];
                model.embed(&ids, scratch, &mut out);
                (out, width)
            }
            ModelTask::EmbedOnnx(model) => {
                let lane = match lane {
                    Lane::Query | Lane::Interactive => weir_onnx::Lane::Interactive,
                    Lane::Bulk => weir_onnx::Lane::Bulk,
                };
                (model.embed(&ids, lane)?, model.external_model().dimension())
            }
            ModelTask::ScorePairs(model) => {
                let width = model.info().labels.len();
                let mut out = vec![0.0; ids.len() * width];
                let second: Vec<usize> = sequences.iter().map(|sequence| sequence.second).collect();
                model.classify(&ids, &second, scratch, &mut out);
                (out, width)
            }
            ModelTask::EmbedTokens(model) => return Ok(embed_tokens(model, &ids, scratch)),
            ModelTask::MaxSim(model, query) => {
                let mut out = vec![0.0; ids.len()];
                model.max_sim(query, &ids, scratch, &mut out);
                (out, 1)
            }
        };
        Ok(Rows::of_lengths(out, std::iter::repeat_n(width, ids.len())))
    }
}

/// The embeddings of the tokens of each sequence, concatenated.
fn embed_tokens(model: &Model, sequences: &[&[u32]], scratch: &mut Scratch) -> Rows {
    let width = model.info().dimension;
    let count: usize = sequences.iter().map(|ids| ids.len()).sum();
    let (mut pooled, mut tokens) = (vec![0.0; sequences.len() * width], vec![0.0; count * width]);
    model.embed_tokens(sequences, scratch, &mut pooled, &mut tokens);
    Rows::of_lengths(tokens, sequences.iter().map(|ids| ids.len() * width))
}
