//! Properties of the analysis of any Unicode text in any language.

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;
use weir_text::{Analyser, Language, Token, analyse, highlight, query_terms, snippet};

/// Text in which the special cases of the analyser are frequent.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        "[ -~]{0,8}",
        "[a-z]{1,12}( [a-z]{1,12}){0,3}",
        "[àéßøİıſﬁÅΣς½²Ⅳ]{1,3}",
        "[\u{300}-\u{305}\u{200d}\u{ad}\u{fe0f}ﾞ\u{94d}]{1,3}",
        "[一-丕ぁ-ゖァ-ヺ가-각\u{1100}-\u{1112}\u{1161}-\u{1175}ｱ-ﾝก-๙]{1,4}",
        "[а-яא-תء-يअ-ह]{1,6}",
        Just("'s ".to_owned()),
        Just("x".repeat(70)),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn language() -> impl Strategy<Value = Language> {
    prop::sample::select(Language::all())
}

type Found = Vec<(String, usize, usize)>;

fn tokens(analyser: &mut Analyser, text: &str) -> Found {
    let mut found = Found::new();
    analyser.analyse(text, |token| found.push((token.text.to_owned(), token.start, token.end)));
    found
}

fn terms(text: &str) -> Vec<String> {
    tokens(&mut Analyser::new(Language::English), text).into_iter().map(|(term, _, _)| term).collect()
}

/// Terms are words of the text. Those that stand for their positions are in order; other forms of a compound follow its parts.
fn assert_sound(text: &str, analyser: &mut Analyser) {
    let (mut last_start, mut last_end) = (0, 0);
    analyser.analyse(text, |token| {
        let Token { text: term, start, end, in_sequence, .. } = token;
        assert!(!term.is_empty() && !term.contains(char::is_whitespace), "{term:?} in {text:?}");
        assert!(text.get(start..end).is_some_and(|word| !word.is_empty()), "{start}..{end} in {text:?}");
        if in_sequence {
            assert!(start >= last_start && end >= last_end, "{start}..{end} goes back in {text:?}");
            (last_start, last_end) = (start, end);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tokens_are_words_of_the_text_in_order(text in text(), language in language()) {
        let mut analyser = Analyser::new(language);
        let found = tokens(&mut analyser, &text);
        assert_sound(&text, &mut analyser);
        prop_assert_eq!(&found, &tokens(&mut analyser, &text), "a second time with the same analyser");
    }

    #[test]
    fn texts_joined_by_a_space_have_the_tokens_of_both(left in text(), right in text(), language in language()) {
        let mut analyser = Analyser::new(language);
        let joined = format!("{left} {right}");
        let shift = left.len() + 1;
        let moved = tokens(&mut analyser, &right).into_iter().map(|(term, start, end)| (term, start + shift, end + shift));
        let expected: Found = tokens(&mut analyser, &left).into_iter().chain(moved).collect();
        prop_assert_eq!(tokens(&mut analyser, &joined), expected);
    }

    #[test]
    fn query_terms_are_distinct_and_occur_in_the_query(text in text(), language in language()) {
        let found = tokens(&mut Analyser::new(language), &text);
        let query = query_terms(&text, language, None).terms;
        prop_assert_eq!(query.is_empty(), found.is_empty());
        for (at, term) in query.iter().enumerate() {
            prop_assert!(term.weight > 0.0);
            prop_assert!(found.iter().any(|(found, _, _)| *found == term.text));
            prop_assert!(query[..at].iter().all(|other| other.text != term.text));
        }
    }

    #[test]
    fn highlights_do_not_overlap_and_a_snippet_is_bounded(text in text(), query in text(), max_chars in 0..80usize) {
        let spans = highlight(&text, &query, Language::English);
        for span in &spans {
            prop_assert!(text.get(span.clone()).is_some_and(|word| !word.is_empty()));
        }
        for pair in spans.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        let snippet = snippet(&text, &spans, max_chars);
        let part = text.get(snippet.clone());
        prop_assert!(part.is_some_and(|part| part.chars().count() <= max_chars && part == part.trim()));
        let fits = |span: &std::ops::Range<usize>| text[span.clone()].chars().count() <= max_chars;
        if spans.iter().any(fits) {
            prop_assert!(spans.iter().any(|span| snippet.start <= span.start && span.end <= snippet.end));
        }
    }
}

#[test]
fn every_character_has_the_same_terms_composed_and_decomposed() {
    let mut analyser = Analyser::new(Language::None);
    let mut compare = |composed: &str, other: String| {
        let terms = |found: Found| found.into_iter().map(|(term, _, _)| term).collect::<Vec<_>>();
        let expected = terms(tokens(&mut analyser, composed));
        assert_eq!(terms(tokens(&mut analyser, &other)), expected, "{composed:?} and {other:?}");
    };
    for c in char::MIN..=char::MAX {
        let alone = c.to_string();
        compare(&alone, alone.nfd().collect());
        compare(&alone, alone.nfc().collect());
        let within = format!("x{c}y漢{c}字");
        compare(&within, within.nfd().collect());
    }
}

#[test]
fn the_big_list_of_naughty_strings_is_analysed() {
    let strings: Vec<String> = serde_json::from_str(include_str!("data/blns.json")).unwrap();
    assert_eq!(strings.len(), 515);
    for text in &strings {
        for &language in Language::all() {
            assert_sound(text, &mut Analyser::new(language));
        }
    }
}

#[test]
fn half_width_and_full_width_text_have_the_same_terms() {
    assert_eq!(terms("Ｔｈｅ　Ｗｅｉｒ　ｶﾀｶﾅ"), terms("The Weir カタカナ"));
}

#[test]
fn two_million_combining_marks_yield_at_most_one_term() {
    for base in ["e", "か", "ก", "ह"] {
        let text = base.to_owned() + &"\u{301}".repeat(2_000_000);
        let mut count = 0;
        analyse(&text, Language::English, |_| count += 1);
        assert!(count <= 1, "{base}: {count}");
    }
}
