//! `POST /v1/embeddings`, compatible with OpenAI's API. Unknown fields are ignored: clients send them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Count, ErrorCode, Invalid, Limits, Result, Texts};

/// Texts to embed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EmbeddingsRequest {
    /// The id or an alias of a model.
    pub model: String,
    /// The texts.
    pub input: Texts,
    /// Encoding of the embeddings; default: `float`.
    pub encoding_format: Option<EncodingFormat>,
    /// Type of the numbers in bytes and base64; default: `float32`.
    pub embed_dtype: Option<EmbeddingDtype>,
    /// Dimension of the embeddings, for models trained for shorter ones (Matryoshka); default: the model's own.
    pub dimensions: Option<Count>,
    /// How texts longer than the model's input limit are truncated; default: `end`.
    pub truncate: Option<Truncate>,
    /// The role of the texts, which determines the model's prompt; default: no prompt.
    pub input_type: Option<TextRole>,
    /// Jina's name for `input_type`.
    pub task: Option<TextRole>,
    /// TEI's name for `input_type`.
    pub prompt_name: Option<TextRole>,
}

/// Encoding of an embedding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EncodingFormat {
    /// A list of numbers, each with the fewest digits that parse to the same float.
    #[default]
    Float,
    /// Little-endian numbers of `embed_dtype` in standard base64 with padding.
    Base64,
    /// The reply is no JSON but the numbers of all embeddings, as with `Accept: application/octet-stream`.
    #[serde(alias = "bytes_only")]
    Bytes,
}

/// Type of the numbers in an embedding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingDtype {
    /// 32-bit floats.
    #[default]
    Float32,
    /// 16-bit floats.
    Float16,
    /// Signed bytes: each value times 127, divided by the largest absolute value of its embedding.
    Int8,
    /// One bit per value, 1 if it is positive; eight in a byte, the first in the highest bit, the last byte filled with zeros.
    Ubinary,
}

impl EmbeddingDtype {
    /// Every type.
    pub const ALL: [EmbeddingDtype; 4] =
        [EmbeddingDtype::Float32, EmbeddingDtype::Float16, EmbeddingDtype::Int8, EmbeddingDtype::Ubinary];

    /// The name in requests and headers.
    pub fn name(self) -> &'static str {
        match self {
            EmbeddingDtype::Float32 => "float32",
            EmbeddingDtype::Float16 => "float16",
            EmbeddingDtype::Int8 => "int8",
            EmbeddingDtype::Ubinary => "ubinary",
        }
    }
}

/// How a text longer than the model's input limit is truncated. The reply reports every truncated text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Truncate {
    /// The end is cut off.
    #[default]
    #[serde(alias = "END")]
    End,
    /// The start is cut off.
    #[serde(alias = "START")]
    Start,
    /// The text is split; the embedding is the mean of its parts, weighted by their tokens.
    #[serde(alias = "SPLIT")]
    Split,
    /// The request is refused with `context_length_exceeded`.
    #[serde(alias = "none", alias = "NONE")]
    Error,
}

/// The role of a text, which determines the prompt that some models put before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextRole {
    /// A query.
    #[serde(alias = "search_query", alias = "retrieval.query")]
    Query,
    /// A document.
    #[serde(alias = "passage", alias = "search_document", alias = "retrieval.passage")]
    Document,
}

/// The reply of `POST /v1/embeddings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EmbeddingsReply {
    /// Always `list`.
    pub object: ListObject,
    /// One entry per text, in order.
    pub data: Vec<EmbeddingItem>,
    /// The model, as named in the request.
    pub model: String,
    /// Token counts.
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
    /// Index of the text in the request, from 0.
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

/// An embedding, encoded as `encoding_format` specifies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EncodedEmbedding {
    /// Numbers.
    Float(Vec<f32>),
    /// Little-endian floats in base64.
    Base64(String),
}

/// Token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Embedded tokens, including prompts and special tokens.
    pub prompt_tokens: usize,
    /// Equal to `prompt_tokens`.
    pub total_tokens: usize,
    /// Number of truncated texts; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl EmbeddingsRequest {
    /// Validates the request by itself.
    ///
    /// # Errors
    /// The first error of the texts or of their role.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        self.input.check("input", limits)?;
        self.role().map(drop)
    }

    /// The role of the texts, from any of the three fields.
    ///
    /// # Errors
    /// `invalid_parameter` when two fields contradict each other.
    pub fn role(&self) -> Result<Option<TextRole>> {
        let given = [("input_type", self.input_type), ("task", self.task), ("prompt_name", self.prompt_name)];
        let mut given = given.into_iter().filter_map(|(field, role)| Some((field, role?)));
        let Some((first, role)) = given.next() else { return Ok(None) };
        match given.find(|(_, other)| *other != role) {
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

    /// Parses and validates a request with the fields `more`; `expected` is `code param`, or the role.
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
    fn every_spelling_of_a_role_is_accepted() {
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
        check(r#","prompt_name":null,"user":"u","embed_dtype":null,"embedding_types":["float"]"#, "None");
    }

    #[test]
    fn truncate_accepts_the_spellings_of_other_apis() {
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
    fn usage_has_truncated_only_if_texts_were_truncated() {
        let usage = |truncated| Usage { prompt_tokens: 5, total_tokens: 5, truncated };
        let render = |usage: &Usage| serde_json::to_string(usage).unwrap();
        assert_eq!(render(&usage(0)), r#"{"prompt_tokens":5,"total_tokens":5}"#);
        assert_eq!(render(&usage(2)), r#"{"prompt_tokens":5,"total_tokens":5,"truncated":2}"#);
    }
}
