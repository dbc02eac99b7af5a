//! Converts texts to token ids.
//!
//! Tokenizers of the BERT family take the fast path [`wordpiece`], about fifty times faster. All others use the `tokenizers` crate, the
//! reference implementation, and so do texts with combining characters that BERT keeps. Both return the same ids.

mod bert;
mod charsmap;
mod file;
mod limits;
mod pair;
mod spans;
mod table;
#[cfg(test)]
mod tests;
mod trial;
mod wordpiece;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

use crate::LoadError;
use crate::config::{SENTENCE_BERT_FILE, TOKENIZER_BYTES_MAX, read_optional};
pub use pair::EncodedPair;
use pair::Template;
use wordpiece::WordPiece;

/// The tokens of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids, including special tokens.
    pub ids: Vec<u32>,
    /// Whether the text exceeded the limit of tokens and was truncated.
    pub is_truncated: bool,
}

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its name in the vocabulary.
    pub name: String,
    /// The bytes of the text that it covers; `None` for a special token.
    pub span: Option<Range<usize>>,
}

/// The tokenizer of a model.
pub struct Tokenizer {
    /// The bytes of `tokenizer.json`, for `reference`.
    json: Vec<u8>,
    reference: OnceLock<Reference>,
    fast: Option<WordPiece>,
    max_tokens: usize,
}

/// The tokenizer of the `tokenizers` crate. Loading takes tens of milliseconds and several MiB, so a tokenizer with a fast path loads it
/// for the first text that needs it.
struct Reference {
    tokenizer: tokenizers::Tokenizer,
    pair: Template,
}

impl Reference {
    fn read(json: &[u8]) -> Result<Reference, String> {
        limits::check(json)?;
        // the crate panics on some damaged files
        catch_unwind(AssertUnwindSafe(|| Reference::parse(json)))
            .unwrap_or_else(|_| Err("it can't be parsed, which the log shows as a panic".to_owned()))
    }

    fn parse(json: &[u8]) -> Result<Reference, String> {
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        let pair = Template::of(|a, b| tokenizer.post_process(a, Some(b), true))
            .ok_or_else(|| "its post-processor does not append the second text to the first".to_owned())?;
        Ok(Reference { tokenizer, pair })
    }
}

impl Tokenizer {
    /// Loads `tokenizer.json`. `max_tokens` includes special tokens; ids must be below `vocabulary`.
    pub(crate) fn load(path: &Path, max_tokens: usize, vocabulary: usize) -> Result<Tokenizer, LoadError> {
        let damaged = |reason: String| LoadError::Damaged { path: path.to_owned(), reason };
        let json = read_optional(path, TOKENIZER_BYTES_MAX)?
            .ok_or_else(|| LoadError::Missing { path: path.to_owned() })?;
        let tokenizer = Tokenizer::from_json(json, max_tokens).map_err(damaged)?;
        let largest = tokenizer.largest_id();
        if largest as usize >= vocabulary {
            let reason = format!("token id {largest} is outside of the model's vocabulary of {vocabulary}");
            return Err(damaged(reason));
        }
        Ok(tokenizer)
    }

    /// Reads the content of a `tokenizer.json`, without the model that it belongs to. `max_tokens` includes special tokens.
    ///
    /// # Errors
    /// The defect of the file.
    pub fn from_json(json: Vec<u8>, max_tokens: usize) -> Result<Tokenizer, String> {
        let fast = WordPiece::from_json(&json);
        let reference = match &fast {
            Some(_) => OnceLock::new(),
            None => OnceLock::from(Reference::read(&json)?),
        };
        Ok(Tokenizer { json, reference, fast, max_tokens })
    }

    /// The content of the `tokenizer.json`.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    fn largest_id(&self) -> u32 {
        match &self.fast {
            Some(fast) => fast.largest_id(),
            None => self.reference().tokenizer.get_vocab(true).values().copied().max().unwrap_or(0),
        }
    }

    /// # Panics
    /// When the `tokenizers` crate can't load a file that the fast path accepted.
    fn reference(&self) -> &Reference {
        self.reference.get_or_init(|| match Reference::read(&self.json) {
            Ok(reference) => reference,
            Err(reason) => panic!("tokenizer.json is damaged: {reason}"),
        })
    }

    /// The special tokens around two texts.
    fn pair(&self) -> &Template {
        match &self.fast {
            Some(fast) => fast.pair(),
            None => &self.reference().pair,
        }
    }

    /// Rejects the model in `folder` if it needs lower-cased texts and the tokenizer does not lower-case them.
    pub(crate) fn check_case(&self, folder: &Path, do_lower_case: bool) -> Result<(), LoadError> {
        if !do_lower_case || self.encode(PANGRAM) == self.encode(&PANGRAM.to_uppercase()) {
            return Ok(());
        }
        Err(LoadError::Unsupported {
            path: folder.join(SENTENCE_BERT_FILE),
            what: "do_lower_case",
            value: "true".to_owned(),
            accepted: "`false`, or a tokenizer that lower-cases by itself",
        })
    }

    /// The ids of `text` with special tokens, truncated to the model's limit.
    pub fn encode(&self, text: &str) -> Encoded {
        self.encode_to(text, self.max_tokens)
    }

    /// The ids of `text` with special tokens, truncated at the end to `limit` tokens (at least 2).
    pub fn encode_to(&self, text: &str, limit: usize) -> Encoded {
        if let Some(encoded) = self.fast.as_ref().and_then(|fast| fast.encode(text, limit)) {
            return encoded;
        }
        let mut ids = self.reference_ids(text);
        let is_truncated = ids.len() > limit;
        if is_truncated {
            // the last token is special, and is kept
            let last = ids.last().copied();
            ids.truncate(limit);
            if let (Some(end), Some(last)) = (ids.last_mut(), last) {
                *end = last;
            }
        }
        Encoded { ids, is_truncated }
    }

    /// The ids of `text` with special tokens, truncated at the start to the model's limit.
    pub fn encode_end(&self, text: &str) -> Encoded {
        let mut ids = self.encode_to(text, usize::MAX).ids;
        let dropped = ids.len().saturating_sub(self.max_tokens);
        if dropped > 0 {
            // the first token is special, and is kept
            ids.drain(1..=dropped);
        }
        Encoded { ids, is_truncated: dropped > 0 }
    }

    /// The ids of `text` in parts within the model's limit, each with special tokens; a text within the limit is one part.
    pub fn encode_parts(&self, text: &str) -> Vec<Vec<u32>> {
        let ids = self.encode_to(text, usize::MAX).ids;
        if ids.len() <= self.max_tokens {
            return vec![ids];
        }
        // the first and the last token are special
        let [first, inner @ .., last] = ids.as_slice() else { return vec![ids] };
        let inner_max = self.max_tokens.saturating_sub(2).max(1);
        let part = |part: &[u32]| [&[*first], part, &[*last]].concat();
        inner.chunks(inner_max).map(part).collect()
    }

    /// The ids of two texts as one sequence, truncated to the model's limit.
    pub fn encode_pair(&self, a: &str, b: &str) -> EncodedPair {
        self.encode_pair_to(a, b, self.max_tokens)
    }

    /// The ids of two texts as one sequence of at most `limit` tokens (at least 5). The longer text is truncated first.
    pub fn encode_pair_to(&self, a: &str, b: &str, limit: usize) -> EncodedPair {
        let pair = self.pair();
        let limit = limit.saturating_sub(pair.special());
        // both are tokenised whole: truncation depends on both lengths
        pair.join(&self.plain_ids(a), &self.plain_ids(b), limit)
    }

    /// The ids of `text` without special tokens.
    fn plain_ids(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        match self.fast.as_ref().and_then(|fast| fast.push_ids(text, usize::MAX, &mut ids)) {
            Some(_) => ids,
            None => self.ids(text, false),
        }
    }

    /// Number of tokens of `text`, without special tokens.
    pub fn count(&self, text: &str) -> usize {
        self.token_spans(text).len()
    }

    /// The byte span in `text` of each token, without special tokens.
    ///
    /// Spans ascend, start and end at character boundaries, and exclude white space around a token. Several tokens of one character
    /// have the same span; the span of a white-space token is empty.
    pub fn token_spans(&self, text: &str) -> Vec<Range<usize>> {
        if let Some(spans) = self.fast.as_ref().and_then(|fast| fast.spans(text)) {
            return spans;
        }
        match self.reference().tokenizer.encode(text, false) {
            Ok(encoding) => spans::of_text(text, encoding.get_offsets()),
            Err(_) => Vec::new(),
        }
    }

    /// The tokens of `text` without truncation, by the `tokenizers` crate. Spans start and end at character boundaries.
    pub fn tokens(&self, text: &str, with_special: bool) -> Vec<Token> {
        let Ok(encoding) = self.reference().tokenizer.encode(text, with_special) else { return Vec::new() };
        let ids = encoding.get_ids().iter().zip(encoding.get_tokens());
        let spans = encoding.get_offsets().iter().zip(encoding.get_special_tokens_mask());
        ids.zip(spans)
            .map(|((&id, name), (&(start, end), &special))| Token {
                id,
                name: name.clone(),
                span: (special == 0).then(|| text.floor_char_boundary(start)..text.ceil_char_boundary(end)),
            })
            .collect()
    }

    /// The text of token ids, by the `tokenizers` crate. Unknown ids are left out.
    pub fn decode(&self, ids: &[u32], without_special: bool) -> String {
        self.reference().tokenizer.decode(ids, without_special).unwrap_or_default()
    }

    /// The ids from the `tokenizers` crate, with special tokens and without truncation.
    ///
    /// A text that can't be encoded counts as empty: with tokenizers of the BERT family, only if the vocabulary lacks the unknown token.
    pub fn reference_ids(&self, text: &str) -> Vec<u32> {
        self.ids(text, true)
    }

    fn ids(&self, text: &str, with_special: bool) -> Vec<u32> {
        let ids = |text: &str| {
            self.reference()
                .tokenizer
                .encode_fast(text, with_special)
                .map(|encoding| encoding.get_ids().to_vec())
        };
        ids(text).or_else(|_| ids("")).unwrap_or_default()
    }
}

/// A text with every letter of the alphabet.
const PANGRAM: &str = "the quick brown fox jumps over the lazy dog";
