//! The `[[models]]` tables: which models there are.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::secret::ApiKey;
use crate::upstream::{EMBED, Protocol, RERANK, TypedUpstream, UpstreamConfig, Wrong};
use crate::value::{Precision, Scalar};

/// One model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// The name that callers use.
    pub id: String,
    /// Other names for it.
    pub alias: Vec<String>,
    /// Where its embeddings come from.
    pub kind: ModelKind,
    /// What is put in front of texts.
    pub prompts: Prompts,
}

/// Where a model's embeddings come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelKind {
    /// A folder in the Hugging Face layout, run on this machine.
    Local {
        /// The folder.
        folder: PathBuf,
        /// The numbers that it computes with; `None` takes `inference.precision`.
        precision: Option<Precision>,
        /// Lengths that its embeddings may be cut to; empty takes what its files say.
        dimensions: Vec<usize>,
    },
    /// A folder in the Hugging Face layout with the network as an ONNX file, run by ONNX Runtime.
    Onnx {
        /// The folder.
        folder: PathBuf,
        /// Lengths that its embeddings may be cut to; empty takes what its files say.
        dimensions: Vec<usize>,
    },
    /// A server that embeds or reranks.
    Upstream(Box<UpstreamConfig>),
    /// Embeddings made from a hash of the text: no model, no meaning, always the same. For development and load tests.
    Pseudo {
        /// The embeddings' length.
        dimension: usize,
    },
}

/// Texts that a model wants in front of what it embeds; empty for most.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompts {
    /// In front of queries.
    pub query: String,
    /// In front of documents.
    pub document: String,
}

/// The length of pseudo-embeddings when none is given: that of the default model.
pub(super) const PSEUDO_DIMENSION: usize = 384;

/// The folder that is used when no model is configured, if it is there.
pub(super) const DEFAULT_FOLDER: &str = "models/all-MiniLM-L6-v2";

/// One row per field of a `[[models]]` table, for the docs and for messages: name, type, default, what it does.
pub(super) const FIELDS: [(&str, &str, &str, &str); 19] = [
    ("id", "text", "required", "The name that callers use; no two models share a name."),
    ("alias", "list of texts", "`[]`", "Other names for it."),
    (
        "kind",
        "`local`, `onnx`, `openai`, `tei`, `cohere` or `pseudo`",
        "`\"local\"`",
        "Where its embeddings or scores come from: the encoder of Weir, an ONNX file, a server that speaks OpenAI's API, TEI's or Cohere's, \
         or a hash of the text, which needs no model and has no meaning. [Models](models.md) has an example of each.",
    ),
    (
        "task",
        "`embed` or `rerank`",
        "`\"embed\"`, for `cohere` `\"rerank\"`",
        "What an upstream's model is for; for `tei` and `cohere`. Of `local` models their own files say it.",
    ),
    ("folder", "folder", "required for `local` and `onnx`", "A model in the Hugging Face layout."),
    (
        "precision",
        "`f32`, `bf16` or `int8`",
        "`inference.precision`",
        "The numbers that it computes with. A collection pins them: another precision is another model to it. For `local` alone.",
    ),
    (
        "dimension",
        "whole number",
        "`384` for `pseudo`",
        "The embeddings' length; for `pseudo`, `openai` and `tei`. Where it is absent, the upstream is asked once and the answer is kept \
         in `server.data_dir`.",
    ),
    (
        "dimensions",
        "list of whole numbers",
        "`[]`",
        "Lengths that embeddings may be cut to, of a model trained for it; empty takes what its files say. Not for `pseudo`.",
    ),
    (
        "url",
        "URL",
        "required for `openai`, `tei` and `cohere`",
        "Where the upstream is: `/embeddings`, `/embed` or `/rerank` is put behind it.",
    ),
    (
        "model",
        "text",
        "required for `openai` and `cohere`",
        "The upstream's name for the model. TEI has one model and is not sent it: there it only tells this model from another at the same \
         address.",
    ),
    (
        "api_key",
        "`env:NAME` or `file:PATH`",
        "none",
        "Where the upstream's key stands: an environment variable, or a file with nothing else in it. It is never shown.",
    ),
    ("normalize", "true or false", "`true`", "Whether an upstream's embeddings are brought to length one."),
    ("texts_per_request_max", "texts", "`128`, for `tei` `32`", "Texts in one request to the upstream."),
    (
        "bytes_per_request_max",
        "bytes",
        "`262144`",
        "Bytes of all texts in one request to the upstream; a longer text is sent alone.",
    ),
    (
        "concurrent_requests_max",
        "requests",
        "`8`",
        "Requests to the upstream at one instant. Bulk work leaves one of them to callers who wait.",
    ),
    ("timeout_ms", "milliseconds", "`10000`", "How long one request to the upstream may take."),
    (
        "retries_max",
        "retries",
        "`3`",
        "How often a request that failed in passing is sent again, as long as retries are few among all requests.",
    ),
    ("prompts.query", "text", "`\"\"`", "Put in front of queries."),
    ("prompts.document", "text", "`\"\"`", "Put in front of documents."),
];

/// Fields that every upstream has, and those that only one that embeds has.
const UPSTREAM: &[&str] = &[
    "url",
    "model",
    "api_key",
    "texts_per_request_max",
    "bytes_per_request_max",
    "concurrent_requests_max",
    "timeout_ms",
    "retries_max",
];
const EMBEDDING_UPSTREAM: &[&str] = &["dimension", "dimensions", "normalize"];

/// Fields that every kind has.
const EVERYWHERE: [&str; 4] = ["id", "alias", "kind", "prompts"];

/// The longest embedding that the configuration may name.
const DIMENSION_MAX: i64 = 16_384;

/// A `[[models]]` table as it was typed: every field optional and untested.
#[derive(Debug, Default)]
pub(super) struct TypedModel {
    pub(super) id: Option<String>,
    pub(super) alias: Vec<String>,
    pub(super) kind: Option<String>,
    pub(super) folder: Option<String>,
    pub(super) precision: Option<String>,
    pub(super) task: Option<String>,
    pub(super) dimension: Option<i64>,
    pub(super) dimensions: Option<Vec<i64>>,
    pub(super) prompts: Prompts,
    pub(super) upstream: TypedUpstream,
}

impl ModelConfig {
    /// The model that `--model` names: a folder, or `pseudo`.
    pub(super) fn from_argument(argument: &str) -> ModelConfig {
        if argument == "pseudo" {
            return ModelConfig::new("pseudo".to_owned(), ModelKind::Pseudo { dimension: PSEUDO_DIMENSION });
        }
        let folder = Path::new(argument);
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let id = name.unwrap_or_else(|| "default".to_owned());
        ModelConfig::new(
            id,
            ModelKind::Local { folder: folder.to_owned(), precision: None, dimensions: Vec::new() },
        )
    }

    fn new(id: String, kind: ModelKind) -> ModelConfig {
        ModelConfig { id, alias: Vec::new(), kind, prompts: Prompts::default() }
    }

    /// The id and every alias.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.id.as_str()).chain(self.alias.iter().map(String::as_str))
    }

    /// Lengths that its embeddings may be cut to, as far as the configuration says.
    pub fn dimensions(&self) -> &[usize] {
        match &self.kind {
            ModelKind::Local { dimensions, .. } | ModelKind::Onnx { dimensions, .. } => dimensions,
            ModelKind::Upstream(upstream) => &upstream.dimensions,
            ModelKind::Pseudo { .. } => &[],
        }
    }

    /// Whether it is known to rerank, and so makes no embeddings; of a local model only its files tell.
    pub(super) fn is_reranking(&self) -> bool {
        matches!(&self.kind, ModelKind::Upstream(upstream) if upstream.protocol.is_reranking())
    }

    /// Whether it reranks, where the configuration says so; the kind of a local model is in its files.
    pub(super) fn reranks(&self) -> Option<bool> {
        match &self.kind {
            ModelKind::Local { .. } => None,
            ModelKind::Upstream(_) => Some(self.is_reranking()),
            ModelKind::Onnx { .. } | ModelKind::Pseudo { .. } => Some(false),
        }
    }

    /// The key of its upstream.
    pub fn api_key(&self) -> Option<&ApiKey> {
        match &self.kind {
            ModelKind::Upstream(upstream) => upstream.api_key.as_ref(),
            ModelKind::Local { .. } | ModelKind::Onnx { .. } | ModelKind::Pseudo { .. } => None,
        }
    }

    /// Reads the key of its upstream.
    pub(super) fn read_key(&mut self, environment: &Environment) {
        if let ModelKind::Upstream(upstream) = &mut self.kind
            && let Some(key) = &mut upstream.api_key
        {
            key.read(environment);
        }
    }

    /// The fields of one value as they would be written in a file, without those that have no meaning for the kind.
    pub fn fields(&self) -> Vec<(&'static str, Scalar)> {
        let text = |value: &str| Scalar::Text(value.to_owned());
        let mut fields = vec![("id", text(&self.id))];
        match &self.kind {
            ModelKind::Local { folder, precision, .. } => {
                fields.push(("kind", text("local")));
                fields.push(("folder", text(&folder.display().to_string())));
                fields.extend(precision.map(|precision| ("precision", text(precision.name()))));
            }
            ModelKind::Onnx { folder, .. } => {
                fields.push(("kind", text("onnx")));
                fields.push(("folder", text(&folder.display().to_string())));
            }
            ModelKind::Upstream(upstream) => fields.extend(upstream.fields()),
            ModelKind::Pseudo { dimension } => {
                fields.push(("kind", text("pseudo")));
                fields.push(("dimension", Scalar::Integer(i64::try_from(*dimension).unwrap_or(i64::MAX))));
            }
        }
        fields
    }
}

impl TypedModel {
    /// What was typed becomes what is meant, or a list of what is wrong: `(field, message)`.
    pub(super) fn resolve(mut self) -> Result<ModelConfig, Vec<Wrong>> {
        let mut wrong = Vec::new();
        let id = self.id.clone().unwrap_or_default();
        if id.is_empty() {
            wrong.push(("id", "is missing: give the model a name".to_owned()));
        }
        let kind = self.kind.take().unwrap_or_else(|| "local".to_owned());
        let is_reranking = self.resolve_task(&kind, &mut wrong);
        let takes: &[&[&str]] = match kind.as_str() {
            "local" => &[&["folder", "precision", "dimensions"]],
            "onnx" => &[&["folder", "dimensions"]],
            "openai" => &[UPSTREAM, EMBEDDING_UPSTREAM],
            "tei" if is_reranking => &[UPSTREAM, &["task"]],
            "tei" => &[UPSTREAM, EMBEDDING_UPSTREAM, &["task"]],
            "cohere" => &[UPSTREAM, &["task"]],
            "pseudo" => &[&["dimension"]],
            _ => {
                let kinds = "local, onnx, openai, tei, cohere, pseudo";
                wrong.push(("kind", format!("must be one of {kinds}, not {kind:?}")));
                return Err(wrong);
            }
        };
        for field in self.given() {
            if takes.concat().contains(&field) || EVERYWHERE.contains(&field) {
                continue;
            }
            let what =
                if is_reranking { "a model that reranks".to_owned() } else { format!("the kind `{kind}`") };
            wrong.push((field, format!("has no meaning for {what}: remove it")));
        }
        let (alias, prompts) = (std::mem::take(&mut self.alias), std::mem::take(&mut self.prompts));
        let kind = match kind.as_str() {
            "onnx" => ModelKind::Onnx {
                folder: self.resolve_folder(&mut wrong),
                dimensions: self.resolve_dimensions(&mut wrong),
            },
            "openai" => self.resolve_upstream(Protocol::OpenAi, &mut wrong),
            "tei" if is_reranking => self.resolve_upstream(Protocol::TeiRerank, &mut wrong),
            "tei" => self.resolve_upstream(Protocol::Tei, &mut wrong),
            "cohere" => self.resolve_upstream(Protocol::Cohere, &mut wrong),
            "pseudo" => {
                let dimension = self.resolve_dimension(&mut wrong).unwrap_or(PSEUDO_DIMENSION);
                ModelKind::Pseudo { dimension }
            }
            _ => ModelKind::Local {
                precision: self.resolve_precision(&mut wrong),
                dimensions: self.resolve_dimensions(&mut wrong),
                folder: self.resolve_folder(&mut wrong),
            },
        };
        if wrong.is_empty() { Ok(ModelConfig { id, alias, kind, prompts }) } else { Err(wrong) }
    }

    /// The names of the fields that were typed and that not every kind has.
    fn given(&self) -> Vec<&'static str> {
        let own = [
            ("folder", self.folder.is_some()),
            ("precision", self.precision.is_some()),
            ("task", self.task.is_some()),
            ("dimension", self.dimension.is_some()),
            ("dimensions", self.dimensions.is_some()),
        ];
        let own = own.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
        own.chain(self.upstream.given()).collect()
    }

    /// Whether a model of this kind reranks.
    fn resolve_task(&self, kind: &str, wrong: &mut Vec<Wrong>) -> bool {
        let is_cohere = kind == "cohere";
        match self.task.as_deref() {
            None => is_cohere,
            Some(RERANK) => true,
            Some(EMBED) if is_cohere => {
                let message = "must be \"rerank\" for the kind `cohere`";
                wrong.push(("task", message.to_owned()));
                true
            }
            Some(EMBED) => false,
            Some(other) => {
                wrong.push(("task", format!("must be one of {EMBED}, {RERANK}, not {other:?}")));
                is_cohere
            }
        }
    }

    fn resolve_precision(&self, wrong: &mut Vec<Wrong>) -> Option<Precision> {
        let name = self.precision.as_deref()?;
        let parsed = Precision::parse(name);
        if parsed.is_none() {
            wrong.push(("precision", format!("must be one of f32, bf16, int8, not {name:?}")));
        }
        parsed
    }

    fn resolve_folder(&self, wrong: &mut Vec<Wrong>) -> PathBuf {
        let folder = self.folder.as_deref().unwrap_or_default();
        if folder.is_empty() {
            wrong.push(("folder", "is missing: name the model's folder".to_owned()));
        }
        folder.into()
    }

    fn resolve_upstream(mut self, protocol: Protocol, wrong: &mut Vec<Wrong>) -> ModelKind {
        let dimension = self.resolve_dimension(wrong);
        let dimensions = self.resolve_dimensions(wrong);
        let typed = std::mem::take(&mut self.upstream);
        ModelKind::Upstream(Box::new(typed.resolve(protocol, dimension, dimensions, wrong)))
    }

    /// How long the longest may be is the model's to say.
    fn resolve_dimensions(&self, wrong: &mut Vec<Wrong>) -> Vec<usize> {
        let all = self.dimensions.as_deref().unwrap_or_default();
        let dimensions = all.iter().filter_map(|dimension| usize::try_from(*dimension).ok());
        let dimensions: Vec<usize> = dimensions.filter(|dimension| *dimension > 0).collect();
        if dimensions.len() < all.len() {
            wrong.push(("dimensions", "must be whole numbers from 1 to the embedding's length".to_owned()));
        }
        dimensions
    }

    fn resolve_dimension(&self, wrong: &mut Vec<Wrong>) -> Option<usize> {
        let dimension = self.dimension?;
        if !(1..=DIMENSION_MAX).contains(&dimension) {
            let message = format!("must be a whole number from 1 to {DIMENSION_MAX}, not {dimension}");
            wrong.push(("dimension", message));
        }
        usize::try_from(dimension).ok()
    }
}
