//! The models that this gateway serves, by id and alias.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_encoder::{Kernels, LoadError, Model, Precision, Prompts, Scratch, Tokenizer};
use weir_onnx::{OnnxError, OnnxModel, Runtime};

use super::InferenceError;
use super::input::SPECIAL_TOKENS;
use super::pseudo::Pseudo;
use super::rerank::{CrossEncoder, Reranker};
use super::upstream::{RemoteModel, Upstream};
use weir_config::{Config, ModelConfig, ModelKind};
use weir_telemetry::metrics::Metrics;

/// Where a model's embeddings are made.
#[derive(Clone)]
pub enum Embedder {
    /// In this process, by our encoder.
    Local(Arc<Model>),
    /// In this process, by ONNX Runtime.
    Onnx(Arc<OnnxModel>),
    /// By another server.
    Upstream(Arc<Upstream>),
    /// By a hash: no model at all.
    Pseudo(Pseudo),
}

/// Why a model can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Its folder can't be loaded.
    #[error("the model `{id}` can't be loaded")]
    Load {
        /// The model.
        id: String,
        /// Why.
        source: LoadError,
    },
    /// Its ONNX file, or ONNX Runtime, can't be loaded.
    #[error("the model `{id}` can't be loaded")]
    Onnx {
        /// The model.
        id: String,
        /// Why.
        source: OnnxError,
    },
    /// Its folder holds a model that neither embeds nor reranks.
    #[error(
        "the model `{id}` is a classifier (`architectures` in {}/config.json), and its embeddings would mean nothing; \
         name the folder of an embedding model, or, for the kind `local`, of one with a label or two, which reranks", folder.display()
    )]
    Classifier {
        /// The model.
        id: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// All models rerank.
    #[error(
        "no model embeds: {names} only rerank; add a `[[models]]` table of a model that embeds, such as the folder that `make setup` gets"
    )]
    NoEmbedder {
        /// Their ids.
        names: String,
    },
    /// The model that shall rerank by default doesn't.
    #[error("`search.rerank` is `{name}`, which is no model that reranks; those in `[[models]]` that do: {}",
        if known.is_empty() { "none" } else { known })]
    NoReranker {
        /// What is configured.
        name: String,
        /// The ids of those that rerank.
        known: String,
    },
    /// There is no key for its upstream.
    #[error("the model `{id}` has no `api_key`: {reason}")]
    NoKey {
        /// The model.
        id: String,
        /// Why.
        reason: String,
    },
}

/// A model that is ready, with the names that callers use for it.
pub struct LoadedModel {
    /// The id.
    pub id: String,
    /// Other names for it.
    pub alias: Vec<String>,
    /// Where its embeddings are made.
    pub embedder: Embedder,
    /// What our encoder takes for a token of a short text on one thread, about; zero where others embed.
    pub(super) token_time: Duration,
    /// What is put before queries.
    pub query_prompt: String,
    /// What is put before documents.
    pub document_prompt: String,
    /// When it was loaded, in unix seconds.
    pub loaded_at: u64,
}

/// All models: those that embed, the default one first, and those that rerank.
#[derive(Clone)]
pub struct Models {
    embedders: Arc<[Arc<LoadedModel>]>,
    rerankers: Arc<[Arc<Reranker>]>,
}

/// A model as it was loaded.
enum Loaded {
    Embedder(LoadedModel),
    Reranker(Reranker),
}

impl Models {
    /// Loads every configured model. Upstreams are not called.
    ///
    /// # Errors
    /// The first model that can't be loaded.
    pub fn load(config: &Config, kernels: &'static Kernels, metrics: &Metrics) -> Result<Models, ModelError> {
        let mut loader = Loader { config, kernels, metrics, runtime: None };
        let (mut embedders, mut rerankers) = (Vec::new(), Vec::new());
        for model in &config.models {
            match loader.load(model)? {
                Loaded::Embedder(model) => embedders.push(Arc::new(model)),
                Loaded::Reranker(model) => rerankers.push(Arc::new(model)),
            }
        }
        if embedders.is_empty() && !rerankers.is_empty() {
            return Err(ModelError::NoEmbedder { names: quoted(rerankers.iter().map(|model| &model.id)) });
        }
        let models = Models { embedders: embedders.into(), rerankers: rerankers.into() };
        let default = &config.search.rerank;
        if !default.is_empty() && models.reranker(default).is_none() {
            let known = quoted(models.rerankers().map(|model| &model.id));
            return Err(ModelError::NoReranker { name: default.clone(), known });
        }
        Ok(models)
    }

    /// Makes what texts of unusual kinds need, so that none of them has to wait for it.
    pub fn warm_up(&self) {
        let embedders = self.iter().map(|model| (&model.id, model.tokenizer()));
        let rerankers = self.rerankers().map(|model| (&model.id, model.tokenizer()));
        for (id, tokenizer) in embedders.chain(rerankers) {
            if let Some(Err(error)) = tokenizer.map(Tokenizer::warm_up) {
                tracing::error!(model = id, error, "texts beyond plain English can't be read");
            }
        }
    }

    /// The model that embeds when none is named.
    pub fn default_model(&self) -> Option<&Arc<LoadedModel>> {
        self.embedders.first()
    }

    /// The model with this id or alias, if it embeds.
    pub fn get(&self, name: &str) -> Option<&Arc<LoadedModel>> {
        self.embedders.iter().find(|model| is_called(name, &model.id, &model.alias))
    }

    /// The model with this id or alias, if it reranks.
    pub fn reranker(&self, name: &str) -> Option<&Arc<Reranker>> {
        self.rerankers.iter().find(|model| is_called(name, &model.id, &model.alias))
    }

    /// Whether every model [is local](LoadedModel::is_local).
    pub fn are_local(&self) -> bool {
        self.iter().all(|model| model.is_local())
    }

    /// Every model that embeds.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LoadedModel>> {
        self.embedders.iter()
    }

    /// Every model that reranks.
    pub fn rerankers(&self) -> impl Iterator<Item = &Arc<Reranker>> {
        self.rerankers.iter()
    }
}

fn is_called(name: &str, id: &str, alias: &[String]) -> bool {
    id == name || alias.iter().any(|alias| alias == name)
}

/// Names in quotes, with commas between them.
fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Tokens, and number, of the passes that show how fast one thread is.
const TRIAL_TOKENS: usize = 8;
const TRIALS: usize = 3;

/// Folder below the data directory that keeps what was learned of upstreams.
const UPSTREAMS_FOLDER: &str = "upstreams";

/// What loading a model needs. ONNX Runtime is loaded by the first model that runs on it.
struct Loader<'a> {
    config: &'a Config,
    kernels: &'static Kernels,
    metrics: &'a Metrics,
    runtime: Option<Runtime>,
}

impl Loader<'_> {
    fn load(&mut self, model: &ModelConfig) -> Result<Loaded, ModelError> {
        let failed = |source| ModelError::Load { id: model.id.clone(), source };
        let (embedder, own) = match &model.kind {
            ModelKind::Local { folder, precision, dimensions } => {
                let precision = encoder_precision(precision.unwrap_or(self.config.inference.precision));
                let mut loaded =
                    Model::load(folder, precision, self.kernels, Some(&self.config.packed_dir()))
                        .map_err(failed)?;
                if let Some(error) = loaded.cache_error() {
                    tracing::warn!(model = model.id, %error, "packed weights could not be kept; every start packs them anew");
                }
                match loaded.info().labels.len() {
                    0 => {}
                    1 | 2 => {
                        let cross_encoder = CrossEncoder::Local(Arc::new(loaded));
                        return Ok(Loaded::Reranker(Reranker::new(model, cross_encoder)));
                    }
                    _ => return Err(classifier(model, folder)),
                }
                if !dimensions.is_empty() {
                    loaded = loaded.with_dimensions(dimensions).map_err(failed)?;
                }
                let prompts = loaded.info().prompts.clone();
                (Embedder::Local(Arc::new(loaded)), prompts)
            }
            ModelKind::Onnx { folder, dimensions } => {
                let loaded = self
                    .onnx(folder, dimensions)
                    .map_err(|source| ModelError::Onnx { id: model.id.clone(), source })?;
                if loaded.external_model().is_classifier() {
                    return Err(classifier(model, folder));
                }
                let prompts = loaded.external_model().prompts().clone();
                (Embedder::Onnx(Arc::new(loaded)), prompts)
            }
            ModelKind::Upstream(settings) => {
                let folder = self.config.server.data_dir.join(UPSTREAMS_FOLDER);
                let waiting_max = self.config.inference.queue_tokens_max;
                let remote = RemoteModel::new(&model.id, settings, waiting_max, self.metrics.clone());
                let remote = remote.map_err(|reason| ModelError::NoKey { id: model.id.clone(), reason })?;
                if settings.protocol.is_reranking() {
                    let cross_encoder = CrossEncoder::Upstream(Arc::new(remote));
                    return Ok(Loaded::Reranker(Reranker::new(model, cross_encoder)));
                }
                let upstream = Upstream::new(remote, &folder);
                (Embedder::Upstream(Arc::new(upstream)), Prompts::default())
            }
            ModelKind::Pseudo { dimension } => {
                (Embedder::Pseudo(Pseudo { dimension: *dimension }), Prompts::default())
            }
        };
        // what the configuration says wins over the model's own files
        let choose = |said: &String, own: String| if said.is_empty() { own } else { said.clone() };
        Ok(Loaded::Embedder(LoadedModel {
            id: model.id.clone(),
            alias: model.alias.clone(),
            query_prompt: choose(&model.prompts.query, own.query),
            document_prompt: choose(&model.prompts.document, own.document),
            token_time: token_time(&embedder),
            embedder,
            loaded_at: loaded_at(),
        }))
    }

    fn onnx(&mut self, folder: &Path, dimensions: &[usize]) -> Result<OnnxModel, OnnxError> {
        let runtime = match &self.runtime {
            Some(runtime) => runtime.clone(),
            None => self.runtime.insert(Runtime::load(self.config.onnx.library.as_ref())?).clone(),
        };
        let loaded = OnnxModel::load(folder, runtime, self.config.inference.threads())?;
        if dimensions.is_empty() { Ok(loaded) } else { loaded.with_dimensions(dimensions) }
    }
}

/// What our encoder takes for a token of a short text on one thread: the shortest of some passes.
fn token_time(embedder: &Embedder) -> Duration {
    let Embedder::Local(model) = embedder else { return Duration::ZERO };
    let ids = vec![0; TRIAL_TOKENS.min(model.info().max_tokens)];
    let (mut scratch, mut out) = (Scratch::new(), vec![0.0; model.info().dimension]);
    let mut pass = || {
        let started = Instant::now();
        model.embed(&[&ids], &mut scratch, &mut out);
        started.elapsed() / ids.len() as u32
    };
    (0..TRIALS).map(|_| pass()).min().unwrap_or_default()
}

/// Now, in unix seconds.
pub(super) fn loaded_at() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The precision of the encoder for a setting.
pub fn encoder_precision(precision: weir_config::Precision) -> Precision {
    match precision {
        weir_config::Precision::F32 => Precision::F32,
        weir_config::Precision::Bf16 => Precision::Bf16,
        weir_config::Precision::Int8 => Precision::Int8,
    }
}

fn classifier(model: &ModelConfig, folder: &Path) -> ModelError {
    ModelError::Classifier { id: model.id.clone(), folder: folder.to_owned() }
}

/// Gives a vector length one; one without any length stays as it is.
pub fn scale_to_length_one(embedding: &mut [f32]) {
    let length = embedding.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        embedding.iter_mut().for_each(|x| *x /= length);
    }
}

impl LoadedModel {
    /// Whether its embeddings wait for the threads of this process.
    pub fn is_local(&self) -> bool {
        matches!(self.embedder, Embedder::Local(_) | Embedder::Onnx(_))
    }

    /// The tokenizer; `None` where tokens are not made here, or words are as good.
    pub(super) fn tokenizer(&self) -> Option<&Tokenizer> {
        match &self.embedder {
            Embedder::Local(model) => Some(model.tokenizer()),
            Embedder::Onnx(model) => Some(model.external_model().tokenizer()),
            Embedder::Upstream(_) | Embedder::Pseudo(_) => None,
        }
    }

    /// Floats of an embedding; `None` as long as an upstream has not told.
    pub fn dimension(&self) -> Option<usize> {
        match &self.embedder {
            Embedder::Local(model) => Some(model.info().dimension),
            Embedder::Onnx(model) => Some(model.external_model().dimension()),
            Embedder::Upstream(upstream) => upstream.dimension(),
            Embedder::Pseudo(pseudo) => Some(pseudo.dimension),
        }
    }

    /// Finds out how long an upstream's embeddings are, where that is not known.
    ///
    /// # Errors
    /// [`InferenceError`]: it can't be reached.
    pub async fn learn_dimension(&self) -> Result<(), InferenceError> {
        match &self.embedder {
            Embedder::Upstream(upstream) => upstream.learn_dimension().await,
            Embedder::Local(_) | Embedder::Onnx(_) | Embedder::Pseudo(_) => Ok(()),
        }
    }

    /// The numbers of floats that embeddings may be asked for with: those that the model was trained for, their own last.
    pub fn dimensions(&self) -> impl Iterator<Item = usize> {
        let trained_for = match &self.embedder {
            Embedder::Local(model) => model.info().dimensions.as_slice(),
            Embedder::Onnx(model) => model.external_model().dimensions(),
            Embedder::Upstream(upstream) => upstream.dimensions(),
            Embedder::Pseudo(_) => &[],
        };
        let whole = self.dimension();
        let is_shorter = move |length: &usize| whole.is_none_or(|whole| *length < whole);
        trained_for.iter().copied().filter(is_shorter).chain(whole)
    }

    /// The first floats of an embedding as an embedding of its own; the whole one where that is not allowed.
    pub fn cut(&self, mut embedding: Vec<f32>, dimensions: u64) -> Vec<f32> {
        let Ok(wanted) = usize::try_from(dimensions) else { return embedding };
        if wanted >= embedding.len() || !self.dimensions().any(|allowed| allowed == wanted) {
            return embedding;
        }
        if let Embedder::Local(model) = &self.embedder {
            return model.cut(&embedding, wanted).unwrap_or(embedding);
        }
        embedding.truncate(wanted);
        scale_to_length_one(&mut embedding);
        embedding
    }

    /// Whether every embedding has length one.
    pub fn is_normalised(&self) -> bool {
        match &self.embedder {
            Embedder::Local(model) => model.info().normalise,
            Embedder::Onnx(model) => model.external_model().normalise(),
            Embedder::Upstream(upstream) => upstream.is_normalised(),
            Embedder::Pseudo(_) => true,
        }
    }

    /// The embedder's fingerprint, which tells whether two embeddings may meet, prompts aside.
    pub(super) fn own_fingerprint(&self) -> String {
        match &self.embedder {
            Embedder::Local(model) => model.info().fingerprint.clone(),
            Embedder::Onnx(model) => model.fingerprint().to_owned(),
            Embedder::Upstream(upstream) => upstream.fingerprint(),
            Embedder::Pseudo(pseudo) => pseudo.fingerprint(),
        }
    }

    /// What every generation of a collection pins: the embedder's fingerprint and the prompts of documents.
    pub fn fingerprint(&self) -> String {
        let own = self.own_fingerprint();
        if self.document_prompt.is_empty() {
            return own;
        }
        let prompt = blake3::hash(self.document_prompt.as_bytes()).to_hex();
        format!("{own}-{}", &prompt[..16])
    }

    /// Tokens of a text that count, without special ones.
    pub fn max_tokens(&self) -> usize {
        self.input_tokens_max().map_or(usize::MAX, |tokens| tokens.saturating_sub(SPECIAL_TOKENS))
    }

    /// The byte span of each token of `text`; those of an upstream are estimated.
    pub fn token_spans(&self, text: &str) -> Vec<Range<usize>> {
        match (&self.embedder, self.tokenizer()) {
            (_, Some(tokenizer)) => tokenizer.token_spans(text),
            (Embedder::Pseudo(pseudo), None) => pseudo.token_spans(text),
            (_, None) => super::estimate::token_spans(text),
        }
    }

    /// The numbers that it computes with and its pooling, as far as they are known.
    pub fn numbers_and_pooling(&self) -> (&'static str, &'static str) {
        match &self.embedder {
            Embedder::Local(model) => (model.info().precision.name(), model.info().pooling.name()),
            Embedder::Onnx(model) => ("onnx", model.external_model().pooling().name()),
            Embedder::Upstream(_) => ("unknown", "unknown"),
            Embedder::Pseudo(_) => ("f32", "mean"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_gives_length_one_and_leaves_zero_alone() {
        let mut embedding = [3.0, 0.0, 4.0];
        scale_to_length_one(&mut embedding);
        assert_eq!(embedding, [0.6, 0.0, 0.8]);
        let mut zero = [0.0; 3];
        scale_to_length_one(&mut zero);
        assert_eq!(zero, [0.0; 3]);
    }
}
