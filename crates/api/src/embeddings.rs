//! `POST /v1/embeddings`, in the shape of OpenAI's API. Fields that Weir doesn't know are ignored, for clients send them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Count, ErrorCode, Invalid, Limits, Texts};

/// Texts to embed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EmbeddingsRequest {
    /// The id or an alias of a model.
    pub model: String,
    /// The texts.
    pub input: Texts,
    /// How embeddings are written; `float` when absent.
    #[serde(default)]
    pub encoding_format: Option<EncodingFormat>,
    /// Floats of an embedding, for models that were trained to be cut; the model's own when absent.
    #[serde(default)]
    pub dimensions: Option<Count>,
    /// What happens to texts that are longer than the model reads; `end` when absent.
    #[serde(default)]
    pub truncate: Option<Truncate>,
    /// The role of the texts, which chooses the model's prompt; none when absent.
    #[serde(default)]
    pub input_type: Option<TextRole>,
    /// The same under the name that Jina's API has for it.
    #[serde(default)]
    pub task: Option<TextRole>,
    /// The same under the name that TEI has for it.
    #[serde(default)]
    pub prompt_name: Option<TextRole>,
}

/// How an embedding is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EncodingFormat {
    /// A list of numbers, each with the fewest digits that give the same float again.
    #[default]
    Float,
    /// The floats as bytes, little-endian, in standard base64 with padding.
    Base64,
}

/// What happens to a text that is longer than the model reads. It is never done without a sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncate {
    /// Its end is left out.
    #[default]
    #[serde(alias = "END")]
    End,
    /// Its start is left out.
    #[serde(alias = "START")]
    Start,
    /// It is embedded in parts, and the mean of these counts, weighted by their tokens: nothing is left out.
    #[serde(alias = "SPLIT")]
    Split,
    /// The request is refused.
    #[serde(alias = "none", alias = "NONE")]
    Error,
}

/// What a text is for. Models with prompts put another one before each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextRole {
    /// It is searched for.
    #[serde(alias = "search_query", alias = "retrieval.query")]
    Query,
    /// It is found.
    #[serde(alias = "passage", alias = "search_document", alias = "retrieval.passage")]
    Document,
}

/// The reply of `POST /v1/embeddings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EmbeddingsReply {
    /// Always `list`.
    pub object: ListObject,
    /// One entry a text, in order.
    pub data: Vec<EmbeddingItem>,
    /// The model, by the name that the request has for it.
    pub model: String,
    /// What was counted.
    pub usage: Usage,
}

/// The constant `list`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListObject {
    /// The constant.
    #[default]
    List,
}

/// The embedding of one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EmbeddingItem {
    /// Always `embedding`.
    pub object: EmbeddingObject,
    /// The text's place in the request, from 0.
    pub index: usize,
    /// The embedding.
    pub embedding: EncodedEmbedding,
}

/// The constant `embedding`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingObject {
    /// The constant.
    #[default]
    Embedding,
}

/// An embedding as [`EncodingFormat`] says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EncodedEmbedding {
    /// Numbers.
    Float(Vec<f32>),
    /// Little-endian floats in base64.
    Base64(String),
}

/// What a request cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens that were embedded, prompts and special tokens included.
    pub prompt_tokens: usize,
    /// The same.
    pub total_tokens: usize,
    /// Texts of which a part was left out; absent when there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl EmbeddingsRequest {
    /// Checks everything that can be checked without looking anything up.
    ///
    /// # Errors
    /// The first thing that is wrong with the texts, or with what they are said to be.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        self.input.check("input", limits)?;
        self.role().map(drop)
    }

    /// What the texts are for, by whichever of the three fields says it.
    ///
    /// # Errors
    /// `invalid_parameter` when two fields contradict each other.
    pub fn role(&self) -> Result<Option<TextRole>, Invalid> {
        let said = [("input_type", self.input_type), ("task", self.task), ("prompt_name", self.prompt_name)];
        let mut said = said.into_iter().filter_map(|(field, role)| Some((field, role?)));
        let Some((first, role)) = said.next() else { return Ok(None) };
        match said.find(|(_, other)| *other != role) {
            None => Ok(Some(role)),
            Some((field, _)) => {
                let message = format!("`{field}` and `{first}` contradict each other; send one of them");
                Err(Invalid::at(ErrorCode::InvalidParameter, &[field], message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a request with `more` fields; `expected` is `code param`, or the role.
    fn check(more: &str, expected: &str) {
        let body = format!("{{\"model\":\"m\",\"input\":\"a\"{more}}}");
        let read = crate::parse::<EmbeddingsRequest>(body.as_bytes());
        let checked =
            read.and_then(|request| request.check(&Limits::default()).and_then(|()| request.role()));
        let seen = match checked {
            Ok(role) => format!("{role:?}"),
            Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
        };
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn every_spelling_of_a_role_is_known() {
        check("", "None");
        for field in ["input_type", "task", "prompt_name"] {
            for query in ["query", "search_query", "retrieval.query"] {
                check(&format!(",\"{field}\":\"{query}\""), "Some(Query)");
            }
            for document in ["document", "passage", "search_document", "retrieval.passage"] {
                check(&format!(",\"{field}\":\"{document}\""), "Some(Document)");
            }
            check(&format!(",\"{field}\":\"clustering\""), &format!("invalid_parameter {field}"));
        }
    }

    #[test]
    fn roles_must_not_contradict_each_other() {
        check(r#","input_type":"query","task":"retrieval.query""#, "Some(Query)");
        check(r#","input_type":"query","prompt_name":"document""#, "invalid_parameter prompt_name");
    }

    #[test]
    fn null_is_absent_and_unknown_fields_are_ignored() {
        let nulls =
            r#","encoding_format":null,"dimensions":null,"truncate":null,"input_type":null,"task":null"#;
        check(nulls, "None");
        check(
            r#","prompt_name":null,"user":"u","embed_dtype":"float16","embedding_types":["float"]"#,
            "None",
        );
    }

    #[test]
    fn truncate_is_also_known_as_others_spell_it() {
        let read = |truncate: &str| {
            let body = format!(r#"{{"model":"m","input":"a","truncate":"{truncate}"}}"#);
            crate::parse::<EmbeddingsRequest>(body.as_bytes()).map(|request| request.truncate)
        };
        for (spelling, meaning) in [
            ("end", Truncate::End),
            ("START", Truncate::Start),
            ("NONE", Truncate::Error),
            ("error", Truncate::Error),
            ("split", Truncate::Split),
        ] {
            assert_eq!(read(spelling), Ok(Some(meaning)));
        }
        assert_eq!(read("middle").unwrap_err().param.as_deref(), Some("truncate"));
    }

    #[test]
    fn usage_says_only_then_that_texts_were_cut() {
        let usage = |truncated| Usage { prompt_tokens: 5, total_tokens: 5, truncated };
        let render = |usage: &Usage| serde_json::to_string(usage).unwrap();
        assert_eq!(render(&usage(0)), r#"{"prompt_tokens":5,"total_tokens":5}"#);
        assert_eq!(render(&usage(2)), r#"{"prompt_tokens":5,"total_tokens":5,"truncated":2}"#);
    }
}
