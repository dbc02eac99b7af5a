//! What can be asked beside words, and what is answered beside hits.

use weir_index::{
    Change, FacetSpec, IndexError, IndexQuery, IndexedDocument, MatchCount, SortKey, TraceStage,
};
use weir_policy::Caller;
use weir_ranking::RetrievalMode;

use crate::sample::*;

#[test]
fn later_pages_see_the_pinned_snapshot_without_removed_documents() {
    let index = Index::new(settings());
    index.apply((0..6).map(|number| put(&format!("d{number}"), 1, "apples", 0)).collect(), 1);
    let mut page = IndexQuery { pin: true, ..lexical("apples") };
    page.limit = 2;
    let first = index.search(&page);
    assert_eq!((names(&first.hits).as_str(), first.applied_seq), ("d0.0 d1.0", 1));

    index.apply(vec![put("d0", 2, "apples", 0), put("new", 1, "apples", 0)], 2);
    assert!(index.engine.remove_now("d3", 3).unwrap());
    page.as_of = Some(first.applied_seq);
    page.offset = 2;
    assert_eq!(names(&index.search(&page).hits), "d2.0");
    page.offset = 4;
    assert_eq!(names(&index.search(&page).hits), "d4.0 d5.0");
    page.as_of = Some(7);
    let gone = index.engine.search(&Caller::system(), &page).unwrap_err();
    assert!(matches!(gone, IndexError::SnapshotExpired(7)));
}

fn query(text: &str) -> IndexQuery {
    IndexQuery::new(RetrievalMode::Lexical, Some(weir_query::parse(text).unwrap()), None, 10)
}

#[test]
fn query_operators_select_and_rank_documents() {
    let index = Index::new(settings());
    let with = |id: &str, title: &str, text: &str, metadata: &str| {
        let mut document = document(id, 1, &[(text, axis(0))]);
        (document.title, document.metadata) = (Some(title.to_owned()), metadata.to_owned());
        Change::Put(document)
    };
    index.apply(
        vec![
            with("a", "Fruit", "solar panels on the roof", r#"{"author":"Ada","year":2020}"#),
            with("b", "Solar", "the panel of solar experts", r#"{"author":"Ada B","year":2021}"#),
            with("c", "Wind", "wind and solar power", r#"{"year":2020}"#),
        ],
        1,
    );
    let check = |text: &str, expected: &str| {
        let mut found: Vec<String> =
            index.search(&query(text)).hits.into_iter().map(|hit| hit.document_id).collect();
        found.sort();
        assert_eq!(found.concat(), expected, "{text}");
    };
    check("solar", "abc");
    check("\"solar panel\"", "a");
    check("\"panel of solar\"", "b");
    check("solar -wind", "ab");
    check("solar NOT roof", "bc");
    check("+roof solar", "a");
    check("roof OR wind", "ac");
    check("solar AND panel", "ab");
    check("(roof OR wind) AND power", "c");
    check("title:solar", "b");
    check("title:\"solar\" AND experts", "b");
    check("exper*", "b");
    check("pan*", "ab");
    check("author:Ada solar", "a");
    check("title:solar wind", "b");
    check("title:solar OR title:wind", "bc");
    check("author:\"Ada B\" AND solar", "b");
    check("author:Ada* AND solar", "ab");
    check("year:2020 AND solar", "ac");
    check("solar AND -year:2020", "b");
}

#[test]
fn required_and_excluded_parts_apply_to_the_dense_retriever() {
    let index = Index::new(settings());
    index.apply(
        vec![put("a", 1, "red apples", 0), put("b", 1, "green apples", 0), put("c", 1, "pears", 0)],
        1,
    );
    let check = |text: &str, expected: &str| {
        let parsed = weir_query::parse(text).unwrap();
        let request = IndexQuery::new(RetrievalMode::Hybrid, Some(parsed), Some(axis(0)), 10);
        let mut found: Vec<String> =
            index.search(&request).hits.into_iter().map(|hit| hit.document_id).collect();
        found.sort();
        assert_eq!(found.concat(), expected, "{text}");
    };
    check("apples", "abc");
    check("apples -red", "bc");
    check("+apples pears", "ab");
    check("\"green apples\"", "b");
    check("apples pears", "abc");
}

#[test]
fn a_misspelt_word_is_replaced_by_similar_ones() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "photovoltaic roofs", 0), put("b", 1, "model a1234", 0)], 1);
    let reply = index.search(&lexical("photovolatic"));
    assert_eq!(names(&reply.hits), "a.0");
    assert_eq!(reply.corrections.len(), 1);
    assert_eq!(reply.corrections[0].word, "photovolatic");
    assert_eq!(reply.corrections[0].replacements, ["photovoltaic"]);
    assert_eq!(names(&index.search(&lexical("a1235")).hits), "", "a number is not another one misspelt");
    assert_eq!(names(&index.search(&lexical("rofs roof")).hits), "a.0");
}

#[test]
fn words_of_removed_documents_are_not_corrections() {
    let index = Index::new(settings());
    index.apply(
        vec![
            put("a", 1, "yellow roofs", 0),
            put("b", 1, "yellot dams", 0),
            put("c", 1, "yellom dams", 0),
            put("d", 1, "dams", 0),
        ],
        1,
    );
    let replacements = || {
        let reply = index.search(&lexical("yellov"));
        let replacements = reply.corrections.into_iter().flat_map(|correction| correction.replacements);
        (replacements.collect::<Vec<_>>().join(" "), names(&reply.hits))
    };
    assert_eq!(replacements(), ("yellom yellot yellow".to_owned(), "a.0 b.0 c.0".to_owned()));
    index.apply(vec![remove("b")], 2);
    assert_eq!(replacements(), ("yellom yellow".to_owned(), "a.0 c.0".to_owned()));
    assert!(index.engine.remove_now("c", 3).unwrap());
    assert_eq!(replacements(), ("yellow".to_owned(), "a.0".to_owned()));
    index.apply(vec![put("a", 2, "green roofs", 0)], 4);
    assert_eq!(replacements(), (String::new(), String::new()));
}

#[test]
fn one_wrong_first_letter_is_corrected() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "yellow roofs", 0), put("b", 1, "zephyr", 0)], 1);
    for word in ["xellow", "ellow", "eyllow", "tyellow"] {
        let reply = index.search(&lexical(word));
        assert_eq!(names(&reply.hits), "a.0", "{word}");
        assert_eq!(reply.corrections[0].replacements, ["yellow"], "{word}");
    }
    assert_eq!(names(&index.search(&lexical("xelow")).hits), "");
    index.apply(vec![put("c", 1, "xellos", 0)], 2);
    assert_eq!(names(&index.search(&lexical("xellow")).hits), "c.0 a.0", "both are one letter away");
}

#[test]
fn a_misspelt_suffix_that_prevents_stemming_is_corrected() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "programming measurement electricity", 0), put("b", 1, "dams", 0)], 1);
    for word in ["programmnig", "measuremnet", "electricty"] {
        assert_eq!(names(&index.search(&lexical(word)).hits), "a.0", "{word}");
    }
    assert_eq!(names(&index.search(&lexical("programmatic")).hits), "");
}

#[test]
fn words_are_corrected_if_they_score_or_are_required() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "yellow roofs", 0), put("b", 1, "grass", 0)], 1);
    let dense = |text: &str| {
        let parsed = weir_query::parse(text).unwrap();
        index.search(&IndexQuery::new(RetrievalMode::Dense, Some(parsed), Some(axis(0)), 10))
    };
    let ranked = dense("yelow");
    assert_eq!((names(&ranked.hits).as_str(), ranked.corrections.len()), ("a.0 b.0", 0));
    assert_eq!(names(&dense("+yelow grass").hits), "a.0");
    assert_eq!(names(&dense("grass -yellow").hits), "b.0");
    // a match comes before what is excluded, and behind it
    index.apply(vec![put("c", 1, "grass", 0), put("d", 1, "yellow roofs", 0), put("e", 1, "grass", 0)], 2);
    for excluded in ["grass -\"yellow roofs\"", "grass -(yellow AND roofs)", "grass -yell*"] {
        let found = index.search(&IndexQuery { count: true, ..query(excluded) });
        assert_eq!(
            (names(&found.hits).as_str(), found.total),
            ("b.0 c.0 e.0", MatchCount::Exact(3)),
            "{excluded}"
        );
    }
}

#[test]
fn a_total_is_not_exact_if_a_prefix_stands_for_more_terms_than_are_searched() {
    let index = Index::new(settings());
    let documents = |count: u64, start: &str| -> Vec<Change> {
        let words = (0..count).map(|number| format!("{start}{number:03}"));
        let put = |word: String| {
            let metadata = r#"{"year":2020}"#.to_owned();
            Change::Put(IndexedDocument { metadata, ..document(&word, 1, &[(&word, axis(0))]) })
        };
        words.map(put).collect()
    };
    index.apply([documents(64, "ya"), documents(65, "za")].concat(), 1);
    for (text, total) in [
        ("ya*", MatchCount::Exact(64)),
        ("za*", MatchCount::Window(64)),
        ("za*4", MatchCount::Exact(7)),
        ("za*0*", MatchCount::Window(64)),
        ("+ya000 -za*", MatchCount::Window(1)),
        ("ya000 title:za*", MatchCount::Exact(0)),
    ] {
        let counted = IndexQuery { count: true, ..query(text) };
        assert_eq!(index.search(&counted).total, total, "{text}");
        let sort = vec![SortKey { field: "year".to_owned(), descending: false }];
        assert_eq!(index.search(&IndexQuery { sort, ..query(text) }).total, total, "{text}, sorted");
        let facets = vec![FacetSpec { field: "year".to_owned(), limit: 1 }];
        let found = index.search(&IndexQuery { facets, ..query(text) });
        assert_eq!(found.exact_facets, matches!(total, MatchCount::Exact(_)), "{text}, facets");
    }
}

#[test]
fn a_total_is_not_exact_if_a_wildcard_looks_at_a_part_of_the_terms() {
    let index = Index::new(settings());
    let words = (0..800).map(|number| format!("za{number:03}"));
    index.apply(words.map(|word| put(&word, 1, &word, 0)).collect(), 1);
    // 200,000 terms are looked at for each query: 781 for each of 256 wildcards, which leaves out `za799`
    for (times, total) in [(1, MatchCount::Exact(8)), (256, MatchCount::Window(7))] {
        let text = vec!["za*99"; times].join(" ");
        let request = IndexQuery { count: true, expanded_terms_max: times * 64, ..query(&text) };
        assert_eq!(index.search(&request).total, total, "{times}");
    }
}

#[test]
fn an_unknown_field_is_an_error_that_lists_known_ones() {
    let index = Index::new(settings());
    let mut document = document("a", 1, &[("apples", axis(0))]);
    document.metadata = r#"{"year":2020,"author":{"name":"Ada"}}"#.to_owned();
    index.apply(vec![Change::Put(document)], 1);
    let mut request = lexical("apples");
    request.filter = Some(weir_filter::Filter::parse(r#"{"yaer":2020}"#).unwrap());
    let error = index.engine.search(&Caller::system(), &request).unwrap_err();
    assert_eq!(error.to_string(), "no document has the field `yaer`; use one of: author.name, year");
    let mut request = query("yaer:2020");
    assert_eq!(index.search(&request).hits, [], "no document has the value");
    request.strict = true;
    assert!(matches!(index.engine.search(&Caller::system(), &request), Err(IndexError::UnknownField { .. })));
}

#[test]
fn documents_outside_the_mandatory_filter_do_not_exist() {
    let index = Index::new(settings());
    let put = |id: &str, text: &str, metadata: &str| {
        Change::Put(IndexedDocument { metadata: metadata.to_owned(), ..document(id, 1, &[(text, axis(0))]) })
    };
    let own = put("own", "yellow boats", r#"{"tenant":"a"}"#);
    let other = put("other", "yellow secretive boats", r#"{"tenant":"b","salary":1}"#);
    index.apply(vec![own, other], 1);
    let caller = |filter: &str| {
        let filter = Some(std::sync::Arc::new(weir_filter::Filter::parse(filter).unwrap()));
        Caller { filter, ..Caller::system() }
    };
    let search = |filter: &str, query: &IndexQuery| index.engine.search(&caller(filter), query);
    let (own, nobody) = (r#"{"tenant":"a"}"#, r#"{"owner":"nobody"}"#);
    let listing = IndexQuery::new(RetrievalMode::Lexical, None, None, 10);
    for query in [&lexical("yellow"), &dense(axis(0)), &listing] {
        assert_eq!(names(&search(own, query).unwrap().hits), "own.0");
        assert_eq!(search(nobody, query).unwrap().hits, [], "no document has the field");
    }
    let traced = IndexQuery { trace: Some("other".to_owned()), ..lexical("yellow") };
    assert_eq!(search(own, &traced).unwrap().trace.unwrap().stage, TraceStage::Missing);
    assert_eq!(index.engine.features(&caller(own), &lexical("yellow"), "other").unwrap(), None);
    let misspelt = lexical("secretivo");
    assert_eq!(index.search(&misspelt).corrections[0].word, "secretivo");
    assert_eq!(
        search(own, &misspelt).unwrap().corrections,
        [],
        "the word is of a document that does not exist"
    );
    let mut unknown = lexical("yellow");
    unknown.filter = Some(weir_filter::Filter::parse(r#"{"salry":1}"#).unwrap());
    assert_eq!(
        search(own, &unknown).unwrap_err().to_string(),
        "no document has the field `salry`; use one of: tenant"
    );
}

#[test]
fn trace_follows_a_document_to_the_stage_that_excludes_it() {
    let index = Index::new(settings());
    let mut changes: Vec<Change> = (0..5).map(|number| put(&format!("d{number}"), 1, "apples", 0)).collect();
    let mut document = document("filtered", 1, &[("apples", axis(0))]);
    document.metadata = r#"{"draft":true}"#.to_owned();
    changes.push(Change::Put(document));
    changes.push(put("far", 1, "pears", 1));
    index.apply(changes, 1);
    let check = |id: &str, stage: TraceStage, rank: Option<u32>| {
        let mut request = lexical("apples");
        request.limit = 2;
        request.filter = Some(weir_filter::Filter::parse(r#"{"draft":{"ne":true}}"#).unwrap());
        request.trace = Some(id.to_owned());
        let why = index.search(&request).trace.unwrap();
        assert_eq!((why.stage, why.rank), (stage, rank), "{id}");
    };
    check("d0", TraceStage::Found, Some(1));
    check("d4", TraceStage::Limit, Some(5));
    check("filtered", TraceStage::Filter, None);
    check("far", TraceStage::Candidates, None);
    check("none", TraceStage::Missing, None);
}

#[test]
fn near_duplicates_are_collapsed_and_diversity_reorders() {
    let index = Index::new(settings());
    let text = "ten solar panels on the roof of a house make enough power for a kettle and a car";
    index.apply(vec![put("a", 1, text, 0), put("b", 1, &text.to_uppercase(), 0), put("c", 1, "a car", 1)], 1);
    let mut request = lexical("car");
    request.collapse = true;
    let hits = index.search(&request).hits;
    let seen: Vec<(&str, Vec<String>)> =
        hits.iter().map(|hit| (hit.document_id.as_str(), hit.collapsed.clone())).collect();
    assert_eq!(seen, [("c", vec![]), ("a", vec!["b".to_owned()])]);

    let mut spread = dense(vec![0.9, 0.4, 0.0, 0.0]);
    assert_eq!(names(&index.search(&spread).hits), "a.0 b.0 c.0");
    spread.diversity = 0.8;
    assert_eq!(names(&index.search(&spread).hits), "a.0 c.0 b.0");
}

#[test]
fn explain_and_context_return_score_breakdown_and_neighbours() {
    let index = Index::new(settings());
    let chunks = [("pears", axis(1)), ("apples and apples", axis(0)), ("plums", axis(2))];
    index.apply(vec![Change::Put(document("a", 1, &chunks)), put("b", 1, "apples", 1)], 1);
    let mut request = request(RetrievalMode::Hybrid, "apples", Some(axis(0)));
    (request.explain, request.context) = (true, 1);
    let hit = &index.search(&request).hits[0];
    assert_eq!((hit.document_id.as_str(), hit.chunk), ("a", 1));
    let explanation = hit.explanation.as_ref().unwrap();
    assert_eq!(explanation.terms.len(), 1);
    let share = &explanation.terms[0];
    assert_eq!((share.term.as_str(), share.chunks, share.frequency), ("appl", 2, 2));
    assert_eq!(Some(share.score), hit.lexical.map(|retriever| retriever.score));
    assert_eq!(explanation.lexical + explanation.dense, hit.score);
    let around: Vec<(u32, &str)> =
        hit.context.iter().map(|chunk| (chunk.chunk, chunk.text.as_str())).collect();
    assert_eq!(around, [(0, "pears"), (2, "plums")]);
}

#[test]
fn recall_compares_with_an_exact_search_of_filtered_chunks() {
    let index = Index::new(settings());
    let with = |number: u32| {
        let angle = number as f32 / 10.0;
        let mut document =
            document(&format!("d{number}"), 1, &[("apples", vec![angle.cos(), angle.sin(), 0.0, 0.0])]);
        document.metadata = format!(r#"{{"n":{number}}}"#);
        Change::Put(document)
    };
    index.apply((0..20).map(with).collect(), 1);
    let mut request = dense(axis(0));
    request.filter = Some(weir_filter::Filter::parse(r#"{"n":{"gte":15}}"#).unwrap());
    let recall = index.engine.recall(&Caller::system(), &request).unwrap().unwrap();
    assert_eq!((recall.found, recall.wanted, recall.selectivity), (5, 5, 0.25));
    request.filter = None;
    let recall = index.engine.recall(&Caller::system(), &request).unwrap().unwrap();
    assert_eq!((recall.found, recall.wanted, recall.selectivity), (10, 10, 1.0));
    assert_eq!(index.engine.recall(&Caller::system(), &lexical("apples")).unwrap(), None);
}
