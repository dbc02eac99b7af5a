//! A model folder without its weights: what an engine needs that brings a network of its own, such as one in ONNX.

use std::path::Path;

use crate::config::{self, OutlineConfig};
use crate::output::{self, LENGTH_MIN};
use crate::tokenizer::Tokenizer;
use crate::{LoadError, Pooling, Prompts};

/// Everything that the small files of a folder say, whichever network it is: token ids before it, pooling behind it.
pub struct Outline {
    config: OutlineConfig,
    tokenizer: Tokenizer,
}

impl Outline {
    /// Reads the small files of `folder`. Any `model_type` will do, for the network is not ours.
    ///
    /// # Errors
    /// A missing, unreadable or damaged file, and a pooling or modules that Weir does not run.
    pub fn load(folder: &Path) -> Result<Outline, LoadError> {
        let config = OutlineConfig::load(folder)?;
        let tokenizer =
            Tokenizer::load(&folder.join("tokenizer.json"), config.max_tokens, config.vocab_size)?;
        config::check_case(folder, config.do_lower_case, &tokenizer)?;
        Ok(Outline { config, tokenizer })
    }

    /// The same with other lengths that its embeddings can be cut to than its files say; the whole one is added.
    ///
    /// # Errors
    /// A length that is 0 or longer than an embedding.
    pub fn with_dimensions(mut self, dimensions: &[usize]) -> Result<Outline, LoadError> {
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

    /// Lengths that an embedding can be cut to, ascending, the whole one last.
    pub fn dimensions(&self) -> &[usize] {
        &self.config.dimensions
    }

    /// Tokens of a text that count, the special ones included.
    pub fn max_tokens(&self) -> usize {
        self.config.max_tokens
    }

    /// How token vectors become one.
    pub fn pooling(&self) -> Pooling {
        self.config.pooling
    }

    /// Whether embeddings have length one.
    pub fn normalise(&self) -> bool {
        self.config.normalise
    }

    /// What the model wants before queries and documents.
    pub fn prompts(&self) -> &Prompts {
        &self.config.prompts
    }

    /// Whether `architectures` names a classification head: such a model is no embedder.
    pub fn is_classifier(&self) -> bool {
        self.config.is_classifier
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Makes one embedding of the last hidden rows of one text, `dimension` floats a token, all tokens with the special ones.
    ///
    /// # Panics
    /// When `rows` is empty or no whole number of rows, or `out` has another length than `dimension`.
    pub fn pool(&self, rows: &[f32], out: &mut [f32]) {
        let width = self.config.dimension;
        assert_eq!(out.len(), width, "pool: out has the wrong length");
        assert!(!rows.is_empty() && rows.len().is_multiple_of(width), "pool: rows are no whole rows");
        output::pool(self.config.pooling, rows.chunks_exact(width), rows.len() / width, out);
        if self.config.normalise {
            let length = out.iter().map(|x| x * x).sum::<f32>().sqrt().max(LENGTH_MIN);
            out.iter_mut().for_each(|x| *x /= length);
        }
    }

    /// Hash of everything that decides an embedding, as 32 hex digits: the small files in `folder`, the files of the network, and the
    /// engine that runs it.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn fingerprint(folder: &Path, network: &[&Path], engine: &str) -> Result<String, LoadError> {
        config::fingerprint_of_files(folder, network, engine)
    }
}
