//! A text as a model takes it: tokens, cut to the model's length.

use super::models::{Embedder, LoadedModel};

/// A text that is ready to be embedded by the model that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    content: Content,
    /// Whether a part of the text was left out.
    pub is_truncated: bool,
}

/// What an embedder reads.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// Token ids, for local models.
    Ids(Vec<u32>),
    /// The text and its number of words, for pseudo ones.
    Words(String, usize),
}

/// The part of a text that is left out when it is longer than the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// The end.
    End,
    /// The start.
    Start,
}

impl Input {
    /// Tokens that will be embedded, the special ones included.
    pub fn tokens(&self) -> usize {
        match &self.content {
            Content::Ids(ids) => ids.len(),
            Content::Words(_, count) => *count,
        }
    }

    /// The token ids; none of a pseudo model.
    pub(super) fn ids(&self) -> &[u32] {
        match &self.content {
            Content::Ids(ids) => ids,
            Content::Words(..) => &[],
        }
    }

    /// The token ids; none of a pseudo model.
    pub(super) fn into_ids(self) -> Vec<u32> {
        match self.content {
            Content::Ids(ids) => ids,
            Content::Words(..) => Vec::new(),
        }
    }

    /// The text; empty for a local model.
    pub(super) fn text(&self) -> &str {
        match &self.content {
            Content::Ids(_) => "",
            Content::Words(text, _) => text,
        }
    }
}

impl LoadedModel {
    /// Makes tokens of `text`, prompt included, and cuts them to the model's length.
    pub fn input(&self, text: &str, truncation: Truncation) -> Input {
        match &self.embedder {
            Embedder::Local(model) => {
                let encoded = match truncation {
                    Truncation::End => model.tokenizer().encode(text),
                    Truncation::Start => model.tokenizer().encode_end(text),
                };
                Input { content: Content::Ids(encoded.ids), is_truncated: encoded.is_truncated }
            }
            // reads texts of any length
            Embedder::Pseudo(pseudo) => {
                let count = pseudo.token_spans(text).len();
                Input { content: Content::Words(text.to_owned(), count), is_truncated: false }
            }
        }
    }

    /// Tokens of a text that the model reads, the special ones included; `None` for a model without such a limit.
    pub fn input_tokens_max(&self) -> Option<usize> {
        match &self.embedder {
            Embedder::Local(model) => Some(model.info().max_tokens),
            Embedder::Pseudo(_) => None,
        }
    }

    /// Tokens of the whole `text`, the special ones included.
    pub fn count_tokens(&self, text: &str) -> usize {
        match &self.embedder {
            Embedder::Local(model) => model.tokenizer().count(text) + SPECIAL_TOKENS,
            Embedder::Pseudo(pseudo) => pseudo.token_spans(text).len(),
        }
    }
}

/// The tokens that a model of the BERT family puts around each text.
const SPECIAL_TOKENS: usize = 2;
