//! The configuration files of a model folder.

mod external;
mod network;
mod sentence;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::LoadError;
pub(crate) use external::{ExternalModelConfig, fingerprint_of_files};
pub(crate) use network::{Family, HIDDEN_MAX, Network, SIZE_MAX};
pub use sentence::{Pooling, Prompts};
use sentence::{SentenceBertFile, SentenceTransformers};

/// The configuration of a model, from all configuration files of its folder.
#[derive(Debug, Clone)]
pub(crate) struct ModelConfig {
    pub(crate) network: Network,
    pub(crate) pooling: Pooling,
    pub(crate) normalise: bool,
    pub(crate) max_tokens: usize,
    pub(crate) prompts: Prompts,
    /// Dimensions that embeddings may be cut to, ascending, the full one last.
    pub(crate) dimensions: Vec<usize>,
    /// Whether texts must be lower-cased before tokenization.
    pub(crate) do_lower_case: bool,
}

/// The configuration files that affect embeddings, in the order in which the fingerprint hashes them, before the weights.
pub(crate) const CONFIG_FILES: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "modules.json",
    SENTENCE_BERT_FILE,
    "1_Pooling/config.json",
    "config_sentence_transformers.json",
];

pub(crate) const SENTENCE_BERT_FILE: &str = "sentence_bert_config.json";

/// The smallest sequence limit: up to four special tokens of a pair of texts, and one other token.
const TOKENS_MIN: usize = 5;

impl ModelConfig {
    /// Reads the configuration files of `folder`.
    pub(crate) fn load(folder: &Path) -> Result<ModelConfig, LoadError> {
        let network = Network::load(&folder.join("config.json"))?;
        let sentence = SentenceTransformers::load(folder, network.hidden_size)?;
        let path = folder.join(SENTENCE_BERT_FILE);
        let limits: SentenceBertFile = optional(&path)?.unwrap_or_default();
        let max_tokens = limits.max_seq_length.unwrap_or(usize::MAX).min(network.positions());
        if max_tokens < TOKENS_MIN {
            let reason = format!("`max_seq_length` leaves {max_tokens} tokens, too few for any text");
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

/// The dimensions that a model accepts, ascending: those `declared` and the full one.
pub(crate) fn dimensions(declared: &[usize], full: usize) -> Result<Vec<usize>, LoadError> {
    if let Some(dimension) = declared.iter().copied().find(|dimension| !(1..=full).contains(dimension)) {
        return Err(LoadError::Dimension { dimension, full });
    }
    let mut all = declared.to_vec();
    all.push(full);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn required<T: DeserializeOwned>(path: &Path) -> Result<T, LoadError> {
    optional(path)?.ok_or_else(|| LoadError::Missing { path: path.to_owned() })
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LoadError> {
    let Some(bytes) = read_optional(path, CONFIG_BYTES_MAX)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| LoadError::Damaged { path: path.to_owned(), reason: error.to_string() })
}

/// Bytes of a `tokenizer.json`; the largest published ones have about 35 million.
pub(crate) const TOKENIZER_BYTES_MAX: u64 = 256 << 20;

/// Bytes of another configuration file; real ones have a few thousand, and labels of a classifier some more.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// The bytes of a regular file of at most `bytes_max`; `None` when it does not exist.
pub(crate) fn read_optional(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, LoadError> {
    let Some(file) = open_optional(path)? else { return Ok(None) };
    let unreadable = |source| LoadError::Unreadable { path: PathBuf::from(path), source };
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > bytes_max {
        let reason = format!("it has more than {bytes_max} bytes");
        return Err(LoadError::Damaged { path: path.to_owned(), reason });
    }
    Ok(Some(bytes))
}

/// Opens a regular file; `None` when it does not exist. Opening a pipe would block.
pub(crate) fn open_optional(path: &Path) -> Result<Option<File>, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: PathBuf::from(path), source };
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => File::open(path).map(Some).map_err(unreadable),
        Ok(_) => Err(unreadable(io::Error::other("it is not a regular file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unreadable(source)),
    }
}
