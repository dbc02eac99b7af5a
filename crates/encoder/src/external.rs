//! A model folder without weights: another engine, such as ONNX Runtime, runs the network.

use std::path::Path;

use crate::config::{self, ExternalModelConfig};
use crate::output::{self, LENGTH_MIN};
use crate::tokenizer::Tokenizer;
use crate::{LoadError, Pooling, Prompts};

/// Tokenizer and pooling of a model whose network another engine runs.
pub struct ExternalModel {
    config: ExternalModelConfig,
    tokenizer: Tokenizer,
}

impl ExternalModel {
    /// Reads the configuration files and the tokenizer of `folder`. Accepts any `model_type`.
    ///
    /// # Errors
    /// A missing, unreadable or damaged file, or a pooling or modules that Weir does not support.
    pub fn load(folder: &Path) -> Result<ExternalModel, LoadError> {
        let config = ExternalModelConfig::load(folder)?;
        let mut tokenizer =
            Tokenizer::load(&folder.join("tokenizer.json"), config.max_tokens, config.vocab_size)?;
        tokenizer.check_case(folder, config.do_lower_case)?;
        let path = folder.join("tokenizer.json");
        tokenizer.try_out(config.vocab_size).map_err(|reason| LoadError::Damaged { path, reason })?;
        Ok(ExternalModel { config, tokenizer })
    }

    /// Replaces the dimensions, read from the files, that embeddings can be cut to; adds the full one.
    ///
    /// # Errors
    /// A dimension that is 0 or larger than the model's.
    pub fn with_dimensions(mut self, dimensions: &[usize]) -> Result<ExternalModel, LoadError> {
        self.config.dimensions = config::dimensions(dimensions, self.config.dimension)?;
        Ok(self)
    }

    /// `model_type` of the configuration.
    pub fn architecture(&self) -> &str {
        &self.config.architecture
    }

    /// Floats of an embedding.
    pub fn dimension(&self) -> usize {
        self.config.dimension
    }

    /// Dimensions that an embedding can be cut to, ascending, the full one last.
    pub fn dimensions(&self) -> &[usize] {
        &self.config.dimensions
    }

    /// The most tokens of a text, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.config.max_tokens
    }

    /// How token vectors are combined into one.
    pub fn pooling(&self) -> Pooling {
        self.config.pooling
    }

    /// Whether embeddings have length one.
    pub fn normalise(&self) -> bool {
        self.config.normalise
    }

    /// Prefixes of queries and documents.
    pub fn prompts(&self) -> &Prompts {
        &self.config.prompts
    }

    /// Whether `architectures` names a classification head: such a model does not embed.
    pub fn is_classifier(&self) -> bool {
        self.config.is_classifier
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Pools the last hidden rows of one text, `dimension` floats for each token including special ones, into one embedding.
    ///
    /// # Panics
    /// When `rows` is empty or not a multiple of `dimension` long, or `out` is not `dimension` long.
    pub fn pool(&self, rows: &[f32], out: &mut [f32]) {
        let width = self.config.dimension;
        assert_eq!(out.len(), width, "pool: out has the wrong length");
        assert!(
            !rows.is_empty() && rows.len().is_multiple_of(width),
            "pool: rows is empty or not whole rows"
        );
        output::pool(self.config.pooling, rows.chunks_exact(width), rows.len() / width, out);
        if self.config.normalise {
            let length = out.iter().map(|x| x * x).sum::<f32>().sqrt().max(LENGTH_MIN);
            out.iter_mut().for_each(|x| *x /= length);
        }
    }

    /// Hash of everything that affects embeddings, as 32 hex digits: the configuration files in `folder`, the files of the network, and the
    /// name of the engine.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn fingerprint(folder: &Path, network: &[&Path], engine: &str) -> Result<String, LoadError> {
        config::fingerprint_of_files(folder, network, engine)
    }
}
