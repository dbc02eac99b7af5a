//! Rankings, grouping by document, fusion, and the hits' texts.

use weir_index::{Change, FusionFunction, IndexError, RetrieverRank};
use weir_policy::Caller;
use weir_ranking::RetrievalMode;

use crate::rng::Rng;
use crate::sample::*;

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

#[test]
fn the_dense_top_ten_equals_an_exact_comparison() {
    const DIMENSION: usize = 384;
    const DOCUMENTS: usize = 20_500;
    let mut random = Rng(7);
    let centres: Vec<Vec<f32>> = (0..60).map(|_| random.vector(DIMENSION)).collect();
    let mut near = |centre: usize| -> Vec<f32> {
        let noise = random.vector(DIMENSION);
        unit(centres[centre].iter().zip(noise).map(|(centre, noise)| centre + noise).collect())
    };
    let vectors: Vec<Vec<f32>> = (0..DOCUMENTS).map(|number| near(number % 60)).collect();
    let index = Index::new(weir_index::EngineSettings { dimension: DIMENSION, ..settings() });
    // without codes; with a codebook learned; by it; learned again
    let mut done = 0;
    for (number, upto) in (1..).zip([1_000, 2_500, 2_600, DOCUMENTS]) {
        let put = |number: usize| {
            Change::Put(document(&number.to_string(), 1, &[("text", vectors[number].clone())]))
        };
        index.apply((done..upto).map(put).collect(), number);
        done = upto;
    }

    let (mut found, mut wanted) = (0, 0);
    for query in (0..200).map(|number| near(number % 60)) {
        let dot = |vector: &[f32]| vector.iter().zip(&query).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let mut exact: Vec<(f64, usize)> =
            vectors.iter().enumerate().map(|(number, vector)| (dot(vector), number)).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0));
        let hits = index.search(&dense(query.clone())).hits;
        assert_eq!(hits.len(), 10);
        assert!((f64::from(hits[0].score) - exact[0].0).abs() < 1e-3);
        let exact: Vec<String> = exact[..10].iter().map(|(_, number)| number.to_string()).collect();
        found += hits.iter().filter(|hit| exact.contains(&hit.document_id)).count();
        wanted += 10;
    }
    let recall = f64::from(found as u32) / f64::from(wanted);
    assert!(recall >= 0.99, "recall@10 is {recall}");
}

#[test]
fn ties_go_to_the_first_documents_also_in_parallel_searches() {
    const DOCUMENTS: usize = 210_000;
    let index = Index::new(text_only());
    let text = |number: usize| if number % 5_000 == 4_999 { "common rare" } else { "common thing" };
    for batch in 0..7 {
        let numbers = batch * DOCUMENTS / 7..(batch + 1) * DOCUMENTS / 7;
        let puts = numbers.map(|number| put_text(&number.to_string(), 1, text(number)));
        index.apply(puts.collect(), batch as u64 + 1);
    }
    assert!(index.engine.counts().segments > 1);
    for _ in 0..20 {
        let found = |words: &str| {
            let hits = index.search(&lexical(words)).hits;
            hits.into_iter().map(|hit| hit.document_id.parse().unwrap()).collect::<Vec<usize>>()
        };
        assert_eq!(found("common"), (0..10).collect::<Vec<_>>());
        assert_eq!(found("rare common"), (1..11).map(|place| place * 5_000 - 1).collect::<Vec<_>>());
    }
}

#[test]
fn a_document_of_several_chunks_is_one_hit_with_its_best_chunk() {
    let index = Index::new(settings());
    let mixed = vec![0.5, 0.5, 0.0, 0.0];
    index.apply(
        vec![
            Change::Put(document(
                "a",
                1,
                &[("pears", axis(1)), ("apples apples", axis(0)), ("apples", mixed)],
            )),
            put("b", 1, "apples and many other things in a long row of words", 2),
        ],
        1,
    );
    assert_eq!(index.sees("apples", 0), ("a.1 b.0".to_owned(), "a.1 b.0".to_owned()));
    assert_eq!(index.sees("pears", 1), ("a.0".to_owned(), "a.0 b.0".to_owned()));
    let reply = index.search(&lexical("apples"));
    assert_eq!(reply.lexical.documents, 2);
    assert_eq!((reply.hits[0].start, reply.hits[0].end), (5, 18));
    assert_eq!(reply.hits[0].lexical.map(|retriever| retriever.rank), Some(1));
    assert_eq!(reply.hits[1].lexical.map(|retriever| retriever.rank), Some(2));
}

#[test]
fn the_page_is_full_even_if_one_document_has_all_the_best_chunks() {
    let index = Index::new(settings());
    let many: Vec<(&str, Vec<f32>)> = (0..500).map(|_| ("apples", axis(0))).collect();
    index.apply(vec![Change::Put(document("many", 1, &many))], 1);
    index.apply((0..30).map(|number| put(&format!("d{number}"), 1, "apples and pears", 1)).collect(), 2);
    for mut request in [lexical("apples"), dense(axis(0))] {
        request.limit = 20;
        request.depth = 20;
        let reply = index.search(&request);
        assert_eq!(reply.hits.len(), 20);
        assert_eq!(names(&reply.hits[..3]), "many.0 d0.0 d1.0");
    }
}

#[test]
fn equal_scores_keep_insertion_order() {
    let index = Index::new(settings());
    index.apply((0..30).map(|number| put(&format!("d{number}"), 1, "apples", 0)).collect(), 1);
    for mut request in
        [lexical("apples"), dense(axis(0)), request(RetrievalMode::Hybrid, "apples", Some(axis(0)))]
    {
        request.limit = 3;
        request.depth = 3;
        assert_eq!(names(&index.search(&request).hits), "d0.0 d1.0 d2.0");
        request.offset = 1;
        let places = index.search(&request).hits.iter().map(|hit| hit.position).collect::<Vec<_>>();
        assert_eq!(places[0], 1, "a hit knows its place in the whole order");
    }
}

#[test]
fn equal_scores_keep_insertion_order_across_segments() {
    let index = Index::new(settings());
    index.apply(vec![put("first", 1, "apples", 0)], 1);
    index.apply((0..9).map(|number| put(&format!("d{number}"), 1, "apples", 0)).collect(), 2);
    let mut request = lexical("apples");
    request.limit = 2;
    request.depth = 2;
    assert_eq!(names(&index.search(&request).hits), "first.0 d0.0");
}

#[test]
fn hybrid_scores_are_those_of_the_formula() {
    let index = Index::new(settings());
    let between = vec![0.8, 0.6, 0.0, 0.0];
    index.apply(
        vec![
            put("a", 1, "apples", 0),
            Change::Put(document("b", 1, &[("apples or something else entirely", between)])),
            put("c", 1, "pears", 2),
        ],
        1,
    );
    // Lexical: a b. Dense: a b c.
    let mut hybrid = request(RetrievalMode::Hybrid, "apples", Some(axis(0)));
    hybrid.smoothing = false;
    hybrid.fusion = FusionFunction::ReciprocalRank { k: 60.0, lexical: 1.0, dense: 1.0 };
    let reply = index.search(&hybrid);
    assert_eq!(names(&reply.hits), "a.0 b.0 c.0");
    let scores: Vec<f32> = reply.hits.iter().map(|hit| hit.score).collect();
    assert_eq!(scores, [1.0 / 61.0 + 1.0 / 61.0, 1.0 / 62.0 + 1.0 / 62.0, 1.0 / 63.0]);
    assert_eq!(reply.hits[0].dense, Some(RetrieverRank { rank: 1, score: 1.0 }));
    assert_eq!(reply.hits[2].lexical, None);
    assert_eq!((reply.lexical.documents, reply.dense.documents), (2, 3));
    assert_eq!(reply.dense.best[2].document_id, "c");

    hybrid.fusion = FusionFunction::Convex { lexical: 0.25, dense: 0.75, follows_query: false };
    let scores: Vec<f32> = index.search(&hybrid).hits.iter().map(|hit| hit.score).collect();
    assert_eq!(scores[0], 1.0);
    let share = reply.lexical.best[1].score / reply.lexical.best[0].score;
    assert!((scores[1] - (0.25 * share + 0.75 * 0.8)).abs() < 1e-3, "{scores:?}");
    assert_eq!(scores[2], 0.0);
}

#[test]
fn a_hit_shows_the_chunk_of_the_stronger_retriever() {
    let index = Index::new(settings());
    index.apply(vec![Change::Put(document("a", 1, &[("apples", axis(1)), ("pears", axis(0))]))], 1);
    let shown = |lexical, dense| {
        let mut hybrid = request(RetrievalMode::Hybrid, "apples", Some(axis(0)));
        hybrid.fusion = FusionFunction::Convex { lexical, dense, follows_query: false };
        names(&index.search(&hybrid).hits)
    };
    assert_eq!(shown(0.6, 0.4), "a.0");
    assert_eq!(shown(0.4, 0.6), "a.1");
    assert_eq!(shown(0.5, 0.5), "a.1", "dense wins a tie");
}

#[test]
fn the_title_counts_for_every_chunk() {
    let index = Index::new(settings());
    let mut titled = document("a", 1, &[("first", axis(0)), ("second", axis(1))]);
    titled.title = Some("Orchard".to_owned());
    index.apply(vec![Change::Put(titled)], 1);
    let reply = index.search(&lexical("orchard second"));
    assert_eq!(names(&reply.hits), "a.1");
    assert_eq!(reply.hits[0].title.as_deref(), Some("Orchard"));
}

#[test]
fn texts_ids_and_metadata_come_back_byte_for_byte() {
    let odd = [
        "plain",
        "nul \0 and tab\t",
        "combining e\u{301} and \u{1F469}\u{200D}\u{1F52C} joined",
        "right to left \u{202E}\u{5E9}\u{5DC}\u{5D5}\u{5DD}",
        "\u{FEFF}\u{FFFD}\u{10FFFF}",
        "日本語のテキスト",
    ];
    let index = Index::new(settings());
    for (number, text) in odd.iter().enumerate() {
        let mut document = document(&format!("a/ü 🦀 {text}"), 3, &[("x", axis(1)), (text, axis(0))]);
        document.title = Some(format!("title {text}"));
        document.metadata = format!("{{\"odd\": {text:?}}}");
        index.apply(vec![Change::Put(document)], number as u64);
    }
    let (index, rebuilt) = index.reopen();
    assert_eq!(rebuilt, None);
    let hits = index.search(&dense(axis(0))).hits;
    assert_eq!(hits.len(), odd.len());
    for (hit, text) in hits.iter().zip(odd) {
        assert_eq!((hit.text.as_str(), hit.version, hit.chunk), (text, 3, 1));
        assert_eq!(hit.document_id, format!("a/ü 🦀 {text}"));
        assert_eq!(hit.title, Some(format!("title {text}")));
        assert_eq!(hit.metadata, format!("{{\"odd\": {text:?}}}"));
        assert_eq!((hit.start, hit.end), (1, 1 + text.len()));
    }
}

#[test]
fn a_query_without_terms_has_no_lexical_ranking() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "apples", 0)], 1);
    for text in ["", "  ?! ", "unknown"] {
        assert_eq!(names(&index.search(&lexical(text)).hits), "");
        let hybrid = index.search(&request(RetrievalMode::Hybrid, text, Some(axis(0))));
        assert_eq!(names(&hybrid.hits), "a.0", "the dense retriever still answers");
    }
    assert_eq!(names(&index.search(&lexical("the apples of the")).hits), "a.0");
}

#[test]
fn a_repeated_word_counts_twice() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "apples", 0), put("b", 1, "pears", 1), put("c", 1, "plums", 2)], 1);
    let best = |text| index.search(&lexical(text)).hits.remove(0);
    assert_eq!(best("apples pears").document_id, "a");
    let (once, twice) = (best("pears"), best("apples pears and a pear"));
    assert_eq!((twice.document_id.as_str(), twice.score), ("b", 2.0 * once.score));
    let mut request = lexical("apples pears and a pear");
    request.explain = true;
    let explanation = index.search(&request).hits.remove(0).explanation.unwrap();
    assert_eq!(explanation.terms[0].score, twice.score);
}

#[test]
fn a_query_of_thousands_of_terms_is_answered() {
    let index = Index::new(settings());
    index.apply(vec![put("a", 1, "w0 w63 w64", 0), put("b", 1, "w64", 0)], 1);
    let text = (0..5000).map(|number| format!("w{number} ")).collect::<String>();
    assert_eq!(names(&index.search(&lexical(&text)).hits), "a.0");
}

#[test]
fn invalid_queries_are_rejected() {
    let index = Index::new(settings());
    let refuse = |request| index.engine.search(&Caller::system(), &request).unwrap_err();
    assert!(matches!(refuse(dense(vec![1.0; 3])), IndexError::EmbeddingLength { expected: 4, actual: 3 }));
    assert!(matches!(refuse(dense(vec![f32::NAN; 4])), IndexError::EmbeddingNotFinite));
    assert!(matches!(
        refuse(request(RetrievalMode::Hybrid, "apples", None)),
        IndexError::EmbeddingMissing(4)
    ));
    let mut odd = request(RetrievalMode::Hybrid, "apples", Some(axis(0)));
    odd.fusion = FusionFunction::Convex { lexical: -1.0, dense: 1.0, follows_query: false };
    assert!(matches!(refuse(odd), IndexError::InvalidParameter { name: "lexical", .. }));
}

#[test]
fn an_empty_index_or_a_limit_of_zero_gives_no_hits() {
    let index = Index::new(settings());
    assert_eq!(index.sees("apples", 0), (String::new(), String::new()));
    index.apply(vec![put("a", 1, "apples", 0)], 1);
    let mut none = request(RetrievalMode::Hybrid, "apples", Some(axis(0)));
    none.limit = 0;
    assert_eq!(index.search(&none).hits, []);
    none.depth = 0;
    assert_eq!(index.search(&none).hits, []);
}
