//! WordPiece for plain ASCII text.
//!
//! Lower-cases, splits at white space and around punctuation, and splits each word from the left into the longest pieces of the
//! vocabulary. The vocabulary is an open-addressing hash table. One pass over the remaining characters computes the hashes of all their
//! prefixes; these are looked up from the longest down, so that a common word takes one probe.
//!
//! Texts with characters other than printable ASCII and white space, or with the spelling of a special token, need the reference.

use std::ops::Range;

use serde::Deserialize;

use super::Encoded;
use crate::config::SIZE_MAX;

/// A longer word becomes the unknown token, as in the original implementation (`max_input_chars_per_word`).
const WORD_BYTES_MAX: usize = 100;

/// The fast path of a BERT tokenizer.
pub(super) struct WordPiece {
    table: Table,
    is_lowercase: bool,
    cls: u32,
    sep: u32,
    unknown: u32,
    largest: u32,
    /// Spellings of special tokens, which the reference matches anywhere in a text.
    special: Vec<String>,
}

impl WordPiece {
    /// The fast path for a `tokenizer.json`; `None` when this module does not implement its kind of tokenizer.
    pub(super) fn from_json(json: &[u8]) -> Option<WordPiece> {
        let file: File = serde_json::from_slice(json).ok()?;
        let (normalizer, model) = (file.normalizer?, file.model);
        let is_bert = normalizer.kind == "BertNormalizer"
            && normalizer.clean_text
            && file.pre_tokenizer?.kind == "BertPreTokenizer"
            && model.kind == "WordPiece"
            && model.continuing_subword_prefix == "##"
            && model.max_input_chars_per_word == WORD_BYTES_MAX;
        let template = file.post_processor?;
        let single: Vec<&str> = template.single.iter().filter_map(Piece::special).collect();
        let (["[CLS]", "[SEP]"], 3) = (single.as_slice(), template.single.len()) else { return None };
        if !is_bert || file.added_tokens.iter().any(|token| token.content.is_empty()) {
            return None;
        }
        let id = |token: &str| model.vocab.get(token).copied();
        let largest = model.vocab.values().copied().chain(file.added_tokens.iter().map(|t| t.id)).max()?;
        if largest as usize >= SIZE_MAX {
            return None; // the table has an entry for every id up to `largest`
        }
        Some(WordPiece {
            cls: id("[CLS]")?,
            sep: id("[SEP]")?,
            unknown: id(&model.unk_token)?,
            largest,
            is_lowercase: normalizer.lowercase,
            special: file.added_tokens.into_iter().map(|token| token.content).collect(),
            table: Table::new(&model.vocab),
        })
    }

    /// The largest token id.
    pub(super) fn largest_id(&self) -> u32 {
        self.largest
    }

    /// The ids of `text` with special tokens, truncated to `limit`; `None` when the text needs the reference.
    pub(super) fn encode(&self, text: &str, limit: usize) -> Option<Encoded> {
        // most tokens have four bytes or more
        let mut ids = Vec::with_capacity(limit.min(2 + text.len() / 3));
        ids.push(self.cls);
        let is_truncated = self.push_ids(text, limit.saturating_sub(2), &mut ids)?;
        ids.push(self.sep);
        Some(Encoded { ids, is_truncated })
    }

    /// Appends up to `limit` ids of `text`, without special tokens. Returns whether there are more; `None` if the text needs the reference.
    pub(super) fn push_ids(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Option<bool> {
        if !self.is_plain(text) {
            return None;
        }
        let mut count = 0usize;
        self.each_token(text, |id, _| {
            count += 1;
            if count <= limit {
                ids.push(id);
            }
            count <= limit
        });
        Some(count > limit)
    }

    /// The byte spans of the tokens of `text`; `None` when the text needs the reference.
    pub(super) fn spans(&self, text: &str) -> Option<Vec<Range<usize>>> {
        if !self.is_plain(text) {
            return None;
        }
        let mut spans = Vec::with_capacity(text.len() / 3);
        self.each_token(text, |_, span| {
            spans.push(span);
            true
        });
        Some(spans)
    }

    fn is_plain(&self, text: &str) -> bool {
        let is_plain = |b: &u8| matches!(b, b' '..=b'~' | b'\t' | b'\n' | b'\r');
        text.as_bytes().iter().all(is_plain)
            && !(text.contains('[') && self.special.iter().any(|token| text.contains(token.as_str())))
            && !self.special.iter().any(|token| !token.starts_with('[') && text.contains(token.as_str()))
    }

    /// Calls `on_token` with id and span of each token until it returns false.
    fn each_token(&self, text: &str, mut on_token: impl FnMut(u32, Range<usize>) -> bool) {
        let bytes = text.as_bytes();
        let mut word = [0u8; WORD_BYTES_MAX];
        let mut at = 0;
        while at < bytes.len() {
            let first = bytes[at];
            if first.is_ascii_whitespace() {
                at += 1;
                continue;
            }
            let start = at;
            at += 1;
            if !first.is_ascii_punctuation() {
                at += bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            }
            let len = at - start;
            if len > WORD_BYTES_MAX {
                if !on_token(self.unknown, start..at) {
                    return;
                }
                continue;
            }
            let word = &mut word[..len];
            word.copy_from_slice(&bytes[start..at]);
            if self.is_lowercase {
                word.make_ascii_lowercase();
            }
            if !self.pieces(word, start, &mut on_token) {
                return;
            }
        }
    }

    /// Calls `on_token` with each piece of a word that starts at byte `start` of the text.
    fn pieces(
        &self,
        word: &[u8],
        start: usize,
        on_token: &mut impl FnMut(u32, Range<usize>) -> bool,
    ) -> bool {
        let mut found = [(0u32, 0usize); WORD_BYTES_MAX];
        let (mut count, mut from) = (0, 0);
        while from < word.len() {
            let Some((id, len)) = self.table.longest(&word[from..], from > 0) else {
                return on_token(self.unknown, start..start + word.len());
            };
            from += len;
            found[count] = (id, from);
            count += 1;
        }
        let mut from = 0;
        found[..count].iter().all(|(id, end)| {
            let span = start + from..start + end;
            from = *end;
            on_token(*id, span)
        })
    }
}

/// The vocabulary: word starts and continuations with their ids.
struct Table {
    /// `id + 1` in the lower 32 bits, the upper half of the hash in the upper 32 bits; 0 is an empty slot.
    slots: Vec<u64>,
    /// Start and length in `text` of the spelling of each id, without `##`, and whether it is a continuation.
    spellings: Vec<(u32, u8, bool)>,
    text: Vec<u8>,
    longest: usize,
}

impl Table {
    fn new(vocab: &std::collections::HashMap<String, u32>) -> Table {
        let size = (vocab.len() * 4).next_power_of_two();
        let mut table = Table { slots: vec![0; size], spellings: Vec::new(), text: Vec::new(), longest: 0 };
        for (token, id) in vocab {
            let is_continuation = token.len() > 2 && token.starts_with("##");
            // no word starts with a literal "##", since every punctuation character is a word of its own
            let spelling = if is_continuation { &token[2..] } else { token.as_str() };
            if spelling.is_ascii() && !spelling.is_empty() && spelling.len() <= WORD_BYTES_MAX {
                table.insert(spelling.as_bytes(), is_continuation, *id);
            }
        }
        table
    }

    fn insert(&mut self, spelling: &[u8], is_continuation: bool, id: u32) {
        let index = id as usize;
        if self.spellings.len() <= index {
            self.spellings.resize(index + 1, (0, 0, false));
        }
        self.spellings[index] = (self.text.len() as u32, spelling.len() as u8, is_continuation);
        self.text.extend_from_slice(spelling);
        self.longest = self.longest.max(spelling.len());
        let hash = spelling.iter().fold(seed(is_continuation), |hash, byte| mix(hash, *byte));
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = hash >> 32 << 32 | u64::from(id + 1);
    }

    /// Id and length of the longest prefix of `letters` in the vocabulary.
    fn longest(&self, letters: &[u8], is_continuation: bool) -> Option<(u32, usize)> {
        let mut hashes = [0u64; WORD_BYTES_MAX];
        let mut hash = seed(is_continuation);
        let longest = letters.len().min(self.longest);
        for (slot, byte) in hashes[..longest].iter_mut().zip(letters) {
            hash = mix(hash, *byte);
            *slot = hash;
        }
        (1..=longest)
            .rev()
            .find_map(|len| self.find(&letters[..len], is_continuation, hashes[len - 1]).map(|id| (id, len)))
    }

    fn find(&self, spelling: &[u8], is_continuation: bool, hash: u64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if slot >> 32 == hash >> 32 {
                let id = slot as u32 - 1;
                let (start, len, continues) = self.spellings[id as usize];
                let same = continues == is_continuation && usize::from(len) == spelling.len();
                if same && &self.text[start as usize..][..spelling.len()] == spelling {
                    return Some(id);
                }
            }
            at = (at + 1) & mask;
        }
    }
}

fn seed(is_continuation: bool) -> u64 {
    if is_continuation { 0x9e37_79b9_7f4a_7c15 } else { 0xcbf2_9ce4_8422_2325 }
}

/// One step of a multiplicative hash that mixes upper and lower halves.
fn mix(hash: u64, byte: u8) -> u64 {
    let product = (hash ^ u64::from(byte)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    product ^ product >> 29
}

#[derive(Deserialize)]
struct File {
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<Kind>,
    post_processor: Option<Template>,
    model: Vocabulary,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    clean_text: bool,
    #[serde(default)]
    lowercase: bool,
}

#[derive(Deserialize)]
struct Template {
    #[serde(default)]
    single: Vec<Piece>,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(rename = "SpecialToken")]
    special: Option<PieceId>,
}

impl Piece {
    fn special(&self) -> Option<&str> {
        self.special.as_ref().map(|piece| piece.id.as_str())
    }
}

#[derive(Deserialize)]
struct PieceId {
    id: String,
}

#[derive(Deserialize)]
struct Vocabulary {
    #[serde(rename = "type")]
    kind: String,
    vocab: std::collections::HashMap<String, u32>,
    #[serde(default)]
    unk_token: String,
    #[serde(default)]
    continuing_subword_prefix: String,
    #[serde(default)]
    max_input_chars_per_word: usize,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}
