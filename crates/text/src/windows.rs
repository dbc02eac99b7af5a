//! Chunks of a fixed number of sentences, or of tokens.

use std::collections::VecDeque;
use std::ops::Range;

use crate::chunk::{Chunking, TokenOffsets, chunk_long, for_each_block};
use crate::segment::{Border, Segment, gap_border};
use crate::table::tables;
use crate::unit::{Tokens, Unit, push_word_parts};

/// Windows of tokens end between words; a word of more tokens is divided between them, as are scripts without blanks.
const WORD_TOKENS_MAX: usize = 8;

/// The text that the next chunk repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Overlap {
    /// The last sentences, whole.
    Sentences(usize),
    /// The last words, up to this many tokens.
    Tokens(usize),
}

/// Chunks of up to `units_max` sentences, or of words if the overlap is counted in tokens, within the limits of `chunking`.
pub(crate) fn windows(
    text: &str,
    chunking: &Chunking,
    units_max: usize,
    overlap: Overlap,
    token_offsets: TokenOffsets<'_>,
) -> Vec<Range<usize>> {
    let mut windows = Windows {
        text,
        limits: Chunking {
            max_tokens: chunking.max_tokens.max(1),
            overlap_tokens: 0,
            max_bytes: chunking.max_bytes.max(4),
        },
        units_max,
        overlap,
        token_offsets,
        units: VecDeque::new(),
        tokens: 0,
        chunked_to: 0,
        chunks: Vec::new(),
    };
    for_each_block(text, &tables(text), |block| windows.push_block(block));
    windows.emit_all();
    windows.chunks
}

struct Windows<'a> {
    text: &'a str,
    limits: Chunking,
    units_max: usize,
    overlap: Overlap,
    token_offsets: TokenOffsets<'a>,
    /// The units that are repeated from the last chunk, then those that are in no chunk yet.
    units: VecDeque<Unit>,
    /// Sum of the tokens of `units`.
    tokens: usize,
    /// The end of the last chunk.
    chunked_to: usize,
    chunks: Vec<Range<usize>>,
}

impl Windows<'_> {
    fn push_block(&mut self, block: &[Segment]) {
        let (Some(first), Some(last)) = (block.first(), block.last()) else { return };
        let tokens = self.tokenize(first.span.start..last.span.end);
        for segment in block {
            match self.overlap {
                Overlap::Sentences(_) => {
                    self.push(unit(segment.span.clone(), segment.border, &tokens), &tokens)
                }
                Overlap::Tokens(_) => self.push_words(segment, &tokens),
            }
        }
    }

    fn push_words(&mut self, segment: &Segment, tokens: &Tokens) {
        let mut at = segment.span.start;
        while at < segment.span.end {
            let rest = &self.text[at..segment.span.end];
            let end = at + rest.find(char::is_whitespace).unwrap_or(rest.len());
            let next = segment.span.end - self.text[end..segment.span.end].trim_start().len();
            let border =
                if next == segment.span.end { segment.border } else { gap_border(&self.text[end..next]) };
            let word = unit(at..end, border, tokens);
            let tokens_max = WORD_TOKENS_MAX.min(self.limits.max_tokens);
            if word.tokens <= tokens_max && word.end - word.start <= self.limits.max_bytes {
                self.push(word, tokens);
            } else {
                let mut parts = Vec::new();
                push_word_parts(self.text, &word, tokens, self.limits.max_bytes, &mut parts);
                parts.into_iter().for_each(|part| self.push(part, tokens));
            }
            at = next;
        }
    }

    /// Adds a unit. One that is too long by itself is split, and not repeated. `tokens` are those of the text around it.
    fn push(&mut self, unit: Unit, tokens: &Tokens) {
        if unit.tokens > self.limits.max_tokens || unit.end - unit.start > self.limits.max_bytes {
            self.emit_all();
            self.units.clear();
            self.tokens = 0;
            return self.split(&unit, tokens);
        }
        while !self.fits(&unit) {
            self.emit();
        }
        self.tokens += unit.tokens;
        self.units.push_back(unit);
    }

    fn fits(&self, unit: &Unit) -> bool {
        let Some(first) = self.units.front() else { return true };
        self.units.len() < self.units_max
            && self.tokens + unit.tokens <= self.limits.max_tokens
            && unit.end - first.start <= self.limits.max_bytes
    }

    /// Makes a chunk of the first units, as many as are within the limits, unless an earlier chunk has all of them; keeps those that the
    /// next chunk repeats.
    fn emit(&mut self) {
        let (Some(first), Some(last)) = (self.units.front(), self.units.back()) else { return };
        if last.end <= self.chunked_to {
            self.tokens -= first.tokens;
            self.units.pop_front();
            return;
        }
        let (start, mut count) = (first.start, self.units.len());
        loop {
            let span = start..self.units[count - 1].end;
            if count == 1 && span.end <= self.chunked_to {
                break;
            }
            let tokens = self.tokenize(span.clone());
            if tokens.len() <= self.limits.max_tokens && span.len() <= self.limits.max_bytes {
                if span.end > self.chunked_to {
                    self.chunked_to = span.end;
                    self.chunks.push(span);
                }
                break;
            }
            if count == 1 {
                // by itself it has more tokens than in the text around it
                let unit = self.units[0].clone();
                self.split(&unit, &tokens);
                break;
            }
            count = (count * self.limits.max_tokens / tokens.len().max(1)).clamp(1, count - 1);
        }
        let dropped = (count - self.repeated(count)).max(1);
        self.tokens -= self.units.drain(..dropped).map(|unit| unit.tokens).sum::<usize>();
    }

    /// Makes chunks of all units that are in none.
    fn emit_all(&mut self) {
        while self.units.back().is_some_and(|last| last.end > self.chunked_to) {
            self.emit();
        }
    }

    /// Makes chunks of one unit, whose tokens are among `tokens`.
    fn split(&mut self, unit: &Unit, tokens: &Tokens) {
        self.chunked_to = unit.end;
        let part = Segment { span: unit.start..unit.end, border: unit.border };
        self.chunks.extend(chunk_long(self.text, part, tokens, &self.limits, self.token_offsets));
    }

    /// How many of the first `count` units the next chunk repeats.
    fn repeated(&self, count: usize) -> usize {
        let mut tokens = 0;
        match self.overlap {
            // what was too long for a chunk is not repeated
            _ if count == 1 => 0,
            Overlap::Sentences(sentences) => sentences,
            Overlap::Tokens(most) => {
                let last = self.units.range(..count).rev();
                let fitting = last.take_while(|unit| {
                    tokens += unit.tokens;
                    tokens <= most
                });
                fitting.count()
            }
        }
        .min(count - 1)
    }

    fn tokenize(&mut self, span: Range<usize>) -> Tokens {
        let start = span.start;
        Tokens::new((self.token_offsets)(&self.text[span]), start)
    }
}

fn unit(span: Range<usize>, border: Border, tokens: &Tokens) -> Unit {
    Unit { start: span.start, end: span.end, tokens: tokens.within(span.start, span.end).len(), border }
}
