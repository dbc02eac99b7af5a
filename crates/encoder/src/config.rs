//! What the configuration files of a model folder say.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::LoadError;

/// How the token vectors of a text become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The vector of the first token.
    Cls,
}

impl Pooling {
    /// The name in documentation and `weir model info`.
    pub fn name(self) -> &'static str {
        match self {
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
        }
    }
}

/// Texts to put before a text, by its role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// Before a query.
    pub query: String,
    /// Before a document.
    pub document: String,
}

/// `config.json`: the shape of the network. Names as in the file.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BertConfig {
    pub(crate) model_type: String,
    pub(crate) hidden_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) max_position_embeddings: usize,
    pub(crate) vocab_size: usize,
    pub(crate) hidden_act: String,
    pub(crate) layer_norm_eps: f32,
    #[serde(default)]
    position_embedding_type: Option<String>,
}

/// Everything that the small files of a model folder say.
#[derive(Debug, Clone)]
pub(crate) struct ModelConfig {
    pub(crate) bert: BertConfig,
    pub(crate) pooling: Pooling,
    pub(crate) normalise: bool,
    pub(crate) max_tokens: usize,
    pub(crate) prompts: Prompts,
}

/// The files that decide an embedding, in the order in which the fingerprint takes them; weights come after these.
pub(crate) const SMALL_FILES: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "config_sentence_transformers.json",
];

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolingConfig {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptConfig {
    prompts: std::collections::BTreeMap<String, String>,
}

impl ModelConfig {
    /// Reads the small files of `folder`.
    pub(crate) fn load(folder: &Path) -> Result<ModelConfig, LoadError> {
        let path = folder.join("config.json");
        let bert: BertConfig = required(&path)?;
        check_bert(&bert, &path)?;
        let modules: Option<Vec<Module>> = optional(&folder.join("modules.json"))?;
        let normalise =
            modules.is_some_and(|all| all.iter().any(|module| module.kind.ends_with(".Normalize")));
        let sentence: SentenceConfig =
            optional(&folder.join("sentence_bert_config.json"))?.unwrap_or_default();
        let max_tokens = sentence.max_seq_length.unwrap_or(usize::MAX).min(bert.max_position_embeddings);
        let prompts: PromptConfig =
            optional(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
        let prompt = |name: &str| prompts.prompts.get(name).cloned().unwrap_or_default();
        Ok(ModelConfig {
            pooling: pooling(folder)?,
            normalise,
            max_tokens,
            prompts: Prompts { query: prompt("query"), document: prompt("document") },
            bert,
        })
    }
}

fn check_bert(bert: &BertConfig, path: &Path) -> Result<(), LoadError> {
    let unsupported = |what, value: &str, accepted| {
        Err(LoadError::Unsupported { path: path.to_owned(), what, value: value.to_owned(), accepted })
    };
    if bert.model_type != "bert" {
        return unsupported("model_type", &bert.model_type, "`bert`");
    }
    if bert.hidden_act != "gelu" {
        return unsupported("hidden_act", &bert.hidden_act, "`gelu`");
    }
    match bert.position_embedding_type.as_deref() {
        None | Some("absolute") => {}
        Some(other) => return unsupported("position_embedding_type", other, "`absolute`"),
    }
    let sizes = [
        bert.hidden_size,
        bert.num_hidden_layers,
        bert.num_attention_heads,
        bert.intermediate_size,
        bert.max_position_embeddings,
        bert.vocab_size,
    ];
    // bounds keep the arithmetic of sizes far from overflow
    if sizes.iter().any(|size| *size == 0 || *size > 1 << 24)
        || !bert.hidden_size.is_multiple_of(bert.num_attention_heads)
    {
        let reason = "a size is zero, huge, or the hidden size is not a multiple of the heads".to_owned();
        return Err(LoadError::Damaged { path: path.to_owned(), reason });
    }
    if bert.max_position_embeddings < 3 {
        let reason = "there is no room for a token between [CLS] and [SEP]".to_owned();
        return Err(LoadError::Damaged { path: path.to_owned(), reason });
    }
    Ok(())
}

fn pooling(folder: &Path) -> Result<Pooling, LoadError> {
    let path = folder.join("1_Pooling/config.json");
    let Some(config) = optional::<PoolingConfig>(&path)? else { return Ok(Pooling::Mean) };
    let modes = [
        ("mean", config.pooling_mode_mean_tokens),
        ("cls", config.pooling_mode_cls_token),
        ("max", config.pooling_mode_max_tokens),
        ("mean_sqrt_len", config.pooling_mode_mean_sqrt_len_tokens),
        ("weightedmean", config.pooling_mode_weightedmean_tokens),
        ("lasttoken", config.pooling_mode_lasttoken),
    ];
    let on: Vec<&str> = modes.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    match on.as_slice() {
        ["mean"] => Ok(Pooling::Mean),
        ["cls"] => Ok(Pooling::Cls),
        other => Err(LoadError::Unsupported {
            path,
            what: "pooling",
            value: other.join("+"),
            accepted: "`mean` or `cls`",
        }),
    }
}

fn required<T: DeserializeOwned>(path: &Path) -> Result<T, LoadError> {
    optional(path)?.ok_or_else(|| LoadError::Missing { path: path.to_owned() })
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LoadError> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| LoadError::Damaged { path: path.to_owned(), reason: error.to_string() })
}

/// The bytes of a file, or `None` when it is not there.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LoadError::Unreadable { path: PathBuf::from(path), source }),
    }
}
