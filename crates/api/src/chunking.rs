//! How documents are split into chunks, and `POST /v1/collections/{name}/chunks/preview`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ingest::check_title;
use crate::limits::check_bytes;
use crate::object::optional;
use crate::pages::check_pages;
use crate::{Count, DocumentPage, ErrorCode, Invalid, Limits, Result, require};

/// Most tokens of a chunk; exceeds the input limit of current embedding models.
const CHUNK_TOKENS_MAX: u64 = 8_192;
/// Most sentences of a chunk.
const CHUNK_SENTENCES_MAX: u64 = 100;
/// Sentences of a chunk, and those that the next one repeats, by default.
const DEFAULT_SENTENCES: (u64, u64) = (5, 1);
/// Chunks that a preview returns: by default, and at most.
const PREVIEW_CHUNKS: (u64, u64) = (100, 1_000);

/// How texts are split into chunks.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chunking {
    /// Where chunks begin and end; default: `tokens`.
    pub policy: Option<ChunkingPolicy>,
    /// Most tokens of a chunk; for `pages` the default is the input limit of the model. Not for `none`.
    #[schemars(with = "Option<u32>")]
    pub max_tokens: Option<Count>,
    /// Approximate number of tokens that neighbouring chunks share; less than `max_tokens`, for `fixed` at most half of it. Not for `sentences`
    /// and `none`.
    #[schemars(with = "Option<u32>")]
    pub overlap_tokens: Option<Count>,
    /// Of `sentences`: most sentences of a chunk; default: 5.
    #[schemars(with = "Option<u32>")]
    pub max_sentences: Option<Count>,
    /// Of `sentences`: sentences that neighbouring chunks share, less than `max_sentences`; default: 1.
    #[schemars(with = "Option<u32>")]
    pub overlap_sentences: Option<Count>,
}

/// Where chunks begin and end.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ChunkingPolicy {
    /// As many sentences as `max_tokens` allow, preferably whole paragraphs.
    #[default]
    Tokens,
    /// `max_sentences` sentences, or fewer where they have more than `max_tokens`.
    Sentences,
    /// Sections below Markdown headings, longer ones split like `tokens`. The headings above a chunk are embedded and searched with it.
    Headings,
    /// Pages, longer ones split like `tokens`.
    Pages,
    /// Windows of `max_tokens`, wherever they end.
    Fixed,
    /// The whole document. One that is longer than the input of the model is split like `tokens`, without overlap.
    None,
}

impl Chunking {
    /// The same with every field that its policy uses; absent ones take the given defaults.
    pub fn completed(&self, default_max_tokens: u32, default_overlap_tokens: u32) -> Chunking {
        let policy = self.policy.unwrap_or_default();
        let (max_tokens, overlap) =
            (self.max_tokens.unwrap_or(default_max_tokens.into()), Count::from(default_overlap_tokens));
        let overlap_tokens = self.overlap_tokens.unwrap_or(overlap);
        let of_tokens = Chunking {
            policy: Some(policy),
            max_tokens: Some(max_tokens),
            overlap_tokens: Some(overlap_tokens),
            max_sentences: None,
            overlap_sentences: None,
        };
        match policy {
            ChunkingPolicy::Tokens | ChunkingPolicy::Headings => of_tokens,
            ChunkingPolicy::Pages => Chunking { max_tokens: self.max_tokens, ..of_tokens },
            ChunkingPolicy::Fixed => {
                let half = Count::from(max_tokens.get() / 2);
                let most = if overlap.get() > half.get() { half } else { overlap };
                Chunking { overlap_tokens: Some(self.overlap_tokens.unwrap_or(most)), ..of_tokens }
            }
            ChunkingPolicy::Sentences => {
                let max_sentences = self.max_sentences.unwrap_or(DEFAULT_SENTENCES.0.into());
                let overlap = DEFAULT_SENTENCES.1.min(max_sentences.get().saturating_sub(1));
                Chunking {
                    overlap_tokens: None,
                    max_sentences: Some(max_sentences),
                    overlap_sentences: Some(self.overlap_sentences.unwrap_or(overlap.into())),
                    ..of_tokens
                }
            }
            ChunkingPolicy::None => Chunking { max_tokens: None, overlap_tokens: None, ..of_tokens },
        }
    }

    /// Validates the numbers, and that the policy uses them. Absent ones take the given defaults.
    ///
    /// # Errors
    /// `invalid_parameter` at the first invalid field.
    pub(crate) fn check(&self, default_max_tokens: u32, default_overlap_tokens: u32) -> Result<()> {
        let completed = self.completed(default_max_tokens, default_overlap_tokens);
        let policy: &str = completed.policy.unwrap_or_default().into();
        let fields = [
            ("max_tokens", self.max_tokens, completed.max_tokens),
            ("overlap_tokens", self.overlap_tokens, completed.overlap_tokens),
            ("max_sentences", self.max_sentences, completed.max_sentences),
            ("overlap_sentences", self.overlap_sentences, completed.overlap_sentences),
        ];
        for (name, sent, used) in fields {
            require(sent.is_none() || used.is_some(), &["chunking", name], || {
                format!(
                    "the policy `{policy}` does not use `chunking.{name}`; leave it out, or send another `chunking.policy`"
                )
            })?;
        }
        if let Some(max) = completed.max_tokens {
            max.check(&["chunking", "max_tokens"], 1..=CHUNK_TOKENS_MAX, "")?;
        }
        if let Some(overlap) = completed.overlap_tokens {
            let max = completed.max_tokens.map_or(CHUNK_TOKENS_MAX, Count::get);
            let (most, bound) = match completed.policy {
                Some(ChunkingPolicy::Fixed) => (max / 2, ", half of chunking.max_tokens"),
                _ => (max - 1, ", below chunking.max_tokens"),
            };
            overlap.check(&["chunking", "overlap_tokens"], 0..=most, bound)?;
        }
        if let Some(max) = completed.max_sentences {
            max.check(&["chunking", "max_sentences"], 1..=CHUNK_SENTENCES_MAX, "")?;
            let overlap = completed.overlap_sentences.unwrap_or(0u32.into());
            let (path, bound) = (&["chunking", "overlap_sentences"], ", below chunking.max_sentences");
            overlap.check(path, 0..=max.get() - 1, bound)?;
        }
        Ok(())
    }
}

/// A text whose chunks are shown. Nothing of it is stored.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChunksPreviewRequest {
    /// The text.
    pub text: String,
    /// The title, which is embedded with each chunk.
    pub title: Option<String>,
    /// The pages of the text, as in a document.
    pub pages: Option<Vec<DocumentPage>>,
    /// How the text is split; default: as the documents of the collection.
    #[serde(default, deserialize_with = "optional")]
    pub chunking: Option<Chunking>,
    /// Most chunks that are returned, 1 to 1000; default: 100.
    #[schemars(with = "Option<u32>")]
    pub limit: Option<Count>,
}

impl ChunksPreviewRequest {
    /// Validates the request, with the settings of the gateway as defaults.
    ///
    /// # Errors
    /// The first error: text or title longer than its limit, invalid pages or numbers.
    pub fn check(&self, limits: &Limits, default_max_tokens: u32, default_overlap_tokens: u32) -> Result<()> {
        let (text_max, setting) = (limits.document_text_bytes_max, "document_text_bytes_max");
        check_bytes(&["text"], "the text", self.text.len(), text_max, setting)?;
        self.title.as_ref().map_or(Ok(()), |title| check_title(title, limits))?;
        self.pages.as_ref().map_or(Ok(()), |pages| check_pages(pages, &self.text))?;
        let chunking = self.chunking.as_ref();
        chunking.map_or(Ok(()), |chunking| chunking.check(default_max_tokens, default_overlap_tokens))?;
        self.limit.map_or(Ok(()), |limit| limit.check(&["limit"], 1..=PREVIEW_CHUNKS.1, ""))
    }

    /// Most chunks that are returned.
    pub fn limit(&self) -> u64 {
        self.limit.map_or(PREVIEW_CHUNKS.0, Count::get)
    }

    /// Reads the `chunking` of a query parameter, a JSON object.
    ///
    /// # Errors
    /// `invalid_parameter` at `chunking`.
    pub fn parse_chunking(json: &str) -> Result<Chunking> {
        crate::parse(json.as_bytes()).map_err(|invalid| match invalid.param {
            Some(_) => invalid,
            None => Invalid::at(ErrorCode::InvalidParameter, &["chunking"], invalid.message),
        })
    }
}

/// The chunks of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ChunksPreview")]
pub struct ChunksPreviewReply {
    /// How the text was split; fields that the policy does not use are absent.
    pub chunking: Chunking,
    /// Id of the model whose tokens are counted; null for a text-only collection, where words are.
    pub model: Option<String>,
    /// Most tokens of an input of the model, less those that it adds itself; null where it has no limit, or none that is known.
    pub input_tokens_max: Option<u64>,
    /// Number of chunks.
    pub total_chunks: u64,
    /// The first of them.
    pub chunks: Vec<PreviewedChunk>,
}

/// A chunk as it would be embedded, searched and cited.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreviewedChunk {
    /// The number of the chunk, from 0.
    pub chunk: u64,
    /// Offset of its first byte in the text (UTF-8).
    pub start: u64,
    /// Offset of the byte after it.
    pub end: u64,
    /// Its text, byte for byte: the `quote` of a citation.
    pub quote: String,
    /// Text that is embedded, searched and returned before that of the chunk: the trail of headings, the header of a table; absent if there is
    /// none.
    pub context: Option<String>,
    /// Tokens of `quote`.
    pub tokens: u64,
    /// Tokens of all that is embedded for the chunk: the prompt of the model, the title, `context` and `quote`.
    pub embedded_tokens: u64,
    /// The number of the page on which it begins, from 1; absent for a text without pages.
    pub page: Option<u64>,
    /// The number of the page on which it ends.
    pub page_end: Option<u64>,
    /// The label of the first page where that is not its number.
    pub page_label: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Validates and completes with the defaults 200 and 32; `expected` is the JSON of the completed form, or the message.
    #[track_caller]
    fn check(json: &str, expected: &str) {
        let chunking = crate::parse::<Chunking>(json.as_bytes()).unwrap();
        let seen = match chunking.check(200, 32) {
            Ok(()) => serde_json::to_string(&chunking.completed(200, 32)).unwrap(),
            Err(invalid) => invalid.message,
        };
        assert_eq!(seen, expected, "{json}");
    }

    #[test]
    fn absent_numbers_of_a_policy_take_their_defaults() {
        check("{}", r#"{"policy":"tokens","max_tokens":200,"overlap_tokens":32}"#);
        check(
            r#"{"policy":"headings","max_tokens":99}"#,
            r#"{"policy":"headings","max_tokens":99,"overlap_tokens":32}"#,
        );
        check(r#"{"policy":"pages"}"#, r#"{"policy":"pages","overlap_tokens":32}"#);
        check(
            r#"{"policy":"fixed","max_tokens":40}"#,
            r#"{"policy":"fixed","max_tokens":40,"overlap_tokens":20}"#,
        );
        check(r#"{"policy":"none"}"#, r#"{"policy":"none"}"#);
        let sentences = |max: u64, overlap: u64| {
            format!(
                r#"{{"policy":"sentences","max_tokens":200,"max_sentences":{max},"overlap_sentences":{overlap}}}"#
            )
        };
        check(r#"{"policy":"sentences"}"#, &sentences(5, 1));
        check(r#"{"policy":"sentences","max_sentences":1}"#, &sentences(1, 0));
        check(r#"{"policy":"sentences","max_sentences":3,"overlap_sentences":2}"#, &sentences(3, 2));
    }

    #[test]
    fn numbers_that_the_policy_does_not_use_are_refused() {
        let unused = |policy: &str, field: &str| {
            format!(
                "the policy `{policy}` does not use `chunking.{field}`; leave it out, or send another `chunking.policy`"
            )
        };
        check(r#"{"policy":"none","max_tokens":9}"#, &unused("none", "max_tokens"));
        check(r#"{"policy":"none","overlap_tokens":9}"#, &unused("none", "overlap_tokens"));
        check(r#"{"policy":"sentences","overlap_tokens":9}"#, &unused("sentences", "overlap_tokens"));
        check(r#"{"max_sentences":9}"#, &unused("tokens", "max_sentences"));
        check(r#"{"policy":"pages","overlap_sentences":9}"#, &unused("pages", "overlap_sentences"));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        check(
            r#"{"policy":"fixed","max_tokens":40,"overlap_tokens":21}"#,
            "chunking.overlap_tokens is 21; it must be from 0 to 20, half of chunking.max_tokens",
        );
        check(
            r#"{"policy":"sentences","max_sentences":101}"#,
            "chunking.max_sentences is 101; it must be from 1 to 100",
        );
        check(
            r#"{"policy":"sentences","max_sentences":0}"#,
            "chunking.max_sentences is 0; it must be from 1 to 100",
        );
        check(
            r#"{"policy":"sentences","max_sentences":2,"overlap_sentences":2}"#,
            "chunking.overlap_sentences is 2; it must be from 0 to 1, below chunking.max_sentences",
        );
        check(
            r#"{"policy":"pages","overlap_tokens":8192}"#,
            "chunking.overlap_tokens is 8192; it must be from 0 to 8191, below chunking.max_tokens",
        );
    }
}
