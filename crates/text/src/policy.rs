//! Policies by which documents are split into chunks.

use std::ops::Range;

use crate::chunk::{Chunking, TokenOffsets, chunk};
use crate::headings::sections;
use crate::pages::PageMap;
use crate::windows::{Overlap, windows};

/// Where chunks begin and end. The limits of [`Chunking`] hold in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As many sentences as fit, up to the strongest border: see [`chunk`].
    #[default]
    Tokens,
    /// Up to `max` sentences or rows, of which the next chunk repeats the last `overlap`. Ignores `overlap_tokens`.
    Sentences {
        /// Most sentences of a chunk; at least 1.
        max: usize,
        /// Sentences that the next chunk repeats; less than `max`.
        overlap: usize,
    },
    /// Sections below Markdown headings, each split like [`Policy::Tokens`]. No chunk has parts of two sections.
    Headings,
    /// Pages, each split like [`Policy::Tokens`]. No chunk has parts of two pages. A text without pages is one page.
    Pages,
    /// Windows of `max_tokens`, each beginning `overlap_tokens` before the end of the one before. They end between words, wherever that is.
    Fixed,
    /// The whole text. A text beyond the limits is split like [`Policy::Tokens`], without overlap.
    None,
}

/// The chunks of a document as byte spans, in order of start and of end. What is said of [`chunk`] holds for each policy.
pub fn split(
    text: &str,
    pages: Option<&PageMap>,
    policy: Policy,
    chunking: &Chunking,
    token_offsets: TokenOffsets<'_>,
) -> Vec<Range<usize>> {
    match policy {
        Policy::Tokens => chunk(text, chunking, token_offsets),
        Policy::Sentences { max, overlap } => {
            windows(text, chunking, max.max(1), Overlap::Sentences(overlap), token_offsets)
        }
        Policy::Headings => split_parts(text, sections(text), chunking, token_offsets),
        Policy::Pages => split_parts(text, pages_of(text, pages), chunking, token_offsets),
        Policy::Fixed => {
            windows(text, chunking, usize::MAX, Overlap::Tokens(chunking.overlap_tokens), token_offsets)
        }
        Policy::None => chunk(text, &Chunking { overlap_tokens: 0, ..chunking.clone() }, token_offsets),
    }
}

/// The chunks of each part by itself.
fn split_parts(
    text: &str,
    parts: Vec<Range<usize>>,
    chunking: &Chunking,
    token_offsets: TokenOffsets<'_>,
) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    for part in parts {
        let start = part.start;
        let of_part = chunk(&text[part], chunking, token_offsets);
        chunks.extend(of_part.into_iter().map(|span| start + span.start..start + span.end));
    }
    chunks
}

/// The pages as spans that tile the text; ends that are no offsets of characters are passed over.
fn pages_of(text: &str, pages: Option<&PageMap>) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    for (end, _, _) in pages.into_iter().flat_map(PageMap::ends) {
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        if end > start && text.is_char_boundary(end) {
            spans.push(start..end);
            start = end;
        }
    }
    if start < text.len() {
        spans.push(start..text.len());
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One token per word.
    fn words(text: &str) -> Vec<Range<usize>> {
        let start_of = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
        text.split_whitespace().map(|word| start_of(word)..start_of(word) + word.len()).collect()
    }

    #[track_caller]
    fn check(text: &str, ends: &[u64], policy: Policy, (max, overlap): (usize, usize), expected: &[&str]) {
        let pages = PageMap::new(ends.iter().map(|end| (*end, None, false)));
        let chunking = Chunking { max_tokens: max, overlap_tokens: overlap, max_bytes: 8192 };
        let spans = split(text, pages.as_ref(), policy, &chunking, &mut words);
        let found: Vec<&str> = spans.into_iter().map(|span| &text[span]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn no_chunk_has_parts_of_two_pages() {
        let text = "One two. Three four.\u{c}Five six. Seven.";
        check(text, &[21, 37], Policy::Pages, (100, 8), &["One two. Three four.", "Five six. Seven."]);
        check(text, &[21, 37], Policy::Pages, (3, 0), &["One two.", "Three four.", "Five six. Seven."]);
        // page ends that are no places in the text, and empty pages
        check(
            text,
            &[0, 8, 8, 5, 999],
            Policy::Pages,
            (100, 8),
            &["One two.", "Three four.\u{c}Five six. Seven."],
        );
        check(text, &[], Policy::Pages, (100, 8), &["One two. Three four.\u{c}Five six. Seven."]);
    }

    #[test]
    fn no_chunk_has_parts_of_two_sections() {
        let text = "Before.\n\n# A\n\nOne two.\n\n## B\n\nThree.\n\nFour five six.\n\n# C\n";
        let sections = ["Before.", "# A\n\nOne two.", "## B\n\nThree.\n\nFour five six.", "# C"];
        check(text, &[], Policy::Headings, (100, 8), &sections);
        let split = ["Before.", "# A\n\nOne two.", "## B\n\nThree.", "Four five six.", "# C"];
        check(text, &[], Policy::Headings, (4, 0), &split);
    }

    #[test]
    fn a_text_is_whole_unless_it_exceeds_the_limit() {
        let text = "One two.\n\n# Three\n\nFour five.";
        check(text, &[8, 29], Policy::None, (6, 3), &[text]);
        check(text, &[], Policy::None, (4, 2), &["One two.\n\n# Three", "Four five."]);
        check(" \n", &[], Policy::None, (4, 2), &[]);
    }

    #[test]
    fn sentences_are_counted() {
        let policy = |max, overlap| Policy::Sentences { max, overlap };
        let text = "A b. C d.\n\nE f. G h. I j.";
        check(text, &[], policy(2, 0), (100, 0), &["A b. C d.", "E f. G h.", "I j."]);
        check(text, &[], policy(2, 1), (100, 0), &["A b. C d.", "C d.\n\nE f.", "E f. G h.", "G h. I j."]);
        check(text, &[], policy(1, 0), (100, 0), &["A b.", "C d.", "E f.", "G h.", "I j."]);
        check(text, &[], policy(9, 8), (100, 0), &[text]);
        // the limit of tokens ends a chunk earlier, and one sentence is repeated only if the next fits beside it
        check(text, &[], policy(3, 1), (4, 0), &["A b. C d.", "C d.\n\nE f.", "E f. G h.", "G h. I j."]);
        check("A b c. D e. F g.", &[], policy(3, 1), (4, 0), &["A b c.", "D e. F g."]);
        check("A b c d e f. G.", &[], policy(3, 1), (4, 2), &["A b c d", "e f.", "G."]);
        check("a\tb\n1\t2\n3\t4\n5\t6", &[], policy(2, 0), (9, 0), &["a\tb\n1\t2", "3\t4\n5\t6"]);
    }

    #[test]
    fn windows_have_the_size_and_the_overlap_that_is_asked_for() {
        let text = "A b. C d e.\n\nF g h i.";
        check(text, &[], Policy::Fixed, (4, 0), &["A b. C d", "e.\n\nF g h", "i."]);
        check(
            text,
            &[],
            Policy::Fixed,
            (4, 3),
            &["A b. C d", "b. C d e.", "C d e.\n\nF", "d e.\n\nF g", "e.\n\nF g h", "F g h i."],
        );
        check(text, &[], Policy::Fixed, (99, 3), &[text]);
    }
}
