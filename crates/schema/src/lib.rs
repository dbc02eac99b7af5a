//! JSON schemas as the providers of language models take them, and the JSON values that requests to them are made of.
//!
//! Each provider has its own subset of JSON schema for the inputs of tools and the format of a reply. [`for_anthropic`] and [`tool_input`] are
//! Anthropic's, [`for_gemini`] is Gemini's, [`close_objects`] and [`is_strict`] are about OpenAI's `strict`.

#![forbid(unsafe_code)]
#![allow(clippy::wildcard_enum_match_arm, reason = "`_` stands for every other kind of a JSON value")]

mod anthropic;
mod characters;
mod gemini;
mod openai;
mod references;
#[cfg(test)]
mod tests;
mod tool_input;
mod value;

pub use anthropic::{for_anthropic, has_open_objects};
pub use characters::whole_characters;
pub use gemini::for_gemini;
pub use openai::{close_objects, is_strict};
pub use tool_input::tool_input;
pub use value::{Map, Value};

/// A schema that can't be said to a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct SchemaError {
    /// Where the schema stands, such as `response_format.json_schema.schema`.
    pub field: String,
    /// The problem and its remedy.
    pub reason: String,
}

impl SchemaError {
    fn new(field: &str, reason: String) -> SchemaError {
        SchemaError { field: field.to_owned(), reason }
    }
}
