//! Properties of the chunks of any text, with several tokenizers.

#![allow(clippy::disallowed_methods, reason = "a test of the time that chunking takes")]

use proptest::prelude::*;
use std::ops::Range;
use std::time::{Duration, Instant};
use weir_text::{Chunking, PageMap, Policy, chunk, heading_trails, split};

type CountTokens = fn(&str) -> Vec<Range<usize>>;

/// One token per run of letters and digits and per other character except spaces, similar to BERT.
fn wordlike(text: &str) -> Vec<Range<usize>> {
    let mut tokens: Vec<Range<usize>> = Vec::new();
    let mut in_word = false;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        match tokens.last_mut() {
            Some(last) if in_word && c.is_ascii_alphanumeric() => last.end = end,
            _ if c.is_whitespace() => {}
            _ => tokens.push(at..end),
        }
        in_word = c.is_ascii_alphanumeric();
    }
    tokens
}

/// Three-byte pieces of words, as from a byte-pair tokenizer: not on character boundaries, and different when a word is
/// split.
fn bytepieces(text: &str) -> Vec<Range<usize>> {
    let start_of = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let pieces = |word: &str| {
        let (start, end) = (start_of(word), start_of(word) + word.len());
        (start..end).step_by(3).map(move |at| at..(at + 3).min(end)).collect::<Vec<_>>()
    };
    text.split_whitespace().flat_map(pieces).collect()
}

fn characters(text: &str) -> Vec<Range<usize>> {
    text.char_indices().map(|(at, c)| at..at + c.len_utf8()).collect()
}

fn nothing(_: &str) -> Vec<Range<usize>> {
    Vec::new()
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        "[a-z]{1,12}( [a-z]{1,12}){0,9}",
        "[A-Z][a-z]{1,9}[.!?] ",
        "[一-丕]{1,30}。",
        Just("\n\n".to_owned()),
        Just("\r\n".to_owned()),
        Just(" \u{3000}\t".to_owned()),
        Just("é".repeat(60)),
        Just("Dr. e.g. ... ?!) ".to_owned()),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn assert_sound(text: &str, chunking: &Chunking, mut count: CountTokens) -> Vec<Range<usize>> {
    let chunks = chunk(text, chunking, &mut count);
    assert_are_sound(&chunks, text, chunking, count);
    chunks
}

fn assert_are_sound(chunks: &[Range<usize>], text: &str, chunking: &Chunking, count: CountTokens) {
    let mut covered = 0;
    let mut last: Range<usize> = 0..0;
    for (at, span) in chunks.iter().enumerate() {
        let piece = text.get(span.clone()).unwrap_or_else(|| panic!("{span:?} is no span of {text:?}"));
        assert!(!piece.is_empty() && piece.trim() == piece, "{piece:?} is not trimmed");
        assert!(
            at == 0 || (span.start > last.start && span.end > last.end),
            "{last:?} then {span:?} in {text:?}"
        );
        assert!(piece.len() <= chunking.max_bytes.max(4), "{} bytes in {text:?}", piece.len());
        let tokens = count(piece).len();
        let may_be_longer = piece.chars().count() == 1;
        assert!(
            tokens <= chunking.max_tokens.max(1) || may_be_longer,
            "{tokens} tokens in {piece:?} of {text:?}"
        );
        if span.start > covered {
            assert_eq!(text[covered..span.start].trim(), "", "left out before {span:?}");
        }
        covered = span.end;
        last = span.clone();
    }
    assert_eq!(text[covered..].trim(), "", "left out at the end");
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        (1..6usize, 0..6usize).prop_map(|(max, overlap)| Policy::Sentences { max, overlap }),
        Just(Policy::Headings),
        Just(Policy::Pages),
        Just(Policy::Fixed),
        Just(Policy::None),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_cover_the_text_within_the_limits(
        text in text(),
        max_tokens in 0..60usize,
        overlap_tokens in 0..40usize,
        max_bytes in prop_oneof![0..40usize, 100..9000usize],
        count in prop::sample::select(vec![wordlike as CountTokens, bytepieces, characters, nothing]),
    ) {
        let chunking = Chunking { max_tokens, overlap_tokens, max_bytes };
        let chunks = assert_sound(&text, &chunking, count);
        prop_assert_eq!(chunks, chunk(&text, &chunking, &mut { count }), "a second time");
    }

    #[test]
    fn each_policy_covers_the_text_within_the_limits(
        parts in prop::collection::vec((text(), prop::sample::select(vec!["", "# A\n", "\n## B b\n\n", "~~~\n", "C\n===\n"])), 0..6),
        ends in prop::collection::vec(0..400u64, 0..9),
        policy in policy(),
        max_tokens in 0..60usize,
        overlap_tokens in 0..60usize,
        max_bytes in prop_oneof![0..40usize, 100..9000usize],
        count in prop::sample::select(vec![wordlike as CountTokens, bytepieces, characters, nothing]),
    ) {
        let text: String = parts.into_iter().map(|(text, heading)| text + heading).collect();
        let pages = PageMap::new(ends.into_iter().map(|end| (end, None, false)));
        let chunking = Chunking { max_tokens, overlap_tokens, max_bytes };
        let chunks = split(&text, pages.as_ref(), policy, &chunking, &mut { count });
        assert_are_sound(&chunks, &text, &chunking, count);
        let trails = heading_trails(&text, &chunks);
        prop_assert_eq!(trails.len(), chunks.len());
        for (trail, chunk) in trails.iter().zip(&chunks) {
            prop_assert!(trail.is_sorted_by_key(|words| words.start) && trail.len() <= 6);
            prop_assert!(trail.last().is_none_or(|words| words.end <= chunk.start), "{:?} of {:?} in {:?}", trail, chunk, text);
        }
    }

    #[test]
    fn invalid_token_spans_still_yield_chunks(text in text(), seed in any::<usize>(), max_tokens in 1..9usize) {
        let mut state = seed;
        let mut nonsense = |text: &str| {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % (2 * text.len() + 9)
            };
            (0..next() % 50).map(|_| next()..next()).collect()
        };
        let chunks = chunk(&text, &Chunking { max_tokens, overlap_tokens: 2, max_bytes: 64 }, &mut nonsense);
        prop_assert_eq!(chunks.is_empty(), text.trim().is_empty());
        for span in chunks {
            prop_assert!(text.get(span).is_some_and(|piece| !piece.is_empty() && piece.trim() == piece));
        }
    }
}

#[test]
fn the_big_list_of_naughty_strings_is_chunked() {
    let strings: Vec<String> = serde_json::from_str(include_str!("data/blns.json")).unwrap();
    let all = strings.join("\n");
    for count in [wordlike as CountTokens, bytepieces, characters, nothing] {
        assert_sound(&all, &Chunking::default(), count);
        for text in &strings {
            assert_sound(text, &Chunking { max_tokens: 7, overlap_tokens: 3, max_bytes: 40 }, count);
        }
    }
}

#[test]
fn a_hundred_thousand_characters_without_a_space_are_split_at_the_byte_limit() {
    for letter in ["a", "é", "漢", "😀", "\0"] {
        let text = letter.repeat(100_000);
        let whole_word: CountTokens = |text| std::iter::once(0..text.len()).collect();
        let chunks = assert_sound(&text, &Chunking::default(), whole_word);
        assert!(chunks.len() <= text.len() / 5000, "{letter}: {} chunks", chunks.len());
        assert_sound(&text, &Chunking::default(), characters);
    }
}

/// The tokenizer receives pieces of bounded length, in total a small multiple of the text.
#[test]
fn five_megabytes_are_tokenized_in_bounded_pieces_and_linear_time() {
    let shapes = [
        "The quick brown fox jumps over the lazy dog. ".repeat(20) + "\n\n",
        "word ".to_owned(),
        "a. ".to_owned(),
        "\n".to_owned(),
        "x".to_owned(),
        "漢字。".to_owned(),
        "line\n".to_owned(),
        "a ".to_owned() + &" ".repeat(9000),
    ];
    for shape in shapes {
        let text = shape.repeat(5_000_000 / shape.len());
        let (mut seen, mut longest) = (0, 0);
        let started = Instant::now();
        let mut count = |piece: &str| {
            seen += piece.len();
            longest = longest.max(piece.len());
            wordlike(piece)
        };
        let chunks = chunk(&text, &Chunking::default(), &mut count);
        let took = started.elapsed();
        for policy in [Policy::Fixed, Policy::Sentences { max: 5, overlap: 1 }, Policy::Headings] {
            let started = Instant::now();
            let mut seen = 0;
            let mut count = |piece: &str| {
                seen += piece.len();
                wordlike(piece)
            };
            split(&text, None, policy, &Chunking::default(), &mut count);
            let took = started.elapsed();
            assert!(
                seen <= 4 * text.len() && took < Duration::from_secs(5),
                "{policy:?}: {took:?}, {seen} bytes"
            );
        }
        let shape: String = shape.chars().take(12).collect();
        println!(
            "{shape:?}: {} chunks, {took:?}, {:.1} bytes tokenized per byte",
            chunks.len(),
            seen as f64 / 5e6
        );
        assert!(longest <= 16 * 1024, "{shape:?}: a piece of {longest} bytes");
        assert!(seen <= 3 * text.len(), "{shape:?}: {seen} bytes tokenized");
        assert!(took < Duration::from_secs(5), "{shape:?}: {took:?}");
    }
}
