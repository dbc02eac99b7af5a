//! The files of the sentence-transformers layout: pooling, normalisation, prompts and dimensions.

use std::path::Path;

use serde::Deserialize;

use super::optional;
use crate::LoadError;

/// How token vectors are combined into one vector of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The vector of the first token.
    Cls,
    /// The maximum over all tokens, for each component.
    Max,
    /// The sum over all tokens, divided by the square root of their number.
    MeanSqrtLen,
    /// The vector of the last token.
    LastToken,
}

impl Pooling {
    /// Every kind of pooling.
    pub const ALL: [Pooling; 5] =
        [Pooling::Mean, Pooling::Cls, Pooling::Max, Pooling::MeanSqrtLen, Pooling::LastToken];

    /// The name in model files, documentation and `weir model info`.
    pub fn name(self) -> &'static str {
        match self {
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
            Pooling::Max => "max",
            Pooling::MeanSqrtLen => "mean_sqrt_len_tokens",
            Pooling::LastToken => "lasttoken",
        }
    }
}

/// Prefixes of texts by role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// Prefix of queries.
    pub query: String,
    /// Prefix of documents.
    pub document: String,
}

/// Settings of these files.
pub(super) struct SentenceTransformers {
    pub(super) pooling: Pooling,
    pub(super) normalise: bool,
    pub(super) prompts: Prompts,
    /// Dimensions that embeddings were trained to be cut to.
    pub(super) dimensions: Vec<usize>,
}

/// `sentence_bert_config.json`
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SentenceBertFile {
    pub(super) max_seq_length: Option<usize>,
    pub(super) do_lower_case: bool,
}

/// A row of `modules.json`.
#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    path: String,
}

/// `1_Pooling/config.json`: one format has a flag for each kind of pooling, another has its name.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolingFile {
    pooling_mode: Option<OneOrMany>,
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
    #[serde(alias = "word_embedding_dimension")]
    embedding_dimension: Option<usize>,
    include_prompt: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// `config_sentence_transformers.json`
#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptFile {
    prompts: std::collections::BTreeMap<String, Option<String>>,
    default_prompt_name: Option<String>,
    truncate_dim: Option<usize>,
    matryoshka_dimensions: Vec<usize>,
}

const POOLING_FOLDER: &str = "1_Pooling";

/// Names of the prompts of each role; the first existing one is used.
const QUERY_PROMPTS: [&str; 1] = ["query"];
const DOCUMENT_PROMPTS: [&str; 3] = ["document", "passage", "corpus"];

impl SentenceTransformers {
    /// Reads the files of `folder`, a model whose token vectors have `width` floats.
    pub(super) fn load(folder: &Path, width: usize) -> Result<SentenceTransformers, LoadError> {
        let normalise = normalises(&folder.join("modules.json"))?;
        let path = folder.join(POOLING_FOLDER).join("config.json");
        let pooling = match optional::<PoolingFile>(&path)? {
            Some(file) => file.resolve(&path, width)?,
            None => Pooling::Mean,
        };
        let file: PromptFile =
            optional(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
        let prompts =
            Prompts { query: file.prompt(&QUERY_PROMPTS), document: file.prompt(&DOCUMENT_PROMPTS) };
        let mut dimensions = file.matryoshka_dimensions;
        dimensions.extend(file.truncate_dim);
        Ok(SentenceTransformers { pooling, normalise, prompts, dimensions })
    }
}

/// Whether the last module is a normalisation. Rejects unsupported modules.
fn normalises(path: &Path) -> Result<bool, LoadError> {
    let Some(modules) = optional::<Vec<Module>>(path)? else { return Ok(false) };
    let names: Vec<&str> =
        modules.iter().map(|module| module.kind.rsplit('.').next().unwrap_or_default()).collect();
    let normalise = match names.as_slice() {
        ["Transformer", "Pooling"] => false,
        ["Transformer", "Pooling", "Normalize"] => true,
        other => {
            let accepted = "Transformer, Pooling and, at the end, Normalize";
            return Err(unsupported(path, "type", other.join(", "), accepted));
        }
    };
    for (module, expected) in modules.iter().zip(["", POOLING_FOLDER]) {
        if module.path != expected {
            let accepted = "the model in the folder itself and its pooling in `1_Pooling`";
            return Err(unsupported(path, "path", module.path.clone(), accepted));
        }
    }
    Ok(normalise)
}

impl PoolingFile {
    fn resolve(self, path: &Path, width: usize) -> Result<Pooling, LoadError> {
        if self.include_prompt == Some(false) {
            return Err(unsupported(path, "include_prompt", "false".to_owned(), "`true`"));
        }
        if let Some(dimension) = self.embedding_dimension.filter(|dimension| *dimension != width) {
            let reason = format!("`embedding_dimension` is {dimension}, and the network has {width}");
            return Err(LoadError::Damaged { path: path.to_owned(), reason });
        }
        let modes = self.modes();
        let known = |name: &str| Pooling::ALL.into_iter().find(|pooling| pooling.name() == name);
        match modes.as_slice() {
            [] => Ok(Pooling::Mean),
            [one] if let Some(pooling) = known(one) => Ok(pooling),
            other => {
                let accepted = "one of `mean`, `cls`, `max`, `mean_sqrt_len_tokens` and `lasttoken`";
                Err(unsupported(path, "pooling_mode", other.join("+"), accepted))
            }
        }
    }

    /// The names of the configured kinds of pooling; a name takes precedence over flags.
    fn modes(self) -> Vec<String> {
        match self.pooling_mode {
            Some(OneOrMany::One(name)) => return vec![name],
            Some(OneOrMany::Many(names)) => return names,
            None => {}
        }
        let flags = [
            ("cls", self.pooling_mode_cls_token),
            ("max", self.pooling_mode_max_tokens),
            ("mean", self.pooling_mode_mean_tokens),
            ("mean_sqrt_len_tokens", self.pooling_mode_mean_sqrt_len_tokens),
            ("weightedmean", self.pooling_mode_weightedmean_tokens),
            ("lasttoken", self.pooling_mode_lasttoken),
        ];
        flags.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned()).collect()
    }
}

impl PromptFile {
    /// The first existing prompt of `names`, else the default one.
    fn prompt(&self, names: &[&str]) -> String {
        let names = names.iter().copied().chain(self.default_prompt_name.as_deref());
        names.filter_map(|name| self.prompts.get(name)).flatten().next().cloned().unwrap_or_default()
    }
}

fn unsupported(path: &Path, what: &'static str, value: String, accepted: &'static str) -> LoadError {
    LoadError::Unsupported { path: path.to_owned(), what, value, accepted }
}
