//! Splits a document into chunks: the pieces that are embedded, ranked and cited.
//!
//! Sentences are packed until the next one does not fit. The chunk then ends at the strongest border within the second
//! half of the packed sentences. The last sentences are repeated at the start of the next chunk, so that a passage
//! across the end of a chunk is complete in one of the two. A row of a table counts as a sentence.

use crate::segment::{Border, SEGMENT_BYTES_MAX, Segment, gap_border, segments};
use crate::table::{Table, tables};
use crate::unit::{Tokens, Unit, UnitLimits, halves, push_units};
use std::ops::Range;

/// How the documents of a collection are split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunking {
    /// Maximum tokens of a chunk, without special tokens; at least 1. Should not exceed the model's input limit less its special tokens.
    pub max_tokens: usize,
    /// Approximate number of tokens that are repeated in the next chunk; at most half of `max_tokens`.
    pub overlap_tokens: usize,
    /// Maximum bytes of a chunk; at least 4, so that any character fits. Limits chunks with long tokens: some models map
    /// 100,000 characters without a space to one token.
    pub max_bytes: usize,
}

impl Default for Chunking {
    fn default() -> Chunking {
        Chunking { max_tokens: 200, overlap_tokens: 32, max_bytes: 8192 }
    }
}

/// A model's tokenizer: returns the byte spans of the tokens of a text, in order, without special tokens.
pub type TokenOffsets<'a> = &'a mut dyn FnMut(&str) -> Vec<Range<usize>>;

/// The chunks of a document as byte spans, in order of start and of end.
///
/// A chunk begins and ends with a character that is not white space, and every such character is in at least one chunk. A document of only
/// white space has no chunks. No chunk exceeds the limits of `chunking`, as counted by `token_offsets` on the chunk itself, except a single
/// character of more than `max_tokens` tokens. `token_offsets` receives pieces of at most 16 KiB, or of `max_bytes` if that is more, and
/// every byte of the document about twice.
pub fn chunk(text: &str, chunking: &Chunking, token_offsets: TokenOffsets<'_>) -> Vec<Range<usize>> {
    let tables = tables(text);
    let mut packer = Packer::new(text, &tables, chunking, token_offsets);
    for_each_block(text, &tables, |block| packer.push_block(block));
    packer.finish()
}

/// The chunks of a part of the text that is beyond the limits by itself, without overlap. `tokens` are those of the part.
pub(crate) fn chunk_long(
    text: &str,
    part: Segment,
    tokens: &Tokens,
    chunking: &Chunking,
    token_offsets: TokenOffsets<'_>,
) -> Vec<Range<usize>> {
    let chunking = Chunking { overlap_tokens: 0, ..chunking.clone() };
    let mut packer = Packer::new(text, &[], &chunking, token_offsets);
    packer.push_segments(&[part], tokens);
    packer.finish()
}

/// Calls `take` with the sentences and rows of a text in order, as many at a time as are tokenized in one call.
pub(crate) fn for_each_block(text: &str, tables: &[Table], mut take: impl FnMut(&[Segment])) {
    let mut block: Vec<Segment> = Vec::new();
    for segment in segments_and_rows(text, tables) {
        if block.first().is_some_and(|first| segment.span.end - first.span.start > SEGMENT_BYTES_MAX) {
            take(&block);
            block.clear();
        }
        block.push(segment);
    }
    take(&block);
}

/// The sentences of a text, and the rows of its tables.
fn segments_and_rows<'a>(text: &'a str, tables: &'a [Table]) -> impl Iterator<Item = Segment> + 'a {
    let mut at = 0;
    let pieces = tables.iter().flat_map(move |table| {
        let before = std::mem::replace(&mut at, table.rows.end)..table.rows.start;
        [(before, false), (table.rows.clone(), true)]
    });
    let after = tables.last().map_or(0, |table| table.rows.end)..text.len();
    let segments = pieces.chain([(after, false)]).flat_map(move |(piece, is_table)| {
        let rows = text[piece.clone()].split_inclusive(move |c| is_table && c == '\n').scan(
            piece.start,
            |start, row| {
                let begin = *start;
                *start += row.len();
                Some((begin, row))
            },
        );
        rows.flat_map(move |(begin, row)| {
            segments_of_row(row, is_table).map(move |segment| Segment {
                span: begin + segment.span.start..begin + segment.span.end,
                ..segment
            })
        })
    });
    // the end of a piece is not the end of a paragraph
    segments.map(move |segment| {
        let after = &text[segment.span.end..];
        let gap = &after[..after.len() - after.trim_start().len()];
        let is_cut = segment.border == Border::Paragraph && gap.len() < after.len();
        let border = if is_cut { gap_border(gap).max(Border::Sentence) } else { segment.border };
        Segment { border, ..segment }
    })
}

/// A row as one segment; the sentences of other text, and of a row that is too long.
fn segments_of_row(row: &str, is_table: bool) -> impl Iterator<Item = Segment> + '_ {
    let trimmed = row.trim();
    let is_one = is_table && trimmed.len() <= SEGMENT_BYTES_MAX;
    let start = row.len() - row.trim_start().len();
    let whole = Segment { span: start..start + trimmed.len(), border: Border::Paragraph };
    let whole = Some(whole).filter(|_| is_one && !trimmed.is_empty());
    whole.into_iter().chain(segments(if is_one { "" } else { row }))
}

/// Packs units into chunks.
struct Packer<'a> {
    text: &'a str,
    tables: &'a [Table],
    limits: UnitLimits,
    overlap_tokens: usize,
    token_offsets: TokenOffsets<'a>,
    /// The units that are repeated from the last chunk, then the units that are in no chunk yet.
    units: Vec<Unit>,
    /// Number of repeated units at the start of `units`.
    repeated: usize,
    /// Sum of the tokens of `units`.
    tokens: usize,
    /// The units of the last chunk, and the number of repeated ones among them.
    last: (Vec<Unit>, usize),
    chunks: Vec<Range<usize>>,
}

impl<'a> Packer<'a> {
    fn new(
        text: &'a str,
        tables: &'a [Table],
        chunking: &Chunking,
        token_offsets: TokenOffsets<'a>,
    ) -> Packer<'a> {
        let tokens_max = chunking.max_tokens.max(1);
        Packer {
            text,
            tables,
            limits: UnitLimits { tokens_max, bytes_max: chunking.max_bytes.max(4) },
            overlap_tokens: chunking.overlap_tokens.min(tokens_max / 2),
            token_offsets,
            units: Vec::new(),
            repeated: 0,
            tokens: 0,
            last: (Vec::new(), 0),
            chunks: Vec::new(),
        }
    }

    /// Tokenizes neighbouring sentences in one call and packs them.
    fn push_block(&mut self, block: &[Segment]) {
        let (Some(first), Some(last)) = (block.first(), block.last()) else { return };
        let tokens = self.tokenize(first.span.start..last.span.end);
        self.push_segments(block, &tokens);
    }

    fn push_segments(&mut self, block: &[Segment], tokens: &Tokens) {
        let mut units = Vec::with_capacity(block.len());
        for segment in block {
            push_units(self.text, segment.span.clone(), segment.border, tokens, self.limits, &mut units);
        }
        for unit in units {
            self.push(unit);
        }
    }

    fn push(&mut self, unit: Unit) {
        while !self.fits(&unit) {
            if self.units.len() > self.repeated {
                let cut = self.best_cut();
                self.emit(cut);
            } else if self.repeated > 0 {
                self.drop_first_repeated();
            } else {
                break;
            }
        }
        self.tokens += unit.tokens;
        self.units.push(unit);
    }

    /// Makes chunks of the remaining units. If the last chunk would be small, the last two chunks are balanced.
    fn finish(mut self) -> Vec<Range<usize>> {
        if let Some((joined, repeated, cut)) = self.balanced_end() {
            self.chunks.pop();
            self.set_units(joined, repeated);
            self.emit(cut);
        }
        while self.units.len() > self.repeated {
            let cut = self.best_cut();
            self.emit(if self.is_within_limits(&self.units) { self.units.len() } else { cut });
        }
        self.chunks
    }

    /// The units of the last chunk with the remaining ones, the number of repeated units among them, and the cut at the
    /// strongest border near the middle; `None` if the remaining units fill more than a quarter of a chunk.
    fn balanced_end(&self) -> Option<(Vec<Unit>, usize, usize)> {
        let new = &self.units[self.repeated..];
        let (last, repeated) = &self.last;
        if last.is_empty() || new.is_empty() || tokens_of(new) > self.limits.tokens_max / 4 {
            return None;
        }
        let joined = [last.as_slice(), new].concat();
        let total = tokens_of(&joined);
        let mut left = tokens_of(&joined[..*repeated]);
        let mut best = None;
        for cut in repeated + 1..joined.len() {
            left += joined[cut - 1].tokens;
            let right = total - left + self.overlap_tokens;
            let from_middle = left.abs_diff(right);
            if from_middle <= total / 2
                && right <= self.limits.tokens_max
                && self.is_within_limits(&joined[..cut])
            {
                best = best.max(Some((joined[cut - 1].border, std::cmp::Reverse(from_middle), cut)));
            }
        }
        best.map(|(_, _, cut)| (joined, *repeated, cut))
    }

    /// The number of `units` in the next chunk: up to the last of the strongest borders in its second half, with at least
    /// one unit that is not repeated.
    fn best_cut(&self) -> usize {
        let minimum = self.repeated + 1;
        let (mut fitting, mut tokens) = (minimum, tokens_of(&self.units[..minimum]));
        while fitting < self.units.len() {
            let next = &self.units[fitting];
            tokens += next.tokens;
            if tokens > self.limits.tokens_max || next.end - self.units[0].start > self.limits.bytes_max {
                break;
            }
            fitting += 1;
        }
        let half = tokens_of(&self.units[self.repeated..fitting]) / 2;
        let mut new_tokens = 0;
        let mut best = (Border::Inside, fitting);
        for cut in minimum..=fitting {
            new_tokens += self.units[cut - 1].tokens;
            if new_tokens >= half {
                best = best.max((self.units[cut - 1].border, cut));
            }
        }
        best.1
    }

    /// Makes a chunk of the first `cut` of `units`; of fewer if the tokenizer counts too many tokens for the chunk itself.
    fn emit(&mut self, mut cut: usize) {
        let mut first = 0;
        loop {
            let span = self.units[first].start..self.units[cut - 1].end;
            let tokens = self.tokenize(span.clone());
            if tokens.len() <= self.limits.tokens_max && span.len() <= self.limits.bytes_max {
                break;
            }
            let count = cut - first;
            let share = count * self.limits.tokens_max / tokens.len().max(1);
            if count == 1 {
                if !self.split_unit(first, &tokens) {
                    break;
                }
            } else if cut > self.repeated + 1 {
                cut = (first + share).clamp(self.repeated + 1, cut - 1);
            } else {
                first = self.repeated;
            }
        }
        let remaining = self.units.split_off(cut);
        let chunk = self.units.split_off(first);
        let repeated = self.repeated - first;
        self.chunks.push(chunk[0].start..chunk[chunk.len() - 1].end);
        let mut next = self.overlap(&chunk);
        let repeated_next = next.len();
        next.extend(remaining);
        self.last = (chunk, repeated);
        self.set_units(next, repeated_next);
    }

    /// Replaces a unit by its parts, split at `tokens` or else in its middle; false if it is a single character.
    fn split_unit(&mut self, index: usize, tokens: &Tokens) -> bool {
        let Unit { start, end, border, .. } = self.units[index];
        let mut parts = Vec::new();
        push_units(self.text, start..end, border, tokens, self.limits, &mut parts);
        if parts.len() == 1 {
            parts = halves(self.text, &parts[0], tokens);
        }
        let has_parts = parts.len() > 1;
        self.units.splice(index..=index, parts);
        has_parts
    }

    /// The units of `chunk` that the next chunk repeats: its last units, but never the first, so that chunks advance; or
    /// the last words of the last unit if that is longer than the overlap and no row of a table.
    fn overlap(&mut self, chunk: &[Unit]) -> Vec<Unit> {
        if self.overlap_tokens == 0 {
            return Vec::new();
        }
        let mut tokens = 0;
        let fitting = chunk.iter().skip(1).rev().take_while(|unit| {
            tokens += unit.tokens;
            tokens <= self.overlap_tokens
        });
        let count = fitting.count();
        match chunk.last() {
            Some(last)
                if count == 0 && last.tokens > self.overlap_tokens && !self.is_in_table(last.start) =>
            {
                self.last_words(last).into_iter().collect()
            }
            _ => chunk[chunk.len() - count..].to_vec(),
        }
    }

    /// The last words of a unit with at most `overlap_tokens` tokens; its last tokens if the last word has more.
    fn last_words(&mut self, unit: &Unit) -> Option<Unit> {
        let tokens = self.tokenize(unit.start..unit.end);
        let spans = tokens.within(unit.start, unit.end);
        let tail = &spans[spans.len().saturating_sub(self.overlap_tokens)..];
        let mut starts = tail.iter().map(|token| token.start).filter(|&start| {
            start > unit.start
                && start < unit.end
                && self.text.is_char_boundary(start)
                && !self.is_space_at(start)
        });
        let first = starts.clone().next()?;
        let start = starts.find(|&start| self.text[..start].ends_with(char::is_whitespace)).unwrap_or(first);
        Some(Unit { start, end: unit.end, tokens: tokens.within(start, unit.end).len(), border: unit.border })
    }

    fn is_in_table(&self, at: usize) -> bool {
        let next = self.tables.partition_point(|table| table.rows.end <= at);
        self.tables.get(next).is_some_and(|table| table.rows.start <= at)
    }

    fn drop_first_repeated(&mut self) {
        let dropped = self.units.remove(0);
        self.tokens -= dropped.tokens;
        self.repeated -= 1;
    }

    fn set_units(&mut self, units: Vec<Unit>, repeated: usize) {
        self.tokens = tokens_of(&units);
        self.units = units;
        self.repeated = repeated;
    }

    fn fits(&self, unit: &Unit) -> bool {
        let start = self.units.first().map_or(unit.start, |first| first.start);
        self.tokens + unit.tokens <= self.limits.tokens_max && unit.end - start <= self.limits.bytes_max
    }

    fn is_within_limits(&self, units: &[Unit]) -> bool {
        let (Some(first), Some(last)) = (units.first(), units.last()) else { return true };
        tokens_of(units) <= self.limits.tokens_max && last.end - first.start <= self.limits.bytes_max
    }

    fn is_space_at(&self, at: usize) -> bool {
        self.text[at..].starts_with(char::is_whitespace)
    }

    fn tokenize(&mut self, span: Range<usize>) -> Tokens {
        let start = span.start;
        Tokens::new((self.token_offsets)(&self.text[span]), start)
    }
}

fn tokens_of(units: &[Unit]) -> usize {
    units.iter().map(|unit| unit.tokens).sum()
}

#[cfg(test)]
mod tests {
    use super::{Chunking, chunk};
    use std::ops::Range;

    /// One token per word.
    fn words(text: &str) -> Vec<Range<usize>> {
        let start_of = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        text.split_whitespace().map(|word| start_of(word)..start_of(word) + word.len()).collect()
    }

    /// One token per character, including spaces.
    fn characters(text: &str) -> Vec<Range<usize>> {
        text.char_indices().map(|(at, c)| at..at + c.len_utf8()).collect()
    }

    fn check(
        text: &str,
        (max_tokens, overlap_tokens, max_bytes): (usize, usize, usize),
        mut tokens: fn(&str) -> Vec<Range<usize>>,
        expected: &[&str],
    ) {
        let chunking = Chunking { max_tokens, overlap_tokens, max_bytes };
        let found: Vec<_> = chunk(text, &chunking, &mut tokens).into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_short_document_is_one_chunk_without_the_space_around_it() {
        check("  One two.\n\nThree.  ", (8, 2, 100), words, &["One two.\n\nThree."]);
    }

    #[test]
    fn a_document_of_white_space_has_no_chunks() {
        check("", (8, 2, 100), words, &[]);
        check(" \n\n\t\u{3000} ", (8, 2, 100), words, &[]);
    }

    #[test]
    fn a_chunk_ends_at_a_paragraph_rather_than_a_sentence() {
        check(
            "One two three. Four five six.\n\nSeven eight. Nine ten. Eleven twelve thirteen.",
            (10, 0, 100),
            words,
            &["One two three. Four five six.", "Seven eight. Nine ten. Eleven twelve thirteen."],
        );
    }

    #[test]
    fn a_strong_border_in_the_first_half_is_ignored() {
        check(
            "One.\n\nTwo three four. Five six seven.",
            (6, 0, 100),
            words,
            &["One.\n\nTwo three four.", "Five six seven."],
        );
    }

    #[test]
    fn at_most_half_of_a_chunk_is_repeated() {
        check("a b c d e f", (4, 4, 100), words, &["a b c d", "c d e f"]);
    }

    #[test]
    fn whole_sentences_are_repeated_in_the_next_chunk() {
        check(
            "A b c. D e. F g h. I j k. L m n.",
            (8, 3, 100),
            words,
            &["A b c. D e. F g h.", "F g h. I j k.", "I j k. L m n."],
        );
    }

    #[test]
    fn the_last_words_of_a_sentence_longer_than_the_overlap_are_repeated() {
        check("a b c d e f. G h i j k.", (8, 2, 100), words, &["a b c d e f.", "e f. G h i j k."]);
    }

    #[test]
    fn a_sentence_beyond_the_limit_is_split_between_lines_then_between_words() {
        check("a b c\nd e f g h", (4, 0, 100), words, &["a b c", "d e f", "g h"]);
        check("a b c d e f g h", (4, 1, 100), words, &["a b c d", "d e f", "f g h"]);
    }

    #[test]
    fn chunks_of_a_table_have_whole_rows() {
        let table = "| a. b | c |\n|---|---|\n| d. E | f |\n| g. H | i |\n| j. K | l |\n| m. N | o |";
        check(
            &format!("Of it:\n{table}\nEnd. Of it."),
            (14, 6, 100),
            words,
            &[
                "Of it:\n| a. b | c |\n|---|---|",
                "|---|---|\n| d. E | f |\n| g. H | i |",
                "| g. H | i |\n| j. K | l |",
                "| j. K | l |\n| m. N | o |",
                "| m. N | o |\nEnd. Of it.",
            ],
        );
        check("a\tb\n1\t2\n3\t4\n5\t6", (4, 1, 100), words, &["a\tb\n1\t2", "3\t4\n5\t6"]);
    }

    #[test]
    fn a_small_last_chunk_is_balanced_with_the_one_before() {
        let sentences: Vec<String> = (0..9).map(|n| format!("Word w{n}.")).collect();
        let text = sentences.join(" ");
        check(
            &text,
            (16, 0, 400),
            words,
            &["Word w0. Word w1. Word w2. Word w3. Word w4.", "Word w5. Word w6. Word w7. Word w8."],
        );
    }

    #[test]
    fn a_word_beyond_the_limit_is_split_between_tokens() {
        check("abcdefg hi", (3, 1, 100), characters, &["abc", "cde", "efg", "hi"]);
    }

    #[test]
    fn a_token_beyond_the_byte_limit_is_split_between_characters() {
        let text = "é".repeat(50_000);
        let mut tokens = words;
        let chunks = chunk(&text, &Chunking::default(), &mut tokens);
        assert_eq!(chunks.len(), 13);
        assert_eq!(chunks[0], 0..8192);
        assert_eq!(chunks[12], 98_304..100_000);
    }

    #[test]
    fn a_gap_beyond_the_byte_limit_is_in_no_chunk() {
        let text = format!("One.{}Two.", " ".repeat(20));
        check(&text, (8, 2, 16), words, &["One.", "Two."]);
    }

    #[test]
    fn tokens_of_white_space_are_counted() {
        check("a    b    c", (6, 0, 100), characters, &["a", "b    c"]);
    }

    #[test]
    fn limits_of_zero_still_yield_chunks() {
        check("aé b", (0, 0, 0), characters, &["a", "é", "b"]);
    }
}
