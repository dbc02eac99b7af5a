//! The `[[models]]` tables: which models there are.

use std::path::{Path, PathBuf};

use weir_encoder::Precision;

use super::value::Scalar;

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

/// Where a model's embeddings come from. Remote APIs and ONNX files will be further variants.
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
pub(super) const FIELDS: [(&str, &str, &str, &str); 9] = [
    ("id", "text", "required", "The name that callers use; no two models share a name."),
    ("alias", "list of texts", "`[]`", "Other names for it."),
    (
        "kind",
        "`local` or `pseudo`",
        "`\"local\"`",
        "Where its embeddings come from; `pseudo` needs no model and has no meaning. (`remote` and `onnx` are to come.)",
    ),
    ("folder", "folder", "required for `local`", "A model in the Hugging Face layout."),
    (
        "precision",
        "`f32`, `bf16` or `int8`",
        "`inference.precision`",
        "The numbers that it computes with. A collection pins them: another precision is another model to it.",
    ),
    ("dimension", "whole number", "`384`", "The embeddings' length; for `pseudo` alone."),
    (
        "dimensions",
        "list of whole numbers",
        "`[]`",
        "Lengths that embeddings may be cut to, of a model trained for it; empty takes what its files say. For `local` alone.",
    ),
    ("prompts.query", "text", "`\"\"`", "Put in front of queries."),
    ("prompts.document", "text", "`\"\"`", "Put in front of documents."),
];

/// A `[[models]]` table as it was typed: every field optional and untested.
#[derive(Debug, Default)]
pub(super) struct TypedModel {
    pub(super) id: Option<String>,
    pub(super) alias: Vec<String>,
    pub(super) kind: Option<String>,
    pub(super) folder: Option<String>,
    pub(super) precision: Option<String>,
    pub(super) dimension: Option<i64>,
    pub(super) dimensions: Option<Vec<i64>>,
    pub(super) prompts: Prompts,
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
            ModelKind::Local { dimensions, .. } => dimensions,
            ModelKind::Pseudo { .. } => &[],
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
    pub(super) fn resolve(self) -> Result<ModelConfig, Vec<(&'static str, String)>> {
        let mut wrong = Vec::new();
        let id = self.id.clone().unwrap_or_default();
        if id.is_empty() {
            wrong.push(("id", "is missing: give the model a name".to_owned()));
        }
        let kind = match self.kind.as_deref() {
            None | Some("local") => self.resolve_local(&mut wrong),
            Some("pseudo") => self.resolve_pseudo(&mut wrong),
            Some(name @ ("remote" | "onnx")) => {
                wrong.push(("kind", format!("`{name}` is not there yet; accepted now: local, pseudo")));
                None
            }
            Some(name) => {
                wrong.push(("kind", format!("must be one of local, pseudo, not {name:?}")));
                None
            }
        };
        match (kind, wrong.is_empty()) {
            (Some(kind), true) => Ok(ModelConfig { id, alias: self.alias, kind, prompts: self.prompts }),
            (Some(_) | None, _) => Err(wrong),
        }
    }

    fn resolve_local(&self, wrong: &mut Vec<(&'static str, String)>) -> Option<ModelKind> {
        let precision = self.precision.as_deref().map(|name| {
            let parsed = Precision::parse(name);
            if parsed.is_none() {
                wrong.push(("precision", format!("must be one of f32, bf16, int8, not {name:?}")));
            }
            parsed
        });
        if self.dimension.is_some() {
            wrong.push(("dimension", "is for the kind `pseudo` alone: a local model has its own".to_owned()));
        }
        let dimensions = self.resolve_dimensions(wrong);
        match self.folder.as_deref() {
            None | Some("") => {
                wrong.push(("folder", "is missing: name the model's folder".to_owned()));
                None
            }
            Some(folder) => {
                Some(ModelKind::Local { folder: folder.into(), precision: precision.flatten(), dimensions })
            }
        }
    }

    /// How long the longest may be is the model's to say.
    fn resolve_dimensions(&self, wrong: &mut Vec<(&'static str, String)>) -> Vec<usize> {
        let all = self.dimensions.as_deref().unwrap_or_default();
        let dimensions = all.iter().filter_map(|dimension| usize::try_from(*dimension).ok());
        let dimensions: Vec<usize> = dimensions.filter(|dimension| *dimension > 0).collect();
        if dimensions.len() < all.len() {
            wrong.push(("dimensions", "must be whole numbers from 1 to the embedding's length".to_owned()));
        }
        dimensions
    }

    fn resolve_pseudo(&self, wrong: &mut Vec<(&'static str, String)>) -> Option<ModelKind> {
        let given = [
            ("folder", self.folder.is_some()),
            ("precision", self.precision.is_some()),
            ("dimensions", self.dimensions.is_some()),
        ];
        for (field, is_given) in given {
            if is_given {
                wrong.push((field, "has no meaning for the kind `pseudo`: remove it".to_owned()));
            }
        }
        match self.dimension {
            None => Some(ModelKind::Pseudo { dimension: PSEUDO_DIMENSION }),
            Some(dimension) if (1..=4096).contains(&dimension) => {
                usize::try_from(dimension).ok().map(|dimension| ModelKind::Pseudo { dimension })
            }
            Some(dimension) => {
                wrong.push(("dimension", format!("must be a whole number from 1 to 4096, not {dimension}")));
                None
            }
        }
    }
}
