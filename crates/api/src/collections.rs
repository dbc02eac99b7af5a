//! `PUT`, `GET` and `DELETE /v1/collections/{name}`, and `GET /v1/collections`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::optional;
use crate::{Chunking, ChunkingPolicy, Result, VectorSettings, require};

/// Most characters of a collection's name.
const NAME_LENGTH_MAX: usize = 128;

/// Most words with synonyms, synonyms of a word, and stop words of a collection.
const SYNONYMS_MAX: usize = 10_000;
const SYNONYMS_PER_WORD_MAX: usize = 32;
const STOP_WORDS_MAX: usize = 10_000;
/// Most bytes of a synonym or stop word.
const WORD_BYTES_MAX: usize = 256;
/// Highest weight of titles.
const TITLE_WEIGHT_MAX: f32 = 10.0;

/// The settings of a collection: the body of `PUT /v1/collections/{name}`, and a part of [`CollectionReply`].
/// Absent fields take the values of the gateway's configuration.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectionSettings {
    /// Id or alias of the model that embeds the chunks; default: the default model.
    pub model: Option<String>,
    /// `none` creates a text-only collection: lexical search only, no model. Cannot be combined with `model`.
    pub embedding: Option<EmbeddingChoice>,
    /// The embeddings that the documents bring. Cannot be combined with `model` and `embedding`.
    #[serde(default, deserialize_with = "optional")]
    pub vectors: Option<VectorSettings>,
    /// The language of the texts, which determines the stemmer and the stop words.
    pub language: Option<String>,
    /// How texts are split into chunks. Can be changed later with `?rechunk=true`.
    #[serde(default, deserialize_with = "optional")]
    pub chunking: Option<Chunking>,
    /// Where its index is; absent: `embedded`. Can be changed later with `?move=true`.
    pub engine: Option<EngineChoice>,
    /// Whether the files of documents are kept beside their text, unless an upload says otherwise; default: the gateway's `extract.keep_originals`.
    pub keep_originals: Option<bool>,
    /// Synonyms, stop words and the weight of titles. They can be changed later, and apply to the next search.
    #[serde(default, deserialize_with = "optional")]
    pub lexical: Option<LexicalSettings>,
}

/// Settings of lexical retrieval that apply to queries. What is sent replaces all of them.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LexicalSettings {
    /// Words, or sequences of words, with what is searched beside them: `{"tv": ["television", "television set"]}`. In one direction:
    /// for both, each word needs its own entry. Default: none.
    pub synonyms: Option<BTreeMap<String, Vec<String>>>,
    /// Words that queries do not search for; default: those of the language.
    pub stop_words: Option<Vec<String>>,
    /// How much a word in the title counts, compared to one in the text, 1 to 10; default: 1.
    pub title_weight: Option<f32>,
}

impl LexicalSettings {
    /// Whether they change nothing.
    pub fn is_default(&self) -> bool {
        self.synonyms.as_ref().is_none_or(BTreeMap::is_empty)
            && self.stop_words.is_none()
            && self.title_weight.is_none_or(|weight| weight == 1.0)
    }

    fn check(&self) -> Result<()> {
        let synonyms = self.synonyms.iter().flatten();
        let count = self.synonyms.as_ref().map_or(0, BTreeMap::len);
        require(count <= SYNONYMS_MAX, &["lexical", "synonyms"], || {
            format!(
                "{count} words have synonyms; at most {SYNONYMS_MAX} can, so split the list over collections or shorten it"
            )
        })?;
        for (word, others) in synonyms {
            let shown = || word.chars().take(40).collect::<String>().escape_debug().to_string();
            require(others.len() <= SYNONYMS_PER_WORD_MAX, &["lexical", "synonyms"], || {
                format!(
                    "`{}` has {} synonyms; at most {SYNONYMS_PER_WORD_MAX} are searched, so keep the closest",
                    shown(),
                    others.len()
                )
            })?;
            let is_short = others.iter().chain([word]).all(|word| word.len() <= WORD_BYTES_MAX);
            require(is_short, &["lexical", "synonyms"], || {
                format!(
                    "`{}` or one of its synonyms has more than {WORD_BYTES_MAX} bytes; shorten it",
                    shown()
                )
            })?;
        }
        let stop_words = self.stop_words.as_deref().unwrap_or_default();
        require(stop_words.len() <= STOP_WORDS_MAX, &["lexical", "stop_words"], || {
            format!(
                "there are {} stop words; at most {STOP_WORDS_MAX} are kept, so shorten the list",
                stop_words.len()
            )
        })?;
        require(
            stop_words.iter().all(|word| word.len() <= WORD_BYTES_MAX),
            &["lexical", "stop_words"],
            || format!("a stop word has more than {WORD_BYTES_MAX} bytes; shorten it"),
        )?;
        let weight = self.title_weight.unwrap_or(1.0);
        require((1.0..=TITLE_WEIGHT_MAX).contains(&weight), &["lexical", "title_weight"], || {
            format!("lexical.title_weight is {weight}; it must be from 1 to {TITLE_WEIGHT_MAX}")
        })
    }
}

/// Where the index of a collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// In the gateway.
    Embedded,
    /// In the Qdrant cluster of the gateway's `qdrant.urls`.
    Qdrant,
}

impl From<EngineChoice> for &'static str {
    fn from(engine: EngineChoice) -> &'static str {
        match engine {
            EngineChoice::Embedded => "embedded",
            EngineChoice::Qdrant => "qdrant",
        }
    }
}

/// The alternative to an embedding model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingChoice {
    /// No embeddings: the collection has no dense retriever.
    None,
}

/// A collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Collection")]
pub struct CollectionReply {
    /// The name.
    pub name: String,
    /// Number of searchable documents.
    pub document_count: u64,
    /// Number of searchable chunks.
    pub chunk_count: u64,
    /// Id of the model that embeds the chunks; null for a text-only collection, and for one whose documents bring their embeddings.
    pub model: Option<String>,
    /// The effective settings. Fields that have no meaning beside the others are absent.
    pub settings: CollectionSettings,
    /// Whether the collection can be searched.
    pub status: CollectionStatus,
    /// While its index is rebuilt: the part of the changes that the index has, from 0 to 1. Absent for keys with a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt: Option<f64>,
    /// Time of creation, in unix seconds.
    pub created_at: f64,
}

/// Whether a collection can be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CollectionStatus {
    /// The collection can be searched.
    Ready,
    /// The index is being rebuilt from the store. If the documents are split again, or the index is moved to another engine, the earlier index answers
    /// searches; otherwise they return `collection_not_ready`.
    Rebuilding,
    /// Its engine does not answer: searches return `engine_unavailable`, and the numbers of documents and chunks are 0. In a list also a collection whose
    /// engine can't evaluate the mandatory filter of the key: searches return `invalid_parameter`.
    Unavailable,
}

/// Checks a collection's name: 1 to 128 characters of `A-Z a-z 0-9 _ . -`, and neither `.` nor `..`.
///
/// # Errors
/// `invalid_parameter` at `collection`.
pub fn check_collection_name(name: &str) -> Result<()> {
    let is_accepted = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let has_length = (1..=NAME_LENGTH_MAX).contains(&name.len());
    let is_good = has_length && name.bytes().all(is_accepted) && name != "." && name != "..";
    require(is_good, &["collection"], || {
        let shown: String = name.chars().take(NAME_LENGTH_MAX).collect();
        format!(
            "`{}` is not a valid collection name; use 1 to {NAME_LENGTH_MAX} characters of A-Z, a-z, 0-9, `_`, `.` and `-`",
            shown.escape_debug()
        )
    })
}

impl CollectionSettings {
    /// Validates the settings by themselves. Absent values take the given defaults.
    ///
    /// # Errors
    /// `invalid_parameter` at the first invalid field.
    pub fn check(&self, default_max_tokens: u32, default_overlap_tokens: u32) -> Result<()> {
        require(
            self.model.is_none() || self.embedding.is_none(),
            &["embedding"],
            || "`embedding` is `none` and `model` names a model; send one of them",
        )?;
        if let Some(vectors) = &self.vectors {
            require(
                self.model.is_none() && self.embedding.is_none(),
                &["vectors"],
                || "`vectors` are embeddings that the documents bring; leave out `model` and `embedding`",
            )?;
            vectors.check()?;
            let policy = self.chunking.map(|chunking| chunking.policy.unwrap_or_default());
            require(
                policy.is_none_or(|policy| policy == ChunkingPolicy::None),
                &["chunking"],
                || "a document with its own vector is one chunk; leave out `chunking`, or send the policy `none`",
            )?;
        }
        self.chunking.unwrap_or_default().check(default_max_tokens, default_overlap_tokens)?;
        self.lexical.as_ref().map_or(Ok(()), LexicalSettings::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn names_with_invalid_characters_or_lengths_are_refused() {
        for name in ["default", "a", "A.b-c_9", &"x".repeat(128)] {
            assert_eq!(check_collection_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a b", "é", "a\0", &"x".repeat(129)] {
            let invalid = check_collection_name(name).unwrap_err();
            assert_eq!(
                (invalid.code, invalid.param.as_deref()),
                (ErrorCode::InvalidParameter, Some("collection"))
            );
        }
    }

    /// Validates `body` with the defaults 200 and 32; `expected` is the invalid parameter, or `ok`.
    fn check(body: &str, expected: &str) {
        let settings: CollectionSettings = crate::parse(body.as_bytes()).unwrap();
        let seen = match settings.check(200, 32) {
            Ok(()) => "ok".to_owned(),
            Err(invalid) => invalid.param.unwrap_or_default(),
        };
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn token_counts_out_of_range_are_refused_with_the_range() {
        let check = |chunking: &str, expected: &str| {
            let body = format!("{{\"chunking\":{{{chunking}}}}}");
            let read = crate::parse::<CollectionSettings>(body.as_bytes());
            let refused = read.and_then(|settings| settings.check(200, 32)).unwrap_err();
            assert_eq!(refused.message, expected);
        };
        check(r#""max_tokens":0"#, "chunking.max_tokens is 0; it must be from 1 to 8192");
        check(r#""max_tokens":-1"#, "chunking.max_tokens is -1; it must be from 1 to 8192");
        check(r#""max_tokens":4294967296"#, "chunking.max_tokens is 4294967296; it must be from 1 to 8192");
        let below = "it must be from 0 to 199, below chunking.max_tokens";
        check(r#""overlap_tokens":200"#, &format!("chunking.overlap_tokens is 200; {below}"));
        check(r#""overlap_tokens":-1"#, &format!("chunking.overlap_tokens is -1; {below}"));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        check("{}", "ok");
        check(r#"{"embedding":"none"}"#, "ok");
        check(r#"{"embedding":"none","model":"m"}"#, "embedding");
        check(r#"{"vectors":{"dimension":3}}"#, "ok");
        check(r#"{"vectors":{"dimension":3,"metric":"dot"},"chunking":{"policy":"none"}}"#, "ok");
        check(r#"{"vectors":{"dimension":0}}"#, "vectors.dimension");
        check(r#"{"vectors":{"dimension":3},"embedding":"none"}"#, "vectors");
        check(r#"{"vectors":{"dimension":3},"model":"m"}"#, "vectors");
        check(r#"{"vectors":{"dimension":3},"chunking":{}}"#, "chunking");
        check(
            r#"{"vectors":{"dimension":3},"chunking":{"policy":"none","max_tokens":9}}"#,
            "chunking.max_tokens",
        );
        check(r#"{"chunking":{"max_tokens":0}}"#, "chunking.max_tokens");
        check(r#"{"chunking":{"max_tokens":8193}}"#, "chunking.max_tokens");
        check(r#"{"chunking":{"max_tokens":32}}"#, "chunking.overlap_tokens");
        check(r#"{"chunking":{"max_tokens":33}}"#, "ok");
        check(r#"{"chunking":{"overlap_tokens":200}}"#, "chunking.overlap_tokens");
        check(r#"{"chunking":{"overlap_tokens":0}}"#, "ok");
    }

    #[test]
    fn synonyms_stop_words_and_weights_have_limits() {
        let many = |count: usize| {
            let words: BTreeMap<String, Vec<String>> =
                (0..count).map(|number| (format!("w{number}"), vec!["x".to_owned()])).collect();
            serde_json::to_string(&words).unwrap()
        };
        check(r#"{"lexical":{}}"#, "ok");
        check(r#"{"lexical":{"synonyms":{"tv":["television"]},"stop_words":[],"title_weight":2.5}}"#, "ok");
        check(&format!(r#"{{"lexical":{{"synonyms":{}}}}}"#, many(10_000)), "ok");
        check(&format!(r#"{{"lexical":{{"synonyms":{}}}}}"#, many(100_000)), "lexical.synonyms");
        let others = serde_json::to_string(&vec!["b"; 33]).unwrap();
        check(&format!(r#"{{"lexical":{{"synonyms":{{"a":{others}}}}}}}"#), "lexical.synonyms");
        let long = "a".repeat(257);
        check(&format!(r#"{{"lexical":{{"synonyms":{{"{long}":[]}}}}}}"#), "lexical.synonyms");
        check(&format!(r#"{{"lexical":{{"stop_words":["{long}"]}}}}"#), "lexical.stop_words");
        for weight in ["0.5", "11", "-1"] {
            check(&format!(r#"{{"lexical":{{"title_weight":{weight}}}}}"#), "lexical.title_weight");
        }
    }
}
