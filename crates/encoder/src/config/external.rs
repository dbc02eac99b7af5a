//! The configuration of tokenizer and pooling of a model whose network another engine runs.

use std::path::Path;

use serde::Deserialize;

use super::sentence::{Pooling, Prompts, SentenceBertFile, SentenceTransformers};
use super::{
    CONFIG_FILES, HIDDEN_MAX, SENTENCE_BERT_FILE, SIZE_MAX, TOKENIZER_BYTES_MAX, TOKENS_MIN, dimensions,
    optional, read_optional, required,
};
use crate::LoadError;

/// See [`crate::ExternalModel`].
#[derive(Debug)]
pub(crate) struct ExternalModelConfig {
    pub(crate) architecture: String,
    pub(crate) dimension: usize,
    pub(crate) dimensions: Vec<usize>,
    pub(crate) max_tokens: usize,
    pub(crate) vocab_size: usize,
    pub(crate) pooling: Pooling,
    pub(crate) normalise: bool,
    pub(crate) prompts: Prompts,
    pub(crate) do_lower_case: bool,
    pub(crate) is_classifier: bool,
}

/// `config.json`, with the names of different network families as aliases.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    model_type: String,
    #[serde(default)]
    architectures: Option<Vec<String>>,
    #[serde(alias = "dim", alias = "d_model", alias = "n_embd")]
    hidden_size: usize,
    #[serde(alias = "n_positions")]
    max_position_embeddings: Option<usize>,
    vocab_size: Option<usize>,
    pad_token_id: Option<usize>,
    #[serde(default)]
    matryoshka_dimensions: Vec<usize>,
}

/// The limit of tokens if no file sets one.
const TOKENS_MAX: usize = 512;

impl File {
    /// Maximum tokens of a sequence; in RoBERTa, positions start after the row for padding.
    fn positions(&self) -> usize {
        let unused = match self.model_type.as_str() {
            "roberta" | "xlm-roberta" | "camembert" => self.pad_token_id.unwrap_or(1).saturating_add(1),
            _ => 0,
        };
        self.max_position_embeddings.unwrap_or(TOKENS_MAX).saturating_sub(unused)
    }
}

impl ExternalModelConfig {
    /// Reads the configuration files of `folder`.
    pub(crate) fn load(folder: &Path) -> Result<ExternalModelConfig, LoadError> {
        let path = folder.join("config.json");
        let file: File = required(&path)?;
        if !(1..=HIDDEN_MAX).contains(&file.hidden_size) {
            return Err(LoadError::Damaged { path, reason: "`hidden_size` is 0 or too large".to_owned() });
        }
        let sentence = SentenceTransformers::load(folder, file.hidden_size)?;
        let path = folder.join(SENTENCE_BERT_FILE);
        let limits: SentenceBertFile = optional(&path)?.unwrap_or_default();
        let max_tokens = limits.max_seq_length.unwrap_or(usize::MAX).min(file.positions());
        if !(TOKENS_MIN..=SIZE_MAX).contains(&max_tokens) {
            let reason = format!("the limit of {max_tokens} tokens is too small for any text, or too large");
            return Err(LoadError::Damaged { path, reason });
        }
        let declared = [file.matryoshka_dimensions.as_slice(), &sentence.dimensions].concat();
        let classes = file.architectures.unwrap_or_default();
        Ok(ExternalModelConfig {
            architecture: file.model_type,
            dimensions: dimensions(&declared, file.hidden_size)?,
            dimension: file.hidden_size,
            max_tokens,
            vocab_size: file.vocab_size.unwrap_or(usize::MAX),
            pooling: sentence.pooling,
            normalise: sentence.normalise,
            prompts: sentence.prompts,
            do_lower_case: limits.do_lower_case,
            is_classifier: classes.iter().any(|class| class.ends_with("ForSequenceClassification")),
        })
    }
}

/// See [`crate::ExternalModel::fingerprint`].
pub(crate) fn fingerprint_of_files(
    folder: &Path,
    network: &[&Path],
    engine: &str,
) -> Result<String, LoadError> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(engine.as_bytes());
    for name in CONFIG_FILES {
        if let Some(bytes) = read_optional(&folder.join(name), TOKENIZER_BYTES_MAX)? {
            hasher.update(name.as_bytes()).update(&[0]).update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
    }
    for path in network {
        let unreadable = |source| LoadError::Unreadable { path: path.to_path_buf(), source };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        hasher.update(b"network").update(&[0]).update(&bytes.to_le_bytes());
        hasher.update_reader(file).map_err(unreadable)?;
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}
