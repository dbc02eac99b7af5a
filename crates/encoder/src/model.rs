//! A loaded model: its description, its tokenizer, its weights.

use std::path::Path;

use weir_kernels::Kernels;

use crate::config::{self, ModelConfig};
use crate::forward::Scratch;
use crate::tokenizer::Tokenizer;
use crate::weights::{self, Weights};
use crate::{LoadError, Pooling, Prompts, output};

/// Number format of the matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats, the reference.
    F32,
    /// Brain floats as weights, products in 32-bit floats.
    Bf16,
    /// Eight-bit weights with a scale for each output, eight-bit activations with a scale for each token.
    Int8,
}

impl Precision {
    /// The name in configuration and fingerprint.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
        }
    }

    /// Every precision, the most exact first.
    pub const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::Int8];

    /// The precision of that name.
    pub fn parse(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }

    /// Bytes of a weight.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
            Precision::Int8 => 1,
        }
    }
}

/// What a model is, for logs, `weir model info` and the API.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// `model_type` of the configuration.
    pub architecture: String,
    /// Floats of an embedding.
    pub dimension: usize,
    /// Lengths that an embedding can be cut to by [`Model::cut`], ascending, the whole one last: what the model was trained
    /// for, as its files or [`Model::with_dimensions`] say.
    pub dimensions: Vec<usize>,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads of a layer.
    pub heads: usize,
    /// Number of entries of the vocabulary.
    pub vocabulary: usize,
    /// Tokens of a text that count, the two special ones included; the rest is cut off.
    pub max_tokens: usize,
    /// How token vectors become one.
    pub pooling: Pooling,
    /// Whether embeddings have length one.
    pub normalise: bool,
    /// Number format of the products.
    pub precision: Precision,
    /// What the model wants before queries and documents.
    pub prompts: Prompts,
    /// What the classification head tells apart, a logit for each; empty without a head.
    pub labels: Vec<String>,
    /// Hash of everything that decides an embedding, as 32 hex digits. **Vectors of two fingerprints never meet.**
    pub fingerprint: String,
    /// Bytes of packed weights in memory.
    pub weights_bytes: usize,
}

/// A model that is ready to embed. Shared by all threads.
pub struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) weights: Weights,
    pub(crate) kernels: &'static Kernels,
    tokenizer: Tokenizer,
    info: ModelInfo,
    cache_error: Option<std::io::Error>,
}

impl Model {
    /// What the classification head of the model in `folder` tells apart, empty without a head; no weights are read.
    ///
    /// # Errors
    /// A missing, unreadable or damaged file, and a model of a kind that Weir does not run.
    pub fn labels_of(folder: &Path) -> Result<Vec<String>, LoadError> {
        Ok(ModelConfig::load(folder)?.network.labels)
    }

    /// Loads the model in `folder`. Its packed weights are mapped from a file in the folder `cache`, which is made when
    /// it is missing, damaged or of other files; without a cache they are packed in memory.
    ///
    /// # Errors
    /// A missing, unreadable or damaged file of the model, and a model of a kind that Weir does not run, each named.
    pub fn load(
        folder: &Path,
        precision: Precision,
        kernels: &'static Kernels,
        cache: Option<&Path>,
    ) -> Result<Model, LoadError> {
        let config = ModelConfig::load(folder)?;
        let tokenizer =
            Tokenizer::load(&folder.join("tokenizer.json"), config.max_tokens, config.network.vocab_size)?;
        config::check_case(folder, config.do_lower_case, &tokenizer)?;
        let loaded = weights::load(folder, &config.network, precision, kernels, cache)?;
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
        Ok(Model { config, weights, kernels, tokenizer, info, cache_error: loaded.cache_error })
    }

    /// The same model with other lengths that its embeddings can be cut to than its files say; the whole one is added.
    ///
    /// # Errors
    /// A length that is 0 or longer than an embedding.
    pub fn with_dimensions(mut self, dimensions: &[usize]) -> Result<Model, LoadError> {
        self.info.dimensions = config::dimensions(dimensions, self.info.dimension)?;
        Ok(self)
    }

    /// What this model is.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Why the packed weights could not be kept in the cache folder, if they should have been: the model works, and the
    /// next start packs them again.
    pub fn cache_error(&self) -> Option<&std::io::Error> {
        self.cache_error.as_ref()
    }

    /// The instruction set of the kernels that this model runs on.
    pub fn kernels_name(&self) -> &'static str {
        self.kernels.isa.name()
    }

    /// Bytes of working memory ([`Scratch`]) that batches of up to `tokens` tokens need, however they are made up.
    pub fn working_bytes(&self, tokens: usize) -> usize {
        crate::forward::working_bytes(self, tokens)
    }

    /// The tokenizer of this model.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Embeds sequences of token ids, as [`Tokenizer::encode`] makes them; `out` gets `dimension` floats for each.
    ///
    /// Work and scratch memory grow with the sum of the lengths, and a few hundred tokens already keep a core busy:
    /// hand larger jobs over in parts, for they come out the same.
    ///
    /// # Panics
    /// When a sequence is empty or longer than `max_tokens`, an id is not in the vocabulary, or `out` has another
    /// length than `dimension` for each sequence.
    pub fn embed(&self, sequences: &[&[u32]], scratch: &mut Scratch, out: &mut [f32]) {
        output::embed(self, sequences, scratch, out);
    }

    /// The same, and besides an embedding of each token, special ones included: `tokens` gets `dimension` floats for each,
    /// in the order of the sequences. Those have length one, whatever the model does with the embedding of the whole.
    ///
    /// # Panics
    /// As [`Model::embed`], and when `tokens` has another length.
    pub fn embed_tokens(
        &self,
        sequences: &[&[u32]],
        scratch: &mut Scratch,
        out: &mut [f32],
        tokens: &mut [f32],
    ) {
        output::embed_tokens(self, sequences, scratch, out, tokens);
    }

    /// An embedding cut to its first `dimension` floats and brought to length one again; `None` when the model was not
    /// trained for that length (see [`ModelInfo::dimensions`]) or `embedding` is not a whole one.
    pub fn cut(&self, embedding: &[f32], dimension: usize) -> Option<Vec<f32>> {
        let is_whole = embedding.len() == self.info.dimension;
        if !is_whole || !self.info.dimensions.contains(&dimension) {
            return None;
        }
        let mut cut = embedding[..dimension].to_vec();
        if self.info.normalise || dimension < self.info.dimension {
            output::normalise(self, &mut cut);
        }
        Some(cut)
    }

    /// How like each of `sequences` is to a text with the token embeddings `tokens`, which [`Model::embed_tokens`] made: the mean, over
    /// these, of the best cosine with a token of the sequence. `out` gets a number for each sequence. Special tokens of the sequences
    /// don't count; leave out those of `tokens` too.
    ///
    /// Source: Khattab, Zaharia, SIGIR 2020 (late interaction); the mean instead of the sum, so that the length of the text makes no
    /// difference.
    ///
    /// # Panics
    /// As [`Model::embed`], and when `tokens` is empty or no whole number of embeddings.
    pub fn compare_tokens(
        &self,
        tokens: &[f32],
        sequences: &[&[u32]],
        scratch: &mut Scratch,
        out: &mut [f32],
    ) {
        output::compare_tokens(self, tokens, sequences, scratch, out);
    }

    /// Classifies pairs of texts, as [`Tokenizer::encode_pair`] makes them: the ids of each pair, and where the tokens of type 1 begin in
    /// it. `out` gets the logits of each pair, one for each of [`ModelInfo::labels`].
    ///
    /// A cross-encoder has one label, and the sigmoid of its logit says how relevant the second text is to the first.
    /// Pairs count as batches as in [`Model::embed`], and come out the same alone.
    ///
    /// # Panics
    /// When the model has no head, a pair is longer than `max_tokens`, an id is not in the vocabulary, or `out` has
    /// another length than `labels` for each pair.
    pub fn classify(&self, pairs: &[&[u32]], second: &[usize], scratch: &mut Scratch, out: &mut [f32]) {
        output::classify(self, pairs, second, scratch, out);
    }
}
