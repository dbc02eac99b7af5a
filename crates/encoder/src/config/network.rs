//! `config.json`: family and shape of the network.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::required;
use crate::LoadError;

/// Networks that share tensor names, position numbering and classification head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Bert,
    /// RoBERTa and XLM-RoBERTa, which differ only in the tokenizer.
    Roberta,
    DistilBert,
}

/// The shape of the network.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) family: Family,
    pub(crate) model_type: String,
    pub(crate) hidden_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) vocab_size: usize,
    pub(crate) layer_norm_eps: f32,
    /// Rows of the checkpoint's position table.
    pub(crate) position_rows: usize,
    /// RoBERTa: the id of the padding token, and its row of the position table; other tokens use the rows after it.
    pub(crate) padding: Option<u32>,
    /// Rows of the table of token types; 0 without one.
    pub(crate) token_types: usize,
    /// Labels of the classification head, in order; empty without a head.
    pub(crate) labels: Vec<String>,
    /// Dimensions that embeddings were trained to be cut to.
    pub(crate) matryoshka_dimensions: Vec<usize>,
}

/// The file, with the names of DistilBERT as aliases.
#[derive(Deserialize)]
struct File {
    model_type: String,
    #[serde(default)]
    architectures: Option<Vec<String>>,
    #[serde(alias = "dim")]
    hidden_size: usize,
    #[serde(alias = "n_layers")]
    num_hidden_layers: usize,
    #[serde(alias = "n_heads")]
    num_attention_heads: usize,
    #[serde(alias = "hidden_dim")]
    intermediate_size: usize,
    max_position_embeddings: usize,
    vocab_size: usize,
    #[serde(alias = "activation")]
    hidden_act: String,
    layer_norm_eps: Option<f32>,
    position_embedding_type: Option<String>,
    type_vocab_size: Option<usize>,
    pad_token_id: Option<u32>,
    #[serde(default)]
    is_decoder: bool,
    id2label: Option<BTreeMap<usize, String>>,
    #[serde(default)]
    matryoshka_dimensions: Vec<usize>,
}

/// Defaults of the transformers library.
const LAYER_NORM_EPS: f32 = 1e-12;
const ROBERTA_PADDING: u32 = 1;
const TOKEN_TYPES: usize = 2;

/// The suffix of every class with a classification head.
const HEAD: &str = "ForSequenceClassification";

/// The largest size in a configuration file; products of two cannot overflow.
pub(crate) const SIZE_MAX: usize = 1 << 24;

/// The largest `hidden_size`, four times that of the largest published transformers: every embedding has as many floats.
pub(crate) const HIDDEN_MAX: usize = 1 << 16;

impl Network {
    /// Reads and checks `config.json`.
    pub(super) fn load(path: &Path) -> Result<Network, LoadError> {
        let file: File = required(path)?;
        let family = file.family(path)?;
        file.check_kind(path)?;
        file.check_sizes(path)?;
        let labels = file.labels(path)?;
        let padding = (family == Family::Roberta).then(|| file.pad_token_id.unwrap_or(ROBERTA_PADDING));
        let token_types = match family {
            Family::Bert | Family::Roberta => file.type_vocab_size.unwrap_or(TOKEN_TYPES),
            Family::DistilBert => 0,
        };
        let network = Network {
            family,
            hidden_size: file.hidden_size,
            num_hidden_layers: file.num_hidden_layers,
            num_attention_heads: file.num_attention_heads,
            intermediate_size: file.intermediate_size,
            vocab_size: file.vocab_size,
            layer_norm_eps: file.layer_norm_eps.unwrap_or(LAYER_NORM_EPS),
            position_rows: file.max_position_embeddings,
            padding,
            token_types,
            labels,
            matryoshka_dimensions: file.matryoshka_dimensions,
            model_type: file.model_type,
        };
        if network.positions() < super::TOKENS_MIN {
            let reason = "`max_position_embeddings` is too small for any text".to_owned();
            return Err(LoadError::Damaged { path: path.to_owned(), reason });
        }
        Ok(network)
    }

    /// The first used row of the position table.
    pub(crate) fn first_position_row(&self) -> usize {
        self.padding.map_or(0, |padding| padding as usize)
    }

    /// Maximum tokens of a sequence.
    pub(crate) fn positions(&self) -> usize {
        let unused = self.first_position_row() + usize::from(self.padding.is_some());
        self.position_rows.saturating_sub(unused)
    }
}

impl File {
    fn family(&self, path: &Path) -> Result<Family, LoadError> {
        match self.model_type.as_str() {
            "bert" => Ok(Family::Bert),
            "roberta" | "xlm-roberta" => Ok(Family::Roberta),
            "distilbert" => Ok(Family::DistilBert),
            other => {
                let accepted = "`bert`, `roberta`, `xlm-roberta` and `distilbert`";
                Err(unsupported(path, "model_type", other, accepted))
            }
        }
    }

    /// Rejects variants of the network that are not implemented.
    fn check_kind(&self, path: &Path) -> Result<(), LoadError> {
        if self.hidden_act != "gelu" {
            return Err(unsupported(path, "hidden_act", &self.hidden_act, "`gelu`"));
        }
        let position = self.position_embedding_type.as_deref().unwrap_or("absolute");
        if position != "absolute" {
            return Err(unsupported(path, "position_embedding_type", position, "`absolute`"));
        }
        if self.is_decoder {
            return Err(unsupported(path, "is_decoder", "true", "`false`"));
        }
        Ok(())
    }

    fn check_sizes(&self, path: &Path) -> Result<(), LoadError> {
        let sizes = [
            self.hidden_size,
            self.num_hidden_layers,
            self.num_attention_heads,
            self.intermediate_size,
            self.max_position_embeddings,
            self.vocab_size,
        ];
        if sizes.iter().any(|size| *size == 0 || *size > SIZE_MAX)
            || self.hidden_size > HIDDEN_MAX
            || !self.hidden_size.is_multiple_of(self.num_attention_heads)
        {
            let reason =
                "a size is 0 or too large, or `hidden_size` is not a multiple of `num_attention_heads`"
                    .to_owned();
            return Err(LoadError::Damaged { path: path.to_owned(), reason });
        }
        let epsilon = self.layer_norm_eps.unwrap_or(LAYER_NORM_EPS);
        if !(epsilon.is_normal() && epsilon > 0.0 && epsilon <= 1.0) {
            let reason = format!("`layer_norm_eps` is {epsilon:e}, not a number above 0 and up to 1");
            return Err(LoadError::Damaged { path: path.to_owned(), reason });
        }
        Ok(())
    }

    /// The labels of the classification head in `architectures`; empty without one.
    fn labels(&self, path: &Path) -> Result<Vec<String>, LoadError> {
        let named = self.architectures.as_deref().unwrap_or_default();
        let Some(class) = named.iter().find(|class| class.ends_with(HEAD)) else { return Ok(Vec::new()) };
        let expected = match self.model_type.as_str() {
            "roberta" => "RobertaForSequenceClassification",
            "xlm-roberta" => "XLMRobertaForSequenceClassification",
            "distilbert" => "DistilBertForSequenceClassification",
            _ => "BertForSequenceClassification",
        };
        if class != expected {
            return Err(unsupported(path, "architectures", class, expected));
        }
        let Some(labels) = &self.id2label else {
            return Ok(vec!["LABEL_0".to_owned(), "LABEL_1".to_owned()]);
        };
        if labels.is_empty() || !labels.keys().copied().eq(0..labels.len()) {
            let reason = "the keys of `id2label` are not 0, 1, 2 …".to_owned();
            return Err(LoadError::Damaged { path: path.to_owned(), reason });
        }
        Ok(labels.values().cloned().collect())
    }
}

fn unsupported(path: &Path, what: &'static str, value: &str, accepted: &'static str) -> LoadError {
    LoadError::Unsupported { path: path.to_owned(), what, value: value.to_owned(), accepted }
}
