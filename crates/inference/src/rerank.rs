//! Models that rerank: they read a query and a text together and say how well the one answers the other.
//!
//! A folder with a classification head runs here, in the interactive lane; others run on another server.

use std::sync::Arc;
use std::time::Instant;

use weir_encoder::{Model, Tokenizer};

use super::pool::{Engine, Sequence};
use super::upstream::{RemoteModel, RemoteRequest, RemoteText};
use super::{InferenceError, Lane, Scheduler, Truncation, estimate};
use weir_config::{ModelConfig, Prompts};

/// A model that reranks, with the names that callers use for it.
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

/// Where its scores come from.
#[derive(Clone)]
pub(super) enum CrossEncoder {
    /// Our encoder; the model has one label or two.
    Local(Arc<Model>),
    /// Another server.
    Upstream(Arc<RemoteModel>),
}

/// A query and texts that are ready to be scored by the model that read them.
pub struct RerankInput {
    content: Content,
    /// Tokens of all pairs, the special ones included; an estimate where an upstream makes them.
    pub tokens: usize,
    /// The places of the texts of which a part was left out; an upstream leaves out parts unseen.
    pub truncated: Vec<usize>,
}

enum Content {
    Pairs(Vec<Sequence>),
    Remote(RemoteRequest),
}

impl Reranker {
    /// The model, where it runs in this process.
    pub(super) fn local(&self) -> Option<&Model> {
        match &self.cross_encoder {
            CrossEncoder::Local(model) => Some(model),
            CrossEncoder::Upstream(_) => None,
        }
    }

    pub(super) fn new(model: &ModelConfig, cross_encoder: CrossEncoder) -> Reranker {
        Reranker {
            id: model.id.clone(),
            alias: model.alias.clone(),
            loaded_at: crate::models::loaded_at(),
            prompts: model.prompts.clone(),
            cross_encoder,
        }
    }

    pub(super) fn tokenizer(&self) -> Option<&Tokenizer> {
        match &self.cross_encoder {
            CrossEncoder::Local(model) => Some(model.tokenizer()),
            CrossEncoder::Upstream(_) => None,
        }
    }

    /// Tokens of a pair that it reads, the special ones included; `None` where only an upstream knows.
    pub fn input_tokens_max(&self) -> Option<usize> {
        match &self.cross_encoder {
            CrossEncoder::Local(model) => Some(model.info().max_tokens),
            CrossEncoder::Upstream(_) => None,
        }
    }

    /// Hash of all that decides a score; of an upstream, of kind, address and model.
    pub fn fingerprint(&self) -> String {
        match &self.cross_encoder {
            CrossEncoder::Local(model) => model.info().fingerprint.clone(),
            CrossEncoder::Upstream(model) => model.fingerprint().to_owned(),
        }
    }

    /// Makes a pair of `query` and each text, cut to the model's length: texts lose their ends, and the query its own only where it
    /// alone takes more than half of that.
    pub fn read(&self, query: &str, texts: &[String]) -> RerankInput {
        let query = format!("{}{query}", self.prompts.query);
        let document = &self.prompts.document;
        let texts = texts
            .iter()
            .map(|text| if document.is_empty() { text.clone() } else { format!("{document}{text}") });
        match &self.cross_encoder {
            CrossEncoder::Local(model) => {
                let pairs = texts.map(|text| model.tokenizer().encode_pair(&query, &text)).enumerate();
                let (mut sequences, mut truncated) = (Vec::new(), Vec::new());
                for (place, pair) in pairs {
                    if pair.is_truncated {
                        truncated.push(place);
                    }
                    sequences.push(Sequence { ids: pair.ids, second: pair.second });
                }
                let tokens = sequences.iter().map(|sequence| sequence.ids.len()).sum();
                RerankInput { content: Content::Pairs(sequences), tokens, truncated }
            }
            CrossEncoder::Upstream(_) => {
                let of_query = estimate::token_spans(&query).len();
                let text = |text: String| RemoteText {
                    tokens: of_query + estimate::token_spans(&text).len(),
                    text,
                    truncation: Truncation::End,
                };
                let texts: Vec<RemoteText> = texts.map(text).collect();
                let tokens = texts.iter().map(|text| text.tokens).sum();
                let content = Content::Remote(RemoteRequest { query: Some(query), texts });
                RerankInput { content, tokens, truncated: Vec::new() }
            }
        }
    }
}

impl Scheduler {
    /// Scores each of `texts` for `query`, in their order: 0 to 1 by a local model, any finite number by an upstream. Tokenises on a
    /// blocking thread.
    ///
    /// An upstream is not called for a result that would arrive after `until`. Dropping the future cancels the work.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn rerank_texts(
        &self,
        model: Arc<Reranker>,
        query: String,
        texts: Vec<String>,
        until: Option<Instant>,
    ) -> Result<Vec<f32>, InferenceError> {
        let reader = model.clone();
        let input = tokio::task::spawn_blocking(move || reader.read(&query, &texts)).await;
        self.rerank(&model, input.map_err(|_| InferenceError::Failed)?, until).await
    }

    /// How well each text answers the query, in their order: 0 to 1 by a model that runs here, whatever an upstream says by one that
    /// does not. Finite numbers all.
    ///
    /// An upstream is not asked for what would come after `until`. A caller who leaves ends the work.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub async fn rerank(
        &self,
        model: &Reranker,
        input: RerankInput,
        until: Option<Instant>,
    ) -> Result<Vec<f32>, InferenceError> {
        let rows = match (&model.cross_encoder, input.content) {
            (CrossEncoder::Local(model), Content::Pairs(sequences)) => {
                let logits = self.compute_in_turn(&Engine::Pairs(model.clone()), sequences).await?;
                return logits.iter().map(|logits| relevance(logits).ok_or(InferenceError::Failed)).collect();
            }
            (CrossEncoder::Upstream(model), Content::Remote(request)) => {
                model.rows(request, Lane::Interactive, until).await?.0
            }
            (CrossEncoder::Local(_) | CrossEncoder::Upstream(_), _) => return Err(InferenceError::Failed),
        };
        rows.iter().map(|row| row.first().copied().ok_or(InferenceError::Failed)).collect()
    }
}

/// One label: the sigmoid of its logit. Two: the probability of the last, as of `true` behind `false`.
fn relevance(logits: &[f32]) -> Option<f32> {
    let logit = match logits {
        [logit] => *logit,
        [no, yes] => yes - no,
        _ => return None,
    };
    let relevance = 1.0 / (1.0 + (-logit).exp());
    relevance.is_finite().then_some(relevance)
}

#[cfg(test)]
mod tests {
    use super::relevance;

    #[test]
    fn relevance_is_a_probability_of_one_label_or_of_the_last_of_two() {
        assert_eq!(relevance(&[0.0]), Some(0.5));
        assert_eq!(relevance(&[-200.0]), Some(0.0));
        assert_eq!(relevance(&[200.0]), Some(1.0));
        assert_eq!(relevance(&[3.0, 3.0]), Some(0.5));
        assert_eq!(relevance(&[1.0, 3.0]), relevance(&[2.0]));
        assert_eq!(relevance(&[f32::NAN]), None);
        assert_eq!(relevance(&[1.0, 2.0, 3.0]), None);
    }
}
