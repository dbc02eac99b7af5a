//! The parsers of queries and filters over what nobody would type. The targets in `fuzz/` look for more of it.

use serde_json::Value as Json;
use weir_filter::Filter;
use weir_query::{NoVocabulary, Query, Reading, parse, parse_auto};

use crate::rng::Rng;

const QUERIES: [&str; 12] = [
    "how do solar panels work?",
    "\"solar panel\" -wind +roof",
    "title:solar AND (author.name:\"Ada L\" OR lang:d*)",
    "what's the C++ \"hello\" -- world?",
    "((a OR b) AND NOT (c -d)) e*",
    "http://localhost:8080/x re: hello 12:30",
    "東京\u{3000}大学 -naïve größe:10 AND x",
    "() \"\" -() NOT AND OR * + - :",
    "-\"a",
    "a:\"\" (b",
    "NOT NOT -x OR -y AND",
    "🙂 e\u{301} \u{85}AND\u{a0}b",
];
const FILTERS: [&str; 6] = [
    r#"{"year": {"gte": 2019, "lt": 2022.5}, "lang": {"in": ["en", null, true]}}"#,
    r#"{"and": [{"a.b": "2024-02-29T12:00:00.5+01:00"}, {"not": {"c": {"exists": false}}}], "or": [{}]}"#,
    r#"{"type": "or", "filters": [{"type": "nin", "key": "a", "value": [1, "é"]}, {"x": null}]}"#,
    r#"{"type": "eq", "key": "and", "value": 9007199254740993}"#,
    r#"{"a": {"ne": 1e300}, "": {"lte": "2016-12-31T23:59:60Z"}, "type": "x"}"#,
    r#"{"not": {"not": {"not": {"and": []}}}}"#,
];

impl Rng {
    /// A sample with some characters and stretches cut out, doubled, swapped or taken from another one.
    fn mutated(&mut self, samples: &[&str]) -> String {
        let mut text: Vec<char> = samples[self.below(samples.len())].chars().collect();
        let other: Vec<char> = samples[self.below(samples.len())].chars().collect();
        for _ in 0..self.below(8) {
            let (from, to) = (self.below(text.len() + 1), self.below(text.len() + 1));
            let stretch = from.min(to)..from.max(to).min(from.min(to) + 6);
            match self.below(5) {
                0 => drop(text.drain(stretch)),
                1 => drop(text.splice(from..from, text[stretch].to_vec())),
                2 => drop(text.splice(stretch, [other[self.below(other.len())]])),
                3 => text.insert(from, other[self.below(other.len())]),
                _ => drop(text.splice(from..from, other[self.below(other.len())..].to_vec())),
            }
        }
        text.into_iter().collect()
    }

    /// Pieces of the language in any order.
    fn jumbled(&mut self) -> String {
        let pieces = [
            "a", "bc", "é", "東京", " ", " ", " ", "\u{a0}", "\"", "(", ")", "-", "+", "*", ":", "x:", "AND",
            "OR", "NOT", " AND ", " OR ", " NOT ", "x:y", "\"a b\"", "()", "\n", ".", "/", "🙂",
        ];
        (0..self.below(16)).map(|_| pieces[self.below(pieces.len())]).collect()
    }
}

/// How deep a tree is, and its leaves. Fails on a Boolean that nothing can match.
fn size(query: &Query) -> (usize, usize) {
    let Query::Boolean { must, should, must_not } = query else { return (1, 1) };
    assert!(must.len() + should.len() > 0, "only excludes: {query:?}");
    assert!(must.len() + should.len() + must_not.len() > 1, "a Boolean around one: {query:?}");
    let sizes = [must, should, must_not].into_iter().flatten().map(size);
    sizes.fold((1, 0), |(depth, leaves), inner| (depth.max(inner.0 + 1), leaves + inner.1))
}

fn check_query(text: &str) -> bool {
    let Reading { query, as_text } = parse_auto(text, &NoVocabulary);
    check_size(&query, text);
    assert!(query.fields().is_empty(), "no field exists: {text}");
    assert!(as_text.iter().map(String::len).sum::<usize>() <= text.len(), "{text}: {as_text:?}");
    assert!(as_text.iter().all(|part| text.contains(part)), "{text}: {as_text:?}");
    match parse(text) {
        Ok(strict) => check_size(&strict, text),
        Err(error) => {
            assert!(text.is_char_boundary(error.position) && error.position < text.len(), "{text}: {error}");
            return false;
        }
    }
    true
}

fn check_size(query: &Query, text: &str) {
    let (depth, leaves) = size(query);
    assert!(depth <= 4 * weir_query::DEPTH_MAX && leaves <= weir_query::CLAUSES_MAX, "{text}");
}

#[test]
fn no_query_panics_and_no_reading_says_more_than_the_query_has() {
    let mut rng = Rng(1);
    let parsed = (0..20_000)
        .filter(|round| {
            let text = if round % 2 == 0 { rng.mutated(&QUERIES) } else { rng.jumbled() };
            check_query(&text)
        })
        .count();
    assert!((4_000..16_000).contains(&parsed), "{parsed} of 20,000 parsed: the cases say little");
}

#[test]
fn no_filter_panics() {
    let mut rng = Rng(2);
    let metadata: Json =
        serde_json::json!({"a": [1, {"b": "2024-02-29"}], "a.b": null, "year": 2020, "": false});
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let text = rng.mutated(&FILTERS);
        match Filter::parse(&text) {
            Ok(filter) => {
                let not = Filter::Not(Box::new(filter.clone()));
                let metadata = metadata.as_object().expect("an object");
                assert_ne!(filter.evaluate(metadata), not.evaluate(metadata), "{text}");
                assert!(filter.paths().eq(not.paths()), "{text}");
                read += 1;
            }
            Err(error) => refused += usize::from(!error.pointer.is_empty()),
        }
    }
    assert!(read > 2_000 && refused > 500, "{read} read, {refused} refused at a place: the cases say little");
}
