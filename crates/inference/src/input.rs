//! A text as a model takes it: tokens, cut to the model's length.

use super::cache::Key;
use super::models::{Embedder, LoadedModel};
use super::upstream::RemoteText;

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
    /// Token ids, for models that run here.
    Ids(Vec<u32>),
    /// The text and its number of words, for pseudo ones.
    Words(String, usize),
    /// The text, for a server that embeds.
    Remote(RemoteText),
}

/// The part of a text that is left out when it is longer than the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// The end.
    End,
    /// The start.
    Start,
    /// None, as far as the caller is concerned: the end, and [`Input::is_truncated`] tells; an upstream is asked to refuse it.
    Never,
}

impl Input {
    /// Tokens that will be embedded, the special ones included; an estimate where an upstream makes them.
    pub fn tokens(&self) -> usize {
        match &self.content {
            Content::Ids(ids) => ids.len(),
            Content::Words(_, count) => *count,
            Content::Remote(text) => text.tokens,
        }
    }

    /// What its embedding is known by.
    pub(super) fn key(&self, fingerprint: &str) -> Key {
        match &self.content {
            Content::Ids(ids) => Key::of_ids(fingerprint, ids),
            Content::Words(text, _) => Key::of_text(fingerprint, text),
            Content::Remote(text) => {
                Key::of_text(fingerprint, &format!("{:?} {}", text.truncation, text.text))
            }
        }
    }

    /// The token ids; none where they are not made here.
    pub(super) fn into_ids(self) -> Vec<u32> {
        match self.content {
            Content::Ids(ids) => ids,
            Content::Words(..) | Content::Remote(_) => Vec::new(),
        }
    }

    /// The text; empty where tokens were made of it here.
    pub(super) fn into_text(self) -> RemoteText {
        match self.content {
            Content::Remote(text) => text,
            Content::Ids(_) => RemoteText { text: String::new(), tokens: 0, truncation: Truncation::End },
            Content::Words(text, tokens) => RemoteText { text, tokens, truncation: Truncation::End },
        }
    }

    fn of_ids(ids: Vec<u32>, is_truncated: bool) -> Input {
        Input { content: Content::Ids(ids), is_truncated }
    }
}

impl LoadedModel {
    /// Makes tokens of `text`, prompt included, and cuts them to the model's length.
    pub fn input(&self, text: &str, truncation: Truncation) -> Input {
        if let Some(tokenizer) = self.tokenizer() {
            let encoded = match truncation {
                Truncation::End | Truncation::Never => tokenizer.encode(text),
                Truncation::Start => tokenizer.encode_end(text),
            };
            return Input::of_ids(encoded.ids, encoded.is_truncated);
        }
        // read here in any length
        let (tokens, text) = (self.token_spans(text).len(), text.to_owned());
        let content = match &self.embedder {
            Embedder::Upstream(_) => Content::Remote(RemoteText { text, tokens, truncation }),
            Embedder::Local(_) | Embedder::Onnx(_) | Embedder::Pseudo(_) => Content::Words(text, tokens),
        };
        Input { content, is_truncated: false }
    }

    /// The input of a query: behind the model's prompt for queries, and cut at its end.
    pub fn query_input(&self, query: &str) -> Input {
        self.input(&format!("{}{query}", self.query_prompt), Truncation::End)
    }

    /// Makes tokens of `text` as [`LoadedModel::input`] does, and as many parts of them as are needed to leave nothing out. An upstream
    /// that cuts a text does it unseen.
    pub fn parts(&self, text: &str) -> Vec<Input> {
        match self.tokenizer() {
            Some(tokenizer) => {
                tokenizer.encode_parts(text).into_iter().map(|ids| Input::of_ids(ids, false)).collect()
            }
            None => vec![self.input(text, Truncation::End)],
        }
    }

    /// Tokens of a text that the model reads, the special ones included; `None` where there is no such limit, or only an upstream
    /// knows it.
    pub fn input_tokens_max(&self) -> Option<usize> {
        match &self.embedder {
            Embedder::Local(model) => Some(model.info().max_tokens),
            Embedder::Onnx(model) => Some(model.external_model().max_tokens()),
            Embedder::Pseudo(_) | Embedder::Upstream(_) => None,
        }
    }

    /// Tokens of the whole `text`, the special ones included.
    pub fn count_tokens(&self, text: &str) -> usize {
        let special = if self.tokenizer().is_some() { SPECIAL_TOKENS } else { 0 };
        self.token_spans(text).len() + special
    }
}

/// The tokens that a model of the BERT family puts around each text.
pub(crate) const SPECIAL_TOKENS: usize = 2;
