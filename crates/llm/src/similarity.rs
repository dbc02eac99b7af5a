//! Embeddings of questions, by the gateway's own model: for topics of guardrails and for [questions that mean the same](crate::question).

use weir_inference::{Caching, EmbedOptions, Flow, Lane, Models, Scheduler, l2_normalise};

/// The gateway's models, with which texts are compared.
#[derive(Clone)]
pub struct Embedding {
    /// The models.
    pub models: Models,
    /// The scheduler that computes them.
    pub scheduler: Scheduler,
}

impl Embedding {
    /// Embeddings of length one by the default model; `None` without one, or when it fails or is overloaded.
    pub(crate) async fn embed(&self, texts: &[&str]) -> Option<Vec<Vec<f32>>> {
        let model = self.models.default_model()?.clone();
        let inputs = texts.iter().map(|text| model.query_input(text)).collect();
        let options =
            EmbedOptions { lane: Lane::Query, flow: Flow::Request, caching: Caching::On, deadline: None };
        let embedded = self.scheduler.embed(&model, inputs, options).await;
        let embedded =
            embedded.inspect_err(|error| tracing::warn!(%error, "a question was not embedded")).ok()?;
        let rows = embedded.embeddings.iter().map(|row| {
            let mut row = row.to_vec();
            l2_normalise(&mut row);
            row
        });
        Some(rows.collect())
    }
}

/// The cosine of two embeddings of length one.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
