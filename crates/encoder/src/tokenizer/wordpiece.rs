//! WordPiece for the tokenizers of the BERT family.
//!
//! Normalises a text, splits it at white space and around punctuation, and splits each word from the left into the longest pieces of the
//! vocabulary. The vocabulary is an open-addressing hash table. One pass over the remaining bytes computes the hashes of all their
//! prefixes; these are looked up from the longest down, so that a common word takes one probe.
//!
//! Words of ASCII are read where they stand. The characters of all others are normalised one by one, each with the bytes of the text that
//! it comes from.

use std::ops::{ControlFlow, Range};

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::{PostProcessor as _, PostProcessorWrapper};

use super::Encoded;
use super::bert::{Normalizer, Role, is_punctuation};
use super::file::{AddedToken, File, Piece, PostProcessor};
use super::pair::Template;
use super::table::Table;
use crate::config::SIZE_MAX;

/// A longer word becomes the unknown token, as in the original implementation (`max_input_chars_per_word`).
pub(super) const WORD_CHARS_MAX: usize = 100;

/// A BERT tokenizer.
pub(super) struct WordPiece {
    table: Table,
    normalizer: Normalizer,
    cls: u32,
    sep: u32,
    unknown: u32,
    largest: u32,
    special: SpecialTokens,
    pair: Template,
}

/// Why the tokens of a text end.
enum End {
    /// No more of them are asked for.
    Enough,
    /// The text needs the reference.
    Reference,
}

impl WordPiece {
    /// The tokenizer of a `tokenizer.json`; `None` when this module does not implement its kind.
    pub(super) fn from_json(json: &[u8]) -> Option<WordPiece> {
        let file: File = serde_json::from_slice(json).ok()?;
        let (normalizer, model) = (file.normalizer?, file.model);
        let is_bert = normalizer.kind == "BertNormalizer"
            && normalizer.clean_text
            && file.pre_tokenizer?.kind == "BertPreTokenizer"
            && model.kind == "WordPiece"
            && model.continuing_subword_prefix == "##"
            && model.max_input_chars_per_word == WORD_CHARS_MAX;
        if !is_bert {
            return None;
        }
        let post_processor: PostProcessor = serde_json::from_value(file.post_processor.clone()).ok()?;
        let single: Vec<&str> = post_processor.single.iter().filter_map(Piece::special).collect();
        let (["[CLS]", "[SEP]"], 3) = (single.as_slice(), post_processor.single.len()) else { return None };
        let wrapper: PostProcessorWrapper = serde_json::from_value(file.post_processor).ok()?;
        let id = |token: &str| model.vocab.get(token).copied();
        let largest = model.vocab.values().copied().chain(file.added_tokens.iter().map(|t| t.id)).max()?;
        if largest as usize >= SIZE_MAX {
            return None; // the table has an entry for every id up to `largest`
        }
        Some(WordPiece {
            table: Table::new(&model.vocab)?,
            cls: id("[CLS]")?,
            sep: id("[SEP]")?,
            unknown: id(&model.unk_token)?,
            largest,
            normalizer: Normalizer {
                is_lowercase: normalizer.lowercase,
                strips_accents: normalizer.strip_accents.unwrap_or(normalizer.lowercase),
                separates_ideographs: normalizer.handle_chinese_chars,
            },
            special: SpecialTokens::new(&file.added_tokens, id)?,
            pair: Template::of(|a, b| wrapper.process(a, Some(b), true))?,
        })
    }

    /// The largest token id.
    pub(super) fn largest_id(&self) -> u32 {
        self.largest
    }

    /// The special tokens around two texts.
    pub(super) fn pair(&self) -> &Template {
        &self.pair
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

    /// Appends up to `limit` ids of `text`, without special tokens. Returns whether there are more; `None` if the text needs the
    /// reference, which leaves some ids appended.
    pub(super) fn push_ids(&self, text: &str, limit: usize, ids: &mut Vec<u32>) -> Option<bool> {
        let mut count = 0usize;
        self.each_token(text, |id, _| {
            count += 1;
            if count > limit {
                return ControlFlow::Break(End::Enough);
            }
            ids.push(id);
            ControlFlow::Continue(())
        })?;
        Some(count > limit)
    }

    /// The byte spans of the tokens of `text`; `None` when the text needs the reference.
    pub(super) fn spans(&self, text: &str) -> Option<Vec<Range<usize>>> {
        let mut spans: Vec<Range<usize>> = Vec::with_capacity(text.len() / 3);
        self.each_token(text, |_, span| {
            spans.push(span);
            ControlFlow::Continue(())
        })?;
        Some(spans)
    }

    /// Calls `on_token` with id and span of each token until it breaks; `None` when the text needs the reference.
    fn each_token(
        &self,
        text: &str,
        mut on_token: impl FnMut(u32, Range<usize>) -> ControlFlow<End>,
    ) -> Option<()> {
        match self.try_each_token(text, &mut on_token) {
            ControlFlow::Break(End::Reference) => None,
            ControlFlow::Break(End::Enough) | ControlFlow::Continue(()) => Some(()),
        }
    }

    fn try_each_token(&self, text: &str, on_token: &mut impl OnToken) -> ControlFlow<End> {
        let mut word = Word::default();
        let mut done = 0;
        for (token, span) in self.special.find(text) {
            self.words(text, done..span.start, &mut word, on_token)?;
            done = span.end;
            match token {
                Some(id) => on_token(id, span)?,
                None => return ControlFlow::Break(End::Reference),
            }
        }
        self.words(text, done..text.len(), &mut word, on_token)
    }

    /// The tokens of the words within `range` of `text`.
    fn words(
        &self,
        text: &str,
        range: Range<usize>,
        word: &mut Word,
        on_token: &mut impl OnToken,
    ) -> ControlFlow<End> {
        let bytes = &text.as_bytes()[..range.end];
        let mut lower = [0u8; WORD_CHARS_MAX];
        let mut at = range.start;
        while let Some(first) = bytes.get(at) {
            if is_blank(*first) {
                at += 1;
                continue;
            }
            let start = at;
            if first.is_ascii_punctuation() {
                at += 1;
            } else {
                at += bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
                if bytes.get(at).is_some_and(|next| !is_plain(*next)) {
                    at = self.word_of_any_chars(text, start..range.end, word, on_token)?;
                    continue;
                }
            }
            let Some(lower) = lower.get_mut(..at - start) else {
                on_token(self.unknown, start..at)?;
                continue;
            };
            lower.copy_from_slice(&bytes[start..at]);
            if self.normalizer.is_lowercase {
                lower.make_ascii_lowercase();
            }
            self.pieces(lower, &mut |id, piece: Range<usize>| {
                on_token(id, start + piece.start..start + piece.end)
            })?;
        }
        ControlFlow::Continue(())
    }

    /// The tokens of the word that starts at `range`, and of punctuation that ends it. Returns where it ends.
    fn word_of_any_chars(
        &self,
        text: &str,
        range: Range<usize>,
        word: &mut Word,
        on_token: &mut impl OnToken,
    ) -> ControlFlow<End, usize> {
        let mut normalised = Vec::new();
        for (at, c) in text[range.clone()].char_indices() {
            let source = range.start + at..range.start + at + c.len_utf8();
            let role = self.normalizer.role(c);
            let mut is_end = role == Role::Space;
            normalised.clear();
            if matches!(role, Role::Letter | Role::Ideograph)
                && !self.normalizer.each_char(c, |c| normalised.push(c))
            {
                return ControlFlow::Break(End::Reference);
            }
            for c in &normalised {
                let is_alone = role == Role::Ideograph || is_punctuation(*c);
                if is_alone {
                    self.flush(word, on_token)?;
                }
                word.push(*c, &source);
                if is_alone {
                    self.flush(word, on_token)?;
                }
                is_end |= is_alone;
            }
            if is_end {
                self.flush(word, on_token)?;
                return ControlFlow::Continue(source.end);
            }
        }
        self.flush(word, on_token)?;
        ControlFlow::Continue(range.end)
    }

    /// The tokens of `word`, which is empty then.
    fn flush(&self, word: &mut Word, on_token: &mut impl OnToken) -> ControlFlow<End> {
        let Some(span) = word.span() else { return ControlFlow::Continue(()) };
        let flow = if word.chars > WORD_CHARS_MAX {
            on_token(self.unknown, span)
        } else {
            self.pieces(word.text.as_bytes(), &mut |id, piece| on_token(id, word.source(piece)))
        };
        word.clear();
        flow
    }

    /// Calls `on_token` with each piece of a normalised word, and its place there.
    fn pieces(&self, word: &[u8], on_token: &mut impl OnToken) -> ControlFlow<End> {
        let mut found = [(0u32, 0usize); WORD_CHARS_MAX];
        let (mut count, mut from) = (0, 0);
        while from < word.len() {
            let Some((id, len)) = self.table.longest(&word[from..], from > 0) else {
                return on_token(self.unknown, 0..word.len());
            };
            from += len;
            found[count] = (id, from);
            count += 1;
        }
        let mut from = 0;
        found[..count].iter().try_for_each(|(id, end)| {
            let piece = from..*end;
            from = *end;
            on_token(*id, piece)
        })
    }
}

/// Receives id and place of each token.
trait OnToken: FnMut(u32, Range<usize>) -> ControlFlow<End> {}

impl<F: FnMut(u32, Range<usize>) -> ControlFlow<End>> OnToken for F {}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether normalisation changes nothing about a byte but its case.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') || is_blank(byte)
}

/// A normalised word, and where its characters come from.
#[derive(Default)]
struct Word {
    /// The first characters of a word that is too long.
    text: String,
    chars: usize,
    /// For each byte of `text`, the bytes of the source.
    sources: Vec<Range<usize>>,
    /// The end of the last character.
    end: usize,
}

impl Word {
    fn push(&mut self, c: char, source: &Range<usize>) {
        self.chars += 1;
        self.end = source.end;
        if self.chars <= WORD_CHARS_MAX {
            self.text.push(c);
            self.sources.resize(self.text.len(), source.clone());
        }
    }

    /// The bytes of the source; `None` for an empty word.
    fn span(&self) -> Option<Range<usize>> {
        self.sources.first().map(|first| first.start..self.end)
    }

    /// The bytes of the source that a piece of the word comes from.
    fn source(&self, piece: Range<usize>) -> Range<usize> {
        self.sources[piece.start].start..self.sources[piece.end - 1].end
    }

    fn clear(&mut self) {
        self.text.clear();
        self.sources.clear();
        self.chars = 0;
    }
}

/// The spellings of special tokens, which are matched anywhere in a text before it is normalised.
struct SpecialTokens {
    spellings: AhoCorasick,
    /// The id of each; `None` if only the reference supports the token.
    ids: Vec<Option<u32>>,
}

impl SpecialTokens {
    /// `None` when one is empty or is matched in the normalised text. `id` is that of an entry of the vocabulary.
    fn new(tokens: &[AddedToken], id: impl Fn(&str) -> Option<u32>) -> Option<SpecialTokens> {
        if tokens.iter().any(|token| token.normalized || token.content.is_empty()) {
            return None;
        }
        let known = |token: &AddedToken| {
            let has_rules = token.single_word || token.lstrip || token.rstrip;
            let is_plain = !has_rules && !token.content.contains(char::is_whitespace);
            is_plain.then(|| id(&token.content)).flatten()
        };
        let spellings = tokens.iter().map(|token| token.content.as_str());
        Some(SpecialTokens {
            spellings: AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(spellings).ok()?,
            ids: tokens.iter().map(known).collect(),
        })
    }

    /// Id and span of each that `text` has.
    fn find(&self, text: &str) -> impl Iterator<Item = (Option<u32>, Range<usize>)> {
        self.spellings.find_iter(text).map(|found| (self.ids[found.pattern().as_usize()], found.range()))
    }
}
