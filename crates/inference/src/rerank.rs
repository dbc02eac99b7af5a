//! Rerankers: cross-encoders, which score pairs of a query and a text.
//!
//! A model folder with a classification head runs in the query lane; others run on another server.

use std::sync::Arc;
use std::time::Instant;

use weir_encoder::{EncodedPair, Model, Tokenizer};

use super::rows::Rows;
use super::task::{ModelTask, Sequence};
use super::upstream::{RemoteModel, RemoteRequest, RemoteText};
use super::{InferenceError, Lane, Scheduler, Truncation, estimate};
use weir_config::{ModelConfig, Prompts};

/// A cross-encoder, with its names: a reranker if it has one label or two, a classifier in any case.
pub struct Reranker {
    /// The id.
    pub id: String,
    /// Other names for it.
    pub alias: Vec<String>,
    /// When it was loaded, in unix seconds.
    pub loaded_at: u64,
    prompts: Prompts,
    cross_encoder: CrossEncoder,
}

/// The implementation that computes scores.
#[derive(Clone)]
pub(super) enum CrossEncoder {
    /// Our encoder.
    Local(Arc<Model>),
    /// Another server.
    Upstream(Arc<RemoteModel>),
}

/// A query and texts for the reranker that made it.
pub struct RerankInput {
    content: RerankContent,
    /// Tokens of all pairs, special ones included; estimated for an upstream.
    pub tokens: usize,
    /// Indexes of the texts that were truncated; unknown for an upstream.
    pub truncated: Vec<usize>,
}

enum RerankContent {
    Pairs(Vec<Sequence>),
    Remote(RemoteRequest),
}

impl RerankInput {
    fn of_pairs(pairs: impl Iterator<Item = EncodedPair>) -> RerankInput {
        let (mut sequences, mut truncated) = (Vec::new(), Vec::new());
        for (index, pair) in pairs.enumerate() {
            if pair.is_truncated {
                truncated.push(index);
            }
            sequences.push(Sequence { ids: pair.ids, second: pair.second });
        }
        let tokens = sequences.iter().map(|sequence| sequence.ids.len()).sum();
        RerankInput { content: RerankContent::Pairs(sequences), tokens, truncated }
    }
}

impl Reranker {
    /// Whether its packed weights were truncated while it was used.
    pub(super) fn is_damaged(&self) -> bool {
        matches!(&self.cross_encoder, CrossEncoder::Local(model) if model.is_damaged())
    }

    /// The model, if it runs in this process.
    pub(super) fn local_model(&self) -> Option<&Model> {
        match &self.cross_encoder {
            CrossEncoder::Local(model) => Some(model),
            CrossEncoder::Upstream(_) => None,
        }
    }

    pub(super) fn new(model: &ModelConfig, cross_encoder: CrossEncoder, loaded_at: u64) -> Reranker {
        Reranker {
            id: model.id.clone(),
            alias: model.alias.clone(),
            loaded_at,
            prompts: model.prompts.clone(),
            cross_encoder,
        }
    }

    pub(super) fn tokenizer(&self) -> Option<&Tokenizer> {
        self.local_model().map(Model::tokenizer)
    }

    /// The labels of a model that runs in this process; `None` for an upstream.
    pub fn labels(&self) -> Option<&[String]> {
        self.local_model().map(|model| model.info().labels.as_slice())
    }

    /// Whether its scores order texts: one label, or two, `false` and `true`.
    pub fn reranks(&self) -> bool {
        self.labels().is_none_or(|labels| labels.len() <= 2)
    }

    /// Tokenises texts and pairs of texts to classify, truncated to the model's length; `None` for an upstream.
    pub fn texts_and_pairs(&self, inputs: &[(String, Option<String>)]) -> Option<RerankInput> {
        let tokenizer = self.local_model()?.tokenizer();
        let inputs = inputs.iter().map(|input| match input {
            (first, Some(second)) => tokenizer.encode_pair(first, second),
            (text, None) => {
                let encoded = tokenizer.encode(text);
                EncodedPair {
                    second: encoded.ids.len(),
                    ids: encoded.ids,
                    is_truncated: encoded.is_truncated,
                }
            }
        });
        Some(RerankInput::of_pairs(inputs))
    }

    /// Maximum tokens of a pair, special ones included; `None` for an upstream.
    pub fn input_tokens_max(&self) -> Option<usize> {
        self.local_model().map(|model| model.info().max_tokens)
    }

    /// Hash of everything that affects scores; for an upstream, of protocol, address and model name.
    pub fn fingerprint(&self) -> String {
        match &self.cross_encoder {
            CrossEncoder::Local(model) => model.info().fingerprint.clone(),
            CrossEncoder::Upstream(model) => model.fingerprint().to_owned(),
        }
    }

    /// Tokenises pairs of `query` and each text, truncated to the model's length: cuts off the end of the text, and of the query only if it
    /// takes more than half of the length. `text_tokens_max`: a text is shortened to this number of tokens before.
    pub fn input(&self, query: &str, texts: &[String], text_tokens_max: Option<usize>) -> RerankInput {
        let query = format!("{}{query}", self.prompts.query);
        let document = &self.prompts.document;
        let texts = texts.iter().map(|text| {
            let text = text_tokens_max.map_or(text.as_str(), |most| self.first_tokens(text, most));
            if document.is_empty() { text.to_owned() } else { format!("{document}{text}") }
        });
        match &self.cross_encoder {
            CrossEncoder::Local(model) => {
                RerankInput::of_pairs(texts.map(|text| model.tokenizer().encode_pair(&query, &text)))
            }
            CrossEncoder::Upstream(_) => {
                let query_tokens = estimate::token_spans(&query).len();
                let text = |text: String| RemoteText {
                    tokens: query_tokens + estimate::token_spans(&text).len(),
                    text,
                    truncation: Truncation::End,
                };
                let texts: Vec<RemoteText> = texts.map(text).collect();
                let tokens = texts.iter().map(|text| text.tokens).sum();
                let content = RerankContent::Remote(RemoteRequest { query: Some(query), texts });
                RerankInput { content, tokens, truncated: Vec::new() }
            }
        }
    }

    /// The start of a text with at most this number of tokens, which are estimated for an upstream.
    fn first_tokens<'t>(&self, text: &'t str, tokens_max: usize) -> &'t str {
        // a token has at least a byte
        if text.len() <= tokens_max {
            return text;
        }
        let spans = match self.tokenizer() {
            Some(tokenizer) => tokenizer.token_spans(text),
            None => estimate::token_spans(text),
        };
        match tokens_max.checked_sub(1).and_then(|last| spans.get(last)) {
            Some(last) => &text[..text.floor_char_boundary(last.end)],
            None => text,
        }
    }
}

impl Scheduler {
    /// Scores each of `texts` for `query`, in their order: 0 to 1 by a local model, any finite number by an upstream.
    ///
    /// Fails if an upstream's reply would arrive after `deadline`. Dropping the future cancels the work.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn rerank_texts(
        &self,
        model: Arc<Reranker>,
        query: String,
        texts: Vec<String>,
        deadline: Option<Instant>,
    ) -> Result<Vec<f32>, InferenceError> {
        let tokenizing = model.clone();
        let input = tokio::task::spawn_blocking(move || tokenizing.input(&query, &texts, None)).await;
        self.rerank(&model, input.map_err(|_| InferenceError::Failed)?, deadline).await
    }

    /// [`Scheduler::rerank_texts`] for tokenised pairs.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn rerank(
        &self,
        model: &Reranker,
        input: RerankInput,
        deadline: Option<Instant>,
    ) -> Result<Vec<f32>, InferenceError> {
        let is_local = model.local_model().is_some();
        let scores = self.rerank_logits(model, input, deadline).await?;
        let probability = |score: f32| if is_local { 1.0 / (1.0 + (-score).exp()) } else { score };
        Ok(scores.into_iter().map(probability).collect())
    }

    /// The same with the logits of a local model; the scores of an upstream are as it sends them.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn rerank_logits(
        &self,
        model: &Reranker,
        input: RerankInput,
        deadline: Option<Instant>,
    ) -> Result<Vec<f32>, InferenceError> {
        if model.local_model().is_some() {
            let rows = self.classify(model, input).await?;
            return rows.iter().map(|logits| logit(logits).ok_or(InferenceError::Failed)).collect();
        }
        let rows = match (&model.cross_encoder, input.content) {
            (CrossEncoder::Upstream(model), RerankContent::Remote(request)) => {
                model.rows(request, Lane::Query, deadline).await?.0
            }
            (CrossEncoder::Local(_) | CrossEncoder::Upstream(_), _) => return Err(InferenceError::Failed),
        };
        rows.iter().map(|row| row.first().copied().ok_or(InferenceError::Failed)).collect()
    }

    /// The logits of each pair, one for each of the model's [labels](Reranker::labels).
    ///
    /// # Errors
    /// [`InferenceError`]; `Failed` for an upstream, and for logits that are no numbers.
    pub async fn classify(&self, model: &Reranker, input: RerankInput) -> Result<Rows, InferenceError> {
        let (CrossEncoder::Local(model), RerankContent::Pairs(sequences)) =
            (&model.cross_encoder, input.content)
        else {
            return Err(InferenceError::Failed);
        };
        let rows = self.compute_second_stage(&ModelTask::ScorePairs(model.clone()), sequences).await?;
        let is_finite = rows.floats().iter().all(|logit| logit.is_finite());
        if is_finite { Ok(rows) } else { Err(InferenceError::Failed) }
    }
}

/// The logit of the probability that a text is relevant. One label: its logit. Two labels, `false` and `true`: the difference, whose
/// sigmoid is the softmax probability of the second.
fn logit(logits: &[f32]) -> Option<f32> {
    let logit = match logits {
        [logit] => *logit,
        [no, yes] => yes - no,
        _ => return None,
    };
    logit.is_finite().then_some(logit)
}

#[cfg(test)]
mod tests {
    use super::logit;

    #[test]
    fn the_logit_is_that_of_the_only_or_the_second_label() {
        assert_eq!(logit(&[-1.5]), Some(-1.5));
        assert_eq!(logit(&[3.0, 3.0]), Some(0.0));
        assert_eq!(logit(&[1.0, 3.0]), Some(2.0));
        assert_eq!(logit(&[f32::NAN]), None);
        assert_eq!(logit(&[1.0, 2.0, 3.0]), None);
    }
}
