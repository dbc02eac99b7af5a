//! A loaded model: its description, its tokenizer, its weights.

use std::panic::resume_unwind;
use std::path::Path;

use weir_kernels::Kernels;

use crate::config::{self, ModelConfig};
use crate::forward::{Scratch, working_bytes};
use crate::network::LoadedNetwork;
use crate::tokenizer::{Encoded, Tokenizer};
use crate::weights::{self, WEIGHTS_FILE};
use crate::{LoadError, Pooling, Precision, Prompts, output};

/// Properties of a model, for logs, `weir model info` and the API.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// `model_type` of the configuration.
    pub architecture: String,
    /// Floats of an embedding.
    pub dimension: usize,
    /// Dimensions that the model was trained for, from its files or [`Model::with_dimensions`], ascending, the full one last.
    pub dimensions: Vec<usize>,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads of a layer.
    pub heads: usize,
    /// Number of entries of the vocabulary.
    pub vocabulary: usize,
    /// The most tokens of a text, special tokens included; further tokens are truncated.
    pub max_tokens: usize,
    /// How token vectors are combined into one.
    pub pooling: Pooling,
    /// Whether embeddings have length one.
    pub normalise: bool,
    /// Number format of the products.
    pub precision: Precision,
    /// Prefixes of queries and documents.
    pub prompts: Prompts,
    /// Labels of the classification head, one per logit; empty without a head.
    pub labels: Vec<String>,
    /// Hash of everything that affects embeddings, as 32 hex digits. **Vectors with different fingerprints are never compared.**
    pub fingerprint: String,
    /// Bytes of packed weights in memory.
    pub weights_bytes: usize,
}

/// The memory that a model may need if nothing else is configured: about four times the largest published encoders in f32.
pub const MODEL_BYTES_MAX: u64 = 16 << 30;

/// A text of usual words, numbers and characters beyond ASCII.
const TRIAL_TEXT: &str = "A weir is a low dam, built in 1867 \u{2013} na\u{ef}ve \u{6c34}\u{1f600}.";

/// A loaded model. Shared by all threads.
pub struct Model {
    network: LoadedNetwork,
    tokenizer: Tokenizer,
    info: ModelInfo,
    cache_error: Option<std::io::Error>,
}

impl Model {
    /// The labels of the classification head of the model in `folder`, empty without a head. Does not read the weights.
    ///
    /// # Errors
    /// A missing, unreadable or damaged file, or a kind of model that Weir does not support.
    pub fn labels_of(folder: &Path) -> Result<Vec<String>, LoadError> {
        Ok(ModelConfig::load(folder)?.network.labels)
    }

    /// Loads the model in `folder`. Packed weights are mapped from a file in the folder `cache`, which is rewritten if missing, damaged or
    /// outdated; without `cache`, weights are packed in memory.
    ///
    /// # Errors
    /// A missing, unreadable or damaged file of the model, or a kind of model that Weir does not support.
    pub fn load(
        folder: &Path,
        precision: Precision,
        kernels: &'static Kernels,
        cache: Option<&Path>,
    ) -> Result<Model, LoadError> {
        Model::load_within(folder, precision, kernels, cache, MODEL_BYTES_MAX)
    }

    /// As [`Model::load`], with another limit than [`MODEL_BYTES_MAX`].
    ///
    /// A model whose packed weights are not in the cache is tried out first: on texts that break damaged tokenizers, and whether its
    /// results are finite numbers.
    ///
    /// # Errors
    /// As [`Model::load`], and [`LoadError::TooLarge`].
    pub fn load_within(
        folder: &Path,
        precision: Precision,
        kernels: &'static Kernels,
        cache: Option<&Path>,
        bytes_max: u64,
    ) -> Result<Model, LoadError> {
        let config = ModelConfig::load(folder)?;
        let working = working_bytes(&config, precision, kernels, config.max_tokens);
        let load_tokenizer = || {
            let ModelConfig { max_tokens, do_lower_case, ref network, .. } = config;
            let tokenizer = Tokenizer::load(&folder.join("tokenizer.json"), max_tokens, network.vocab_size)?;
            tokenizer.check_case(folder, do_lower_case).map(|()| tokenizer)
        };
        // both take some milliseconds, and a start waits for them
        let (tokenizer, loaded) = std::thread::scope(|scope| {
            let tokenizer = scope.spawn(load_tokenizer);
            let loaded = weights::load(folder, &config, precision, kernels, cache, working, bytes_max);
            (tokenizer.join().unwrap_or_else(|panic| resume_unwind(panic)), loaded)
        });
        let (tokenizer, loaded) = (tokenizer?, loaded?);
        let (weights, fingerprint) = (loaded.weights, loaded.fingerprint);
        let info = ModelInfo {
            architecture: config.network.model_type.clone(),
            dimension: config.network.hidden_size,
            dimensions: config.dimensions.clone(),
            layers: config.network.num_hidden_layers,
            heads: config.network.num_attention_heads,
            vocabulary: config.network.vocab_size,
            max_tokens: config.max_tokens,
            pooling: config.pooling,
            normalise: config.normalise,
            precision,
            prompts: config.prompts.clone(),
            labels: config.network.labels.clone(),
            fingerprint,
            weights_bytes: weights.size_bytes(),
        };
        let network = LoadedNetwork { config, weights, kernels };
        let mut model = Model { network, tokenizer, info, cache_error: None };
        if loaded.is_new {
            model.try_out(folder)?;
        }
        if let Some(cache_file) = loaded.cache_file {
            model.cache_error = model.network.weights.save(cache_file).err();
        }
        Ok(model)
    }

    /// Rejects a model whose tokenizer breaks on a text, or whose results are not numbers.
    fn try_out(&mut self, folder: &Path) -> Result<(), LoadError> {
        let damaged = |file: &str, reason| LoadError::Damaged { path: folder.join(file), reason };
        self.tokenizer.try_out(self.info.vocabulary).map_err(|reason| damaged("tokenizer.json", reason))?;
        let mut scratch = Scratch::new();
        for text in ["", TRIAL_TEXT] {
            let Encoded { ids, .. } = self.tokenizer.encode(text);
            let mut out = vec![0.0; self.info.dimension.max(self.info.labels.len())];
            match self.info.labels.len() {
                0 => self.embed(&[&ids], &mut scratch, &mut out),
                labels => self.classify(&[&ids], &[ids.len()], &mut scratch, &mut out[..labels]),
            }
            if out.iter().any(|x| !x.is_finite()) {
                return Err(damaged(WEIGHTS_FILE, "its results are not finite numbers".to_owned()));
            }
        }
        Ok(())
    }

    /// Replaces the dimensions, read from the files, that embeddings can be cut to; adds the full one.
    ///
    /// # Errors
    /// A dimension that is 0 or larger than the model's.
    pub fn with_dimensions(mut self, dimensions: &[usize]) -> Result<Model, LoadError> {
        self.info.dimensions = config::dimensions(dimensions, self.info.dimension)?;
        Ok(self)
    }

    /// Properties of this model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The error of writing packed weights to the cache folder, if any. The model works; the next start packs them again.
    pub fn cache_error(&self) -> Option<&std::io::Error> {
        self.cache_error.as_ref()
    }

    /// The instruction set of this model's kernels.
    pub fn kernels_name(&self) -> &'static str {
        self.network.kernels.isa.name()
    }

    /// Upper bound of the bytes of working memory ([`Scratch`]) for batches of `tokens` tokens.
    pub fn working_bytes(&self, tokens: usize) -> usize {
        working_bytes(&self.network.config, self.info.precision, self.network.kernels, tokens)
    }

    /// The tokenizer of this model.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether the file of the packed weights was truncated while the model used it. Every function that computes panics then; the next
    /// start packs the weights again.
    pub fn is_damaged(&self) -> bool {
        self.network.weights.are_damaged()
    }

    /// The network that the forward pass reads.
    pub(crate) fn network(&self) -> &LoadedNetwork {
        &self.network
    }

    /// # Panics
    /// When what was computed is wrong: [`Model::is_damaged`].
    pub(crate) fn assert_weights(&self) {
        assert!(!self.is_damaged(), "the file of the packed weights was truncated: start weir again");
    }

    /// Embeds sequences of token ids from [`Tokenizer::encode`]. Writes `dimension` floats for each to `out`.
    ///
    /// Time and working memory grow with the total number of tokens. A few hundred tokens saturate a core; split larger batches.
    ///
    /// # Panics
    /// When a sequence is empty or longer than `max_tokens`, an id is not in the vocabulary, or `out` is not `dimension` floats
    /// per sequence long.
    pub fn embed(&self, sequences: &[&[u32]], scratch: &mut Scratch, out: &mut [f32]) {
        output::embed(&self.network, sequences, scratch, out);
        self.assert_weights();
    }

    /// As [`Model::embed`], and also writes an embedding of each token, special ones included, to `tokens`: `dimension` floats
    /// each, in the order of the sequences. Token embeddings always have length one.
    ///
    /// # Panics
    /// As [`Model::embed`], and when `tokens` is not `dimension` floats per token long.
    pub fn embed_tokens(
        &self,
        sequences: &[&[u32]],
        scratch: &mut Scratch,
        out: &mut [f32],
        tokens: &mut [f32],
    ) {
        output::embed_tokens(&self.network, sequences, scratch, out, tokens);
        self.assert_weights();
    }

    /// An embedding truncated to its first `dimension` floats and normalised again; `None` when the model was not trained for that
    /// dimension (see [`ModelInfo::dimensions`]) or `embedding` does not have the full dimension.
    pub fn cut(&self, embedding: &[f32], dimension: usize) -> Option<Vec<f32>> {
        let is_full = embedding.len() == self.info.dimension;
        if !is_full || !self.info.dimensions.contains(&dimension) {
            return None;
        }
        let mut cut = embedding[..dimension].to_vec();
        if self.info.normalise || dimension < self.info.dimension {
            output::normalise(&self.network, &mut cut);
        }
        Some(cut)
    }

    /// MaxSim of each of `sequences` with a text whose token embeddings are `tokens`, from [`Model::embed_tokens`]: the mean over these of the
    /// largest cosine with a token of the sequence. Writes one number per sequence to `out`. Special tokens of the sequences are
    /// ignored; the caller removes those of `tokens`.
    ///
    /// Source: Khattab, Zaharia, SIGIR 2020 (ColBERT), with the mean instead of the sum, so that scores do not grow with the text.
    ///
    /// # Panics
    /// As [`Model::embed`], and when `tokens` is empty or not a multiple of `dimension` long.
    pub fn max_sim(&self, tokens: &[f32], sequences: &[&[u32]], scratch: &mut Scratch, out: &mut [f32]) {
        output::max_sim(&self.network, tokens, sequences, scratch, out);
        self.assert_weights();
    }

    /// Classifies pairs of texts from [`Tokenizer::encode_pair`]: `pairs` are their ids, `second` the indices of their first tokens of
    /// type 1. Writes one logit for each of [`ModelInfo::labels`] per pair to `out`.
    ///
    /// A cross-encoder has one label; the sigmoid of its logit is the relevance of the second text to the first. As with
    /// [`Model::embed`], results do not depend on the batch.
    ///
    /// # Panics
    /// When the model has no head, a pair is longer than `max_tokens`, an id is not in the vocabulary, or `out` is not `labels`
    /// logits per pair long.
    pub fn classify(&self, pairs: &[&[u32]], second: &[usize], scratch: &mut Scratch, out: &mut [f32]) {
        output::classify(&self.network, pairs, second, scratch, out);
        self.assert_weights();
    }
}
