//! `POST /v1/embeddings`, compatible with OpenAI's API. Unknown fields are ignored: clients send them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Count, EmbedTruncate, EmbeddingType, ErrorCode, Invalid, Limits, Result, Texts, TruncationDirection,
};

/// Texts to embed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EmbeddingsRequest {
    /// The id or an alias of a model.
    pub model: String,
    /// The texts.
    pub input: Texts,
    /// Encoding of the embeddings; default: `float`.
    pub encoding_format: Option<EncodingFormat>,
    /// Type of the numbers; default: `float32`. `output_dtype` is the name of Voyage and Mistral for it.
    #[serde(alias = "output_dtype")]
    pub embed_dtype: Option<EmbeddingDtype>,
    /// Jina's name for the type and encoding of the embeddings. `encoding_type` and `embedding_types` mean the same.
    #[serde(alias = "encoding_type", alias = "embedding_types")]
    pub embedding_type: Option<EmbeddingTypes>,
    /// Dimension of the embeddings, for models trained for shorter ones (Matryoshka); default: the model's own. `output_dimension` is the name
    /// of Voyage and Mistral for it.
    #[serde(alias = "output_dimension")]
    pub dimensions: Option<Count>,
    /// How texts longer than the model's input limit are truncated: `end` (the default), `start`, `split` or `error`; `true` and `false`, as of
    /// Jina and TEI, are `end` and `error`. `truncation` is Voyage's name for it.
    #[serde(alias = "truncation")]
    pub truncate: Option<EmbedTruncate>,
    /// The side on which texts are truncated; default: `Right`. `truncation_side` is vLLM's name for it.
    #[serde(alias = "truncation_side")]
    pub truncation_direction: Option<TruncationDirection>,
    /// The purpose of the texts, which determines the model's prompt; default: no prompt.
    pub input_type: Option<EmbedTask>,
    /// Jina's name for `input_type`.
    pub task: Option<EmbedTask>,
    /// TEI's name for `input_type`.
    pub prompt_name: Option<TextRole>,
    /// Whether embeddings are normalised to length one; default: as the model is trained. `normalized` is Jina's name for it.
    #[serde(alias = "normalized")]
    pub normalize: Option<bool>,
    /// Refused unless it is -1: texts are truncated at the model's limit.
    pub truncate_prompt_tokens: Option<i64>,
    /// Refused if it is true: texts are embedded one by one.
    pub late_chunking: Option<bool>,
    /// Refused if it is true: `/embed_all` embeds each token.
    pub return_multivector: Option<bool>,
    /// Refused if it is true: `/tokenize` returns tokens.
    pub return_tokenized_input: Option<bool>,
    /// Refused if it is false: models are trained with special tokens.
    pub add_special_tokens: Option<bool>,
    /// Byte order of numbers in bytes and base64: `little`, or `native`, which means the same here.
    pub endianness: Option<Endianness>,
    /// Always `text`.
    pub modality: Option<Modality>,
}

/// The byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Endianness {
    /// The lowest byte first.
    #[serde(alias = "native")]
    Little,
}

/// The kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Modality {
    /// Texts.
    Text,
}

/// One type of embeddings, or a list of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "one of `float`, `base64`, `int8`, `uint8`, `binary`, `ubinary`")]
pub enum EmbeddingTypes {
    /// The type.
    One(EmbeddingType),
    /// The type in a list, as some clients send it.
    List(Vec<EmbeddingType>),
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
    #[serde(alias = "float")]
    Float32,
    /// 16-bit floats.
    Float16,
    /// Signed bytes: each value times 127, divided by the largest absolute value of its embedding.
    Int8,
    /// Unsigned bytes: `int8` plus 128.
    Uint8,
    /// Signed bytes: `ubinary` less 128.
    Binary,
    /// One bit per value, 1 if it is positive; eight in a byte, the first in the highest bit, the last byte filled with zeros.
    Ubinary,
}

impl EmbeddingDtype {
    /// Every type.
    pub const ALL: [EmbeddingDtype; 6] = [
        EmbeddingDtype::Float32,
        EmbeddingDtype::Float16,
        EmbeddingDtype::Int8,
        EmbeddingDtype::Uint8,
        EmbeddingDtype::Binary,
        EmbeddingDtype::Ubinary,
    ];

    /// The name in requests and headers.
    pub fn name(self) -> &'static str {
        match self {
            EmbeddingDtype::Float32 => "float32",
            EmbeddingDtype::Float16 => "float16",
            EmbeddingDtype::Int8 => "int8",
            EmbeddingDtype::Uint8 => "uint8",
            EmbeddingDtype::Binary => "binary",
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

/// The purpose of texts, also in the spellings of Cohere, Jina, NVIDIA and Voyage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmbedTask {
    /// They are queries: with the model's prompt for queries.
    #[serde(
        alias = "search_query",
        alias = "retrieval.query",
        alias = "code.query",
        alias = "nl2code.query",
        alias = "code2code.query",
        alias = "code2nl.query",
        alias = "code2completion.query",
        alias = "qa.query"
    )]
    Query,
    /// They are documents: with the model's prompt for documents.
    #[serde(
        alias = "passage",
        alias = "search_document",
        alias = "retrieval.passage",
        alias = "code.passage",
        alias = "nl2code.passage",
        alias = "code2code.passage",
        alias = "code2nl.passage",
        alias = "code2completion.passage",
        alias = "qa.passage"
    )]
    Document,
    /// They are compared with each other: without a prompt.
    TextMatching,
    /// They are classified: without a prompt.
    Classification,
    /// They are clustered: without a prompt.
    #[serde(alias = "separation")]
    Clustering,
}

impl EmbedTask {
    /// The role of the texts; `None` for tasks in which all texts have the same role.
    pub fn role(self) -> Option<TextRole> {
        match self {
            EmbedTask::Query => Some(TextRole::Query),
            EmbedTask::Document => Some(TextRole::Document),
            EmbedTask::TextMatching | EmbedTask::Classification | EmbedTask::Clustering => None,
        }
    }
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
    /// Numbers: whole ones of the types `int8`, `uint8`, `binary` and `ubinary`.
    Float(Vec<f32>),
    /// Little-endian numbers in base64.
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
    /// The first error of the texts, of their role, or of a field that asks for something that is not served.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        self.input.check("input", limits)?;
        self.check_unserved()?;
        self.role().map(drop)
    }

    /// Refuses values of fields of other servers that change embeddings in ways that are not served here.
    fn check_unserved(&self) -> Result<()> {
        let is_limited = self.truncate_prompt_tokens.is_some_and(|tokens| tokens != -1);
        let unserved = [
            (
                is_limited,
                "truncate_prompt_tokens",
                "shortens texts to another length than the model's limit; leave it out, or send -1",
            ),
            (
                self.late_chunking == Some(true),
                "late_chunking",
                "is true, and texts are embedded one by one; leave it out, or send false",
            ),
            (
                self.return_multivector == Some(true),
                "return_multivector",
                "is true, and a text has one embedding; leave it out, or call /embed_all for an embedding of each token",
            ),
            (
                self.return_tokenized_input == Some(true),
                "return_tokenized_input",
                "is true, and the reply has no tokens; leave it out, or call /tokenize",
            ),
            (
                self.add_special_tokens == Some(false),
                "add_special_tokens",
                "is false, and models embed texts with their special tokens; leave it out, or send true",
            ),
        ];
        refuse(&unserved)
    }

    /// The role of the texts, from any of the three fields.
    ///
    /// # Errors
    /// `invalid_parameter` when two fields contradict each other.
    pub fn role(&self) -> Result<Option<TextRole>> {
        let named = self.prompt_name.map(|role| match role {
            TextRole::Query => EmbedTask::Query,
            TextRole::Document => EmbedTask::Document,
        });
        let given = [("input_type", self.input_type), ("task", self.task), ("prompt_name", named)];
        let mut given = given.into_iter().filter_map(|(field, task)| Some((field, task?)));
        let Some((first, task)) = given.next() else { return Ok(None) };
        match given.find(|(_, other)| *other != task) {
            None => Ok(task.role()),
            Some((field, _)) => {
                let message = format!("`{field}` and `{first}` contradict each other; send one of them");
                Err(Invalid::at(ErrorCode::InvalidParameter, &[field], message))
            }
        }
    }

    /// How texts longer than the model's input limit are truncated.
    pub fn truncate(&self) -> Truncate {
        EmbedTruncate::resolve(self.truncate, self.truncation_direction)
    }

    /// The encoding and the type of the numbers. Integers of `embedding_type` are lists in any case, as in Jina's API, unless the reply is bytes;
    /// those of `embed_dtype` follow `encoding_format`.
    ///
    /// # Errors
    /// `invalid_parameter` when two fields contradict each other, and for several types.
    pub fn output(&self) -> Result<(EncodingFormat, Option<EmbeddingDtype>)> {
        let format = self.encoding_format.unwrap_or_default();
        let Some(types) = &self.embedding_type else { return Ok((format, self.embed_dtype)) };
        let invalid = |message: &str| {
            Err(Invalid::at(ErrorCode::InvalidParameter, &["embedding_type"], message.to_owned()))
        };
        let kind = match types {
            EmbeddingTypes::One(kind) => *kind,
            EmbeddingTypes::List(kinds) => match kinds.as_slice() {
                [kind] => *kind,
                _ => {
                    return invalid(
                        "`embedding_type` is a list; send one type, or call /v2/embed, which replies in several",
                    );
                }
            },
        };
        let is_list = self.encoding_format == Some(EncodingFormat::Float);
        let (format, dtype) = match (kind, format) {
            (EmbeddingType::Base64, EncodingFormat::Float) if !is_list => {
                (EncodingFormat::Base64, EmbeddingDtype::Float32)
            }
            (EmbeddingType::Base64, EncodingFormat::Base64) => (format, EmbeddingDtype::Float32),
            (EmbeddingType::Base64, EncodingFormat::Float | EncodingFormat::Bytes) => {
                return invalid(
                    "`embedding_type` and `encoding_format` contradict each other; send one of them",
                );
            }
            (EmbeddingType::Float, _) => (format, EmbeddingDtype::Float32),
            (EmbeddingType::Int8, _) => (format.unpacked(), EmbeddingDtype::Int8),
            (EmbeddingType::Uint8, _) => (format.unpacked(), EmbeddingDtype::Uint8),
            (EmbeddingType::Binary, _) => (format.unpacked(), EmbeddingDtype::Binary),
            (EmbeddingType::Ubinary, _) => (format.unpacked(), EmbeddingDtype::Ubinary),
        };
        if self.embed_dtype.is_some_and(|other| other != dtype) {
            return invalid("`embedding_type` and `embed_dtype` contradict each other; send one of them");
        }
        Ok((format, Some(dtype)))
    }
}

/// Refuses the first field that asks for something that is not served: whether it does, its name, and the reason with the remedy.
pub(crate) fn refuse(fields: &[(bool, &str, &str)]) -> Result<()> {
    match fields.iter().find(|(is_asked, ..)| *is_asked) {
        None => Ok(()),
        Some((_, field, reason)) => {
            let message = format!("`{field}` {reason}");
            Err(Invalid::at(ErrorCode::InvalidParameter, &[field], message))
        }
    }
}

impl EncodingFormat {
    /// A list of numbers instead of base64.
    fn unpacked(self) -> EncodingFormat {
        match self {
            EncodingFormat::Float | EncodingFormat::Base64 => EncodingFormat::Float,
            EncodingFormat::Bytes => EncodingFormat::Bytes,
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
            check(&format!(",\"{field}\":\"summary\""), &format!("invalid_parameter {field}"));
        }
        for field in ["input_type", "task"] {
            for task in ["text-matching", "classification", "clustering", "separation"] {
                check(&format!(",\"{field}\":\"{task}\""), "None");
            }
            check(&format!(",\"{field}\":\"nl2code.passage\""), "Some(Document)");
        }
        check(r#","task":"retrieval""#, "invalid_parameter task");
    }

    #[test]
    fn roles_must_not_contradict_each_other() {
        check(r#","input_type":"query","task":"retrieval.query""#, "Some(Query)");
        check(r#","input_type":"query","prompt_name":"document""#, "invalid_parameter prompt_name");
        check(r#","input_type":"query","task":"text-matching""#, "invalid_parameter task");
    }

    #[test]
    fn fields_of_other_servers_are_refused_by_name_where_they_change_embeddings() {
        for (neutral, changing) in [
            (r#""truncate_prompt_tokens":-1"#, r#""truncate_prompt_tokens":20"#),
            (r#""late_chunking":false"#, r#""late_chunking":true"#),
            (r#""return_multivector":false"#, r#""return_multivector":true"#),
            (r#""return_tokenized_input":false"#, r#""return_tokenized_input":true"#),
            (r#""add_special_tokens":true"#, r#""add_special_tokens":false"#),
            (r#""endianness":"native""#, r#""endianness":"big""#),
            (r#""modality":"text""#, r#""modality":"image""#),
        ] {
            let field = neutral.split('"').nth(1).unwrap_or_default();
            check(&format!(",{neutral}"), "None");
            check(&format!(",{changing}"), &format!("invalid_parameter {field}"));
        }
    }

    #[test]
    fn the_type_of_embeddings_has_several_names() {
        let check = |more: &str, expected: &str| {
            let body = format!("{{\"model\":\"m\",\"input\":\"a\",{more}}}");
            let read = crate::parse::<EmbeddingsRequest>(body.as_bytes());
            let seen = match read.and_then(|request| request.output()) {
                Ok((format, dtype)) => format!("{format:?} {}", dtype.map_or("-", EmbeddingDtype::name)),
                Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
            };
            assert_eq!(seen, expected, "{body}");
        };
        check(r#""user":"u""#, "Float -");
        check(r#""embedding_type":"float""#, "Float float32");
        check(r#""embedding_type":"base64""#, "Base64 float32");
        check(r#""encoding_type":"binary""#, "Float binary");
        check(r#""embedding_type":["ubinary"]"#, "Float ubinary");
        check(r#""embedding_types":["float"],"encoding_format":"base64""#, "Base64 float32");
        // OpenAI's client asks for base64 of its own accord and takes lists as well
        check(r#""embedding_type":"int8","encoding_format":"base64""#, "Float int8");
        check(r#""embedding_type":"int8","encoding_format":"bytes""#, "Bytes int8");
        check(r#""output_dtype":"float","encoding_format":"base64""#, "Base64 float32");
        check(r#""output_dtype":"uint8","encoding_format":"base64""#, "Base64 uint8");
        check(r#""embedding_type":"base64","encoding_format":"float""#, "invalid_parameter embedding_type");
        check(r#""embedding_type":"int8","output_dtype":"uint8""#, "invalid_parameter embedding_type");
        check(r#""embedding_type":["float","int8"]"#, "invalid_parameter embedding_type");
        check(r#""embedding_type":[]"#, "invalid_parameter embedding_type");
        check(r#""embedding_type":"fp8""#, "invalid_parameter embedding_type");
        check(r#""output_dtype":"base64""#, "invalid_parameter output_dtype");
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
            let body = format!(r#"{{"model":"m","input":"a",{truncate}}}"#);
            crate::parse::<EmbeddingsRequest>(body.as_bytes()).map(|request| request.truncate())
        };
        for (spelling, meaning) in [
            (r#""user":"u""#, Truncate::End),
            (r#""truncate":"end""#, Truncate::End),
            (r#""truncate":"START""#, Truncate::Start),
            (r#""truncate":"NONE""#, Truncate::Error),
            (r#""truncate":"error""#, Truncate::Error),
            (r#""truncate":"split""#, Truncate::Split),
            (r#""truncate":true"#, Truncate::End),
            (r#""truncate":false"#, Truncate::Error),
            (r#""truncation":false"#, Truncate::Error),
            (r#""truncation":true,"truncation_side":"left""#, Truncate::Start),
            (r#""truncation_direction":"Left""#, Truncate::Start),
        ] {
            assert_eq!(read(spelling), Ok(meaning));
        }
        assert_eq!(read(r#""truncate":"middle""#).unwrap_err().param.as_deref(), Some("truncate"));
    }

    #[test]
    fn usage_has_truncated_only_if_texts_were_truncated() {
        let usage = |truncated| Usage { prompt_tokens: 5, total_tokens: 5, truncated };
        let render = |usage: &Usage| serde_json::to_string(usage).unwrap();
        assert_eq!(render(&usage(0)), r#"{"prompt_tokens":5,"total_tokens":5}"#);
        assert_eq!(render(&usage(2)), r#"{"prompt_tokens":5,"total_tokens":5,"truncated":2}"#);
    }
}
