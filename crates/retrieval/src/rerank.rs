//! Reranking and classification by cross-encoders, for every API that asks for them.

use std::sync::Arc;
use std::time::Instant;

use weir_api::{ErrorCode, Invalid, Label, Labels, RerankRequest};
use weir_inference::{RerankInput, Reranker};

use crate::{RequestError, Result, Retrieval};

impl Retrieval {
    /// Tokenises the pairs of the request's query and each of `texts`, which it had in `field`.
    ///
    /// # Errors
    /// `invalid_parameter` for what a model on another server does not do, `context_length_exceeded` for a text that may not be truncated,
    /// `batch_too_large` beyond `limits.embedding_tokens_max`.
    pub async fn tokenize_pairs(
        &self,
        model: &Arc<Reranker>,
        request: &RerankRequest,
        texts: Vec<String>,
        field: &str,
    ) -> Result<RerankInput> {
        check_upstream(model, request)?;
        let (tokenizing, query) = (model.clone(), request.query.clone());
        let text_tokens_max =
            request.max_tokens_per_doc.map(|tokens| usize::try_from(tokens.get()).unwrap_or(usize::MAX));
        let input = tokio::task::spawn_blocking(move || tokenizing.input(&query, &texts, text_tokens_max));
        let input = input.await.map_err(|error| RequestError::internal(&error))?;
        request.check_truncated(field, &input.truncated)?;
        self.check_pairs(&input, field)?;
        Ok(input)
    }

    /// The texts by their score for the query, best first: their indices and scores, at most `top_n` of the request.
    ///
    /// # Errors
    /// Those of the scheduler.
    pub async fn rerank(
        &self,
        model: &Reranker,
        request: &RerankRequest,
        input: RerankInput,
        deadline: Option<Instant>,
    ) -> Result<Vec<(usize, f32)>> {
        let scores = match request.raw_scores == Some(true) {
            true => self.scheduler.rerank_logits(model, input, deadline).await?,
            false => self.scheduler.rerank(model, input, deadline).await?,
        };
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
        ranked.sort_by(|(a, left), (b, right)| right.total_cmp(left).then(a.cmp(b)));
        let count = request.top_n.map(|top_n| usize::try_from(top_n.get()).unwrap_or(usize::MAX));
        ranked.truncate(count.unwrap_or(usize::MAX));
        Ok(ranked)
    }

    /// Tokenises texts and pairs of texts, which the request has in `inputs`, for [`Retrieval::classify`].
    ///
    /// # Errors
    /// `context_length_exceeded` for an input that may not be truncated, `batch_too_large` beyond `limits.embedding_tokens_max`.
    pub async fn tokenize_to_classify(
        &self,
        model: &Arc<Reranker>,
        inputs: Vec<(String, Option<String>)>,
        may_truncate: bool,
    ) -> Result<RerankInput> {
        let tokenizing = model.clone();
        let input = tokio::task::spawn_blocking(move || tokenizing.texts_and_pairs(&inputs)).await;
        let input = input.map_err(|error| RequestError::internal(&error))?.ok_or_else(no_labels)?;
        if let Some(&index) = input.truncated.first()
            && !may_truncate
        {
            let message =
                "the input is longer than the model's input limit; shorten it, or leave `truncate` out";
            let code = ErrorCode::ContextLengthExceeded;
            return Err(Invalid::at_item(code, "inputs", index, message.to_owned()).into());
        }
        self.check_pairs(&input, "inputs")?;
        Ok(input)
    }

    /// The labels of each input with their scores, best first.
    ///
    /// # Errors
    /// Those of the scheduler.
    pub async fn classify(&self, model: &Reranker, input: RerankInput, is_raw: bool) -> Result<Vec<Labels>> {
        let labels = model.labels().ok_or_else(no_labels)?;
        let rows = self.scheduler.classify(model, input).await?;
        Ok(rows.iter().map(|logits| labelled(labels, logits, is_raw)).collect())
    }

    /// Refuses pairs with more tokens than a request may have; `field` is where the request has the texts.
    fn check_pairs(&self, input: &RerankInput, field: &str) -> Result<(), Invalid> {
        let (tokens, most) = (input.tokens, self.config.limits.embedding_tokens_max);
        if tokens <= most {
            return Ok(());
        }
        let message = format!(
            "the pairs have {tokens} tokens; the limit `limits.embedding_tokens_max` is {most}, so send fewer or shorter texts"
        );
        Err(Invalid::at(ErrorCode::BatchTooLarge, &[field], message))
    }
}

/// A model on another server does not classify, and is not found as a classifier.
fn no_labels() -> RequestError {
    RequestError::new(ErrorCode::Internal, RequestError::INTERNAL)
}

/// Refuses what depends on the truncation of documents, for a model on another server: it is not known here.
fn check_upstream(model: &Reranker, request: &RerankRequest) -> Result<(), Invalid> {
    let is_upstream = model.labels().is_none();
    let has_chunks = request.max_chunks_per_doc.is_some_and(|chunks| chunks.get() > 1);
    let field = match (request.truncate == Some(false), has_chunks) {
        (true, _) if is_upstream => "truncate",
        (false, true) if is_upstream => "max_chunks_per_doc",
        _ => return Ok(()),
    };
    let message = format!(
        "the model `{}` runs on another server, to which `{field}` is not passed on; leave it out",
        model.id
    );
    Err(Invalid::at(ErrorCode::InvalidParameter, &[field], message))
}

/// The labels with their scores, the best first: logits, or probabilities, by the sigmoid of a single logit and the softmax of several.
fn labelled(labels: &[String], logits: &[f32], is_raw: bool) -> Labels {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    let score = |logit: f32| match logits.len() {
        _ if is_raw => logit,
        1 => 1.0 / (1.0 + (-logit).exp()),
        _ => (logit - largest).exp() / sum,
    };
    let mut labelled: Labels = labels
        .iter()
        .zip(logits)
        .map(|(label, logit)| Label { label: label.clone(), score: score(*logit) })
        .collect();
    labelled.sort_by(|a, b| b.score.total_cmp(&a.score));
    labelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_label_has_the_sigmoid_and_several_have_the_softmax() {
        let labels = ["no".to_owned(), "yes".to_owned()];
        let shown = |logits: &[f32], is_raw| -> Vec<(String, f32)> {
            labelled(&labels, logits, is_raw).into_iter().map(|one| (one.label, one.score)).collect()
        };
        assert_eq!(shown(&[0.0], false), [("no".to_owned(), 0.5)]);
        assert_eq!(shown(&[1.0, 1.0], false), [("no".to_owned(), 0.5), ("yes".to_owned(), 0.5)]);
        let best = shown(&[-200.0, 200.0], false);
        assert_eq!(best, [("yes".to_owned(), 1.0), ("no".to_owned(), 0.0)]);
        assert_eq!(shown(&[-1.5, 2.5], true), [("yes".to_owned(), 2.5), ("no".to_owned(), -1.5)]);
    }
}
