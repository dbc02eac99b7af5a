//! The `[[models]]` tables.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::secret::ApiKey;
use crate::upstream::{EMBED, FieldError, Protocol, RERANK, RawUpstream, UpstreamConfig};
use crate::value::{Precision, Scalar, SettingValue};

/// One model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// The name in requests.
    pub id: String,
    /// Other names for it.
    pub alias: Vec<String>,
    /// The implementation that computes its embeddings or scores.
    pub kind: ModelKind,
    /// Prefixes of texts.
    pub prompts: Prompts,
    /// The vocabulary by which token ids in requests become texts.
    pub decode_token_ids: Option<PathBuf>,
}

/// The implementation that computes the embeddings or scores of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelKind {
    /// A folder in the Hugging Face layout, run on this machine.
    Local {
        /// The folder.
        folder: PathBuf,
        /// `None` is `inference.precision`.
        precision: Option<Precision>,
        /// Dimensions that its embeddings may be truncated to; empty: those in its files.
        dimensions: Vec<usize>,
    },
    /// A folder in the Hugging Face layout with an ONNX file, run by ONNX Runtime.
    Onnx {
        /// The folder.
        folder: PathBuf,
        /// Dimensions that its embeddings may be truncated to; empty: those in its files.
        dimensions: Vec<usize>,
    },
    /// A server that embeds or reranks.
    Upstream(Box<UpstreamConfig>),
    /// Deterministic embeddings of a hash of the text, without a model or meaning, for development and load tests.
    Pseudo {
        /// The length of an embedding.
        dimension: usize,
    },
}

/// Prefixes that a model expects before texts; empty for most models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompts {
    /// Prefix of queries.
    pub query: String,
    /// Prefix of documents.
    pub document: String,
}

/// Whether the model in a folder is a reranker; `None` if its files can't be read. A callback, because this crate opens no model.
pub type Reranks<'a> = &'a dyn Fn(&Path) -> Option<bool>;

/// The default dimension of the pseudo model: that of the default model.
pub(super) const PSEUDO_DIMENSION: usize = 384;

/// The folder that is used when no embedding model is configured, if it exists.
pub(super) const DEFAULT_FOLDER: &str = "models/all-MiniLM-L6-v2";

/// The fields of a `[[models]]` table, for the docs and for messages: name, type, default, description.
pub(super) const FIELDS: [(&str, &str, &str, &str); 21] = [
    ("id", "text", "required", "The name in requests; unique among all ids and aliases."),
    ("alias", "list of texts", "`[]`", "Other names."),
    (
        "kind",
        "`local`, `onnx`, `weir`, `openai`, `tei`, `texts`, `cohere` or `pseudo`",
        "`\"local\"`",
        "How embeddings or scores are computed: by Weir's encoder, an ONNX file, another gateway, a server with the API of OpenAI, TEI \
         or Cohere or that answers `{\"texts\": […]}` by `{\"embeddings\": […]}`, or a hash of the text, without a model or meaning. [Models](models.md) has an example of each.",
    ),
    (
        "task",
        "`embed` or `rerank`",
        "`\"embed\"`, for `cohere` `\"rerank\"`",
        "The task of an upstream's model, for `tei` and `cohere`. The task of a `local` model is read from its files.",
    ),
    ("folder", "folder", "required for `local` and `onnx`", "A model in the Hugging Face layout."),
    (
        "precision",
        "`f32`, `bf16` or `int8`",
        "`inference.precision`",
        "Precision of a `local` model. A collection pins it: with another precision it is a different model.",
    ),
    (
        "dimension",
        "whole number",
        "`384` for `pseudo`",
        "Length of an embedding, for `pseudo`, `openai`, `tei` and `texts`. Without it, the upstream is asked once and the answer is saved in \
         `server.data_dir`.",
    ),
    (
        "dimensions",
        "list of whole numbers",
        "`[]`",
        "Dimensions that embeddings may be truncated to, for models trained for it; empty: those in the model's files. Not for `pseudo`.",
    ),
    (
        "url",
        "URL",
        "required for upstreams",
        "Base URL of the upstream; `/embeddings`, `/embed` or `/rerank` is appended, for `weir` `/v1/embeddings`.",
    ),
    (
        "model",
        "text",
        "required for `openai` and `cohere`",
        "The upstream's name of the model; for `weir` its default model if there is none. It is not sent to TEI, which serves one model; there it only distinguishes models at the same URL.",
    ),
    (
        "api_key",
        "`env:NAME` or `file:PATH`",
        "none",
        "Where to read the upstream's API key: an environment variable, or a file that contains only the key. It is never shown.",
    ),
    (
        "ca_file",
        "file",
        "none",
        "PEM file with certificates that are trusted for an `https` address beside those of Mozilla's list: of authorities, or that of the server itself.",
    ),
    ("normalize", "true or false", "`true`", "Normalise the upstream's embeddings to length one."),
    (
        "texts_per_request_max",
        "texts",
        "`128`, for `tei` and `texts` `32`",
        "Maximum texts in one request to the upstream.",
    ),
    (
        "bytes_per_request_max",
        "bytes",
        "`262144`",
        "Maximum bytes of all texts in one request to the upstream; a longer text is sent alone.",
    ),
    (
        "concurrent_requests_max",
        "requests",
        "`8`, for `weir` `64`",
        "Maximum requests to the upstream at the same time. Bulk work leaves one of them to interactive requests.",
    ),
    ("timeout_ms", "milliseconds", "`10000`", "Time limit of one request to the upstream."),
    (
        "retries_max",
        "retries",
        "`3`",
        "Maximum retries of a request that failed with a transient error, within a budget: a small share of all requests.",
    ),
    ("prompts.query", "text", "`\"\"`", "Prefix of queries."),
    ("prompts.document", "text", "`\"\"`", "Prefix of documents."),
    (
        "decode_token_ids",
        "file",
        "none",
        "A vocabulary such as `cl100k_base.tiktoken`, by which `/v1/embeddings` turns token ids into texts; without it they are refused, because \
         they are those of another tokenizer. Not for rerankers.",
    ),
];

/// Fields of every upstream.
const UPSTREAM_FIELDS: &[&str] = &[
    "url",
    "model",
    "api_key",
    "ca_file",
    "texts_per_request_max",
    "bytes_per_request_max",
    "concurrent_requests_max",
    "timeout_ms",
    "retries_max",
];
/// Further fields of upstreams that embed.
const EMBEDDING_UPSTREAM_FIELDS: &[&str] = &["dimension", "dimensions", "normalize"];

/// Fields of every kind; the last one not of rerankers.
const COMMON_FIELDS: [&str; 5] = ["id", "alias", "kind", "prompts", "decode_token_ids"];

/// Upper bound of `dimension`.
const DIMENSION_MAX: i64 = 16_384;

/// A `[[models]]` table before validation.
#[derive(Debug, Default)]
pub(super) struct RawModel {
    pub(super) id: Option<String>,
    pub(super) alias: Vec<String>,
    pub(super) kind: Option<String>,
    pub(super) folder: Option<String>,
    pub(super) precision: Option<String>,
    pub(super) task: Option<String>,
    pub(super) dimension: Option<i64>,
    pub(super) dimensions: Option<Vec<i64>>,
    pub(super) prompts: Prompts,
    pub(super) decode_token_ids: Option<String>,
    pub(super) upstream: RawUpstream,
}

impl ModelConfig {
    /// The model of a `--model` flag: a folder, or `pseudo`.
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

    /// The model of `--embedder-url` or a variable: that of another server.
    ///
    /// # Errors
    /// A message about the URL, which continues a sentence.
    pub(super) fn from_embedder_url(url: &str, protocol: Protocol) -> Result<ModelConfig, String> {
        let mut errors = Vec::new();
        let raw = RawUpstream { url: Some(url.to_owned()), ..RawUpstream::default() };
        let upstream = raw.resolve(protocol, None, Vec::new(), &mut errors);
        match errors.into_iter().next() {
            Some((_, message)) => Err(message),
            None => Ok(ModelConfig::new("embedder".to_owned(), ModelKind::Upstream(Box::new(upstream)))),
        }
    }

    fn new(id: String, kind: ModelKind) -> ModelConfig {
        ModelConfig { id, alias: Vec::new(), kind, prompts: Prompts::default(), decode_token_ids: None }
    }

    /// The id and every alias.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.id.as_str()).chain(self.alias.iter().map(String::as_str))
    }

    /// Configured dimensions that its embeddings may be truncated to.
    pub fn dimensions(&self) -> &[usize] {
        match &self.kind {
            ModelKind::Local { dimensions, .. } | ModelKind::Onnx { dimensions, .. } => dimensions,
            ModelKind::Upstream(upstream) => &upstream.dimensions,
            ModelKind::Pseudo { .. } => &[],
        }
    }

    /// Whether the configuration makes it a reranker.
    pub(super) fn is_reranking(&self) -> bool {
        matches!(&self.kind, ModelKind::Upstream(upstream) if upstream.protocol.is_reranking())
    }

    /// Whether it is a reranker, for a local model by its files; `None` if they can't be read.
    pub(super) fn reranks(&self, reranks: Reranks<'_>) -> Option<bool> {
        match &self.kind {
            ModelKind::Local { folder, .. } => reranks(folder),
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

    /// The fields with a single value, as in a file.
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
        let file = self.decode_token_ids.as_ref();
        fields.extend(file.map(|file| ("decode_token_ids", text(&file.display().to_string()))));
        fields
    }
}

impl RawModel {
    /// Validates the fields; `is_given` returns whether a field is in the table.
    pub(super) fn resolve(mut self, is_given: impl Fn(&str) -> bool) -> Result<ModelConfig, Vec<FieldError>> {
        let mut errors = Vec::new();
        let id = self.id.clone().unwrap_or_default();
        if id.is_empty() {
            errors.push(("id", "is missing: give the model a name".to_owned()));
        }
        let kind = self.kind.take().unwrap_or_else(|| "local".to_owned());
        let is_reranking = self.resolve_task(&kind, &mut errors);
        let allowed: &[&[&str]] = match kind.as_str() {
            "local" => &[&["folder", "precision", "dimensions"]],
            "onnx" => &[&["folder", "dimensions"]],
            "openai" => &[UPSTREAM_FIELDS, EMBEDDING_UPSTREAM_FIELDS],
            "tei" if is_reranking => &[UPSTREAM_FIELDS, &["task"]],
            "tei" => &[UPSTREAM_FIELDS, EMBEDDING_UPSTREAM_FIELDS, &["task"]],
            "weir" => &[UPSTREAM_FIELDS],
            "texts" => &[UPSTREAM_FIELDS, EMBEDDING_UPSTREAM_FIELDS],
            "cohere" => &[UPSTREAM_FIELDS, &["task"]],
            "pseudo" => &[&["dimension"]],
            _ => {
                let kinds = "local, onnx, weir, openai, tei, texts, cohere, pseudo";
                errors.push(("kind", format!("must be one of {kinds}, not {kind:?}")));
                return Err(errors);
            }
        };
        let common = &COMMON_FIELDS[..COMMON_FIELDS.len() - usize::from(is_reranking)];
        let allowed = [allowed.concat(), common.to_vec()].concat();
        for (field, ..) in FIELDS.iter().filter(|(field, ..)| is_given(field) && !allowed.contains(field)) {
            let subject = if is_reranking { "a reranker".to_owned() } else { format!("the kind `{kind}`") };
            errors.push((*field, format!("is not a field of {subject}: remove it")));
        }
        let (alias, prompts) = (std::mem::take(&mut self.alias), std::mem::take(&mut self.prompts));
        let decode_token_ids = self.decode_token_ids.take().map(PathBuf::from);
        let kind = match kind.as_str() {
            "onnx" => ModelKind::Onnx {
                folder: self.resolve_folder(&mut errors),
                dimensions: self.resolve_dimensions(&mut errors),
            },
            "openai" => self.resolve_upstream(Protocol::OpenAi, &mut errors),
            "tei" if is_reranking => self.resolve_upstream(Protocol::TeiRerank, &mut errors),
            "tei" => self.resolve_upstream(Protocol::Tei, &mut errors),
            "weir" => self.resolve_upstream(Protocol::Weir, &mut errors),
            "texts" => self.resolve_upstream(Protocol::Texts, &mut errors),
            "cohere" => self.resolve_upstream(Protocol::Cohere, &mut errors),
            "pseudo" => {
                let dimension = self.resolve_dimension(&mut errors).unwrap_or(PSEUDO_DIMENSION);
                ModelKind::Pseudo { dimension }
            }
            _ => ModelKind::Local {
                precision: self.resolve_precision(&mut errors),
                dimensions: self.resolve_dimensions(&mut errors),
                folder: self.resolve_folder(&mut errors),
            },
        };
        if errors.is_empty() {
            Ok(ModelConfig { id, alias, kind, prompts, decode_token_ids })
        } else {
            Err(errors)
        }
    }

    /// Whether a model of this kind is a reranker.
    fn resolve_task(&self, kind: &str, errors: &mut Vec<FieldError>) -> bool {
        let is_cohere = kind == "cohere";
        match self.task.as_deref() {
            None => is_cohere,
            Some(RERANK) => true,
            Some(EMBED) if is_cohere => {
                let message = "must be \"rerank\" for the kind `cohere`";
                errors.push(("task", message.to_owned()));
                true
            }
            Some(EMBED) => false,
            Some(other) => {
                errors.push(("task", format!("must be one of {EMBED}, {RERANK}, not {other:?}")));
                is_cohere
            }
        }
    }

    fn resolve_precision(&self, errors: &mut Vec<FieldError>) -> Option<Precision> {
        let name = Scalar::Text(self.precision.clone()?);
        Precision::read(&name, &(0.0..=0.0)).map_err(|message| errors.push(("precision", message))).ok()
    }

    fn resolve_folder(&self, errors: &mut Vec<FieldError>) -> PathBuf {
        let folder = self.folder.as_deref().unwrap_or_default();
        if folder.is_empty() {
            errors.push(("folder", "is missing: name the model's folder".to_owned()));
        }
        folder.into()
    }

    fn resolve_upstream(mut self, protocol: Protocol, errors: &mut Vec<FieldError>) -> ModelKind {
        let dimension = self.resolve_dimension(errors);
        let dimensions = self.resolve_dimensions(errors);
        let raw = std::mem::take(&mut self.upstream);
        ModelKind::Upstream(Box::new(raw.resolve(protocol, dimension, dimensions, errors)))
    }

    /// The upper bound is checked when the model is loaded.
    fn resolve_dimensions(&self, errors: &mut Vec<FieldError>) -> Vec<usize> {
        let all = self.dimensions.as_deref().unwrap_or_default();
        let dimensions = all.iter().filter_map(|dimension| usize::try_from(*dimension).ok());
        let dimensions: Vec<usize> = dimensions.filter(|dimension| *dimension > 0).collect();
        if dimensions.len() < all.len() {
            errors.push(("dimensions", "must be whole numbers from 1 to the embedding's length".to_owned()));
        }
        dimensions
    }

    fn resolve_dimension(&self, errors: &mut Vec<FieldError>) -> Option<usize> {
        let dimension = self.dimension?;
        if !(1..=DIMENSION_MAX).contains(&dimension) {
            let message = format!("must be a whole number from 1 to {DIMENSION_MAX}, not {dimension}");
            errors.push(("dimension", message));
        }
        usize::try_from(dimension).ok()
    }
}
