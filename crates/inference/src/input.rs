//! Tokenised texts, truncated to the length of the model.

use super::cache::CacheKey;
use super::models::{Embedder, LoadedModel, SPECIAL_TOKENS};
use super::pseudo::hashes_of_words;
use super::request::Truncation;
use super::upstream::RemoteText;
use weir_encoder::Token;

/// The input of an embedding model, made by [`LoadedModel::input`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    content: InputContent,
    /// Whether the text was truncated.
    pub is_truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum InputContent {
    /// Token ids, for models that run in this process.
    Ids(Vec<u32>),
    /// Hashes of the words, for the pseudo model.
    Words(Vec<u64>),
    /// A text, for an upstream.
    Remote(RemoteText),
}

impl Input {
    /// Tokens to embed, special ones included; estimated for an upstream.
    pub fn tokens(&self) -> usize {
        match &self.content {
            InputContent::Ids(ids) => ids.len(),
            InputContent::Words(hashes) => hashes.len(),
            InputContent::Remote(text) => text.tokens,
        }
    }

    pub(super) fn key(&self, fingerprint: &str) -> CacheKey {
        match &self.content {
            InputContent::Ids(ids) => CacheKey::of_ids(fingerprint, ids),
            InputContent::Words(hashes) => CacheKey::of_words(fingerprint, hashes),
            InputContent::Remote(text) => CacheKey::of_text(fingerprint, text.truncation, &text.text),
        }
    }

    /// The token ids; empty for the pseudo model and upstreams.
    pub(super) fn into_ids(self) -> Vec<u32> {
        match self.content {
            InputContent::Ids(ids) => ids,
            InputContent::Words(..) | InputContent::Remote(_) => Vec::new(),
        }
    }

    /// The hashes of the words; empty for models other than the pseudo model.
    pub(super) fn word_hashes(&self) -> &[u64] {
        match &self.content {
            InputContent::Words(hashes) => hashes,
            InputContent::Ids(_) | InputContent::Remote(_) => &[],
        }
    }

    /// The text; empty for models in this process.
    pub(super) fn into_text(self) -> RemoteText {
        match self.content {
            InputContent::Remote(text) => text,
            InputContent::Ids(_) | InputContent::Words(_) => {
                RemoteText { text: String::new(), tokens: 0, truncation: Truncation::End }
            }
        }
    }

    fn from_ids(ids: Vec<u32>, is_truncated: bool) -> Input {
        Input { content: InputContent::Ids(ids), is_truncated }
    }
}

impl LoadedModel {
    /// Tokenises `text`, which includes the prompt, and truncates it to the model's length.
    pub fn input(&self, text: &str, truncation: Truncation) -> Input {
        let tokenizer = self.tokenizer();
        if let Embedder::Upstream(_) = &self.embedder {
            return self.remote_input(text, truncation);
        }
        if let Some(tokenizer) = tokenizer {
            let encoded = match truncation {
                Truncation::End | Truncation::Never => tokenizer.encode(text),
                Truncation::Start => tokenizer.encode_end(text),
            };
            return Input::from_ids(encoded.ids, encoded.is_truncated);
        }
        Input { content: InputContent::Words(hashes_of_words(text)), is_truncated: false }
    }

    /// The text is truncated by the upstream; whether, is known of another gateway's model only.
    fn remote_input(&self, text: &str, truncation: Truncation) -> Input {
        let (count, most) = (self.count_tokens(text), self.input_tokens_max().unwrap_or(usize::MAX));
        let text = RemoteText { text: text.to_owned(), tokens: count.min(most), truncation };
        Input { content: InputContent::Remote(text), is_truncated: count > most }
    }

    /// The input of a query, with the model's prompt for queries.
    pub fn query_input(&self, query: &str) -> Input {
        self.input(&format!("{}{query}", self.query_prompt()), Truncation::End)
    }

    /// Tokenises `text` and splits it into parts within the model's length. A text for an upstream is one part.
    pub fn parts(&self, text: &str) -> Vec<Input> {
        match self.tokenizer().filter(|_| self.is_local()) {
            Some(tokenizer) => {
                tokenizer.encode_parts(text).into_iter().map(|ids| Input::from_ids(ids, false)).collect()
            }
            None => vec![self.input(text, Truncation::End)],
        }
    }

    /// Maximum tokens of an input, special ones included; `None` for the pseudo model, which has no limit, and for upstreams other than
    /// gateways.
    pub fn input_tokens_max(&self) -> Option<usize> {
        match &self.embedder {
            Embedder::Local(model) => Some(model.info().max_tokens),
            Embedder::Onnx(model) => Some(model.external_model().max_tokens()),
            Embedder::Upstream(upstream) => upstream.described()?.reply.max_input_tokens,
            Embedder::Pseudo(_) => None,
        }
    }

    /// The tokens of `text`, which includes the prompt; `None` for a model without a tokenizer in this process.
    pub fn tokens_of(&self, text: &str, with_special: bool) -> Option<Vec<Token>> {
        self.tokenizer().map(|tokenizer| tokenizer.tokens(text, with_special))
    }

    /// The text of token ids; `None` for a model without a tokenizer in this process.
    pub fn decode(&self, ids: &[u32], without_special: bool) -> Option<String> {
        self.tokenizer().map(|tokenizer| tokenizer.decode(ids, without_special))
    }

    /// Tokens of the whole `text`, special ones included.
    pub fn count_tokens(&self, text: &str) -> usize {
        let special = if self.tokenizer().is_some() { SPECIAL_TOKENS } else { 0 };
        self.token_spans(text).len() + special
    }
}
