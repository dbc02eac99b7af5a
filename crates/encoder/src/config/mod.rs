//! What the configuration files of a model folder say.

mod network;
mod outline;
mod sentence;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::LoadError;
use crate::tokenizer::Tokenizer;
pub(crate) use network::{Family, Network, SIZE_MAX};
pub(crate) use outline::{OutlineConfig, fingerprint_of_files};
pub use sentence::{Pooling, Prompts};
use sentence::{Sentence, SentenceConfig};

/// Everything that the small files of a model folder say.
#[derive(Debug, Clone)]
pub(crate) struct ModelConfig {
    pub(crate) network: Network,
    pub(crate) pooling: Pooling,
    pub(crate) normalise: bool,
    pub(crate) max_tokens: usize,
    pub(crate) prompts: Prompts,
    /// Lengths that embeddings may be cut to, ascending, the whole one last.
    pub(crate) dimensions: Vec<usize>,
    /// Whether texts are to be lower-cased before they are cut into tokens.
    pub(crate) do_lower_case: bool,
}

/// The files that decide an embedding, in the order in which the fingerprint takes them; weights come after these.
pub(crate) const SMALL_FILES: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "modules.json",
    SENTENCE_FILE,
    "1_Pooling/config.json",
    "config_sentence_transformers.json",
];

pub(crate) const SENTENCE_FILE: &str = "sentence_bert_config.json";

/// A text needs room for two special tokens and one of its own, a pair for four and one.
const TOKENS_MIN: usize = 5;

impl ModelConfig {
    /// Reads the small files of `folder`.
    pub(crate) fn load(folder: &Path) -> Result<ModelConfig, LoadError> {
        let network = Network::load(&folder.join("config.json"))?;
        let sentence = Sentence::load(folder, network.hidden_size)?;
        let path = folder.join(SENTENCE_FILE);
        let limits: SentenceConfig = optional(&path)?.unwrap_or_default();
        let max_tokens = limits.max_seq_length.unwrap_or(usize::MAX).min(network.positions());
        if max_tokens < TOKENS_MIN {
            let reason = format!("`max_seq_length` leaves {max_tokens} tokens: no room for a text");
            return Err(LoadError::Damaged { path, reason });
        }
        let declared = [network.matryoshka_dimensions.as_slice(), &sentence.dimensions].concat();
        let dimensions = dimensions(&declared, network.hidden_size)?;
        Ok(ModelConfig {
            pooling: sentence.pooling,
            normalise: sentence.normalise,
            prompts: sentence.prompts,
            do_lower_case: limits.do_lower_case,
            max_tokens,
            dimensions,
            network,
        })
    }
}

/// Refuses lower-casing that the tokenizer does not do by itself.
pub(crate) fn check_case(folder: &Path, do_lower_case: bool, tokenizer: &Tokenizer) -> Result<(), LoadError> {
    if !do_lower_case || tokenizer.is_lowercase() {
        return Ok(());
    }
    Err(LoadError::Unsupported {
        path: folder.join(SENTENCE_FILE),
        what: "do_lower_case",
        value: "true".to_owned(),
        accepted: "`false`, or a tokenizer that lower-cases by itself",
    })
}

/// What a model that was trained for the lengths `declared` can be asked for: these and the whole, ascending.
pub(crate) fn dimensions(declared: &[usize], whole: usize) -> Result<Vec<usize>, LoadError> {
    if let Some(dimension) = declared.iter().copied().find(|dimension| !(1..=whole).contains(dimension)) {
        return Err(LoadError::Dimension { dimension, whole });
    }
    let mut all = declared.to_vec();
    all.push(whole);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn required<T: DeserializeOwned>(path: &Path) -> Result<T, LoadError> {
    optional(path)?.ok_or_else(|| LoadError::Missing { path: path.to_owned() })
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LoadError> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| LoadError::Damaged { path: path.to_owned(), reason: error.to_string() })
}

/// The bytes of a file, or `None` when it is not there.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Unreadable { path: PathBuf::from(path), source }),
    }
}
