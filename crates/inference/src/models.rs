//! The models that this gateway serves, by id and alias.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_encoder::{Kernels, LoadError, Model, Precision, Prompts, Scratch, Tokenizer};
use weir_onnx::{OnnxError, OnnxModel, Runtime};

use super::normalise::l2_normalise;
use super::pool::thread_cpu_time;
use super::pseudo::Pseudo;
use super::request::InferenceError;
use super::rerank::{CrossEncoder, Reranker};
use super::rows::Rows;
use super::token_decoder::TokenDecoder;
use super::upstream::{RemoteModel, Upstream};
use serde_json::value::RawValue;
use weir_api::{EmbedderPrompts, EmbedderReply};
use weir_config::{Config, ModelConfig, ModelKind};
use weir_telemetry::metrics::Metrics;

/// The implementation that computes embeddings.
#[derive(Clone)]
pub enum Embedder {
    /// Our encoder, in this process.
    Local(Arc<Model>),
    /// ONNX Runtime, in this process.
    Onnx(Arc<OnnxModel>),
    /// Another server.
    Upstream(Arc<Upstream>),
    /// A hash of the words, without any model.
    Pseudo(Pseudo),
}

/// A model can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Its folder can't be loaded.
    #[error("the model `{id}` can't be loaded")]
    Load {
        /// The model.
        id: String,
        /// The cause.
        source: LoadError,
    },
    /// Loading took too long, or panicked.
    #[error(
        "the model `{id}` was not loaded within {load_ms_max} ms (`inference.model_load_ms_max`), or its files made the loader panic, which \
         the log shows; fetch the model again"
    )]
    Interrupted {
        /// The model.
        id: String,
        /// The limit.
        load_ms_max: u64,
    },
    /// Its ONNX file, or ONNX Runtime, can't be loaded.
    #[error("the model `{id}` can't be loaded")]
    Onnx {
        /// The model.
        id: String,
        /// The cause.
        source: OnnxError,
    },
    /// The file of `decode_token_ids` can't be used.
    #[error("the model `{id}` can't decode token ids: {reason}")]
    TokenIds {
        /// The model.
        id: String,
        /// The cause.
        reason: String,
    },
    /// It is an ONNX file of a classifier.
    #[error(
        "the model `{id}` is a classifier (`architectures` in {}/config.json) without meaningful embeddings; use an embedding model, \
         or the kind `local`, which runs classifiers", folder.display()
    )]
    Classifier {
        /// The model.
        id: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// All models are rerankers.
    #[error(
        "there is no embedding model, only rerankers and classifiers: {names}; add a `[[models]]` table with an embedding model, such as the one that \
         `weir model pull all-MiniLM-L6-v2` downloads"
    )]
    NoEmbedder {
        /// Their ids.
        names: String,
    },
    /// `search.rerank` is not a reranker.
    #[error("`search.rerank` is `{name}`, which is not a reranker; rerankers in `[[models]]`: {}",
        if known.is_empty() { "none" } else { known })]
    NoReranker {
        /// The configured name.
        name: String,
        /// The ids of all rerankers.
        known: String,
    },
    /// The key or the address of its upstream can't be used.
    #[error("the upstream of the model `{id}` can't be used: {reason}")]
    Upstream {
        /// The model.
        id: String,
        /// The cause.
        reason: String,
    },
}

/// An embedding model, with its names.
pub struct LoadedModel {
    /// The id.
    pub id: String,
    /// Other names for it.
    pub alias: Vec<String>,
    /// The implementation that computes its embeddings.
    pub embedder: Embedder,
    /// Measured time of our encoder for one token of a short text on one thread; zero for other embedders.
    pub(super) token_time: Duration,
    /// Turns token ids in requests into texts, if that is configured.
    token_decoder: Option<TokenDecoder>,
    /// Configured prompts, or those in the model's files.
    prompts: Prompts,
    /// When it was loaded, in unix seconds.
    pub loaded_at: u64,
}

/// All models: embedding models, the default one first, and cross-encoders, which rerank or classify.
#[derive(Clone)]
pub struct Models {
    embedders: Arc<[Arc<LoadedModel>]>,
    cross_encoders: Arc<[Arc<Reranker>]>,
}

enum Loaded {
    Embedder(LoadedModel),
    Reranker(Reranker),
}

impl Models {
    /// The ids of the models whose packed weights were truncated while they were used: they fail until the next start.
    pub fn damaged(&self) -> Vec<&str> {
        let is_damaged = |model: &&Arc<LoadedModel>| matches!(&model.embedder, Embedder::Local(local) if local.is_damaged());
        let embedders = self.embedders.iter().filter(is_damaged).map(|model| model.id.as_str());
        let rerankers = self.cross_encoders.iter().filter(|model| model.is_damaged());
        embedders.chain(rerankers.map(|model| model.id.as_str())).collect()
    }

    /// Loads every configured model. Upstreams are not called.
    ///
    /// # Errors
    /// The first model that can't be loaded.
    pub fn load(config: &Config, kernels: &'static Kernels, metrics: &Metrics) -> Result<Models, ModelError> {
        let mut loader = Loader { config, kernels, metrics, runtime: None };
        let (mut embedders, mut cross_encoders) = (Vec::new(), Vec::new());
        for model in &config.models {
            match loader.load(model)? {
                Loaded::Embedder(model) => embedders.push(Arc::new(model)),
                Loaded::Reranker(model) => cross_encoders.push(Arc::new(model)),
            }
        }
        if embedders.is_empty() && !cross_encoders.is_empty() {
            return Err(ModelError::NoEmbedder {
                names: quoted(cross_encoders.iter().map(|model| &model.id)),
            });
        }
        let models = Models { embedders: embedders.into(), cross_encoders: cross_encoders.into() };
        let default = &config.search.rerank;
        if !default.is_empty() && models.reranker(default).is_none() {
            let known = quoted(models.rerankers().map(|model| &model.id));
            return Err(ModelError::NoReranker { name: default.clone(), known });
        }
        Ok(models)
    }

    /// The embedding model of requests that name none.
    pub fn default_model(&self) -> Option<&Arc<LoadedModel>> {
        self.embedders.first()
    }

    /// The embedding model with this id or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<LoadedModel>> {
        self.embedders.iter().find(|model| has_name(name, &model.id, &model.alias))
    }

    /// The reranker with this id or alias.
    pub fn reranker(&self, name: &str) -> Option<&Arc<Reranker>> {
        self.rerankers().find(|model| has_name(name, &model.id, &model.alias))
    }

    /// Whether every model [is local](LoadedModel::is_local).
    pub fn are_local(&self) -> bool {
        self.iter().all(|model| model.is_local())
    }

    /// All embedding models.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LoadedModel>> {
        self.embedders.iter()
    }

    /// All rerankers.
    pub fn rerankers(&self) -> impl Iterator<Item = &Arc<Reranker>> {
        self.cross_encoders().filter(|model| model.reranks())
    }

    /// All rerankers, and the classifiers that are none.
    pub fn cross_encoders(&self) -> impl Iterator<Item = &Arc<Reranker>> {
        self.cross_encoders.iter()
    }
}

fn has_name(name: &str, id: &str, alias: &[String]) -> bool {
    id == name || alias.iter().any(|alias| alias == name)
}

/// Names in backticks, separated by commas.
fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Whether the model in `folder` is a reranker: its classification head has one label or two. `None` if its files can't be read.
pub fn reranks(folder: &Path) -> Option<bool> {
    Some(matches!(Model::labels_of(folder).ok()?.len(), 1 | 2))
}

/// Tokens that a model of the BERT family adds to each text.
pub(crate) const SPECIAL_TOKENS: usize = 2;

/// Tokens and number of the passes that measure the speed of one thread.
const CALIBRATION_TOKENS: usize = 8;
const CALIBRATION_PASSES: usize = 3;

/// Folder below the data directory with the dimensions of upstreams.
const UPSTREAMS_FOLDER: &str = "upstreams";

struct Loader<'a> {
    config: &'a Config,
    kernels: &'static Kernels,
    metrics: &'a Metrics,
    /// Loaded with the first ONNX model.
    runtime: Option<Runtime>,
}

impl Loader<'_> {
    fn load(&mut self, model: &ModelConfig) -> Result<Loaded, ModelError> {
        let failed = |source| ModelError::Load { id: model.id.clone(), source };
        let (embedder, prompts) = match &model.kind {
            ModelKind::Local { folder, precision, dimensions } => {
                let precision = encoder_precision(precision.unwrap_or(self.config.inference.precision));
                let mut loaded = self.load_local(&model.id, folder, precision)?;
                if let Some(error) = loaded.cache_error() {
                    tracing::warn!(model = model.id, %error, "packed weights could not be saved; every start packs them again");
                }
                match loaded.info().labels.len() {
                    0 => {}
                    _ => {
                        let cross_encoder = CrossEncoder::Local(Arc::new(loaded));
                        return Ok(Loaded::Reranker(Reranker::new(model, cross_encoder, unix_now())));
                    }
                }
                if !dimensions.is_empty() {
                    loaded = loaded.with_dimensions(dimensions).map_err(failed)?;
                }
                let prompts = loaded.info().prompts.clone();
                (Embedder::Local(Arc::new(loaded)), prompts)
            }
            ModelKind::Onnx { folder, dimensions } => {
                let loaded = self
                    .load_onnx(folder, dimensions)
                    .map_err(|source| ModelError::Onnx { id: model.id.clone(), source })?;
                if loaded.external_model().is_classifier() {
                    return Err(classifier_error(model, folder));
                }
                let prompts = loaded.external_model().prompts().clone();
                (Embedder::Onnx(Arc::new(loaded)), prompts)
            }
            ModelKind::Upstream(settings) => {
                let folder = self.config.server.data_dir.join(UPSTREAMS_FOLDER);
                let waiting_max = self.config.inference.queue_tokens_max;
                let remote =
                    RemoteModel::new(&model.id, settings, waiting_max, &folder, self.metrics.clone());
                let remote =
                    remote.map_err(|reason| ModelError::Upstream { id: model.id.clone(), reason })?;
                if settings.protocol.is_reranking() {
                    let cross_encoder = CrossEncoder::Upstream(Arc::new(remote));
                    return Ok(Loaded::Reranker(Reranker::new(model, cross_encoder, unix_now())));
                }
                let upstream = Upstream::new(remote, &folder);
                (Embedder::Upstream(Arc::new(upstream)), Prompts::default())
            }
            ModelKind::Pseudo { dimension } => {
                (Embedder::Pseudo(Pseudo { dimension: *dimension }), Prompts::default())
            }
        };
        let token_decoder = model.decode_token_ids.as_ref().map(|file| TokenDecoder::load(file)).transpose();
        let token_decoder =
            token_decoder.map_err(|reason| ModelError::TokenIds { id: model.id.clone(), reason })?;
        // the configuration overrides the model's files
        let choose = |configured: &String, default: String| {
            if configured.is_empty() { default } else { configured.clone() }
        };
        let prompts = Prompts {
            query: choose(&model.prompts.query, prompts.query),
            document: choose(&model.prompts.document, prompts.document),
        };
        Ok(Loaded::Embedder(LoadedModel {
            id: model.id.clone(),
            alias: model.alias.clone(),
            prompts,
            token_decoder,
            token_time: token_time(&embedder),
            embedder,
            loaded_at: unix_now(),
        }))
    }

    fn load_local(&self, id: &str, folder: &Path, precision: Precision) -> Result<Model, ModelError> {
        let (folder, cache, kernels) = (folder.to_owned(), self.config.packed_dir(), self.kernels);
        let bytes_max = self.config.inference.model_bytes_max;
        let load = move || Model::load_within(&folder, precision, kernels, Some(&cache), bytes_max);
        let load_ms_max = self.config.inference.model_load_ms_max;
        let loaded = within(Duration::from_millis(load_ms_max), load);
        let loaded = loaded.ok_or_else(|| ModelError::Interrupted { id: id.to_owned(), load_ms_max })?;
        loaded.map_err(|source| ModelError::Load { id: id.to_owned(), source })
    }

    fn load_onnx(&mut self, folder: &Path, dimensions: &[usize]) -> Result<OnnxModel, OnnxError> {
        let runtime = match &self.runtime {
            Some(runtime) => runtime.clone(),
            None => self.runtime.insert(Runtime::load(self.config.onnx.library.as_ref())?).clone(),
        };
        let settings = &self.config.inference;
        let loaded = OnnxModel::load(folder, runtime, settings.threads(), settings.model_bytes_max)?;
        if dimensions.is_empty() { Ok(loaded) } else { loaded.with_dimensions(dimensions) }
    }
}

/// The result of `run`; `None` when it takes longer than `limit` or panics. Its thread is then left behind, as the start has failed.
fn within<T: Send + 'static>(limit: Duration, run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, result) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("model-load".to_owned());
    thread.spawn(move || drop(done.send(run()))).ok()?;
    result.recv_timeout(limit).ok()
}

/// The CPU time of our encoder for one token of a short text on one thread: the fastest of some passes. Other work on the cores does not count.
fn token_time(embedder: &Embedder) -> Duration {
    let Embedder::Local(model) = embedder else { return Duration::ZERO };
    let ids = vec![0; CALIBRATION_TOKENS.min(model.info().max_tokens)];
    let (mut scratch, mut out) = (Scratch::new(), vec![0.0; model.info().dimension]);
    let mut pass = || {
        let started = thread_cpu_time();
        model.embed(&[&ids], &mut scratch, &mut out);
        thread_cpu_time().saturating_sub(started) / ids.len() as u32
    };
    (0..CALIBRATION_PASSES).map(|_| pass()).min().unwrap_or_default()
}

/// The current time in unix seconds.
fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The encoder's type for a precision in the configuration.
pub fn encoder_precision(precision: weir_config::Precision) -> Precision {
    match precision {
        weir_config::Precision::F32 => Precision::F32,
        weir_config::Precision::Bf16 => Precision::Bf16,
        weir_config::Precision::Int8 => Precision::Int8,
    }
}

fn classifier_error(model: &ModelConfig, folder: &Path) -> ModelError {
    ModelError::Classifier { id: model.id.clone(), folder: folder.to_owned() }
}

impl LoadedModel {
    /// Whether it runs on the inference threads of this process.
    pub fn is_local(&self) -> bool {
        matches!(self.embedder, Embedder::Local(_) | Embedder::Onnx(_))
    }

    /// The tokenizer of a model that runs in this process, or of another gateway's.
    pub(super) fn tokenizer(&self) -> Option<&Tokenizer> {
        match &self.embedder {
            Embedder::Local(model) => Some(model.tokenizer()),
            Embedder::Onnx(model) => Some(model.external_model().tokenizer()),
            Embedder::Upstream(upstream) => upstream.described()?.tokenizer.as_ref(),
            Embedder::Pseudo(_) => None,
        }
    }

    /// Turns token ids in requests into texts, if that is configured.
    pub fn token_decoder(&self) -> Option<&TokenDecoder> {
        self.token_decoder.as_ref()
    }

    /// Prefix of queries.
    pub fn query_prompt(&self) -> &str {
        self.prompt(&self.prompts.query, |prompts| &prompts.query)
    }

    /// Prefix of documents.
    pub fn document_prompt(&self) -> &str {
        self.prompt(&self.prompts.document, |prompts| &prompts.document)
    }

    /// The prompt of this gateway, or of the one that runs the model.
    fn prompt<'a>(&'a self, own: &'a str, other: fn(&EmbedderPrompts) -> &String) -> &'a str {
        match &self.embedder {
            Embedder::Upstream(upstream) if own.is_empty() => {
                upstream.described().map_or("", |described| other(&described.reply.prompts))
            }
            Embedder::Local(_) | Embedder::Onnx(_) | Embedder::Upstream(_) | Embedder::Pseudo(_) => own,
        }
    }

    /// The description by which another gateway uses this model; `None` while the dimension of an upstream is unknown.
    pub fn description(&self) -> Option<EmbedderReply> {
        let json = self.tokenizer().and_then(|tokenizer| std::str::from_utf8(tokenizer.json()).ok());
        let dimension = self.dimension()?;
        Some(EmbedderReply {
            model: self.id.clone(),
            fingerprint: self.embedder_fingerprint(),
            dimension,
            dimensions: self.dimensions().filter(|shorter| *shorter < dimension).collect(),
            max_input_tokens: self.input_tokens_max(),
            normalized: self.is_normalised(),
            prompts: EmbedderPrompts {
                query: self.query_prompt().to_owned(),
                document: self.document_prompt().to_owned(),
            },
            tokenizer: json.and_then(|json| RawValue::from_string(json.to_owned()).ok()),
        })
    }

    /// The length of an embedding; `None` while that of an upstream is unknown.
    pub fn dimension(&self) -> Option<usize> {
        match &self.embedder {
            Embedder::Local(model) => Some(model.info().dimension),
            Embedder::Onnx(model) => Some(model.external_model().dimension()),
            Embedder::Upstream(upstream) => upstream.dimension(),
            Embedder::Pseudo(pseudo) => Some(pseudo.dimension),
        }
    }

    /// Fetches the dimension of an upstream, unless it is known.
    ///
    /// # Errors
    /// [`InferenceError`] of the upstream.
    pub async fn fetch_dimension(&self) -> Result<(), InferenceError> {
        match &self.embedder {
            Embedder::Upstream(upstream) => upstream.fetch_dimension().await,
            Embedder::Local(_) | Embedder::Onnx(_) | Embedder::Pseudo(_) => Ok(()),
        }
    }

    /// The dimensions that a request may ask for: the shorter ones that the model was trained for, then the full one.
    pub fn dimensions(&self) -> impl Iterator<Item = usize> {
        let trained_for = match &self.embedder {
            Embedder::Local(model) => model.info().dimensions.as_slice(),
            Embedder::Onnx(model) => model.external_model().dimensions(),
            Embedder::Upstream(upstream) => upstream.dimensions(),
            Embedder::Pseudo(_) => &[],
        };
        let full = self.dimension();
        let is_shorter = move |dimension: &usize| full.is_none_or(|full| *dimension < full);
        trained_for.iter().copied().filter(is_shorter).chain(full)
    }

    /// Truncates embeddings to `dimensions` floats and normalises them; unchanged for a dimension that is [not served](Self::dimensions).
    pub fn truncate_embeddings(&self, embeddings: Rows, dimensions: u64) -> Rows {
        let Ok(dimension) = usize::try_from(dimensions) else { return embeddings };
        if dimension >= embeddings.width() || !self.dimensions().any(|allowed| allowed == dimension) {
            return embeddings;
        }
        let mut truncated = Rows::with_capacity(embeddings.len(), dimension);
        for embedding in embeddings.iter() {
            match &self.embedder {
                Embedder::Local(model) => {
                    truncated.push(&model.cut(embedding, dimension).unwrap_or_default())
                }
                Embedder::Onnx(_) | Embedder::Upstream(_) | Embedder::Pseudo(_) => {
                    truncated.push(embedding.get(..dimension).unwrap_or(embedding));
                }
            }
        }
        if !matches!(self.embedder, Embedder::Local(_)) {
            truncated.iter_mut().for_each(l2_normalise);
        }
        truncated
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

    /// Identifies comparable embeddings; excludes prompts.
    pub fn embedder_fingerprint(&self) -> String {
        match &self.embedder {
            Embedder::Local(model) => model.info().fingerprint.clone(),
            Embedder::Onnx(model) => model.fingerprint().to_owned(),
            Embedder::Upstream(upstream) => upstream.fingerprint(),
            Embedder::Pseudo(pseudo) => pseudo.fingerprint(),
        }
    }

    /// The fingerprint of the embedder and the prompt of documents, which every generation of a collection pins.
    pub fn fingerprint(&self) -> String {
        let embedder = self.embedder_fingerprint();
        if self.document_prompt().is_empty() {
            return embedder;
        }
        let prompt = blake3::hash(self.document_prompt().as_bytes()).to_hex();
        format!("{embedder}-{}", &prompt[..16])
    }

    /// Maximum tokens of a text, without special ones.
    pub fn max_tokens(&self) -> usize {
        self.input_tokens_max().map_or(usize::MAX, |tokens| tokens.saturating_sub(SPECIAL_TOKENS))
    }

    /// The byte span of each token of `text`; estimated for an upstream.
    pub fn token_spans(&self, text: &str) -> Vec<Range<usize>> {
        match (&self.embedder, self.tokenizer()) {
            (_, Some(tokenizer)) => tokenizer.token_spans(text),
            (Embedder::Pseudo(pseudo), None) => pseudo.token_spans(text),
            (_, None) => super::estimate::token_spans(text),
        }
    }

    /// Names of its precision and its pooling; `unknown` for an upstream.
    pub fn precision_and_pooling(&self) -> (&'static str, &'static str) {
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
    fn normalising_gives_length_one_and_keeps_zero() {
        let mut embedding = [3.0, 0.0, 4.0];
        l2_normalise(&mut embedding);
        assert_eq!(embedding, [0.6, 0.0, 0.8]);
        let mut zero = [0.0; 3];
        l2_normalise(&mut zero);
        assert_eq!(zero, [0.0; 3]);
    }
}
