//! Exact names, unfinished words and misspelt words.

use weir_filter::Filter;
use weir_index::{Change, Hit, IndexQuery, MatchCount};
use weir_ranking::RetrievalMode;

use crate::sample::*;

/// A document with a title and the text `text`.
fn titled(id: &str, title: &str, text: &str) -> Change {
    let mut document = document(id, 1, &[(text, axis(0))]);
    document.title = Some(title.to_owned());
    document.metadata = format!(r#"{{"kind":"{}"}}"#, &id[..1]);
    Change::Put(document)
}

fn packages() -> Index {
    let index = Index::new(settings());
    let others = (0..9).map(|number| {
        let text = "python python python numerical python tool ".repeat(3);
        titled(&format!("x{number}"), &format!("helper {number} for python"), &text)
    });
    let named = [
        titled(
            "a",
            "Python",
            "an interpreter of a language that many tools need, and of which nothing more is said here",
        ),
        titled("b", "python-numerical", "arrays"),
        titled("c/Python.md", "notes", "on reptiles"),
    ];
    index.apply(others.chain(named).collect(), 1);
    index
}

#[test]
fn a_document_whose_name_is_the_query_comes_first() {
    let index = packages();
    let first = |text: &str| names(&index.search(&IndexQuery { limit: 2, ..lexical(text) }).hits);
    assert_eq!(first("python"), "a.0 b.0", "the whole title, then its leading word");
    assert_eq!(first("PYTHON numerical").split(' ').next(), Some("b.0"));
    assert_eq!(first("c/python.md").split(' ').next(), Some("c/Python.md.0"), "an id");
    assert_eq!(first("notes"), "c/Python.md.0");
    let hybrid = IndexQuery { limit: 1, ..request(RetrievalMode::Hybrid, "\"python\"", Some(axis(0))) };
    assert_eq!(names(&index.search(&hybrid).hits), "a.0");
}

#[test]
fn what_a_name_adds_is_explained_and_pages_go_on_behind_it() {
    let index = packages();
    let all = index.search(&IndexQuery { limit: 20, explain: true, ..lexical("python") });
    let (first, third) = (&all.hits[0], &all.hits[2]);
    let parts = first.explanation.as_ref().unwrap();
    assert!(parts.name > third.score && third.explanation.as_ref().unwrap().name == 0.0, "{parts:?}");
    assert!((parts.lexical + parts.dense + parts.neighbours + parts.name - first.score).abs() < 1e-4);
    assert!(all.hits.is_sorted_by(|one, next| one.score >= next.score));
    let pages = (0..7).map(|page| {
        names(&index.search(&IndexQuery { limit: 2, offset: 2 * page, ..lexical("python") }).hits)
    });
    let pages: Vec<String> = pages.filter(|page| !page.is_empty()).collect();
    assert_eq!(pages.join(" "), names(&all.hits));
}

#[test]
fn named_documents_are_counted_and_filtered() {
    let index = packages();
    let mut request = IndexQuery { count: true, ..lexical("c python md") };
    let reply = index.search(&request);
    assert_eq!(reply.hits[0].document_id, "c/Python.md");
    assert_eq!(reply.total, MatchCount::Exact(12), "its text has no word of the query, its id has");
    request.filter = Some(Filter::from_value(&serde_json::json!({"kind": "a"})).unwrap());
    assert_eq!(names(&index.search(&request).hits), "a.0");
    index.apply(vec![remove("a")], 2);
    assert_eq!(names(&index.search(&lexical("python")).hits).split(' ').next(), Some("b.0"));
}

#[test]
fn the_last_word_may_be_unfinished() {
    let index = packages();
    let found = |text: &str| {
        names(&index.search(&IndexQuery { is_unfinished: true, limit: 1, ..lexical(text) }).hits)
    };
    assert_eq!(found("pyth"), "a.0", "a title that it begins");
    assert_eq!(found("on rept"), "c/Python.md.0");
    assert_eq!(found("rept "), "", "a space ends the word");
    assert_eq!(found("reptiels"), "c/Python.md.0", "a misspelt word that begins none");
    assert_eq!(names(&index.search(&lexical("rept")).hits), "");
}

#[test]
fn a_name_begins_with_the_whole_words_of_a_finished_query() {
    let index = Index::new(settings());
    let titles = [("a", "dam"), ("b", "dam 7"), ("c", "damask"), ("d", "da"), ("e", "the dam")];
    index.apply(titles.map(|(id, title)| titled(id, title, "none")).to_vec(), 1);
    let named = |is_unfinished| {
        let found = index.search(&IndexQuery { is_unfinished, explain: true, ..lexical("dam") });
        let is_named = |hit: &&Hit| hit.explanation.as_ref().is_some_and(|parts| parts.name > 0.0);
        let mut named: Vec<&str> =
            found.hits.iter().filter(is_named).map(|hit| hit.document_id.as_str()).collect();
        named.sort_unstable();
        named.concat()
    };
    assert_eq!(named(false), "ab");
    assert_eq!(named(true), "abc");
}

#[test]
fn words_are_compared_not_stems() {
    let index = Index::new(settings());
    let words = ["libraries", "occurrence", "running", "authentication", "weirs", "agent"];
    let documents = words.iter().map(|word| put(word, 1, &format!("about {word}"), 0));
    index.apply(documents.collect(), 1);
    for (typo, word) in [
        ("libarries", "libraries"),
        ("occurance", "occurrence"),
        ("occurence", "occurrence"),
        ("runing", "running"),
        ("runnign", "running"),
        ("authentification", "authentication"),
        ("autentication", "authentication"),
        ("wiers", "weirs"),
        ("aent", "agent"),
        ("uathentication", "authentication"),
    ] {
        let reply = index.search(&lexical(typo));
        assert_eq!(reply.hits.first().map(|hit| hit.document_id.as_str()), Some(word), "{typo}");
        assert_eq!(reply.corrections[0].word, typo);
        assert_eq!(reply.corrections[0].replacements, [word], "{typo}");
    }
    for other in ["bent", "ag1nt", "age"] {
        assert!(index.search(&lexical(other)).hits.is_empty(), "{other}");
    }
}
