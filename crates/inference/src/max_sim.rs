//! Late interaction: MaxSim scores of texts for a query (Khattab and Zaharia, "ColBERT", SIGIR 2020).

use std::sync::Arc;

use super::models::{Embedder, LoadedModel};
use super::pool::{Engine, Sequence};
use super::{InferenceError, Scheduler};

impl LoadedModel {
    /// Whether tokens can be compared: the network has to run in our encoder.
    pub fn has_token_embeddings(&self) -> bool {
        matches!(self.embedder, Embedder::Local(_))
    }
}

impl Scheduler {
    /// The MaxSim score of each text for the query, in their order, from -1 to 1: the mean, over the query's tokens, of the best cosine
    /// with a token of the text. Prompts are part of `query` and `texts`.
    ///
    /// A caller who leaves ends the work.
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
        let reader = encoder.clone();
        let read = move || {
            let sequence = |text: &String| Sequence::from(reader.tokenizer().encode(text).ids);
            (sequence(&query), texts.iter().map(sequence).collect())
        };
        let (asked, sequences) =
            tokio::task::spawn_blocking(read).await.map_err(|_| InferenceError::Failed)?;
        let tokens = self.compute_in_turn(&Engine::Tokens(encoder.clone()), vec![asked]).await?;
        let tokens = tokens.into_iter().next().unwrap_or_default();
        let engine = Engine::MaxSim(encoder.clone(), inner(&tokens, encoder.info().dimension));
        let rows = self.compute_in_turn(&engine, sequences).await?;
        let finite = |row: &Vec<f32>| row.first().copied().filter(|score| score.is_finite());
        rows.iter().map(|row| finite(row).ok_or(InferenceError::Failed)).collect()
    }
}

/// The embeddings without those of the special tokens at both ends, where there are others.
fn inner(tokens: &[f32], width: usize) -> Arc<[f32]> {
    match tokens.len() / width.max(1) {
        0..=2 => tokens.into(),
        count => tokens[width..(count - 1) * width].into(),
    }
}
