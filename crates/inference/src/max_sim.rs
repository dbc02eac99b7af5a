//! Late interaction: MaxSim scores of texts for a query (Khattab and Zaharia, "ColBERT", SIGIR 2020).

use std::sync::Arc;

use super::models::{Embedder, LoadedModel};
use super::rows::Rows;
use super::task::{ModelTask, Sequence};
use super::{InferenceError, Scheduler};

impl LoadedModel {
    /// Whether the model computes one embedding per token; models of our encoder do.
    pub fn has_token_embeddings(&self) -> bool {
        matches!(self.embedder, Embedder::Local(_))
    }
}

impl Scheduler {
    /// The MaxSim score of each text for the query, in order, from -1 to 1: the mean, over the query's tokens, of the best cosine with
    /// a token of the text. Prompts are part of `query` and `texts`. Dropping the future cancels the work.
    ///
    /// # Errors
    /// [`InferenceError`]; `Failed` for a model without [token embeddings](LoadedModel::has_token_embeddings).
    pub async fn max_sim(
        &self,
        model: &LoadedModel,
        query: String,
        texts: Vec<String>,
    ) -> Result<Vec<f32>, InferenceError> {
        let Embedder::Local(encoder) = &model.embedder else { return Err(InferenceError::Failed) };
        let tokenizing = encoder.clone();
        let tokenize = move || {
            let sequence = |text: &String| Sequence::from(tokenizing.tokenizer().encode(text).ids);
            (sequence(&query), texts.iter().map(sequence).collect())
        };
        let (query, texts) =
            tokio::task::spawn_blocking(tokenize).await.map_err(|_| InferenceError::Failed)?;
        let rows = self.compute_second_stage(&ModelTask::EmbedTokens(encoder.clone()), vec![query]).await?;
        let query = without_special_tokens(rows.get(0).unwrap_or_default(), encoder.info().dimension);
        let scores = self.compute_second_stage(&ModelTask::MaxSim(encoder.clone(), query), texts).await?;
        let finite = |row: &[f32]| row.first().copied().filter(|score| score.is_finite());
        scores.iter().map(|row| finite(row).ok_or(InferenceError::Failed)).collect()
    }
}

impl Scheduler {
    /// The embeddings of all tokens of each text, special ones included, concatenated; texts are truncated to the model's length.
    ///
    /// # Errors
    /// [`InferenceError`]; `Failed` for a model without [token embeddings](LoadedModel::has_token_embeddings).
    pub async fn embed_tokens(
        &self,
        model: &LoadedModel,
        texts: Vec<String>,
    ) -> Result<Rows, InferenceError> {
        let Embedder::Local(encoder) = &model.embedder else { return Err(InferenceError::Failed) };
        let tokenizing = encoder.clone();
        let tokenize = move || {
            texts.iter().map(|text| Sequence::from(tokenizing.tokenizer().encode(text).ids)).collect()
        };
        let sequences = tokio::task::spawn_blocking(tokenize).await.map_err(|_| InferenceError::Failed)?;
        self.compute_second_stage(&ModelTask::EmbedTokens(encoder.clone()), sequences).await
    }
}

/// The embeddings without those of the special tokens at both ends; unchanged if there are no others.
fn without_special_tokens(embeddings: &[f32], width: usize) -> Arc<[f32]> {
    match embeddings.len() / width.max(1) {
        0..=2 => embeddings.into(),
        count => embeddings[width..(count - 1) * width].into(),
    }
}
