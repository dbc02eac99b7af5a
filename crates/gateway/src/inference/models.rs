//! The models that this gateway serves, by id and alias.

use std::ops::Range;
use std::sync::Arc;

use weir_encoder::Kernels;
use weir_encoder::{LoadError, Model};

use super::pseudo::Pseudo;
use crate::config::{Config, ModelConfig, ModelKind};

/// Where a model's embeddings are made. Remote APIs and ONNX files will be further variants.
#[derive(Clone)]
pub enum Embedder {
    /// In this process, by our encoder.
    Local(Arc<Model>),
    /// By a hash: no model at all.
    Pseudo(Pseudo),
}

/// A model that is ready, with the names that callers use for it.
pub struct LoadedModel {
    /// The id.
    pub id: String,
    /// Other names for it.
    pub alias: Vec<String>,
    /// Where its embeddings are made.
    pub embedder: Embedder,
    /// What is put before queries.
    pub query_prompt: String,
    /// What is put before documents.
    pub document_prompt: String,
    /// When it was loaded, in unix seconds.
    pub loaded_at: u64,
}

/// All models, the default one first.
#[derive(Clone)]
pub struct Models(Arc<[Arc<LoadedModel>]>);

impl Models {
    /// Loads every configured model.
    ///
    /// # Errors
    /// The first model that can't be loaded.
    pub fn load(config: &Config, kernels: &'static Kernels) -> Result<Models, LoadError> {
        let load = |model| LoadedModel::load(model, config, kernels).map(Arc::new);
        Ok(Models(config.models.iter().map(load).collect::<Result<Vec<_>, _>>()?.into()))
    }

    /// Makes what texts of unusual kinds need, so that none of them has to wait for it.
    pub fn warm_up(&self) {
        for model in self.iter() {
            if let Embedder::Local(local) = &model.embedder
                && let Err(error) = local.tokenizer().warm_up()
            {
                tracing::error!(model = model.id, error, "texts beyond plain English can't be read");
            }
        }
    }

    /// The model that is meant when none is named.
    pub fn default_model(&self) -> Option<&Arc<LoadedModel>> {
        self.0.first()
    }

    /// The model with this id or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<LoadedModel>> {
        self.0.iter().find(|model| model.id == name || model.alias.iter().any(|alias| alias == name))
    }

    /// Every model.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LoadedModel>> {
        self.0.iter()
    }
}

impl LoadedModel {
    fn load(
        model: &ModelConfig,
        config: &Config,
        kernels: &'static Kernels,
    ) -> Result<LoadedModel, LoadError> {
        let embedder = match &model.kind {
            ModelKind::Local { folder, precision, dimensions } => {
                let precision = precision.unwrap_or(config.inference.precision);
                let mut loaded = Model::load(folder, precision, kernels, Some(&config.packed_dir()))?;
                if !dimensions.is_empty() {
                    loaded = loaded.with_dimensions(dimensions)?;
                }
                if let Some(error) = loaded.cache_error() {
                    tracing::warn!(model = model.id, %error, "packed weights could not be kept; every start packs them anew");
                }
                Embedder::Local(Arc::new(loaded))
            }
            ModelKind::Pseudo { dimension } => Embedder::Pseudo(Pseudo { dimension: *dimension }),
        };
        let own = match &embedder {
            Embedder::Local(model) => model.info().prompts.clone(),
            Embedder::Pseudo(_) => weir_encoder::Prompts::default(),
        };
        // what the configuration says wins over the model's own files
        let choose = |said: &String, own: String| if said.is_empty() { own } else { said.clone() };
        Ok(LoadedModel {
            id: model.id.clone(),
            alias: model.alias.clone(),
            query_prompt: choose(&model.prompts.query, own.query),
            document_prompt: choose(&model.prompts.document, own.document),
            embedder,
            loaded_at: crate::clock::now() as u64,
        })
    }

    /// Floats of an embedding.
    pub fn dimension(&self) -> usize {
        match &self.embedder {
            Embedder::Local(model) => model.info().dimension,
            Embedder::Pseudo(pseudo) => pseudo.dimension,
        }
    }

    /// Whether embeddings may be asked for with this many floats: their own number, or one that the model was trained for.
    pub fn dimensions_allowed(&self, dimensions: u64) -> bool {
        let is_trained_for = |model: &Model| model.info().dimensions.iter().any(|&d| d as u64 == dimensions);
        dimensions == self.dimension() as u64
            || matches!(&self.embedder, Embedder::Local(model) if is_trained_for(model))
    }

    /// The first floats of an embedding as an embedding of its own; the whole one where that is not allowed.
    pub fn cut(&self, embedding: Vec<f32>, dimensions: u64) -> Vec<f32> {
        let cut = match (&self.embedder, usize::try_from(dimensions)) {
            (Embedder::Local(model), Ok(dimensions)) if dimensions < embedding.len() => {
                model.cut(&embedding, dimensions)
            }
            (Embedder::Local(_) | Embedder::Pseudo(_), _) => None,
        };
        cut.unwrap_or(embedding)
    }

    /// Whether every embedding has length one.
    pub fn is_normalised(&self) -> bool {
        match &self.embedder {
            Embedder::Local(model) => model.info().normalise,
            Embedder::Pseudo(_) => true,
        }
    }

    /// What every generation of a collection pins: the embedder's fingerprint and the prompts of documents.
    pub fn fingerprint(&self) -> String {
        let own = match &self.embedder {
            Embedder::Local(model) => model.info().fingerprint.clone(),
            Embedder::Pseudo(pseudo) => pseudo.fingerprint(),
        };
        if self.document_prompt.is_empty() {
            return own;
        }
        let prompt = weir_text::text_hash(&self.document_prompt);
        let prompt: String = prompt[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{own}-{prompt}")
    }

    /// Tokens of a text that count, without special ones.
    pub fn max_tokens(&self) -> usize {
        match &self.embedder {
            Embedder::Local(model) => model.info().max_tokens.saturating_sub(2),
            Embedder::Pseudo(_) => usize::MAX,
        }
    }

    /// The byte span of each token of `text`.
    pub fn token_spans(&self, text: &str) -> Vec<Range<usize>> {
        match &self.embedder {
            Embedder::Local(model) => model.tokenizer().token_spans(text),
            Embedder::Pseudo(pseudo) => pseudo.token_spans(text),
        }
    }
}
