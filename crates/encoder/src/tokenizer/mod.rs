//! Text to token ids.
//!
//! Two ways to the same ids: plain ASCII for a WordPiece vocabulary goes through [`wordpiece`], which is some fifty
//! times faster; everything else, and every other kind of tokenizer, goes through the `tokenizers` crate, the reference of the field.

mod pair;
mod spans;
mod wordpiece;

use std::ops::Range;
use std::path::Path;

use crate::LoadError;
pub use pair::EncodedPair;
use pair::Template;
use wordpiece::WordPiece;

/// A text as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids, with the special tokens around them.
    pub ids: Vec<u32>,
    /// Whether the text had more tokens than the model takes, and lost a part.
    pub is_truncated: bool,
}

/// The tokenizer of a model.
pub struct Tokenizer {
    reference: tokenizers::Tokenizer,
    fast: Option<WordPiece>,
    pair: Template,
    max_tokens: usize,
}

impl Tokenizer {
    /// Loads `tokenizer.json`. `max_tokens` counts the special tokens; ids must lie below `vocabulary`.
    pub(crate) fn load(path: &Path, max_tokens: usize, vocabulary: usize) -> Result<Tokenizer, LoadError> {
        let damaged = |reason: String| LoadError::Damaged { path: path.to_owned(), reason };
        let bytes = crate::config::read_optional(path)?
            .ok_or_else(|| LoadError::Missing { path: path.to_owned() })?;
        let mut reference =
            tokenizers::Tokenizer::from_bytes(&bytes).map_err(|error| damaged(error.to_string()))?;
        reference.with_truncation(None).map_err(|error| damaged(error.to_string()))?;
        reference.with_padding(None);
        let largest = reference.get_vocab(true).values().copied().max().unwrap_or(0);
        if largest as usize >= vocabulary {
            let reason = format!("token id {largest} is outside of the model's vocabulary of {vocabulary}");
            return Err(damaged(reason));
        }
        let fast = WordPiece::from_json(&bytes);
        let pair = Template::of(&reference)
            .ok_or_else(|| damaged("its post-processor does not put one text after the other".to_owned()))?;
        Ok(Tokenizer { reference, fast, pair, max_tokens })
    }

    /// Whether it makes no difference between upper and lower case.
    pub(crate) fn is_lowercase(&self) -> bool {
        self.reference_ids(PANGRAM) == self.reference_ids(&PANGRAM.to_uppercase())
    }

    /// The ids of `text` with the special tokens, cut to the model's length.
    pub fn encode(&self, text: &str) -> Encoded {
        self.encode_to(text, self.max_tokens)
    }

    /// The ids of `text` with the special tokens, cut to `limit` tokens (at least 2) by dropping the end.
    pub fn encode_to(&self, text: &str, limit: usize) -> Encoded {
        if let Some(encoded) = self.fast.as_ref().and_then(|fast| fast.encode(text, limit)) {
            return encoded;
        }
        let mut ids = self.reference_ids(text);
        let is_truncated = ids.len() > limit;
        if is_truncated {
            // one special token stands at the end: it stays there
            let last = ids.last().copied();
            ids.truncate(limit);
            if let (Some(end), Some(last)) = (ids.last_mut(), last) {
                *end = last;
            }
        }
        Encoded { ids, is_truncated }
    }

    /// The ids of `text` with the special tokens, cut to the model's length by dropping the start.
    pub fn encode_end(&self, text: &str) -> Encoded {
        let mut ids = self.encode_to(text, usize::MAX).ids;
        let dropped = ids.len().saturating_sub(self.max_tokens);
        if dropped > 0 {
            // one special token stands at the start: it stays there
            ids.drain(1..=dropped);
        }
        Encoded { ids, is_truncated: dropped > 0 }
    }

    /// The ids of two texts as one sequence, cut to the model's length.
    pub fn encode_pair(&self, a: &str, b: &str) -> EncodedPair {
        self.encode_pair_to(a, b, self.max_tokens)
    }

    /// The ids of two texts as one sequence of at most `limit` tokens (at least 5): the longer text loses its end first.
    pub fn encode_pair_to(&self, a: &str, b: &str, limit: usize) -> EncodedPair {
        let room = limit.saturating_sub(self.pair.special());
        // how much of each stays depends on the whole lengths of both
        self.pair.join(&self.plain_ids(a), &self.plain_ids(b), room)
    }

    /// The ids of `text`, without special tokens.
    fn plain_ids(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        match self.fast.as_ref().and_then(|fast| fast.push_ids(text, usize::MAX, &mut ids)) {
            Some(_) => ids,
            None => self.ids(text, false),
        }
    }

    /// Number of tokens of `text`, without the special ones.
    pub fn count(&self, text: &str) -> usize {
        self.token_spans(text).len()
    }

    /// The byte span in `text` of each of its tokens, without the special ones.
    ///
    /// Spans ascend, begin and end at characters, and leave out white space around a token. Several tokens of one character
    /// may have the same span, and a token that stands for white space alone has an empty one.
    pub fn token_spans(&self, text: &str) -> Vec<Range<usize>> {
        if let Some(spans) = self.fast.as_ref().and_then(|fast| fast.spans(text)) {
            return spans;
        }
        match self.reference.encode(text, false) {
            Ok(encoding) => spans::of_text(text, encoding.get_offsets()),
            Err(_) => Vec::new(),
        }
    }

    /// The ids that the `tokenizers` crate gives, with special tokens, never cut.
    ///
    /// For WordPiece and the other models of the BERT family encoding cannot fail; should a vocabulary lack even
    /// its unknown token, the text counts as empty.
    pub fn reference_ids(&self, text: &str) -> Vec<u32> {
        self.ids(text, true)
    }

    fn ids(&self, text: &str, with_special: bool) -> Vec<u32> {
        let ids = |text: &str| {
            self.reference.encode_fast(text, with_special).map(|encoding| encoding.get_ids().to_vec())
        };
        ids(text).or_else(|_| ids("")).unwrap_or_default()
    }
}

/// A text with every letter.
const PANGRAM: &str = "the quick brown fox jumps over the lazy dog";
